"""Lists that spend their places where candidates disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _all_actions(lists: Any, n_actions: int) -> bool:
    """Whether lists (n, S, m) hold actions only; without a way out of its loops, which lets them vectorise."""
    n, n_policies, m = lists.shape
    wrong = 0
    for i in range(n):
        for p in range(n_policies):
            for k in range(m):
                wrong |= (lists[i, p, k] < 0) | (lists[i, p, k] >= n_actions)
    return wrong == 0


@njit(cache=True, nogil=True)
def _clipped_sum(t: float, weight: Any, lower: Any, size: int) -> tuple[float, float]:
    """Σ_a clip(t·weight, lower, 1), and its derivative by log t."""
    total, slope = 0.0, 0.0
    for a in range(size):
        free = t * weight[a]
        total += min(max(free, lower[a]), 1.0)
        if lower[a] < free < 1.0:
            slope += free
    return total, slope


@njit(cache=True, nogil=True)
def clipped(weight: Any, lower: Any, size: int, m: int, last: float, q: Any) -> float:
    """q = clip(t·weight, lower, 1) with Σq = m; returns log t, the best `last` to begin with in a similar case.

    Bisection on log t, then the rest goes to actions inside their limits. The sum grows with t, so what Newton's steps
    find out first spares the bisection most of its own.
    """
    below, above = -np.inf, np.inf
    log_t = last
    for _ in range(12):
        total, slope = _clipped_sum(np.exp(log_t), weight, lower, size)
        if total > m:
            above = min(above, log_t)
        else:
            below = max(below, log_t)
        step = (m - total) / slope if slope > 0 else 0.0
        width = 4e-16 * max(abs(log_t), 1.0)
        if abs(step) < width:
            step = width if total <= m else -width  # to the other side, so that both are known
        if not (below < log_t + step < above and -25.0 < log_t + step < 50.0):
            break
        log_t += step
    small, large = -25.0, 50.0
    for _ in range(60):
        middle = 0.5 * (small + large)
        if middle >= above or (middle > below and _clipped_sum(np.exp(middle), weight, lower, size)[0] > m):
            large = middle
        else:
            small = middle
    t = np.exp(small)
    total = 0.0
    for a in range(size):
        q[a] = min(max(t * weight[a], lower[a]), 1.0)
        total += q[a]
    rest = m - total
    for a in range(size):
        step = min(rest, 1.0 - q[a])
        q[a] += step
        rest -= step
    return small


@njit(cache=True, nogil=True)
def systematic(union: Any, q: Any, size: int, u: float, shown: Any, propensities: Any) -> None:
    """Take m of the actions union[:size], each with its probability: points u, u+1, … on the line of cumulated
    probabilities, of which no cell is longer than 1.
    """
    m = len(shown)
    edge = 0.0
    taken = 0
    for a in range(size):
        edge += q[a]
        if taken < m and (edge > u + taken or size - a == m - taken):
            shown[taken] = union[a]
            propensities[taken] = q[a]
            taken += 1


@njit(cache=True, nogil=True)
def disagreement_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int32], NDArray[np.float64]]:
    """Draw a list for each context by systematic sampling with the inclusion probabilities of `DisagreementExplorer`.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) propensities of disputed actions
    outside the leader's list, disputed ones in it, and undisputed ones; u (n,) uniforms. `asked` (n, k) are further
    actions whose propensities are wanted. Returns shown lists (n, m), their propensities (n, m), whether the smallest
    ones hold (n,), how many actions have a positive probability (n,), and the propensities of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    if len(attention) != n_policies or len(smallest) != 3 or len(u) != n or len(asked) != n:
        raise IndexError("disagreement_lists: shapes do not fit together")
    if not _all_actions(lists, n_actions):
        raise IndexError("disagreement_lists: an action is out of range")
    shown = np.zeros((n, m), dtype=np.int32)
    propensities = np.zeros((n, m))  # no propensity at all where a list came out too short
    covered = np.ones(n, dtype=np.bool_)
    sizes = np.empty(n, dtype=np.int32)
    of_asked = np.zeros(asked.shape)
    place = np.full(n_actions, -1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most, dtype=np.int64)
    votes = np.empty(most, dtype=np.int64)
    care = np.empty(most)
    leads = np.empty(most, dtype=np.bool_)
    weight = np.empty(most)
    lower = np.empty(most)
    q = np.empty(most)
    last = 0.0
    for i in range(n):
        size: Any = np.int64(0)  # of one type from the start: nothing is compiled for a 0
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
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
        total_lower = 0.0
        for a in range(size):
            if votes[a] == n_policies:
                weight[a] = 1e-9
                lower[a] = smallest[2]
            else:
                matters = 1.0 - care[a] if leads[a] else care[a]
                weight[a] = np.sqrt(max(matters, 1e-9) * (votes[a] / n_policies + 0.01))
                lower[a] = smallest[1] if leads[a] else smallest[0]
            total_lower += lower[a]
        if total_lower > m:
            covered[i] = False
            for a in range(size):
                lower[a] *= m / total_lower
        last = clipped(weight, lower, size, m, last, q)
        systematic(union, q, size, u[i], shown[i], propensities[i])
        for k in range(asked.shape[1]):
            y = asked[i, k]
            if not 0 <= y < n_actions:
                raise IndexError("disagreement_lists: an action that was asked for is out of range")
            if place[y] >= 0:
                of_asked[i, k] = q[place[y]]
        for a in range(size):
            place[union[a]] = -1
        sizes[i] = size
    return shown, propensities, covered, sizes, of_asked


@njit(cache=True, nogil=True)
def disputed_counts(lists: NDArray[np.int32], leader: int, n_actions: int) -> NDArray[np.int64]:
    """How many actions outside the leader's list stand in some other of lists (n, S, m), for each context."""
    n, n_policies, m = lists.shape
    counts = np.zeros(n, dtype=np.int64)
    stamp = np.full(n_actions, -1, dtype=np.int64)
    if not 0 <= leader < n_policies:
        raise IndexError("disputed_counts: the leader is not among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("disputed_counts: an action is out of range")
    for i in range(n):
        for k in range(m):
            stamp[lists[i, leader, k]] = i
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if stamp[y] != i:
                    stamp[y] = i
                    counts[i] += 1
    return counts
