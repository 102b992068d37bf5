"""Logs of totals: values, intervals and epsilon by `evaluate`, and what it refuses."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.page.totals import TotalRounds
from comband.policies.midzuno import MidzunoLists
from comband.statistics.histograms import ValueHistograms

PROBLEM = cb.Problem(10, 3, 2, "total")
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.9, n_users=60, seed=1)
POLICIES = WORLD.candidates(5, seed=2)
TRUTH: NDArray[np.float64] = WORLD.values(POLICIES)


def logged(n: int, *, floor: float, seed: int) -> TotalRounds:
    rng = np.random.default_rng(seed)
    batch = WORLD.sample(n, rng)
    mixture = cb.Mixture(POLICIES, np.full(5, 0.2), problem=PROBLEM, floor=floor)
    decisions = MidzunoLists(mixture).draw(batch.contexts, rng)
    return TotalRounds.of(decisions, batch.answer(decisions.lists), PROBLEM)


@pytest.mark.parametrize("floor", [0.4, 1.0])
def test_promises_hold(floor: float) -> None:
    """60 logs, δ = .2 for each of two statements: a right program fails below 1e-6."""
    least = None if floor == 1 else floor * 0.3
    wrong_intervals = wrong_epsilon = 0
    widths = []
    for seed in range(60):
        answer = cb.evaluate(
            logged(1500, floor=floor, seed=seed), POLICIES, max_reward=2, min_propensity=least, delta=0.2
        )
        assert answer.trusted
        inside = [c.interval[0] <= TRUTH[c.index] <= c.interval[1] for c in answer.candidates]
        wrong_intervals += not all(inside)
        wrong_epsilon += TRUTH.max() - TRUTH[answer.best.index] > answer.epsilon
        widths.append(answer.epsilon)
    allowed = binom.isf(1e-6, 60, 0.2)
    assert wrong_intervals <= allowed
    assert wrong_epsilon <= allowed
    assert np.median(widths) < 2


def test_values_by_definition_and_narrow_with_many_rounds() -> None:
    rounds = logged(20_000, floor=0.5, seed=0)
    answer = cb.evaluate(rounds, POLICIES, max_reward=2, min_propensity=0.15)
    f, shown = 2 / 9, POLICIES.predict(rounds.decisions.contexts)
    overlap = (shown[..., None] == rounds.decisions.lists[:, None, None, :]).sum(axis=(2, 3))
    X = rounds.totals[:, None] * (overlap - f * 3) / ((1 - f) * rounds.shares[:, None])
    for candidate in answer.candidates:
        assert candidate.value == pytest.approx(X[:, candidate.index].mean(), rel=1e-9)
        low, high = candidate.interval
        assert low <= TRUTH[candidate.index] <= high
        assert high - low < 1
    assert answer.epsilon < 0.5
    assert [c.value for c in answer.candidates] == sorted((c.value for c in answer.candidates), reverse=True)
    assert answer.rewards == np.count_nonzero(rounds.totals)
    assert "the propensities fit" in answer.explained[0]


def test_signed_lower_bounds_are_lower_bounds() -> None:
    """Means of variables of both signs: 200 samples, level 1/20 each."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        values = rng.choice([-1.0, 0.0, 2.0], p=[0.2, 0.5, 0.3], size=(400, 1))
        histogram = ValueHistograms.zero(1, bound=2.0, n_rounds=400)
        histogram.add(values)
        bound = histogram.signed_lower_bounds(threshold=20, largest=1.0)[0]
        wrong += bound > 0.4
        assert 0 <= bound <= values.mean()
    assert wrong <= binom.isf(1e-6, 200, 0.05)
    assert bound > 0.1


def test_wrong_list_propensities_are_noticed() -> None:
    rounds = logged(5000, floor=0.5, seed=3)
    P = rounds.shares / comb(9, 2)
    columns = {"lists": rounds.decisions.lists, "totals": rounds.totals, "problem": PROBLEM}
    right = TotalRounds.from_log(rounds.decisions.contexts, list_propensities=P, **columns)  # type: ignore[arg-type]
    assert cb.evaluate(right, POLICIES, max_reward=2, min_propensity=0.15).trusted
    for factor, least in ((0.5, 0.05), (2.0, 0.15)):
        wrong = TotalRounds.from_log(rounds.decisions.contexts, list_propensities=factor * P, **columns)  # type: ignore[arg-type]
        answer = cb.evaluate(wrong, POLICIES, max_reward=2, min_propensity=least)
        assert not answer.trusted
        assert answer.headline().startswith("Not valid. THE PROPENSITIES DO NOT FIT")


def test_refused() -> None:
    rounds = logged(50, floor=0.4, seed=1)
    with pytest.raises(cb.InputError, match="need min_propensity, the smallest share"):
        cb.evaluate(rounds, POLICIES, max_reward=2)
    with pytest.raises(cb.InputError, match="must not exceed any list's share"):
        cb.evaluate(rounds, POLICIES, max_reward=2, min_propensity=0.9)
    with pytest.raises(cb.InputError, match="raise max_reward"):
        cb.evaluate(rounds, POLICIES, max_reward=0.5, min_propensity=0.1)
    with pytest.raises(cb.InputError, match="at least one round"):
        cb.evaluate(rounds[:0], POLICIES, max_reward=2, min_propensity=0.1)
