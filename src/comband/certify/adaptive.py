"""AdaptiveComband: the fewest rounds to a certified winner."""

from __future__ import annotations

from comband.certify.learner import CertifyingLearner


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

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=3, sparsity=1)
    >>> world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> learner = cb.AdaptiveComband(problem, world.candidates(20, seed=2), epsilon=0.1, seed=3)
    >>> result = cb.run(learner, world, batch_size=200).result
    >>> result.epsilon <= 0.1
    True
    """

    EXPLORATION = "adaptive"
