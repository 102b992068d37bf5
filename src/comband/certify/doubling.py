"""Baseline: the two phases of PAC-COMBAND on a doubling budget, until certified."""

from __future__ import annotations

from comband.certify.learner import CertifyingLearner


class TwoPhaseComband(CertifyingLearner):
    """Uniform lists, then the log-barrier mixture designed on them, in stages that double, with `AdaptiveComband`'s
    evidence.

    The paper fixes the budget beforehand; here it doubles until the evidence suffices. See `DoublingExploration`.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.TwoPhaseComband(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    """

    FROM_TOTALS = False

    EXPLORATION = "two-phase"
