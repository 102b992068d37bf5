"""Lists with places are drawn with exactly the probabilities that are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from comband._kernels import places, rounding

Floats = NDArray[np.float64]
ALARM = 1e-7  # a right program fails a test by chance that rarely


def some_lists(n: int, S: int, m: int, K: int, seed: int, *, alike: float = 0.5) -> tuple[NDArray[np.int32], Floats]:
    """Lists (n, S, m) that agree in many places, as those of good candidates do, and attention (S,)."""
    rng = np.random.default_rng([seed, n, S, m, K])
    common = np.argsort(rng.random((n, 1, K)), axis=2) + 0.0
    own = np.argsort(rng.random((n, S, K)), axis=2) + 0.0
    lists = np.argsort(np.where(rng.random((n, S, 1)) < alike, common, own) + 3 * rng.random((n, S, K)), axis=2)
    attention = rng.random(S)
    attention[0] = 0.0
    return lists[:, :, :m].astype(np.int32), attention / max(attention.sum(), 1e-300)


# ---- examination -----------------------------------------------------------------------------------------------------


def examination(
    lists: NDArray[np.int32], attention: Floats, smallest: Floats, factors: Floats, K: int, u: Floats | None = None
) -> tuple[NDArray[np.int32], Floats, NDArray[np.bool_], Floats]:
    n = len(lists)
    asked = np.ascontiguousarray(np.broadcast_to(np.arange(K, dtype=np.int32), (n, K)))
    u = np.empty((0, 2)) if u is None else u
    result: tuple[NDArray[np.int32], Floats, NDArray[np.bool_], Floats]
    result = places.examination_lists(lists, 0, attention, smallest, factors, u, K, asked)
    return result


def plain_examination(lists: NDArray[np.int32], attention: Floats, smallest: Floats, factors: Floats, K: int) -> Floats:
    """The definition for one context's lists (S, m), leader first, with plain bisection."""
    S, m = lists.shape
    theta = np.zeros((S, K))
    for p in range(S):
        theta[p, lists[p]] = factors
    listed = (theta > 0).any(axis=0)
    more = theta - theta[0]
    care = attention @ more**2
    disputed = (more != 0).any(axis=0)
    weight = np.where(disputed, np.sqrt(np.maximum(care, 1e-9) * ((theta > 0).mean(axis=0) + 0.01)), 1e-9)
    low = np.max(
        [smallest[0] * more.max(axis=0), smallest[1] * (-more).max(axis=0), smallest[2] * theta.max(axis=0)], axis=0
    )
    low *= m / factors.sum()
    low /= max(1.0, low.max(), low.sum() / m)
    weight, low = np.where(listed, weight, 0), np.where(listed, low, 0)
    small, large = -40.0, 60.0
    for _ in range(200):
        middle = (small + large) / 2
        if np.minimum(np.maximum(np.exp(middle) * weight, low), listed).sum() > m:
            large = middle
        else:
            small = middle
    return np.asarray(np.minimum(np.maximum(np.exp(small) * weight, low), listed))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_examination_follows_the_definition(K: int, S: int, seed: int, floor: float) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, K + 1))
    lists, attention = some_lists(4, S, m, K, seed)
    factors = rng.uniform(0.1, 1.5, size=m)
    smallest = np.array([floor, 0.3 * floor, min(0.05, floor)])
    shown, q, covered, of_all = examination(lists, attention, smallest, factors, K, rng.random((4, 2)))
    for x in range(4):
        np.testing.assert_allclose(of_all[x], plain_examination(lists[x], attention, smallest, factors, K), atol=2e-6)
    np.testing.assert_allclose(of_all.sum(axis=1), m, atol=1e-9)
    np.testing.assert_allclose(q, np.take_along_axis(of_all, shown.astype(np.int64), 1), atol=1e-15)
    assert all(len(set(row)) == m for row in shown.tolist())
    # e(y) ≥ φ·g(y) where the smallest hold, and they hold if smallest of their size fit.
    needs = places.examination_needs(lists, 0, factors, K)
    for x in range(4):
        theta = np.zeros((S, K))
        for p in range(S):
            theta[p, lists[x, p]] = factors
        gain = (theta - theta[0]).max(axis=0)
        assert needs[x] == pytest.approx(max(gain.sum(), gain.max() * m) / factors.sum(), abs=1e-12)
        e = of_all[x] * factors.sum() / m
        assert not covered[x] or (e >= floor * gain - 1e-9).all()
        assert not covered[x] or (e >= min(0.05, floor) * theta.max(axis=0) - 1e-9).all()
        assert e.sum() == pytest.approx(factors.sum())


