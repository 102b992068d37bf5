"""EXP4-COMB-SPARSE and its baselines, against the algorithm written out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

import comband as cb
from comband.explore.solvers.ftrl import Ftrl
from comband.regret.explore_then_commit import explore_rounds

PROBLEM = cb.Problem(n_actions=10, list_size=3, sparsity=2)
TABLE = np.argsort(np.random.default_rng(0).random((7, 5, 10)), axis=2)[:, :, :3].astype(np.int32)
POLICIES = cb.PolicySet.from_lists(TABLE, PROBLEM)
SEQUENCE = cb.worlds.switching(POLICIES, PROBLEM, horizon=300, n_contexts=5, n_phases=4, rate=0.5, seed=3)


def naive_estimate(x: int, shown: NDArray[Any], rewards: NDArray[Any], p: NDArray[Any], floor: float) -> NDArray[Any]:
    """ĉ of Algorithm 4, action by action."""
    c = np.zeros(len(p))
    for y, r in zip(shown, rewards, strict=True):
        members = np.array([y in TABLE[i, x] for i in range(len(p))])
        q = (1 - floor) * p[members].sum() + floor * PROBLEM.list_size / PROBLEM.n_actions
        c[members] -= r / q
    return c


@pytest.mark.parametrize("propensities", ["always", "when rewarded"])
@pytest.mark.parametrize("kind", ["sparse", "exp4"])
def test_follows_the_algorithm_round_by_round(kind: str, propensities: Any) -> None:
    learner: cb.Exp4CombSparse | cb.Exp4
    if kind == "sparse":
        learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, propensities=propensities, seed=1)
        eta, nu = learner.step_sizes
        assert eta == pytest.approx(math.sqrt(math.log(7) / (8 / 15 * 2 * 2 * 300)))
        assert nu == 1 / 32
    else:
        learner = cb.Exp4(PROBLEM, POLICIES, horizon=300, propensities=propensities, seed=1)
        eta, nu = learner.step_size, 0.0
        assert learner.floor == pytest.approx(eta * 2 * 10 / 3)
    losses, p = np.zeros(7), np.full(7, 1 / 7)
    solves = 0
    for t in range(300):
        decisions = learner.ask(SEQUENCE.contexts[t : t + 1])
        rewards = SEQUENCE.answer(t, decisions.lists)
        learner.tell(decisions, rewards)
        losses += naive_estimate(int(SEQUENCE.contexts[t]), decisions.lists[0], rewards[0], p, learner.floor)
        p = Ftrl(7, eta=eta, nu=nu).solve(losses) if kind == "sparse" else softmax(-eta * losses)
        np.testing.assert_allclose(learner.estimated_totals, -losses, rtol=1e-9)
        np.testing.assert_allclose(learner.weights, p, rtol=1e-9)
        solves += bool(rewards.any())
    assert 0 < solves < 300
    assert learner._version == solves  # rounds without reward cost no solve
    assert learner.done
    assert learner.result().index == int(np.argmin(losses))


def test_both_ways_of_propensities_are_one_run() -> None:
    """Also with feedback that comes late and out of order, across many versions of the weights."""
    runs = []
    modes: list[Any] = ["always", "when rewarded"]
    for propensities in modes:
        learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, propensities=propensities, seed=1)
        rng = np.random.default_rng(2)
        pending: list[tuple[cb.Decisions, NDArray[np.float64]]] = []
        for t in range(300):
            decisions = learner.ask(SEQUENCE.contexts[t : t + 1])
            pending.append((decisions, SEQUENCE.answer(t, decisions.lists)))
            while pending and rng.random() < 0.45:
                learner.tell(*pending.pop(int(rng.integers(len(pending)))))
        for one in pending:
            learner.tell(*one)
        runs.append(learner)
        assert np.isnan(decisions.propensities).all() == (propensities == "when rewarded")
    np.testing.assert_allclose(runs[0].weights, runs[1].weights, rtol=1e-11)
    np.testing.assert_allclose(runs[0].estimated_totals, runs[1].estimated_totals, rtol=1e-11)
    assert not runs[1]._open  # every answered decision has let go of its weights
    assert not runs[1]._snapshots


def test_late_feedback_is_weighted_by_its_own_decision() -> None:
    learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, seed=1)
    late = learner.ask(SEQUENCE.contexts[:1])
    weights_then = learner.weights.copy()
    for t in range(1, 200):
        decisions = learner.ask(SEQUENCE.contexts[t : t + 1])
        learner.tell(decisions, SEQUENCE.answer(t, decisions.lists))
    assert np.abs(learner.weights - weights_then).max() > 0.01
    before = learner.estimated_totals.copy()
    rewards = np.array([[1.0, 0.0, 1.0]])
    learner.tell(late, rewards)
    expected = naive_estimate(int(SEQUENCE.contexts[0]), late.lists[0], rewards[0], weights_then, 0.0)
    np.testing.assert_allclose(learner.estimated_totals - before, -expected, rtol=1e-9, atol=1e-9)


def test_kept_weights_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When too many versions are open, propensities are computed with the decision, as if asked for "always"."""
    monkeypatch.setattr("comband.learners.weighted._SNAPSHOT_BYTES", 3 * 8 * 7)
    learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, propensities="when rewarded", seed=1)
    first = [learner.ask(SEQUENCE.contexts[:1]) for _ in range(1)]
    for t in range(60):
        kept = learner.ask(SEQUENCE.contexts[t : t + 1])  # never answered
        first.append(kept)
        decisions = learner.ask(SEQUENCE.contexts[t : t + 1])
        learner.tell(decisions, SEQUENCE.answer(t, decisions.lists))
        assert len(learner._snapshots) <= 3
    assert not np.isnan(first[-1].propensities).any()


