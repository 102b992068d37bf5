"""First actions of lists that are filled up uniformly."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def first_actions(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    lowest: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw one of the actions in any of lists (n, S, m) for each context, with the law of `MidzunoExplorer`.

    attention (S,) sums to 1 with 0 for the leader; lowest (3,) are the smallest probabilities of disputed actions
    outside the leader's list, of disputed ones in it, and of undisputed ones; u (n,) uniforms. `asked` (n, k) are
    actions whose probabilities of being drawn are wanted. Returns the actions (n,), whether `lowest` holds (n,), and
    the probabilities of `asked` (n, k), 0 for actions on no list.
    """
    n, n_policies, m = lists.shape
    if len(attention) != n_policies or len(lowest) != 3 or len(u) != n or len(asked) != n:
        raise IndexError("first_actions: shapes do not fit together")
    if not 0 <= leader < n_policies:
        raise IndexError("first_actions: the leader is not among the policies")
    first = np.zeros(n, dtype=np.int32)
    covered = np.ones(n, dtype=np.bool_)
    of_asked = np.zeros(asked.shape)
    place = np.full(n_actions, -1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most, dtype=np.int64)
    votes = np.empty(most, dtype=np.int64)
    care = np.empty(most)
    leads = np.empty(most, dtype=np.bool_)
    weight = np.empty(most)
    q = np.empty(most)
    for i in range(n):
        size = 0
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if not 0 <= y < n_actions:
                    raise IndexError("first_actions: an action is out of range")
                if place[y] < 0:
                    place[y] = size
                    union[size] = y
                    votes[size] = 0
                    care[size] = 0.0
                    leads[size] = False
                    size += 1
                votes[place[y]] += 1
                care[place[y]] += attention[p]
                if p == leader:
                    leads[place[y]] = True
        least, total = 0.0, 0.0
        for a in range(size):
            if votes[a] == n_policies:
                weight[a], q[a] = 0.0, lowest[2]
            else:
                matters = 1.0 - care[a] if leads[a] else care[a]
                weight[a] = np.sqrt(max(matters, 1e-9) * (votes[a] / n_policies + 0.01))
                q[a] = lowest[1] if leads[a] else lowest[0]
            least += q[a]
            total += weight[a]
        if least > 1.0 or total == 0.0:
            covered[i] = least <= 1.0
            for a in range(size):
                q[a] /= least
        else:
            for a in range(size):
                q[a] += (1.0 - least) * weight[a] / total
        edge = 0.0
        for a in range(size):
            edge += q[a]
            if u[i] < edge or a == size - 1:
                first[i] = union[a]
                break
        for k in range(asked.shape[1]):
            y = asked[i, k]
            if not 0 <= y < n_actions:
                raise IndexError("first_actions: an action that was asked for is out of range")
            if place[y] >= 0:
                of_asked[i, k] = q[place[y]]
        for a in range(size):
            place[union[a]] = -1
    return first, covered, of_asked
