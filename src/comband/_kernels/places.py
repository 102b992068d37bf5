"""Lists with places: drawn by examination, or by pairs of item and place.

A pair (item y, place k) has the number y·m + k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.disagreement import _all_actions, clipped, systematic
from comband._kernels.orders import seed_of, shuffle_row
from comband._kernels.rounding import RESIDUE, round_places, working_room

_TURNS = 12  # of filling places and shrinking items, at most,
_NEARLY = 0.01  # or until no item sums to more than one by this: weights are guesses, sums are repaired exactly


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
    """Draw a list for each context, in random order, with the inclusion probabilities of `ExaminationExplorer`.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) on e(y) over the largest gain, the
    largest loss and the largest factor of y; factors θ (m,); u (n, 2) uniforms, or (0, 2) where no lists are wanted.
    `asked` (n, k) are further actions whose propensities are wanted. Returns shown lists (n, m), their inclusion
    probabilities q = e·m/Θ (n, m), whether the smallest ones hold (n,), and those of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    n_drawn = len(u)
    if len(attention) != n_policies or len(smallest) != 3 or len(asked) != n or len(factors) != m:
        raise IndexError("examination_lists: shapes do not fit together")
    if u.shape[1] != 2 or (n_drawn != n and n_drawn != 0) or not 0 <= leader < n_policies:
        raise IndexError("examination_lists: two numbers per context, or none; and a leader among the policies")
    if not _all_actions(lists, n_actions):
        raise IndexError("examination_lists: an action is out of range")
    shown = np.zeros((n_drawn, m), dtype=np.int32)
    propensities = np.zeros((n_drawn, m))
    covered = np.ones(n, dtype=np.bool_)
    of_asked = np.zeros(asked.shape)
    votes = np.zeros(n_actions, dtype=np.int64)
    of_item = np.zeros((n_actions, 4))  # the leader's factor, Σα·θ(θ − 2θ_ℓ), the largest and the smallest factor
    of_item[:, 3] = np.inf
    place = np.zeros(n_actions if asked.shape[1] else 0, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union = np.empty(most + 1, dtype=np.int64)
    weight, lower, q = np.empty(most), np.empty(most), np.empty(most)
    share = np.arange(n_policies * m + 1) / n_policies + 0.01
    scale = m / factors.sum()
    total_attention = attention.sum()
    for i in range(n):
        for k in range(m):
            of_item[lists[i, leader, k], 0] = factors[k]
        size: Any = np.int64(0)
        for p in range(n_policies):
            care = attention[p]
            for k in range(m):
                y = np.uint32(lists[i, p, k])
                union[size] = y
                size += votes[y] == 0  # it counts if it is new: without a branch, which could not be predicted
                votes[y] += 1
                theta = factors[k]
                of_item[y, 1] += care * (theta * (theta - 2.0 * of_item[y, 0]))
                of_item[y, 2] = max(of_item[y, 2], theta)
                of_item[y, 3] = min(of_item[y, 3], theta)
        worst, total = 0.0, 0.0
        for a in range(size):
            y = np.uint32(union[a])
            led, largest = of_item[y, 0], of_item[y, 2]
            gain = largest - led
            loss = max(led - (of_item[y, 3] if votes[y] >= n_policies else 0.0), 0.0)
            matters = max(of_item[y, 1] + total_attention * (led * led), 1e-9)
            weight[a] = np.sqrt(matters * share[votes[y]]) if gain > 0.0 or loss > 0.0 else 1e-9
            lower[a] = scale * max(smallest[0] * gain, max(smallest[1] * loss, smallest[2] * largest))
            total += lower[a]
            worst = max(worst, lower[a])
        worst = max(worst, total / m)
        if worst > 1.0:
            covered[i] = False
            for a in range(size):
                lower[a] /= worst
        clipped(weight, lower, size, m, q)
        if n_drawn:
            systematic(union, q, size, u[i, 0], shown[i], propensities[i])
            shuffle_row(shown[i], propensities[i], u[i, 1])
        if asked.shape[1]:
            for a in range(size):
                place[union[a]] = a
            for k in range(asked.shape[1]):
                y = asked[i, k]
                if not 0 <= y < n_actions:
                    raise IndexError("examination_lists: an action that was asked for is out of range")
                if votes[y] > 0:
                    of_asked[i, k] = q[place[y]]
        for a in range(size):
            y = union[a]
            votes[y] = 0
            of_item[y, 0], of_item[y, 1], of_item[y, 2], of_item[y, 3] = 0.0, 0.0, 0.0, np.inf
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
def _scale(weight: Any, low: Any, n: int, t: float) -> float:
    """The t with which max(t·weight, low) of the n items of a place sum to one.

    The sum is convex in t and linear while the same items are above their lowest: after a first step, which may go too
    far, Newton's steps come down to it and end there, after three or four.
    """
    for _ in range(200):
        free, fixed = 0.0, 0.0
        for j in range(n):
            above = 1.0 if t * weight[j] > low[j] else 0.0  # without branches: which it is cannot be guessed
            free += weight[j] * above
            fixed += low[j] * (1.0 - above)
        if free == 0.0:
            return 0.0
        step = max(1.0 - fixed, 0.0) / free
        if abs(step - t) <= 4e-16 * t:
            break
        t = step
    return t


@njit(cache=True, nogil=True)
def _pair_design(
    lists: Any,
    leader: int,
    attention: Any,
    smallest: Any,
    votes: Any,
    care: Any,
    item_votes: Any,
    pairs: Any,
    union: Any,
    unshown: Any,
    lowest: Any,
    items: Any,
    numbers: Any,
    count: Any,
) -> tuple[int, bool]:
    """Probabilities q[k, j] that place k of one context, whose lists are (S, m), has item items[k, j], j < count[k].

    All places sum to one, no item to more; unshown[y] is what an item lacks. Returns how many items there are, union,
    and whether the smallest ones hold. Items have numbers by place only where a candidate shows them, or where a place
    lacks something that only they have. numbers are (weight, low, q); votes and care (K·m,), and item_votes (K,)
    are zero before, and the first two are so again afterwards.
    """
    n_policies, m = lists.shape
    weight, low, _ = numbers
    n_pairs: Any = np.int64(0)
    for p in range(n_policies):
        for k in range(m):
            z = np.uint32(lists[p, k]) * np.uint32(m) + np.uint32(k)
            pairs[n_pairs] = z
            n_pairs += votes[z] == 0  # it counts if it is new: without a branch, which could not be predicted
            votes[z] += 1
    for p in range(n_policies):
        for k in range(m):
            care[np.uint32(lists[p, k]) * np.uint32(m) + np.uint32(k)] += attention[p]
    size: Any = np.int64(0)
    count[:] = 0
    for j in range(n_pairs):
        z = np.uint32(pairs[j])
        y = z // np.uint32(m)
        at: Any = z - y * np.uint32(m)
        items[at, count[at]] = y
        count[at] += 1
        union[size] = y
        size += item_votes[y] == 0
        item_votes[y] += votes[z]
    for a in range(size):
        lowest[union[a]] = 0.0
    worst = 0.0
    for k in range(m):
        total = 0.0
        led = np.uint32(lists[leader, k])
        for j in range(count[k]):
            y = np.uint32(items[k, j])
            z = y * np.uint32(m) + np.uint32(k)
            matters = max(1.0 - care[z] if y == led else care[z], 1e-9)
            undisputed = votes[z] == n_policies
            mine = smallest[2] if undisputed else (smallest[1] if y == led else smallest[0])
            weight[k, j] = 1e-9 if undisputed else np.sqrt(matters * (item_votes[y] / n_policies + 0.01))
            low[k, j] = mine
            votes[z], care[z] = 0, 0.0
            total += mine
            lowest[y] += mine
        worst = max(worst, total)
    for a in range(size):
        worst = max(worst, lowest[union[a]])
    if worst > 1.0:
        for k in range(m):
            for j in range(count[k]):
                low[k, j] /= worst
    _fit(size, union, unshown, lowest, items, numbers, count)
    return size, worst <= 1.0


@njit(cache=True, nogil=True)
def _fit(size: int, union: Any, unshown: Any, lowest: Any, items: Any, numbers: Any, count: Any) -> None:
    """Fill the places, shrink items that sum to more than one, and so on in turn; repair what is left to do."""
    weight, low, q = numbers
    m = len(count)
    for step in range(_TURNS):
        for a in range(size):
            unshown[union[a]] = 1.0
        for k in range(m):
            t = 0.0
            for j in range(count[k]):
                t += weight[k, j]
            t = _scale(weight[k], low[k], count[k], 1.0 / t if t > 0.0 else 0.0)
            for j in range(count[k]):
                q[k, j] = max(t * weight[k, j], low[k, j])
                unshown[items[k, j]] -= q[k, j]
        most = 0.0
        for a in range(size):
            most = max(most, -unshown[union[a]])
        if most <= (1e-9 if step == 0 else _NEARLY):
            break
        for a in range(size):
            lowest[union[a]] = 0.0
        for k in range(m):
            for j in range(count[k]):
                if q[k, j] <= low[k, j]:
                    lowest[items[k, j]] += low[k, j]
        for k in range(m):
            for j in range(count[k]):
                y = items[k, j]
                if unshown[y] < 0.0:
                    weight[k, j] *= max(1.0 - lowest[y], 0.0) / max(1.0 - unshown[y] - lowest[y], 1e-300)
    if most > 0.0:
        _repair(size, union, unshown, lowest, items, numbers, count)


@njit(cache=True, nogil=True)
def _repair(size: int, union: Any, unshown: Any, lowest: Any, items: Any, numbers: Any, count: Any) -> None:
    """Items that sum to more than one shrink towards their lowest; places that lack something take it from items with
    room, first from those that a candidate shows there. There is room: all items together have size − Σq ≥ m − Σq.
    """
    _, low, q = numbers
    m = len(count)
    for a in range(size):
        lowest[union[a]] = 0.0
    for k in range(m):
        for j in range(count[k]):
            lowest[items[k, j]] += low[k, j]
    for k in range(m):
        for j in range(count[k]):
            y = items[k, j]
            if unshown[y] < 0.0:
                total = 1.0 - unshown[y]
                share = max(1.0 - lowest[y], 0.0) / (total - lowest[y]) if total > lowest[y] else 1.0
                q[k, j] = low[k, j] + (q[k, j] - low[k, j]) * share
    for a in range(size):
        unshown[union[a]] = 1.0
    for k in range(m):
        for j in range(count[k]):
            unshown[items[k, j]] -= q[k, j]
    for a in range(size):
        unshown[union[a]] = max(unshown[union[a]], 0.0)
    for k in range(m):
        rest = 1.0
        for j in range(count[k]):
            rest -= q[k, j]
        for j in range(count[k]):
            if rest <= RESIDUE:
                break
            step = min(rest, unshown[items[k, j]])
            q[k, j] += step
            unshown[items[k, j]] -= step
            rest -= step
        for a in range(size):
            if rest <= RESIDUE:
                break
            step = min(rest, unshown[union[a]])
            if step > 0.0:  # no candidate shows it there: those that are shown have no room any more
                items[k, count[k]], low[k, count[k]], q[k, count[k]] = union[a], 0.0, step
                count[k] += 1
                unshown[union[a]] -= step
                rest -= step


@njit(cache=True, nogil=True)
def pair_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw a list for each context with the probabilities of `PairExplorer` for pairs of item and place.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) for disputed pairs outside the
    leader's list, disputed ones in it, and undisputed ones; u (n, 2) uniforms, of which the first is used, or (0, 2)
    where no lists are wanted; `asked` (n, k) are numbers of pairs whose propensities are wanted. Returns shown lists
    (n, m), the probabilities of each item in its place (n, m), whether the smallest ones hold (n,), and the
    probabilities of `asked` (n, k).
    """
    n, n_policies, m = lists.shape
    n_drawn = len(u)
    if len(attention) != n_policies or len(smallest) != 3 or len(asked) != n:
        raise IndexError("pair_lists: shapes do not fit together")
    if u.shape[1] != 2 or (n_drawn != n and n_drawn != 0) or not 0 <= leader < n_policies:
        raise IndexError("pair_lists: two numbers per context, or none; and a leader among the policies")
    if not _all_actions(lists, n_actions) or n_actions * m >= 2**31:
        raise IndexError("pair_lists: an action is out of range")
    shown = np.zeros((n_drawn, m), dtype=np.int32)
    propensities = np.zeros((n_drawn, m))
    covered = np.ones(n, dtype=np.bool_)
    of_asked = np.zeros(asked.shape)
    most = min(n_actions, n_policies * m)
    votes, care = np.zeros(n_actions * m, dtype=np.int32), np.zeros(n_actions * m)
    pairs = np.empty(min(n_actions, n_policies) * m + 1, dtype=np.int32)
    item_votes, union = np.zeros(n_actions, dtype=np.int32), np.empty(most + 1, dtype=np.int64)
    unshown, lowest, row_of = np.empty(n_actions), np.empty(n_actions), np.full(n_actions, -1, dtype=np.int32)
    items, count = np.empty((m, most + 1), dtype=np.int32), np.empty(m, dtype=np.int64)
    numbers = np.empty((m, most)), np.empty((m, most)), np.empty((m, most))
    floats, whole = working_room(most, m)
    out = np.empty(m, dtype=np.int64)
    at = np.full(n_actions * m if asked.shape[1] else 0, -1, dtype=np.int32)
    q = numbers[2]
    for i in range(n):
        size, covered[i] = _pair_design(
            lists[i],
            leader,
            attention,
            smallest,
            votes,
            care,
            item_votes,
            pairs,
            union,
            unshown,
            lowest,
            items,
            numbers,
            count,
        )
        if asked.shape[1]:
            for k in range(m):
                for j in range(count[k]):
                    at[items[k, j] * m + k] = j
            for j in range(asked.shape[1]):
                pair = asked[i, j]
                if not 0 <= pair < n_actions * m:
                    raise IndexError("pair_lists: a pair that was asked for is out of range")
                if at[pair] >= 0:
                    of_asked[i, j] = q[pair % m, at[pair]]
            for k in range(m):
                for j in range(count[k]):
                    at[items[k, j] * m + k] = -1
        if n_drawn:
            round_places(items, q, count, unshown, seed_of(u[i, 0]), row_of, floats, whole, out)
            for k in range(m):
                if out[k] < 0:
                    raise ValueError("pair_lists: a place came out empty")
                shown[i, k] = items[k, out[k]]
                propensities[i, k] = q[k, out[k]]
        for a in range(size):
            item_votes[union[a]] = 0
    return shown, propensities, covered, of_asked
