"""Lists with places: drawn by examination, or by pairs of item and place.

A pair (item y, place k) has the number y·m + k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.disagreement import _all_actions, clipped, systematic
from comband._kernels.orders import next_uniform, seed_of, shuffle_row

# Entries of a matrix that is rounded count as 0 or 1 when they are that close: sums of thousands of steps stay below.
_RESIDUE = 1e-11


# ---- examination -----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def examination_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    factors: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw a list for each context, in random order, with the inclusion probabilities of `ExaminationSampling`.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) on e(y) over the largest gain, the
    largest loss and the largest factor of y; factors θ (m,); u (n, 2) uniforms. `asked` (n, k) are further actions
    whose propensities are wanted. Returns shown lists (n, m), their inclusion probabilities q = e·m/Θ (n, m), whether
    the smallest ones hold (n,), and those of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    if len(attention) != n_policies or len(smallest) != 3 or u.shape != (n, 2) or len(asked) != n or len(factors) != m:
        raise IndexError("examination_lists: shapes do not fit together")
    if not 0 <= leader < n_policies:
        raise IndexError("examination_lists: the leader is not among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("examination_lists: an action is out of range")
    shown = np.zeros((n, m), dtype=np.int32)
    propensities = np.zeros((n, m))
    covered = np.ones(n, dtype=np.bool_)
    of_asked = np.zeros(asked.shape)
    place = np.full(n_actions, -1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most, dtype=np.int64)
    votes = np.empty(most, dtype=np.int64)
    led, gain, loss = np.empty(most), np.empty(most), np.empty(most)
    largest, care, cared = np.empty(most), np.empty(most), np.empty(most)
    weight, lower, q = np.empty(most), np.empty(most), np.empty(most)
    scale = m / factors.sum()
    total_attention = attention.sum()
    for i in range(n):
        size: Any = np.int64(0)
        for j in range(n_policies):
            p = leader if j == 0 else (j - 1 if j <= leader else j)  # the leader first
            for k in range(m):
                y = lists[i, p, k]
                a = place[y]
                if a < 0:
                    a = size
                    place[y] = a
                    union[a] = y
                    votes[a] = 0
                    led[a] = factors[k] if p == leader else 0.0
                    gain[a], loss[a], largest[a], care[a], cared[a] = 0.0, 0.0, 0.0, 0.0, 0.0
                    size += 1
                more = factors[k] - led[a]
                votes[a] += 1
                gain[a] = max(gain[a], more)
                loss[a] = max(loss[a], -more)
                largest[a] = max(largest[a], factors[k])
                care[a] += attention[p] * more * more
                cared[a] += attention[p]
        worst, total = 0.0, 0.0
        for a in range(size):
            if votes[a] < n_policies:
                loss[a] = max(loss[a], led[a])
                care[a] += (total_attention - cared[a]) * led[a] * led[a]
            if gain[a] == 0.0 and loss[a] == 0.0:
                weight[a] = 1e-9
            else:
                weight[a] = np.sqrt(max(care[a], 1e-9) * (votes[a] / n_policies + 0.01))
            lower[a] = scale * max(smallest[0] * gain[a], max(smallest[1] * loss[a], smallest[2] * largest[a]))
            total += lower[a]
            worst = max(worst, lower[a])
        worst = max(worst, total / m)
        if worst > 1.0:
            covered[i] = False
            for a in range(size):
                lower[a] /= worst
        clipped(weight, lower, size, m, q)
        systematic(union, q, size, u[i, 0], shown[i], propensities[i])
        shuffle_row(shown[i], propensities[i], u[i, 1])
        for k in range(asked.shape[1]):
            y = asked[i, k]
            if not 0 <= y < n_actions:
                raise IndexError("examination_lists: an action that was asked for is out of range")
            if place[y] >= 0:
                of_asked[i, k] = q[place[y]]
        for a in range(size):
            place[union[a]] = -1
    return shown, propensities, covered, of_asked


@njit(cache=True, nogil=True)
def examination_needs(
    lists: NDArray[np.int32], leader: int, factors: NDArray[np.float64], n_actions: int
) -> NDArray[np.float64]:
    """1/φ for the largest φ with e(y) ≥ φ·g(y) for all y, g = max_π (θ_π − θ_ℓ)⁺, for each of lists (n, S, m)."""
    n, n_policies, m = lists.shape
    if not 0 <= leader < n_policies or len(factors) != m:
        raise IndexError("examination_needs: the leader is not among the policies, or factors are not one per place")
    if not _all_actions(lists, n_actions):
        raise IndexError("examination_needs: an action is out of range")
    needs = np.zeros(n)
    led, gain = np.zeros(n_actions), np.zeros(n_actions)
    total_factor = factors.sum()
    for i in range(n):
        for k in range(m):
            led[lists[i, leader, k]] = factors[k]
        total, largest = 0.0, 0.0
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                more = factors[k] - led[y]
                if more > gain[y]:
                    total += more - gain[y]
                    gain[y] = more
                    largest = max(largest, more)
        needs[i] = max(total, largest * m) / total_factor
        for p in range(n_policies):
            for k in range(m):
                led[lists[i, p, k]], gain[lists[i, p, k]] = 0.0, 0.0
    return needs


# ---- pairs of item and place -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def pair_needs(lists: NDArray[np.int32], leader: int, n_actions: int) -> NDArray[np.int64]:
    """The most disputed items of one place, or disputed places of one item, for each of lists (n, S, m): 1/φ for the
    largest φ that is no larger than the propensity of any pair that is not the leader's.
    """
    n, n_policies, m = lists.shape
    if not 0 <= leader < n_policies:
        raise IndexError("pair_needs: the leader is not among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("pair_needs: an action is out of range")
    needs = np.zeros(n, dtype=np.int64)
    stamp = np.full((n_actions, m), -1, dtype=np.int64)
    seen = np.full(n_actions, -1, dtype=np.int64)
    places = np.zeros(n_actions, dtype=np.int64)
    items = np.empty(m, dtype=np.int64)
    for i in range(n):
        for k in range(m):
            stamp[lists[i, leader, k], k] = i
            items[k] = 0
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if stamp[y, k] != i:
                    stamp[y, k] = i
                    if seen[y] != i:
                        seen[y] = i
                        places[y] = 0
                    places[y] += 1
                    items[k] += 1
                    needs[i] = max(needs[i], max(places[y], items[k]))
    return needs


@njit(cache=True, nogil=True)
def _fill_place(weight: Any, low: Any, n: int, q: Any) -> None:
    """q = max(t·weight, low) of the n items of a place, with t such that it is filled, Σ = 1: low ones are taken one
    after the other, which only lowers t.
    """
    t = np.inf
    while True:
        free, fixed = 0.0, 0.0
        for j in range(n):
            above = weight[j] > 0.0 and t * weight[j] > low[j]
            free += weight[j] if above else 0.0
            fixed += 0.0 if above else low[j]
        scale = max(1.0 - fixed, 0.0) / free if free > 0.0 else 0.0
        if scale >= t or free == 0.0:
            break
        t = scale
    if t == np.inf:
        t = 0.0
    for j in range(n):
        q[j] = max(t * weight[j], low[j])


@njit(cache=True, nogil=True)
def _pair_design(
    lists: Any,
    leader: int,
    attention: Any,
    smallest: Any,
    place: Any,
    union: Any,
    q: Any,
    low: Any,
    weight: Any,
    shrink: Any,
    members: Any,
    rows: Any,
) -> tuple[int, bool]:
    """Probabilities q[a, k] of pairs (union[a], k) for one context's lists (S, m), and 1 − Σ_k in q[a, m].

    All places sum to one, no item to more. Returns how many items there are, and whether the smallest ones hold. Where
    nobody shows an item, weights are zero: places are filled from lists of their own items, members[k], whose
    weights, smallest and probabilities are rows[:, k].
    """
    n_policies, m = lists.shape
    size = 0
    count = np.zeros(m, dtype=np.int64)
    for p in range(n_policies):
        care = attention[p]
        for k in range(m):
            y = lists[p, k]
            a = place[y]
            if a < 0:
                a = size
                place[y] = a
                union[a] = y
                shrink[a] = 0.0  # votes of the item
                for j in range(m + 1):
                    q[a, j], weight[a, j], low[a, j] = 0.0, 0.0, 0.0
                size += 1
            if weight[a, k] == 0.0:
                members[k, count[k]] = a
                count[k] += 1
            weight[a, k] += 1.0  # votes
            shrink[a] += 1.0
            q[a, k] += care
    worst = 0.0
    for k in range(m):
        total = 0.0
        for j in range(count[k]):
            a = members[k, j]
            if weight[a, k] == n_policies:
                weight[a, k], low[a, k] = 1e-9, smallest[2]
            else:
                leads = lists[leader, k] == union[a]
                matters = 1.0 - q[a, k] if leads else q[a, k]
                weight[a, k] = np.sqrt(max(matters, 1e-9) * (shrink[a] / n_policies + 0.01))
                low[a, k] = smallest[1] if leads else smallest[0]
            total += low[a, k]
            low[a, m] += low[a, k]
        worst = max(worst, total)
    for a in range(size):
        worst = max(worst, low[a, m])
        shrink[a] = 1.0
    fitting = 1.0 / worst if worst > 1.0 else 1.0
    for k in range(m):
        for j in range(count[k]):
            a = members[k, j]
            low[a, k] *= fitting
            rows[0, k, j], rows[1, k, j] = weight[a, k], low[a, k]
    for _ in range(12):
        for a in range(size):
            q[a, m] = 0.0  # the item's sum
        for k in range(m):
            _fill_place(rows[0, k], rows[1, k], count[k], rows[2, k])
            for j in range(count[k]):
                q[members[k, j], m] += rows[2, k, j]
        fits = True
        for a in range(size):
            shrink[a] = 1.0
            if q[a, m] > 1.0 + 1e-9:
                fits = False
                shrink[a] = 1.0 / q[a, m]
        if fits:
            break
        for k in range(m):
            for j in range(count[k]):
                rows[0, k, j] *= shrink[members[k, j]]
    for k in range(m):
        for j in range(count[k]):
            q[members[k, j], k] = rows[2, k, j]
    _repair(size, m, low, weight, q)
    return size, worst <= 1.0


@njit(cache=True, nogil=True)
def _repair(size: int, m: int, low: Any, weight: Any, q: Any) -> None:
    """Items that sum to more than one shrink towards their lowest; places that lack something take it from items with
    room, first from those that somebody shows there. There is room: all items together have size − Σq ≥ m − Σq.
    """
    for a in range(size):
        total, lowest = 0.0, 0.0
        for k in range(m):
            total += q[a, k]
            lowest += low[a, k]
        if total > 1.0:
            share = max(1.0 - lowest, 0.0) / (total - lowest) if total > lowest else 1.0
            total = 0.0
            for k in range(m):
                q[a, k] = low[a, k] + (q[a, k] - low[a, k]) * share
                total += q[a, k]
        q[a, m] = max(1.0 - total, 0.0)
    for k in range(m):
        rest = 1.0
        for a in range(size):
            rest -= q[a, k]
        for anywhere in range(2):
            for a in range(size):
                if rest <= _RESIDUE:
                    break
                if anywhere or weight[a, k] > 0.0:
                    step = min(rest, q[a, m])
                    q[a, k] += step
                    q[a, m] -= step
                    rest -= step


@njit(cache=True, nogil=True)
def _drop(k: int, a: int, position: Any, members: Any, count: Any) -> None:
    """Item a is no longer fractional in place k."""
    i, last = position[a, k], members[k, count[k] - 1]
    members[k, i] = last
    position[last, k] = i
    position[a, k] = -1
    count[k] -= 1


@njit(cache=True, nogil=True)
def _coin(state: np.uint64, up: float, down: float) -> tuple[np.uint64, float]:
    """+up or −down, with mean zero."""
    state, uniform = next_uniform(state)
    return state, (up if uniform * (up + down) < down else -down)


@njit(cache=True, nogil=True)
def _round_within_places(f: Any, size: int, m: int, state: np.uint64) -> np.uint64:
    """The shortest cycles first, of two items, one place and "not shown": of the items of a place that may be left out
    one is left over, without a walk. Items that must be shown are m at most.
    """
    for k in range(m):
        h = -1
        for a in range(size):
            if not (_RESIDUE < f[a, k] < 1.0 - _RESIDUE and _RESIDUE < f[a, m] < 1.0 - _RESIDUE):
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
            if not (_RESIDUE < f[h, k] < 1.0 - _RESIDUE and _RESIDUE < f[h, m] < 1.0 - _RESIDUE):
                h = a if _RESIDUE < f[a, k] < 1.0 - _RESIDUE and _RESIDUE < f[a, m] < 1.0 - _RESIDUE else -1
    return state


@njit(cache=True, nogil=True)
def _round_matrix(f: Any, size: int, m: int, state: np.uint64, members: Any, position: Any, out: Any) -> np.uint64:
    """Round f (size, m + 1) to zeros and ones with the same means: dependent rounding along cycles.

    Rows (items) and the first m columns (places) sum to one; the last column stands for "not shown". Every row and
    column that has a fractional entry then has two, so a walk along them closes a cycle; entries along it rise and fall
    in turn by one amount until one of them is whole, by a coin of mean zero, which keeps all sums and, in the mean, all
    entries (Gandhi, Khuller, Parthasarathy & Srinivasan
    2006). out[k] becomes the item of place k.
    """
    state = _round_within_places(f, size, m, state)
    count = np.zeros(m + 1, dtype=np.int64)
    for a in range(size):
        for k in range(m + 1):
            if _RESIDUE < f[a, k] < 1.0 - _RESIDUE:
                position[a, k] = count[k]
                members[k, count[k]] = a
                count[k] += 1
            else:
                position[a, k] = -1
                f[a, k] = 1.0 if f[a, k] >= 0.5 else 0.0
    walk_places = np.empty(m + 3, dtype=np.int64)
    walk_items = np.empty(m + 3, dtype=np.int64)
    step_of = np.full(m + 1, -1, dtype=np.int64)
    cycle_items = np.empty(2 * m + 6, dtype=np.int64)
    cycle_places = np.empty(2 * m + 6, dtype=np.int64)
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
        if n_edges < 0:  # what is left of rounding errors: one fractional entry alone in its row or column
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
            if f[a, k] <= _RESIDUE or f[a, k] >= 1.0 - _RESIDUE:
                f[a, k] = 1.0 if f[a, k] > 0.5 else 0.0
                _drop(k, a, position, members, count)
    for k in range(m):
        out[k] = -1
    for a in range(size):
        for k in range(m):
            if f[a, k] > 0.5:
                out[k] = a
    return state


@njit(cache=True, nogil=True)
def pair_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
    draw: bool,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw a list for each context with the probabilities of `PairSampling` for pairs of item and place.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) for disputed pairs outside the
    leader's list, disputed ones in it, and undisputed ones; u (n,) uniforms; `asked` (n, k) are numbers of pairs whose
    propensities are wanted. Returns shown lists (n, m), the probabilities of each item in its place (n, m), whether the
    smallest ones hold (n,), and the probabilities of `asked` (n, k). Unless it shall `draw` the first two are left
    alone.
    """
    n, n_policies, m = lists.shape
    if len(attention) != n_policies or len(smallest) != 3 or len(u) != n or len(asked) != n:
        raise IndexError("pair_lists: shapes do not fit together")
    if not 0 <= leader < n_policies:
        raise IndexError("pair_lists: the leader is not among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("pair_lists: an action is out of range")
    shown = np.zeros((n, m), dtype=np.int32)
    propensities = np.zeros((n, m))
    covered = np.ones(n, dtype=np.bool_)
    of_asked = np.zeros(asked.shape)
    place = np.full(n_actions, -1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most, dtype=np.int64)
    shrink = np.empty(most)
    q, low = np.empty((most, m + 1)), np.empty((most, m + 1))
    weight, f, rows = np.empty((most, m + 1)), np.empty((most, m + 1)), np.empty((3, m, most))
    members, position = np.empty((m + 1, most), dtype=np.int32), np.empty((most, m + 1), dtype=np.int32)
    out = np.empty(m, dtype=np.int64)
    for i in range(n):
        size, covered[i] = _pair_design(
            lists[i], leader, attention, smallest, place, union, q, low, weight, shrink, members, rows
        )
        if draw:
            f[:size] = q[:size]
            _round_matrix(f, size, m, seed_of(u[i]), members, position, out)
            for k in range(m):
                if out[k] < 0:
                    raise ValueError("pair_lists: a place came out empty")
                shown[i, k] = union[out[k]]
                propensities[i, k] = q[out[k], k]
        for j in range(asked.shape[1]):
            pair = asked[i, j]
            if not 0 <= pair < n_actions * m:
                raise IndexError("pair_lists: a pair that was asked for is out of range")
            a = place[pair // m]
            if a >= 0:
                of_asked[i, j] = q[a, pair % m]
        for a in range(size):
            place[union[a]] = -1
    return shown, propensities, covered, of_asked
