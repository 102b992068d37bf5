"""Chernoff's lower tail: against exact binomial and two-valued laws, and against the bound by the second moment."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from comband.statistics.chernoff import largest_mean, poisson_divergence


@pytest.mark.parametrize("average", [1e-9, 0.02, 0.7, 3.0, 500.0])
@pytest.mark.parametrize("log_odds", [0.1, 3.0, 40.0])
def test_it_is_the_root_and_below_the_bound_by_the_second_moment(average: float, log_odds: float) -> None:
    c = 7.0 * log_odds / 40
    V = largest_mean(average, n=40, bound=7.0, log_odds=log_odds)
    assert average < V
    assert poisson_divergence(average, V) == pytest.approx(c, rel=1e-9, abs=1e-12)
    assert poisson_divergence(average, V) >= c * (1 - 1e-9) - 1e-12
    beta = c / 2
    assert (math.sqrt(beta) + math.sqrt(beta + average)) ** 2 * (1 + 1e-9) >= V


def test_it_grows_and_is_concave() -> None:
    averages = np.linspace(0, 4, 201)
    bounds = np.array([largest_mean(a, n=50, bound=2.0, log_odds=3.0) for a in averages])
    assert (np.diff(bounds) > 0).all()
    assert (np.diff(bounds, 2) < 1e-9).all()


@pytest.mark.parametrize("n", [1, 5, 60])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-3])
def test_it_fails_with_at_most_its_probability(n: int, delta: float) -> None:
    """Exactly, for b times a Bernoulli variable, whose lower tail is the heaviest among variables in [0, b]."""
    b, worst = 3.0, 0.0
    for q in np.linspace(0.001, 1, 300):
        hits = np.arange(n + 1)
        bounds = np.array([largest_mean(b * h / n, n=n, bound=b, log_odds=math.log(1 / delta)) for h in hits])
        worst = max(worst, float(binom.pmf(hits, n, q)[bounds < b * q].sum()))
    assert worst <= delta
    if n == 60:
        assert worst >= delta / 20  # of the right order
