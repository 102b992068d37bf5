"""Stakes, log-mean-exp and bisection against other people's computations."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import logsumexp

from comband.statistics import betting, guards, histograms, pairs, sequences
from comband.statistics.grids import bisect, crossing, log_mean_exp, stake_grid


@pytest.mark.parametrize(
    ("n", "largest", "per_octave"), [(1, 1.0, 1.0), (16, 0.98, 1.0), (30, 0.5, 3.0), (9, 2.0, 0.6)]
)
def test_stakes_fall_by_one_factor(n: int, largest: float, per_octave: float) -> None:
    grid = stake_grid(n, largest=largest, per_octave=per_octave)
    expected = [largest * math.exp(-k * math.log(2) / per_octave) for k in range(n)]
    np.testing.assert_allclose(grid, expected, rtol=1e-14)
    assert grid[0] == largest
    with pytest.raises(ValueError, match="read-only"):
        grid[0] = 1


def test_every_grid_of_stakes() -> None:
    assert betting.STAKES[:-1].tolist() == [2.0 ** (-k / 3) for k in range(126)]
    assert betting.STAKES[-1] == 0
    assert sequences.VALUE_STAKES.tolist() == [float(Fraction(1, 4**k)) for k in range(10)]
    assert histograms._BETS.tolist() == [0.98 / 2**k for k in range(16)]
    np.testing.assert_allclose(pairs.BETS[::-1], np.geomspace(0.005, 0.95, 12), rtol=1e-14)
    assert guards._STAKES[0] == 0.5
    np.testing.assert_allclose(guards._STAKES[:-1] / guards._STAKES[1:], 10**0.5, rtol=4e-3)


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(-900, 900)))
def test_log_mean_exp_is_that_of_scipy(logs: np.ndarray) -> None:
    expected = logsumexp(logs, axis=-1) - np.log(logs.shape[-1])
    np.testing.assert_allclose(log_mean_exp(logs), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose([float(log_mean_exp(row)) for row in logs], expected, rtol=1e-13, atol=1e-13)


def test_log_mean_exp_where_some_or_all_is_lost() -> None:
    lost = np.full(3, -np.inf)
    with np.errstate(divide="ignore"):
        assert log_mean_exp(lost) == -np.inf
    np.testing.assert_allclose(log_mean_exp(np.array([[-np.inf, 800.0]])), 800 - np.log(2), rtol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_bisect_finds_the_roots_of_brent(seed: int) -> None:
    roots = np.random.default_rng(seed).uniform(0, 3, size=7)
    low, high = bisect(lambda x: np.expm1(x - roots) >= 0, np.zeros(7), 3.0)
    for below, above, root in zip(low, high, roots, strict=True):
        assert below <= root <= above
        assert brentq(lambda x, root=root: np.expm1(x - root), 0, 3, xtol=1e-14) == pytest.approx(above, abs=1e-13)
    coarse = bisect(lambda x: x >= roots, np.zeros(7), np.full(7, 3.0), steps=4)
    np.testing.assert_allclose(coarse[1] - coarse[0], 3 / 16)


def test_bisect_keeps_the_ends_it_never_asked() -> None:
    low, high = bisect(lambda x: np.array([True, False]), [1.0, 1.0], [5.0, 5.0])
    assert low[0] == 1.0
    assert high[0] == pytest.approx(1.0)
    assert low[1] == pytest.approx(5.0)
    assert high[1] == 5.0


SHAPES: dict[str, Callable[[np.ndarray], Any]] = {
    "straight": lambda d: d,
    "exponential": lambda d: np.expm1(40 * d),
    "flat, then steep": lambda d: np.where(d < 0, 1e-9 * d, 1e9 * d),
    "steep, then flat": lambda d: np.where(d < 0, 1e9 * d, 1e-9 * d),
    "of high order": lambda d: np.sign(d) * np.abs(d) ** 9,
    "a root": lambda d: np.sign(d) * np.sqrt(np.abs(d)),
    "a step": lambda d: np.where(d < 0, -1.0, 1.0),
    "infinite beside it": lambda d: np.where(d < 0, -np.inf, np.inf),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_crossing_finds_what_bisection_finds(shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    roots, guesses = rng.uniform(0, 3, size=40), rng.uniform(-1, 4, size=40)
    roots[:3], guesses[3:5] = (0, 3, 5), (np.nan, np.inf)
    starts = np.where(rng.random(40) < 0.5, 0.0, roots * rng.random(40))
    calls = []

    def excess(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return np.asarray(SHAPES[shape](x - roots))

    for steps in (4, 32, 50):
        expected = bisect(lambda x: ~(excess(x) < 0), np.zeros(40), 3.0, steps=steps)[1]
        expected[0] = 0.0  # bisection asks no ends
        calls.clear()
        found = crossing(excess, 3.0, start=starts, guess=guesses, steps=steps)
        assert found.tolist() == expected.tolist()
        assert len(calls) <= 2 * steps + 4
        alone = crossing(
            lambda x: SHAPES[shape](x - roots[7:8]), 3.0, start=roots[7:8] / 2, guess=np.ones(1), steps=steps
        )
        assert alone[0] == expected[7]
    if shape in ("straight", "exponential"):
        assert len(calls) <= 25
    expected = bisect(lambda x: ~(excess(x) < 0), np.zeros(40), 0.7, steps=32)[1]  # a grid that is not exact
    expected[0] = 0.0
    found = crossing(excess, 0.7, start=starts, guess=guesses, steps=32)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_crossing_at_the_ends() -> None:
    values = np.array([1.0, -1.0, 0.0, -np.inf, np.nan])
    none = np.zeros(5)
    assert crossing(lambda x: values, 5.0, start=none, guess=none + 2).tolist() == [0, 5, 0, 5, 5]
    assert crossing(lambda x: values, 5.0, start=none + 5, guess=none).tolist() == [5, 5, 5, 5, 5]
    assert crossing(lambda x: x, 5.0, start=np.empty(0), guess=np.empty(0)).tolist() == []
