"""Baseline: a classical A/B/n test, each candidate judged by its own rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Epoch, Standing
from comband.learners.exploration import Plan
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, check_flag
from comband.rounds import Events


class ABTest(CertifyingLearner):
    """Show one candidate's list at a time, drawn uniformly, and credit that candidate alone.

    Evidence and stopping rule are those of `AdaptiveComband`, with D = S·(reward of π's rounds − reward of ℓ's rounds).

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, seed:
        As for every certifying learner.
    eliminate:
        Whether dropped candidates are no longer shown.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        epsilon: float,
        delta: float = 0.05,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        eliminate: bool = False,
        seed: Seed = 0,
    ) -> None:
        self.eliminate = check_flag("eliminate", eliminate)
        super().__init__(
            problem,
            policies,
            epsilon=epsilon,
            delta=delta,
            max_rounds=max_rounds,
            patience=patience,
            first_epoch=first_epoch,
            epoch_growth=epoch_growth,
            seed=seed,
        )

    def _plan(self, standing: Standing) -> Plan:
        shown = standing.candidates if self.eliminate else np.arange(len(self.policies))
        return Plan("arms", np.full(len(shown), 1 / len(shown)), 1 / len(shown))

    def _inside(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.bool_]:
        return np.asarray(events.arms[events.rows[chosen], None] == epoch.candidates)

    def _propensities(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.float64]:
        return np.full(len(chosen), epoch.plan.floor)

    def _config(self) -> dict[str, Any]:
        return {**super()._config(), "eliminate": self.eliminate}
