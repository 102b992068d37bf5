"""How large the mean of nonnegative bounded variables can be, given their average: Chernoff's lower tail.

For Z in [0, b] with mean V, given the past, convexity of z ↦ e^{−tz} gives E e^{−tZ} ≤ exp(−(V/b)(1 − e^{−tb})). So
the average of n of them is at most x ≤ V with probability at most exp(−(n/b)·D(x, V)), D(x, V) = x·log(x/V) − x + V:
the tail of a Poisson variable. With c = b·log(1/δ)/n, the mean is at most the larger root V of D(average, V) = c with
probability 1 − δ. The root grows with the average and is concave in it, since D is jointly convex; and it lies below
(√β + √(β + average))², β = c/2, which follows from E Z² ≤ bV alone.
"""

from __future__ import annotations

import math


def poisson_divergence(average: float, mean: float) -> float:
    """D(x, V) = x·log(x/V) − x + V ≥ 0, for x ≥ 0 and V > 0."""
    return (average * math.log(average / mean) if average > 0 else 0.0) - average + mean


def largest_mean(average: float, *, n: int, bound: float, log_odds: float) -> float:
    """The largest mean of n variables in [0, `bound`] that their average admits, but with probability e^(−`log_odds`).

    The number is rounded upwards, never downwards.

    >>> round(largest_mean(0.0, n=100, bound=1.0, log_odds=3.0), 12)  # an event never seen: "the rule of three"
    0.03
    """
    c = bound * log_odds / n
    if average <= 0:
        return c
    # Newton's method from the right of the root of a function that is convex there never crosses it.
    V = (math.sqrt(c / 2) + math.sqrt(c / 2 + average)) ** 2
    for _ in range(60):
        step = (poisson_divergence(average, V) - c) / (1 - average / V) if average < V else 0.0
        if step <= 1e-13 * V:
            break
        V -= step
    return V * (1 + 1e-12)
