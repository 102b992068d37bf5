from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from comband._kernels.pairs import pair_products, pair_sums
from comband.explore.oracles.linear import ridge_of_matrix, ridge_of_pairs
from comband.explore.oracles.pairs import Pairs


def sparse_matrix(rng: np.random.Generator, n: int, d: int) -> sp.csr_array:
    return sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_all_actions_at_once_is_ridge_one_by_one(fit_intercept: bool, kind: str) -> None:
    rng = np.random.default_rng(0)
    X = sparse_matrix(rng, 60, 7)
    rewards = sp.csr_array(rng.random((60, 5)) * (rng.random((60, 5)) < 0.2))
    coefficients, intercepts = ridge_of_matrix(
        X if kind == "sparse" else X.toarray(), rewards, alpha=0.7, fit_intercept=fit_intercept
    )
    expected = Ridge(alpha=0.7, fit_intercept=fit_intercept).fit(X.toarray(), rewards.toarray())
    np.testing.assert_allclose(coefficients, expected.coef_.T, atol=1e-10)
    np.testing.assert_allclose(intercepts, expected.intercept_, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_pairs_are_weighted_ridge_on_each_actions_own_rows(fit_intercept: bool) -> None:
    rng = np.random.default_rng(1)
    X = sparse_matrix(rng, 80, 6)
    rows, actions = rng.integers(80, size=300), rng.integers(4, size=300)
    pairs = Pairs(X, rows, actions, rng.random(300), rng.random(300) + 0.1, 4)
    coefficients, intercepts = ridge_of_pairs(pairs, alpha=0.5, fit_intercept=fit_intercept, tolerance=1e-12)
    for action in range(4):
        own = actions == action
        expected = Ridge(alpha=0.5, fit_intercept=fit_intercept).fit(
            X.toarray()[rows[own]], pairs.rewards[own], sample_weight=pairs.weights[own]
        )
        np.testing.assert_allclose(coefficients[:, action], expected.coef_, atol=1e-7)
        assert intercepts[action] == pytest.approx(expected.intercept_, abs=1e-7)


def test_smoothing_is_answers_at_the_mean_rate_and_a_start_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    X = sparse_matrix(rng, 50, 3)
    pairs = Pairs(X, np.arange(50), np.arange(50) % 2, rng.random(50), np.ones(50), 3)
    cold = ridge_of_pairs(pairs, alpha=1.0, smoothing=4.0, tolerance=1e-12)
    warm = ridge_of_pairs(pairs, alpha=1.0, smoothing=4.0, tolerance=1e-12, start=(cold[0] + 1, cold[1] - 1))
    np.testing.assert_allclose(warm[0], cold[0], atol=1e-8)
    assert cold[1][2] == pytest.approx(pairs.mean_reward)  # never shown: the mean rate
    own = np.arange(0, 50, 2)
    design = np.vstack([np.c_[X.toarray()[own], np.ones(25)], np.eye(4) * np.sqrt([1, 1, 1, 4])])
    target = np.r_[pairs.rewards[own], 0, 0, 0, 2 * pairs.mean_reward]
    expected = np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(np.r_[cold[0][:, 0], cold[1][0]], expected, atol=1e-8)


def test_kernels_and_their_numpy_twins() -> None:
    rng = np.random.default_rng(3)
    X = sparse_matrix(rng, 20, 6)
    W = rng.normal(size=(6, 4))
    rows, actions, values = rng.integers(20, size=50), rng.integers(4, size=50), rng.normal(size=50)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    products = pair_products(indptr, indices, X.data, W, rows, actions)
    np.testing.assert_allclose(products, (X @ W)[rows, actions], atol=1e-12)
    result = np.zeros((6, 4))
    pair_sums(indptr, indices, X.data, values, rows, actions, result)
    twin = X.T @ sp.coo_array((values, (rows, actions)), shape=(20, 4)).toarray()
    np.testing.assert_allclose(result, twin, atol=1e-12)
