"""Lists in natural order are drawn with exactly the probabilities of places that are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from comband._kernels.natural import EARNING, LEADERS, LEVELS, STEPS, natural_lists, natural_needs
from comband._kernels.numbering import Numbered
from tests.test_kernels_places import ALARM, some_lists

Floats = NDArray[np.float64]
KEY = 7
NO_NAMES = np.empty((0, 0), dtype=np.int32)


def drawn(
    lists: NDArray[np.int32],
    attention: Floats,
    smallest: Floats,
    factors: Floats,
    K: int,
    *,
    u: Floats | None = None,
    shuffled: float = 0.0,
    own: Floats | None = None,
    names: NDArray[np.int32] = NO_NAMES,
) -> Any:
    n, S = len(lists), lists.shape[1]
    asked = np.ascontiguousarray(np.broadcast_to(np.arange(K, dtype=np.int32), (n, K)))
    u, own = np.empty((0, 2)) if u is None else u, np.zeros(S) if own is None else own
    return natural_lists(lists, 0, attention, smallest, factors, shuffled, own, KEY, u, K, asked, names)


# ---- the definition, in a straight line ------------------------------------------------------------------------------


def _hash(key: int, item: int) -> int:
    mask = 2**64 - 1
    z = ((key ^ (item & mask)) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 31)) * 0xBF58476D1CE4E5B9) & mask
    return z ^ (z >> 29)


def _bisect(sums_to: Any, total: float) -> float:
    """The largest t of which the sum is not above the total."""
    low, high = -60.0, 60.0
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (low, middle) if sums_to(np.exp(middle)) > total else (middle, high)
    return float(np.exp(low))


def plain(
    lists: NDArray[np.int32],
    attention: Floats,
    smallest: Floats,
    factors: Floats,
    K: int,
    *,
    shuffled: float = 0.0,
    own: Floats | None = None,
) -> tuple[Floats, Floats, bool, Floats]:
    """Q (K, m) and e (K,) of one context's lists (S, m), leader first; whether floors hold; and the cells' ends."""
    S, m = lists.shape
    theta = np.zeros((S, K))
    for p in range(S):
        shown = lists[p] >= 0
        theta[p, lists[p][shown]] = factors[shown]
    items = np.array([y for y in dict.fromkeys(lists.ravel().tolist()) if y >= 0], dtype=int)
    whole = np.where((lists >= 0).all(axis=1), np.zeros(S) if own is None else own, 0.0)
    rest = 1 - whole.sum()
    by_place = np.argsort(-factors, kind="stable")
    flat = factors.min() == factors.max()
    level_factors = (1 - shuffled) * factors[by_place] + shuffled * factors.mean()
    H = np.concatenate([[0.0], np.cumsum(level_factors)])

    def integral(s: Any) -> Any:
        k = np.minimum(np.asarray(s).astype(int), m - 1)
        return H[k] + (s - k) * level_factors[k]

    led = theta[0, items]
    more = theta[:, items] - led
    gain = np.maximum(theta[:, items].max(axis=0) - led, 0.0)
    loss = np.maximum(-more.min(axis=0), 0.0)
    care = attention + 0.5 / S + 0.5 * (np.arange(S) == 0)
    rate = 0.5 * care @ theta[:, items] + 0.01
    value = np.where((gain > 0) | (loss > 0), np.sqrt(np.maximum(attention @ more**2, 1e-9) * rate), 1e-9)
    weight = (1 - EARNING) * value / value.sum() + EARNING * rate**2 / (rate**2).sum()
    mine = whole @ theta[:, items]
    floor = np.max([smallest[0] * gain, smallest[1] * loss, smallest[2] * theta[:, items].max(axis=0)], axis=0)
    lacking = np.maximum(floor - mine, 0).sum()
    room = rest * H[-1]
    scaled = mine + np.maximum(floor - mine, 0) * min(1.0, room / max(lacking, 1e-300))
    top = mine + rest * level_factors[0]
    low = np.clip(scaled, mine, top)
    borda = np.zeros(len(items))
    for p in range(S):
        for k in range(m):
            borda[items == lists[p, k]] += care[p] * (m - k) / m
    state = _hash(KEY, int(lists[0, 0]))
    ties = np.array([(_hash(state, int(y)) >> 48) & (LEVELS - 1) for y in items])
    kept, t = True, 0.0
    for attempt in range(2):
        if attempt == 0:
            total = room + mine.sum()
            t = _bisect(lambda t: np.clip(t * weight, low, top).sum(), total) if len(items) > m else total / len(items)
            key = borda / borda.max() if flat else (np.clip(t * weight, low, top) - mine) / (rest * level_factors[0])
        else:
            key = (low - mine) / (rest * level_factors[0])
        level = np.minimum((key * STEPS + 0.5).astype(int), LEVELS - 1)
        order = np.lexsort((np.arange(len(items)), ties, -level))

        def widths(t: float, order: Any = order) -> Floats:
            q, edge = np.zeros(len(items)), 0.0
            for a in order:
                goal = integral(edge) + (max(t * weight[a], low[a]) - mine[a]) / rest
                k = max(int(np.searchsorted(H, goal, side="right")) - 1, 0)
                k = min(k, m - 1)
                q[a] = min(k + (goal - H[k]) / level_factors[k] - edge, 1.0)
                edge += q[a]
            return q

        q = np.ones(len(items))
        if len(items) > m:
            q = widths(_bisect(lambda t: widths(t).sum(), m))
        ends = np.minimum(np.cumsum(q[order]), m)
        starts = np.concatenate([[0.0], ends[:-1]])
        e = np.zeros(len(items))
        e[order] = rest * (integral(ends) - integral(starts)) + mine[order]
        kept = bool((e >= floor * (1 - 1e-9)).all())
        if kept or lacking > room or flat:
            break
    Q, filled = np.zeros((K, m)), min(m, len(items))
    for j, a in enumerate(order):
        y = items[a]
        for r in range(m):
            part = max(min(ends[j], r + 1) - max(starts[j], r), 0.0)
            Q[y, by_place[r]] += rest * (1 - shuffled) * part
            Q[y, by_place[r]] += rest * shuffled * (ends[j] - starts[j]) / filled * (r < filled)
    for p in range(S):
        for k in range(m if whole[p] > 0 else 0):
            Q[lists[p, k], k] += whole[p]
    examined = np.zeros(K)
    examined[items] = e
    return Q, examined, kept and lacking <= room, ends


def setting(K: int, S: int, seed: int, floor: float, *, flat: bool = False) -> tuple[Any, Any, Any, Any, Any, float]:
    """Lists, attention, floors, factors, shares of own lists, and the share in random order, of all kinds."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, K + 1))
    lists, attention = some_lists(4, S, m, K, seed)
    factors = np.ones(m) if flat else rng.uniform(0.1, 1.5, size=m)
    own = np.zeros(S) if seed % 2 else rng.dirichlet(np.ones(S)) * rng.uniform(0, 0.9)
    shuffled = float((0.0, 0.05, 0.4, 1.0)[seed // 2 % 4])
    phi = floor * 0.85 / float(natural_needs(lists, 0, factors, shuffled, own, K).max())  # as epochs set it, or less
    smallest = np.array([phi, LEADERS * phi, min(0.05 * (1 - own.sum()), phi)])
    return lists, attention, smallest, factors, own, shuffled


SIZES = (st.integers(1, 12), st.integers(1, 9), st.integers(0, 10**6), st.floats(0.001, 1.0), st.booleans())


@settings(deadline=None, max_examples=80)
@given(*SIZES)
def test_natural_lists_follow_the_definition(K: int, S: int, seed: int, floor: float, flat: bool) -> None:
    lists, attention, smallest, factors, own, shuffled = setting(K, S, seed, floor, flat=flat)
    u = np.random.default_rng(seed).random((4, 2))
    shown, placements, covered, of_all = drawn(lists, attention, smallest, factors, K, u=u, shuffled=shuffled, own=own)
    m = len(factors)
    for x in range(4):
        Q, e, kept, _ = plain(lists[x], attention, smallest, factors, K, shuffled=shuffled, own=own)
        np.testing.assert_allclose(of_all[x, :, 0], Q.sum(axis=1), atol=1e-8)
        np.testing.assert_allclose(of_all[x, :, 1], Q @ factors, atol=1e-8)
        np.testing.assert_allclose(e, Q @ factors, atol=1e-8)
        np.testing.assert_allclose(placements[x], Q[shown[x]], atol=1e-8)
        assert covered[x] == kept
        assert len(set(shown[x].tolist())) == m
    np.testing.assert_allclose(of_all[:, :, 1].sum(axis=1), factors.sum(), rtol=1e-11)  # whatever the order
    np.testing.assert_allclose(of_all[:, :, 0].sum(axis=1), m, rtol=1e-11)


@settings(deadline=None, max_examples=60)
@given(*SIZES)
def test_every_list_comes_exactly_as_often_as_its_places_say(
    K: int, S: int, seed: int, floor: float, flat: bool
) -> None:
    """By the breakpoints of the one number that decides: between two of them the list is the same."""
    lists, attention, smallest, factors, own, _ = setting(K, S, seed, floor, flat=flat)
    ends = plain(lists[0], attention, smallest, factors, K, own=own)[3]
    here = own.sum()
    cuts = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(own), here + (1 - here) * np.mod(ends, 1.0)]).clip(0, 1))
    cuts = cuts[np.concatenate([[True], np.diff(cuts) > 1e-11])]
    middles, lengths = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
    many = np.ascontiguousarray(np.broadcast_to(lists[0], (len(middles), *lists[0].shape)))
    u = np.column_stack([middles, np.full(len(middles), 0.5)])
    shown, placements, _, of_all = drawn(many, attention, smallest, factors, K, u=u, own=own)
    m = len(factors)
    often = np.zeros((K, m))
    for j in range(m):
        np.add.at(often, (shown[:, j], j), lengths)
    for j in range(m):
        np.testing.assert_allclose(placements[:, j], often[shown[:, j]], atol=1e-8)
    np.testing.assert_allclose(of_all[0, :, 1], often @ factors, atol=1e-8)
    # An item stands in two neighbouring places at most, by what places are examined, but for own lists.
    if own.sum() == 0:
        ranks = often[:, np.argsort(-factors, kind="stable")] > 1e-9
        for row in ranks[ranks.any(axis=1)]:
            assert np.ptp(np.flatnonzero(row)) <= 1


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 10**6), st.floats(0.5, 4.0), st.booleans())
def test_stated_places_are_those_of_draws_whatever_the_floors(
    K: int, S: int, seed: int, floor: float, flat: bool
) -> None:
    """With floors that cannot be kept, too. An item has a place for u in an interval, or two beside one for each own
    list: by n points in the middle of equal parts its length is known up to 1/n for each.
    """
    lists, attention, smallest, factors, own, _ = setting(K, S, seed, floor / 0.85, flat=flat)
    n = 2048
    u = np.column_stack([(np.arange(n) + 0.5) / n, np.full(n, 0.5)])
    many = np.ascontiguousarray(np.broadcast_to(lists[0], (n, *lists[0].shape)))
    shown, placements, covered, of_all = drawn(many, attention, smallest, factors, K, u=u, own=own)
    m, often = len(factors), np.zeros((K, len(factors)))
    for j in range(m):
        np.add.at(often, (shown[:, j], j), 1 / n)
    for j in range(m):
        np.testing.assert_allclose(placements[:, j], often[shown[:, j]], atol=(2 + S) / n)
    e = of_all[0, :, 1]
    np.testing.assert_allclose(e, often @ factors, atol=m * (2 + S) / n * factors.max())
    assert e.sum() == pytest.approx(factors.sum())
    if covered[0]:
        theta = np.zeros((S, K))
        np.put_along_axis(theta, lists[0].astype(np.int64), factors[None].repeat(S, axis=0), axis=1)
        gain = np.maximum(theta.max(axis=0) - theta[0], 0.0)
        assert (e >= smallest[0] * gain * (1 - 1e-8)).all()


