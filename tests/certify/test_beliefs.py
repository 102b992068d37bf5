"""What is thought of candidates: what users say beforehand, and the best guess before a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb

PROBLEM = cb.Problem(n_actions=40, list_size=4, sparsity=1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.3, seed=1)
CANDIDATES = WORLD.candidates(12, seed=2)


def learner(**options: Any) -> cb.AdaptiveComband:
    return cb.AdaptiveComband(PROBLEM, CANDIDATES, **({"epsilon": 0.03, "seed": 5} | options))


def go(one: cb.certify.CertifyingLearner, rounds: int, *, seed: int = 7) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds // 100):
        batch = WORLD.sample(100, rng)
        decisions = one.ask(batch.contexts)
        one.tell(decisions, batch.answer(decisions.lists))


def test_who_has_the_highest_score_leads_first() -> None:
    for best in (3, 8):
        scores = np.linspace(0.1, 0.2, len(CANDIDATES))
        scores[best] = 0.3
        assert learner(prior_scores=scores).epochs.current.leader == best


def test_only_differences_of_scores_matter() -> None:
    scores = np.linspace(0.1, 0.2, len(CANDIDATES))
    one, other = learner(prior_scores=scores), learner(prior_scores=scores + 5)
    for each in (one, other):
        go(each, 1500)
    np.testing.assert_allclose(one.evidence.log_wealth, other.evidence.log_wealth, atol=1e-9)
    assert one.epochs.current.leader == other.epochs.current.leader


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior_scores": [0.1, 0.2]}, "one number for each of the 12 candidates"),
        ({"prior_scores": np.zeros((12, 1))}, "one number for each of the 12 candidates"),
        ({"prior_scores": [float("nan")] * 12}, "must be finite; that of candidate 0"),
        ({"prior_scores": ["good"] * 12}, "must be a rectangular array of numbers"),
        ({"prior_scores": [1e308, *[0.0] * 10, -1e308]}, r"must lie within ±1e\+100, got 1e\+308"),
        ({"prior_scores": [-1.1e100, *[0.0] * 11]}, r"must lie within ±1e\+100, got -1.1e\+100"),
        ({"prior_scores": np.zeros(12), "prior_error": 0.0}, "prior_error"),
        ({"prior_scores": np.zeros(12), "prior_error": -1.0}, "prior_error"),
        ({"prior_error": 0.1}, "give these too, or leave it out"),
    ],
)
def test_scores_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(cb.InputError, match=words):
        learner(**options)


def test_a_callers_scores_are_their_own() -> None:
    scores = np.linspace(0.1, 0.2, len(CANDIDATES))
    one = learner(prior_scores=scores)
    scores[:] = np.nan
    go(one, 400)
    assert len(one.epochs) >= 2


def test_scores_are_saved(tmp_path: Path) -> None:
    scores = np.linspace(0.2, 0.1, len(CANDIDATES))
    one = learner(prior_scores=scores, prior_error=0.02)
    go(one, 700)
    one.save(tmp_path / "file")
    again = cb.AdaptiveComband.load(tmp_path / "file", CANDIDATES)
    for each in (one, again):
        go(each, 900, seed=8)
    np.testing.assert_array_equal(one.evidence.log_wealth, again.evidence.log_wealth)
    assert str(one.result()) == str(again.result())


def ranking(one: cb.certify.CertifyingLearner) -> NDArray[np.float64]:
    return one.evidence.scores(one.verdict.alive)


def test_before_a_certificate_the_best_guess_is_named() -> None:
    one = learner(epsilon=0.0001)
    go(one, 1200)
    result = one.result()
    guess = result.guess
    assert guess is not None
    assert not one.done
    assert result.index == guess.index
    assert result.epsilon > 0.25 * result.value
    assert 0 < guess.error < 0.2
    assert f"best guess: {guess.name}" in str(result)
    # One of those whose plain estimates are highest: shrinking changes the order of neighbours alone.
    assert guess.index in np.argsort(-ranking(one))[:4]


@pytest.mark.parametrize("arrives", [0, 1500])
def test_the_error_of_a_guess_is_that_of_the_rounds_in_which_it_was_a_candidate(arrives: int) -> None:
    """The best candidate of all comes at once or later; the standard error is computed from the rounds since."""
    problem, rates = cb.Problem(6, 1, 1), np.array([0.1, 0.1, 0.6, 0, 0, 0])
    names, rng = ["first", "second", "new"], np.random.default_rng(3)
    policies = [cb.TabulatedPolicy([[y]], problem) for y in range(3)]
    n_first = 2 if arrives else 3
    one = cb.AdaptiveComband(
        problem, cb.PolicySet(policies[:n_first], names[:n_first]), epsilon=0.001, seed=4, open_field=True
    )
    earned: list[float] = []
    for start in range(0, 2100, 100):
        if arrives and start == arrives:
            one.add(policies[2], name="new")
        decisions = one.ask(np.zeros(100, dtype=int))
        rewards = (rng.random(decisions.lists.shape) < rates[decisions.lists]).astype(float)
        one.tell(decisions, rewards)
        if start >= arrives:
            earned += ((decisions.lists == 2) * rewards / decisions.propensities).sum(axis=1).tolist()
    guess = one.result().guess
    assert guess is not None
    assert guess.name == "new"
    assert guess.value == pytest.approx(np.mean(earned))
    assert guess.error == pytest.approx(np.sqrt(np.square(earned).sum()) / len(earned))


def test_a_certificate_leads_once_it_is_there() -> None:
    one = learner(epsilon=0.1, seed=9)
    for _ in range(200):
        if one.done:
            break
        go(one, 300, seed=one.rounds)
    assert one.done
    result = one.result()
    assert result.epsilon <= 0.1
    assert one.verdict.certified is not None
    assert result.index == one.verdict.certified.leader


def test_a_budget_instead_of_an_epsilon(tmp_path: Path) -> None:
    """It certifies what the rounds suffice for, and says on the way what that will be."""
    one = learner(epsilon=None, max_rounds=4000)
    first = one.epochs.current.aim
    go(one, 2000)
    halfway = one.status()
    assert halfway.forecast == 2000
    assert halfway.expected is not None
    assert 0 < one.epochs.current.aim < first
    one.save(tmp_path / "file")
    again = cb.AdaptiveComband.load(tmp_path / "file", CANDIDATES)
    assert again.status() == halfway
    for each in (one, again):
        go(each, 2000, seed=8)
        assert each.done
    assert str(one.result()) == str(again.result())
    certified = one.verdict.claim().epsilon
    assert 0 < certified < PROBLEM.max_reward
    # A forecast, so no promise: right up to a factor that leaves room for the luck of 2,000 rounds.
    assert 0.4 < halfway.expected / certified < 2.5
    assert one.status().expected is not None
    # No other epsilon was asked for: what is certified is what comes closest.
    assert "not certified to" not in str(one.result())


def test_without_epsilon_and_budget_there_is_nothing_to_work_for() -> None:
    with pytest.raises(cb.InputError, match="say the budget, max_rounds, too"):
        learner(epsilon=None)
