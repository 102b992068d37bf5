"""The top m of any scorer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from comband._kernels.inputs import as_input
from comband._kernels.lists import linear_top_lists, top_lists
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, Problem, as_generator, check_problem
from comband.page.threads import cut, for_each, n_threads

# Scores are made and consumed in blocks of about this many numbers, so that no (n, K) array ever exists.
BLOCK = 1 << 19
# Up to so many features a dense linear score is summed in the same loop as the best are chosen.
FEW_FEATURES = 64
# Multiplications that are worth a thread.
_PIECE = 1 << 21


class ScoredPolicy:
    """Show the `list_size` actions with the highest scores, best first.

    Parameters
    ----------
    scorer:
        One of: a weight matrix (d, K), for scores X @ weights; a callable X -> (n, K); a fitted scikit-learn
        estimator with `predict_proba`, `decision_function` or `predict` (the first of these it has). A classifier
        whose `classes_` are actions may know only some of the K: the others come last.
    problem:
        K and m.
    seed:
        Equal scores are ordered by one random permutation of the actions, drawn from this seed, so that no action
        wins by its number. The policy stays a fixed function of the context.
    dtype:
        Of a weight matrix and its scores: np.float64, or np.float32 for half the memory and up to twice the speed.
        Scores are then rounded to some seven digits; the policy, a fixed function too, is in general another one.

    >>> import numpy as np
    >>> policy = ScoredPolicy(np.eye(3), Problem(n_actions=3, list_size=2))
    >>> policy.predict(np.array([[.1, .7, .2], [.5, .1, .4]])).tolist()
    [[1, 2], [0, 2]]
    """

    def __init__(
        self,
        scorer: Any,
        problem: Problem,
        *,
        seed: int | np.random.SeedSequence | np.random.Generator = 0,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.problem = check_problem(problem, places=True)
        self.weights = _as_weights(scorer, problem.n_actions, check_precision(dtype))
        self.scorer = scorer
        self.rank = as_generator(seed).permutation(problem.n_actions).astype(np.int32)  # who goes first among equals
        self._score = _score_function(scorer, problem.n_actions) if self.weights is None else None

    def scores(self, X: Contexts) -> NDArray[np.float64]:
        """Scores (n, K). Large for large K: `predict` works in blocks instead."""
        score = self._linear if self._score is None else self._score
        result = score(X)
        if sp.issparse(result):
            result = result.toarray()
        result = np.asarray(result, dtype=np.float64)
        expected = (n_contexts(X), self.problem.n_actions)
        if result.shape != expected:
            raise InputError(f"the scorer must return shape (contexts, n_actions) = {expected}, got {result.shape}.")
        return result

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        w, m = self.weights, self.problem.list_size
        if w is not None and isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == len(w) <= FEW_FEATURES:
            stack = np.ascontiguousarray(w)[:, None, :]
            lists = linear_lists(check_features(X, len(w)), stack, _FIRST, self.rank[None, :], m)[:, 0]
        else:
            lists = self._in_blocks(X)
        if (lists[:, 0] < 0).any():
            raise InputError("the scorer returned NaN; use -inf for actions that should come last.")
        return lists

    def _in_blocks(self, X: Contexts) -> NDArray[np.int32]:
        n, K, m = n_contexts(X), self.problem.n_actions, self.problem.list_size
        lists = np.empty((n, m), dtype=np.int32)
        step = max(1, BLOCK // K)
        for start in range(0, n, step):
            scores = self.scores(take_contexts(X, slice(start, start + step)))
            lists[start : start + step] = top_lists(scores[:, None, :], self.rank[None, :], m)[:, 0]
        return lists

    def _linear(self, X: Contexts) -> Any:
        rows = check_features(X, len(self.weights))  # type: ignore[arg-type]
        return in_precision(rows, self.weights.dtype) @ self.weights  # type: ignore[union-attr]


def linear_lists(
    rows: NDArray[np.float64],
    weights: NDArray[np.floating[Any]],
    which: NDArray[np.int64],
    rank: NDArray[np.int32],
    m: int,
) -> NDArray[np.int32]:
    """Lists (n, len(which), m) by the scores rows @ weights[:, p] of the policies at `which`, over threads."""
    n, (d, _, K) = len(rows), weights.shape
    rows = as_input(np.ascontiguousarray(in_precision(rows, weights.dtype)))
    lists = np.empty((n, len(which), m), dtype=np.int32)

    def some_policies(part: tuple[int, int]) -> None:
        linear_top_lists(rows, weights, which, rank, lists, *part)

    def some_contexts(part: tuple[int, int]) -> None:
        here = slice(*part)
        linear_top_lists(rows[here], weights, which, rank, lists[here], 0, len(which))

    if len(which) >= n_threads():  # weights are then read once in all
        for_each(some_policies, cut(len(which), 1 + _PIECE // max(n * d * K, 1)))
    else:
        for_each(some_contexts, cut(n, 1 + _PIECE // max(len(which) * d * K, 1)))
    return lists


def check_precision(dtype: DTypeLike) -> np.dtype[Any]:
    """Return `dtype` if it is single or double precision."""
    try:
        checked = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked not in (np.float32, np.float64):
        raise InputError(f"dtype must be np.float64 or np.float32, got {dtype!r}.")
    return checked


def in_precision(rows: Any, dtype: np.dtype[Any]) -> Any:
    """Features, dense or CSR, as numbers of this precision; none may become infinite by it."""
    if rows.dtype == dtype:
        return rows
    with np.errstate(over="ignore"):
        rounded = rows.astype(dtype)
    old, new = (rows.data, rounded.data) if sp.issparse(rows) else (rows, rounded)
    if (np.isinf(new) & ~np.isinf(old)).any():
        raise InputError("a context holds a number too large for single precision; scale it, or use dtype=np.float64.")
    return rounded


_FIRST: NDArray[np.int64] = np.zeros(1, dtype=np.int64)


def check_features(X: Contexts, d: int) -> Any:
    """Contexts as a matrix (n, d) of numbers, in rows that can be multiplied: dense floats, or CSR."""
    try:
        rows = X.tocsr() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"contexts of linear policies must be numbers, shape (n, {d}), got {type(X).__name__}."
        ) from None
    if rows.ndim != 2 or rows.shape[1] != d:
        raise InputError(f"contexts of linear policies must have shape (n, {d}), got {rows.shape}.")
    return rows


def _as_weights(scorer: Any, n_actions: int, dtype: np.dtype[Any]) -> NDArray[np.floating[Any]] | None:
    """The scorer as a weight matrix, or None if it is something else."""
    if not isinstance(scorer, np.ndarray):
        return None
    if scorer.ndim != 2 or scorer.shape[1] != n_actions:
        raise InputError(
            f"a weight matrix must have shape (features, n_actions) = (d, {n_actions}), got {scorer.shape}."
        )
    if scorer.dtype.kind not in "biuf":
        raise InputError(f"a weight matrix must hold numbers, got dtype {scorer.dtype}.")
    if np.isnan(scorer).any():
        raise InputError("a weight matrix must not hold NaN.")
    with np.errstate(over="ignore"):
        weights = scorer.astype(dtype, copy=False)
    if weights.dtype != scorer.dtype and (np.isinf(weights) & ~np.isinf(scorer)).any():
        raise InputError("a weight is too large for single precision; scale the weights, or use dtype=np.float64.")
    return weights


def _score_function(scorer: Any, n_actions: int) -> Callable[[Contexts], Any]:
    for method in ("predict_proba", "decision_function", "predict"):
        if hasattr(scorer, method):
            return lambda X: _by_action(getattr(scorer, method)(X), scorer, n_actions)
    if callable(scorer):
        return scorer  # type: ignore[no-any-return]
    raise InputError(
        "a scorer must be a weight matrix, a callable or a fitted estimator with predict_proba, "
        f"decision_function or predict, got {type(scorer).__name__}."
    )


def _by_action(output: Any, estimator: Any, n_actions: int) -> Any:
    """An estimator's output as scores (n, K), its columns put where its classes say."""
    if isinstance(output, list):  # one classifier per action: the probability of its positive class
        columns = []
        for probability, classes in zip(output, estimator.classes_, strict=True):
            positive = np.flatnonzero(np.asarray(classes) == 1)
            known = probability[:, positive[0]] if len(positive) else np.zeros(len(probability))
            columns.append(known)
        return np.stack(columns, axis=1)
    classes = getattr(estimator, "classes_", None)
    scores = np.asarray(output)
    if scores.ndim == 1 and classes is not None and len(classes) == 2:
        scores = np.stack([-scores, scores], axis=1)
    if classes is None or isinstance(classes, list) or scores.ndim != 2 or len(classes) != scores.shape[1]:
        return scores
    actions = np.asarray(classes)
    if not np.issubdtype(actions.dtype, np.integer) or actions.min() < 0 or actions.max() >= n_actions:
        raise InputError(
            f"a classifier's classes must be actions 0 … {n_actions - 1}, got {actions[:5].tolist()}…; "
            "train it on action numbers or wrap it in a callable."
        )
    placed = np.full((len(scores), n_actions), -np.inf)
    placed[:, actions] = scores
    return placed
