"""Whether candidates change places: which pairs are watched, and what each round says about them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.epochs import Epoch
from comband.certify.notifications import Began, BuiltInGuard, Entered, Moment, Watched
from comband.page.storage import State, Whole
from comband.policies.reading import reading_of
from comband.statistics.order_guard import OrderGuard

_REWARDED = 10  # rounds that must have had a reward before a candidate is worth watching
_RIVALS = 2  # of an epoch's leader: those that take longest to tell from it, by expectation
_PAIRS = 16  # at one time
_LOOK_AGAIN, _LOOK_AFTER = 1.02, 100  # when so many times the rounds are in, and so many more: a look takes a while


class OrdersGuard(BuiltInGuard):
    """Whether the leader and the rivals that come closest to it keep their distance; see `OrderGuard`.

    Pairs are chosen when an epoch begins, and watched as long as both are candidates.
    """

    WATCHES = "differences between candidates stay the same over time"
    LOOKS_AT = (Began, Entered)

    def __init__(self, watched: Watched) -> None:
        self.problem, self.names = watched.problem, watched.names
        self.order = OrderGuard(max_reward=self.problem.max_reward, period=watched.period)
        self._pending: tuple[Entered, ...] = ()  # rounds that are yet to be looked at
        self.rewarded = self.entered = self.looked = 0  # rounds with a reward; of any pair; at the last look

    def observe(self, moment: Moment) -> None:
        """Rounds as they enter the evidence, and new epochs."""
        if isinstance(moment, Began):
            self.names = moment.names
            self._take_in()
            self._choose(moment.epoch)
        elif isinstance(moment, Entered):
            self.rewarded += len(moment.block.ids)
            if len(self.order.pairs) == 0 or self.order.alarm:
                return
            self._pending = (*self._pending, moment)
            self.entered += moment.block.n_rounds
            if self.entered >= max(_LOOK_AGAIN * self.looked, self.looked + _LOOK_AFTER):
                self._take_in()
                self.order.look()
                self.looked = self.entered

    def _choose(self, epoch: Epoch) -> None:
        pairs, candidates = self.order.pairs, epoch.candidates
        self.order.keep(np.asarray(np.isin(pairs, candidates).all(axis=1)))
        if self.rewarded < _REWARDED:
            return
        rivals = candidates[np.argsort(epoch.growth, kind="stable")]
        for rival in rivals[rivals != epoch.leader][:_RIVALS]:
            one, other = min(epoch.leader, int(rival)), max(epoch.leader, int(rival))
            known = (self.order.pairs == (one, other)).all(axis=1).any()
            if len(self.order.pairs) < _PAIRS and not known:
                self.order.begin(one, other, epoch.first_id)

    def _take_in(self) -> None:
        """Enter the rounds that wait, those of one epoch at a time."""
        waiting, self._pending = self._pending, ()
        while waiting:
            epoch = waiting[0].epoch
            mine, waiting = (
                tuple(part for part in waiting if part.epoch is epoch),
                tuple(part for part in waiting if part.epoch is not epoch),
            )
            which = np.flatnonzero(np.isin(self.order.pairs, epoch.candidates).all(axis=1))
            if len(which) == 0:
                continue
            pairs = self.order.pairs[which]
            self.order.update(
                which,
                np.concatenate([_differences(part, pairs) for part in mine]),
                np.concatenate([part.block.ids for part in mine]),
                rounds=np.concatenate([part.decisions for part in mine]),
                uncovered=np.concatenate([part.uncovered for part in mine]),
                bounds=np.array([self._bounds(epoch, *pair) for pair in pairs.tolist()]),
            )

    def _bounds(self, epoch: Epoch, one: int, other: int) -> tuple[float, float]:
        """The most that X(other) − X(one), and X(one) − X(other), can be in a covered round of an epoch."""
        explorer, rival = epoch.explorer, epoch.bets.bound
        if reading_of(self.problem).TOTAL:  # X may be negative, and no less than −value_bound
            leader = most = 2 * epoch.value_bound
        else:
            leader = self.problem.max_reward / getattr(explorer, "smallest_of_leader", explorer.smallest)
            most = max(leader, rival)
        return (rival, leader) if epoch.leader == one else (leader, rival) if epoch.leader == other else (most, most)

    @property
    def warning(self) -> str:
        """Who has changed places."""
        return self.order.message(self.names)

    def parts(self) -> tuple[object, ...]:
        """It, and its e-process."""
        return self, self.order

    SCHEMA: ClassVar = {
        "order": OrderGuard.SCHEMA,
        "rewarded": Whole(0),
        "entered": Whole(0),
        "looked": Whole(0),
    }

    def state(self) -> State:
        """The e-process, with the rounds that wait."""
        self._take_in()
        return super().state()

    def _sizes(self) -> dict[str, int]:
        return {"P": len(self.names)}


def _differences(part: Entered, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """(R, p) D of some pairs in the rewarded rounds."""
    block, found = part.block, np.zeros((len(part.block.ids), len(pairs)))
    places = np.searchsorted(part.epoch.candidates, pairs)
    if len(block.rows):
        inside = block.inside.astype(np.float64)
        np.add.at(found, block.rows, block.weights[:, None] * (inside[:, places[:, 0]] - inside[:, places[:, 1]]))
    return found
