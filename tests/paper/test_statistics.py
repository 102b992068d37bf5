"""Slopes, ratios and frequencies: right on known answers, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest

from comband.paper.statistics import frequency, log_log_slope, mean_ratio, mean_value, worst


def noisy_line(slope: float, noise: float, rng: np.random.Generator, seeds: int = 4) -> dict[float, list[float]]:
    return {x: list(3 * x**slope * np.exp(noise * rng.standard_normal(seeds))) for x in (1.0, 2.0, 4.0, 8.0)}


def test_exact_lines_are_found_exactly() -> None:
    estimate = log_log_slope({x: [5 * x**-1.5] * 3 for x in (1.0, 3.0, 10.0)})
    assert estimate.value == pytest.approx(-1.5)
    assert estimate.low == pytest.approx(-1.5)
    assert estimate.high == pytest.approx(-1.5)


@pytest.mark.parametrize("seeds", [3, 8])
def test_slope_intervals_cover(seeds: int) -> None:
    """99% intervals miss in at most 5% of 400 repetitions; at a true rate of 1.5% more than that has P < 1e-6."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        estimate = log_log_slope(noisy_line(1.0, 0.2, rng, seeds))
        missed += not estimate.low <= 1.0 <= estimate.high
    assert missed <= 20


def test_what_cannot_be_said_has_no_interval() -> None:
    one_seed = log_log_slope({1.0: [1.0], 2.0: [2.0]})
    assert one_seed.value == pytest.approx(1.0)
    assert math.isnan(one_seed.low)
    assert math.isnan(log_log_slope({1.0: [1.0, 2.0]}).value)
    assert math.isnan(log_log_slope({1.0: [1.0, -2.0], 2.0: [1.0, 1.0]}).high)
    assert math.isnan(mean_value([1.0]).low)


def test_ratios_and_means() -> None:
    rng = np.random.default_rng(1)
    a = rng.exponential(size=50) + 1
    ratio = mean_ratio(3 * a, a)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3, 3, 3))
    spread = mean_ratio(rng.exponential(size=200), rng.exponential(size=200))
    assert spread.low < 1 < spread.high
    mean = mean_value([1.0, 2.0, 3.0])
    assert mean.value == 2
    assert mean.high - 2 == pytest.approx(9.925 / math.sqrt(3), rel=1e-3)  # Student, 2 degrees of freedom, 99%


def test_frequencies_are_clopper_pearson() -> None:
    assert frequency(0, 10).low == 0
    assert frequency(0, 10).high == pytest.approx(1 - 0.005 ** (1 / 10))
    assert frequency(10, 10).low == pytest.approx(0.005 ** (1 / 10))
    assert frequency(10, 10).high == 1
    both = worst([frequency(1, 10), frequency(5, 10)])
    assert both == frequency(5, 10)
