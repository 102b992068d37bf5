"""Wrong certifications stay below δ, however often one looks; and a bet that looks at the round's own list is
caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.explore.explorers import DisagreementExploration, DisagreementExplorer, Explorer, Standing
from comband.page.rounds import Events
from tests.learners.small_worlds import small_world

DELTA = 0.05
Maker = tuple[type[cb.certify.CertifyingLearner], dict[str, Any]]
METHODS: dict[str, Maker] = {
    "AdaptiveComband": (cb.AdaptiveComband, {}),
    "AdaptiveComband, reward": (cb.AdaptiveComband, {"objective": "reward"}),
    "UniformLists": (cb.UniformLists, {}),
    "UniformMixture": (cb.UniformMixture, {}),
    "ABTest": (cb.ABTest, {}),
    "ABTest, eliminating": (cb.ABTest, {"eliminate": True}),
    "TwoPhaseComband": (cb.TwoPhaseComband, {}),
}


class LooksAtTheList(DisagreementExplorer):
    """Wrong on purpose: stakes in proportion to the propensity of what the round itself has shown, λ·Q/0.3."""

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(len(chosen), 0.3)


class Looking:
    """An exploration that looks."""

    def plan(self, standing: Standing) -> Explorer:
        right = DisagreementExploration().plan(standing)
        return LooksAtTheList.from_state(right.state(), standing.policies, standing.problem)


def ever_wrong(
    maker: Maker,
    kind: str,
    seed: int,
    *,
    epsilon: float | None,
    max_rounds: int,
    scores: str | None = None,
    feedback: Literal["items", "total"] = "items",
) -> bool:
    """Whether any claim made after any batch was wrong: a certified epsilon, or a fixed best candidate dropped."""
    world = small_world(kind, seed)
    world = replace(world, problem=replace(world.problem, feedback=feedback))
    known: dict[str, Any] = (
        {} if scores is None else {"prior_scores": prior_scores(world.values, scores, seed), "prior_error": 0.02}
    )
    learner = maker[0](
        world.problem,
        world.policies,
        epsilon=epsilon,
        delta=DELTA,
        first_epoch=100,
        max_rounds=max_rounds,
        seed=seed,
        **maker[1],
        **known,
    )
    rng = np.random.default_rng([seed, 5])
    best = world.values.max()
    while not learner.done:
        world.play(learner, max(50, learner.rounds // 8), rng)
        claim = learner.verdict.claim()
        if world.values[claim.leader] < best - claim.epsilon - 1e-12:
            return True
        if not learner.verdict.alive[int(np.argmax(world.values >= best - 1e-12))]:
            return True
    return False


def prior_scores(values: NDArray[np.float64], kind: str, seed: int) -> NDArray[np.float64]:
    """What somebody thinks of the candidates beforehand."""
    rng = np.random.default_rng([seed, 6])
    noise = 0.02 * rng.standard_normal(len(values))
    return {"honest": values + noise, "random": rng.permutation(values), "reversed": noise - values}[kind]


def most_allowed(runs: int) -> int:
    """More wrong runs than this would happen with probability below 1e-6 if each were wrong with probability δ."""
    return int(binom.isf(1e-6, runs, DELTA))


def test_the_bound_is_the_one_of_the_promise() -> None:
    assert most_allowed(1000) == 86


@pytest.mark.parametrize("method", ["AdaptiveComband", "AdaptiveComband, reward"])
@pytest.mark.parametrize("kind", ["clustered", "needle", "equal", "crowd"])
def test_adaptive_is_rarely_wrong(kind: str, method: str) -> None:
    runs = 25
    wrong = sum(ever_wrong(METHODS[method], kind, s, epsilon=0.08, max_rounds=1500) for s in range(runs))
    assert wrong <= most_allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clustered", "needle", "equal", "crowd"])
@pytest.mark.parametrize("method", METHODS)
def test_wrong_claims_stay_below_delta(method: str, kind: str) -> None:
    runs = 1000
    wrong = sum(ever_wrong(METHODS[method], kind, s, epsilon=0.05, max_rounds=4000) for s in range(runs))
    print(f"{method}, {kind}: {wrong} of {runs} runs ever wrong")
    assert wrong <= most_allowed(runs)


@pytest.mark.parametrize("scores", ["honest", "random", "reversed"])
def test_scores_known_beforehand_cannot_bend_the_promise(scores: str) -> None:
    runs, maker = 15, METHODS["AdaptiveComband"]
    kinds = ["clustered", "needle", "equal", "crowd"]
    wrong = sum(
        ever_wrong(maker, kind, s, epsilon=0.08, max_rounds=1500, scores=scores) for s in range(runs) for kind in kinds
    )
    assert wrong <= most_allowed(runs * len(kinds))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clustered", "needle", "equal", "crowd"])
@pytest.mark.parametrize("scores", ["honest", "random", "reversed"])
def test_wrong_claims_stay_below_delta_whatever_is_known_beforehand(scores: str, kind: str) -> None:
    runs, maker = 1000, METHODS["AdaptiveComband"]
    wrong = sum(ever_wrong(maker, kind, s, epsilon=0.05, max_rounds=4000, scores=scores) for s in range(runs))
    print(f"{scores} scores, {kind}: {wrong} of {runs} runs ever wrong")
    assert wrong <= most_allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clustered", "needle", "equal", "crowd"])
def test_wrong_claims_stay_below_delta_where_a_budget_is_all_that_is_known(kind: str) -> None:
    runs = 1000
    wrong = sum(ever_wrong(METHODS["AdaptiveComband"], kind, s, epsilon=None, max_rounds=4000) for s in range(runs))
    print(f"budget, {kind}: {wrong} of {runs} runs ever wrong")
    assert wrong <= most_allowed(runs)


def test_a_bet_on_the_own_list_is_caught() -> None:
    """The same test, on a variant whose stakes depend on the round's own list, fails."""
    runs = 60
    maker: Maker = (cb.certify.CertifyingLearner, {"exploration": Looking()})
    wrong = sum(ever_wrong(maker, "crowd", s, epsilon=0.05, max_rounds=4000) for s in range(runs))
    assert wrong > most_allowed(runs)
