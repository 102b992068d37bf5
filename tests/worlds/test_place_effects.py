"""Worlds in which places matter: exact values by simulation, and the same world as before where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.page.problem import InputError, as_generator
from comband.worlds import MultilabelData, MultilabelWorld
from comband.worlds.place_effects import answered
from tests.strategies import hoeffding_radius

FACTORS = np.array([1.0, 0.6, 0.3])


def synthetic(effect: Any, sparsity: int = 3) -> Any:
    problem = cb.Problem(12, 3, sparsity)
    return cb.SyntheticRecommender(problem, click_rate=0.9, n_users=40, n_relevant=8, place_effect=effect, seed=3)


def multilabel(effect: Any) -> Any:
    rng = np.random.default_rng(2)
    data = MultilabelData(rng.standard_normal((30, 4)), (rng.random((30, 12)) < 0.3).astype(float))
    return MultilabelWorld(data, list_size=3, click_probability=0.7, noise=0.4, place_effect=effect)


def candidates(world: Any) -> cb.PolicySet:
    weights = np.random.default_rng(5).standard_normal((3, 8 if hasattr(world, "items") else 4, 12))
    return cb.PolicySet.linear(weights, world.problem)


def shuffled_rows(lists: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    return np.take_along_axis(lists, np.argsort(rng.random(lists.shape), axis=1), axis=1)


@pytest.mark.parametrize("make", [synthetic, multilabel])
@pytest.mark.parametrize("effect", [None, FACTORS, "cascade"])
def test_values_match_simulation(make: Any, effect: Any) -> None:
    world = make(effect)
    policies = candidates(world)
    n, rng = 60_000, as_generator(9)
    batch = world.sample(n, rng)
    radius = 3 * hoeffding_radius(n, 1e-6, tests=36)
    for shuffled in (False, True):
        truth = world.values(policies, shuffled=shuffled)
        for policy, value in zip(policies, truth, strict=True):
            lists = policy.predict(batch.contexts)
            earned = batch.answer(shuffled_rows(lists.astype(np.int32), rng) if shuffled else lists).sum(axis=1)
            assert earned.max() <= 3
            assert abs(earned.mean() - value) < radius
    plain = make(None).values(policies)
    if effect is None:
        assert (world.values(policies, shuffled=True) == plain).all()
    elif isinstance(effect, str):
        assert (world.values(policies) < plain).all()
        assert (world.values(policies) <= 1).all()
    else:
        np.testing.assert_allclose(world.values(policies, shuffled=True), plain * FACTORS.mean(), rtol=1e-12)


@pytest.mark.parametrize("make", [synthetic, multilabel])
def test_rewards_fall_with_the_place(make: Any) -> None:
    """The same lists in random order: each place brings its factor of what the first brings."""
    world = make(FACTORS)
    n, rng = 60_000, as_generator(4)
    batch = world.sample(n, rng)
    lists = shuffled_rows(np.broadcast_to(np.arange(3, dtype=np.int32), (n, 3)).copy(), rng)
    means = batch.answer(lists).mean(axis=0)
    plain = make(None).sample(n, as_generator(4)).answer(lists).mean()
    assert (np.abs(means - FACTORS * plain) < 2 * hoeffding_radius(n, 1e-6, tests=6)).all()


def test_a_reader_stops_at_the_first_click() -> None:
    rewards = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    stopped = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.5]]
    assert answered(rewards, "cascade", None).tolist() == stopped
    assert answered(rewards, None, None) is rewards
    assert answered(np.ones((1, 3)), FACTORS, np.array([[0.99, 0.61, 0.29]])).tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("make", [synthetic, multilabel])
def test_batches_are_one_stream(make: Any) -> None:
    world = make(FACTORS)
    lists = np.broadcast_to(np.arange(3, dtype=np.int32), (50, 3))
    whole = world.sample(50, as_generator(1)).answer(lists)
    rng = as_generator(1)
    parts = [world.sample(k, rng).answer(lists[:k]) for k in (7, 0, 43)]
    assert np.concatenate(parts).tolist() == whole.tolist()


@pytest.mark.parametrize("effect", ["casacde", [1.0, 0.5], [1.0, 0.0, 0.5], [1.0, 2.0, 0.5], [1.0, np.nan, 0.5], 1.0])
def test_other_effects_are_refused(effect: Any) -> None:
    for make in (synthetic, multilabel):
        with pytest.raises(InputError, match="place_effect"):
            make(effect)


def test_a_world_may_be_otherwise_than_its_problem_says() -> None:
    """What is assumed and what is true are two things: both can be chosen."""
    problem = cb.Problem(12, 3, 3, places=[1, 0.5, 0.25])
    world = cb.SyntheticRecommender(problem, click_rate=0.9, n_users=40, place_effect=FACTORS, seed=3)
    assert world.problem.places == (1.0, 0.5, 0.25)
    learner = cb.AdaptiveComband(cb.Problem(12, 3, 3), world.candidates(3), epsilon=0.2, max_rounds=100)
    cb.run(learner, world, batch_size=50)
    assert learner.rounds == 100
    with pytest.raises(InputError, match="solves"):
        cb.run(cb.AdaptiveComband(cb.Problem(12, 3, 2), world.candidates(3), epsilon=0.2), world)
