"""What a sample of rounds, rewarded or not, says about what could be shown: the check, and bounds without overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.estimates.exact import ExactValueSums
from comband.estimates.histograms import ValueHistograms
from comband.estimates.importance import SharedActions
from comband.evaluation.answers import PropensityCheck
from comband.policies.policy_set import PolicySet
from comband.rounds import Rounds

Floats = NDArray[np.float64]


class Sample:
    """Whole rounds, and which of their items each candidate shows too: the candidates are asked once.

    `slots` is m, if the rounds' lists are longer because they stand for others.
    """

    def __init__(self, rounds: Rounds, policies: PolicySet, *, slots: int | None = None) -> None:
        self.rounds, self.n_policies = rounds, len(policies)
        n, m = rounds.decisions.lists.shape
        self.slots = m if slots is None else slots
        rows, items = np.repeat(np.arange(n), m), rounds.decisions.lists.ravel()
        blocks = SharedActions.blocks(policies, rounds.decisions.contexts, rows, items)
        self.blocks = [block.kept() for block in blocks]


@dataclass(frozen=True, eq=False, slots=True)
class ItemWeights:
    """Σ_{y∈π(x)∩a} 1/Q(x, y) of every candidate: mean and bounds (P,) that all hold but once in a million logs."""

    means: Floats
    low: Floats
    high: Floats
    expected: float
    rounds: int
    min_propensity: float

    @classmethod
    def of(cls, sample: Sample, *, min_propensity: float, alarm: float) -> ItemWeights:
        """What the items of every candidate weigh in a sample."""
        n, m = len(sample.rounds), sample.slots
        largest = m / min_propensity
        weighed = ValueHistograms.zero(sample.n_policies, bound=largest, n_rounds=n)
        sums = ExactValueSums.zero(sample.n_policies, bound=largest)
        weights = 1 / sample.rounds.decisions.propensities.ravel()
        for block in sample.blocks:
            weighed.add_shared(block, weights, sums=sums)
        low, high = weighed.bounds(threshold=2 * sample.n_policies / alarm, largest=largest)
        return cls(sums.rounded().sums / max(n, 1), low, high, float(m), n, min_propensity)

    @property
    def uncovered(self) -> NDArray[np.bool_]:
        """Candidates whose items weigh too little."""
        return np.asarray(self.high < self.expected)

    def reason(self, i: int) -> str:
        """Why candidate i cannot be judged."""
        return (
            f"its items weigh {self.means[i]:.4g} per round (at most {self.high[i]:.4g} in the long run) where "
            f"{self.expected:g} is right, so they cannot all have been shown with a propensity of at least "
            f"{self.min_propensity:.4g} (or logged propensities are too large); what the others bring is unknown"
        )

    def summary(self, policies: PolicySet) -> PropensityCheck:
        """The candidate that fits worst, and what follows."""
        m = self.expected
        off = np.maximum(self.low / m, m / np.maximum(self.high, np.finfo(float).tiny))
        worst = int(np.where(self.low > m, np.inf, off).argmax())
        if off[worst] <= 1:  # all fit: show the candidate about which least is known
            worst = int(np.argmax(self.high / np.maximum(self.low, 1e-9)))
        return PropensityCheck(
            candidate=policies.names[worst],
            mean=float(self.means[worst]),
            interval=(float(self.low[worst]), float(self.high[worst])),
            expected=m,
            rounds=self.rounds,
            fits=bool((off <= 1).all()),
            conclusive=bool((self.low > m / 2).all() and (self.high < 2 * m).all()),
            uncovered=tuple(policies.names[i] for i in np.flatnonzero(self.uncovered)),
            usable=bool((self.low <= m).all() and not self.uncovered.all()),
        )


def bounds_without_overlap(
    sample: Sample,
    best: int,
    *,
    max_reward: float,
    value_threshold: float,
    gap_threshold: float,
) -> tuple[Floats, Floats]:
    """Upper bounds (P,) on values and on how much better than the best, whatever could be shown: from losses."""
    decisions, rewards = sample.rounds.decisions, sample.rounds.rewards
    n, m = len(decisions), sample.slots
    largest = min(1.0, max_reward)
    propensities = decisions.propensities
    lost, won = np.maximum(largest - rewards, 0.0) / propensities, rewards / propensities
    # The grid of a histogram may depend on the data: its error is on the safe side whatever the grid.
    bound = float((lost + won).sum(axis=1).max(initial=largest))
    losses = ValueHistograms.zero(sample.n_policies, bound=bound, n_rounds=n)
    both = ValueHistograms.zero(sample.n_policies, bound=bound, n_rounds=n)
    for block in sample.blocks:
        losses.add_shared(block, lost.ravel())
        both.add_shared(block, lost.ravel(), offsets=block.sums_of(best, won.ravel()))
    most = largest * m - losses.lower_bounds(threshold=value_threshold, largest=largest * m)
    gaps = largest * m - both.lower_bounds(threshold=gap_threshold, largest=largest * m)
    gaps[best] = 0.0
    return np.clip(most, 0.0, max_reward), np.clip(gaps, 0.0, max_reward)
