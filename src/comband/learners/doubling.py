"""Baseline: the two phases of PAC-COMBAND on a doubling budget, until certified."""

from __future__ import annotations

from collections.abc import Sequence

from comband.exploration.doubling import DoublingExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import Problem


class TwoPhaseComband(CertifyingLearner):
    """Uniform lists, then the log-barrier mixture designed on them, in stages that double, with `AdaptiveComband`'s
    evidence.

    The paper fixes the budget beforehand; here it doubles until the evidence suffices. See `DoublingExploration`.

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, period, open_field,
    guards, seed:
        As for every certifying learner.
    """

    FROM_TOTALS = False

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
        period: int = 1,
        open_field: bool = False,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            problem,
            policies,
            exploration=DoublingExploration(),
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
