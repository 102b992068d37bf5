"""Rounds of which only the total is known: what they say, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers import DisagreementExploration, UniformMixtureExploration
from comband.page.totals import TotalRounds
from comband.policies.midzuno import MidzunoLists
from tests.strategies import random_policies

PROBLEM = cb.Problem(6, 2, 1, "total")


def log(**changed: Any) -> TotalRounds:
    columns: dict[str, Any] = {
        "lists": [[0, 1], [2, 5]],
        "totals": [0.5, 1.0],
        "list_propensities": [1 / 15, 0.2],
        "problem": PROBLEM,
    }
    return TotalRounds.from_log(np.zeros((2, 1)), **{**columns, **changed})


def credits(rounds: TotalRounds) -> list[float]:
    events = rounds.events()
    return list(events.rewards / events.propensities)


def test_credits_by_hand() -> None:
    # f = 1/5; shares P·C(5, 1): uniform lists 5/15 = m/K.
    rounds = log()
    np.testing.assert_allclose(rounds.shares, [1 / 3, 1.0], rtol=1e-14)
    np.testing.assert_allclose(credits(rounds), [0.5 / (0.8 / 3)] * 2 + [1 / 0.8] * 2, rtol=1e-14)
    first = log(list_propensities=None, first_propensities=[[1 / 6, 1 / 6], [0.7, 0.3]])
    np.testing.assert_allclose(first.shares, rounds.shares, rtol=1e-14)
    assert credits(first) == pytest.approx(credits(rounds), rel=1e-14)
    # A list that is nearly always shown has a share far above 1: its credits are small, and remain.
    sure = log(list_propensities=[1 / 15, 1.0])
    assert sure.shares[1] == pytest.approx(5)
    np.testing.assert_allclose(credits(sure)[2:], [1 / (0.8 * 5)] * 2, rtol=1e-14)
    events = sure.events()
    assert events.propensities.max() <= 1
    assert events.rewards.max() <= 1


def test_of_decisions_and_joined_and_cut() -> None:
    rng = np.random.default_rng(0)
    mixture = cb.Mixture(random_policies(3, 1, PROBLEM, rng), [0.2, 0.3, 0.5], problem=PROBLEM, floor=0.4)
    decisions = MidzunoLists(mixture).draw(np.zeros(30, dtype=np.int64), rng)
    totals = (decisions.lists == 2).any(axis=1) * 1.0
    whole = TotalRounds.of(decisions, totals, PROBLEM)
    np.testing.assert_allclose(whole.shares, MidzunoLists(mixture).shares(decisions.contexts, decisions.lists))
    joined = whole[:11] + whole[11:]
    assert credits(joined) == credits(whole)
    assert len(whole[3]) == 1
    assert whole.events().n_rounds == 30
    with pytest.raises(cb.InputError, match="of one problem"):
        whole + log(problem=cb.Problem(6, 2, 2, "total"))
    with pytest.raises(ValueError, match="read-only"):
        whole.totals[0] = 5


@pytest.mark.parametrize("seed", range(4))
def test_any_law_of_lists_gives_unbiased_differences(seed: int) -> None:
    """Expectation of the credits over all lists, drawn by a law that is nobody's sampling scheme."""
    rng = np.random.default_rng(seed)
    problem = cb.Problem(7, 3, 2, "total")
    lists = list(combinations(range(7), 3))
    law = rng.dirichlet(np.full(len(lists), 0.3)) * 0.9 + 0.1 / len(lists)
    rewards = np.zeros(7)
    rewards[:2] = rng.random(2)
    rounds = TotalRounds.from_log(
        np.zeros((len(lists), 1)),
        lists=lists,
        totals=[rewards[list(a)].sum() for a in lists],
        list_propensities=law,
        problem=problem,
    )
    kept = rounds.totals > 0
    weights = np.zeros(len(lists))
    weights[kept] = np.array(credits(rounds)).reshape(-1, 3)[:, 0]
    mine, yours = {0, 3, 4}, {1, 5, 4}
    mean = sum(p * w * (len(mine & set(a)) - len(yours & set(a))) for p, w, a in zip(law, weights, lists, strict=True))
    assert mean == pytest.approx(rewards[0] - rewards[1], abs=1e-13)
    assert comb(6, 2) * law[0] == pytest.approx(rounds.shares[0], rel=1e-13)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a total above s": (lambda: log(totals=[0.5, 1.5]), "must not exceed 1, .* got 1.5 in row 1; scale"),
    "a total above m": (
        lambda: log(totals=[0.5, 2.5], problem=cb.Problem(6, 2, None, "total")),
        "must not exceed 2, .* got 2.5 in row 1",
    ),
    "a negative total": (lambda: log(totals=[-0.5, 1]), r"must lie in \[0, 1\], got -0.5 in row 0"),
    "a total of NaN": (lambda: log(totals=[0, np.nan]), "got nan in row 1; leave out"),
    "a total whose square vanishes": (lambda: log(totals=[0, 1e-200]), "set it to 0"),
    "more than one number": (lambda: log(totals=[[0, 0.5], [1, 0]]), r"one number per round, shape \(2,\), got shape"),
    "too few totals": (lambda: log(totals=[0.5]), r"shape \(2,\), got shape \(1,\)"),
    "totals of text": (lambda: log(totals=["a", "b"]), "totals must be a rectangular array of numbers"),
    "no law of lists": (lambda: log(list_propensities=None), "neither came. Propensities of single actions are not"),
    "two laws": (lambda: log(first_propensities=[[0.1, 0.1]] * 2), "both came"),
    "a law of text": (lambda: log(list_propensities=["a", "b"]), "list_propensities must be a rectangular array"),
    "one propensity per action": (lambda: log(list_propensities=[[0.3, 0.3]] * 2), "one number per round"),
    "a list of probability 0": (lambda: log(list_propensities=[0.0, 0.1]), r"in \(0, 1\], got 0.0 in row 0"),
    "a list of probability 2": (lambda: log(list_propensities=[0.1, 2]), r"in \(0, 1\], got 2.0 in row 1"),
    "a list of hardly any probability": (lambda: log(list_propensities=[0.1, 1e-30]), "draw nothing"),
    "two first actions": (
        lambda: log(list_propensities=None, first_propensities=[[0.8, 0.8], [0.1, 0.1]]),
        "only one action is drawn first, .* row 0 sum to 1.6",
    ),
    "a list of everything": (
        lambda: log(lists=[[0, 1], [1, 0]], problem=cb.Problem(2, 2)),
        "nothing can be told apart",
    ),
    "a problem of such lists": (lambda: cb.Problem(2, 2, 1, "total"), "nothing can be told apart"),
    "no such feedback": (lambda: cb.Problem(3, 2, 1, "clicks"), "feedback must be 'items' or 'total', got 'clicks'"),
    "rewards of items to totals": (
        lambda: cb.Rounds.from_log([0], lists=[[0, 1]], rewards=[[0, 1]], propensities=[[0.3, 0.3]], problem=PROBLEM),
        "feedback is the total of a list",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_sentence(name: str) -> None:
    action, words = REFUSED[name]
    with pytest.raises(cb.InputError, match=words):
        action()


LEARNERS: dict[str, Callable[[cb.Problem, cb.PolicySet], Any]] = {
    "SingleLabelComband": lambda problem, policies: cb.SingleLabelComband(problem, policies, n_explore=5, n_estimate=5),
    "UniformExploration": lambda problem, policies: cb.UniformExploration(problem, policies, n_rounds=9),
    "Exp4": lambda problem, policies: cb.Exp4(problem, policies, horizon=9),
    "Exp4CombSparse": lambda problem, policies: cb.Exp4CombSparse(problem, policies, horizon=9),
    "EpsilonGreedy": lambda problem, policies: cb.EpsilonGreedy(problem, policies, horizon=9),
    "ExploreThenCommit": lambda problem, policies: cb.ExploreThenCommit(problem, policies, horizon=9),
    "TwoPhaseComband": lambda problem, policies: cb.TwoPhaseComband(problem, policies, epsilon=0.1),
    "SparseMSets": lambda problem, policies: cb.SparseMSets(problem, horizon=9),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_of_single_rewards_say_so(name: str) -> None:
    problem = cb.Problem(6, 1, 1, "total")
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    with pytest.raises(cb.InputError, match=f"{name} learns from the rewards of single actions"):
        LEARNERS[name](problem, policies)


def test_explorations_of_single_rewards_say_so() -> None:
    policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 2]]], PROBLEM)
    for exploration in (DisagreementExploration(), UniformMixtureExploration()):
        with pytest.raises(cb.InputError, match="Explorer needs the rewards of single actions"):
            cb.certify.CertifyingLearner(PROBLEM, policies, exploration=exploration, epsilon=0.1)


@pytest.mark.parametrize("feedback", ["items", "total"])
def test_worlds_answer_with_what_the_problem_says(feedback: str) -> None:
    problem = cb.Problem(12, 3, 2, feedback)
    world = cb.SyntheticRecommender(problem, click_rate=0.7, seed=1)
    batch = world.sample(200, np.random.default_rng(2))
    lists = world.candidates(1, seed=3)[0].predict(batch.contexts)
    answer = batch.answer(lists)
    hidden = np.take_along_axis(batch.rewards.toarray(), lists.astype(np.int64), axis=1)
    assert hidden.sum() > 20
    expected = hidden if feedback == "items" else hidden.sum(axis=1)
    np.testing.assert_array_equal(answer, expected)
    data = cb.MultilabelData([[0.0], [1.0]], [[1, 0, 1], [0, 1, 1]])
    rows = cb.MultilabelWorld(data, list_size=2, feedback=feedback)
    assert rows.problem.feedback == feedback
    shape = rows.sample(5, np.random.default_rng(0)).answer([[0, 1]] * 5).shape
    assert shape == ((5, 2) if feedback == "items" else (5,))
