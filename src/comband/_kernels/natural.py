"""Lists in an order of their own, with the exact probability of each item in each place.

The items of a context are laid end to end on [0, m), and m points at distance 1 take one each: systematic sampling. The
r-th point falls into the r-th unit, which is the place that is examined r-th most, so that an item whose cell is
[a, b) is there with probability |[a, b) ∩ [r, r + 1)|: in at most two places that follow one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.disagreement import _all_actions, _drawn
from comband._kernels.orders import shuffle_row

EARNING = 0.3  # share of what is free that goes where rewards are thought to be
LEADERS = 0.6  # floor of what the leader may lose, beside that of what a rival may gain
LEVELS = 64  # of what items are put in order by; a keyed hash decides within one
STEPS = 61.803398875  # of levels in all; no round number, so that shares like one half are not between two of them
_CLOSE = 1e-13
_FEW = 128  # items that are put in order by comparing each with all


@njit(cache=True, nogil=True)
def _hash(key: np.uint64, item: int) -> np.uint64:
    """Bits of an item that follow no order of items."""
    z = (key ^ np.uint64(item)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.uint64(z ^ (z >> np.uint64(29)))


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _mass_scale(weight: Any, lower: Any, upper: Any, size: int, total: float) -> float:
    """The t at which clip(t·weight, lower, upper) sums to the total: Newton's steps, as in `clipped`."""
    weights = 0.0
    for a in range(size):
        weights += weight[a]
    t, below, above = total / weights, 0.0, np.inf
    for _ in range(60):
        fixed, slope = 0.0, 0.0
        for a in range(size):
            free = t * weight[a]
            limited = min(max(free, lower[a]), upper[a])
            inside = 1.0 if limited == free else 0.0  # without branches: which it is cannot be guessed
            fixed += limited * (1.0 - inside)
            slope += weight[a] * inside
        if fixed + t * slope > total:
            above = t
        else:
            below = t
        step = (total - fixed) / slope if slope > 0.0 else np.inf
        if abs(step - t) <= _CLOSE * t:
            break
        if not below < step < above:
            step = np.sqrt(below * above) if below > 0.0 and above < np.inf else t * (4.0 if below == t else 0.25)
        if not below < step < above or not 1e-300 < step < 1e24:
            break
        t = step
    return float(t)


@njit(cache=True, nogil=True)
def _sort(
    level: Any, union: Any, names: Any, size: int, key: np.uint64, order: Any, spare: Any, count: Any, ranks: Any
) -> None:
    """Positions of items by falling levels (whole numbers below `LEVELS`), within one by a keyed hash of names."""
    for a in range(size):
        spare[a] = (_hash(key, names[union[a]] if len(names) else union[a]) >> np.uint64(48)) & np.uint64(LEVELS - 1)
    if size <= _FEW:  # an item's place is how many come before it: counted without branches
        for a in range(size):
            ranks[a] = (level[a] * LEVELS + (LEVELS - 1 - spare[a])) * _FEW + (_FEW - 1 - a)
        for a in range(size):
            mine, before = ranks[a], np.int32(0)
            for b in range(size):
                before = np.int32(before + np.int32(ranks[b] > mine))
            order[before] = a
        return
    count[:] = 0
    for a in range(size):
        count[spare[a]] += 1
    total: Any = np.int64(0)
    for b in range(LEVELS):
        total += count[b]
        count[b] = total - count[b]
    for a in range(size):
        b = spare[a]
        order[count[b]] = a
        count[b] += 1
    count[:] = 0
    for a in range(size):
        count[LEVELS - 1 - level[a]] += 1
    total = np.int64(0)
    for b in range(LEVELS):
        total += count[b]
        count[b] = total - count[b]
    for j in range(size):
        spare[j] = order[j]
    for j in range(size):
        b = LEVELS - 1 - level[spare[j]]
        order[count[b]] = spare[j]
        count[b] += 1


