"""The normal distribution, for statements that are marked as approximate."""

from __future__ import annotations

from statistics import NormalDist


def upper_quantile(share: float) -> float:
    """z with P(Z > z) = share; a share as small as any δ will do, since 1 − share is never formed.

    >>> round(upper_quantile(0.025), 3), round(upper_quantile(1e-16), 3)
    (1.96, 8.222)
    """
    return -NormalDist().inv_cdf(share)
