"""Shrunk estimates, against Bayes' rule worked out in another way and against the truth they are meant for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from comband.statistics.shrinkage import Shrunk, shrink


def bayes(
    y: NDArray[np.float64], v: NDArray[np.float64], x: NDArray[np.float64], found: Shrunk
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and deviations on a grid of values, by the prior N(b·x, τ²) and the likelihood N(y, v)."""
    v = 0.8 * v + 0.2 * v.mean()
    means, errors = [], []
    for one, variance, score in zip(y - y.mean(), v, found.worth * (x - x.mean()), strict=True):
        wide = 12 * np.sqrt(max(variance, found.spread**2))
        grid = np.linspace(min(one, score) - wide, max(one, score) + wide, 200_001)
        log = -((grid - score) ** 2) / (2 * found.spread**2) - (grid - one) ** 2 / (2 * variance)
        weights = np.exp(log - log.max())
        mean = (weights @ grid) / weights.sum()
        means.append(mean)
        errors.append(np.sqrt(weights @ (grid - mean) ** 2 / weights.sum()))
    return np.array(means), np.array(errors)


def test_guesses_are_posterior_means() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 7, 60):
        y, x, v = rng.normal(size=n) * 0.1, rng.normal(size=n) * 0.1, rng.random(n) * 0.02 + 0.001
        found = shrink(y, v, x, error=0.05, least=0.005)
        means, errors = bayes(y, v, x, found)
        np.testing.assert_allclose(found.guesses, means, atol=1e-6)
        np.testing.assert_allclose(found.errors, errors, rtol=1e-4)


def test_the_fit_is_a_fixed_point_of_its_formulas() -> None:
    rng = np.random.default_rng(2)
    n = 50
    x = rng.normal(size=n) * 0.1
    y, v = x + rng.normal(size=n) * 0.02, np.full(n, 1e-4)
    found = shrink(y, v, x, error=0.02, least=0.002)
    x, y = x - x.mean(), y - y.mean()
    share = 30 / n
    precision = share / (v + found.spread**2)
    worth = (precision @ (x * y) + 4) / (precision @ (x * x) + 4)
    assert found.worth == pytest.approx(worth, rel=1e-3)
    spread2 = (10 * 0.02**2 + ((y - worth * x) ** 2 - v).sum()) / (10 + n)
    assert found.spread == pytest.approx(spread2**0.5, rel=1e-3)


def test_units_and_shifts_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    y, x, v = rng.normal(size=20), rng.normal(size=20), rng.random(20) * 0.5
    one = shrink(y, v, x, error=0.5, least=0.05)
    other = shrink(1000 * y + 7, 1e6 * v, 1000 * x - 3, error=500, least=50)
    np.testing.assert_allclose(other.guesses, 1000 * one.guesses, rtol=1e-9)
    np.testing.assert_allclose(other.errors, 1000 * one.errors, rtol=1e-9)
    assert other.worth == pytest.approx(one.worth)


def squared_errors(kind: str, n: int, *, seed: int) -> tuple[float, float, float]:
    """Mean squared errors of raw estimates, of those shrunk without scores, and with them."""
    rng = np.random.default_rng(seed)
    total = np.zeros(3)
    for _ in range(400):
        values = rng.normal(size=n) * 0.03
        v = rng.random(n) * 0.006 + 0.0005
        y = values + rng.normal(size=n) * np.sqrt(v)
        x = {"honest": values + rng.normal(size=n) * 0.01, "random": rng.normal(size=n) * 0.03, "reversed": -values}[
            kind
        ]
        centred = values - values.mean()
        guesses = (
            y - y.mean(),
            shrink(y, v, np.zeros(n), error=0.03, least=0.003).guesses,
            shrink(y, v, x, error=0.01, least=0.003).guesses,
        )
        total += [((guess - centred) ** 2).mean() for guess in guesses]
    raw, without, with_scores = total / 400
    return raw, without, with_scores


def test_shrinking_comes_closer_to_the_truth_and_honest_scores_closer_still() -> None:
    raw, without, with_scores = squared_errors("honest", 40, seed=4)
    assert without < 0.5 * raw  # about .2 of it
    assert with_scores < 0.5 * without


@pytest.mark.parametrize("kind", ["random", "reversed"])
def test_scores_that_mislead_are_never_worse_than_raw_estimates(kind: str) -> None:
    raw, _, with_scores = squared_errors(kind, 40, seed=5)
    assert with_scores < raw


def test_scores_the_wrong_way_round_lose_their_say() -> None:
    values = np.linspace(-0.1, 0.1, 30)
    found = shrink(values, np.full(30, 1e-6), -values, error=0.01, least=0.001)
    assert found.worth == 0.0
    np.testing.assert_allclose(found.guesses, values, atol=1e-4)


def test_one_candidate_alone() -> None:
    found = shrink(np.array([0.4]), np.array([0.1]), np.array([3.0]), error=0.1, least=0.01)
    assert found.guesses.tolist() == [0.0]
    assert np.isfinite(found.errors).all()


def test_hopes_are_the_chances_of_being_best() -> None:
    thought = Shrunk(np.array([0.02, 0.0, -9.0]), np.array([0.01, 0.02, 1e-6]), 1.0, 0.1)
    hopes = thought.hopes(np.random.default_rng(0))
    first = norm.cdf(0.02 / np.hypot(0.01, 0.02))
    assert hopes.sum() == pytest.approx(1)
    assert hopes[2] == 0
    assert abs(hopes[0] - first) < 5 * np.sqrt(first * (1 - first) / 1000)
