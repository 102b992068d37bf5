"""What an environment promises: rounds drawn from one law, rewards within the problem, and true values."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from comband.page.contexts import context_digests, n_contexts
from comband.page.problem import Problem
from comband.policies.policy_set import PolicySet
from comband.worlds.base import Environment
from comband.worlds.testing.base import Suite, expect

_FALSE_ALARM = 1e-9


class EnvironmentSuite(Suite):
    """For an environment: say `environment()` and `policies()`, candidates that it can tell the values of.

    >>> import comband as cb
    >>> from comband.worlds.testing import EnvironmentSuite, check
    >>> class OfMine(EnvironmentSuite):
    ...     def environment(self):
    ...         return cb.SyntheticRecommender(cb.Problem(12, 3, 1), click_rate=0.4, seed=1)
    ...     def policies(self):
    ...         return self.environment().candidates(3, seed=2)
    ...
    >>> check(OfMine)
    """

    rounds = 20_000
    """How many rounds the values are compared with; a right environment fails with probability 1e-9 at most."""

    def environment(self) -> Environment:
        """Yours."""
        raise NotImplementedError("say how to make your environment: def environment(self).")

    def policies(self) -> PolicySet:
        """Some candidates for it."""
        raise NotImplementedError("say which candidates to try: def policies(self).")

    def test_has_a_problem(self) -> None:
        """K, m and s."""
        problem = self.environment().problem
        expect(isinstance(problem, Problem), f"problem must be a Problem, got {type(problem).__name__}.")

    def test_batches_are_as_large_as_asked(self) -> None:
        """n contexts and n rows of rewards, also for n = 0 and 1."""
        world = self.environment()
        for n in (0, 1, 7):
            batch = world.sample(n, np.random.default_rng(0))
            expect(len(batch) == n, f"{n} rounds were asked for, {len(batch)} came.")
            wanted, shape = (n, world.problem.n_actions), batch.rewards.shape
            expect(shape == wanted, f"rewards must have the shape (n, K) = {wanted}, got {shape}.")

    def test_rewards_are_within_the_problem(self) -> None:
        """Each in [0, 1], at most s in a round."""
        world = self.environment()
        rewards = sp.csr_array(world.sample(2000, np.random.default_rng(1)).rewards)
        some = rewards.data if rewards.nnz else np.zeros(1)
        expect(some.min() >= 0 and some.max() <= 1, f"rewards lie in [0, 1], got {some.min()} … {some.max()}.")
        sparsity = world.problem.sparsity
        most = float(rewards.sum(axis=1).max())
        expect(
            sparsity is None or most <= sparsity * (1 + 1e-9),
            f"a round brings at most s = {sparsity}, one brings {most:.6g}.",
        )

    def test_keeps_no_state(self) -> None:
        """The same generator gives the same rounds, whatever was asked before."""
        world = self.environment()
        first = world.sample(50, np.random.default_rng(2))
        world.sample(13, np.random.default_rng(3))
        second = world.sample(50, np.random.default_rng(2))
        alike = np.array_equal(context_digests(first.contexts), context_digests(second.contexts))
        expect(
            alike and (sp.csr_array(first.rewards) != sp.csr_array(second.rewards)).nnz == 0,
            "from the same generator it draws other rounds than before: it keeps a state, or has an own generator.",
        )

    def test_answers_for_what_is_shown(self) -> None:
        """`answer(lists)` gives the hidden rewards of the shown items, and of no others."""
        world = self.environment()
        batch = world.sample(200, np.random.default_rng(4))
        rng, problem = np.random.default_rng(5), world.problem
        lists = rng.random((200, problem.n_actions)).argsort(axis=1)[:, : problem.list_size]
        hidden = np.take_along_axis(sp.csr_array(batch.rewards).toarray(), lists, axis=1)
        expect(np.array_equal(batch.answer(lists), hidden), "it answers other rewards than those of the shown items.")

    def test_values_are_true(self) -> None:
        """`values` agree with what the candidates collect in many rounds, within Hoeffding's bound."""
        world, policies = self.environment(), self.policies()
        batch = world.sample(self.rounds, np.random.default_rng(6))
        expect(n_contexts(batch.contexts) == self.rounds, "batches must be as large as asked.")
        collected = np.array([batch.answer(policy.predict(batch.contexts)).sum(axis=1).mean() for policy in policies])
        values = np.asarray(world.values(policies))
        expect(values.shape == (len(policies),), f"values must be (P,) = ({len(policies)},), got {values.shape}.")
        radius = world.problem.max_reward * math.sqrt(math.log(2 * len(policies) / _FALSE_ALARM) / (2 * self.rounds))
        worst = int(np.abs(collected - values).argmax())
        expect(
            abs(collected[worst] - values[worst]) <= radius,
            f"the value of candidate {worst} should be {values[worst]:.5g}; in {self.rounds:,} rounds it collected "
            f"{collected[worst]:.5g} per round, which is off by more than {radius:.2g}.",
        )
