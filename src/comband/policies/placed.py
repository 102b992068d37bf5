"""Candidates whose lists are pairs of item and place."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import inclusion
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem
from comband.policies.policy_set import PolicySet


def places_in(
    predicted: NDArray[np.int32], weights: NDArray[np.float64], items: NDArray[np.int32], n_actions: int
) -> NDArray[np.float64]:
    """How often items (n, k) stand in each place, (n, k, m), if each of the lists (n, S, m) is shown as it is with its
    weight (S,); an empty place, in lists of all m, is where it stands.

    >>> lists, items = np.array([[[3, 0], [0, 1]]], dtype=np.int32), np.array([[0, 1]], dtype=np.int32)
    >>> places_in(lists, np.array([0.25, 0.75]), items, 4).tolist()
    [[[0.75, 0.25], [0.0, 0.75]]]
    """
    (n, k), m = items.shape, predicted.shape[2]
    places = np.arange(m, dtype=np.int32)
    wanted = np.where(items[:, :, None] < 0, -1, items[:, :, None] * np.int32(m) + places)
    pairs = np.where(predicted < 0, -1, predicted * np.int32(m) + places)
    shares = inclusion(
        np.ascontiguousarray(pairs, dtype=np.int32),
        weights,
        np.ascontiguousarray(wanted.reshape(n, k * m), dtype=np.int32),
        n_actions * m,
    ).reshape(n, k, m)
    if k == m:
        shares[items < 0] = 0.0
        shares += (items < 0)[:, :, None] * np.eye(m)
    return shares


class PlacedPolicies(PolicySet):
    """The same candidates, each item y of a list standing for the pair (y, place k), numbered y·m + k.

    A candidate then "shows" an action only where it shows that item in that place: the paper's setting, with K·m
    actions.

    >>> PlacedPolicies(PolicySet.from_lists([[[3, 0]]], Problem(4, 2)), 2).predict([0]).tolist()
    [[[6, 1]]]
    """

    def __init__(self, policies: PolicySet, list_size: int) -> None:
        self.items = policies
        self.list_size = list_size
        self.cover = policies.cover
        self.names = policies.names
        self.catalogue = None  # pairs have no keys
        self._policies, self._blocks = policies._policies, policies._blocks
        self.fallback, self._complete = policies.fallback, policies._complete
        self._n_actions = None if policies._n_actions is None else policies._n_actions * list_size

    def subset(self, indices: ArrayLike) -> PolicySet:
        """The policies at `indices`, under their names."""
        return PlacedPolicies(self.items.subset(indices), self.list_size)

    def check(self, problem: Problem) -> None:
        """Refuse policies that were made for another number of pairs, or other lists."""
        self.items.check(Problem(problem.n_actions // self.list_size, problem.list_size))

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Lists of pairs (n, P, m); `problem` is that of pairs."""
        m = self.list_size
        inner = None if problem is None else Problem(problem.n_actions // m, problem.list_size)
        lists = self.items.predict(X, indices, problem=inner)
        if lists.shape[2] != m or (lists.size and int(lists.max()) >= 2**31 // m):
            raise InputError(
                f"candidates must show {m} items below {2**31 // m} as the lists do, got {lists.shape[2]}."
            )
        return np.asarray(lists * np.int32(m) + np.arange(m, dtype=np.int32))
