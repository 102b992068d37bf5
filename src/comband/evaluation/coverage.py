"""What a sample of rounds, rewarded or not, says about what could be shown: the check, and bounds without overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.answers import PropensityCheck
from comband.statistics.exact import ExactValueSums
from comband.statistics.histograms import ValueHistograms

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LeastPropensity:
    """A bound from below on the propensities of all items that a candidate shows: stated, or read off the log.

    Stakes may not depend on the data. What is read off the log is rounded down to a power of two, and bounds are those
    of `ValueHistograms.upper_bounds` for powers, which hold for whichever the log suggests.

    value:
        As it was stated, or the smallest in the log.
    stated:
        Whether it was.
    per_item:
        By how much the propensity of an item exceeds it, where it is that of an item's pairs with places.

    >>> LeastPropensity(0.3, stated=False).powers(2.0)  # 2/0.3 is at most 2·2²
    (2.0, 2)
    """

    value: float
    stated: bool
    per_item: float = 1.0

    def powers(self, most: float) -> tuple[float, int] | None:
        """How `upper_bounds` is told that what is weighed by 1/Q, and at most `most` without, is no larger; None where
        the bound of the histograms is known.
        """
        return None if self.stated else (most, 1 - math.frexp(min(self.value, 1.0))[1])  # 2^(e − 1) ≤ value < 2^e

    @property
    def of_items(self) -> float:
        """The propensity of items, as a user states it."""
        return self.value if self.per_item == 1 else min(self.value * self.per_item, 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class ItemWeights:
    """Σ_{y∈π(x)∩a} 1/Q(x, y) of every candidate: mean and bounds (P,) that all hold but once in a million logs.

    `most` are upper bounds that hold as surely where the smallest propensity is read off the log.
    """

    means: Floats
    low: Floats
    high: Floats
    most: Floats
    expected: float
    rounds: int
    min_propensity: float

    @classmethod
    def of(
        cls, weights: ValueHistograms, sums: ExactValueSums, *, slots: int, least: LeastPropensity, alarm: float
    ) -> ItemWeights:
        """What the items of every candidate weigh in a sample."""
        n, found = weights.n_rounds, sums.rounded().sums
        threshold = 2 * len(found) / alarm
        low, high = weights.bounds(threshold=threshold, largest=weights.bound)
        most = high
        if not least.stated:
            powers = least.powers(float(max(slots, 1)))
            most = weights.upper_bounds(threshold=threshold, largest=weights.bound, powers=powers)
        return cls(found / max(n, 1), low, high, most, float(slots), n, least.of_items)

    @property
    def uncovered(self) -> NDArray[np.bool_]:
        """Candidates whose items weigh too little."""
        return np.asarray(self.high < self.expected)

    @property
    def surely_uncovered(self) -> NDArray[np.bool_]:
        """Those of them that weigh too little for the smallest propensity though it is read off the log."""
        return np.asarray(self.most < self.expected)

    def reason(self, i: int) -> str:
        """Why candidate i cannot be judged."""
        return (
            f"its weights (1/propensity of what was shown of it) sum to {self.means[i]:.4g} per round, at most "
            f"{self.high[i]:.4g}, and {self.expected:g} is right: some of its items had a propensity below "
            f"{self.min_propensity:.4g} or none (or logged propensities are too large), and what they bring is unknown"
        )

    def summary(self, names: Sequence[str]) -> PropensityCheck:
        """The candidate that fits worst, and what follows."""
        m = self.expected
        off = np.maximum(self.low / m, m / np.maximum(self.high, np.finfo(float).tiny))
        worst = int(np.where(self.low > m, np.inf, off).argmax())
        if off[worst] <= 1:  # all fit: show the candidate about which least is known
            worst = int(np.argmax(self.high / np.maximum(self.low, 1e-9)))
        return PropensityCheck(
            candidate=names[worst],
            mean=float(self.means[worst]),
            interval=(float(self.low[worst]), float(self.high[worst])),
            expected=m,
            rounds=self.rounds,
            fits=bool((off <= 1).all()),
            conclusive=bool((self.low > m / 2).all() and (self.high < 2 * m).all()),
            uncovered=tuple(names[int(i)] for i in np.flatnonzero(self.uncovered)),
            usable=bool((self.low <= m).all() and not self.uncovered.all()),
        )


def bounds_without_overlap(
    losses: ValueHistograms,
    both: ValueHistograms,
    best: int,
    *,
    slots: float,
    max_reward: float,
    value_threshold: float,
    gap_threshold: float,
) -> tuple[Floats, Floats]:
    """Upper bounds (P,) on values and on how much better than the best, whatever could be shown: from losses, of a list
    that would lose as much as `slots` items can bring.

    The grid of a histogram may depend on the data: its error is on the safe side whatever the grid.
    """
    largest = min(1.0, max_reward) * slots
    most = largest - losses.lower_bounds(threshold=value_threshold, largest=largest)
    gaps = largest - both.lower_bounds(threshold=gap_threshold, largest=largest)
    gaps[best] = 0.0
    return np.clip(most, 0.0, max_reward), np.clip(gaps, 0.0, max_reward)