def test_inclusion_is_exact_and_so_is_the_factor() -> None:
    """All lists by the intervals of the one number that draws the set: inclusion is q to the last digits."""
    K, m = 9, 3
    factors = np.array([1.0, 0.6, 0.3])
    lists, attention = some_lists(1, 5, m, K, 3)
    smallest = np.array([0.2, 0.06, 0.05])
    q = examination(lists, attention, smallest, factors, K)[3][0]
    order = list(dict.fromkeys(lists[0].ravel().tolist()))  # items in the order of their cells
    edges = np.unique(np.r_[0.0, np.cumsum(q[order]) % 1.0, 1.0])
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    many = np.repeat(lists, len(middles), axis=0)
    shown = examination(many, attention, smallest, factors, K, np.column_stack([middles, middles]))[0]
    inclusion = np.bincount(shown.ravel(), np.repeat(lengths, m), minlength=K)
    np.testing.assert_allclose(inclusion, q, atol=1e-13)


# ---- pairs -----------------------------------------------------------------------------------------------------------


def pairs(
    lists: NDArray[np.int32], attention: Floats, smallest: Floats, K: int, u: Floats | None = None
) -> tuple[NDArray[np.int32], Floats, NDArray[np.bool_], Floats]:
    """As the kernel, with the probabilities of all pairs as (n, m, K)."""
    n, _, m = lists.shape
    asked = np.ascontiguousarray(np.broadcast_to(np.arange(K * m, dtype=np.int32), (n, K * m)))
    u = np.empty((0, 2)) if u is None else u
    shown, q, covered, of_all = places.pair_lists(lists, 0, attention, smallest, u, K, asked)
    return shown, q, covered, of_all.reshape(n, K, m).transpose(0, 2, 1)


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_pairs_fill_every_place_and_keep_their_smallest(K: int, S: int, seed: int, floor: float) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, K + 1))
    lists, attention = some_lists(4, S, m, K, seed)
    smallest = np.array([floor, 0.3 * floor, min(0.05, floor)])
    shown, q, covered, Q = pairs(lists, attention, smallest, K, rng.random((4, 2)))
    np.testing.assert_allclose(Q.sum(axis=2), 1.0, atol=2e-11)
    assert Q.sum(axis=1).max() <= 1 + 1e-12
    assert Q.min() >= 0
    assert all(len(set(row)) == m for row in shown.tolist())
    np.testing.assert_array_equal(q, Q[np.arange(4)[:, None], np.arange(m), shown])
    needs = places.pair_needs(lists, 0, K)
    for x in range(4):
        votes = np.zeros((m, K))
        for p in range(S):
            votes[np.arange(m), lists[x, p]] += 1
        outside = votes > 0
        outside[np.arange(m), lists[x, 0]] = False
        assert needs[x] == max(outside.sum(axis=1).max(), outside.sum(axis=0).max())
        assert (Q[x][votes > 0] > 0).all()
        if covered[x]:
            assert (Q[x][outside] >= floor - 1e-12).all()
            assert (Q[x][votes > 0] >= smallest.min() - 1e-12).all()
        least = np.where(votes == S, smallest[2], np.where(outside, smallest[0], smallest[1])) * (votes > 0)
        assert covered[x] == (max(least.sum(axis=1).max(), least.sum(axis=0).max()) <= 1)


def test_pairs_weigh_attention_and_the_share_of_the_item() -> None:
    """One place, no item in the way and smallest too small to matter: probabilities in proportion to the weights."""
    lists = np.array([[[0], [1], [2], [2]]], dtype=np.int32)
    attention = np.array([0.0, 0.5, 0.3, 0.2])
    Q = pairs(lists, attention, np.full(3, 1e-12), 3)[3][0, 0]
    weight = np.sqrt(np.array([1.0, 0.5, 0.5]) * (np.array([0.25, 0.25, 0.5]) + 0.01))
    np.testing.assert_allclose(Q, weight / weight.sum(), atol=1e-12)


PLAIN = ("_is_open", "_gather", "_round_within_places", "_drop", "_round_matrix")


class Chances:
    """Every outcome of a function of chances in turn, each with its probability."""

    def __init__(self) -> None:
        self.chance, self._at = 1.0, 0
        self._taken: list[int] = []
        self._left: list[list[int]] = [[]]

    def __iter__(self) -> Iterator[Chances]:
        while self._left:
            self.chance, self._taken, self._at = 1.0, self._left.pop(), 0
            yield self

    def one_of(self, shares: Floats) -> int:
        """A position, with its share."""
        if self._at == len(self._taken):
            self._left += [[*self._taken, j] for j in range(1, len(shares))]  # the others, later
            self._taken.append(0)
        one = self._taken[self._at]
        self._at += 1
        self.chance *= float(shares[one] / shares.sum())
        return one

    def coin(self, state: Any, up: float, down: float) -> tuple[Any, float]:
        return state, up if self.one_of(np.array([down, up])) == 0 else -down

    def pick(self, state: Any, f: Floats, start: int, stop: int, total: float) -> tuple[Any, int]:
        assert f[start:stop].sum() == pytest.approx(total, abs=1e-14)
        return state, start + self.one_of(f[start:stop])


