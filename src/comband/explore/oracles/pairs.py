"""What bandit feedback says to a supervised learner: (context, action) pairs with a reward and a weight."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.page.problem import InputError, refuse_masked


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """E distinct pairs: context `rows[e]` of `contexts` was shown action `actions[e]`.

    `rewards` are the mean answers of a pair, `weights` what it counts for.
    """

    contexts: Any
    rows: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    weights: NDArray[np.float64]
    n_actions: int

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_contexts(self) -> int:
        """How many distinct contexts there are."""
        return int(self.contexts.shape[0])

    @property
    def mean_reward(self) -> float:
        """The weighted mean reward of a pair: the prior of an action about which nothing is known."""
        total = float(self.weights.sum())
        return float(self.weights @ self.rewards) / total if total > 0 else 0.0


def shown_pairs(
    X: Any,
    lists: NDArray[np.integer[Any]],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    *,
    n_actions: int,
    importance: float = 0.0,
    clip: float | None = None,
    self_normalize: bool = False,
    repeat_correlation: float = 1.0,
    round_weights: NDArray[np.float64] | None = None,
) -> Pairs:
    """The pairs of n rounds.

    A shown pair (x, y) of propensity q weighs (1/q)^`importance`: 0 is the direct method (regression on what was shown:
    unbiased when the model can represent E[r(y) | x], and of low variance), 1 is importance weighting (unbiased for the
    best fit under the contexts' own distribution whatever the model, and of high variance), and values between trade
    one for the other. Weights are scaled to a mean of 1, so that a penalty means the same for all settings; `clip`
    then bounds them, and `self_normalize` gives every action a mean weight of 1 (weights of the Hájek kind).

    A pair that came k times counts once with its mean reward and its mean weight times k/(1 + (k−1)ρ), ρ =
    `repeat_correlation`: the design effect of k answers of correlation ρ. Facts have ρ = 1 (a second answer says
    nothing new), independent clicks ρ = 0.
    """
    n, m = lists.shape
    contexts, where = distinct_contexts(X)
    keys = where[np.repeat(np.arange(n), m)] * np.int64(n_actions) + lists.ravel().astype(np.int64)
    raw = propensities.ravel() ** -importance
    if round_weights is not None:
        per_pair = np.repeat(round_weights, m)
        raw = raw * per_pair
        keep = per_pair > 0
        keys, raw, answers = keys[keep], raw[keep], rewards.ravel()[keep]
    else:
        answers = rewards.ravel()
    distinct, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    totals = np.bincount(group, raw)
    means = np.bincount(group, raw * answers) / totals
    weights = totals / (1 + (counts - 1) * repeat_correlation)
    if len(weights):
        weights = weights / weights.mean()
    if clip is not None:
        weights = np.minimum(weights, clip)
    rows, actions = np.divmod(distinct, n_actions)
    if self_normalize and len(weights):
        per_action = np.bincount(actions, weights, n_actions) / np.maximum(np.bincount(actions, minlength=n_actions), 1)
        weights = weights / per_action[actions]
    return Pairs(contexts, rows, actions, means, weights, n_actions)


def context_keys(X: Any) -> Iterator[bytes]:
    """16 bytes for each row of a dense or CSR matrix: equal rows share them, and no others, but for collisions."""
    if sp.issparse(X):
        matrix = sp.csr_array(X, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        columns = matrix.indices.astype(np.int64)
        for start, stop in itertools.pairwise(matrix.indptr):
            yield _digest(columns[start:stop].tobytes() + matrix.data[start:stop].tobytes())
    else:
        for row in np.ascontiguousarray(X, dtype=np.float64) + 0.0:  # −0 becomes 0
            yield _digest(row.tobytes())


def distinct_contexts(X: Any) -> tuple[Any, NDArray[np.int64]]:
    """The distinct rows of a dense or CSR matrix, and which of them each row is."""
    seen: dict[bytes, int] = {}
    where = np.array([seen.setdefault(key, len(seen)) for key in context_keys(X)], dtype=np.int64)
    if len(seen) == X.shape[0]:
        return X, where
    first = np.unique(where, return_index=True)[1]
    return X[first], where


def check_matrix(X: Any, *, features: int | None = None) -> Any:
    """Contexts as a matrix (n, d) of finite numbers, dense or CSR, as supervised learners need them."""
    if sp.issparse(X):
        matrix: Any = sp.csr_array(X)
        values = matrix.data
    else:
        refuse_masked("contexts", X)
        try:
            matrix = np.asarray(X)
        except (TypeError, ValueError, OverflowError):
            raise InputError("contexts for a supervised learner must be a numeric matrix (n, features).") from None
        values = matrix
    if matrix.ndim != 2 or values.dtype.kind not in "fiub":
        raise InputError(
            "contexts for a supervised learner must be a numeric matrix (n, features), dense or scipy sparse, "
            f"got shape {matrix.shape} and dtype {values.dtype}."
        )
    check_entries(matrix)
    if features is not None and matrix.shape[1] != features:
        raise InputError(f"contexts must have {features} features as in training, got {matrix.shape[1]}.")
    return matrix


def check_entries(matrix: Any) -> None:
    """Refuse sparse contexts whose indices lead elsewhere, and contexts whose squares are no numbers."""
    values = matrix
    if sp.issparse(matrix):
        values = matrix.data
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"sparse contexts do not hold together: {error}.") from None
    if not np.isfinite(values).all():
        raise InputError("contexts must be finite, got NaN or infinity; impute them first.")
    if values.size and values.dtype.kind in "fiu" and max(float(values.max()), -float(values.min())) > 1e150:
        raise InputError("contexts must lie within ±1e150, where squares are numbers; scale them.")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
