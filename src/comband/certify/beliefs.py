"""What is thought of the candidates: it decides who leads and what is staked, and nothing is promised on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.certify.evidence import Evidence
from comband.page.problem import InputError, as_floats
from comband.statistics.shrinkage import Shrunk, shrink

_LARGEST_SCORE = 1e100  # squares of differences, and sums of them over all candidates, stay numbers
_LEAST = 0.1  # of epsilon: candidates are thought to differ by so much at least


class Beliefs:
    """Estimates of all candidates, shrunk towards scores that the user had beforehand, or towards each other.

    The promise never depends on them: leaders, attention and stakes may be chosen in any way that looks at the past
    alone.

    Parameters
    ----------
    scores:
        (P,) in units of reward per round, or None; only their differences matter.
    error:
        The standard error of such a score, beyond what all scores have in common; None: epsilon.
    """

    def __init__(self, n_policies: int, scores: ArrayLike | None, error: float | None, *, epsilon: float) -> None:
        self.scores = np.zeros(n_policies) if scores is None else check_scores(scores, n_policies)
        self.error = epsilon if error is None else error
        self.least = _LEAST * epsilon

    def grown(self, n: int) -> Beliefs:
        """The same with n newcomers, of which no more is thought than of an average one."""
        more = Beliefs(0, None, None, epsilon=self.error)
        more.scores = np.concatenate([self.scores, np.full(n, self.scores.mean())])
        more.error, more.least = self.error, self.least
        return more

    def of(self, evidence: Evidence, candidates: NDArray[np.int64]) -> Shrunk:
        """What is thought of these candidates, who must be left."""
        scores = self.scores[candidates]
        if len(evidence.seen) == 0:
            return Shrunk(scores - scores.mean(), np.full(len(scores), self.error), 1.0, self.error)
        estimates, variances = evidence.estimates(candidates)
        return shrink(estimates, variances, scores, error=self.error, least=self.least)


def check_scores(scores: ArrayLike, n_policies: int) -> NDArray[np.float64]:
    """One finite number for each candidate, whose square is a number too."""
    given = as_floats("prior_scores", scores)
    if given.shape != (n_policies,):
        raise InputError(
            f"prior_scores must be one number for each of the {n_policies:,} candidates, in their order; got an array "
            f"of shape {given.shape}."
        )
    if not np.isfinite(given).all():
        bad = int(np.flatnonzero(~np.isfinite(given))[0])
        raise InputError(
            f"prior_scores must be finite; that of candidate {bad} is {given[bad]}. Where a candidate has no score, "
            "give the mean of the others."
        )
    if np.abs(given).max(initial=0.0) > _LARGEST_SCORE:
        raise InputError(
            f"prior_scores must lie within ±{_LARGEST_SCORE:g}, got {given[np.abs(given).argmax()]:g}: they are in "
            "units of reward per round, and only their differences matter."
        )
    return given
