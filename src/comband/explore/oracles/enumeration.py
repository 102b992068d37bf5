"""Exact ERM by looking at every policy of a finite class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import as_generator, check_reward_matrix
from comband.policies.base import Policy
from comband.policies.policy_set import PolicySet

# Totals closer than this share of the best are the same number up to rounding.
_TIE = 1e-12


class EnumerationOracle:
    """argmax over a `PolicySet`, exactly; equal totals are decided at random, not by position.

    Parameters
    ----------
    policies:
        The class.
    seed:
        For ties.

    >>> import comband as cb
    >>> from scipy.sparse import csr_array
    >>> problem = cb.Problem(n_actions=4, list_size=2)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 2]]], problem, names=["old", "new"])
    >>> oracle = cb.EnumerationOracle(policies)
    >>> estimates = csr_array([[0.0, 0.3, 0.9, 0.0]])  # one context, four items
    >>> oracle.values([0], estimates).tolist()
    [0.3, 1.2]
    >>> oracle.fit([0], estimates).predict([0]).tolist()
    [[1, 2]]
    """

    exact = True

    def __init__(
        self,
        policies: PolicySet,
        *,
        seed: int | np.random.SeedSequence | np.random.Generator = 0,
    ) -> None:
        self.policies = policies
        self._rng = as_generator(seed)

    def values(self, X: Contexts, rewards: Any) -> NDArray[np.float64]:
        """Σ_i Σ_{y∈π(x_i)} r̂_i(y) of every policy, (P,); only contexts with a positive estimate are evaluated."""
        matrix = check_reward_matrix(rewards, n=n_contexts(X)).tocoo()
        totals = np.zeros(len(self.policies))
        for events, inside in self.policies.incidence(X, matrix.row, matrix.col):
            totals += matrix.data[events] @ inside
        return totals

    def best(self, X: Contexts, rewards: Any) -> int:
        """The index of a maximiser."""
        totals = self.values(X, rewards)
        top = totals.max()
        return int(self._rng.choice(np.flatnonzero(totals >= top - _TIE * abs(top))))

    def fit(self, X: Contexts, rewards: Any) -> Policy:
        """A maximiser."""
        return self.policies[self.best(X, rewards)]
