"""Stakes, log-mean-exp and bisection against other people's computations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import logsumexp

from comband.estimates import betting, guards, histograms, pairs, sequences
from comband.estimates.grids import bisect, log_mean_exp, stake_grid


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
