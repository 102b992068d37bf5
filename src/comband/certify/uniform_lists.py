"""Baseline: uniform lists until certified."""

from __future__ import annotations

from comband.certify.learner import CertifyingLearner


class UniformLists(CertifyingLearner):
    """Show uniform lists, with the evidence and the stopping rule of `AdaptiveComband`.

    Importance weights are K/m, whatever the candidates are and however few of them are left.

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
    >>> learner = cb.UniformLists(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    """

    EXPLORATION = "lists"
