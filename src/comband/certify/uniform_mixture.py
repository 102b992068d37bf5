"""Baseline: the uniform mixture of all candidates until certified."""

from __future__ import annotations

from comband.certify.learner import CertifyingLearner


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
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.UniformMixture(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    """

    EXPLORATION = "mixture"
