"""Explore, then commit: uniform lists for a while, then the best policy for the rest. A baseline."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.learners.base import Seed
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_count
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, Maybe, State, Whole, require
from comband.policies.policy_set import PolicySet
from comband.statistics.results import NO_REGRET


def explore_rounds(problem: Problem, *, n_policies: int, horizon: int) -> int:
    """The n that minimises ρn + 2T √(2V log(P)/n), V = ρK the variance bound of a uniform round; at most T/2.

    ρn is what exploring can cost, and the root the error of the best estimate afterwards (Gaussian tails).
    """
    rho, K = problem.max_reward, problem.n_actions
    best: float = (horizon * math.sqrt(2 * rho * K * math.log(max(n_policies, 2))) / rho) ** (2 / 3)
    return max(1, min(math.ceil(best), horizon // 2))


class Greedy(WeightedPolicies):
    """All weight on the policy of highest estimated total, ties in an order drawn once; uniform before any reward."""

    PROMISES_NOTHING = NO_REGRET

    def __init__(
        self, problem: Problem, policies: PolicySet, *, floor: float, propensities: Propensities, seed: Seed
    ) -> None:
        super().__init__(problem, policies, floor=floor, propensities=propensities, seed=seed)
        self._p = np.full(len(policies), 1 / len(policies))
        self._ties = self._rng.random(len(policies))

    def _weights(self) -> NDArray[np.float64]:
        return self._p

    def _solve(self) -> None:
        self._p[:] = 0.0
        self._p[np.lexsort((self._ties, self._losses))[0]] = 1.0

    _SCHEMA: ClassVar = {**WeightedPolicies._SCHEMA, "ties": Array("f8", ("P",), 0, 1)}

    def _state(self) -> State:
        return {**super()._state(), "ties": self._ties}

    def _restore_weights(self, state: State) -> None:
        self._ties = state["ties"]
        if self._losses.any():
            self._solve()


class ExploreThenCommit(Greedy):
    """Uniform lists for the first `n_explore` rounds; then always the policy with the highest estimated total.

    Nothing is learnt after that, so an adversary who changes the world then makes the regret linear.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    horizon:
        T, how many rounds will be played.
    n_explore:
        By default the best split of T for i.i.d. rewards, `explore_rounds`.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.ExploreThenCommit(problem, policies, horizon=2000, n_explore=500, seed=3)
    >>> cb.run(learner, shop, batch_size=100).result.rounds
    2000
    """

    def __init__(
        self, problem: Problem, policies: PolicySet, *, horizon: int, n_explore: int | None = None, seed: Seed = 0
    ) -> None:
        super().__init__(problem, policies, floor=1.0, propensities="always", seed=seed)
        self.horizon = check_count("horizon", horizon)
        if n_explore is None:
            n_explore = explore_rounds(problem, n_policies=len(policies), horizon=self.horizon)
        self.n_explore = check_count("n_explore", n_explore)
        if self.n_explore > self.horizon:
            raise InputError(f"n_explore must not exceed horizon={self.horizon}, got {self.n_explore}.")
        self._committed_from = self.horizon  # the first decision that is not a uniform list

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.rounds >= self.horizon

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self.floor == 1.0 and first_id >= self.n_explore:
            self.floor = 0.0
            self._committed_from = first_id
        return super()._decide(X, first_id)

    def _rounds_learnt(self) -> int:
        return int(np.count_nonzero(self._ledger.answered_from(0)[: self._committed_from]))

    def _learn(self, rounds: Rounds) -> None:
        super()._learn(rounds[np.flatnonzero(rounds.decisions.ids < self._committed_from)])

    def _config(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "n_explore": self.n_explore}

    _SCHEMA: ClassVar = {**Greedy._SCHEMA, "committed_from": Maybe(Whole(0))}

    def _state(self) -> State:
        return {**super()._state(), "committed_from": self._committed_from if self.floor == 0 else None}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        if state["committed_from"] is not None:
            self.floor, self._committed_from = 0.0, state["committed_from"]
            require(
                self.n_explore <= self._committed_from <= self._ledger.issued,
                "it must have committed itself after its exploring rounds.",
            )
