"""Baseline: a classical A/B/n test, each candidate judged by its own rounds."""

from __future__ import annotations

from comband.certify.learner import CertifyingLearner


class ABTest(CertifyingLearner):
    """Show one candidate's list at a time, drawn uniformly, and credit that candidate alone.

    What is credited is the reward of the whole list, so that totals (`Problem.feedback`) are all it needs. Evidence and
    stopping rule are those of `AdaptiveComband`, with D = S·(reward of π's rounds − reward of ℓ's rounds).

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
    >>> learner = cb.ABTest(problem, policies, epsilon=0.2, eliminate=True, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    """

    EXPLORATION = "ab-test"
