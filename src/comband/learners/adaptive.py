"""AdaptiveComband: the fewest rounds to a certified winner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.contexts import n_contexts
from comband.learners.base import Seed
from comband.learners.certifying import CertifyingLearner, Standing
from comband.learners.exploration import Plan
from comband.policies.disagreement import count_disputed
from comband.policies.policy_set import PolicySet
from comband.problem import Problem, check_count

_FLOOR_SHARE = 0.65  # of the largest possible floor; the rest of the probability goes where the variance is
_UNCOVERED_COST = 0.05  # uncovered contexts may cost this share of epsilon
_FRONT_RUNNERS = 64  # candidates whose lists are mixed in while there are too many to ask them all
_LISTS_AT_FIRST = 0.5  # share of uniform lists in that time


class AdaptiveComband(CertifyingLearner):
    """Certify an ε-best candidate with probability 1 − δ from as few rounds as possible.

    In each epoch it shows actions on which the candidates that are left disagree (`DisagreementSampling`), with the
    more attention on a rival the closer its value is to the leader's and the more evidence it still lacks, and with a
    floor on the propensities that rises as candidates are dropped. The floor, which bounds the importance weights and
    so the stakes, is set from how much the candidates disagreed on recent contexts; rare contexts on which they
    disagree more are counted against every bet.

    While more than `max_evaluated` candidates are left they are not all asked on every context: uniform lists are
    mixed with the lists of the front runners.

    Parameters
    ----------
    problem, policies, epsilon, delta, max_rounds, patience, first_epoch, epoch_growth, seed:
        As for every certifying learner.
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
        epsilon: float,
        delta: float = 0.05,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        max_evaluated: int = 1000,
        seed: Seed = 0,
    ) -> None:
        self.max_evaluated = check_count("max_evaluated", max_evaluated)
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
        n_candidates = len(standing.candidates)
        if n_candidates > self.max_evaluated:
            front = np.argsort(standing.gaps, kind="stable")[:_FRONT_RUNNERS]
            weights = np.zeros(n_candidates)
            weights[front] = 1 / len(front)
            return Plan("mixture", weights, _LISTS_AT_FIRST)
        attention = standing.need / (self.epsilon + standing.gaps) ** 2
        most = self._most_disputed(standing)
        return Plan("actions", attention, min(_FLOOR_SHARE * self.problem.list_size / most, 1.0))

    def _most_disputed(self, standing: Standing) -> float:
        """For how many disputed actions a context must have room."""
        K, m = self.problem.n_actions, self.problem.list_size
        certain = min(K - m, (len(standing.candidates) - 1) * m)
        if standing.contexts is None or certain == 0:
            return float(max(certain, m))
        counts: NDArray[Any] = count_disputed(
            self.policies, standing.candidates, standing.leader, standing.contexts, self.problem
        )
        n = n_contexts(standing.contexts)
        # An uncovered round counts as if the rival had earned ρ.
        share = _UNCOVERED_COST * self.epsilon / self.problem.max_reward
        if n * share > 1:
            enough = float(np.quantile(counts, 1 - share))
        else:
            enough = float(counts.max() + 0.25 * (counts.max() - np.median(counts)))
        return float(min(max(enough, m), max(certain, m)))

    def _config(self) -> dict[str, Any]:
        return {**super()._config(), "max_evaluated": self.max_evaluated}