@pytest.mark.parametrize("shuffled", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_million_lists_in_their_places(shuffled: float, share: float) -> None:
    K, S, n = 9, 5, 10**6
    lists, attention = some_lists(1, S, 4, K, seed=3)
    factors, own = np.array([1.0, 0.5, 0.7, 0.2]), np.array([0.6, 0, 0.4, 0, 0]) * share
    smallest = np.array([0.1, 0.06, 0.02])
    _, _, _, of_all = drawn(lists, attention, smallest, factors, K, shuffled=shuffled, own=own)
    often, stated = np.zeros((K, 4)), np.zeros((K, 4))
    rng = np.random.default_rng(5)
    for _ in range(10):
        many = np.ascontiguousarray(np.broadcast_to(lists[0], (n // 10, S, 4)))
        shown, placements, _, _ = natural_lists(
            many, 0, attention, smallest, factors, shuffled, own, KEY, rng.random((n // 10, 2)), K,
            np.empty((n // 10, 0), dtype=np.int32), NO_NAMES,
        )  # fmt: skip
        for j in range(4):
            often[:, j] += np.bincount(shown[:, j], minlength=K)
            stated[shown[:, j]] = placements[:, j]
    np.testing.assert_allclose(stated @ factors, of_all[0, :, 1], atol=1e-12)
    low, high = binom.interval(1 - ALARM / stated.size, n, np.minimum(stated, 1.0))
    assert ((often >= low) & (often <= high)).all()


def test_lists_that_end_early_have_their_gaps_last() -> None:
    lists = np.array([[[3, 1, -1], [1, -1, -1]], [[0, 2, 4], [4, -1, -1]]], dtype=np.int32)
    lists = np.ascontiguousarray(np.repeat(lists, 200, axis=0))
    u = np.random.default_rng(0).random((400, 2))
    shown, placements, _, of_all = drawn(
        lists, np.array([0.0, 1.0]), np.full(3, 0.05), np.ones(3), 5, u=u, shuffled=0.4, own=np.array([0.2, 0.3])
    )
    assert (shown[:200, 2] == -1).all()
    assert (shown[:200, :2] >= 0).all()
    np.testing.assert_allclose(
        placements.sum(axis=2)[shown >= 0], of_all[np.arange(400)[:, None], shown, 0][shown >= 0]
    )
    np.testing.assert_allclose(placements[:200, 2], [[0, 0, 1]] * 200)
    assert (placements[:200, :2, 2] == 0).all()
    with pytest.raises(IndexError, match="alike"):
        drawn(lists, np.array([0.0, 1.0]), np.full(3, 0.05), np.array([1, 0.5, 0.2]), 5)


def test_other_numbers_of_the_same_items_change_nothing() -> None:
    """Ties are decided by what an item is called, whichever number it has inside the loop."""
    K, S, m = 30_000, 4, 3
    rng = np.random.default_rng(1)
    lists = np.argsort(rng.random((20, S, 40)), axis=2)[:, :, :m].astype(np.int32) * 700
    attention, u = np.array([0, 0.5, 0.3, 0.2]), rng.random((20, 2))
    smallest, factors = np.array([0.05, 0.03, 0.02]), np.array([1.0, 0.6, 0.3])
    asked = np.ascontiguousarray(lists[:, 1])
    few = Numbered(lists, asked, K)
    assert few.n_actions < K
    given = (0, attention, smallest, factors, 0.1, np.full(4, 0.1), KEY, u)
    one = natural_lists(lists, *given, K, asked, NO_NAMES)
    other = natural_lists(few.lists, *given, few.n_actions, few.asked, few.names)
    np.testing.assert_array_equal(few.items_of(other[0]), one[0])
    for k in (1, 2, 3):
        np.testing.assert_array_equal(other[k], one[k])


def test_the_order_of_items_does_not_follow_their_numbers() -> None:
    """Among equals, each is as often before as behind a larger number."""
    n, K = 2000, 40
    rng = np.random.default_rng(2)
    lists = np.argsort(rng.random((n, 1, K)), axis=2)[:, :, :8].reshape(n, 4, 2).astype(np.int32)
    lists = np.ascontiguousarray(lists)
    u = np.column_stack([rng.random(n), np.ones(n)])
    shown = drawn(lists, np.array([0, 1, 1, 1]) / 3, np.full(3, 0.2), np.array([1.0, 0.9]), K, u=u)[0]
    rises = int((shown[:, 0] < shown[:, 1]).sum())
    low, high = binom.interval(1 - ALARM, n, 0.5)
    assert low <= rises <= high


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12), st.integers(2, 9), st.integers(0, 10**6), st.booleans())
def test_no_more_can_be_had_than_is_said_to_be(K: int, S: int, seed: int, flat: bool) -> None:
    lists, attention, _, factors, own, shuffled = setting(K, S, seed, 0.1, flat=flat)
    needs = natural_needs(lists, 0, factors, shuffled, own, K)
    for x in range(4):
        phi = 1 / needs[x]
        assert 0 < phi <= 1
        floors = np.array([phi, LEADERS * phi, 0.0])
        if phi < 1 - 1e-6:
            assert not drawn(lists[x : x + 1], attention, floors * 1.01, factors, K, shuffled=shuffled, own=own)[2][0]


def test_cells_can_have_less_than_places_allow() -> None:
    """Why not all that is said to be possible can be had: with factors 1 and .5 two items may be examined .9 and .6,
    but the cell of the second, which begins where the first one's ends, would be 1.1 wide.
    """
    lists = np.array([[[2, 3], [0, 1]]], dtype=np.int32)
    factors = np.array([1.0, 0.5])
    room, wanted = factors.cumsum(), np.array([0.9, 0.6])
    assert (wanted.cumsum() <= room + 1e-12).all()
    mixed = np.array([[0.8, 0.2], [0.2, 0.8]])  # probabilities of places that would do
    np.testing.assert_allclose(mixed @ factors, wanted)
    ends = np.array([0.9, 2.0])  # of cells with these masses: .9 of the first unit; .1 of it, and all of the second
    np.testing.assert_allclose([ends[0] * 1.0, (1 - ends[0]) * 1.0 + (ends[1] - 1) * 0.5], wanted)
    assert np.diff(ends).max() > 1
    needs = natural_needs(lists, 0, factors, 0.0, np.zeros(2), 4)[0]
    assert needs >= 1


def test_what_is_needed_can_be_had() -> None:
    """With the share of it that an epoch asks for, in nearly all contexts; in all of them it cannot be, see above."""
    for seed in range(6):
        lists, attention = some_lists(300, 12, 4, 20, seed)
        factors = np.array([1.0, 0.6, 0.4, 0.3]) if seed % 2 else np.ones(4)
        own = np.full(12, 0.5 / 12) if seed % 3 == 0 else np.zeros(12)
        needs = natural_needs(lists, 0, factors, 0.05, own, 20)
        phi = 0.75 / needs.max()
        floors = np.array([phi, LEADERS * phi, min(0.05 * (1 - own.sum()), phi)])
        assert drawn(lists, attention, floors, factors, 20, shuffled=0.05, own=own)[2].mean() > 0.99
