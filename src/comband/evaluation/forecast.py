"""How many more rounds of the same kind a log needs until it decides: an estimate, never a promise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rounds_to_decide(
    differences: Floats, bounds: Floats, errors: Floats, *, rounds: int, enough: float, threshold: float
) -> float:
    """Rounds still needed until every rival's bound is at most `enough`; infinity where no number of them will do.

    A betting bound exceeds the estimated difference by a/√n + b/n, about: the first part is that of a normal bound at
    the same threshold, a = √(2n·ln threshold)·(standard error), and what it does not explain is taken for the second.
    Estimates are taken for the truth.

    Parameters
    ----------
    differences, bounds, errors:
        (P,) Of each rival: its estimated value minus the leader's, the bound on that, and a standard error of it.
    rounds, enough:
        So far; and the bound that decides.
    threshold:
        The evidence that a bound needs, (number of rivals) / delta.

    >>> one, asked = np.ones(1), {"rounds": 1000, "enough": 0.05, "threshold": 20}
    >>> round(rounds_to_decide(0 * one, 0.1 * one, 0 * one, **asked))  # b/n alone: twice as many rounds in all
    1000
    >>> round(rounds_to_decide(0 * one, 0.1 * one, 0.1 * one, **asked))  # a/√n alone: four times as many
    3000
    """
    open_ones = bounds > enough
    if not open_ones.any():
        return 0.0
    width = bounds[open_ones] - differences[open_ones]
    room = enough - differences[open_ones]
    if (room <= 0).any():
        return math.inf
    root = np.minimum(np.sqrt(2 * np.log(threshold)) * errors[open_ones], width)
    rest = width - root
    # With n′ = n·t²: root/t + rest/t² = room.
    t = (root + np.sqrt(root**2 + 4 * room * rest)) / (2 * room)
    return float(max(rounds * (t.max() ** 2 - 1), 0.0))
