"""Scores that send labels where they suit best and where their answers are not known yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.explore.oracles.pairs import context_keys
from comband.page.problem import InputError

# An answer worth less than this share of a first one is not worth a place in an exploring list.
_WORTHLESS = 0.1

Shown = Mapping[bytes, NDArray[np.int32]]
"""For a context (by its key): the labels it has been shown; once for each time, or just once if one time is enough."""


class Balanced:
    """(f_y(x) − μ_y) / σ_y: how unusual a label's score is among its own scores on some reference contexts."""

    def __init__(self, scorer: Any, reference: Any) -> None:
        scores = scorer(reference)
        spread = scores.std(axis=0)
        self._scorer = scorer
        self._centre = scores.mean(axis=0)
        self._spread = np.where(spread > 0, spread, np.inf)  # a constant score is never unusual

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """(n, K)."""
        return np.asarray((self._scorer(X) - self._centre) / self._spread, dtype=np.float64)


class New:
    """The inner scores; labels that this very context has been shown `enough` times come last, in their order.

    `shown` grows while feedback comes in. That is sound: propensities are computed when a list is drawn, with what is
    known then, and they travel in the decision.
    """

    def __init__(self, scorer: Any, shown: Shown, enough: int | None) -> None:
        self._scorer = scorer
        self._shown = shown
        self._enough = enough

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """(n, K)."""
        scores: NDArray[np.float64] = np.array(self._scorer(X), dtype=np.float64)
        if self._enough is None or scores.size == 0:
            return scores
        below = 1.0 + np.ptp(scores)
        for row, key in enumerate(context_keys(X)):
            labels = self._shown.get(key)
            if labels is None:
                continue
            if self._enough > 1:
                distinct, counts = np.unique(labels, return_counts=True)
                labels = distinct[counts >= self._enough]
            scores[row, labels] -= below
        return scores


def enough_answers(correlation: float) -> int | None:
    """How many answers of one pair make the next worthless; None if none ever does.

    k answers of correlation ρ are worth k/(1 + (k−1)ρ) independent ones, so the next adds
    (1−ρ)/((1 + (k−1)ρ)(1 + kρ)).
    """
    if not 0 <= correlation <= 1:
        raise InputError(f"repeat_correlation must lie in [0, 1], got {correlation}.")
    if correlation == 0:
        return None
    k = 1
    while (1 - correlation) / ((1 + (k - 1) * correlation) * (1 + k * correlation)) >= _WORTHLESS:
        k += 1
    return k
