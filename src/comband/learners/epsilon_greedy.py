"""ε-greedy over policies: the leader so far, and a share of uniform lists. A baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.learners.base import Seed
from comband.learners.explore_then_commit import explore_rounds
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import Problem, check_count, check_floor, check_problem


class EpsilonGreedy(WeightedPolicies):
    """With probability ε a uniform list, otherwise the list of the policy with the highest estimated total.

    Regret of order T^(2/3) where rewards are i.i.d., and no bound against an adversary: a leader that stops paying is
    left only as fast as the uniform lists can tell.

    Parameters
    ----------
    problem, policies, propensities, seed:
        As for `Exp4CombSparse`.
    horizon:
        T.
    epsilon:
        The share of uniform lists; by default that of the best explore-then-commit split of T.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        horizon: int,
        epsilon: float | None = None,
        propensities: Propensities = "always",
        seed: Seed = 0,
    ) -> None:
        self.horizon = check_count("horizon", horizon)
        if epsilon is None:
            epsilon = (
                explore_rounds(check_problem(problem), n_policies=len(check_policies(policies)), horizon=self.horizon)
                / self.horizon
            )
        super().__init__(problem, policies, floor=check_floor(epsilon), propensities=propensities, seed=seed)
        self._p = np.full(len(policies), 1 / len(policies))
        self._ties = self._rng.random(len(policies))

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.rounds >= self.horizon

    def _weights(self) -> NDArray[np.float64]:
        return self._p

    def _solve(self) -> None:
        self._p[:] = 0.0
        self._p[np.lexsort((self._ties, self._losses))[0]] = 1.0

    def _config(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "epsilon": self.floor, "propensities": self.propensities}

    def _state(self) -> dict[str, NDArray[Any]]:
        return {**super()._state(), "ties": self._ties}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._p = np.array(arrays["weights"])
        self._ties = np.array(arrays["ties"])
