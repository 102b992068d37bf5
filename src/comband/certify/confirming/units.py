"""Units of a confirmation that are not complete yet: rounds, or users with all of their rounds that count."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import check_count
from comband.page.storage import Array, State, Whole, check, require

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _no_flags() -> Flags:
    return np.zeros(0, dtype=np.bool_)


class Complete(NamedTuple):
    """Units in the order in which they were assigned: their blocks, whether they were shown the candidate, what they
    collected, whether both lists were the same throughout; and how many of their decisions were never answered.
    """

    blocks: Ints
    mine: Flags
    totals: NDArray[np.float64]
    same: Flags
    unanswered: Ints


@dataclass(frozen=True, slots=True)
class Units:
    """Who is open. All arrays are replaced, never altered.

    visits, window, patience:
        A unit's first `visits` decisions count, of those that follow its first within `window` decisions. It is
        complete when no further one can count and all that do are answered, or older than `patience` decisions.
    entered:
        How many units are complete, which are those before all others.
    issued:
        How many decisions there are.
    first_ids, mine, blocks, totals, same, shown, pending, lost:
        Of each open unit: its first decision, whether it is shown the candidate, its block, what it collected so far,
        whether both lists were the same so far, how many of its decisions count, how many of these wait, and how many
        were never answered.
    first_decision, units, waiting:
        Of each decision from `first_decision` on: its unit (−1: it does not count) and whether it waits for an answer.
    """

    visits: int
    window: int
    patience: int | None
    entered: int = 0
    issued: int = 0
    first_ids: Ints = field(default_factory=_none)
    mine: Flags = field(default_factory=_no_flags)
    blocks: Ints = field(default_factory=_none)
    totals: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    same: Flags = field(default_factory=_no_flags)
    shown: Ints = field(default_factory=_none)
    pending: Ints = field(default_factory=_none)
    lost: Ints = field(default_factory=_none)
    first_decision: int = 0
    units: Ints = field(default_factory=_none)
    waiting: Flags = field(default_factory=_no_flags)

    @property
    def n_units(self) -> int:
        """How many units there are, complete or not."""
        return self.entered + len(self.first_ids)

    def assigned(self, numbers: Ints, mine: Flags, same: Flags, *, block: int) -> Units:
        """With further decisions, one for each number of a unit; units from `n_units` on are new, in order."""
        n, old = len(numbers), self.n_units
        new = max(int(numbers.max(initial=-1)) + 1 - old, 0)
        where = np.full(new, n, dtype=np.int64)
        np.minimum.at(where, numbers[numbers >= old] - old, np.flatnonzero(numbers >= old))
        zeros = np.zeros(new, dtype=np.int64)
        first_ids = np.r_[self.first_ids, self.issued + where]
        at, ids = numbers - self.entered, self.issued + np.arange(n)
        counts = np.zeros(n, dtype=np.bool_)
        shown, pending = np.r_[self.shown, zeros], np.r_[self.pending, zeros]
        together = np.r_[self.same, np.ones(new, dtype=np.bool_)]
        if new == n:  # every decision is the first of a unit
            counts[:], shown, pending = True, shown.copy(), pending.copy()
            shown[len(self.shown) :] = pending[len(self.pending) :] = 1
            together[len(self.same) :] = same
        else:
            for i in np.flatnonzero(at >= 0).tolist():  # a user may come several times in a batch
                unit = at[i]
                if shown[unit] < self.visits and ids[i] <= first_ids[unit] + self.window:
                    counts[i] = True
                    shown[unit] += 1
                    pending[unit] += 1
                    together[unit] &= same[i]
        return replace(
            self,
            issued=self.issued + n,
            first_ids=first_ids,
            mine=np.r_[self.mine, mine[where]],
            blocks=np.r_[self.blocks, np.full(new, block)],
            totals=np.r_[self.totals, np.zeros(new)],
            same=together,
            shown=shown,
            pending=pending,
            lost=np.r_[self.lost, zeros],
            units=np.r_[self.units, np.where(counts, numbers, -1)],
            waiting=np.r_[self.waiting, np.ones(n, dtype=np.bool_)],
        )

    def answered(self, ids: Ints, totals: NDArray[np.float64]) -> tuple[Units, int]:
        """With answers to some decisions, and how many of these came too late."""
        held = ids >= self.first_decision  # all before are overdue
        at = ids[held] - self.first_decision
        waiting, collected, pending = self.waiting.copy(), self.totals.copy(), self.pending.copy()
        waiting[at] = False
        units = self.units[at]
        own = units >= 0
        np.add.at(collected, units[own] - self.entered, totals[held][own])
        np.subtract.at(pending, units[own] - self.entered, 1)
        return replace(self, totals=collected, pending=pending, waiting=waiting), int((~held).sum())

    def completed(self) -> tuple[Units, Complete]:
        """Without those that are complete before all others, and these."""
        waiting, pending, lost = self.waiting, self.pending, self.lost
        if self.patience is not None:
            overdue = max(self.issued - self.patience - self.first_decision, 0)
            given_up = self.units[:overdue][waiting[:overdue]]
            if overdue and waiting[:overdue].any():
                waiting = waiting.copy()
                waiting[:overdue] = False
                now = np.bincount(given_up[given_up >= 0] - self.entered, minlength=len(pending))
                pending, lost = pending - now, lost + now
        closed = (pending == 0) & (self.first_ids + self.window < self.issued)
        n = len(closed) if closed.all() else int(closed.argmin())
        told = len(waiting) if not waiting.any() else int(waiting.argmax())
        complete = Complete(self.blocks[:n], self.mine[:n], self.totals[:n], self.same[:n], lost[:n])
        left = {name: getattr(self, name)[n:] for name in ("first_ids", "mine", "blocks", "totals", "same", "shown")}
        return (
            replace(
                self,
                entered=self.entered + n,
                first_decision=self.first_decision + told,
                units=self.units[told:],
                waiting=waiting[told:],
                pending=pending[n:],
                lost=lost[n:],
                **left,
            ),
            complete,
        )

    SCHEMA: ClassVar = {
        "visits": Whole(1),
        "window": Whole(0),
        "entered": Whole(0),
        "issued": Whole(0),
        "first_decision": Whole(0),
        "first_ids": Array("i8", ("U",), 0, rising=True),
        "mine": Array("b1", ("U",)),
        "blocks": Array("i8", ("U",), 0),
        "totals": Array("f8", ("U",), 0),
        "same": Array("b1", ("U",)),
        "shown": Array("i8", ("U",), 1),
        "pending": Array("i8", ("U",), 0),
        "lost": Array("i8", ("U",), 0),
        "units": Array("i8", ("D",), -1),
        "waiting": Array("b1", ("D",)),
    }

    def state(self) -> State:
        """All of it but the patience by name, for a file; see `comband.page.storage`."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "patience"}

    @classmethod
    def from_state(cls, state: State, *, patience: int | None, issued: int, n_blocks: int) -> Units:
        """The inverse of `state`, checked."""
        first_ids, units = state.get("first_ids"), state.get("units")
        sizes = {"U": len(first_ids) if first_ids is not None else 0, "D": len(units) if units is not None else 0}
        check(state, cls.SCHEMA, U=sizes["U"], D=sizes["D"])
        one = cls(**{name: state[name] for name in cls.SCHEMA}, patience=patience)
        check_count("issued", issued, least=0)
        here = one.units[one.units >= 0]
        waits = np.bincount(here[one.waiting[one.units >= 0]] - one.entered, minlength=sizes["U"]) if here.size else 0
        require(
            one.issued == issued
            and one.first_decision + sizes["D"] == issued
            and bool((one.first_ids < max(issued, 1)).all() and (one.blocks < max(n_blocks, 1)).all())
            and bool((here >= one.entered).all() and (here < one.n_units).all() if here.size else True)
            and bool((one.shown <= one.visits).all() and (one.pending + one.lost <= one.shown).all())
            and bool(np.array_equal(np.broadcast_to(waits, one.pending.shape), one.pending)),
            "open units must be those of open decisions.",
        )
        return one
