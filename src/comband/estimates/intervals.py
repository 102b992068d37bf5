"""Intervals for means of bounded variables at a sample size fixed beforehand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.estimates.importance import ValueSums


def empirical_bernstein(
    values: ValueSums, *, bound: float, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper ends of intervals that hold for all policies at once with probability 1 − δ.

    Maurer & Pontil (2009), Theorem 4, on each side for each of P policies, hence δ/(2P) a side: for n i.i.d. values in
    [0, b] with sample variance V, the mean is off by at most √(2 V ln(2/δ')/n) + 7 b ln(2/δ')/(3(n−1)).
    Valid for a number of rounds that was fixed in advance, not under peeking.
    """
    n = values.n_rounds
    if n < 2:
        return np.zeros_like(values.sums), np.full_like(values.sums, np.inf)
    log_term = np.log(2 / (delta / (2 * len(values.sums))))
    radius = np.sqrt(2 * values.variances * log_term / n) + 7 * bound * log_term / (3 * (n - 1))
    return np.maximum(values.means - radius, 0.0), values.means + radius
