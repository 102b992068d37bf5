"""Betting bounds from histograms: on the safe side of exact wealths, close to them, and right as often as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from comband.page.bits import PackedRows
from comband.statistics.exact import ExactValueSums
from comband.statistics.histograms import _BETS, ValueHistograms
from comband.statistics.importance import SharedActions


def log_wealth(values: NDArray[np.float64], mu: float, bound: float) -> float:
    """log (1/J) Σ_j Π_t (1 − λ_j (z_t − μ)) without a histogram."""
    logs = np.log(1 - (_BETS / bound)[:, None] * (values[None, :] - mu)).sum(axis=1)
    return float(np.logaddexp.reduce(logs) - np.log(len(_BETS)))


def exact_upper(values: NDArray[np.float64], bound: float, threshold: float, largest: float) -> float:
    low, high = 0.0, largest
    for _ in range(50):
        middle = (low + high) / 2
        if log_wealth(values, middle, bound) >= np.log(threshold):
            high = middle
        else:
            low = middle
    return high


def sparse(rng: np.random.Generator, n: int, bound: float) -> NDArray[np.float64]:
    return np.asarray((rng.random(n) < 0.2) * rng.choice([-1, 1], n) * bound * rng.random(n) ** 3)


@pytest.mark.parametrize("seed", range(5))
def test_never_below_the_exact_bound_and_hardly_above(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = sparse(rng, 2000, 30.0)
    histograms = ValueHistograms.zero(1, bound=30.0, n_rounds=2000)
    histograms.add(values[values != 0][:, None])
    bound = histograms.upper_bounds(threshold=200.0, largest=5.0)[0]
    exact = exact_upper(values, 30.0, 200.0, 5.0)
    assert exact <= bound <= exact * 1.01 + 1e-9


def test_halves_add_up() -> None:
    rng = np.random.default_rng(1)
    values = rng.uniform(-2, 2, size=(100, 3))
    whole = ValueHistograms.zero(3, bound=2.0, n_rounds=150)
    whole.add(values)
    first, second = (ValueHistograms.zero(3, bound=2.0, n_rounds=75) for _ in range(2))
    first.add(values[:30])
    second.add(values[30:])
    np.testing.assert_allclose((first + second).counts, whole.counts, atol=1e-9)
    assert (first + second).n_rounds == 150
    with pytest.raises(ValueError, match="one bound"):
        _ = first + ValueHistograms.zero(3, bound=3.0)


@given(st.lists(st.floats(-7, 7), min_size=1, max_size=30))
@settings(deadline=None)
def test_splitting_keeps_counts_and_means(values: list[float]) -> None:
    histograms = ValueHistograms.zero(1, bound=7.0, n_rounds=len(values))
    histograms.add(np.array(values)[:, None])
    nonzero = [value for value in values if value != 0]
    assert histograms.counts.sum() == pytest.approx(len(nonzero))
    assert float(histograms.counts[0] @ histograms.grid) == pytest.approx(sum(nonzero), abs=1e-9 * 7 * len(values))
    assert (histograms.counts >= 0).all()


def test_bounds_miss_no_more_often_than_promised() -> None:
    """100 samples, bounds at 1/20 each side: more than 25 misses of a side have probability below 1e-10."""
    rng = np.random.default_rng(2)
    n, samples, bound = 500, 100, 10.0
    clicks = rng.random((n, samples)) < 0.1
    values = np.where(clicks, rng.uniform(0, bound, size=(n, samples)), 0.0)
    mean = 0.1 * bound / 2
    histograms = ValueHistograms.zero(samples, bound=bound, n_rounds=n)
    histograms.add(values)
    upper = histograms.upper_bounds(threshold=20.0, largest=bound)
    lower = histograms.lower_bounds(threshold=20.0, largest=bound)
    assert (upper < mean).sum() <= 25
    assert (lower > mean).sum() <= 25
    assert (lower <= upper).all()
    assert np.median(upper - lower) < 0.7  # a normal interval at the same level is 0.28 wide


def test_nothing_seen_says_nothing() -> None:
    histograms = ValueHistograms.zero(2, bound=10.0)
    assert histograms.upper_bounds(threshold=20.0, largest=1.0).tolist() == [1.0, 1.0]
    assert histograms.lower_bounds(threshold=20.0, largest=1.0).tolist() == [0.0, 0.0]


def wealth_at(kind: str, values: NDArray[np.float64], zeros: int, mean: float, bound: float, largest: float) -> float:
    """The log-wealth of bets against this mean, that the true one is smaller (upper) or larger, without a histogram."""
    bets = {"upper": -_BETS / bound, "lower": _BETS / mean, "signed": _BETS / (bound + largest)}[kind]
    logs = np.log1p(bets[:, None] * (values[None, :] - mean)).sum(axis=1) + zeros * np.log1p(-bets * mean)
    return float(np.logaddexp.reduce(logs) - np.log(len(_BETS)))


@pytest.mark.parametrize("kind", ["upper", "lower", "signed"])
@pytest.mark.parametrize(("positive", "zeros"), [(0, 5), (1, 0), (1, 10**6), (40, 60), (700, 10_000), (3000, 0)])
def test_bounds_end_where_the_wealth_reaches_the_threshold(kind: str, positive: int, zeros: int) -> None:
    rng = np.random.default_rng([positive, zeros])
    histograms = ValueHistograms.zero(140, bound=8.0, n_rounds=positive + zeros)  # more than a block of variables
    points = histograms.grid if kind != "lower" else histograms.grid[histograms.grid > 0]
    tilt = np.where(np.arange(140) % 2, 1.0, np.exp(-np.arange(140) / 20))  # of both signs, to tiny ones
    values = rng.choice(points[:: len(points) // 150], size=(positive, 140))
    if kind != "lower":
        values = np.where(rng.random((positive, 140)) < tilt, values, -np.abs(values))
    histograms.add(values)
    largest, threshold = 2.0, 300.0
    method = {"upper": "upper_bounds", "lower": "lower_bounds", "signed": "signed_lower_bounds"}[kind]
    found = getattr(histograms, method)(threshold=threshold, largest=largest)
    for variable, end in enumerate(found):

        def reached(mean: float, own: NDArray[np.float64] = values[:, variable]) -> bool:
            return wealth_at(kind, own, zeros, mean, 8.0, largest) >= math.log(threshold)

        outwards, limit = (3e-9, largest) if kind == "upper" else (-3e-9, 0.0)
        assert end == limit or reached(end + outwards)
        if 0 < end - outwards < largest:
            assert not reached(end - outwards)


@pytest.mark.parametrize("n_variables", [1, 64, 130])
@pytest.mark.parametrize("shifted", [False, True])
def test_events_that_candidates_share_are_summed_as_a_matrix_would_be(n_variables: int, shifted: bool) -> None:
    """Rounds of one event, of so few that their sets are looked up, and of more."""
    rng = np.random.default_rng(n_variables)
    sizes = np.repeat([1, 2, 3, 6, 7, 11], 20)
    places = np.repeat(np.arange(len(sizes)), sizes)
    inside = rng.random((len(places), n_variables)) < 0.3
    shared = SharedActions(np.arange(len(sizes)), np.arange(len(places)), places, PackedRows.from_cells(inside))
    weights = rng.random(len(places))
    offsets = rng.uniform(-2, 2, len(sizes)) if shifted else None
    matrix = shared.sums(weights) + (0.0 if offsets is None else offsets[:, None])
    direct, plain = (ValueHistograms.zero(n_variables, bound=14.0, n_rounds=len(sizes)) for _ in range(2))
    sums = ExactValueSums.zero(n_variables, bound=14.0, n_rounds=len(sizes))
    direct.add_shared(shared, weights, offsets=offsets, sums=sums)
    plain.add(matrix)
    np.testing.assert_allclose(direct.counts, plain.counts, atol=1e-9)
    np.testing.assert_allclose(sums.rounded().sums, matrix.sum(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.rounded().squares, (matrix**2).sum(axis=0), rtol=1e-12)
