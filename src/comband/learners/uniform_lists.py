"""Baseline: uniform lists until certified."""

from __future__ import annotations

from collections.abc import Sequence

from comband.exploration.midzuno import UniformTotalsExploration
from comband.exploration.mixture import UniformListsExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, has_totals


class UniformLists(CertifyingLearner):
    """Show uniform lists, with the evidence and the stopping rule of `AdaptiveComband`.

    Importance weights are K/m, whoever the candidates are and however few of them are left.

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, period, open_field,
    guards, seed:
        As for every certifying learner.
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
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            problem,
            policies,
            exploration=UniformTotalsExploration() if has_totals(problem) else UniformListsExploration(),
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
