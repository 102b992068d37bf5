"""ERM by regression: the top m of any scikit-learn estimator that is fitted to the reward estimates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from comband.explore.oracles.linear import MOST_FEATURES, ridge_of_matrix
from comband.explore.oracles.pairs import check_matrix
from comband.explore.oracles.scorers import LinearScorer, PairScorer, fit_actions, fit_model, pair_features
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, as_generator, check_count, check_reward_matrix
from comband.policies.scored import ScoredPolicy


class RegressionOracle:
    """The class "top m of a fitted scorer", reached through a scikit-learn regressor or classifier.

    The estimates r̂_i(y) are regressed on the contexts, and the policy shows the m actions of highest fitted reward. How
    far this is from ERM: if the estimator's class contains E[r̂(y) | x], the top m of a consistent fit maximise
    E Σ_{y∈π(x)} r̂(y) over *all* policies in the limit, hence ERM too; if not, squared or logistic loss is only a
    surrogate, and a policy of the class may collect more. So `exact` is False, and certificates computed from this
    oracle hold relative to what the estimator can find.

    Estimates of zero are not stored and never made dense: each action is fitted on its own positive rows and the others
    (`layout="per-action"`), all of them or a weighted sample (`background`). A plain `Ridge` is solved for all actions
    with one factorisation. With `layout="shared"` one estimator learns on pairs φ(x, y) of context and action features.

    Parameters
    ----------
    estimator:
        A regressor or classifier that was not fitted; it is cloned. Sample weights are used where it takes them.
    problem:
        K and m.
    layout:
        "per-action" or "shared".
    action_features:
        For the shared layout, (K, f), dense or sparse; one indicator per action by default.
    interactions:
        For the shared layout: whether φ(x, y) holds the products x ⊗ a_y. A linear model needs them (without, it
        would rank the actions alike for all contexts); trees do not.
    background:
        How many rows with estimate zero stand for all of them, for each action (per-action) or for each positive
        estimate (shared). None takes all, which the shared layout refuses above a few million pairs. Sampled rows
        are weighted up when the estimator takes sample weights.
    seed:
        For the sample and for ties.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> X, rewards = np.eye(3).repeat(4, axis=0), csr_array(np.eye(3).repeat(4, axis=0))
    >>> oracle = RegressionOracle(Ridge(alpha=.1), Problem(n_actions=3, list_size=1))
    >>> oracle.fit(X, rewards).predict(np.eye(3)).tolist()
    [[0], [1], [2]]
    """

    exact = False
    _MOST_PAIRS = 5_000_000

    def __init__(
        self,
        estimator: Any,
        problem: Problem,
        *,
        layout: Literal["per-action", "shared"] = "per-action",
        action_features: Any = None,
        interactions: bool = True,
        background: int | None = None,
        seed: int = 0,
    ) -> None:
        if not hasattr(estimator, "fit") or isinstance(estimator, type):
            raise InputError(f"estimator must be a scikit-learn regressor or classifier, got {estimator!r}.")
        if layout not in ("per-action", "shared"):
            raise InputError(f'layout must be "per-action" or "shared", got {layout!r}.')
        self.estimator = estimator
        self.problem = problem
        self.layout = layout
        self.interactions = interactions
        self.background = None if background is None else check_count("background", background)
        self.seed = seed
        if action_features is None:
            self.action_features: Any = sp.eye_array(problem.n_actions, format="csr")
        else:
            self.action_features = check_matrix(action_features)
            if self.action_features.shape[0] != problem.n_actions:
                raise InputError(
                    f"action_features must have one row per action, {problem.n_actions} of them, "
                    f"got {self.action_features.shape[0]}."
                )

    def fit(self, X: Contexts, rewards: Any) -> ScoredPolicy:
        """The policy that shows the m actions of highest fitted reward."""
        matrix = check_matrix(X)
        estimates = check_reward_matrix(rewards, n=matrix.shape[0])
        if estimates.shape[1] != self.problem.n_actions:
            raise InputError(
                f"rewards must have one column per action, {self.problem.n_actions}, got {estimates.shape[1]}."
            )
        if matrix.shape[0] == 0 or estimates.nnz == 0:
            return ScoredPolicy(_nothing(matrix.shape[1], self.problem.n_actions), self.problem, seed=self.seed)
        scorer = self._shared(matrix, estimates) if self.layout == "shared" else self._per_action(matrix, estimates)
        return ScoredPolicy(scorer, self.problem, seed=self.seed)

    def _per_action(self, X: Any, rewards: sp.csr_array) -> Any:
        estimator = self.estimator
        # A subclass may do anything; a positive or a per-target penalised Ridge is another problem.
        plain = type(estimator) is Ridge and not estimator.positive and np.ndim(estimator.alpha) == 0
        if plain and estimator.alpha > 0 and X.shape[1] <= MOST_FEATURES and self.background is None:
            return LinearScorer(
                *ridge_of_matrix(X, rewards, alpha=estimator.alpha, fit_intercept=estimator.fit_intercept)
            )
        return fit_actions(estimator, self._tasks(X, rewards), constants=np.zeros(self.problem.n_actions))

    def _tasks(
        self, X: Any, rewards: sp.csr_array
    ) -> Iterator[tuple[int, Any, NDArray[np.float64], NDArray[np.float64]]]:
        rng = as_generator(self.seed)
        columns, n = rewards.tocsc(), X.shape[0]
        for action in range(self.problem.n_actions):
            part = slice(columns.indptr[action], columns.indptr[action + 1])
            positive = columns.indices[part]
            if len(positive) == 0:
                continue  # nothing speaks for the action; its constant 0 is the exact fit
            if self.background is None or n - len(positive) <= self.background:
                targets = np.zeros(n)
                targets[positive] = columns.data[part]
                yield action, X, targets, np.ones(n)
                continue
            zeros = rng.choice(n, size=min(n, self.background + len(positive)), replace=False)
            zeros = zeros[~np.isin(zeros, positive)][: self.background]
            rows = np.r_[positive, zeros]
            targets = np.r_[columns.data[part], np.zeros(len(zeros))]
            weights = np.r_[np.ones(len(positive)), np.full(len(zeros), (n - len(positive)) / max(len(zeros), 1))]
            yield action, X[rows], targets, weights

    def _shared(self, X: Any, rewards: sp.csr_array) -> Any:
        n, K = rewards.shape
        entries = rewards.tocoo()
        filled = entries.row.astype(np.int64) * K + entries.col
        n_zeros = n * K - len(filled)
        wanted = n_zeros if self.background is None else min(n_zeros, self.background * len(filled))
        if len(filled) + wanted > self._MOST_PAIRS:
            raise InputError(
                f"the shared layout would fit {len(filled) + wanted:,} pairs of context and action; "
                "set background (say 20) to learn from a sample of the pairs without reward."
            )
        if self.background is None:
            zeros = np.setdiff1d(np.arange(n * K, dtype=np.int64), filled, assume_unique=True)
        else:
            zeros = np.setdiff1d(as_generator(self.seed).integers(n * K, size=wanted), filled)
        keys = np.r_[filled, zeros]
        rows, actions = np.divmod(keys, K)
        targets = np.r_[entries.data, np.zeros(len(zeros))]
        weights = np.r_[np.ones(len(filled)), np.full(len(zeros), n_zeros / max(len(zeros), 1))]
        features = pair_features(X, self.action_features, rows, actions, interactions=self.interactions)
        model = fit_model(self.estimator, features, targets, weights, name="the pairs")
        if isinstance(model, float):
            return _nothing(X.shape[1], K)
        return PairScorer(model, self.action_features, self.interactions)


def _nothing(n_features: int, n_actions: int) -> LinearScorer:
    """All actions alike: lists then go by the policy's own random order."""
    return LinearScorer(np.zeros((n_features, n_actions)), np.zeros(n_actions))
