"""EXP4 for lists: exponential weights over policies, entropy only. The baseline of EXP4-COMB-SPARSE."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband import theory
from comband._kernels.ftrl import softmax_solve
from comband.learners.base import Seed
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.page.problem import Problem, check_count, check_problem
from comband.page.rounds import Rounds
from comband.page.storage import Array, State, require
from comband.policies.policy_set import PolicySet, check_policies


class Exp4(WeightedPolicies):
    """Weights p ∝ exp(−ηL) over policies, mixed with a share γ of uniform lists.

    The uniform lists keep η ĉ ≥ −1, which exponential weights need for gains (Kale, Reyzin & Schapire). Expected regret
    ≤ γρT + log(P)/η + (e−2) η s ρ T, that is O(ρ √(KT log P / m)) for K large: it grows with K, but only with log P.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    propensities:
        "always", or "when rewarded" to evaluate all policies only on contexts where a reward came.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    horizon:
        T, how many rounds will be played.
    step_size, floor:
        η and γ, if not those of `theory.exp4`. Floor 0 is entropy-only follow-the-leader: no bound covers it,
        and one lucky draw of a rare policy can end its exploration for good.
    skip_unrewarded:
        False recomputes the weights after every round, as the textbook does; they come out the same.

    Reference: S. Kale, L. Reyzin, R. Schapire, Non-stochastic bandit slate problems, NIPS 2010.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.Exp4(problem, policies, horizon=2000, seed=3)
    >>> cb.run(learner, shop, batch_size=100).result.rounds
    2000
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
        schedule = theory.exp4(
            check_problem(problem),
            n_policies=len(check_policies(policies)),
            horizon=self.horizon,
            step_size=step_size,
            floor=floor,
        )
        self.step_size = schedule.step_size
        super().__init__(problem, policies, floor=schedule.floor, propensities=propensities, seed=seed)
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

    _SCHEMA: ClassVar = {**WeightedPolicies._SCHEMA, "weights": Array("f8", ("P",), 0, 1)}

    def _state(self) -> State:
        return {**super()._state(), "weights": self._p}

    def _restore_weights(self, state: State) -> None:
        self._solve()
        require(np.allclose(self._p, state["weights"], rtol=1e-9, atol=1e-12), "weights must be those of the losses.")
        self._p = state["weights"]
