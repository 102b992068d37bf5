"""Importance-weighted values of many policies from the same rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.bits import PackedRows, words_for
from comband.page.contexts import Contexts
from comband.page.rounds import Events
from comband.page.storage import Array, Record, Whole, require
from comband.policies.policy_set import PolicySet


@dataclass(frozen=True, eq=False, slots=True)
class SharedActions:
    """Which of the shown actions of some rounds each policy would have shown too.

    rounds:
        (R,) the rounds of the block; all events of a round are in one block.
    events, places:
        (E,) the events' numbers, and the position of each one's round in `rounds`.
    inside:
        (E, P) whether the event's action is in the policy's list, or the probability that it is.
    """

    rounds: NDArray[np.int64]
    events: NDArray[np.int64]
    places: NDArray[np.int64]
    inside: NDArray[np.bool_] | NDArray[np.float64] | PackedRows

    @classmethod
    def blocks(
        cls,
        policies: PolicySet,
        X: Contexts,
        rows: NDArray[np.int64],
        actions: NDArray[np.int32],
        indices: ArrayLike | None = None,
    ) -> Iterator[SharedActions]:
        """Blocks of bounded size, in which each policy is asked once for each context that has an event."""
        for events, inside in policies.incidence(X, rows, actions, indices):
            own = rows[events]  # sorted
            first = np.diff(own, prepend=-1) != 0
            yield cls(own[first], events, np.cumsum(first) - 1, inside)

    @classmethod
    def all_of(
        cls, policies: PolicySet, X: Contexts, rows: NDArray[np.int64], actions: NDArray[np.int32]
    ) -> SharedActions:
        """All events, whose rows ascend, packed; equal contexts that are whole numbers are asked about once."""
        if policies.by_chance:
            probabilities = np.empty((len(rows), len(policies)))
            for events, some in policies.incidence(X, rows, actions):
                probabilities[events] = some
            first = np.diff(rows, prepend=-1) != 0
            return cls(rows[first], np.arange(len(rows)), np.cumsum(first) - 1, probabilities)
        bits = np.empty((len(rows), words_for(len(policies))), dtype=np.uint64)
        for events, inside in policies.incidence(X, rows, actions, once=True):
            bits[events] = PackedRows.from_cells(inside).bits
        first = np.diff(rows, prepend=-1) != 0
        return cls(rows[first], np.arange(len(rows)), np.cumsum(first) - 1, PackedRows(bits, len(policies)))

    def packed(self) -> PackedRows:
        """`inside` in an eighth of the memory; of probabilities, which of them are positive."""
        if isinstance(self.inside, PackedRows):
            return self.inside
        return PackedRows.from_cells(self.inside > 0)

    @property
    def by_chance(self) -> bool:
        """Whether `inside` are probabilities."""
        return not isinstance(self.inside, PackedRows) and self.inside.dtype == np.float64

    def for_one(self) -> SharedActions:
        """The same rounds for one policy that shows all: its probabilities are for the weights."""
        every = PackedRows.from_cells(np.ones((len(self.events), 1), dtype=bool))
        return replace(self, inside=every)

    def kept(self) -> SharedActions:
        """The same, to be summed again without asking the policies."""
        return self if self.by_chance else replace(self, inside=self.packed())

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return sum(array.nbytes for array in (self.rounds, self.events, self.places, self.inside))

    @property
    def starts(self) -> NDArray[np.int64]:
        """(R + 1,) where each round's events begin, and the end: events are sorted by round."""
        return np.searchsorted(self.places, np.arange(len(self.rounds) + 1))

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_{y∈π(x_t)∩a_t} w_t(y), (R, P), for weights of all events."""
        inside = self.inside.cells() if isinstance(self.inside, PackedRows) else self.inside
        gather = sp.csr_array((weights[self.events], (self.places, np.arange(len(self.events)))))
        return np.asarray(gather @ inside.astype(np.float64))

    def sums_of(self, j: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same for policy j alone, (R,)."""
        inside = self.inside.column(j) if isinstance(self.inside, PackedRows) else self.inside[:, j]
        return np.asarray(np.bincount(self.places, weights[self.events] * inside, minlength=len(self.rounds)), float)


