"""EXP4 for lists: exponential weights over policies, entropy only. The baseline of EXP4-COMB-SPARSE."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels import softmax_solve
from comband.learners.base import Seed
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, check_count, check_number, check_positive
from comband.rounds import Rounds


def exp4_step_sizes(problem: Problem, *, n_policies: int, horizon: int) -> tuple[float, float]:
    """(η, γ) for which the bound of `Exp4` is smallest: η = √(log P / (T (ρ²K/m + (e−2) s m))), γ = ηρK/m ≤ ½."""
    K, m, rho = problem.n_actions, problem.list_size, problem.max_reward
    s = K if problem.sparsity is None else problem.sparsity
    cost = rho * rho * K / m + (math.e - 2) * s * m
    eta = math.sqrt(math.log(max(n_policies, 2)) / (horizon * cost))
    gamma = min(eta * rho * K / m, 0.5)
    return gamma * m / (rho * K), gamma


class Exp4(WeightedPolicies):
    """Weights p ∝ exp(−ηL) over policies, mixed with a share γ of uniform lists.

    The uniform lists keep η ĉ ≥ −1, which exponential weights need for gains (Kale, Reyzin & Schapire). Expected regret
    ≤ γρT + log(P)/η + (e−2) η s m T, that is O(ρ √(KT log P / m)) for K large: it grows with K, but only with log P.

    Parameters
    ----------
    problem, policies, propensities, seed:
        As for `Exp4CombSparse`.
    horizon:
        T.
    step_size, floor:
        η and γ, if not those of `exp4_step_sizes`. Floor 0 is entropy-only follow-the-leader: no bound covers it,
        and one lucky draw of a rare policy can end its exploration for good.
    skip_unrewarded:
        False recomputes the weights after every round, as the textbook does; they come out the same.

    Reference: S. Kale, L. Reyzin, R. Schapire, Non-stochastic bandit slate problems, NIPS 2010.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        horizon: int,
        step_size: float | None = None,
        floor: float | None = None,
        skip_unrewarded: bool = True,
        propensities: Propensities = "always",
        seed: Seed = 0,
    ) -> None:
        self.horizon = check_count("horizon", horizon)
        eta, gamma = exp4_step_sizes(problem, n_policies=len(policies), horizon=self.horizon)
        self.step_size = eta if step_size is None else check_positive("step_size", step_size)
        share = gamma if floor is None else min(max(check_number("floor", floor), 0.0), 1.0)
        super().__init__(problem, policies, floor=share, propensities=propensities, seed=seed)
        self.skip_unrewarded = skip_unrewarded
        self._p = np.full(len(policies), 1 / len(policies))

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.rounds >= self.horizon

    def _learn(self, rounds: Rounds) -> None:
        super()._learn(rounds)
        self._stale |= not self.skip_unrewarded

    def _weights(self) -> NDArray[np.float64]:
        return self._p

    def _solve(self) -> None:
        softmax_solve(self._losses, self.step_size, self._p)

    def _config(self) -> dict[str, Any]:
        return {
            "horizon": self.horizon,
            "step_size": self.step_size,
            "floor": self.floor,
            "skip_unrewarded": self.skip_unrewarded,
            "propensities": self.propensities,
        }

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._p = np.array(arrays["weights"])
