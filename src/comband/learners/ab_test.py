"""Baseline: a classical A/B/n test, each candidate judged by its own rounds."""

from __future__ import annotations

from collections.abc import Sequence

from comband.exploration.arms import ArmsExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import Problem


class ABTest(CertifyingLearner):
    """Show one candidate's list at a time, drawn uniformly, and credit that candidate alone.

    What is credited is the reward of the whole list, so that totals (`Problem.feedback`) are all it needs. Evidence and
    stopping rule are those of `AdaptiveComband`, with D = S·(reward of π's rounds − reward of ℓ's rounds).

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, period, open_field,
    guards, seed:
        As for every certifying learner.
    eliminate:
        Whether dropped candidates are no longer shown.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        epsilon: float | None,
        delta: float = 0.05,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        period: int = 1,
        open_field: bool = False,
        eliminate: bool = False,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        exploration = ArmsExploration(eliminate)
        self.eliminate = exploration.eliminate
        super().__init__(
            problem,
            policies,
            exploration=exploration,
            epsilon=epsilon,
            delta=delta,
            max_rounds=max_rounds,
            patience=patience,
            first_epoch=first_epoch,
            epoch_growth=epoch_growth,
            period=period,
            open_field=open_field,
            guards=guards,
            seed=seed,
        )