def round_values(
    events: Events, policies: PolicySet, indices: ArrayLike | None = None
) -> Iterator[NDArray[np.float64]]:
    """X_t(π) of all rewarded rounds t and policies π, in blocks (rounds, P) of bounded size."""
    weights = events.rewards / events.propensities
    for block in SharedActions.blocks(policies, events.contexts, events.rows, events.actions, indices):
        yield block.sums(weights)


@dataclass(frozen=True, eq=False, slots=True)
class ValueSums(Record):
    """Sums of X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y) and of its square over rounds; `a + b` has seen both.

    X_t(π) is unbiased for the value of π whatever list distribution drew round t, as long as every action of π(x_t)
    could be shown.

    Parameters
    ----------
    n_rounds:
        How many rounds were seen.
    sums:
        (P,) Σ X.
    squares:
        (P,) Σ X².

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> from comband.statistics import ValueSums
    >>> sums = ValueSums.from_events(rounds.events(), policies)
    >>> sums.means.tolist()  # (1/0.5)/4, and (1/0.5 + 1/0.5)/4
    [0.5, 1.0]
    >>> (sums + sums).n_rounds
    8
    >>> low, high = sums.bounds(bound=2, delta=0.05)
    """

    n_rounds: int
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def zero(cls, n_policies: int, *, n_rounds: int = 0) -> ValueSums:
        """Nothing seen yet, or only rounds without reward."""
        return cls(n_rounds, np.zeros(n_policies), np.zeros(n_policies))

    def add(self, values: NDArray[np.float64]) -> None:
        """Put in X (rounds, P) of rounds that `n_rounds` counts already."""
        self.sums[:] += values.sum(axis=0)
        self.squares[:] += np.square(values).sum(axis=0)

    @classmethod
    def from_events(cls, events: Events, policies: PolicySet, indices: ArrayLike | None = None) -> ValueSums:
        """Sums for all policies (or those at `indices`); evaluates them on rewarded contexts only."""
        result = cls.zero(len(policies) if indices is None else np.size(indices), n_rounds=events.n_rounds)
        for values in round_values(events, policies, indices) if len(events) else ():
            result.add(values)
        return result

    SCHEMA: ClassVar = {
        "n_rounds": Whole(0),
        "sums": Array("f8", ("P",), 0),
        "squares": Array("f8", ("P",), 0),
    }

    def _agree(self) -> None:
        with np.errstate(over="ignore"):
            mean_square = np.square(self.sums) / max(self.n_rounds, 1)
            limit = self.squares * (1 + 1e-9)
        require(
            bool((mean_square <= limit).all()) and (self.n_rounds > 0 or not self.sums.any()),
            "sums, squares and n_rounds must be those of one sample.",
        )

    def __add__(self, other: ValueSums) -> ValueSums:
        return ValueSums(self.n_rounds + other.n_rounds, self.sums + other.sums, self.squares + other.squares)

    @property
    def means(self) -> NDArray[np.float64]:
        """Estimated values (P,)."""
        return self.sums / max(self.n_rounds, 1)

    @property
    def variances(self) -> NDArray[np.float64]:
        """Sample variances (P,) of X_t, with n − 1; rounds without reward count as zeros."""
        n = self.n_rounds
        centred = self.squares - np.square(self.sums) / max(n, 1)
        return np.maximum(centred, 0.0) / max(n - 1, 1)

    def bounds(self, *, bound: float, delta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends of intervals that hold for all policies at once with probability 1 − δ.

        Maurer & Pontil (2009), Theorem 4, on each side for each of P policies, hence δ/(2P) a side: for n i.i.d. values
        in [0, b] with sample variance V, the mean is off by at most √(2 V ln(2/δ')/n) + 7 b ln(2/δ')/(3(n−1)).
        Valid for a number of rounds that was fixed in advance, not under peeking.
        """
        n = self.n_rounds
        if n < 2:
            return np.zeros_like(self.sums), np.full_like(self.sums, np.inf)
        log_term = np.log(2 / (delta / (2 * len(self.sums))))
        radius = np.sqrt(2 * self.variances * log_term / n) + 7 * bound * log_term / (3 * (n - 1))
        return np.maximum(self.means - radius, 0.0), self.means + radius
