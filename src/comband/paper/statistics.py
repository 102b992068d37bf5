"""Estimates with their uncertainty: slopes, ratios and frequencies from a few seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, t

LEVEL = 0.99
"""Coverage of every interval; high, because a report holds some thirty of them."""

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the interval that holds it with probability `LEVEL`; NaN ends when nothing can be said."""

    value: float
    low: float
    high: float


def log_log_slope(groups: Mapping[float, ArrayLike]) -> Estimate:
    """The slope b of log(mean of y) = a + b·log x by least squares, for values y of several seeds at each x.

    Seeds are resampled within each x (bootstrap). The interval is the slope ± the bootstrap standard error times
    Student's quantile with Σ(n−1) degrees of freedom, and the standard error is enlarged by √(n/(n−1)): plain
    percentiles are too narrow with the handful of seeds that experiments have.

    >>> estimate = log_log_slope({1: [2., 2.1], 10: [20., 21.], 100: [200., 207.]})
    >>> round(estimate.value, 2), estimate.low < 1 < estimate.high
    (1.0, True)
    """
    x = np.array([float(level) for level in groups])
    if len(x) < 2 or (x <= 0).any():
        return Estimate(math.nan, math.nan, math.nan)
    centred = np.log(x) - np.log(x).mean()
    rows = [np.asarray(values, dtype=np.float64) for values in groups.values()]
    rng = np.random.default_rng(0)

    def slope(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(logs @ centred / (centred @ centred))

    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log([row.mean() for row in rows])
        resampled = np.stack([_resampled_logs(row, rng) for row in rows], axis=-1)
    return _interval(float(slope(logs)), slope(resampled), freedom=sum(len(row) - 1 for row in rows))


def mean_ratio(numerator: ArrayLike, denominator: ArrayLike) -> Estimate:
    """mean(numerator)/mean(denominator) over paired seeds, with a bootstrap interval on the logarithm."""
    a, b = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(a), size=(RESAMPLES, len(a)))
    factor = math.sqrt(len(a) / max(len(a) - 1, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.log(a.mean() / b.mean()))
        resampled = np.log(a[chosen].mean(axis=1) / b[chosen].mean(axis=1))
    on_log = _interval(value, value + factor * (resampled - value), freedom=len(a) - 1)
    return Estimate(math.exp(on_log.value), math.exp(on_log.low), math.exp(on_log.high))


def mean_value(values: ArrayLike) -> Estimate:
    """A mean over seeds with Student's interval."""
    v = np.asarray(values, dtype=np.float64)
    if len(v) < 2:
        return Estimate(float(v.mean()), math.nan, math.nan)
    radius = float(t.isf((1 - LEVEL) / 2, len(v) - 1) * v.std(ddof=1) / math.sqrt(len(v)))
    return Estimate(float(v.mean()), float(v.mean()) - radius, float(v.mean()) + radius)


def frequency(successes: int, trials: int, *, level: float = LEVEL) -> Estimate:
    """A probability from independent trials, with the exact interval of Clopper and Pearson."""
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.isf(tail, successes + 1, trials - successes))
    return Estimate(successes / trials, low, high)


def worst(estimates: Sequence[Estimate]) -> Estimate:
    """An estimate of the largest of several quantities: the largest value, lower end and upper end."""
    return Estimate(*(float(max(getattr(e, end) for e in estimates)) for end in ("value", "low", "high")))


def _resampled_logs(row: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Logarithms of bootstrap means, spread by √(n/(n−1)) around that of the mean, to undo their smaller variance."""
    n = len(row)
    centre = np.log(row.mean())
    means = row[rng.integers(n, size=(RESAMPLES, n))].mean(axis=1)
    return np.asarray(centre + math.sqrt(n / max(n - 1, 1)) * (np.log(means) - centre))


def _interval(value: float, resampled: NDArray[np.float64], *, freedom: int) -> Estimate:
    if freedom < 1 or not np.isfinite(resampled).all() or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan)
    radius = float(t.isf((1 - LEVEL) / 2, freedom) * resampled.std())
    return Estimate(value, value - radius, value + radius)
