"""Importance-weighted sums: by hand, against plain loops, merging, unbiased by simulation; interval coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import comband as cb
from comband.page.problem import as_generator
from comband.statistics.importance import SharedActions
from tests.strategies import problems, random_lists, random_policies


def random_rounds(problem: cb.Problem, n: int, rng: np.random.Generator) -> cb.Rounds:
    shape = (n, problem.list_size)
    rewards = rng.random(shape) * (rng.random(shape) < 0.4)
    if problem.sparsity is not None:
        rewards *= np.minimum(1, problem.sparsity / np.maximum(rewards.sum(axis=1, keepdims=True), 1e-9))
    return cb.Rounds.from_log(
        rng.integers(0, 4, n),
        lists=random_lists(n, problem, rng),
        rewards=rewards,
        propensities=rng.uniform(0.05, 1, shape),
        problem=problem,
    )


@given(problems(), st.integers(1, 30), st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_sums_equal_plain_loops_and_merge(problem: cb.Problem, n: int, seed: int) -> None:
    rng = as_generator(seed)
    policies = random_policies(5, 4, problem, rng)
    rounds = random_rounds(problem, n, rng)
    d = rounds.decisions
    x = np.zeros((n, 5))
    for t in range(n):
        for p, policy in enumerate(policies):
            target = set(policy.predict([d.contexts[t]])[0].tolist())
            for j, y in enumerate(d.lists[t].tolist()):
                if y in target:
                    x[t, p] += rounds.rewards[t, j] / d.propensities[t, j]
    values = cb.statistics.ValueSums.from_events(rounds.events(), policies)
    np.testing.assert_allclose(values.means, x.mean(axis=0), rtol=1e-12, atol=1e-15)
    if n > 1:
        np.testing.assert_allclose(values.variances, x.var(axis=0, ddof=1), rtol=1e-9, atol=1e-12)
    cut = int(rng.integers(0, n + 1))
    parts = [cb.statistics.ValueSums.from_events(part.events(), policies) for part in (rounds[:cut], rounds[cut:])]
    merged = parts[0] + parts[1]
    assert merged.n_rounds == n
    np.testing.assert_allclose(merged.sums, values.sums, rtol=1e-12)
    np.testing.assert_allclose(merged.squares, values.squares, rtol=1e-12)
    some = cb.statistics.ValueSums.from_events(rounds.events(), policies, [3, 1])
    np.testing.assert_allclose(some.sums, values.sums[[3, 1]], rtol=1e-12)


def test_intervals_by_hand() -> None:
    values = cb.statistics.ValueSums(
        101, np.array([50.5]), np.array([50.5])
    )  # a coin: mean ½, sample variance .25·101/100
    low, high = values.bounds(bound=2.0, delta=0.1)
    log_term = np.log(2 / 0.05)
    radius = np.sqrt(2 * 0.2525 * log_term / 101) + 7 * 2 * log_term / 300
    assert high[0] == pytest.approx(0.5 + radius)
    assert low[0] == pytest.approx(max(0.5 - radius, 0))
    three = cb.statistics.ValueSums(101, np.array([50.5, 0, 0]), np.array([50.5, 0, 0]))  # six one-sided statements
    log_term = np.log(2 / (0.1 / 6))
    radius = np.sqrt(2 * 0.2525 * log_term / 101) + 7 * 2 * log_term / 300
    assert three.bounds(bound=2.0, delta=0.1)[1][0] == pytest.approx(0.5 + radius)
    few = cb.statistics.ValueSums(1, np.array([1.0]), np.array([1.0]))
    assert few.bounds(bound=1, delta=0.1)[1][0] == np.inf


def test_intervals_cover_all_policies_at_once() -> None:
    world = cb.SyntheticRecommender(cb.Problem(12, 3, 1), click_rate=0.35, n_users=50, seed=0)
    policies = world.candidates(10, seed=1)
    truth = world.values(policies)
    repetitions, delta, misses = 400, 0.2, 0
    for seed in range(repetitions):
        learner = cb.UniformExploration(world.problem, policies, n_rounds=400, delta=delta, seed=seed)
        cb.run(learner, world, batch_size=400, seed=10_000 + seed)
        low, high = learner._intervals()
        misses += bool(((truth < low) | (truth > high)).any())
    # Binomial(400, .2) exceeds 120 with probability below 1e-6.
    assert misses <= 120


def test_blocks_that_are_kept_sum_to_the_same() -> None:
    rng = np.random.default_rng(8)
    problem = cb.Problem(30, 3)
    lists = rng.permuted(np.tile(np.arange(30), (70, 40, 1)), axis=2)[:, :, :3]
    policies = cb.PolicySet.from_lists(lists, problem)
    X, rows = rng.integers(40, size=25), np.sort(rng.integers(25, size=60))
    actions = rng.integers(30, size=60).astype(np.int32)
    weights = rng.random((2, 60))
    expected = np.zeros((2, 25, 70))
    for e in range(60):
        for j in range(70):
            expected[:, rows[e], j] += weights[:, e] * (actions[e] in lists[j, X[rows[e]]])
    found = np.zeros_like(expected)
    for block in SharedActions.blocks(policies, X, rows, actions):
        kept = block.kept().kept()
        for w in range(2):
            found[w, block.rounds] = block.sums(weights[w])
            assert (kept.sums(weights[w]) == block.sums(weights[w])).all()
            for one in (block, kept):
                assert (one.sums_of(65, weights[w]) == block.sums(weights[w])[:, 65]).all()
    np.testing.assert_allclose(found, expected, atol=1e-12)
