"""Ridge regression of all actions at once: what `sklearn.linear_model.Ridge` gives one by one, much sooner."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from comband._kernels.pairs import pair_products, pair_sums
from comband.explore.oracles.pairs import Pairs

# Right-hand sides are solved for this many actions at a time.
_ACTIONS = 256
# Above so many features a dense d × d factor no longer pays; conjugate gradients take over.
MOST_FEATURES = 8000


def ridge_of_matrix(
    X: Any, rewards: sp.csr_array, *, alpha: float, fit_intercept: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients (d, K) and intercepts (K,) of min Σ_i (r̂_i(y) − x_i·w_y − b_y)² + α|w_y|² for every action y.

    One Cholesky factor of the d × d Gram matrix serves all actions, and r̂ is only ever used through XᵀR̂: no dense
    (n, K) array. The intercept is the mean, by centring the Gram matrix instead of X, which stays sparse.
    """
    n, d = X.shape
    matrix: Any = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    gram = matrix.T @ matrix
    G = gram.toarray() if sp.issparse(gram) else np.array(gram)
    means = np.asarray(matrix.mean(axis=0)).ravel() if fit_intercept else np.zeros(d)
    G -= n * np.outer(means, means)
    G[np.diag_indices(d)] += alpha
    factor = scipy.linalg.cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
    averages = np.asarray(rewards.mean(axis=0)).ravel() if fit_intercept else np.zeros(rewards.shape[1])
    K = rewards.shape[1]
    coefficients = np.empty((d, K))
    columns = rewards.tocsc()
    for start in range(0, K, _ACTIONS):
        some = slice(start, min(start + _ACTIONS, K))
        moments = matrix.T @ columns[:, some]
        right = moments.toarray() if sp.issparse(moments) else np.asarray(moments)
        right = right - n * np.outer(means, averages[some])
        coefficients[:, some] = scipy.linalg.cho_solve(factor, right, overwrite_b=True, check_finite=False)
    return coefficients, averages - means @ coefficients


def ridge_of_pairs(
    pairs: Pairs,
    *,
    alpha: float,
    fit_intercept: bool = True,
    smoothing: float = 0.0,
    start: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 100,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients (d, K) and intercepts (K,) of min Σ_e v_e (r_e − x_e·w_y − b_y)² + α|w_y|² + κ(b_y − b̄)².

    Every action sees only its own pairs, so that no Gram matrix is shared; conjugate gradients run for all actions side
    by side, each with its own step, at the cost of one pass over the pairs a step. κ = `smoothing` counts as so many
    pairs with the mean reward b̄: without it an action shown twice and rewarded once would look best of all. Stops when
    every residual fell below `tolerance` of its first size. `start` may be an earlier solution.
    """
    X = sp.csr_array(pairs.contexts, dtype=np.float64)
    indptr, indices, data = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data
    rows, actions, v = pairs.rows, pairs.actions, pairs.weights
    d, K, prior = X.shape[1], pairs.n_actions, pairs.mean_reward if fit_intercept else 0.0
    kappa = max(smoothing, 1e-9)

    def transpose(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        sums = np.zeros((d, K))
        pair_sums(indptr, indices, data, values, rows, actions, sums)
        totals: NDArray[np.float64] = np.bincount(actions, values, K).astype(np.float64)
        if not fit_intercept:
            totals[:] = 0
        return sums, totals

    def apply(W: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        fitted = pair_products(indptr, indices, data, W, rows, actions) + b[actions]
        sums, totals = transpose(v * fitted)
        return sums + alpha * W, totals + kappa * b

    W, b = np.zeros((d, K)), np.zeros(K)
    R, rb = transpose(v * (pairs.rewards - prior))
    # The intercept's own curvature is far above the penalty's: scaled by it, the two converge together.
    scale = alpha / (np.bincount(actions, v, K) + kappa)
    aim = tolerance**2 * ((R**2).sum(axis=0) + scale * rb**2)
    if start is not None:
        W, b = start[0].copy(), start[1] - prior
        applied = apply(W, b)
        R, rb = R - applied[0], rb - applied[1]
    P, pb = R.copy(), scale * rb
    size = (R**2).sum(axis=0) + scale * rb**2
    for _ in range(max_steps):
        if (size <= aim).all():
            break
        AP, apb = apply(P, pb)
        curvature = (P * AP).sum(axis=0) + pb * apb
        step = np.divide(size, curvature, out=np.zeros(K), where=(curvature > 0) & (size > aim))
        W += step * P
        b += step * pb
        R -= step * AP
        rb = rb - step * apb
        new = (R**2).sum(axis=0) + scale * rb**2
        turn = np.divide(new, size, out=np.zeros(K), where=size > 0)
        P *= turn
        P += R
        pb = scale * rb + turn * pb
        size = new
    return W, b + prior
