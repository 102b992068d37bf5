"""Candidates that show only what is available in each round."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.gaps import fill_gaps
from comband.page.contexts import Contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, check_problem
from comband.policies.base import Policy
from comband.policies.fallback import NOTHING
from comband.policies.policy_set import PolicySet, check_policies

_NEXT_TO_NOTHING = 1e-8  # a floor that a mixture must have


class AvailableItems(PolicySet):
    """The same candidates where items come and go: what is not available in a round leaves its place empty, and the
    fallback of the candidates, as far as it is available, is shown there.

    Contexts are arrays (n, d + K): the candidates' own, and in the last K columns 1 for each item that is available, 0
    for others. So a decision's record says what could be shown. For catalogues too large for that, let the candidates
    propose what is available (`RequestedLists`).

    Parameters
    ----------
    policies:
        The candidates, with a fallback.
    problem:
        The setting.

    >>> problem = Problem(n_actions=4, list_size=2)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[3, 2]]], problem, fallback="policy 1")
    >>> available = AvailableItems(policies, problem)
    >>> X = available.contexts([0, 0], [[1, 1, 1, 1], [0, 1, 1, 1]])
    >>> available.predict(X)[:, 0].tolist()
    [[0, 1], [3, 1]]
    """

    def __init__(self, policies: PolicySet, problem: Problem) -> None:
        self.items, self.problem = check_policies(policies, gaps=True), check_problem(problem)
        policies.check(problem)
        if policies.fallback is None:
            raise InputError("where items come and go there must be a fallback: PolicySet(…, fallback=…).")
        self.names, self.cover = policies.names, policies.cover
        self._policies, self._blocks, self._sizes = policies._policies, policies._blocks, policies._sizes
        self._n_actions, self._complete = policies._n_actions, False
        self.fallback = NOTHING  # of the fallback, too, something may be missing

    @property
    def looked_up(self) -> bool:
        """Lists are looked at again before they are shown."""
        return False

    def contexts(self, X: ArrayLike, available: ArrayLike) -> NDArray[Any]:
        """Contexts of the candidates (n,) or (n, d), with what is available (n, K), or (K,) for all."""
        own, K = np.asarray(X), self.problem.n_actions
        rows = own[:, None] if own.ndim == 1 else own
        mask = np.asarray(available)
        if rows.ndim != 2 or rows.dtype.kind not in "iuf":
            raise InputError(f"contexts must be an array of numbers (n,) or (n, d), got shape {own.shape}.")
        if mask.shape not in ((K,), (len(rows), K)) or not np.isin(mask, (0, 1)).all():
            raise InputError(f"available must be 0 or 1 for each item, shape ({len(rows)}, {K}), got {mask.shape}.")
        return np.concatenate([rows, np.broadcast_to(mask, (len(rows), K)).astype(rows.dtype)], axis=1)

    def subset(self, indices: ArrayLike) -> AvailableItems:
        """The policies at `indices`, under their names."""
        return AvailableItems(self.items.subset(indices), self.problem)

    def check(self, problem: Problem) -> None:
        """Refuse policies that were made for another K or m."""
        self.items.check(problem)

    def extended(self, policy: Policy | None, name: str) -> AvailableItems:
        """The same with one more at the end."""
        return AvailableItems(self.items.extended(policy, name), self.problem)

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Lists (n, P, m) of what is available, −1 in places that stay empty."""
        given, K = np.asarray(X), self.problem.n_actions
        if given.ndim != 2 or given.shape[1] <= K:
            raise InputError(f"contexts must have shape (n, d + {K}), as AvailableItems.contexts makes them.")
        own, mask = given[:, :-K], given[:, -K:] > 0
        own = own[:, 0] if own.dtype.kind in "iu" and own.shape[1] == 1 else own
        lists = self._left(self.items.predict(own, indices, problem=problem), mask)
        fallback, rows = self.items.fallback, np.flatnonzero((lists < 0).any(axis=(1, 2)))
        if fallback is None or isinstance(fallback, str) or len(rows) == 0:
            return lists
        spare = check_lists(fallback.predict(own[rows]), self.problem, n=len(rows))
        # What is available of the fallback's list comes first; what is not is taken away again.
        order = np.argsort(~np.take_along_axis(mask[rows], spare, axis=1), axis=1, kind="stable")
        fill_gaps(lists, rows, np.ascontiguousarray(np.take_along_axis(spare, order, axis=1)))
        return self._left(lists, mask)

    def _left(self, lists: NDArray[np.int32], mask: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Lists (n, P, m) without what is not available."""
        there = np.take_along_axis(mask[:, None], np.maximum(lists, 0), axis=2)
        return np.where(there & (lists >= 0), lists, np.int32(-1))


def check_shown(policies: PolicySet, floor: float) -> None:
    """Refuse a share of uniform lists where items come and go, but for one that is never shown."""
    if isinstance(policies, AvailableItems) and floor > _NEXT_TO_NOTHING:
        raise InputError(
            f"a share of uniform lists, {floor:g}, would show what is not available; use a learner without one: "
            "AdaptiveComband, with max_evaluated no less than there are candidates."
        )
