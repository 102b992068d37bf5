"""What an oracle promises: a policy for every matrix of reward estimates, and the best of its class if it is exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.explore.oracles.base import Oracle
from comband.page.contexts import Contexts
from comband.page.problem import Problem
from comband.policies.base import Policy
from comband.worlds.testing.base import Suite, expect, failures
from comband.worlds.testing.policies import PolicySuite

_N = 40
_CASES = 20


class OracleSuite(Suite):
    """For an oracle: say `problem`, `oracle()` and `contexts(n, rng)`, and `members()`, some policies of its class.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds.testing import OracleSuite, check
    >>> class OfMine(OracleSuite):
    ...     problem = cb.Problem(n_actions=4, list_size=2)
    ...     def members(self):
    ...         return [cb.ConstantPolicy(items, self.problem) for items in ([0, 1], [1, 2], [2, 3])]
    ...     def oracle(self):
    ...         return cb.EnumerationOracle(cb.PolicySet(self.members()))
    ...     def contexts(self, n, rng):
    ...         return rng.standard_normal((n, 2))
    ...
    >>> check(OfMine)
    """

    problem: Problem

    def oracle(self) -> Oracle:
        """Yours."""
        raise NotImplementedError("say how to make your oracle: def oracle(self).")

    def contexts(self, n: int, rng: np.random.Generator) -> Contexts:
        """n contexts that it can be fitted on."""
        raise NotImplementedError("say how to draw contexts: def contexts(self, n, rng).")

    def members(self) -> Sequence[Policy]:
        """Policies of the class: an exact oracle finds none of them better than what it returns."""
        return []

    def test_says_whether_it_is_exact(self) -> None:
        """Certificates differ by it."""
        exact = getattr(self.oracle(), "exact", None)
        expect(isinstance(exact, bool), f"exact must say whether fit returns a true maximiser, got {exact!r}.")

    def test_returns_a_policy(self) -> None:
        """What `fit` returns keeps all promises of a policy."""
        rng = np.random.default_rng(0)
        X, rewards = self._case(rng)
        found = self.oracle().fit(X, rewards)
        problem, contexts = self.problem, self.contexts

        class Found(PolicySuite):
            def policy(self) -> Policy:
                return found

            def contexts(self, n: int, rng: np.random.Generator) -> Contexts:
                return contexts(n, rng)

        Found.problem = problem
        broken = failures(Found)
        expect(not broken, f"what it returns breaks promises of a policy: {broken}")

    def test_the_estimates_are_left_as_they_were(self) -> None:
        """The same matrix may be used again."""
        X, rewards = self._case(np.random.default_rng(1))
        before = rewards.copy()
        self.oracle().fit(X, rewards)
        same = rewards.shape == before.shape and (rewards != before).nnz == 0
        expect(same, "it alters the matrix of estimates.")

    def test_estimates_of_zero_are_fine(self) -> None:
        """No reward anywhere: then any policy will do."""
        X = self.contexts(_N, np.random.default_rng(2))
        policy = self.oracle().fit(X, sp.csr_array((_N, self.problem.n_actions)))
        shape = np.asarray(policy.predict(X)).shape
        expect(shape == (_N, self.problem.list_size), f"fitted to zeros it shows lists of the shape {shape}.")

    def test_an_exact_one_finds_the_best(self) -> None:
        """Σ_i Σ_{y∈π(x_i)} r̂_i(y) of what it returns is not below that of any known member of the class."""
        oracle, members, rng = self.oracle(), self.members(), np.random.default_rng(3)
        if not oracle.exact:
            return
        expect(members, "an exact oracle is tried against policies of its class: def members(self).")
        for case in range(_CASES):
            X, rewards = self._case(rng, whole=case % 2 == 0)
            found = _collected(oracle.fit(X, rewards), X, rewards)
            best = max(_collected(policy, X, rewards) for policy in members)
            expect(
                found >= best - 1e-9 * max(best, 1.0),
                f"it says to be exact and returns a policy that collects {found:.6g}, but one of its class collects "
                f"{best:.6g}.",
            )

    def _case(self, rng: np.random.Generator, *, whole: bool = False) -> tuple[Contexts, sp.csr_array]:
        """Contexts, and estimates that are mostly zero, as those of rounds are."""
        X, shape = self.contexts(_N, rng), (_N, self.problem.n_actions)
        filled = rng.random(shape) < 0.2
        return X, sp.csr_array(filled * (1.0 if whole else rng.exponential(size=shape)))


def _collected(policy: Policy, X: Contexts, rewards: sp.csr_array) -> float:
    lists: NDArray[np.integer] = np.asarray(policy.predict(X))
    return float(np.take_along_axis(rewards.toarray(), lists.astype(np.int64), axis=1).sum())
