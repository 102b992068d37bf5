"""Adversarial sequences: oblivious, within the problem's bounds, and exact in hindsight."""

from __future__ import annotations

import numpy as np
import pytest

import comband as cb

TABLE = np.argsort(np.random.default_rng(0).random((9, 6, 20)), axis=2)[:, :, :4].astype(np.int32)


def world(name: str, sparsity: float, seed: int = 0) -> tuple[cb.worlds.AdversarialSequence, cb.PolicySet]:
    problem = cb.Problem(n_actions=20, list_size=4, sparsity=sparsity)
    policies = cb.PolicySet.from_lists(TABLE, problem)
    return cb.worlds.ADVERSARIES[name](policies, problem, horizon=400, n_contexts=6, seed=seed), policies


every_adversary = pytest.mark.parametrize("name", cb.worlds.ADVERSARIES)


@every_adversary
@pytest.mark.parametrize("sparsity", [0.5, 1, 3, 9])
def test_hindsight_is_exact(name: str, sparsity: float) -> None:
    sequence, policies = world(name, sparsity)
    totals = np.zeros(9)
    for t in range(len(sequence)):
        reward = np.zeros(20)
        np.add.at(reward, sequence.actions[t], sequence.rewards[t])
        assert reward.max() <= 1
        assert reward.sum() <= sparsity + 1e-12
        totals += reward[TABLE[:, sequence.contexts[t]]].sum(axis=1)
    np.testing.assert_allclose(sequence.totals(policies), totals)
    for j in (0, 5):
        assert sequence.gains(policies, j).sum() == pytest.approx(totals[j])


@every_adversary
def test_same_seed_same_sequence(name: str) -> None:
    a, b, c = (world(name, 2, seed)[0] for seed in (1, 1, 2))
    assert (a.actions == b.actions).all()
    assert (a.rewards == b.rewards).all()
    assert (a.contexts != c.contexts).any()


@every_adversary
def test_answers_agree_with_batches(name: str) -> None:
    sequence, policies = world(name, 2)
    lists = policies.predict(sequence.contexts[100:150], [3])[:, 0]
    np.testing.assert_allclose(sequence.answer(100, lists), sequence.batch(100, 50).answer(lists))


def test_replay_hands_out_everything_once() -> None:
    sequence, policies = world("drifting", 1)
    replay = cb.worlds.Replay(sequence)
    learner = cb.Exp4(replay.problem, policies, horizon=400, seed=0)
    outcome = cb.run(learner, replay, batch_size=64, max_rounds=400)
    assert outcome.history["rounds"][-1] == 400
    np.testing.assert_allclose(replay.values(policies) * 400, sequence.totals(policies))
    with pytest.raises(cb.InputError, match="400 rounds"):
        replay.sample(1, np.random.default_rng(0))


def test_the_trap_closes_on_entropy_alone() -> None:
    """Without floor or barrier the later policy is never found; with the barrier it is."""
    problem = cb.Problem(n_actions=20, list_size=4, sparsity=1)
    policies = cb.PolicySet.from_lists(np.arange(20).reshape(5, 1, 4), problem)
    T = 4000
    trap = cb.worlds.entropy_trap(policies, problem, horizon=T, n_contexts=1, seed=0)
    assert trap.totals(policies).max() == pytest.approx(0.65 * T, abs=1)
    eta = float(np.sqrt(np.log(5) / (4 * T)))
    trapped = cb.Exp4(problem, policies, horizon=T, floor=0, step_size=eta, propensities="when rewarded", seed=0)
    free = cb.Exp4CombSparse(problem, policies, horizon=T, propensities="when rewarded", seed=0)
    later = int(trap.totals(policies).argmax())
    bait = int(0.35 * T)
    for learner in (trapped, free):
        for start in range(0, bait, 4):
            decisions = learner.ask(trap.contexts[start : min(start + 4, bait)])
            learner.tell(decisions, trap.answer(start, decisions.lists))
    assert trapped.weights[later] * (T - bait) < 0.01  # it will hardly be drawn in what remains
    assert free.weights[later] > 1 / (16 * bait)  # the barrier's share, 1/(ν·bait)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (cb.worlds.switching, {"rate": 0.0}),
        (cb.worlds.switching, {"horizon": 0}),
        (cb.worlds.popularity_burst, {"burst_share": 1.5}),
        (cb.worlds.entropy_trap, {"bait": -1}),
    ],
)
def test_refuses_wrong_arguments(make, arguments) -> None:  # type: ignore[no-untyped-def]
    problem = cb.Problem(n_actions=20, list_size=4)
    with pytest.raises(cb.InputError, match=next(iter(arguments))):
        make(cb.PolicySet.from_lists(TABLE, problem), problem, **{"horizon": 10, "n_contexts": 6, **arguments})
