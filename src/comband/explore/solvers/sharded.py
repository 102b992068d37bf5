"""An incidence in parts that stay where they were made: a pass over all policies is a pass over each part, and a sum.

The sums are made in the order of the parts, so that nothing depends on who made them. The solver sees a column oracle
like any other; what comes to it are one score per policy and part, and the columns of the few policies it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from comband.cluster import Work
from comband.explore.solvers.columns import Columns
from comband.explore.solvers.incidence import Incidence, best_columns
from comband.explore.solvers.potential import Floats
from comband.page.bits import Words


@dataclass(frozen=True, eq=False, slots=True)
class EventColumns:
    """Events that were turned into columns already: their oracle, their weights (padded), and how many they were."""

    columns: ShardedIncidence
    weights: Floats
    n_events: int

    def __len__(self) -> int:
        return self.n_events


class ShardedIncidence:
    """Parts of an incidence over the same policies, each a handle of `work`, with the number of words of each."""

    exact = True

    def __init__(self, work: Work, parts: Sequence[Any], words: Sequence[int]) -> None:
        self._work, self._parts, self._words = work, parts, words
        self.n_words = sum(words)
        self._cuts = 64 * np.cumsum(words)[:-1]

    def scores(self, gains: Floats) -> Floats:
        """Σ_e c_e A[e, π] for every policy."""
        found = self._work.ask("a pass", _scores, self._parts, np.split(gains, self._cuts))
        total = found[0]
        for scores in found[1:]:
            total = total + scores
        return np.asarray(total)

    def columns(self, policies: npt.NDArray[np.intp]) -> Words:
        """Full columns of some policies, (k, words)."""
        found = self._work.ask("columns", _columns, self._parts, [policies] * len(self._parts))
        return np.ascontiguousarray(np.concatenate(found, axis=1))

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """See `ColumnOracle`."""
        return best_columns(self.scores(gains), self.columns, gains, n, average)

    def thin(self, step: int) -> tuple[ShardedIncidence, npt.NDArray[np.intp]]:
        """Every step-th event (or block of them) of each part, and which events these are."""
        parts = self._work.each("thinning", _thin, self._parts, step)
        found = self._work.ask("thinning", _thinned, parts, [None] * len(parts))
        starts = np.concatenate([[0], self._cuts])
        events = [np.where(own >= 0, own + start, -1) for (own, _), start in zip(found, starts, strict=True)]
        thinned = self._work.each("thinning", _first, parts)
        return ShardedIncidence(self._work, thinned, [words for _, words in found]), np.concatenate(events)


def _scores(part: Incidence, gains: Floats) -> Floats:
    return part.scores(gains)


def _columns(part: Incidence, policies: npt.NDArray[np.intp]) -> Words:
    return part.columns(policies)


def _thin(part: Incidence, step: int) -> tuple[Incidence, npt.NDArray[np.intp]]:
    return part.thin(step)


def _thinned(pair: tuple[Incidence, npt.NDArray[np.intp]], _: None) -> tuple[npt.NDArray[np.intp], int]:
    return pair[1], pair[0].n_words


def _first(pair: tuple[Incidence, Any]) -> Incidence:
    return pair[0]
