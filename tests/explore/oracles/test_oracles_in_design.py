"""The exploration design and the final ERM with classes that are reached only through an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from comband import EnumerationOracle, Problem, RegressionOracle, Rounds, design_exploration
from comband.explore.oracles import CachingOracle, Oracle, TreeOracle
from comband.explore.solvers import Stopping

PROBLEM = Problem(n_actions=4, list_size=2, sparsity=1)


def uniform_rounds(n: int, *, seed: int, sparse: bool = False) -> Rounds:
    """Uniform lists; the wanted action depends on both features, with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    wanted = np.where(rng.random(n) < 0.8, 2 * (X[:, 0] > 0) + (X[:, 1] > 0), rng.integers(4, size=n))
    lists = np.argsort(rng.random((n, 4)), axis=1)[:, :2]
    contexts: Any = sp.csr_array(X) if sparse else X
    return Rounds.from_log(
        contexts,
        lists=lists,
        rewards=lists == wanted[:, None],
        propensities=np.full((n, 2), 0.5),
        problem=PROBLEM,
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("solver", ["corrective", "pairwise"])
def test_tree_oracle_gives_the_design_that_enumeration_gives(seed: int, solver: str) -> None:
    trees = TreeOracle(PROBLEM, splits=[(0, 0.0), (1, 0.0)], depth=1)
    rounds = uniform_rounds(250, seed=seed)
    stopping = Stopping(relative_gap=1e-5, max_calls=500)
    reached = design_exploration(
        rounds, CachingOracle(trees), problem=PROBLEM, floor=0.3, solver=solver, stopping=stopping
    )
    listed = design_exploration(
        rounds, EnumerationOracle(trees.policies()), problem=PROBLEM, floor=0.3, solver=solver, stopping=stopping
    )
    assert reached.certified
    assert listed.certified
    # Both are within 1e-5 (relative to the total weight, at most 1) of the one minimum.
    assert reached.value == pytest.approx(listed.value, abs=2e-5)
    # The optimal coverage Q of every event is unique, as the objective is strictly convex in it.
    events = rounds.events()
    shown = np.zeros((events.n_rewarded, 2), dtype=np.int32)
    shown[events.rows, 0] = events.actions
    shown[:, 1] = (shown[:, 0] + 1) % 4
    q = [design.mixture.propensities(events.contexts, shown)[events.rows, 0] for design in (reached, listed)]
    assert np.abs(q[0] - q[1]).max() < 0.02


@pytest.mark.parametrize("sparse", [False, True])
def test_regression_oracle_makes_a_small_mixture_and_the_final_choice(sparse: bool) -> None:
    oracle: Oracle = RegressionOracle(Ridge(alpha=1.0), PROBLEM)
    rounds = uniform_rounds(600, seed=2, sparse=sparse)
    design = design_exploration(
        rounds, oracle, problem=PROBLEM, floor=0.3, stopping=Stopping(relative_gap=1e-3, max_calls=10)
    )
    assert not design.certified  # only as far as the oracle sees
    assert 1 <= len(design.support) <= 10
    drawn = design.mixture.draw(rounds.decisions.contexts, np.random.default_rng(0))
    assert drawn.propensities.min() >= 0.3 * 0.5

    events = rounds.events()
    estimates = sp.csr_array(
        (events.rewards / events.propensities, (events.rows, events.actions)), shape=(events.n_rewarded, 4)
    )
    fresh = uniform_rounds(400, seed=3, sparse=sparse).decisions.contexts
    dense = fresh.toarray() if sparse else fresh
    best = 2 * (dense[:, 0] > 0) + (dense[:, 1] > 0)
    lists = oracle.fit(events.contexts, estimates).predict(fresh)
    assert (lists == best[:, None]).any(axis=1).mean() > 0.85  # a uniform list has it in half of the rounds
