"""What a part of a log contributes to an evaluation: statistics that add exactly, whatever the parts.

Candidates are asked once, when a part is made, and answer in bits. What is then asked of a part needs numbers that only
the whole log tells (the smallest propensity, the best candidate), so it is asked in turns: facts, a first look for
values, a second for what is compared with the best. Each turn takes a list of parts and gives one statistic with `+`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband._kernels.logs import least_of_shared
from comband.page.rounds import Events, Rounds
from comband.policies.policy_set import PolicySet
from comband.statistics.exact import ExactValueSums
from comband.statistics.histograms import ValueHistograms
from comband.statistics.importance import SharedActions

Floats = NDArray[np.float64]


class Sample:
    """Whole rounds, and which of their items each candidate shows too; `slots` is m, if the lists stand for others.

    With `factors` θ the rounds are those of `placed_rounds` by known placements: the item shown in place j as its pairs
    with all places k, of "propensity" e/θ_k. In random order q·(1/q) = 1 is what an item weighs on average, and κ − r
    what it lost. Here Σ_j Q(j)·θ_j/e = 1: an item that was shown in place j weighs θ_j/e, and a candidate that has it
    in place k lost (θ_k/e)·(c·θ_j − r) with c = κ/min θ, which is never negative and has the mean c·θ_k − rel·θ_k.
    """

    def __init__(
        self,
        rounds: Rounds,
        policies: PolicySet,
        *,
        slots: int | None = None,
        factors: tuple[float, ...] | None = None,
    ) -> None:
        n, m = rounds.decisions.lists.shape
        self.n_policies, self.slots = len(policies), m if slots is None else slots
        self.rewards, self.propensities = rounds.rewards, rounds.decisions.propensities
        theta = np.array(factors or ())
        self._shown = None if factors is None else np.repeat(theta, len(theta))  # θ_j of each pair's item
        self._counted = None if factors is None else np.tile(theta, len(theta))  # θ_k of the pair
        rows, items = np.repeat(np.arange(n), m), rounds.decisions.lists.ravel()
        self.blocks = [SharedActions.all_of(policies, rounds.decisions.contexts, rows, items)] if n else []

    def __len__(self) -> int:
        return len(self.rewards)

    def __sizeof__(self) -> int:
        return self.rewards.nbytes + self.propensities.nbytes + sum(block.nbytes for block in self.blocks)

    @property
    def weights(self) -> Floats:
        """What each shown item weighs."""
        if self._shown is None or self._counted is None:
            return np.asarray(1 / self.propensities)
        return np.asarray(self._shown / (self.propensities * self._counted))

    def losses(self, max_reward: float) -> tuple[Floats, Floats]:
        """What each shown item lost of the most that it can bring, and what it won, over its propensity."""
        largest: float | Floats = min(1.0, max_reward)
        if self._shown is not None:
            largest = largest * self._shown / self._shown.min()
        return np.maximum(largest - self.rewards, 0.0) / self.propensities, self.rewards / self.propensities


class Part:
    """Some rounds of a log with what the candidates would have shown: all that evaluation needs of them."""

    def __init__(
        self,
        events: Events,
        policies: PolicySet,
        shown: Rounds | None,
        *,
        smallest: float,
        slots: int | None = None,
        factors: tuple[float, ...] | None = None,
    ) -> None:
        self.n_policies, self.n_rounds, self.n_rewarded = len(policies), events.n_rounds, events.n_rewarded
        self.smallest, self.rewards, self.propensities = smallest, events.rewards, events.propensities
        self.most = float(np.bincount(events.rows, events.rewards).max(initial=0.0)) if len(events) else 0.0
        asked = (events.contexts, events.rows, events.actions)
        self.blocks = [SharedActions.all_of(policies, *asked)] if len(events) else []
        self.sample = None if shown is None else Sample(shown, policies, slots=slots, factors=factors)
        self.shared = _least_shared(self.blocks, self.propensities)
        if self.sample is not None:
            self.shared = min(self.shared, _least_shared(self.sample.blocks, self.sample.propensities.ravel()))

    def __sizeof__(self) -> int:
        """Bytes, so that a worker knows what it holds, and what to put on disk."""
        kept = self.rewards.nbytes + self.propensities.nbytes + sum(block.nbytes for block in self.blocks)
        return kept + (0 if self.sample is None else self.sample.__sizeof__())

    @property
    def weights(self) -> Floats:
        """r/Q of each event."""
        return np.asarray(self.rewards / self.propensities)


def _least_shared(blocks: Sequence[SharedActions], propensities: Floats) -> float:
    """The smallest propensity among shown items that a candidate shows too."""
    least = np.inf
    for block in blocks:
        least = min(least, least_of_shared(block.packed().bits, propensities[block.events]))
    return least


@dataclass(frozen=True, slots=True)
class Facts:
    """What all looks need to know of the whole log; `a + b` is of both.

    smallest, shared:
        The smallest propensity; of items that a candidate shows too, as far as candidates were asked.
    weighed:
        The largest sum of losses and gains of a round of the sample.
    sampled:
        How many rounds the sample has; None without one.
    most:
        The most that one round brought.
    """

    rounds: int
    rewarded_rounds: int
    rewards: int
    smallest: float
    shared: float
    weighed: float
    sampled: int | None
    most: float

    def __add__(self, other: Facts) -> Facts:
        return Facts(
            self.rounds + other.rounds,
            self.rewarded_rounds + other.rewarded_rounds,
            self.rewards + other.rewards,
            min(self.smallest, other.smallest),
            min(self.shared, other.shared),
            max(self.weighed, other.weighed),
            None if self.sampled is None or other.sampled is None else self.sampled + other.sampled,
            max(self.most, other.most),
        )


def facts(parts: Sequence[Part], max_reward: float) -> Facts:
    """The first turn."""
    total = None
    for part in parts:
        weighed = min(1.0, max_reward)
        if part.sample is not None:
            lost, won = part.sample.losses(max_reward)
            weighed = float((lost + won).sum(axis=1).max(initial=weighed))
        own = Facts(
            part.n_rounds,
            part.n_rewarded,
            len(part.rewards),
            part.smallest,
            part.shared,
            weighed,
            None if part.sample is None else len(part.sample),
            part.most,
        )
        total = own if total is None else total + own
    assert total is not None
    return total


@dataclass(frozen=True, slots=True)
class FirstLook:
    """X_t(π) over rewarded rounds, and Σ 1/Q over those of the sample."""

    values: ValueHistograms
    sums: ExactValueSums
    weights: ValueHistograms
    weight_sums: ExactValueSums

    def __add__(self, other: FirstLook) -> FirstLook:
        return FirstLook(
            self.values + other.values,
            self.sums + other.sums,
            self.weights + other.weights,
            self.weight_sums + other.weight_sums,
        )


def first_look(parts: Sequence[Part], bound: float, heaviest: float) -> FirstLook:
    """X lies in [0, bound], and what a round's items weigh in [0, heaviest]."""
    P, n = parts[0].n_policies, sum(part.n_rounds for part in parts)
    sampled = sum(len(part.sample) for part in parts if part.sample is not None)
    values = ValueHistograms.zero(P, bound=bound, n_rounds=n)
    sums = ExactValueSums.zero(P, bound=bound, n_rounds=n)
    weights = ValueHistograms.zero(P, bound=heaviest, n_rounds=sampled)
    weight_sums = ExactValueSums.zero(P, bound=heaviest, n_rounds=sampled)
    for part in parts:
        earned = part.weights
        for block in part.blocks:
            values.add_shared(block, earned, sums=sums)
        if part.sample is not None:
            inverse = part.sample.weights.ravel()
            for block in part.sample.blocks:
                weights.add_shared(block, inverse, sums=weight_sums)
    return FirstLook(values, sums, weights, weight_sums)


