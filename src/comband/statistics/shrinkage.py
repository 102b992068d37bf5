"""Estimates of many candidates, shrunk towards what is known beforehand: for guesses, never for a promise.

Estimates y of values, each with its variance v, are taken as y = b·x + N(0, τ²) + N(0, v), where x are scores that
were known before (0 without any), all of it centred. b, how much the scores are worth, and τ², how much candidates
differ beyond them, are fitted to the estimates themselves (empirical Bayes), so that scores that turn out to be
useless, or the wrong way round, lose their say. The best guess at a value is then b·x + τ²/(τ² + v)·(y − b·x): where
there are many candidates and few rewards, the one of highest y is mostly the luckiest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_POOLED = 0.2  # how far a candidate's variance is pulled to the mean of all: few rewards do not tell it
_TRUST = 4.0  # so much speaks for b = 1 before the first estimate
_SAYING = 30  # estimates share rounds: many of them count as no more than so many when b is fitted
_LARGEST_WORTH = 3.0  # of b
_SPREAD_TRUST = 10.0  # as many candidates as these speak for the prior's own error before the first estimate
_STEPS = 5
_DRAWS = 1000
_CELLS = 1 << 21  # numbers that these may take up


@dataclass(frozen=True, eq=False, slots=True)
class Shrunk:
    """Guesses (S,) at centred values, and the standard error (S,) of each if the model is right.

    worth, spread: b, and τ.
    """

    guesses: NDArray[np.float64]
    errors: NDArray[np.float64]
    worth: float
    spread: float

    def hopes(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """(S,) how likely each is to be the best, by a thousand draws at most, as if errors were independent."""
        S = len(self.guesses)
        n = min(_DRAWS, 1 + _CELLS // S)
        draws = self.guesses + self.errors * rng.standard_normal((n, S))
        return np.bincount(draws.argmax(axis=1), minlength=S) / n


def shrink(
    estimates: NDArray[np.float64],
    variances: NDArray[np.float64],
    scores: NDArray[np.float64],
    *,
    error: float,
    least: float,
) -> Shrunk:
    """Shrunk `estimates` (S,) of the given `variances` (S,).

    `scores` (S,) are those known beforehand, zeros if there are none; `error` is their standard error, and `least` the
    smallest τ that is thought possible.

    >>> import numpy as np
    >>> y, v = np.array([.50, .40, .39]), np.array([.01, .001, .001])
    >>> shrink(y, v, np.zeros(3), error=.05, least=.005).guesses.round(3)
    array([ 0.011, -0.015, -0.02 ])
    """
    y, x = estimates - estimates.mean(), scores - scores.mean()
    v = np.maximum(variances, 1e-12 * max(error, least) ** 2)
    v = (1 - _POOLED) * v + _POOLED * v.mean()
    n, smallest = len(y), least**2
    tau2 = max(error**2, smallest)
    saying, worth = min(1.0, _SAYING / n), 1.0
    for _ in range(_STEPS):
        precision = saying / (v + tau2)
        worth = (float(precision @ (x * y)) + _TRUST) / (float(precision @ (x * x)) + _TRUST)
        worth = min(max(worth, 0.0), _LARGEST_WORTH)
        beyond = float(((y - worth * x) ** 2 - v).sum())
        tau2 = max((_SPREAD_TRUST * error**2 + beyond) / (_SPREAD_TRUST + n), smallest)
    guesses = worth * x + tau2 / (tau2 + v) * (y - worth * x)
    return Shrunk(guesses, np.sqrt(tau2 * v / (tau2 + v)), worth, tau2**0.5)
