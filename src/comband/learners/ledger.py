"""Which decisions were made and which were answered: late, partial, out-of-order and repeated feedback made safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels import admit_rows, decision_prints, reward_prints
from comband.problem import InputError, UnknownDecisionError
from comband.rounds import Decisions

_ROOM = 256  # rows, at least


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one `tell`.

    accepted: how many decisions were answered for the first time.
    duplicates: how many had been answered before, the same way; nothing changed.
    conflicts: ids that had been answered before in another way; the first answer counts.
    """

    accepted: int
    duplicates: int
    conflicts: tuple[int, ...]


class Ledger:
    """Keeps nine bytes (and room to grow) for each decision since the oldest unanswered one, and one number for each
    rewarded round.
    """

    def __init__(self) -> None:
        self.issued = 0
        self.answered = 0
        self._low = 0  # every id below is answered, and needs no row in the two columns
        self._head = 0  # where the rows begin: `_low` is there, and `issued` would be at `_head + held`
        self._prints = np.empty(_ROOM, dtype=np.uint64)
        self._done = np.zeros(_ROOM, dtype=np.bool_)
        self._rewarded: dict[int, int] = {}

    @property
    def held(self) -> int:
        """How many decisions have a row: those since the oldest unanswered one."""
        return self.issued - self._low

    def issue(self, decisions: Decisions) -> None:
        """Remember decisions numbered from `issued` on."""
        n, tail = len(decisions), self._head + self.held
        if tail + n > len(self._prints):
            self._move(max(_ROOM, 2 * (self.held + n)))
            tail = self.held
        self._prints[tail : tail + n] = _prints(decisions)
        self._done[tail : tail + n] = False
        self.issued += n

    def admit(self, decisions: Decisions, rewards: NDArray[np.float64]) -> tuple[NDArray[np.int64], Receipt]:
        """Rows that are answered for the first time, and the receipt. Raises before anything is changed.

        If a decision comes twice, its first row counts.
        """
        ids = np.ascontiguousarray(decisions.ids)
        unknown, new, n_unknown, n_new, settled = admit_rows(
            ids, _prints(decisions), self._prints, self._done, self._head, self._low, self.issued
        )
        if n_unknown:
            raise UnknownDecisionError(
                f"decision {int(ids[unknown][0])} was not made by this learner (or its list or propensities were "
                f"changed since); tell it exactly what ask() returned. {n_unknown} of {len(ids)} are unknown, "
                "and none was taken in."
            )
        self._low += settled
        self._head += settled
        self.answered += n_new
        prints = reward_prints(rewards)
        if np.count_nonzero(prints):
            for row in np.flatnonzero(prints * new):
                self._rewarded[int(ids[row])] = int(prints[row])
        if n_new == len(ids):
            return np.arange(n_new), Receipt(n_new, 0, ())
        accepted, again = np.flatnonzero(new), np.flatnonzero(~new)
        conflicts = tuple(int(ids[row]) for row in again if self._rewarded.get(int(ids[row]), 0) != int(prints[row]))
        return accepted, Receipt(n_new, len(again) - len(conflicts), conflicts)

    def overtaken(self, first_id: int = 0) -> int:
        """How many open decisions, of those from `first_id` on, are older than some answered one."""
        done = self._rows(self._done)[max(first_id - self._low, 0) :]
        answered = np.flatnonzero(done)
        return int(answered[-1] + 1 - len(answered)) if len(answered) else 0

    def pack(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for a file."""
        return {
            "counts": np.array([self.issued, self.answered, self._low]),
            "prints": self._rows(self._prints),
            "done": self._rows(self._done),
            "rewarded_ids": np.array(list(self._rewarded), dtype=np.int64),
            "rewarded_prints": np.array(list(self._rewarded.values()), dtype=np.uint64),
        }

    @classmethod
    def unpack(cls, arrays: dict[str, NDArray[Any]]) -> Ledger:
        """The inverse of `pack`."""
        ledger = cls()
        ledger.issued, ledger.answered, ledger._low = (int(v) for v in arrays["counts"])
        ledger._prints, ledger._done = arrays["prints"], arrays["done"]
        ids, prints = arrays["rewarded_ids"].tolist(), arrays["rewarded_prints"].tolist()
        ledger._rewarded = dict(zip(ids, prints, strict=True))
        return ledger

    def _rows(self, column: NDArray[Any]) -> NDArray[Any]:
        return column[self._head : self._head + self.held]

    def _move(self, size: int) -> None:
        prints, done = np.empty(size, dtype=np.uint64), np.zeros(size, dtype=np.bool_)
        prints[: self.held], done[: self.held] = self._rows(self._prints), self._rows(self._done)
        self._prints, self._done, self._head = prints, done, 0


def _prints(decisions: Decisions) -> NDArray[np.uint64]:
    lists, propensities = np.ascontiguousarray(decisions.lists), np.ascontiguousarray(decisions.propensities)
    if lists.shape != propensities.shape:
        raise InputError(f"decisions need a propensity for each shown action, {lists.shape}, got {propensities.shape}.")
    return np.asarray(decision_prints(np.ascontiguousarray(decisions.ids), lists, propensities.view(np.uint64)))