def test_estimates_are_unbiased() -> None:
    """The mean over all possible first draws of the estimated totals is what each policy collects, exactly."""
    reward = np.zeros(10)
    reward[TABLE[0, 2, 1]], reward[TABLE[3, 2, 0]] = 1.0, 0.5
    outcomes: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for seed in range(200):
        learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=10, seed=seed)
        decisions = learner.ask([2])
        learner.tell(decisions, reward[decisions.lists])
        outcomes[tuple(decisions.lists[0].tolist())] = learner.estimated_totals
    mean = np.mean([outcomes[tuple(TABLE[j, 2].tolist())] for j in range(7)], axis=0)
    np.testing.assert_allclose(mean, reward[TABLE[:, 2]].sum(axis=1), atol=1e-12)


def test_draws_follow_the_weights() -> None:
    """Counts of the drawn lists against the weights: each within 6 standard deviations (false alarms below 1e-7)."""
    learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, seed=1)
    cb.regret.play(learner, SEQUENCE)
    n = 20_000
    lists = learner.ask(np.full(n, 3)).lists
    p = learner.weights
    for j in range(7):
        same = [i for i in range(7) if (TABLE[i, 3] == TABLE[j, 3]).all()]
        expected = float(p[same].sum())
        count = int((lists == TABLE[j, 3]).all(axis=1).sum())
        assert abs(count - n * expected) <= 6 * math.sqrt(n * expected * (1 - expected)) + 1


@pytest.mark.parametrize("barrier", ["safe", "sharp", "printed", 0.3])
def test_parameters_are_those_of_theory(barrier: Any) -> None:
    schedule = cb.theory.exp4_comb_sparse(PROBLEM, n_policies=7, horizon=300, barrier=barrier)
    learner = cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300, barrier=barrier)
    assert learner.step_sizes == (schedule.step_size, schedule.barrier)
    classic = cb.theory.exp4(PROBLEM, n_policies=7, horizon=300)
    exp4 = cb.Exp4(PROBLEM, POLICIES, horizon=300)
    assert (exp4.step_size, exp4.floor) == (classic.step_size, classic.floor)
    assert cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=300).step_sizes[1] == 1 / 32  # "safe" unless told


def test_unknown_horizon_doubles() -> None:
    learner = cb.Exp4CombSparse(PROBLEM, POLICIES, seed=1)
    etas = []
    for _ in range(5):
        etas.append(learner.step_sizes[0])
        decisions = learner.ask(np.zeros(1000, dtype=int))
        learner.tell(decisions, np.zeros((1000, 3)))
    planned = [math.log(7) / (8 / 15 * 4 * eta**2) for eta in etas]
    np.testing.assert_allclose(planned, [1024, 1024, 2048, 4096, 4096])
    assert not learner.done


