"""Dependent rounding: lists with one item in each place, from a probability for each item in each place.

Rounding takes probabilities to zeros and ones by steps of mean zero that keep all sums (Gandhi, Khuller, Parthasarathy
& Srinivasan 2006). Places sum to one, and so do items if what they lack counts as a place of its own, "not shown".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from comband._kernels.orders import next_uniform

# Probabilities count as 0 or 1 when they are that close: sums of thousands of steps stay below.
RESIDUE = 1e-11


@njit(cache=True, nogil=True)
def _is_open(f: float) -> bool:
    """Neither 0 nor 1."""
    return RESIDUE < f < 1.0 - RESIDUE


@njit(cache=True, nogil=True)
def _pick(state: np.uint64, f: Any, start: int, stop: int, total: float) -> tuple[np.uint64, int]:
    """One of f[start:stop], whose sum is `total`, each with its share of it."""
    state, uniform = next_uniform(state)
    point, edge = uniform * total, 0.0
    one = start
    for j in range(start, stop - 1):
        edge += f[j]
        one += edge <= point
    return state, one


@njit(cache=True, nogil=True)
def _coin(state: np.uint64, up: float, down: float) -> tuple[np.uint64, float]:
    """+up or −down, with mean zero."""
    state, uniform = next_uniform(state)
    return state, (up if uniform * (up + down) < down else -down)


@njit(cache=True, nogil=True)
def _gather(items: Any, f: Any, which: Any, n: int, unshown: Any, state: np.uint64) -> tuple[np.uint64, int]:
    """Of items of one place, items[which[:n]] with probabilities f[:n], groups leave one each, which has it all.

    A group may have in sum what each of its items could have alone, f and what is `unshown` of it: the one that is left
    is picked with its share of the sum. Items that could have less than the group has stay alone. The number of items
    that are left is returned; they are which[:left], with f[:left].
    """
    left, start = 0, 0
    total, room = 0.0, np.inf
    for j in range(n + 1):
        v, fits, mine = 0.0, False, 0.0
        if j < n:
            v = f[j]
            mine = v + unshown[items[which[j]]]
            fits = total + v <= min(room, mine)
        if fits:
            total += v
            room = min(room, mine)
            continue
        if j < n and mine < total + v:  # stays alone; the first of the group moves into its place
            one, f[j], which[j] = which[j], f[start], which[start]
            f[left], which[left] = v, one
            left += 1
            start += 1
            continue
        if start < j:
            state, winner = _pick(state, f, start, j, total)
            for e in range(start, j):
                unshown[items[which[e]]] += f[e]
            one = which[winner]
            unshown[items[one]] = max(unshown[items[one]] - total, 0.0)
            f[left], which[left] = total, one
            left += 1
        start, total, room = j, v, mine
    return state, left


@njit(cache=True, nogil=True)
def _round_within_places(f: Any, size: int, m: int, state: np.uint64) -> np.uint64:
    """The shortest cycles first, of two items, one place and "not shown": of the items of a place that may be left out
    one is left over, without a walk. Items that must be shown are m at most.
    """
    for k in range(m):
        h = -1
        for a in range(size):
            if not (_is_open(f[a, k]) and _is_open(f[a, m])):
                continue
            if h < 0:
                h = a
                continue
            up = min(min(1.0 - f[h, k], f[a, k]), min(f[h, m], 1.0 - f[a, m]))
            down = min(min(f[h, k], 1.0 - f[a, k]), min(1.0 - f[h, m], f[a, m]))
            state, change = _coin(state, up, down)
            f[h, k] += change
            f[h, m] -= change
            f[a, k] -= change
            f[a, m] += change
            if not (_is_open(f[h, k]) and _is_open(f[h, m])):
                h = a if _is_open(f[a, k]) and _is_open(f[a, m]) else -1
    return state


@njit(cache=True, nogil=True)
def _drop(k: int, a: int, position: Any, members: Any, count: Any) -> None:
    """Item a is no longer open in place k."""
    i, last = position[a, k], members[k, count[k] - 1]
    members[k, i] = last
    position[last, k] = i
    position[a, k] = -1
    count[k] -= 1


@njit(cache=True, nogil=True)
def _round_matrix(f: Any, size: int, m: int, state: np.uint64, members: Any, position: Any, walk: Any) -> np.uint64:
    """Round f (size, m + 1) to zeros and ones: along cycles.

    Rows (items) and the first m columns (places), unless they are empty, sum to one; the last column stands for "not
    shown". Every row and column that has an open entry then has two, so a walk along them closes a cycle; entries along
    it rise and fall in turn by one amount until one of them is whole, by a coin of mean zero. members (m + 1, size),
    position (size, m + 1) and walk (6, 2m + 6) are room to work in.
    """
    state = _round_within_places(f, size, m, state)
    walk_places, walk_items, step_of, cycle_items, cycle_places, count = walk
    count[: m + 1], step_of[: m + 1] = 0, -1
    for a in range(size):
        for k in range(m + 1):
            if _is_open(f[a, k]):
                position[a, k] = count[k]
                members[k, count[k]] = a
                count[k] += 1
            else:
                position[a, k] = -1
                f[a, k] = 1.0 if f[a, k] >= 0.5 else 0.0
    start = 0
    while True:
        while start <= m and count[start] < 2:
            start += 1
        if start > m:
            break
        # place walk_places[0] - item walk_items[0] - place walk_places[1] - item walk_items[1] - …
        length, before, n_edges = 0, -1, 0
        walk_places[0] = start
        step_of[start] = 0
        while True:
            k = walk_places[length]
            a = members[k, count[k] - 1]
            if count[k] < 2:
                n_edges = -1
                break
            if a == before:
                a = members[k, count[k] - 2]
            hit = -1
            for j in range(length):
                if walk_items[j] == a:
                    hit = j
                    break
            if hit >= 0:
                for j in range(hit, length):
                    cycle_items[n_edges], cycle_places[n_edges] = walk_items[j], walk_places[j + 1]
                    after = walk_items[j + 1] if j + 1 < length else a
                    cycle_items[n_edges + 1], cycle_places[n_edges + 1] = after, walk_places[j + 1]
                    n_edges += 2
                break
            walk_items[length] = a
            other = -1
            for j in range(m + 1):
                if j != k and position[a, j] >= 0:
                    other = j
                    break
            if other < 0:
                n_edges = -1
                break
            if step_of[other] >= 0:
                for j in range(step_of[other], length + 1):
                    cycle_items[n_edges], cycle_places[n_edges] = walk_items[j], walk_places[j]
                    after = walk_places[j + 1] if j < length else other
                    cycle_items[n_edges + 1], cycle_places[n_edges + 1] = walk_items[j], after
                    n_edges += 2
                break
            length += 1
            walk_places[length] = other
            step_of[other] = length
            before = a
        for j in range(length + 1):
            step_of[walk_places[j]] = -1
        if n_edges < 0:  # what is left of rounding errors: one open entry alone in its row or column
            f[a, k] = 1.0 if f[a, k] >= 0.5 else 0.0
            _drop(k, a, position, members, count)
            continue
        up, down = 2.0, 2.0
        for e in range(n_edges):
            v = f[cycle_items[e], cycle_places[e]]
            if e % 2 == 0:
                up, down = min(up, 1.0 - v), min(down, v)
            else:
                up, down = min(up, v), min(down, 1.0 - v)
        state, change = _coin(state, up, down)
        for e in range(n_edges):
            a, k = cycle_items[e], cycle_places[e]
            f[a, k] += change if e % 2 == 0 else -change
            if not _is_open(f[a, k]):
                f[a, k] = 1.0 if f[a, k] > 0.5 else 0.0
                _drop(k, a, position, members, count)
    return state


@njit(cache=True, nogil=True)
def round_places(
    items: Any, q: Any, count: Any, unshown: Any, state: np.uint64, row_of: Any, floats: Any, whole: Any, out: Any
) -> None:
    """A list: out[k] becomes the position in items[k, :count[k]] of the item in place k.

    The item there has the probability q[k, :], and unshown[y] that of item y to be in no place. All that is left to do
    once the items of each place are gathered in groups is a small matrix. row_of (K,) is −1 everywhere, and so again
    afterwards; floats and whole are room to work in, see `working_room`.
    """
    m = len(count)
    f, matrix = floats
    which, members, position, walk, left = whole
    size = 0
    for k in range(m):
        for j in range(count[k]):
            f[k, j], which[k, j] = q[k, j], j
        state, left[k] = _gather(items[k], f[k], which[k], count[k], unshown, state)
        out[k] = which[k, 0]
    for k in range(m):
        if left[k] > 1:
            for j in range(left[k]):
                y = items[k, which[k, j]]
                if row_of[y] < 0:
                    row_of[y] = size
                    for other in range(m):
                        matrix[size, other] = 0.0
                    matrix[size, m] = unshown[y]
                    size += 1
                matrix[row_of[y], k] = f[k, j]
    if size == 0:
        return
    _round_matrix(matrix, size, m, state, members, position, walk)
    for k in range(m):
        if left[k] > 1:
            out[k] = -1
            for j in range(left[k]):
                if matrix[row_of[items[k, which[k, j]]], k] > 0.5:
                    out[k] = which[k, j]
    for k in range(m):
        if left[k] > 1:
            for j in range(left[k]):
                row_of[items[k, which[k, j]]] = -1


@njit(cache=True, nogil=True)
def working_room(most: int, m: int) -> Any:
    """Room for `round_places` with up to so many items: floats, and whole numbers."""
    floats = np.empty((m, most)), np.empty((most, m + 1))
    members, position = np.empty((m + 1, most), dtype=np.int32), np.empty((most, m + 1), dtype=np.int32)
    which, walk = np.empty((m, most), dtype=np.int32), np.empty((6, 2 * m + 6), dtype=np.int64)
    return floats, (which, members, position, walk, np.empty(m, dtype=np.int64))
