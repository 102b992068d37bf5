"""From totals: wrong certifications stay below δ, however often one looks; and adaptive exploration needs fewer rounds
than an A/B/n test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import comband as cb
from tests.learners.small_worlds import SmallWorld, small_world
from tests.learners.test_validity import DELTA, Maker, most_allowed

METHODS: dict[str, Maker] = {
    "AdaptiveComband": (cb.AdaptiveComband, {}),
    "UniformLists": (cb.UniformLists, {}),
    "UniformMixture": (cb.UniformMixture, {}),
    "UniformMixture, pseudo-inverse": (cb.UniformMixture, {"weighting": "pseudo-inverse"}),
    "ABTest, eliminating": (cb.ABTest, {"eliminate": True}),
}
KINDS = ["clustered", "needle", "equal", "crowd"]


def total_world(kind: str, seed: int) -> SmallWorld:
    world = small_world(kind, seed)
    return replace(world, problem=replace(world.problem, feedback="total"))


def ever_wrong(maker: Maker, kind: str, seed: int, *, epsilon: float, max_rounds: int) -> bool:
    """Whether any claim made after any batch was wrong: a certified epsilon, or a fixed best candidate dropped."""
    world = total_world(kind, seed)
    learner = maker[0](
        world.problem,
        world.policies,
        epsilon=epsilon,
        delta=DELTA,
        first_epoch=100,
        max_rounds=max_rounds,
        seed=seed,
        **maker[1],
    )
    rng = np.random.default_rng([seed, 5])
    best = world.values.max()
    while not learner.done:
        x = rng.integers(len(world.chances), size=max(50, learner.rounds // 8))
        label = (rng.random(len(x))[:, None] >= np.cumsum(world.chances, axis=1)[x]).sum(axis=1)
        decisions = learner.ask(x)
        learner.tell(decisions, (decisions.lists == label[:, None]).any(axis=1).astype(float))
        claim = learner.verdict.claim()
        if world.values[claim.leader] < best - claim.epsilon - 1e-12:
            return True
        if not learner.verdict.alive[int(np.argmax(world.values >= best - 1e-12))]:
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_is_rarely_wrong_from_totals(kind: str) -> None:
    runs = 12
    wrong = sum(ever_wrong(METHODS["AdaptiveComband"], kind, s, epsilon=0.15, max_rounds=1500) for s in range(runs))
    assert wrong <= most_allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_wrong_claims_from_totals_stay_below_delta(method: str, kind: str) -> None:
    runs = 1000
    wrong = sum(ever_wrong(METHODS[method], kind, s, epsilon=0.05, max_rounds=4000) for s in range(runs))
    print(f"{method}, {kind}: {wrong} of {runs} runs ever wrong")
    assert wrong <= most_allowed(runs)


def test_certifies_from_totals_what_an_ab_test_cannot() -> None:
    problem = cb.Problem(60, 4, 1, "total")
    world = cb.SyntheticRecommender(problem, click_rate=0.5, n_users=300, decay=0.6, seed=1)
    policies = world.candidates(20, seed=2)
    truth, rounds = world.values(policies), {}
    for kind in (cb.AdaptiveComband, cb.ABTest):
        learner = kind(problem, policies, epsilon=0.1, max_rounds=12_000, seed=3)
        result = cb.run(learner, world, batch_size=300, max_rounds=12_000).result
        rounds[kind] = result.rounds
        assert truth.max() - truth[result.index] <= result.epsilon
        low, high = result.interval
        assert low <= truth[result.index] <= high
        assert not result.warnings
    assert 3 * rounds[cb.AdaptiveComband] <= rounds[cb.ABTest]