@njit(cache=True, nogil=True)
def _fill(
    t: float,
    order: Any,
    size: int,
    weight: Any,
    lower: Any,
    own: Any,
    floor: Any,
    drawn: float,
    theta: Any,
    sums: Any,
    q: Any,
    rising: Any,
) -> bool:
    """Widths q of cells, in this order, that sum to m: items are examined max(t·weight, lower) − own of `drawn`, as far
    as no cell is wider than 1. From a first guess of t; whether cells that would have been wider keep their floors.

    `theta` (m,) falls, and sums[k] is that of the first k. Of `rising` (3, size) are weight, own and least, in order.
    """
    m: Any = len(theta)
    total, last, kept, of_drawn = sums[m], theta[m - 1], True, 1.0 / drawn
    for j in range(size):
        a = order[j]
        rising[0, j] = weight[a] * of_drawn
        rising[1, j] = own[a] * of_drawn
        rising[2, j] = max(lower[a] - own[a], 0.0) * of_drawn
    below, above = 0.0, np.inf
    for _ in range(60):
        mass, slope = 0.0, 0.0
        k: Any = np.int64(0)
        for j in range(size):
            free, least = t * rising[0, j] - rising[1, j], rising[2, j]
            more = max(free, least)
            if more > last:  # else no unit is too small for it
                while k < m - 1 and mass >= sums[k + 1]:
                    k += 1
                at = min(k + 1, m - 1)
                end = k + (mass - sums[k]) / theta[k] + 1.0
                most = sums[at] + (end - at) * theta[at]
                if mass + more > most:
                    mass = most
                    slope *= theta[at] / theta[k]
                    continue
            mass += more
            slope += rising[0, j] if free > least else 0.0
        if abs(mass - total) <= _CLOSE * total:
            break
        if mass > total:
            above = t
        else:
            below = t
        step = t + (total - mass) / slope if slope > 0.0 else np.inf
        if not below < step < above:
            step = np.sqrt(below * above) if below > 0.0 and above < np.inf else t * (4.0 if below == t else 0.25)
        if not below < step < above or not 1e-300 < step < 1e24:
            break
        t = step
    edge, mass = 0.0, 0.0
    k = np.int64(0)
    for j in range(size):
        a = order[j]
        more = max(t * rising[0, j] - rising[1, j], rising[2, j])
        then = mass + more
        at = k
        while at < m - 1 and then >= sums[at + 1]:
            at += 1
        end = at + (then - sums[at]) / theta[at]
        if end - edge > 1.0:
            end = edge + 1.0
            at = min(np.int64(end), m - 1)
            then = sums[at] + (end - at) * theta[at]
            kept = kept and drawn * (then - mass) + own[a] >= floor[a] * (1.0 - 1e-9)
        q[a] = end - edge
        edge, mass, k = end, then, at
    rest = float(m)
    for a in range(size):
        rest -= q[a]
    for j in range(size - 1, -1, -1):  # what is lost to rounding, from the last cells: nothing before them moves
        if rest == 0.0:
            break
        width = min(max(q[order[j]] + rest, 0.0), 1.0)
        rest -= width - q[order[j]]
        q[order[j]] = width
    return kept


@njit(cache=True, nogil=True)
def _edges(order: Any, size: int, q: Any, m: int, left: Any, right: Any) -> None:
    """Where cells begin and end."""
    edge = 0.0
    for j in range(size):
        a = order[j]
        left[a] = edge
        edge = min(edge + q[a], float(m))
        right[a] = edge


@njit(cache=True, nogil=True)
def _mass(left: float, right: float, theta: Any, sums: Any) -> float:
    """∫ of θ_⌊s⌋ over a cell."""
    m: Any = len(theta)
    a, b = min(np.int64(left), m - 1), min(np.int64(right), m - 1)
    return float((sums[b] + (right - b) * theta[b]) - (sums[a] + (left - a) * theta[a]))


