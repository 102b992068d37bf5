"""The breaker: exploration stops when visitors are proven to get less with it than production's list would bring.

Let R_j be what a round's visitor brings of the reward (j = 0) or of a further metric, and X_j(p) what importance
weighting says that production's list would have brought: E X_j(p) = V_j(p). With r the share that may be lost, let

    G_j = R_j − (1 − r)·X_j(p) for a benefit,    G_j = (1 + r)·X_j(p) − R_j for a cost.

While no round does more harm than that, E G_j ≥ 0 in each of them, given all before it, and Π (1 − λG_j) is a
supermartingale from 1 for stakes fixed before the round. So is the mean over several stakes. The breaker stops where
one of the 1 + J of them reaches (1 + J)/δ: by Ville's inequality, and a union over them, that happens ever with
probability δ at most, whatever was shown and however it was chosen.

1 − λG needs λG < 1. Of a benefit G ≤ ρ_j, what a round brings at most: no propensity bounds the stakes. Of a cost
G ≤ (1 + r)ρ_j/q, where q is the floor of production's items. Where an epoch does not keep its floors (`uncovered`),
X_j(p) is taken to be 0 for a benefit and ρ_j for a cost: both make E G_j larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.blocks import Block
from comband.certify.epochs import Epoch, Railing
from comband.page.storage import Array, Flag, State, Whole, check, put_into, require, state_of
from comband.statistics.grids import log_mean_exp
from comband.statistics.guardrails import Rail

FALSE_STOP = 0.05  # δ, if nothing is said
STAKES = 0.9 / np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])  # of the most that can be staked


class Breaker:
    """Log-wealths against "no round does more harm", of the reward and of each further metric, as rounds enter in the
    order of decisions; once one has reached the threshold the breaker has `stopped`, for good.

    Parameters
    ----------
    railing:
        The reward's rail and those of the metrics, and production's number.
    share, delta:
        r and δ.
    """

    def __init__(self, railing: Railing, share: float, delta: float) -> None:
        self.railing, self.share, self.delta = railing, share, delta
        self.log_wealth = np.zeros((len(railing.rails), len(STAKES)))
        self.rounds = 0  # that were seen
        self.stopped = False
        self.stopped_after = 0  # rounds

    def anew(self) -> Breaker:
        """One that has seen nothing."""
        return Breaker(self.railing, self.share, self.delta)

    def __add__(self, other: Breaker) -> Breaker:
        total = self.anew()
        total.log_wealth, total.rounds = self.log_wealth + other.log_wealth, self.rounds + other.rounds
        total.stopped = self.stopped or other.stopped
        total.stopped_after = total.rounds if total.stopped else 0
        return total

    @property
    def threshold(self) -> float:
        """The log-wealth that stops."""
        return float(np.log(len(self.log_wealth) / self.delta))

    def add(self, epoch: Epoch, block: Block) -> None:
        """Enter rounds of one epoch."""
        for j, part in enumerate((block, *block.further)):
            ids, gains = self._gains(j, epoch, part)
            logs = np.log1p(-gains[:, None] * (STAKES / self._most(j, epoch)))
            # One after the other, so that it does not matter which rounds came in together.
            path = np.add.accumulate(np.concatenate([self.log_wealth[[j]], logs]))
            self.log_wealth[j] = path[-1]
            reached = np.flatnonzero(log_mean_exp(path[1:]) >= self.threshold) if len(logs) else ids[:0]
            if len(reached):
                after = self.rounds + int(ids[reached[0]]) - block.first_id + 1
                self.stopped_after = min(self.stopped_after, after) if self.stopped else after
                self.stopped = True
        self.rounds += block.n_rounds

    def _rail(self, j: int) -> tuple[Rail, float]:
        rail = self.railing.rails[j]
        return rail, 1.0 - rail.sign * self.share

    def _most(self, j: int, epoch: Epoch) -> float:
        """The largest that G_j can be."""
        rail, share = self._rail(j)
        if rail.sign > 0:
            return rail.most
        return share * rail.most / self.railing.floors(epoch.explorer, epoch.leader).shared

    def _gains(self, j: int, epoch: Epoch, block: Block) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Of rounds in which G_j is not 0: their decisions, rising, and G_j."""
        rail, share = self._rail(j)
        brought = np.zeros(len(block.ids))
        if len(block.rows):
            inside = np.asarray(block.inside[:, self.railing.place(epoch.candidates)], dtype=np.float64)
            np.add.at(brought, block.rows, block.weights * inside)
        if rail.sign > 0:
            return block.ids, block.rewards - share * brought
        brought[np.isin(block.ids, block.uncovered)] = rail.most
        alone = np.setdiff1d(block.uncovered, block.ids)
        ids = np.concatenate([block.ids, alone])
        gains = np.concatenate([share * brought - block.rewards, np.full(len(alone), share * rail.most)])
        order = np.argsort(ids, kind="stable")
        return ids[order], gains[order]

    SCHEMA: ClassVar = {
        "log_wealth": Array("f8", ("J", len(STAKES))),
        "rounds": Whole(0),
        "stopped": Flag(),
        "stopped_after": Whole(0),
    }

    def state(self) -> State:
        """The sums, for a file; see `comband.page.storage`."""
        return state_of(self, self.SCHEMA)

    def restore(self, state: State, n_rounds: Sequence[int]) -> None:
        """The inverse of `state`, checked."""
        check(state, self.SCHEMA, J=len(self.log_wealth))
        put_into(self, self.SCHEMA, state)
        require(
            self.rounds == sum(n_rounds)
            and self.stopped_after <= self.rounds
            and self.stopped == (self.stopped_after > 0),
            "the breaker must have seen all rounds.",
        )
