"""Lower-bound instances: exact conditional means against enumeration, sparsity, and independence of rounds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import comband as cb
from comband.page.problem import as_generator
from tests.strategies import hoeffding_radius

ALARMS = 1e-7


def by_enumeration(world: cb.worlds.LowerBoundInstance) -> tuple[np.ndarray, float]:
    """Conditional means and P(‖r‖₁ > s) from all 2^K outcomes."""
    K, m, s = world.problem.n_actions, world.problem.list_size, world.problem.sparsity
    assert s is not None
    p = np.full(K, s / (2 * K) - world.epsilon / (K - m))
    p[world.good] = s / (2 * K) + world.epsilon / m
    outcomes = np.array(list(product([0, 1], repeat=K)))
    weights = np.where(outcomes == 1, p, 1 - p).prod(axis=1)
    kept = outcomes.sum(axis=1) <= s
    return weights[kept] @ outcomes[kept] / weights[kept].sum(), float(weights[~kept].sum())


@pytest.mark.parametrize(
    ("problem", "epsilon", "good"),
    [
        (cb.Problem(12, 1, 2), 0.05, [4]),
        (cb.Problem(10, 3, 4), 0.3, [0, 9, 5]),
        (cb.Problem(10, 3, 2.5), 0.1, [7, 1, 2]),
        (cb.Problem(8, 4, 8), 0.5, [0, 1, 2, 3]),
        (cb.Problem(9, 2, 1), 0.01, []),
    ],
)
def test_means_are_those_of_full_enumeration(problem: cb.Problem, epsilon: float, good: list[int]) -> None:
    world = cb.worlds.LowerBoundInstance(problem, epsilon=epsilon, good=good)
    means, violation = by_enumeration(world)
    np.testing.assert_allclose(world.means, means, rtol=1e-12)
    assert world.violation == pytest.approx(violation, rel=1e-9, abs=1e-300)


def test_large_instances_keep_the_gap_that_the_theory_uses() -> None:
    problem = cb.Problem(10_000, 20, 120)
    world = cb.worlds.LowerBoundInstance(problem, epsilon=0.01, seed=3)
    # s/2 = 60 expected, 120 allowed: conditioning changes almost nothing.
    assert world.violation < 1e-10
    gap = world.means[world.good].mean() - np.delete(world.means, world.good).mean()
    assert gap == pytest.approx(0.01 / 20 + 0.01 / 9980, rel=1e-8)
    assert world.means.sum() == pytest.approx(60, rel=1e-9)


@pytest.mark.parametrize("problem", [cb.Problem(24, 2, 3), cb.Problem(13, 4, 9), cb.Problem(40, 3, 1)])
def test_sampled_means_sparsity_and_pairs(problem: cb.Problem) -> None:
    world = cb.worlds.LowerBoundInstance(problem, epsilon=0.2, seed=1)
    n = 60_000
    batch = world.sample(n, as_generator(2))
    dense = batch.rewards.toarray()
    assert set(np.unique(dense)) <= {0.0, 1.0}
    assert dense.sum(axis=1).max() <= problem.sparsity
    K = problem.n_actions
    assert np.abs(dense.mean(axis=0) - world.means).max() < hoeffding_radius(n, ALARMS, tests=K)
    # Given a round's counts the positions are uniform, so pairs within a group are exchangeable: one common mean.
    pairs = (dense.T @ dense / n)[np.ix_(world.good, world.good)]
    off = pairs[~np.eye(len(world.good), dtype=bool)]
    assert np.ptp(off) < 2 * hoeffding_radius(n, ALARMS, tests=K * K)


def test_rounds_are_independent_of_each_other() -> None:
    """χ² on the table of (number of rewards now, number in the next round) over disjoint pairs of rounds."""
    world = cb.worlds.LowerBoundInstance(cb.Problem(24, 2, 4), epsilon=0.2, seed=1)
    totals = world.sample(80_000, as_generator(5)).rewards.sum(axis=1).astype(int)
    table = np.zeros((5, 5))
    np.add.at(table, (totals[0::2], totals[1::2]), 1)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert expected.min() > 100  # the approximation by χ² is good
    assert ((table - expected) ** 2 / expected).sum() < chi2.isf(ALARMS, df=16)


def test_batches_are_one_stream() -> None:
    world = cb.worlds.LowerBoundInstance(cb.Problem(24, 2, 6), epsilon=0.1, seed=0)
    whole = world.sample(60, as_generator(1)).rewards.toarray()
    rng = as_generator(1)
    parts = [world.sample(n, rng).rewards.toarray() for n in (9, 0, 51)]
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_values_and_shortfall_agree_and_learners_run_on_it() -> None:
    problem = cb.Problem(12, 1, 6)
    world = cb.worlds.LowerBoundInstance(problem, epsilon=0.4, good=[7])
    lists = np.arange(12)[:, None]
    policies = cb.PolicySet.from_lists(lists[:, None], problem)
    values = world.values(policies)
    np.testing.assert_allclose(values.max() - values, world.shortfall(lists), atol=1e-15)
    learner = cb.UniformExploration(problem, policies, n_rounds=6000)
    assert cb.run(learner, world).result.index == 7


def test_impossible_instances_are_refused() -> None:
    with pytest.raises(cb.InputError, match="need the problem's sparsity"):
        cb.worlds.LowerBoundInstance(cb.Problem(12, 1), epsilon=0.1)
    with pytest.raises(cb.InputError, match=r"must be at most 0\.458"):
        cb.worlds.LowerBoundInstance(cb.Problem(12, 1, 1), epsilon=0.6)
    with pytest.raises(cb.InputError, match="below n_actions"):
        cb.worlds.LowerBoundInstance(cb.Problem(3, 3, 1), epsilon=0.1)
    with pytest.raises(cb.InputError, match="lists must have shape"):
        cb.worlds.LowerBoundInstance(cb.Problem(12, 2, 1), epsilon=0.1, good=[1])
