"""Values, intervals and the certified epsilon of logged rounds."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comband as cb
from tests.logs.worlds import PROBLEM, small_log


def _tiny() -> tuple[cb.Rounds, cb.PolicySet]:
    problem = cb.Problem(n_actions=4, list_size=2)
    policies = cb.PolicySet.from_lists([[[0, 1], [2, 3]], [[1, 2], [0, 1]]], problem, names=["a", "b"])
    rounds = cb.Rounds.from_log(
        np.array([0, 1, 0]),
        lists=[[0, 1], [1, 3], [2, 3]],
        rewards=[[1.0, 0.5], [0.0, 1.0], [0.0, 0.0]],
        propensities=[[0.5, 0.25], [0.5, 0.5], [0.5, 0.5]],
        problem=problem,
    )
    return rounds, policies


def test_values_by_hand() -> None:
    rounds, policies = _tiny()
    result = cb.evaluate(rounds, policies, max_reward=2)
    a, b = result.candidates
    # a: (1/.5 + .5/.25) + 1/.5 + 0 over 3 rounds; b: .5/.25 + 0 + 0
    assert (a.name, b.name) == ("a", "b")
    assert a.value == pytest.approx(6 / 3)
    assert b.value == pytest.approx(2 / 3)
    assert a.effective_rewards == pytest.approx(6**2 / (4**2 + 2**2))
    assert b.effective_rewards == pytest.approx(1.0)
    assert (result.rounds, result.rewarded_rounds, result.rewards) == (3, 2, 3)
    assert result.min_propensity == 0.25
    assert result.epsilon == b.gap_bound
    assert a.gap_bound == 0
    assert "assume" in result.notes[0]


def test_events_add_up_to_the_whole() -> None:
    rounds, policies = small_log()
    parts = (slice(0, 99), slice(99, None))
    halves = [cb.Rounds(rounds.decisions[part], rounds.rewards[part]).events() for part in parts]
    settings = {"max_reward": 1.0, "min_propensity": float(rounds.decisions.propensities.min())}
    assert cb.evaluate(halves[0] + halves[1], policies, **settings) == cb.evaluate(rounds, policies, **settings)


def test_min_propensity_must_hold_and_only_widens() -> None:
    rounds, policies = small_log()
    smallest = float(rounds.decisions.propensities.min())
    known = cb.evaluate(rounds, policies, max_reward=1, min_propensity=smallest)
    cautious = cb.evaluate(rounds, policies, max_reward=1, min_propensity=smallest / 4)
    assert known.notes == ()
    assert cautious.epsilon >= known.epsilon
    with pytest.raises(cb.InputError, match="must not exceed any propensity"):
        cb.evaluate(rounds, policies, max_reward=1, min_propensity=smallest * 1.1)


@pytest.mark.parametrize("bad", [{"delta": 0}, {"delta": 1}, {"max_reward": 0}, {"min_propensity": -1}])
def test_wrong_settings_are_refused(bad: dict[str, float]) -> None:
    rounds, policies = small_log(20)
    with pytest.raises(cb.InputError, match=next(iter(bad))):
        cb.evaluate(rounds, policies, **{"max_reward": 1.0, **bad})


def test_a_single_candidate_is_the_best() -> None:
    rounds, policies = small_log(50)
    result = cb.evaluate(rounds, policies.subset([2]), max_reward=1)
    assert result.epsilon == 0.0
    assert result.best.name == "ünïcode"


def test_as_dict_is_json() -> None:
    rounds, policies = small_log(50)
    plain = cb.evaluate(rounds, policies, max_reward=1).as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False))["best"] == plain["best"]


def test_guarantees_hold_on_many_logs() -> None:
    """60 logs at delta = .1: more than 24 failures of one statement have probability below 1e-8; there are ten."""
    rng = np.random.default_rng(4)
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=50, seed=5)
    policies = world.candidates(8, seed=6)
    truth = world.values(policies)
    mixture = cb.Mixture(policies, np.full(8, 1 / 8), problem=PROBLEM, floor=0.5)
    least = 0.5 * PROBLEM.uniform_propensity
    outside = wrong = 0
    exceeded = np.zeros(8)  # each candidate's own bound, named beforehand
    for _ in range(60):
        batch = world.sample(400, rng)
        decisions = mixture.draw(batch.contexts, rng)
        rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
        result = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least, delta=0.1)
        outside += any(not c.interval[0] <= truth[c.index] <= c.interval[1] for c in result.candidates)
        wrong += bool(truth.max() - truth[result.best.index] > result.epsilon)
        for c in result.candidates:
            exceeded[c.index] += bool(truth[c.index] - truth[result.best.index] > c.gap_bound)
    assert exceeded.max() <= 24
    assert outside <= 24
    assert wrong <= 24


def test_pairs_certify_far_more_than_separate_intervals() -> None:
    rng = np.random.default_rng(7)
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, seed=5)
    policies = world.candidates(8, seed=6)
    batch = world.sample(20_000, rng)
    decisions = cb.Mixture(policies, np.full(8, 1 / 8), problem=PROBLEM, floor=0.5).draw(batch.contexts, rng)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    result = cb.evaluate(rounds, policies, max_reward=1)
    separate = max(c.interval[1] for c in result.candidates[1:]) - result.best.interval[0]
    assert result.epsilon < separate / 2


def test_right_propensities_fit_and_wrong_ones_do_not() -> None:
    rounds, policies = small_log(4000)
    decisions = rounds.decisions
    least = float(decisions.propensities.min())
    good = cb.check_logged_propensities(rounds, policies, min_propensity=least)
    assert good.fits
    assert good.expected == 3.0
    slots = cb.Decisions(
        ids=decisions.ids,
        lists=decisions.lists,
        propensities=decisions.propensities / 3,  # of the item in its slot instead of anywhere in the list
        versions=decisions.versions,
        contexts=decisions.contexts,
    )
    wrong = cb.check_logged_propensities(cb.Rounds(slots, rounds.rewards), policies, min_propensity=least / 3)
    assert not wrong.fits
    assert "DO NOT FIT" in str(wrong)
    assert wrong.mean > 6


def test_half_the_propensity_is_noticed_in_a_small_log() -> None:
    rng = np.random.default_rng(0)
    problem = cb.Problem(6, 2, 1)
    lists = np.argsort(rng.random((400, 6)), axis=1)[:, :2]
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)

    def check(q: float, n: int) -> cb.PropensityCheck:
        rounds = cb.Rounds.from_log(
            np.zeros(n, dtype=int),
            lists=lists[:n],
            rewards=np.zeros((n, 2)),
            propensities=np.full((n, 2), q),
            problem=problem,
        )
        return cb.check_logged_propensities(rounds, policies, min_propensity=q)

    assert not check(1 / 6, 400).fits  # the probability of an item in its slot
    assert check(1 / 3, 400).fits
    assert check(1 / 3, 400).conclusive
    few = check(1 / 3, 20)
    assert few.fits
    assert not few.conclusive
    assert "too few rounds" in str(few)


def test_events_alone_do_not_tell_the_smallest_propensity() -> None:
    problem = cb.Problem(3, 1, 1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    log = cb.Rounds.from_log(
        np.zeros(4, dtype=int),
        lists=[[0], [1], [2], [0]],
        rewards=[[1], [0], [0], [1]],
        propensities=[[0.5], [0.1], [0.4], [0.5]],
        problem=problem,
    )
    with pytest.raises(cb.InputError, match="state min_propensity"):
        cb.evaluate(log.events(), policies, max_reward=1)
    with pytest.raises(cb.InputError, match="raise max_reward"):
        cb.evaluate(log, policies, max_reward=0.1, min_propensity=0.1)
