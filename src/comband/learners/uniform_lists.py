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

    Importance weights are K/m, whatever the candidates are and however few of them are left.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
        With epsilon=None and max_rounds the smallest epsilon is sought that these rounds certify.
    max_rounds:
        A budget of decisions, answered or not; when they are made the best epsilon that is certified by then is
        reported.
    patience:
        How many later decisions a decision waits for its answer, before it counts as without reward; None: for ever.
    first_epoch, epoch_growth:
        The first epoch's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    period:
        The length of a rhythm (a day, a week), in rounds, over which values are averages; see `CertifyingLearner`.
    open_field:
        Whether candidates may come and go in ways that depend on the data; half of delta is set aside for that.
    guards:
        Guards of your own, beside those that watch anyway (`comband.learners.certifying.Guard`).
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.UniformLists(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
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
