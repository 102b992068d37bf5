"""What a policy promises: lists of m distinct items, and the same list for the same context, always."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.contexts import Contexts, concat_contexts, context_digests, n_contexts, take_contexts
from comband.page.problem import Problem
from comband.policies.base import Policy
from comband.worlds.testing.base import Suite, expect

_N = 60


class PolicySuite(Suite):
    """For a policy: say `problem`, `policy()` and `contexts(n, rng)`.

    Propensities are computed by asking the policy again; so all that learners prove rests on these.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds.testing import PolicySuite, check
    >>> class OfMine(PolicySuite):
    ...     problem = cb.Problem(n_actions=5, list_size=2)
    ...     def policy(self):
    ...         return cb.ConstantPolicy([3, 1], self.problem)
    ...     def contexts(self, n, rng):
    ...         return rng.standard_normal((n, 4))
    ...
    >>> check(OfMine)
    """

    problem: Problem

    def policy(self) -> Policy:
        """Yours."""
        raise NotImplementedError("say how to make your policy: def policy(self).")

    def contexts(self, n: int, rng: np.random.Generator) -> Contexts:
        """n contexts that it can answer."""
        raise NotImplementedError("say how to draw contexts: def contexts(self, n, rng).")

    def test_is_a_policy(self) -> None:
        """It has predict(X)."""
        policy = self.policy()
        expect(isinstance(policy, Policy), f"a policy has predict(X) -> lists, {type(policy).__name__} has not.")

    def test_shows_m_distinct_items(self) -> None:
        """Lists are (n, m) whole numbers in 0 … K−1, no item twice in a list."""
        lists = self._lists(self._some())
        expect(
            lists.min() >= 0 and lists.max() < self.problem.n_actions,
            f"items must lie in 0 … {self.problem.n_actions - 1}, got {lists.min()} … {lists.max()}.",
        )
        ordered = np.sort(lists, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        expect(not len(again), f"an item stands twice in the list of context {again[:1]}: {lists[again[:1]].tolist()}.")

    def test_the_same_context_gets_the_same_list(self) -> None:
        """Asked twice, it answers the same: ties are broken by a fixed rule, not by fresh random numbers."""
        policy, X = self.policy(), self._some()
        _same(self._ask(policy, X), self._ask(policy, X), "asked again, it shows another list to the same context")

    def test_a_list_depends_on_its_own_context_only(self) -> None:
        """One by one, in another order or in another batch, a context gets the same list."""
        policy, X = self.policy(), self._some()
        whole = self._ask(policy, X)
        order = np.random.default_rng(1).permutation(_N)
        other = self._ask(policy, take_contexts(X, order))
        _same(whole[order], other, "in another order of the batch, a context gets another list")
        single = [self._ask(policy, take_contexts(X, np.array([i]))) for i in range(10)]
        _same(whole[:10], np.concatenate(single), "asked alone, a context gets another list")
        twice = self._ask(policy, concat_contexts([X, X]))
        _same(np.concatenate([whole, whole]), twice, "in a larger batch, a context gets another list")

    def test_contexts_are_left_as_they_were(self) -> None:
        """It may look at contexts, not alter them."""
        X = self._some()
        try:
            before = context_digests(copy.deepcopy(X))
        except Exception:  # contexts of an own kind cannot always be compared
            return
        self.policy().predict(X)
        expect(np.array_equal(before, context_digests(X)), "it alters the contexts that it is asked about.")

    def test_an_empty_batch_is_answered(self) -> None:
        """No contexts, no lists: (0, m)."""
        self._ask(self.policy(), take_contexts(self._some(), np.arange(0)))

    def _some(self) -> Contexts:
        return self.contexts(_N, np.random.default_rng(0))

    def _lists(self, X: Contexts) -> NDArray[Any]:
        return self._ask(self.policy(), X)

    def _ask(self, policy: Policy, X: Contexts) -> NDArray[Any]:
        lists, wanted = np.asarray(policy.predict(X)), (n_contexts(X), self.problem.list_size)
        expect(lists.shape == wanted, f"lists must have the shape (n, m) = {wanted}, got {lists.shape}.")
        expect(lists.dtype.kind in "iu" or lists.size == 0, f"lists must hold whole numbers, got {lists.dtype}.")
        return lists


def _same(one: NDArray[Any], other: NDArray[Any], wrong: str) -> None:
    rows = np.flatnonzero((one != other).any(axis=1))
    if len(rows):
        i = rows[0]
        lists = f"{one[i].tolist()}, then {other[i].tolist()}"
        raise AssertionError(f"{wrong}: {lists} ({len(rows)} of {len(one)} differ).")