def test_single_policy_and_unknown_sparsity() -> None:
    problem = cb.Problem(n_actions=4, list_size=2)
    policies = cb.PolicySet.from_lists([[[0, 1]]], problem)
    for learner in (cb.Exp4CombSparse(problem, policies, horizon=5), cb.Exp4(problem, policies, horizon=5, floor=0)):
        decisions = learner.ask([0, 0])
        assert decisions.propensities.tolist() == [[1, 1], [1, 1]]
        learner.tell(decisions, [[1, 0], [0, 1]])
        assert learner.weights.tolist() == pytest.approx([1.0], abs=1e-12)


def test_exp4_recomputed_every_round_is_the_same_run() -> None:
    skipping = cb.Exp4(PROBLEM, POLICIES, horizon=300, seed=1)
    textbook = cb.Exp4(PROBLEM, POLICIES, horizon=300, skip_unrewarded=False, seed=1)
    assert cb.regret.play(skipping, SEQUENCE).tolist() == cb.regret.play(textbook, SEQUENCE).tolist()
    assert skipping._version < textbook._version == 299


def test_epsilon_greedy_follows_the_leader() -> None:
    learner = cb.EpsilonGreedy(PROBLEM, POLICIES, horizon=300, epsilon=0.2, seed=1)
    cb.regret.play(learner, SEQUENCE)
    assert np.flatnonzero(learner.weights).tolist() == [learner.result().index]
    decisions = learner.ask(np.full(1000, 2))
    followed = (decisions.lists == TABLE[learner.result().index, 2]).all(axis=1)
    assert 700 < followed.sum() < 900  # 800 ± 8 standard deviations
    expected = 0.2 * 3 / 10 + 0.8 * np.isin(decisions.lists, TABLE[learner.result().index, 2])
    np.testing.assert_allclose(decisions.propensities, expected)


def test_explore_then_commit() -> None:
    learner = cb.ExploreThenCommit(PROBLEM, POLICIES, horizon=300, n_explore=100, seed=1)
    explored = learner.ask(SEQUENCE.contexts[:100])
    assert (explored.propensities == 0.3).all()
    learner.tell(explored, SEQUENCE.answer(0, explored.lists))
    best, value = learner.result().index, learner.result().value
    committed = learner.ask(SEQUENCE.contexts[100:])
    assert committed.lists.tolist() == TABLE[best, SEQUENCE.contexts[100:]].tolist()
    totals = learner.estimated_totals.tolist()
    learner.tell(committed, SEQUENCE.answer(100, committed.lists))
    assert learner.estimated_totals.tolist() == totals
    assert learner.result().rounds == 300
    assert 0 < value == learner.result().value  # of the 100 rounds that it was estimated on


def test_only_who_bounds_the_regret_says_so() -> None:
    saying: dict[str, list[type]] = {"regret of its whole run": [], "no theorem bounds": []}
    for kind in (cb.Exp4CombSparse, cb.ExploreThenCommit, cb.EpsilonGreedy):
        guarantee = kind(PROBLEM, POLICIES, horizon=300).result().guarantee
        for words, kinds in saying.items():
            kinds += [kind] if words in guarantee else []
    assert saying == {
        "regret of its whole run": [cb.Exp4CombSparse],
        "no theorem bounds": [cb.ExploreThenCommit, cb.EpsilonGreedy],
    }


def test_explore_rounds_by_hand() -> None:
    problem = cb.Problem(n_actions=100, list_size=4, sparsity=1)
    n = explore_rounds(problem, n_policies=50, horizon=10**6)
    assert n == math.ceil((10**6 * math.sqrt(200 * math.log(50))) ** (2 / 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon"),
        ({"barrier": -1.0}, "barrier"),
        ({"barrier": "huge"}, "barrier"),
        ({"propensities": "never"}, "propensities"),
    ],
)
def test_refuses_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(cb.InputError, match=message):
        cb.Exp4CombSparse(PROBLEM, POLICIES, **{"horizon": 10, **arguments})
    with pytest.raises(cb.InputError, match="n_explore"):
        cb.ExploreThenCommit(PROBLEM, POLICIES, horizon=10, n_explore=11)
