"""Baseline: the uniform mixture of all candidates until certified."""

from __future__ import annotations

from collections.abc import Sequence

from comband.exploration.mixture import UniformMixtureExploration
from comband.exploration.whole_lists import WholeListExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, has_totals


class UniformMixture(CertifyingLearner):
    """Show the list of a candidate drawn uniformly from all P, with the evidence and the stopping rule of
    `AdaptiveComband`.

    Every list counts for all candidates that share actions with it; importance weights are at most P. Dropped
    candidates go on being shown: this baseline does not adapt. Where only totals are seen (`Problem.feedback`), a list
    counts for the candidates that show the very same set, weighted by its probability, and only those left are shown.

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
            exploration=WholeListExploration() if has_totals(problem) else UniformMixtureExploration(),
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
