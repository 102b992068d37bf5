"""Evidence is a statistic that adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.certify.blocks import Block
from comband.certify.epochs import Epochs
from comband.certify.evidence import Evidence
from tests.learners.small_worlds import small_world
from tests.states import plain

WORLD = small_world("clustered", 5)
LEARNERS: dict[str, Any] = {
    "AdaptiveComband": lambda: cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.02, first_epoch=150, seed=3),
    "UniformMixture": lambda: cb.UniformMixture(WORLD.problem, WORLD.policies, epsilon=0.02, first_epoch=150, seed=3),
    "ABTest": lambda: cb.ABTest(WORLD.problem, WORLD.policies, epsilon=0.02, eliminate=True, first_epoch=150, seed=3),
}


def recorded(make: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Block]]:
    """A learner after some epochs, and the blocks that it entered."""
    blocks: list[Block] = []
    add = Evidence.add

    def noted(self: Evidence, block: Block) -> None:
        blocks.append(block)
        add(self, block)

    with monkeypatch.context() as patch:
        patch.setattr(Evidence, "add", noted)
        learner, rng = make(), np.random.default_rng(8)
        for _ in range(25):
            WORLD.play(learner, 60, rng)
    return learner, blocks


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("halves", ["early and late", "odd and even", "any"])
@pytest.mark.parametrize("name", LEARNERS)
def test_two_halves_add_up_to_the_whole(name: str, halves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs are the same ones, and no round is in both halves."""
    learner, blocks = recorded(LEARNERS[name], monkeypatch)
    P, epochs = len(WORLD.policies), learner.epochs
    assert len(epochs) > 3
    i = np.arange(len(blocks))
    first = {"early and late": i < len(blocks) // 2, "odd and even": i % 2 == 0}.get(
        halves, np.random.default_rng(1).random(len(blocks)) < 0.4
    )
    whole, one, other = (Evidence(WORLD.problem, P, epochs) for _ in range(3))
    for block, early in zip(blocks, first, strict=True):
        whole.add(block)
        (one if early else other).add(block)
    close(whole.log_wealth, learner.evidence.log_wealth)
    for total in (one + other, other + one):
        assert (total.rounds, total.n_rounds, total.n_uncovered) == (whole.rounds, whole.n_rounds, whole.n_uncovered)
        close(total.log_wealth, whole.log_wealth)
        close(total.reward, whole.reward)
        close(total.values.means, whole.values.means)
        bounds = {"delta": 0.05, "max_reward": 1.0}
        close(total.values.bounds(**bounds), whole.values.bounds(**bounds))
        alive = learner.verdict.alive
        close(total.scores(alive)[alive], whole.scores(alive)[alive])
        assert plain(total.seen.state()) == plain(whole.seen.state())
        rivals = learner.verdict.rivals(epochs.current.leader)
        for mu in (0.0, 0.02):
            close(total.against(epochs.current.leader, mu, rivals), whole.against(epochs.current.leader, mu, rivals))
        threshold = learner.verdict.threshold
        close(
            total.claim(epochs.current.leader, rivals, threshold), whole.claim(epochs.current.leader, rivals, threshold)
        )


def test_evidence_of_other_bets_does_not_add() -> None:
    learners = []
    for seed in range(2):
        learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.02, first_epoch=150, seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(6):
            WORLD.play(learner, 60, rng)
        learners.append(learner.evidence)
    with pytest.raises(cb.InputError, match="of one problem and of the same epochs"):
        learners[0] + learners[1]


def test_the_claim_is_the_smallest_certified() -> None:
    """By scanning: at the claim every rival is refuted, one per cent below some is not."""
    learner = cb.UniformLists(WORLD.problem, WORLD.policies, epsilon=0.001, first_epoch=200, seed=1)
    rng = np.random.default_rng(2)
    claim, evidence, verdict = 1.0, learner.evidence, learner.verdict
    while claim == WORLD.problem.max_reward:
        WORLD.play(learner, 50, rng)
        leader = learner.epochs.current.leader
        rivals = verdict.rivals(leader)
        claim = evidence.claim(leader, rivals, verdict.threshold)
    assert claim > 0

    def certified(mu: float) -> bool:
        return bool((evidence.against(leader, mu, rivals) >= verdict.threshold).all())

    assert certified(claim)
    assert not certified(0.98 * claim)


def test_uneventful_rounds_are_those_after_which_a_rival_is_certified() -> None:
    """Rounds without reward, entered one after the other."""
    learner = cb.UniformLists(WORLD.problem, WORLD.policies, epsilon=0.3, first_epoch=10_000, seed=1)
    evidence, leader = learner.evidence, learner.epochs.current.leader
    rival = 1 - min(leader, 1)
    needed = evidence.uneventful_rounds(leader, rival, 0.3, learner.verdict.threshold)
    epochs: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    rounds = 0
    while evidence.against(leader, 0.3, np.array([rival]))[0] < learner.verdict.threshold:
        (block,) = evidence.blocks(rounds, epochs, np.ones(1, dtype=np.bool_), cb.Events.none())
        evidence.add(block)
        rounds += 1
    assert needed <= rounds <= needed * 1.5 + 3
    assert isinstance(learner.epochs, Epochs)
