from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from comband import InputError, Problem, RegressionOracle
from comband.explore.oracles import CachingOracle, RankingOracle

PROBLEM = Problem(n_actions=6, list_size=2)


def world(seed: int = 0, n: int = 250) -> tuple[np.ndarray, sp.csr_array]:
    """Contexts of six kinds; the kind and its neighbour are wanted."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(6, size=n)
    X = np.eye(6)[kind] + 0.05 * rng.normal(size=(n, 6))
    rewards = np.zeros((n, 6))
    rewards[np.arange(n), kind] = 2.0
    rewards[np.arange(n), (kind + 1) % 6] = 1.0
    return X, sp.csr_array(rewards)


def collected(policy: Any, X: Any, rewards: sp.csr_array) -> float:
    lists = policy.predict(X)
    n, m = lists.shape
    return float(rewards[np.repeat(np.arange(n), m), lists.ravel()].sum() / n)


@pytest.mark.parametrize(
    "oracle",
    [
        RegressionOracle(Ridge(alpha=0.1), PROBLEM),
        RegressionOracle(LinearRegression(), PROBLEM),
        RegressionOracle(LogisticRegression(), PROBLEM),
        RegressionOracle(LinearSVC(), PROBLEM),
        RegressionOracle(DecisionTreeRegressor(), PROBLEM),
        RegressionOracle(DecisionTreeClassifier(max_depth=4), PROBLEM),
        RegressionOracle(KNeighborsRegressor(), PROBLEM),  # takes no sample weights
        RegressionOracle(Ridge(alpha=0.1), PROBLEM, background=60),
        RegressionOracle(LogisticRegression(), PROBLEM, background=60),
        RegressionOracle(Ridge(alpha=0.1), PROBLEM, layout="shared"),
        RegressionOracle(LogisticRegression(), PROBLEM, layout="shared", background=3),
        RegressionOracle(
            DecisionTreeRegressor(), PROBLEM, layout="shared", action_features=np.eye(6), interactions=False
        ),
        RankingOracle(PROBLEM, n_estimators=40, num_leaves=8),
    ],
    ids=lambda oracle: f"{type(getattr(oracle, 'estimator', oracle)).__name__}-{getattr(oracle, 'layout', 'ranking')}",
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_finds_the_wanted_actions_of_new_contexts(oracle: Any, kind: str) -> None:
    make = sp.csr_array if kind == "sparse" else np.asarray
    X, rewards = world()
    policy = oracle.fit(make(X), rewards)
    fresh, truth = world(seed=1)
    assert collected(policy, make(fresh), truth) > 2.9  # 3 is the most; a uniform list collects 1
    assert policy.predict(make(fresh)[:0]).shape == (0, 2)
    assert not oracle.exact


def test_fast_path_of_ridge_is_the_slow_one() -> None:
    X, rewards = world(n=80)
    quick = RegressionOracle(Ridge(alpha=0.3), PROBLEM).fit(X, rewards)
    slow = RegressionOracle(_RidgeByAnotherName(alpha=0.3), PROBLEM).fit(X, rewards)
    np.testing.assert_allclose(quick.scores(X), slow.scores(X), atol=1e-8)


class _RidgeByAnotherName(Ridge):  # type: ignore[misc]
    pass


def test_a_link_function_is_kept() -> None:
    X, rewards = world(n=80)
    policy = RegressionOracle(PoissonRegressor(), PROBLEM).fit(X, rewards)
    model = PoissonRegressor().fit(X, rewards.toarray()[:, 2])
    np.testing.assert_allclose(policy.scores(X)[:, 2], model.predict(X))


def test_sampled_background_keeps_the_objective() -> None:
    # One feature that says nothing: the fitted value is the mean estimate, which sampling must preserve.
    n = 4000
    X = np.zeros((n, 1))
    rewards = sp.csr_array((np.full(50, 3.0), (np.arange(50), np.zeros(50, dtype=int))), shape=(n, 2))
    policy = RegressionOracle(LinearRegression(), Problem(n_actions=2, list_size=1), background=200).fit(X, rewards)
    assert policy.scores(X[:1])[0, 0] == pytest.approx(50 * 3 / n)


def test_no_rewards_no_preference() -> None:
    for oracle in (RegressionOracle(Ridge(), PROBLEM), RankingOracle(PROBLEM)):
        policy = oracle.fit(np.ones((3, 2)), sp.csr_array((3, 6)))
        assert policy.predict(np.ones((3, 2))).shape == (3, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RegressionOracle(Ridge, PROBLEM), "estimator"),
        (lambda: RegressionOracle(Ridge(), PROBLEM, layout="both"), "layout"),  # type: ignore[arg-type]
        (lambda: RegressionOracle(Ridge(), PROBLEM, action_features=np.eye(5)), "action_features"),
        (lambda: RankingOracle(PROBLEM, action_features=np.eye(5)), "action_features"),
        (lambda: RegressionOracle(Ridge(), PROBLEM).fit(np.ones((2, 2)), sp.csr_array(np.ones((2, 5)))), "column"),
        (lambda: RegressionOracle(Ridge(), PROBLEM).fit(np.ones((2, 2)), sp.csr_array(-np.ones((2, 6)))), "negative"),
        (
            lambda: RegressionOracle(Ridge(), PROBLEM, layout="shared").fit(
                sp.csr_array((900_000, 2)), sp.csr_array(([1.0], ([0], [0])), shape=(900_000, 6))
            ),
            "background",
        ),
    ],
)
def test_wrong_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_cache_asks_once_and_forgets_the_oldest() -> None:
    X, rewards = world(n=40)
    oracle = CachingOracle(RegressionOracle(Ridge(), PROBLEM), size=2)
    first = oracle.fit(X, rewards)
    assert oracle.fit(X.copy(), rewards.copy()) is first
    assert oracle.fit(X, 2 * rewards) is not first
    assert (oracle.calls, oracle.hits, oracle.exact) == (3, 1, False)
    oracle.fit(X, 3 * rewards)  # the first answer goes
    assert oracle.fit(X, rewards) is not first
    changed = X.copy()
    changed[0, 0] += 1
    hits = oracle.hits
    oracle.fit(changed, rewards)
    assert oracle.hits == hits
