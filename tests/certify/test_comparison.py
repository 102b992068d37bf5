"""The leader beside all others: differences, and bounds that say what the certificate says, one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import comband as cb
from comband.certify.certifier import Certified
from comband.certify.compared import compared
from comband.evaluation import Evaluation

PROBLEM = cb.Problem(20, 3, 1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=40, seed=0)
POLICIES = WORLD.candidates(25, seed=1)


def played(rounds: int, epsilon: float = 0.03) -> cb.AdaptiveComband:
    learner = cb.AdaptiveComband(PROBLEM, POLICIES, epsilon=epsilon, seed=2)
    cb.run(learner, WORLD, batch_size=100, max_rounds=rounds, seed=3)
    return learner


@pytest.mark.parametrize("rounds", [200, 1500, 20_000])
def test_claims_are_those_of_each_rival_alone(rounds: int) -> None:
    learner = played(rounds)
    evidence, verdict = learner.evidence, learner.verdict
    rivals = verdict.rivals(verdict.leader)
    claims = evidence.claims(verdict.leader, rivals, verdict.enough(rivals))
    alone = [evidence.claim(verdict.leader, rivals[[i]], verdict.threshold) for i in range(len(rivals))]
    assert claims.tolist() == alone
    assert (claims.max() if len(rivals) else 0.0) == pytest.approx(
        evidence.claim(verdict.leader, rivals, verdict.threshold), rel=0.011
    )
    assert evidence.claims(verdict.leader, rivals[:0], verdict.enough(rivals[:0])).tolist() == []


def test_a_comparison_agrees_with_selection_and_status() -> None:
    learner = played(20_000)
    assert learner.done
    comparison, selection, status = learner.comparison(), learner.result(), learner.status()
    assert comparison.epsilon == selection.epsilon
    assert comparison.target == 0.03
    assert comparison.winner.name == selection.name
    assert comparison.winner.interval == selection.interval
    assert (comparison.winner.difference, comparison.winner.bound) == (0, 0)
    assert sorted(one.index for one in comparison.candidates) == list(range(25))
    left = [one for one in comparison.candidates[1:] if one.dropped is None]
    gone = [one for one in comparison.candidates if one.dropped is not None]
    assert comparison.candidates == (comparison.winner, *left, *gone)
    assert len(left) + 1 == status.survivors
    assert {one.name: one.dropped for one in gone} == {one.name: one.round for one in status.dropped}
    assert len(gone) > 3
    for group in (left, gone):
        assert all(a.difference >= b.difference for a, b in pairwise(group))
    assert all(one.difference <= one.bound <= comparison.epsilon for one in comparison.candidates)
    assert all(one.bound == 0 for one in gone)
    assert [one.name for one in left[:3]] == [one.name for one in selection.runners_up]


def test_the_leader_need_not_have_the_highest_estimate() -> None:
    verdict = played(1500).verdict
    second = int(np.argsort(-verdict.evidence.scores(verdict.alive))[1])
    comparison = compared(verdict, POLICIES.names, Certified(second, PROBLEM.max_reward))
    assert comparison.winner.index == second
    assert sorted(one.index for one in comparison.candidates) == list(range(25))
    bounds = {one.index: one.bound for one in comparison.candidates[1:] if one.dropped is None}
    alone = {int(i): verdict.evidence.claim(second, np.array([i]), verdict.threshold) for i in verdict.rivals(second)}
    assert bounds == alone


def test_the_first_few() -> None:
    learner = played(1500)
    whole, few = learner.comparison(), learner.comparison(4)
    assert few.candidates[:5] == whole.candidates[:5]
    assert len(few.candidates) == 5
    with pytest.raises(cb.InputError, match="most must be"):
        learner.comparison(0)


def test_an_evaluation_is_compared_with_its_bounds() -> None:
    learner = cb.UniformLists(PROBLEM, POLICIES, epsilon=0.03, seed=2)
    rounds: list[cb.Rounds] = []
    cb.run(learner, WORLD, batch_size=500, max_rounds=500, seed=3, keep=rounds.append)
    result: Evaluation = cb.evaluate(rounds[0], POLICIES, max_reward=PROBLEM.max_reward)
    comparison = result.comparison()
    assert comparison.winner.name == result.best.name
    bounds = {one.name: one.bound for one in comparison.candidates}
    assert bounds == {one.name: one.gap_bound for one in result.candidates}
    assert max(bounds.values()) == comparison.epsilon == result.epsilon
    assert np.all(np.diff([one.difference for one in comparison.candidates]) <= 0)


def test_status_and_result_share_one_verdict() -> None:
    """Before the first answer there is none; then status, result and comparison name the same candidate for the same
    reason, whatever is known.
    """
    problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    learner = cb.AdaptiveComband(problem, shop.candidates(6, seed=2), epsilon=0.05, seed=3)
    assert learner.status().verdict is None
    kinds = set()
    while not learner.done:
        cb.run(learner, shop, batch_size=400, max_rounds=400, seed=learner.rounds)
        status, result = learner.status(), learner.result()
        assert status.verdict == result.verdict
        assert status.verdict is not None
        assert str(status).startswith(status.verdict.title)
        assert learner.progress().verdict is None
        kinds.add(status.verdict.kind)
    assert {"cannot tell", "decided"} <= kinds
