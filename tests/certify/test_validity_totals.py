"""From totals: wrong certifications stay below δ, however often one looks; and adaptive exploration needs fewer rounds
than an A/B/n test.
"""

from __future__ import annotations

import pytest

import comband as cb
from tests.certify.claiming import check_counts, most_allowed
from tests.certify.test_validity import KINDS, Maker, ever_wrong

METHODS: dict[str, Maker] = {
    "AdaptiveComband": (cb.AdaptiveComband, {}),
    "UniformLists": (cb.UniformLists, {}),
    "UniformMixture": (cb.UniformMixture, {}),
    "UniformMixture, pseudo-inverse": (cb.UniformMixture, {"weighting": "pseudo-inverse"}),
    "ABTest, eliminating": (cb.ABTest, {"eliminate": True}),
}


def wrong_from_totals(method: str, kind: str, seed: int) -> bool:
    """Whether any claim from totals, looked at after every batch, was wrong."""
    return ever_wrong(METHODS[method], kind, seed, epsilon=0.15, max_rounds=1500, feedback="total")


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_is_rarely_wrong_from_totals(kind: str) -> None:
    runs = 12
    assert sum(wrong_from_totals("AdaptiveComband", kind, seed) for seed in range(runs)) <= most_allowed(runs)


@pytest.mark.slow
@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("method", METHODS)
def test_wrong_claims_from_totals_stay_below_delta(method: str) -> None:
    runs = 500 if method == "AdaptiveComband" else 250
    check_counts(f"totals, {method}", KINDS, lambda kind, seed: wrong_from_totals(method, kind, seed), runs=runs)


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
