"""Candidates on rounds that have fewer places than their lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts
from comband.page.problem import Problem
from comband.policies.policy_set import PolicySet
from comband.policies.tabulated import check_context_ids


class ShortenedPolicies(PolicySet):
    """The same candidates, whose lists of m are cut where a round has only m − c places.

    Context number x + c·N stands for context x of the N there are with c places fewer. A place that is not there holds
    an item of its own, K + j in place j, which every list shows there: it has probability 1 and brings nothing, so all
    that is known of lists of m holds for shorter ones as it stands.

    >>> policies = PolicySet.from_lists([[[3, 0, 1]]], Problem(4, 3))
    >>> ShortenedPolicies(policies, n_contexts=1, n_actions=4).predict([0, 2]).tolist()
    [[[3, 0, 1]], [[3, 5, 6]]]
    """

    def __init__(self, policies: PolicySet, *, n_contexts: int, n_actions: int) -> None:
        self.whole, self._n_contexts, self._first_empty = policies, n_contexts, n_actions
        self.cover, self.names, self.catalogue = policies.cover, policies.names, None
        self._policies, self._blocks = policies._policies, policies._blocks
        self.fallback, self._complete = policies.fallback, policies._complete
        list_size = policies.predict(np.zeros(1, dtype=np.int64), [0]).shape[2]
        self._n_actions = n_actions + list_size

    def subset(self, indices: ArrayLike) -> PolicySet:
        """The policies at `indices`, under their names."""
        return ShortenedPolicies(self.whole.subset(indices), n_contexts=self._n_contexts, n_actions=self._first_empty)

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Lists (n, P, m), in which items from K on stand for places that are not there."""
        numbers = check_context_ids(X, np.iinfo(np.int64).max)
        lists = self.whole.predict(numbers % self._n_contexts, indices)
        m = lists.shape[2]
        places = np.arange(m)
        absent = places >= m - (numbers // self._n_contexts)[:, None]
        return np.where(absent[:, None, :], (self._first_empty + places).astype(np.int32), lists)


def empty_places(lists: NDArray[Any], n_actions: int) -> NDArray[Any]:
    """Lists in which −1 − j, a place j that is not there, is item K + j, as `ShortenedPolicies` has it."""
    return np.where(lists < 0, n_actions - 1 - lists, lists)
