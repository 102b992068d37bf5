"""The synthetic shop: exact values, exact marginals, never more than s wanted items."""

from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from comband.page.problem import as_generator
from tests.strategies import hoeffding_radius


@pytest.mark.parametrize(
    "problem", [cb.Problem(20, 3, 1), cb.Problem(15, 4, 3), cb.Problem(8, 8, 2), cb.Problem(30, 1)]
)
def test_values_match_simulation_and_rewards_are_sparse(problem: cb.Problem) -> None:
    world = cb.SyntheticRecommender(problem, click_rate=0.25, n_users=60, seed=3)
    policies = world.candidates(4, seed=4)
    n = 60_000
    batch = world.sample(n, as_generator(5))
    s = 1 if problem.sparsity is None else problem.sparsity
    assert batch.rewards.sum(axis=1).max() <= s
    assert set(np.unique(batch.rewards.data)) == {1.0}
    truth = world.values(policies)
    for policy, value in zip(policies, truth, strict=True):
        earned = batch.answer(policy.predict(batch.contexts)).sum(axis=1)
        assert abs(earned.mean() - value) < s * hoeffding_radius(n, 1e-6, tests=16)
    ideal = cb.PolicySet.linear(world.items[None], problem, seed=1)
    assert world.values(ideal)[0] == pytest.approx(0.25, rel=1e-9)
    assert truth.max() <= 0.25 + 1e-12


def test_batches_are_one_stream() -> None:
    world = cb.SyntheticRecommender(cb.Problem(20, 3, 2), click_rate=0.5, seed=0)
    whole = world.sample(50, as_generator(1))
    rng = as_generator(1)
    parts = [world.sample(n, rng) for n in (7, 0, 43)]
    assert np.concatenate([p.contexts for p in parts]).tolist() == whole.contexts.tolist()
    assert np.concatenate([p.rewards.toarray() for p in parts]).tolist() == whole.rewards.toarray().tolist()


def test_needles_are_few_and_clusters_a_continuum() -> None:
    world = cb.SyntheticRecommender(cb.Problem(200, 5, 1), click_rate=0.3, n_users=400, seed=0)
    needle = np.sort(world.values(world.candidates(40, kind="needle", n_good=2, seed=1)))
    assert needle[-2] > 0.25
    assert needle[-3] < 0.05
    clustered = np.sort(world.values(world.candidates(40, seed=2)))
    assert clustered[-1] > 0.25
    assert np.diff(clustered).max() < 0.1
    with pytest.raises(cb.InputError, match="n_good must lie in 1 … 3, got 4"):
        world.candidates(3, kind="needle", n_good=4)
    with pytest.raises(cb.InputError, match='"clustered" or "needle"'):
        world.candidates(3, kind="haystack")  # type: ignore[arg-type]


def test_answers_only_for_what_was_shown() -> None:
    world = cb.SyntheticRecommender(cb.Problem(10, 2, 1), click_rate=0.3, seed=0)
    batch = world.sample(500, as_generator(0))
    lists = np.tile([3, 7], (500, 1))
    assert batch.answer(lists).tolist() == batch.rewards.toarray()[:, [3, 7]].tolist()
    with pytest.raises(cb.InputError, match="one row per context"):
        batch.answer(lists[:2])


def test_impossible_click_rates_are_refused() -> None:
    with pytest.raises(cb.InputError, match=r"at most 0\.\d+ is possible here"):
        cb.SyntheticRecommender(cb.Problem(50, 5, 1), click_rate=0.99)
    with pytest.raises(cb.InputError, match="sparsity must be a whole number"):
        cb.SyntheticRecommender(cb.Problem(50, 5, 1.5))
