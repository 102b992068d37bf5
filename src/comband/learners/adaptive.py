"""AdaptiveComband: the fewest rounds to a certified winner."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from comband.exploration.adaptive import DisagreementExploration
from comband.exploration.midzuno import MidzunoExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, has_totals


class AdaptiveComband(CertifyingLearner):
    """Certify an ε-best candidate with probability 1 − δ from as few rounds as possible.

    In each epoch it shows actions on which the candidates that are left disagree (`DisagreementExplorer`), with the
    more attention on a rival the closer its value is to the leader's and the more evidence it still lacks, and with a
    smallest propensity that rises as candidates are dropped. That one, which bounds the importance weights and so the
    stakes, is set from how much the candidates disagreed on recent contexts; rare contexts on which they disagree more
    are counted against every bet.

    While more than `max_evaluated` candidates are left they are not all asked on every context: uniform lists are
    mixed with the lists of the front runners.

    Where only totals are seen (`Problem.feedback`), one action of a list is drawn so, and the others uniformly
    (`MidzunoExplorer`); all candidates that are left are then asked on every context.

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, period, open_field,
    guards, seed:
        As for every certifying learner.
    prior_scores, prior_error:
        What is known of the candidates beforehand, as for every certifying learner.
    max_evaluated:
        Up to how many candidates are evaluated on every context.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=.4, seed=1)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(20, seed=2), epsilon=.1, seed=3)
    >>> result = cb.run(learner, world, batch_size=200).result
    >>> result.epsilon <= .1
    True
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        epsilon: float | None,
        delta: float = 0.05,
        prior_scores: ArrayLike | None = None,
        prior_error: float | None = None,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        period: int = 1,
        open_field: bool = False,
        max_evaluated: int = 1000,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        exploration = DisagreementExploration(max_evaluated)
        self.max_evaluated = exploration.max_evaluated
        super().__init__(
            problem,
            policies,
            exploration=MidzunoExploration() if has_totals(problem) else exploration,
            epsilon=epsilon,
            delta=delta,
            prior_scores=prior_scores,
            prior_error=prior_error,
            max_rounds=max_rounds,
            patience=patience,
            first_epoch=first_epoch,
            epoch_growth=epoch_growth,
            period=period,
            open_field=open_field,
            guards=guards,
            seed=seed,
        )
