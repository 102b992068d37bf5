"""Which decisions were made and which were answered: late, partial, out-of-order and repeated feedback made safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels import decision_prints, reward_prints
from comband.problem import UnknownDecisionError
from comband.rounds import Decisions


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
    """Keeps nine bytes for each decision since the oldest unanswered one, and one number for each rewarded round."""

    def __init__(self) -> None:
        self.issued = 0
        self.answered = 0
        self._low = 0  # every id below is answered, and needs no row in the two columns
        self._prints = np.empty(0, dtype=np.uint64)
        self._done = np.empty(0, dtype=np.bool_)
        self._rewarded: dict[int, int] = {}

    def issue(self, decisions: Decisions) -> None:
        """Remember decisions numbered from `issued` on."""
        self.issued += len(decisions)
        self._prints = np.concatenate([self._prints, _prints(decisions)])
        self._done = np.concatenate([self._done, np.zeros(len(decisions), dtype=np.bool_)])

    def admit(self, decisions: Decisions, rewards: NDArray[np.float64]) -> tuple[NDArray[np.int64], Receipt]:
        """Rows that are answered for the first time, and the receipt. Raises before anything is changed."""
        ids = decisions.ids
        unknown = (ids < 0) | (ids >= self.issued)
        inside = ~unknown & (ids >= self._low)
        place = ids[inside] - self._low
        unknown[inside] = self._prints[place] != _prints(decisions)[inside]
        if unknown.any():
            raise UnknownDecisionError(
                f"decision {int(ids[unknown][0])} was not made by this learner (or its list or propensities were "
                f"changed since); tell it exactly what ask() returned. {int(unknown.sum())} of {len(ids)} are unknown, "
                "and none was taken in."
            )
        new = np.zeros(len(ids), dtype=np.bool_)
        new[inside] = ~self._done[place]
        if (ids[1:] <= ids[:-1]).any():  # perhaps the same decision twice: its first row counts
            repeated_here = np.ones(len(ids), dtype=np.bool_)
            repeated_here[np.unique(ids, return_index=True)[1]] = False
            new &= ~repeated_here

        prints = reward_prints(rewards)
        for row in np.flatnonzero(new & (prints != 0)):
            self._rewarded[int(ids[row])] = int(prints[row])
        conflicts = tuple(
            int(ids[row]) for row in np.flatnonzero(~new) if self._rewarded.get(int(ids[row]), 0) != int(prints[row])
        )
        self._done[ids[new] - self._low] = True
        self.answered += int(new.sum())
        self._forget_answered()
        accepted = np.flatnonzero(new)
        duplicates = len(ids) - len(accepted) - len(conflicts)
        return accepted, Receipt(len(accepted), duplicates, conflicts)

    def overtaken(self, first_id: int = 0) -> int:
        """How many open decisions, of those from `first_id` on, are older than some answered one."""
        done = self._done[max(first_id - self._low, 0) :]
        answered = np.flatnonzero(done)
        return int(answered[-1] + 1 - len(answered)) if len(answered) else 0

    def pack(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for a file."""
        return {
            "counts": np.array([self.issued, self.answered, self._low]),
            "prints": self._prints,
            "done": self._done,
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

    def _forget_answered(self) -> None:
        open_rows = np.flatnonzero(~self._done)
        leading = int(open_rows[0]) if len(open_rows) else len(self._done)
        self._prints, self._done = self._prints[leading:].copy(), self._done[leading:].copy()
        self._low += leading


def _prints(decisions: Decisions) -> NDArray[np.uint64]:
    bits = np.ascontiguousarray(decisions.propensities).view(np.uint64)
    return np.asarray(decision_prints(decisions.ids, decisions.lists, bits))
