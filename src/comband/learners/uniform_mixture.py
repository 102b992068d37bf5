"""Baseline: the uniform mixture of all candidates until certified."""

from __future__ import annotations

from collections.abc import Sequence

from comband.exploration.mixture import UniformMixtureExploration
from comband.exploration.own_lists import OwnListExploration
from comband.exploration.whole_lists import WholeListExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, Problem, check_choice, has_totals


class UniformMixture(CertifyingLearner):
    """Show the list of a candidate drawn uniformly from all P, with the evidence and the stopping rule of
    `AdaptiveComband`.

    Every list counts for all candidates that share actions with it; importance weights are at most P. Dropped
    candidates go on being shown: this baseline does not adapt.

    Where only totals are seen (`Problem.feedback`), only candidates that are left are shown, and a list counts for
    those that show the very same set, weighted by its probability; or for all of them by how lists overlap, which is
    the pseudo-inverse. Users see nothing but candidates' own lists: of the ways to learn from totals these lose the
    fewest clicks per round.

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, period, open_field,
    guards, seed:
        As for every certifying learner.
    weighting:
        What a total counts for: "lists" or "pseudo-inverse". Only totals have a choice.
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
        weighting: str = "lists",
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        self.weighting = check_choice("weighting", weighting, ("lists", "pseudo-inverse"))
        of_totals = OwnListExploration() if weighting == "pseudo-inverse" else WholeListExploration()
        if weighting != "lists" and not has_totals(problem):
            raise InputError('single rewards need no pseudo-inverse: leave weighting out, or state feedback="total".')
        super().__init__(
            problem,
            policies,
            exploration=of_totals if has_totals(problem) else UniformMixtureExploration(),
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
