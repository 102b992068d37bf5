"""What an oracle is: reward estimates in, the best policy of a class out."""

from __future__ import annotations

from typing import Any, Protocol

from comband.page.contexts import Contexts
from comband.policies.base import Policy


class Oracle(Protocol):
    """Empirical risk minimisation over a class Π: argmax_π Σ_i Σ_{y∈π(x_i)} r̂_i(y).

    >>> import numpy as np
    >>> import comband as cb
    >>> class MostRewarded:  # the class of constant lists: the m items of largest total
    ...     exact = True
    ...     def __init__(self, problem):
    ...         self.problem = problem
    ...     def fit(self, X, rewards):
    ...         totals = np.asarray(rewards.sum(axis=0)).ravel()
    ...         return cb.ConstantPolicy(np.argsort(-totals)[: self.problem.list_size], self.problem)
    ...
    >>> from scipy.sparse import csr_array
    >>> policy = MostRewarded(cb.Problem(4, 2)).fit([0, 1], csr_array([[0, 1.0, 0, 0.5], [0, 0.2, 0, 0]]))
    >>> sorted(policy.predict([0])[0].tolist())
    [1, 3]
    """

    @property
    def exact(self) -> bool:
        """Whether `fit` returns a true maximiser, or only a good policy."""
        ...

    def fit(self, X: Contexts, rewards: Any, /) -> Policy:
        """The best policy for reward estimates r̂ ≥ 0, a scipy sparse matrix (n, K)."""
        ...