@dataclass(frozen=True, slots=True)
class SecondLook:
    """X_t(π) − X_t(best) over rewarded rounds; losses, alone and with what the best won, over those of the sample."""

    differences: ValueHistograms
    losses: ValueHistograms | None
    both: ValueHistograms | None

    def __add__(self, other: SecondLook) -> SecondLook:
        return SecondLook(
            self.differences + other.differences,
            None if self.losses is None or other.losses is None else self.losses + other.losses,
            None if self.both is None or other.both is None else self.both + other.both,
        )


def second_look(parts: Sequence[Part], best: int, bound: float, max_reward: float, weighed: float | None) -> SecondLook:
    """Differences lie in [−bound, bound]; losses and gains in [0, weighed], None if they are not asked for."""
    P, n = parts[0].n_policies, sum(part.n_rounds for part in parts)
    sampled = sum(len(part.sample) for part in parts if part.sample is not None)
    differences = ValueHistograms.zero(P, bound=bound, n_rounds=n)
    losses = None if weighed is None else ValueHistograms.zero(P, bound=weighed, n_rounds=sampled)
    both = None if weighed is None else ValueHistograms.zero(P, bound=weighed, n_rounds=sampled)
    for part in parts:
        earned = part.weights
        for block in part.blocks if P > 1 else ():
            differences.add_shared(block, earned, offsets=-block.sums_of(best, earned))
        if part.sample is None or losses is None or both is None:
            continue
        lost, won = (each.ravel() for each in part.sample.losses(max_reward))
        for block in part.sample.blocks:
            losses.add_shared(block, lost)
            both.add_shared(block, lost, offsets=block.sums_of(best, won))
    return SecondLook(differences, losses, both)
