"""Fitted models as one scorer of all actions: X -> (n, K)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from comband.explore.oracles.pairs import check_matrix
from comband.page.problem import InputError


class LinearScorer:
    """x·w_y + b_y, for coefficients (d, K) and intercepts (K,)."""

    def __init__(self, coefficients: NDArray[np.float64], intercepts: NDArray[np.float64]) -> None:
        self.coefficients = coefficients
        self.intercepts = intercepts

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Scores (n, K)."""
        matrix = check_matrix(X, features=self.coefficients.shape[0])
        return np.asarray(matrix @ self.coefficients + self.intercepts, dtype=np.float64)


class ActionModels:
    """One fitted model per action, or a constant where there was nothing to learn.

    Parameters
    ----------
    models:
        Fitted estimators, or None.
    constants:
        (K,) scores of the actions without a model.
    """

    def __init__(self, models: Sequence[Any], constants: NDArray[np.float64]) -> None:
        self.models = list(models)
        self.constants = constants

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Scores (n, K)."""
        matrix = check_matrix(X)
        scores = np.tile(self.constants, (matrix.shape[0], 1))
        if matrix.shape[0] == 0:
            return scores
        for action, model in enumerate(self.models):
            if model is not None:
                scores[:, action] = expected_reward(model, matrix)
        return scores


class PairScorer:
    """One fitted model of (context, action) pairs, asked for all K actions of a context."""

    def __init__(self, model: Any, action_features: Any, interactions: bool) -> None:
        self.model = model
        self.action_features = action_features
        self.interactions = interactions

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Scores (n, K)."""
        matrix = check_matrix(X)
        n, K = matrix.shape[0], self.action_features.shape[0]
        if n == 0:
            return np.empty((0, K))
        rows, actions = np.repeat(np.arange(n), K), np.tile(np.arange(K), n)
        features = pair_features(matrix, self.action_features, rows, actions, interactions=self.interactions)
        return expected_reward(self.model, features).reshape(n, K)


def pair_features(
    X: Any, action_features: Any, rows: NDArray[np.int64], actions: NDArray[np.int64], *, interactions: bool
) -> Any:
    """φ(x, y) = (x, a_y), or (x, a_y, x ⊗ a_y); CSR as soon as one side is sparse."""
    left, right = X[rows], action_features[actions]
    if not sp.issparse(left) and not sp.issparse(right):
        parts = [left, right]
        if interactions:
            parts.append((left[:, :, None] * right[:, None, :]).reshape(len(rows), left.shape[1] * right.shape[1]))
        return np.hstack(parts)
    left, right = sp.csr_array(left), sp.csr_array(right)
    blocks = [left, right]
    if interactions:
        blocks.append(_row_kronecker(left, right))
    return sp.hstack(blocks, format="csr")


def expected_reward(model: Any, X: Any) -> NDArray[np.float64]:
    """A fitted model's score of being rewarded, (n,): the prediction, or the probability of class 1."""
    if not hasattr(model, "classes_"):
        return np.asarray(model.predict(X), dtype=np.float64).reshape(X.shape[0])
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)[:, list(model.classes_).index(1)], dtype=np.float64)
    margin = np.asarray(model.decision_function(X), dtype=np.float64)
    # A margin is not a probability, but this keeps it on the scale of the constants beside it.
    return np.asarray(1 / (1 + np.exp(-np.clip(margin, -500, 500))), dtype=np.float64)


