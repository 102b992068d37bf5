"""PAC-COMBAND with a class that is reached only through its oracle."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

import comband as cb


def world(*, sparse: bool = False) -> cb.MultilabelWorld:
    """Four labels; the sign of the first feature decides between 0 and 1, in nine rows of ten."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    wanted = np.where(rng.random(400) < 0.9, (X[:, 0] > 0).astype(int), rng.integers(2, 4, size=400))
    return cb.MultilabelWorld(cb.MultilabelData(sp.csr_array(X) if sparse else X, np.eye(4)[wanted]), list_size=1)


def test_trees_behind_an_oracle_are_chosen_as_trees_in_a_list() -> None:
    place = world()
    oracle = cb.explore.oracles.TreeOracle(place.problem, splits=[(0, 0.0), (1, 0.0)], depth=1)
    trees = oracle.policies()
    chosen = []
    classes: tuple[cb.explore.oracles.Oracle | cb.PolicySet, ...] = (
        oracle,
        cb.explore.oracles.CachingOracle(oracle),
        trees,
    )
    for policies in classes:
        learner = cb.PacComband(place.problem, policies, n_explore=600, n_estimate=4000, seed=3)
        chosen.append(cb.run(learner, place, batch_size=600, seed=4).result.policy)
    X = place.data.features
    values = place.values(trees)
    best = int(values.argmax())
    # Propensities are 1/8 at least, so a difference of two estimates varies by 8·(0.94 + 0.54) at most; Bernstein with
    # n = 4000 and a gap of 0.39 gives exp(−4000·0.39²/(2·(11.9 + 8·0.39/3))) < 1e-10 for each of 27 rivals.
    assert values[best] - np.sort(values)[-2] > 0.39
    assert len(trees) == 28
    for policy in chosen:
        np.testing.assert_array_equal(policy.predict(X), trees[best].predict(X))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_regression_behind_it(sparse: bool) -> None:
    place = world(sparse=sparse)
    oracle = cb.RegressionOracle(Ridge(alpha=1.0), place.problem)
    learner = cb.PacComband(place.problem, oracle, n_explore=600, n_estimate=1500, seed=5)
    policy = cb.run(learner, place, batch_size=300, seed=6).result.policy
    assert place.data.hits(policy.predict(place.data.features)) > 0.75  # 0.9 is the most, a fixed label has 0.47