@njit(cache=True, nogil=True)
def natural_lists(
    lists: NDArray[np.int32],
    leader: int,
    attention: NDArray[np.float64],
    smallest: NDArray[np.float64],
    factors: NDArray[np.float64],
    shuffled: float,
    own: NDArray[np.float64],
    key: int,
    u: NDArray[np.float64],
    n_actions: int,
    asked: NDArray[np.int32],
    names: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Draw a list for each context with the probabilities of `NaturalExplorer`.

    lists (n, S, m), attention (S,) summing to 1 with 0 for the leader, smallest (3,) on e(y) over the largest gain, the
    largest loss and the largest factor of y; factors θ (m,); `shuffled`, the share of drawn lists that are put into
    random order; own (S,), the shares of rounds with a policy's own list, if it has no gap; a key for ties. u (n, 2)
    uniforms, or (0, 2) where no lists are wanted. `asked` (n, k) are further actions, and names (n, ·) what the actions
    of each context are called, (0, 0) if that is their number. −1 is no action. Returns shown lists (n, m), the
    probability of each shown action in each place (n, m, m), whether the smallest e hold (n,), and of what was asked
    (n, k, 2) the probability of being shown and e.
    """
    n, n_policies, m = lists.shape
    n_drawn = len(u)
    if len(attention) != n_policies or len(smallest) != 3 or len(asked) != n or len(factors) != m:
        raise IndexError("natural_lists: shapes do not fit together")
    if u.shape[1] != 2 or (n_drawn != n and n_drawn != 0) or not 0 <= leader < n_policies:
        raise IndexError("natural_lists: two numbers per context, or none; and a leader among the policies")
    if not _all_actions(lists, n_actions, -1):
        raise IndexError("natural_lists: an action is out of range")
    if len(names) and (len(names) != n or names.shape[1] < n_actions - 1):
        raise IndexError("natural_lists: every action has a name")
    owned = 0.0
    for p in range(len(own)):
        owned += own[p]
    if len(own) != n_policies or not 0 <= owned < 1 or not 0 <= shuffled <= 1:
        raise IndexError("natural_lists: shares of own lists must sum to less than 1, and that of random order to 1")
    by_place = np.argsort(-factors, kind="mergesort")  # places as they are examined, the most first
    level_factors = factors[by_place]
    even = level_factors.min() == level_factors.max()
    mean = factors.sum() / m
    theta = (1.0 - shuffled) * level_factors + shuffled * mean  # how a cell in the r-th unit is examined
    sums = np.zeros(m + 1)
    for k in range(m):
        sums[k + 1] = sums[k] + theta[k]
    scores = np.empty(m)  # by which items are put in order where all places are alike
    for k in range(m):
        scores[k] = (m - k) / m if even else factors[k]
    shown, placements = np.empty((n_drawn, m), dtype=np.int32), np.zeros((n_drawn, m, m))
    covered, of_asked = np.ones(n, dtype=np.bool_), np.zeros((*asked.shape, 2))
    none = np.uint32(n_actions)
    # Of each item: how many show it; Σα·θ(θ − 2θ_ℓ), Σ of scores by care, the largest θ and −θ; what own lists give, e
    # and probability; and the leader's factor.
    votes, of_item = np.zeros(n_actions + 1, dtype=np.int64), np.zeros((n_actions + 1, 4))
    of_item[:, 3] = -np.inf
    given, leads = np.zeros((n_actions + 1, 2)), np.zeros(n_actions + 1)
    position = np.zeros(n_actions + 1, dtype=np.int64)
    most = min(n_actions, n_policies * m)
    union, order, spare = np.empty(most + 1, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    level, count, places = np.empty(most, np.int64), np.empty(LEVELS, np.int64), np.empty(_FEW, np.int32)
    weight, lower, upper, q = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    mine, thought, floor = np.empty(most), np.empty(most), np.empty(most)
    left, right, rising = np.empty(most), np.empty(most), np.empty((3, most))
    whole, nothing, ranks = np.empty(n_policies), np.empty(m), np.empty(m, dtype=np.int32)
    total_attention = attention.sum()
    no_name = np.empty(0, dtype=np.int32)
    for i in range(n):
        votes[none] = 1  # no action is never new
        for k in range(m):
            leads[min(np.uint32(lists[i, leader, k]), none)] = factors[k]
        size: Any = np.int64(0)
        for p in range(n_policies):
            care = attention[p]
            counts = care + 0.5 / n_policies
            for k in range(m):
                y = min(np.uint32(lists[i, p, k]), none)
                theta_k = factors[k]
                union[size] = y
                size += votes[y] == 0  # it counts if it is new: without a branch, which could not be predicted
                votes[y] += 1
                of_item[y, 0] += care * (theta_k * (theta_k - 2.0 * leads[y]))
                of_item[y, 1] += counts * scores[k]
                of_item[y, 2] = max(of_item[y, 2], theta_k)
        for k in range(m):
            of_item[min(np.uint32(lists[i, leader, k]), none), 1] += 0.5 * scores[k]
        by_all = False
        for a in range(size):
            by_all = by_all or votes[union[a]] >= n_policies
        for p in range(n_policies if by_all else 0):  # of other items the smallest factor is that of not being shown
            for k in range(m):
                y = min(np.uint32(lists[i, p, k]), none)
                of_item[y, 3] = max(of_item[y, 3], -factors[k])
        if size < m and not even:
            raise IndexError("natural_lists: lists can be shorter where all places are alike")
        here = 0.0
        if owned > 0.0:
            for p in range(n_policies):
                whole[p] = own[p]
                for k in range(m if own[p] > 0 else 0):
                    if lists[i, p, k] < 0:  # a policy without an answer makes no list shorter
                        whole[p] = 0.0
                here += whole[p]
                for k in range(m if whole[p] > 0 else 0):
                    given[lists[i, p, k], 0] += whole[p] * factors[k]
                    given[lists[i, p, k], 1] += whole[p]
        drawn = 1.0 - here
        matter, hope, needed, top = 0.0, 0.0, 0.0, 0.0
        for a in range(size):
            y = union[a]
            led, largest = leads[y], of_item[y, 2]
            gain = largest - led
            loss = max(led + (of_item[y, 3] if votes[y] >= n_policies else 0.0), 0.0)
            seen = of_item[y, 1]
            if even:
                top = max(top, seen)
                seen = abs(of_item[y, 0]) / largest + 0.5 * led + 0.5 * votes[y] / n_policies * largest
            rate = 0.5 * seen + 0.01
            matters = max(of_item[y, 0] + total_attention * (led * led), 1e-9)
            weight[a] = np.sqrt(matters * rate) if gain > 0.0 or loss > 0.0 else 1e-9
            thought[a] = rate * rate
            matter += weight[a]
            hope += thought[a]
            mine[a] = given[y, 0]
            lower[a] = floor[a] = max(smallest[0] * gain, max(smallest[1] * loss, smallest[2] * largest))
            needed += max(lower[a] - mine[a], 0.0)
        room = drawn * float(sums[m])
        if needed > room:
            covered[i] = False
            for a in range(size):
                lower[a] = mine[a] + max(lower[a] - mine[a], 0.0) * (room / needed)
        total: float = room
        of_matter, of_hope = (1.0 - EARNING) / matter, EARNING / hope
        for a in range(size):
            weight[a] = of_matter * weight[a] + of_hope * thought[a]
            upper[a] = mine[a] + drawn * theta[0]
            total += float(mine[a])
        called = names[i] if len(names) else no_name
        first = lists[i, leader, 0]
        state = _hash(np.uint64(key), called[first] if len(called) and first >= 0 else first)
        t, whole_floors = 0.0, True
        for attempt in range(2):
            if attempt == 0:
                for a in range(size):
                    lower[a] = min(max(lower[a], mine[a]), upper[a])
                    whole_floors = whole_floors and lower[a] >= floor[a] * (1.0 - 1e-9)
                t = _mass_scale(weight, lower, upper, size, total) if size > m else total / max(size, 1)
            scale = STEPS / (drawn * theta[0])
            for a in range(size):
                if attempt == 1:  # by what must be: then it can be, wherever it can be at all
                    high = (lower[a] - mine[a]) * scale
                elif even:
                    high = of_item[union[a], 1] / top * STEPS
                else:
                    high = (min(max(t * weight[a], lower[a]), upper[a]) - mine[a]) * scale
                level[a] = np.int64(min(high, LEVELS - 1.0) + 0.5)
            _sort(level, union, called, size, state, order, spare, count, places)
            kept = whole_floors
            if size > m:
                kept = _fill(t, order, size, weight, lower, mine, floor, drawn, theta, sums, q, rising) and kept
                _edges(order, size, q, m, left, right)
            else:
                q[:size] = 1.0
                _edges(order, size, q, m, left, right)
                kept = True
                for a in range(size):
                    kept = kept and drawn * _mass(left[a], right[a], theta, sums) + mine[a] >= floor[a] * (1.0 - 1e-9)
            if kept or needed > room or even:
                break
        covered[i] = covered[i] and kept
        wanted = min(m, size)
        if n_drawn:
            for k in range(m):
                shown[i, k] = -1
            if u[i, 0] < here:
                p = _drawn(whole, u[i, 0])
                for k in range(m):
                    shown[i, k] = lists[i, p, k]
            else:
                point, taken = (u[i, 0] - here) / drawn, 0
                for j in range(size):
                    if taken < wanted and (right[order[j]] > point + taken or size - j == wanted - taken):
                        ranks[taken] = union[order[j]]
                        taken += 1
                if u[i, 1] < shuffled:
                    shuffle_row(ranks[:wanted], nothing, u[i, 1] / shuffled)
                for r in range(wanted):
                    shown[i, by_place[r]] = ranks[r]
        if n_drawn or asked.shape[1]:
            for a in range(size):
                position[union[a]] = a
        if n_drawn:
            for j in range(m):
                if shown[i, j] < 0:  # the last places, surely
                    placements[i, j, j] = 1.0
                    continue
                a = position[shown[i, j]]
                width = max(right[a] - left[a], 0.0)  # rounding may cross the ends of an empty cell
                anywhere = drawn * shuffled * width / wanted
                for k in range(wanted):
                    placements[i, j, by_place[k]] = anywhere
                r = min(np.int64(left[a]), m - 1)
                while r < m and right[a] > r:
                    part = min(right[a], r + 1.0) - max(left[a], float(r))
                    placements[i, j, by_place[r]] += drawn * (1.0 - shuffled) * max(part, 0.0)
                    r += 1
            if here > 0.0:
                for j in range(m):
                    position[shown[i, j]] = -1 - j
                for p in range(n_policies):
                    for k in range(m if whole[p] > 0 else 0):
                        at = position[lists[i, p, k]]
                        if at < 0:
                            placements[i, -1 - at, k] += whole[p]
                for a in range(size if asked.shape[1] else 0):
                    position[union[a]] = a
        for k in range(asked.shape[1]):
            y = asked[i, k]
            if not -1 <= y < n_actions:
                raise IndexError("natural_lists: an action that was asked for is out of range")
            if y < 0:
                of_asked[i, k, 0], of_asked[i, k, 1] = 1.0, 1.0
            elif votes[y] > 0:
                a = position[y]
                of_asked[i, k, 0] = drawn * max(right[a] - left[a], 0.0) + given[y, 1]
                of_asked[i, k, 1] = drawn * _mass(left[a], right[a], theta, sums) + mine[a]
        union[size] = none
        for a in range(size + 1):
            y = union[a]
            votes[y], leads[y], given[y, 0], given[y, 1] = 0, 0.0, 0.0, 0.0
            of_item[y, 0], of_item[y, 1], of_item[y, 2], of_item[y, 3] = 0.0, 0.0, 0.0, -np.inf
    return shown, placements, covered, of_asked


@njit(cache=True, nogil=True)
def natural_needs(
    lists: NDArray[np.int32],
    leader: int,
    factors: NDArray[np.float64],
    shuffled: float,
    own: NDArray[np.float64],
    n_actions: int,
) -> NDArray[np.float64]:
    """1/φ for the largest φ ≤ 1 with e(y) ≥ φ·max(g(y), .6·l(y)) for all y of each of lists (n, S, m), where g and l
    are what a rival can gain by y over the leader, and lose.

    Items are given what they lack beside own lists in falling order: no cell is wider than 1, so the first j of them
    can have no more than the first j places.
    """
    n, n_policies, m = lists.shape
    if not 0 <= leader < n_policies or len(factors) != m or len(own) != n_policies:
        raise IndexError("natural_needs: the leader is not among the policies, or shapes do not fit together")
    if not _all_actions(lists, n_actions, -1):
        raise IndexError("natural_needs: an action is out of range")
    ordered = -np.sort(-factors)
    mean = factors.sum() / m
    sums = np.zeros(m + 1)
    for k in range(m):
        sums[k + 1] = sums[k] + (1.0 - shuffled) * ordered[k] + shuffled * mean
    needs = np.zeros(n)
    none = np.uint32(n_actions)
    votes, of_item = np.zeros(n_actions + 1, dtype=np.int64), np.zeros((n_actions + 1, 4))
    of_item[:, 2] = np.inf
    most = min(n_actions, n_policies * m)
    union, floors, mine = np.empty(most + 1, np.int64), np.empty(most), np.empty(most)
    largest = np.empty(m)
    for i in range(n):
        votes[none] = 1
        for k in range(m):
            of_item[min(np.uint32(lists[i, leader, k]), none), 0] = factors[k]
        size: Any = np.int64(0)
        here = 0.0
        for p in range(n_policies):
            whole = own[p]
            for k in range(m):
                y = min(np.uint32(lists[i, p, k]), none)
                if y == none:
                    whole = 0.0
                union[size] = y
                size += votes[y] == 0
                votes[y] += 1
                of_item[y, 1] = max(of_item[y, 1], factors[k])
                of_item[y, 2] = min(of_item[y, 2], factors[k])
            here += whole
            for k in range(m if whole > 0 else 0):
                of_item[lists[i, p, k], 3] += whole * factors[k]
        drawn = 1.0 - here
        for a in range(size):
            y = union[a]
            led = of_item[y, 0]
            loss = max(led - (of_item[y, 2] if votes[y] >= n_policies else 0.0), 0.0)
            floors[a], mine[a] = max(of_item[y, 1] - led, LEADERS * loss), of_item[y, 3]
        low, high = 0.0, 1.0
        if here == 0.0:  # what items lack is in proportion to φ
            low = _share_of_floors(floors, size, sums, largest)
        elif _can_be(high, floors, mine, size, drawn, sums, largest):
            low = high
        else:
            for _ in range(30):
                middle = 0.5 * (low + high)
                if _can_be(middle, floors, mine, size, drawn, sums, largest):
                    low = middle
                else:
                    high = middle
        needs[i] = 1.0 / max(low, 1e-9)
        union[size] = none
        for a in range(size + 1):
            y = union[a]
            votes[y] = 0
            of_item[y, 0], of_item[y, 1], of_item[y, 2], of_item[y, 3] = 0.0, 0.0, np.inf, 0.0
    return needs


@njit(cache=True, nogil=True)
def _share_of_floors(floors: Any, size: int, sums: Any, largest: Any) -> float:
    """The largest φ ≤ 1 with which all items can be examined φ times their floors, where no own lists are shown."""
    m, total = len(largest), 0.0
    largest[:] = 0.0
    for a in range(size):
        total += floors[a]
        if floors[a] > largest[m - 1]:  # into the m largest, in falling order
            k = m - 1
            while k > 0 and largest[k - 1] < floors[a]:
                largest[k] = largest[k - 1]
                k -= 1
            largest[k] = floors[a]
    phi, first = min(1.0, float(sums[m]) / max(total, 1e-300)), 0.0
    for k in range(m):
        first += largest[k]
        phi = min(phi, float(sums[k + 1]) / max(first, 1e-300))
    return phi


@njit(cache=True, nogil=True)
def _can_be(phi: float, floors: Any, mine: Any, size: int, drawn: float, sums: Any, largest: Any) -> bool:
    """Whether all items can be examined φ times their floors."""
    m = len(largest)
    total = 0.0
    largest[:] = 0.0
    for a in range(size):
        lacks = max(phi * floors[a] - mine[a], 0.0) / drawn
        total += lacks
        if lacks > largest[m - 1]:  # into the m largest, in falling order
            k = m - 1
            while k > 0 and largest[k - 1] < lacks:
                largest[k] = largest[k - 1]
                k -= 1
            largest[k] = lacks
    if total > sums[m]:
        return False
    first = 0.0
    for k in range(m):
        first += largest[k]
        if first > sums[k + 1]:
            return False
    return True
