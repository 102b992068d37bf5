"""Loops over lists of actions: drawing uniform ones, the best by score, who shows what."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.numbering import FEW_ITEMS, Numbered
from comband._kernels.rising import end_of


@njit(cache=True, nogil=True)
def uniform_lists(u: NDArray[np.float64], n_actions: int) -> NDArray[np.int32]:
    """Uniform m-subsets of {0 … K−1} from uniforms u (n, m), O(m) each: Floyd's algorithm with a small hash table.

    m numbers per list, always: the same stream of numbers gives the same lists however it is cut into batches.
    """
    n, m = u.shape
    lists = np.empty((n, m), dtype=np.int32)
    size = 4
    while size < 2 * m:
        size *= 2
    keys = np.empty(size, dtype=np.int64)
    stamp = np.full(size, -1, dtype=np.int64)  # which row last wrote the slot: no clearing between rows
    for i in range(n):
        for k in range(m):
            top = n_actions - m + k
            y = int(u[i, k] * (top + 1))
            if not 0 <= y <= top:  # rounding, or a number that is no uniform one
                y = top
            for _ in range(2):  # second pass only if y was taken: then `top` itself, which cannot be taken yet
                slot = (y * 2654435761) & (size - 1)
                taken = False
                while stamp[slot] == i:
                    if keys[slot] == y:
                        taken = True
                        break
                    slot = (slot + 1) & (size - 1)
                if not taken:
                    stamp[slot] = i
                    keys[slot] = y
                    break
                y = top
            lists[i, k] = y
    return lists


@njit(cache=True, nogil=True)
def top_lists(scores: NDArray[np.float64], rank: NDArray[np.int32], m: int) -> NDArray[np.int32]:
    """The m best of each row of scores (n, B, K), best first; equal scores go by `rank` (B, K), lowest first.

    A row that holds NaN is answered with −1 in its first place.
    """
    n, n_blocks, n_actions = scores.shape
    if rank.shape != (n_blocks, n_actions) or m > n_actions:
        raise IndexError("top_lists: shapes do not fit together")
    lists = np.empty((n, n_blocks, m), dtype=np.int32)
    best = np.empty(m, dtype=scores.dtype)
    for i in range(n):
        for b in range(n_blocks):
            _top(scores[i, b], 0, rank[b], best, lists[i, b], 0)
    return lists


_TILE = 512  # actions whose weights stay in the cache while a batch goes by


@njit(cache=True, nogil=True)
def linear_top_lists(
    X: NDArray[np.floating[Any]],
    weights: NDArray[np.floating[Any]],
    which: NDArray[np.int64],
    rank: NDArray[np.int32],
    lists: NDArray[np.int32],
    first: int,
    last: int,
) -> None:
    """`top_lists` of the scores X @ W_p, for X (n, d) and weights (d, P, K) of one precision: lists[:, b] is that of
    policy which[b], for b in first … last − 1.

    Weights are read once for all contexts, a tile of actions at a time. Scores stay in the cache, and each is summed in
    one order: a context gets the same list in any batch.
    """
    n, d = X.shape
    m, n_actions = lists.shape[2], weights.shape[2]
    if d != len(weights) or len(rank) != weights.shape[1] or rank.shape[1] != n_actions or m > n_actions:
        raise IndexError("linear_top_lists: shapes do not fit together")
    if len(lists) != n or lists.shape[1] != len(which) or not 0 <= first <= last <= len(which):
        raise IndexError("linear_top_lists: a list for each context and policy")
    scores = np.empty(_TILE, dtype=weights.dtype)
    best = np.empty((n, m), dtype=weights.dtype)
    sizes = np.empty(n, dtype=np.int64)
    for b in range(first, last):
        p = which[b]
        if not 0 <= p < len(rank):
            raise IndexError("linear_top_lists: a policy is out of range")
        sizes[:] = 0
        for start in range(0, n_actions, _TILE):
            tile = scores[: min(_TILE, n_actions - start)]
            for i in range(n):
                if sizes[i] >= 0:
                    _linear_scores(X[i], weights, p, start, tile)
                    sizes[i] = _top(tile, start, rank[p], best[i], lists[i, b], sizes[i])


@njit(cache=True, nogil=True)
def _linear_scores(x: Any, weights: Any, p: int, start: int, scores: Any) -> None:
    """Σ_f x_f W_p[f, y] for actions y from `start` on, each summed from f = 0 on, four features a pass."""
    d, stop = len(x), start + len(scores)
    scores[:] = 0
    f = 0
    while f + 4 <= d:
        x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
        w0, w1 = weights[f, p, start:stop], weights[f + 1, p, start:stop]
        w2, w3 = weights[f + 2, p, start:stop], weights[f + 3, p, start:stop]
        for y in range(len(scores)):
            scores[y] = (((scores[y] + x0 * w0[y]) + x1 * w1[y]) + x2 * w2[y]) + x3 * w3[y]
        f += 4
    while f < d:
        x0, w0 = x[f], weights[f, p, start:stop]
        for y in range(len(scores)):
            scores[y] += x0 * w0[y]
        f += 1


@njit(cache=True, nogil=True)
def _top(scores: Any, first: int, rank: Any, best: Any, chosen: Any, size: int) -> int:
    """Go on with a list of the best of which `size` are found by the scores of actions from `first` on; how many there
    are then, or −1 if a score is NaN, which chosen[0] says too.

    In memory order: all but the few actions that enter the list cost a single comparison, by 32 at a time.
    """
    m = len(chosen)
    threshold = best[m - 1] if size == m else -np.inf
    for block in range(0, len(scores), 32):
        end = min(block + 32, len(scores))
        if size == m:
            better = 0
            for y in range(block, end):  # without a way out, which lets it vectorise
                better |= 0 if scores[y] < threshold else 1
            if better == 0:
                continue
        for y in range(block, end):
            value = scores[y]
            if value < threshold:
                continue
            if value != value:
                chosen[0] = -1
                return -1
            if size < m:
                k = size
                size += 1
            elif value == threshold and rank[first + y] > rank[chosen[m - 1]]:
                continue
            else:
                k = m - 1
            while k > 0 and (best[k - 1] < value or (best[k - 1] == value and rank[chosen[k - 1]] > rank[first + y])):
                best[k] = best[k - 1]
                chosen[k] = chosen[k - 1]
                k -= 1
            best[k] = value
            chosen[k] = first + y
            if size == m:
                threshold = best[m - 1]
    return size


@njit(cache=True, nogil=True)
def valid_lists(lists: NDArray[np.int32], n_actions: int) -> bool:
    """Whether every row (n, m) holds distinct actions in 0 … n_actions − 1."""
    n, m = lists.shape
    size = 4
    while size < 2 * m:
        size *= 2
    keys = np.empty(size, dtype=np.int32)  # a table of what is in the list, as in `uniform_lists`
    stamp = np.full(size, -1, dtype=np.int64)
    for i in range(n):
        for j in range(m):
            if lists[i, j] < 0 or lists[i, j] >= n_actions:
                return False
        if m <= 32:
            for j in range(1, m):
                for k in range(j):
                    if lists[i, j] == lists[i, k]:
                        return False
        else:
            for j in range(m):
                slot = (lists[i, j] * 2654435761) & (size - 1)
                while stamp[slot] == i:
                    if keys[slot] == lists[i, j]:
                        return False
                    slot = (slot + 1) & (size - 1)
                stamp[slot] = i
                keys[slot] = lists[i, j]
    return True


@njit(cache=True, nogil=True)
def valid_rewards(rewards: NDArray[np.float64], least: float, most: float) -> bool:
    """Whether all are 0 or in [least, 1] and no row sums above `most`."""
    for i in range(rewards.shape[0]):
        total = 0.0
        for j in range(rewards.shape[1]):
            r = rewards[i, j]
            if not (r == 0.0 or least <= r <= 1.0):
                return False
            total += r
        if total > most:
            return False
    return True


@njit(cache=True, nogil=True)
def valid_propensities(propensities: NDArray[np.float64], least: float, most: float) -> bool:
    """Whether all are in [least, most], or NaN throughout their row."""
    n, m = propensities.shape
    for i in range(n):
        unknown = 0
        for j in range(m):
            q = propensities[i, j]
            if np.isnan(q):
                unknown += 1
            elif not least <= q <= most:
                return False
        if unknown != 0 and unknown != m:
            return False
    return True


@njit(cache=True, nogil=True)
def valid_events(
    rows: NDArray[np.int64],
    n_rewarded: int,
    actions: NDArray[np.int32],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    least_reward: float,
    least: float,
    most: float,
) -> bool:
    """Whether rows ascend within 0 … n_rewarded − 1, no action is negative, and rewards and propensities are fit to be
    divided.
    """
    before = 0
    for e in range(len(rows)):
        if not (before <= rows[e] < n_rewarded and actions[e] >= 0):
            return False
        if not (least_reward <= rewards[e] <= 1.0 and least <= propensities[e] <= most):
            return False
        before = rows[e]
    return True


@njit(cache=True, nogil=True)
def draw_policies(cumulative: NDArray[np.float64], u: NDArray[np.float64], floor: float) -> NDArray[np.int64]:
    """A policy for each row of u (n, ≥ 1), by the first number: −1 with probability `floor`, else by its weight."""
    last = len(cumulative) - 1
    if last < 0 or u.shape[1] == 0:
        raise IndexError("draw_policies: at least one policy, and a number for each row")
    drawn = np.empty(len(u), dtype=np.int64)
    for i in range(len(u)):
        if u[i, 0] < floor:
            drawn[i] = -1
        else:
            v = (u[i, 0] - floor) / (1 - floor) * cumulative[last]
            drawn[i] = min(end_of(cumulative, 0, last, v), last)
    return drawn


def inclusion(
    lists: NDArray[np.int32], weights: NDArray[np.float64], shown: NDArray[np.int32], n_actions: int
) -> NDArray[np.float64]:
    """Σ_p weights[p]·1[shown[i, j] ∈ lists[i, p]], for lists (n, P, m) and shown (n, k): O(P·m) per row, whatever K is.
    −1 is no action; 1 where that is shown.
    """
    if n_actions <= FEW_ITEMS:
        return _inclusion(lists, weights, shown, n_actions)
    if len(shown) != len(lists):
        raise IndexError("inclusion: a row of shown actions for each context")
    # What is shown gets numbers; of what the lists hold, the rest does not matter.
    few = Numbered(shown[:, None], lists.reshape(len(lists), lists.shape[1] * lists.shape[2]), n_actions)
    return _inclusion(few.asked.reshape(lists.shape), weights, few.lists[:, 0], few.n_actions)


@njit(cache=True, nogil=True)
def _inclusion(
    lists: NDArray[np.int32], weights: NDArray[np.float64], shown: NDArray[np.int32], n_actions: int
) -> NDArray[np.float64]:
    """As `inclusion`, with room for n_actions items."""
    n, n_policies, m = lists.shape
    if len(shown) != n or len(weights) != n_policies:
        raise IndexError("inclusion: a row of shown actions for each context, a weight for each policy")
    result = np.empty(shown.shape, dtype=np.float64)
    mass = np.zeros(n_actions, dtype=np.float64)
    wanted = np.zeros(n_actions, dtype=np.bool_)
    row = np.empty(shown.shape[1], dtype=np.int64)  # read once: another thread may write to what is shown
    for i in range(n):
        for j in range(len(row)):
            row[j] = shown[i, j]
            if not -1 <= row[j] < n_actions:
                raise IndexError("inclusion: an action is out of range")
            if row[j] >= 0:
                wanted[row[j]] = True
        block = lists[i]
        for p in range(n_policies):
            for j in range(m):
                y = np.uint32(block[p, j])  # unsigned: one comparison keeps it in range
                if y < np.uint32(n_actions) and wanted[y]:
                    mass[y] += weights[p]
        for j in range(len(row)):
            result[i, j] = mass[row[j]] if row[j] >= 0 else 1.0
        for j in range(len(row)):
            if row[j] >= 0:
                mass[row[j]] = 0.0
                wanted[row[j]] = False
    return result


@njit(cache=True, nogil=True, inline="always")
def _listed(block: NDArray[np.int32], y: int, m: int, found: NDArray[np.bool_]) -> None:
    """Whether y is among the first m actions of each row; to the end, as no branch could be predicted."""
    for p in range(len(found)):
        hit = False
        for j in range(m):
            hit |= block[p, j] == y
        found[p] = hit


@njit(cache=True, nogil=True)
def contains(lists: NDArray[np.int32], rows: NDArray[np.int64], actions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether actions[e] ∈ lists[rows[e], p], for lists (n, P, m): a matrix (E, P)."""
    n_events, n_policies, m = len(rows), lists.shape[1], lists.shape[2]
    if len(actions) != n_events:
        raise IndexError("contains: one action for each row")
    found = np.empty((n_events, n_policies), dtype=np.bool_)
    for e in range(n_events):
        i, y = rows[e], actions[e]
        if not 0 <= i < len(lists):
            raise IndexError("contains: a row is out of range")
        block, own = lists[i], found[e]
        # A short length that the compiler knows lets it compare several lists at once: a third to a ninth of the time.
        if m == 1:
            _listed(block, y, 1, own)
        elif m == 2:
            _listed(block, y, 2, own)
        elif m == 3:
            _listed(block, y, 3, own)
        elif m == 4:
            _listed(block, y, 4, own)
        elif m == 5:
            _listed(block, y, 5, own)
        elif m == 6:
            _listed(block, y, 6, own)
        else:
            _listed(block, y, m, own)
    return found


@njit(cache=True, nogil=True)
def credit(
    lists: NDArray[np.int32],
    rows: NDArray[np.int64],
    actions: NDArray[np.int32],
    amounts: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """totals[p] += amounts[e] for every event e with actions[e] ∈ lists[rows[e], p], for lists (n, P, m)."""
    n_policies, m = lists.shape[1], lists.shape[2]
    if len(actions) != len(rows) or len(amounts) != len(rows) or len(totals) != n_policies:
        raise IndexError("credit: shapes do not fit together")
    for e in range(len(rows)):
        i = rows[e]
        if not 0 <= i < len(lists):
            raise IndexError("credit: a row is out of range")
        block, y, amount = lists[i], actions[e], amounts[e]
        for p in range(n_policies):
            hit = 0
            for j in range(m):
                hit |= 1 if block[p, j] == y else 0
            totals[p] += amount * hit
