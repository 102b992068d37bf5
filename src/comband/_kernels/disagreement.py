"""Lists that spend their places where candidates disagree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.orders import shuffle_row


@njit(cache=True, nogil=True)
def _all_actions(lists: Any, n_actions: int, lowest: int = 0) -> bool:
    """Whether lists (n, S, m) hold actions only, or with `lowest` −1 none as well; without a way out of its loop, which
    lets it vectorise.
    """
    flat = lists.ravel()
    smallest, largest = np.int32(0), np.int32(0)
    for e in range(len(flat)):
        smallest, largest = min(smallest, flat[e]), max(largest, flat[e])
    return bool(smallest >= lowest and (largest < n_actions or len(flat) == 0))


@njit(cache=True, nogil=True)
def clipped(weight: Any, lower: Any, size: int, m: int, q: Any) -> None:
    """q = clip(t·weight, lower, 1) with Σq = m.

    The sum is linear in t while the same actions are inside their limits: Newton's steps end, after four or five, with
    the t at which these are the right ones. It grows with t, so that a step beyond what is known of t is not taken;
    half way, by logarithms, is. What is lost to rounding goes to actions inside their limits. The answer depends on
    nothing but what is given here: a context has the same probabilities in every batch.
    """
    weights = 0.0
    for a in range(size):
        weights += weight[a]
    t, below, above = m / weights, 0.0, np.inf
    for _ in range(200):
        fixed, slope = 0.0, 0.0
        for a in range(size):
            free = t * weight[a]
            limited = min(max(free, lower[a]), 1.0)
            inside = 1.0 if limited == free else 0.0  # without branches: which it is cannot be guessed
            fixed += limited * (1.0 - inside)
            slope += weight[a] * inside
        if fixed + t * slope > m:
            above = t
        else:
            below = t
        if slope == 0.0 and abs(fixed - m) <= 1e-12 * m:
            break
        step = (m - fixed) / slope if slope > 0.0 else np.inf
        if step == t:
            break
        if not below < step < above:
            step = np.sqrt(below * above) if below > 0.0 and above < np.inf else t * (4.0 if below == t else 0.25)
        if not below < step < above or not 1e-300 < step < 1e24:
            break
        t = step
    total = 0.0
    for a in range(size):
        q[a] = min(max(t * weight[a], lower[a]), 1.0)
        total += q[a]
    rest = m - total
    for a in range(size):
        if rest == 0.0:
            break
        step = min(rest, 1.0 - q[a])
        q[a] += step
        rest -= step


@njit(cache=True, nogil=True)
def systematic(union: Any, q: Any, size: int, u: float, shown: Any, propensities: Any) -> None:
    """Take m of the actions union[:size], each with its probability: points u, u+1, … on the line of cumulated
    probabilities, of which no cell is longer than 1. Fewer than m are all taken, and −1 fills the list, certainly.
    """
    m = min(len(shown), size)
    shown[m:] = -1
    propensities[m:] = 1.0
    edge = 0.0
    taken = 0
    for a in range(size):
        edge += q[a]
        if edge > u + taken or size - a == m - taken:
            shown[taken] = union[a]
            propensities[taken] = q[a]
            taken += 1
            if taken == m:
                break


@njit(cache=True, nogil=True)
def _drawn(shares: Any, u: float) -> int:
    """Whose of the cumulated shares u falls into."""
    edge = 0.0
    last = 0
    for p in range(len(shares)):
        if shares[p] > 0:
            edge += shares[p]
            last = p
            if u < edge:
                break
    return last


@njit(cache=True, nogil=True)
def disagreement_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
    own: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw a list for each context by systematic sampling with the inclusion probabilities of `DisagreementExplorer`,
    or, with probabilities `own` (S,), take that of a policy, if it has no gap there; and put it into random order.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) propensities of disputed actions
    outside the leader's list, disputed ones in it, and undisputed ones; u (n, 2) uniforms, or (0, 2) where no lists are
    wanted. `asked` (n, k) are further actions whose propensities are wanted. −1 is no action, in the lists and in
    `asked`. Returns shown lists (n, m), their propensities (n, m), whether the smallest ones hold (n,), and the
    propensities of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    n_drawn = len(u)
    if len(attention) != n_policies or len(smallest) != 3 or len(asked) != n:
        raise IndexError("disagreement_lists: shapes do not fit together")
    owned = 0.0
    for p in range(len(own)):
        owned += own[p]
    if len(own) != n_policies or not 0 <= owned < 1:
        raise IndexError("disagreement_lists: the shares of policies' own lists must sum to less than 1")
    if u.shape[1] != 2 or (n_drawn != n and n_drawn != 0) or not 0 <= leader < n_policies:
        raise IndexError("disagreement_lists: two numbers per context, or none; and a leader among the policies")
    if not _all_actions(lists, n_actions, -1):
        raise IndexError("disagreement_lists: an action is out of range")
    # Empty and then filled: zeros of every kind would take a tenth of a second each to compile.
    shown, propensities = np.empty((n_drawn, m), dtype=np.int32), np.empty((n_drawn, m))
    covered, of_asked = np.empty(n, dtype=np.bool_), np.empty(asked.shape)
    none = np.uint32(n_actions)
    votes = np.empty(n_actions + 1, dtype=np.int64)  # of each action, in the context at hand; no action comes last,
    care, leads = np.empty(n_actions + 1), np.empty(n_actions + 1, dtype=np.bool_)
    covered[:], of_asked[:], votes[:], care[:], leads[:] = True, 0.0, 0, 0.0, False
    votes[none] = 1  # and is never new
    place = np.empty(n_actions if asked.shape[1] else 0, dtype=np.int64)
    mixed = np.empty(n_actions + 1 if owned > 0 else 0)  # probabilities with which actions are shown in either way
    most = min(n_actions, n_policies * m)
    union = np.empty(most + 1, dtype=np.int64)
    weight, lower, q = np.empty(most), np.empty(most), np.empty(most)
    share, whole = np.empty(n_policies + 1), np.empty(n_policies)
    for v in range(n_policies + 1):
        share[v] = v / n_policies + 0.01
    for i in range(n):
        size: Any = np.int64(0)  # of one type from the start: nothing is compiled for a 0
        for p in range(n_policies):
            for k in range(m):
                z = min(np.uint32(lists[i, p, k]), none)  # without a sign: −1 is the largest number
                union[size] = z
                size += votes[z] == 0  # it counts if it is new: without a branch, which could not be predicted
                votes[z] += 1
        for p in range(n_policies):
            for k in range(m):
                care[min(np.uint32(lists[i, p, k]), none)] += attention[p]
        for k in range(m):
            leads[min(np.uint32(lists[i, leader, k]), none)] = True
        total_lower = 0.0
        for a in range(size):
            y = union[a]
            if votes[y] == n_policies:
                weight[a] = 1e-9
                lower[a] = smallest[2]
            else:
                matters = 1.0 - care[y] if leads[y] else care[y]
                weight[a] = np.sqrt(max(matters, 1e-9) * share[votes[y]])
                lower[a] = smallest[1] if leads[y] else smallest[0]
            total_lower += lower[a]
        if total_lower > m:
            covered[i] = False
            for a in range(size):
                lower[a] *= m / total_lower
        if size > m:
            clipped(weight, lower, size, m, q)
        else:
            q[:size] = 1.0
        here = owned
        if owned > 0:
            here = 0.0
            for p in range(n_policies):
                whole[p] = own[p]
                for k in range(m if own[p] > 0 else 0):
                    if lists[i, p, k] < 0:  # a policy without an answer makes no list shorter
                        whole[p] = 0.0
                here += whole[p]
            for a in range(size):
                mixed[union[a]] = (1 - here) * q[a]
            for p in range(n_policies):
                for k in range(m if whole[p] > 0 else 0):
                    mixed[lists[i, p, k]] += whole[p]
        if n_drawn:
            if u[i, 0] < here:
                p = _drawn(whole, u[i, 0])
                for k in range(m):  # one by one: two seconds less to compile than a row at once
                    shown[i, k] = lists[i, p, k]
            else:
                systematic(union, q, size, (u[i, 0] - here) / (1 - here), shown[i], propensities[i])
            for k in range(m if owned > 0 else 0):
                propensities[i, k] = mixed[shown[i, k]] if shown[i, k] >= 0 else 1.0
            shuffle_row(shown[i], propensities[i], u[i, 1])
        if asked.shape[1]:
            for a in range(size):
                place[union[a]] = a
            for k in range(asked.shape[1]):
                y = asked[i, k]
                if not -1 <= y < n_actions:
                    raise IndexError("disagreement_lists: an action that was asked for is out of range")
                if y < 0:
                    of_asked[i, k] = 1.0
                elif votes[y] > 0:
                    of_asked[i, k] = mixed[y] if owned > 0 else q[place[y]]
        for a in range(size):
            votes[union[a]], care[union[a]], leads[union[a]] = 0, 0.0, False
    return shown, propensities, covered, of_asked


@njit(cache=True, nogil=True)
def disputed_counts(lists: NDArray[np.int32], leader: int, n_actions: int) -> NDArray[np.int64]:
    """How many actions outside the leader's list stand in some other of lists (n, S, m), for each context."""
    n, n_policies, m = lists.shape
    counts = np.zeros(n, dtype=np.int64)
    none = np.uint32(n_actions)
    stamp = np.full(n_actions + 1, -1, dtype=np.int64)
    if not 0 <= leader < n_policies:
        raise IndexError("disputed_counts: the leader is not among the policies")
    if not _all_actions(lists, n_actions, -1):
        raise IndexError("disputed_counts: an action is out of range")
    for i in range(n):
        stamp[none] = i
        for k in range(m):
            stamp[min(np.uint32(lists[i, leader, k]), none)] = i
        count: Any = np.int64(0)
        for p in range(n_policies):
            for k in range(m):
                z = min(np.uint32(lists[i, p, k]), none)
                count += stamp[z] != i  # without a branch, which could not be predicted
                stamp[z] = i
        counts[i] = count
    return counts