@pytest.mark.parametrize("seed", range(8))
def test_rounding_is_exact_by_enumeration_of_its_coins(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain functions with every sequence of picks and coins in turn: all lists are valid, and E = Q to the last
    digits. Few items, of which most must be shown, and more of them.
    """
    K, S, m = (5, 4, 4) if seed > 5 else (6, 4, 3 if seed % 2 else 2)
    lists, attention = some_lists(1, S, m, K, seed, alike=0.2)
    Q = pairs(lists, attention, np.array([0.1, 0.03, 0.05]), K)[3][0]
    items, q, count = np.zeros((m, K), dtype=np.int32), np.zeros((m, K)), (Q > 0).sum(axis=1)
    for k in range(m):
        items[k, : count[k]] = np.flatnonzero(Q[k] > 0)
        q[k, : count[k]] = Q[k, Q[k] > 0]
    floats, whole = rounding.working_room(K, m)
    plain_round_places = rounding.round_places.py_func
    for name in PLAIN:
        monkeypatch.setattr(rounding, name, getattr(rounding, name).py_func)
    chances = Chances()
    monkeypatch.setattr(rounding, "_coin", chances.coin)
    monkeypatch.setattr(rounding, "_pick", chances.pick)
    mean, total, n_lists = np.zeros((m, K)), 0.0, 0
    row_of, out = np.full(K, -1, dtype=np.int32), np.empty(m, dtype=np.int64)
    for _ in chances:
        unshown = np.maximum(1 - Q.sum(axis=0), 0)
        plain_round_places(items, q, count, unshown, np.uint64(0), row_of, floats, whole, out)
        shown = items[np.arange(m), out]
        assert (out >= 0).all()
        assert (out < count).all()
        assert len(set(shown.tolist())) == m
        assert (row_of == -1).all()
        mean[np.arange(m), shown] += chances.chance
        total += chances.chance
        n_lists += 1
    assert n_lists >= 4
    assert total == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(mean, Q, atol=1e-13)


def test_picks_and_coins_are_as_likely_as_they_say() -> None:
    """What the enumeration takes for granted, by the limits of the one number that decides."""
    f, n = np.array([0.9, 0.1, 0.25, 0.05]), 40_000
    picked = np.bincount([rounding._pick(np.uint64(i), f, 1, 4, 0.4)[1] for i in range(n)], minlength=4)
    ups = sum(rounding._coin(np.uint64(i), 0.3, 0.1)[1] == 0.3 for i in range(n))
    chances = np.array([0, 0.25, 0.625, 0.125, 0.25])
    counts = np.array([*picked, ups])
    tails = 2 * np.minimum(binom.cdf(counts, n, chances), binom.sf(counts - 1, n, chances))
    assert tails.min() * 5 > ALARM


def frequencies_fit(n: int, K: int, S: int, m: int, seed: int) -> None:
    lists, attention = some_lists(1, S, m, K, seed)
    many = np.broadcast_to(lists, (n, S, m))
    Q = pairs(lists, attention, np.array([0.05, 0.015, 0.05]), K)[3][0]
    none = np.empty((n, 0), dtype=np.int32)
    u = np.random.default_rng(seed).random((n, 2))
    shown, q, *_ = places.pair_lists(
        np.ascontiguousarray(many), 0, attention, np.array([0.05, 0.015, 0.05]), u, K, none
    )
    ordered = np.sort(shown, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    for k in range(m):
        counts = np.bincount(shown[:, k], minlength=K)
        chance = np.clip(Q[k], 0, 1)
        tail = 2 * np.minimum(binom.cdf(counts, n, chance), binom.sf(counts - 1, n, chance))
        assert tail.min() * K * m > ALARM
    np.testing.assert_array_equal(q, Q[np.arange(m), shown])


def test_pairs_are_shown_as_often_as_recorded() -> None:
    for K, S, m, seed in ((8, 4, 3, 0), (30, 12, 5, 1)):
        frequencies_fit(50_000, K, S, m, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("K", "S", "m"), [(8, 4, 3), (30, 12, 5), (120, 40, 5), (12, 20, 10)])
def test_pairs_are_shown_as_often_as_recorded_in_a_million_draws(K: int, S: int, m: int) -> None:
    for part in range(5):
        frequencies_fit(200_000, K, S, m, part)
