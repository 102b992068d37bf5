"""From totals: wrong certifications stay below δ, however often one looks; and adaptive exploration needs fewer rounds
than an A/B/n test.
"""

from __future__ import annotations

import pytest

import comband as cb
from tests.certify.test_validity import Maker, ever_wrong, most_allowed

METHODS: dict[str, Maker] = {
    "AdaptiveComband": (cb.AdaptiveComband, {}),
    "UniformLists": (cb.UniformLists, {}),
    "UniformMixture": (cb.UniformMixture, {}),
    "UniformMixture, pseudo-inverse": (cb.UniformMixture, {"weighting": "pseudo-inverse"}),
    "ABTest, eliminating": (cb.ABTest, {"eliminate": True}),
}
KINDS = ["clustered", "needle", "equal", "crowd"]


def wrong_runs(method: str, kind: str, runs: int) -> int:
    """Of so many runs, those in which any claim from totals, looked at after every batch, was wrong."""
    wrong = (ever_wrong(METHODS[method], kind, s, epsilon=0.15, max_rounds=1500, feedback="total") for s in range(runs))
    return sum(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_is_rarely_wrong_from_totals(kind: str) -> None:
    runs = 12
    assert wrong_runs("AdaptiveComband", kind, runs) <= most_allowed(runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_wrong_claims_from_totals_stay_below_delta(method: str, kind: str) -> None:
    runs = 1000 if method == "AdaptiveComband" else 200
    wrong = wrong_runs(method, kind, runs)
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