def fit_model(
    estimator: Any, X: Any, rewards: NDArray[np.float64], weights: NDArray[np.float64], *, name: str
) -> Any | float:
    """A clone of `estimator` fitted to rewards ≥ 0 with weights, or the mean when there is only one value.

    A regressor gets the rewards as targets. A classifier gets class 1 with weight v·min(r, 1) — or v·r where r > 1, as
    importance-weighted estimates may be — and class 0 with weight v·(1 − r)₊: its odds then grow with E[r | x].
    """
    mean = float(weights @ rewards / weights.sum()) if weights.sum() > 0 else 0.0
    if not is_classifier(estimator):
        if np.ptp(rewards) == 0:
            return mean
        return _fit(estimator, X, rewards, weights, name=name)
    positive, negative = weights * rewards, weights * np.maximum(1 - rewards, 0)
    yes, no = np.flatnonzero(positive > 0), np.flatnonzero(negative > 0)
    if len(yes) == 0 or len(no) == 0:
        return mean
    rows = np.r_[yes, no]
    targets = np.r_[np.ones(len(yes), dtype=np.int64), np.zeros(len(no), dtype=np.int64)]
    return _fit(estimator, X[rows], targets, np.r_[positive[yes], negative[no]], name=name)


def fit_actions(
    estimator: Any,
    tasks: Iterable[tuple[int, Any, NDArray[np.float64], NDArray[np.float64]]],
    *,
    constants: NDArray[np.float64],
) -> LinearScorer | ActionModels:
    """One model for each task (action, X, rewards, weights); linear ones are put together into one matrix."""
    models: list[Any] = [None] * len(constants)
    constants = constants.copy()
    for action, X, rewards, weights in tasks:
        model = fit_model(estimator, X, rewards, weights, name=f"action {action}")
        if isinstance(model, float):
            constants[action] = model
        else:
            models[action] = model
    return _linear(models, constants) or ActionModels(models, constants)


def _linear(models: Sequence[Any], constants: NDArray[np.float64]) -> LinearScorer | None:
    fitted = [model for model in models if model is not None]
    if not fitted or not all(_is_linear(model) for model in fitted):
        return None
    coefficients, intercepts = np.zeros((len(fitted[0].coef_), len(models))), constants.copy()
    for action, model in enumerate(models):
        if model is not None:
            coefficients[:, action], intercepts[action] = model.coef_, float(np.ravel(model.intercept_)[0])
    return LinearScorer(coefficients, intercepts)


def _is_linear(model: Any) -> bool:
    """Whether predictions are x·coef_ + intercept_: asked, since a generalised linear model has both names too."""
    coefficients = np.asarray(getattr(model, "coef_", 0.0))
    if hasattr(model, "classes_") or coefficients.ndim != 1 or not hasattr(model, "intercept_"):
        return False
    probe = np.stack([np.zeros(len(coefficients)), np.linspace(-1, 1, len(coefficients))])
    return bool(np.allclose(model.predict(probe), probe @ coefficients + np.ravel(model.intercept_)[0]))


def _fit(estimator: Any, X: Any, targets: NDArray[Any], weights: NDArray[np.float64], *, name: str) -> Any:
    model = clone(estimator)
    try:
        if has_fit_parameter(model, "sample_weight"):
            return model.fit(X, targets, sample_weight=weights)
        return model.fit(X, targets)
    except ValueError as error:
        raise InputError(f"{type(estimator).__name__} could not be fitted for {name}: {error}") from error


def _row_kronecker(left: sp.csr_array, right: sp.csr_array) -> sp.csr_array:
    """Row by row x ⊗ a, without leaving the sparse format."""
    counts_left, counts_right = np.diff(left.indptr), np.diff(right.indptr)
    per_row = counts_left * counts_right
    indptr = np.r_[0, np.cumsum(per_row)]
    row = np.repeat(np.arange(left.shape[0]), per_row)
    offset = np.arange(indptr[-1]) - indptr[row]
    width = np.maximum(counts_right[row], 1)
    i, j = left.indptr[row] + offset // width, right.indptr[row] + offset % width
    columns = left.indices[i].astype(np.int64) * right.shape[1] + right.indices[j]
    return sp.csr_array(
        (left.data[i] * right.data[j], columns, indptr), shape=(left.shape[0], left.shape[1] * right.shape[1])
    )
