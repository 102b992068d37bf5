"""The hot loops, compiled by numba and cached. Each has a plain numpy twin in the tests."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

# ---- lists -----------------------------------------------------------------------------------------------------------


@njit(cache=True)
def uniform_lists(u: NDArray[np.float64], n_actions: int) -> NDArray[np.int32]:
    """Uniform m-subsets of {0 … K−1} from uniforms u (n, m), O(m) each: Floyd's algorithm with a small hash table.

    m numbers a list, always: the same stream of numbers gives the same lists however it is cut into batches.
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
            if y > top:
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


@njit(cache=True)
def top_lists(scores: NDArray[np.float64], rank: NDArray[np.int32], m: int) -> NDArray[np.int32]:
    """The m best of each row of scores (n, B, K), best first; equal scores go by `rank` (B, K), lowest first.

    One pass in memory order: all but the few actions that enter the list cost a single comparison. A row that holds NaN
    is answered with −1 in its first place.
    """
    n, n_blocks, n_actions = scores.shape
    lists = np.empty((n, n_blocks, m), dtype=np.int32)
    best = np.empty(m, dtype=scores.dtype)
    for i in range(n):
        for b in range(n_blocks):
            size = 0
            threshold = -np.inf
            for y in range(n_actions):
                value = scores[i, b, y]
                if value < threshold:
                    continue
                if value != value:
                    lists[i, b, 0] = -1
                    break
                if size < m:
                    k = size
                    size += 1
                elif value == threshold and rank[b, y] > rank[b, lists[i, b, m - 1]]:
                    continue
                else:
                    k = m - 1
                while k > 0 and (
                    best[k - 1] < value or (best[k - 1] == value and rank[b, lists[i, b, k - 1]] > rank[b, y])
                ):
                    best[k] = best[k - 1]
                    lists[i, b, k] = lists[i, b, k - 1]
                    k -= 1
                best[k] = value
                lists[i, b, k] = y
                if size == m:
                    threshold = best[m - 1]
    return lists


@njit(cache=True)
def inclusion(
    lists: NDArray[np.int32], weights: NDArray[np.float64], shown: NDArray[np.int32], n_actions: int
) -> NDArray[np.float64]:
    """Σ_p weights[p]·1[shown[i, j] ∈ lists[i, p]], for lists (n, P, m) and shown (n, k): O(P·m) a row."""
    n, n_policies, m = lists.shape
    result = np.empty(shown.shape, dtype=np.float64)
    mass = np.zeros(n_actions, dtype=np.float64)
    for i in range(n):
        for p in range(n_policies):
            for j in range(m):
                mass[lists[i, p, j]] += weights[p]
        for j in range(shown.shape[1]):
            result[i, j] = mass[shown[i, j]]
        for p in range(n_policies):
            for j in range(m):
                mass[lists[i, p, j]] = 0.0
    return result


@njit(cache=True)
def contains(lists: NDArray[np.int32], rows: NDArray[np.int64], actions: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether actions[e] ∈ lists[rows[e], p], for lists (n, P, m): a matrix (E, P)."""
    n_events, n_policies, m = len(rows), lists.shape[1], lists.shape[2]
    found = np.zeros((n_events, n_policies), dtype=np.bool_)
    for e in range(n_events):
        i, y = rows[e], actions[e]
        for p in range(n_policies):
            for j in range(m):
                if lists[i, p, j] == y:
                    found[e, p] = True
                    break
    return found
