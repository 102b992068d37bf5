"""ERM by ranking: LightGBM's LambdaMART on (context, action) pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from comband.explore.oracles.pairs import check_matrix
from comband.explore.oracles.scorers import PairScorer, pair_features
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, as_generator, check_count, check_reward_matrix
from comband.page.text import missing_extra
from comband.policies.scored import ScoredPolicy


class RankingOracle:
    """The class "top m of a boosted ensemble of trees", trained to put rewarded actions above the others.

    Every context with a positive estimate is one query: its positive actions against `negatives` random others,
    LambdaMART with the metric cut at m. A pair's weight is its estimate r̂. How far this is from ERM: LambdaMART climbs
    a smooth surrogate of NDCG@m greedily, one tree after another; there is no guarantee of a maximiser even on the
    training set, and the sampled negatives add variance. So `exact` is False. Needs the extra
    `ranking` (LightGBM).

    Parameters
    ----------
    problem:
        K and m.
    action_features:
        (K, f), dense or sparse. Without them the action's number is one categorical-like feature, on which trees must
        split K apart: give features when K is beyond a few dozen.
    negatives:
        Actions without reward drawn for each query.
    n_estimators, num_leaves, learning_rate:
        LightGBM's.
    threads:
        One by default, which makes runs repeatable and leaves the machine to its owner.
    seed:
        For the sample, for LightGBM and for ties.

    >>> import numpy as np
    >>> import comband as cb
    >>> from scipy.sparse import csr_array
    >>> problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> rewards = csr_array(np.eye(4)[[0, 0, 2, 2]])  # item 0 for small contexts, item 2 for large ones
    >>> from comband.explore.oracles import RankingOracle
    >>> oracle = RankingOracle(problem, n_estimators=5, negatives=3)
    >>> oracle.fit(np.tile(X, (20, 1)), csr_array(np.tile(rewards.toarray(), (20, 1)))).predict(X).shape
    (4, 1)
    """

    exact = False

    def __init__(
        self,
        problem: Problem,
        *,
        action_features: Any = None,
        negatives: int = 20,
        n_estimators: int = 100,
        num_leaves: int = 31,
        learning_rate: float = 0.1,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        self.problem = problem
        given = np.arange(problem.n_actions, dtype=np.float64)[:, None] if action_features is None else action_features
        self.action_features = check_matrix(given)
        if self.action_features.shape[0] != problem.n_actions:
            raise InputError(
                f"action_features must have one row per action, {problem.n_actions} of them, "
                f"got {self.action_features.shape[0]}."
            )
        self.negatives = check_count("negatives", negatives)
        self.n_estimators = check_count("n_estimators", n_estimators)
        self.num_leaves = check_count("num_leaves", num_leaves, least=2)
        self.learning_rate = learning_rate
        self.threads = check_count("threads", threads)
        self.seed = seed

    def fit(self, X: Contexts, rewards: Any) -> ScoredPolicy:
        """The policy that shows the m actions ranked highest."""
        matrix = check_matrix(X)
        estimates = check_reward_matrix(rewards, n=matrix.shape[0])
        K = self.problem.n_actions
        if estimates.shape[1] != K:
            raise InputError(f"rewards must have one column per action, {K}, got {estimates.shape[1]}.")
        if estimates.nnz == 0:
            return ScoredPolicy(_Indifferent(K), self.problem, seed=self.seed)
        rng = as_generator(self.seed)
        queries = np.flatnonzero(np.diff(estimates.indptr))
        entries = estimates[queries].tocoo()
        filled = entries.row.astype(np.int64) * K + entries.col
        sampled = np.repeat(np.arange(len(queries)), self.negatives) * np.int64(K)
        sampled = np.setdiff1d(sampled + rng.integers(K, size=len(sampled)), filled)
        keys = np.r_[filled, sampled]
        order = np.argsort(keys)
        relevant = np.r_[np.ones(len(filled), dtype=np.int64), np.zeros(len(sampled), dtype=np.int64)][order]
        weights = np.r_[entries.data, np.ones(len(sampled))][order]
        rows, actions = np.divmod(keys[order], K)
        features = pair_features(matrix[queries], self.action_features, rows, actions, interactions=False)
        model = _ranker()(
            objective="lambdarank",
            n_estimators=self.n_estimators,
            num_leaves=self.num_leaves,
            learning_rate=self.learning_rate,
            n_jobs=self.threads,
            random_state=self.seed,
            deterministic=True,
            force_row_wise=True,
            lambdarank_truncation_level=self.problem.list_size + 3,
            min_child_samples=5,
            verbose=-1,
        )
        model.fit(_floats(features), relevant, group=np.bincount(rows), sample_weight=weights)
        return ScoredPolicy(PairScorer(_Plain(model), self.action_features, False), self.problem, seed=self.seed)


class _Plain:
    """Predictions of a LightGBM model without its feature-name bookkeeping."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict(self, X: Any) -> Any:
        return self._model.booster_.predict(_floats(X))


class _Indifferent:
    """All actions alike: lists go by the policy's own random order."""

    def __init__(self, n_actions: int) -> None:
        self._n_actions = n_actions

    def __call__(self, X: Any) -> Any:
        return np.zeros((X.shape[0], self._n_actions))


def _floats(features: Any) -> Any:
    """LightGBM takes scipy's older matrix class only."""
    return sp.csr_matrix(features, dtype=np.float64) if sp.issparse(features) else features


def _ranker() -> Any:
    try:
        from lightgbm import LGBMRanker
    except ImportError:
        raise ImportError(missing_extra("RankingOracle", "lightgbm", "ranking")) from None
    return LGBMRanker
