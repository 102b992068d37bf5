"""AdaptiveComband: the fewest rounds to a certified winner."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from comband.exploration.adaptive import DisagreementExploration
from comband.exploration.base import check_objective
from comband.exploration.midzuno import MidzunoExploration
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Guard
from comband.learners.certifying.traffic import Traffic
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, Problem, check_problem, has_totals


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
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
        With epsilon=None and max_rounds the smallest epsilon is sought that these rounds certify.
    prior_scores, prior_error:
        (P,) what is known of the candidates beforehand, in units of reward per round, and the standard error of such a
        score (epsilon by default). They decide who leads at first; the promise never depends on them.
    max_rounds:
        A budget of decisions, answered or not; when they are made the best epsilon that is certified by then is
        reported.
    patience:
        How many later decisions a decision waits for its answer, before it counts as without reward; None: for ever.
    first_epoch, epoch_growth:
        The first epoch's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    period:
        The length of a rhythm (a day, a week), in rounds, over which values are averages; see `CertifyingLearner`.
    recent:
        Count recent rounds only: evidence begins anew whenever so many have passed without a certificate, and delta is
        spent over all such stretches; see `CertifyingLearner`.
    open_field:
        Whether candidates may come and go in ways that depend on the data; half of delta is set aside for that.
    guards:
        Guards of your own, beside those that watch anyway (`comband.learners.certifying.Guard`).
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    max_evaluated:
        Up to how many candidates are evaluated on every context.
    production, exposure:
        The name of the candidate that visitors see today, and the share of visitors who take part: all others see its
        list. The promise is the same, in more rounds.
    max_loss:
        Explore no further when the reward lost so far, beside showing production's list to all, may have reached so
        much: when the upper 95% limit of its estimate does. See `comband.learners.certifying.traffic`.
    objective:
        "rounds": as few as possible until the certificate. "reward": lose as little reward as possible meanwhile: most
        rounds show a candidate's own list, drawn by how likely it is to be the best. The promise is the same.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(20, seed=2), epsilon=0.1, seed=3)
    >>> result = cb.run(learner, world, batch_size=200).result
    >>> result.epsilon <= 0.1
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
        recent: int | None = None,
        open_field: bool = False,
        max_evaluated: int = 1000,
        objective: str = "rounds",
        production: str | None = None,
        exposure: float = 1.0,
        max_loss: float | None = None,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        exploration = DisagreementExploration(max_evaluated)
        self.max_evaluated = exploration.max_evaluated
        traffic = Traffic.among(check_policies(policies, gaps=True), production, exposure, max_loss)
        if max_loss is not None and recent is not None:
            raise InputError("max_loss is about all rounds, and recent forgets those before: leave one of them out.")
        if has_totals(problem) or check_problem(problem, places=True).places is not None:
            asked = ['objective="reward"'] * (check_objective(objective) == "reward")
            asked += [f"exposure={exposure:g}"] * (traffic.exposure < 1)
            if asked:
                raise InputError(
                    f"{asked[0]} is for rewards of single items whose places do not matter; leave it out, or state "
                    "the problem without places and with its items' rewards."
                )
        self.production, self.exposure, self.max_loss = production, traffic.exposure, traffic.max_loss
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
            recent=recent,
            open_field=open_field,
            objective=objective,
            traffic=traffic,
            guards=guards,
            seed=seed,
        )
