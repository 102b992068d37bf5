"""What successive rounds of one epoch say, before it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comband.page.rounds import Events


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """What successive rounds of one epoch say, before it counts.

    first_id, n_rounds: their decisions; uncovered (U,), those in which the epoch's bounds do not hold; ids (C,) of the
    rewarded ones, and all of their rewards; rows (E,), which of the rewarded rounds each event that counts belongs to;
    inside (E, S), for which candidates it does (bits, or numbers for one event per round), and weights (E,), by how
    much.
    """

    epoch: int
    first_id: int
    n_rounds: int
    uncovered: NDArray[np.int64]
    ids: NDArray[np.int64]
    rewards: NDArray[np.float64]
    rows: NDArray[np.int64]
    inside: NDArray[np.bool_] | NDArray[np.float64]
    weights: NDArray[np.float64]
    kept: Events | None
    further: tuple[Block, ...] = ()  # what the same rounds say of further metrics

    @property
    def decisions(self) -> NDArray[np.int64]:
        """All of them, by number."""
        return np.arange(self.first_id, self.first_id + self.n_rounds)

    @property
    def eventful(self) -> bool:
        """Whether the wealths are others afterwards."""
        return len(self.rows) > 0 or len(self.uncovered) > 0

    @property
    def moves(self) -> bool:
        """Whether anything that is judged may be another afterwards."""
        return self.eventful or len(self.further) > 0

    @property
    def places(self) -> NDArray[np.int64]:
        """(U,) after how many of the events each uncovered round comes."""
        return np.searchsorted(self.ids[self.rows], self.uncovered) if len(self.uncovered) else self.uncovered

    def one_by_one(self) -> Iterator[Block]:
        """Its eventful rounds, each a block of its own."""
        for i in np.unique(np.concatenate([self.ids[self.rows], self.uncovered])):
            mine = self.ids[self.rows] == i
            yield replace(
                self,
                rows=self.rows[mine],
                inside=self.inside[mine],
                weights=self.weights[mine],
                uncovered=self.uncovered[self.uncovered == i],
            )
