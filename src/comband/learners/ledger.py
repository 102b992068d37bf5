"""Which decisions were made and which were answered: late, partial, out-of-order and repeated feedback made safe."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comband._kernels.records import compare_rows, issue_rows, reward_digests, settle_rows
from comband.page.contexts import context_digests
from comband.page.problem import InputError, UnknownDecisionError
from comband.page.rounds import Decisions, read_only, sign
from comband.page.storage import Array, Default, Maybe, State, Whole, check, require
from comband.statistics.results import Receipt

_ROOM = 256  # rows, at least
_COLUMNS = {
    2: "its list or propensities differ",
    4: "its epoch, covered or arm differs",
    8: "its context differs (was a buffer used again?)",
}


class Admission(NamedTuple):
    """Told decisions that agree with the record: `rows` (positions) are answered for the first time; where an answer
    has several parts, `parts` has those rows for each part that was told.
    """

    rows: NDArray[np.int64]
    receipt: Receipt
    ids: NDArray[np.int64]
    new: NDArray[np.bool_] | None  # None: all of them, and they are the last that were made
    digests: NDArray[np.uint64] | None  # of the rewards; None: there are none
    parts: Mapping[int, NDArray[np.int64]] | None = None
    of_parts: Mapping[int, NDArray[np.uint64]] | None = None  # digests of each


class Ledger:
    """The learner's own record of its decisions, which alone it goes by.

    Of each decision since the oldest unanswered one it keeps 25 bytes (and room to grow): a digest of list and
    propensities, one of epoch, covered and arm, one of the context, and whether it is answered; of each rewarded round
    one number; and of all decisions ever which copy of the learner made them. A copy is what is constructed, loaded,
    unpickled or forked: it draws a number of its own from the system, so that no copy takes decisions that another made
    since.

    The rows of the last decisions are written when they are needed: when exactly what `issue` was given comes back and
    nothing else is open, which is the usual way, it is known by being the same object, and no digest is taken. That
    needs columns that cannot have been altered: the records' own cannot, and contexts can if they are not `sealed`.

    An answer may have several parts (rewards, and each further metric), which come at different times: a decision is
    answered when all of them are there.

    Parameters
    ----------
    n_parts:
        How many parts an answer has.
    """

    def __init__(self, n_parts: int = 1) -> None:
        self.n_parts = n_parts
        self.issued = 0
        self.answered = 0
        self._partly: dict[int, int] = {}  # of decisions of which some parts came and others did not: bits of those
        self._low = 0  # every id below is answered, and needs no row in the two columns
        self._head = 0  # where the rows begin: `_low` is there, and `issued` would be at `_head + held`
        self._known = np.empty((_ROOM, 3), dtype=np.uint64)
        self._done = np.zeros(_ROOM, dtype=np.bool_)
        self._unwritten: Decisions | None = None  # those up to `issued`, whose rows are not filled in yet
        self._rewarded: dict[int, int] = {}
        # Decisions from `_starts[k]` on were made by `_makers[k]`.
        self._starts = np.zeros(1, dtype=np.int64)
        self._makers = np.zeros(1, dtype=np.int64)
        self._signature = np.zeros(1, dtype=np.int64)
        self._process = -1
        self._become_another()

    @property
    def held(self) -> int:
        """How many decisions have a row: those since the oldest unanswered one."""
        return self.issued - self._low

    def issue(self, decisions: Decisions, contexts: NDArray[np.uint64] | None = None) -> None:
        """Sign and remember decisions numbered from `issued` on; `contexts` are the digests of their contexts, which
        may be left out if these are sealed.
        """
        if self._unwritten is not None:
            self._write()
        if self._process != os.getpid():
            self._become_another()
        n, held = len(decisions), self.issued - self._low
        if self._head + held + n > len(self._known):
            self._move(max(_ROOM, 2 * (held + n)))
        if n > len(self._signature):
            self._signature = read_only(np.full(n, self._signature[0]))
        sign(decisions, self._signature[:n])
        if contexts is not None:
            self._fill(decisions, contexts, self._head + held)
            self.issued += n
        else:
            self._unwritten, self.issued = decisions, self.issued + n

    def withdraw(self, issued: int) -> None:
        """Forget the decisions from `issued` on, which were never given out."""
        if self.issued > issued:
            self._unwritten, self.issued = None, issued

    def admit(self, decisions: Decisions, rewards: NDArray[np.float64]) -> Admission:
        """Compare what is told with the record, and say which rows are answered for the first time; changes nothing.

        If a decision comes twice, its first row counts. What differs from the record is refused, all of it.
        """
        if self._unwritten is not None:
            n = len(decisions.ids)
            if decisions is self._unwritten and self.issued - self._low == n:
                digests = reward_digests(rewards) if np.count_nonzero(rewards) else None
                return Admission(_count(n), _all_accepted(n), decisions.ids, None, digests)
            self._write()
        ids, new, n_new = self._compare(decisions)
        digests = reward_digests(rewards)
        if n_new == len(ids):
            return Admission(_count(n_new), _all_accepted(n_new), ids, new, digests)
        again = np.flatnonzero(~new)
        mine = dict(zip(ids[new].tolist(), digests[new].tolist(), strict=True))
        first = [mine.get(one, self._rewarded.get(one, 0)) for one in ids[again].tolist()]
        conflicts = tuple(int(ids[row]) for row, was in zip(again, first, strict=True) if was != int(digests[row]))
        return Admission(np.flatnonzero(new), Receipt(n_new, len(again) - len(conflicts), conflicts), ids, new, digests)

    def admit_parts(self, decisions: Decisions, told: Mapping[int, NDArray[np.float64]]) -> Admission:
        """The same for some parts of an answer, by their numbers: a decision is accepted if any of them is new."""
        self._write()
        ids, new, _ = self._compare(decisions)
        n = len(ids)
        parts: dict[int, NDArray[np.int64]] = {}
        digests: dict[int, NDArray[np.uint64]] = {}
        conflicts = np.zeros(n, dtype=np.bool_)
        _, first_rows, back = np.unique(ids, return_index=True, return_inverse=True)
        first = first_rows[back]  # the first row of the same decision
        have = np.array([self._partly.get(one, 0) for one in ids.tolist()], dtype=np.int64)
        accepted = np.zeros(n, dtype=np.bool_)
        for part, values in told.items():
            mine = new & (have >> part & 1 == 0)
            digests[part], parts[part] = reward_digests(values), np.flatnonzero(mine)
            keys = (ids * self.n_parts + part).tolist()
            known = np.array([self._rewarded.get(key, 0) for key in keys], dtype=np.uint64)
            was = np.where(mine[first], digests[part][first], known)
            conflicts |= ~mine & (was != digests[part])
            accepted |= mine
        n_new, in_vain = int(accepted.sum()), tuple(ids[conflicts].tolist())
        receipt = Receipt(n_new, int((~accepted & ~conflicts).sum()), in_vain)
        return Admission(np.flatnonzero(accepted), receipt, ids, new, None, parts, digests)

    def _compare(self, decisions: Decisions) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
        """Numbers of decisions, which rows are of one that is not answered yet, each once, and how many; refused if any
        differs from the record.
        """
        ids, lists, bits = _shown_columns(decisions)
        differs, new, n_faults, n_new = compare_rows(
            ids,
            lists,
            bits,
            *_plan_columns(decisions),
            context_digests(decisions.contexts),
            np.ascontiguousarray(decisions.makers),
            self._known,
            self._done,
            self._head,
            self._low,
            self.issued,
            self._starts,
            self._makers,
        )
        if n_faults:
            row = int(np.flatnonzero(differs)[0])
            raise UnknownDecisionError(
                f"decision {int(ids[row])} {self._what_differs(int(differs[row]), int(decisions.makers[row]))}; tell "
                f"exactly what ask() returned, all columns of it. {n_faults} of {len(ids)} are unknown, and none was "
                "taken in."
            )
        return ids, new, n_new

    def settle(self, admission: Admission) -> None:
        """Mark as answered what was admitted."""
        if admission.parts is not None:
            self._settle_parts(admission)
            return
        ids, new, digests = admission.ids, admission.new, admission.digests
        if digests is not None:
            rewarded = np.flatnonzero(digests if new is None else digests * new)
            self._rewarded.update(zip(ids[rewarded].tolist(), digests[rewarded].tolist(), strict=True))
        if new is None:
            self._unwritten, self._low = None, self.issued
        else:
            settled = settle_rows(ids, new, self._done, self._head, self._low, self.issued)
            self._low += settled
            self._head += settled
        self.answered += admission.receipt.accepted

    def _settle_parts(self, admission: Admission) -> None:
        ids, parts, digests = admission.ids, admission.parts or {}, admission.of_parts or {}
        for part, rows in parts.items():
            for one, digest in zip(ids[rows].tolist(), digests[part][rows].tolist(), strict=True):
                self._partly[one] = self._partly.get(one, 0) | 1 << part
                if digest:
                    self._rewarded[one * self.n_parts + part] = digest
        whole = (1 << self.n_parts) - 1
        done = np.zeros(len(ids), dtype=np.bool_)
        done[admission.rows] = [self._partly[one] == whole for one in ids[admission.rows].tolist()]
        _, first = np.unique(ids, return_index=True)
        done &= np.isin(np.arange(len(ids)), first)
        for one in ids[done].tolist():
            del self._partly[one]
        settled = settle_rows(ids, done, self._done, self._head, self._low, self.issued)
        self._low += settled
        self._head += settled
        self.answered += int(done.sum())

    def parts_from(self, first_id: int) -> NDArray[np.bool_]:
        """Whether each part of each decision from `first_id` on is answered, (issued − first_id, parts)."""
        told = np.repeat(self.answered_from(first_id)[:, None], self.n_parts, axis=1)
        for one, bits in self._partly.items():
            if one >= first_id:
                told[one - first_id] = [bits >> part & 1 for part in range(self.n_parts)]
        return told

    def n_told(self, part: int) -> int:
        """How many decisions have this part of their answer."""
        return self.answered + sum(bits >> part & 1 for bits in self._partly.values())

    def answered_from(self, first_id: int) -> NDArray[np.bool_]:
        """Whether each decision from `first_id` on is answered, (issued − first_id,), for the caller to keep."""
        answered, known = np.empty(self.issued - first_id, dtype=np.bool_), max(first_id, self._low)
        answered[: known - first_id] = True
        answered[known - first_id :] = self._rows(self._done)[known - self._low :]
        if self._unwritten is not None:
            answered[max(self.issued - len(self._unwritten) - first_id, 0) :] = False
        return answered

    def overtaken(self, first_id: int = 0) -> int:
        """How many open decisions, of those from `first_id` on, are older than some answered one."""
        self._write()
        done = self._rows(self._done)[max(first_id - self._low, 0) :]
        answered = np.flatnonzero(done)
        return int(answered[-1] + 1 - len(answered)) if len(answered) else 0

    def state(self) -> State:
        """The record by name, for a file; see `comband.page.storage`."""
        self._write()
        rewarded = sorted(self._rewarded)  # whatever came first
        return {
            "issued": self.issued,
            "answered": self.answered,
            "known": self._rows(self._known),
            "done": self._rows(self._done),
            "makers": {"starts": self._starts, "numbers": self._makers},
            "rewarded": {
                "ids": np.array(rewarded, dtype=np.int64),
                "digests": np.array([self._rewarded[one] for one in rewarded], dtype=np.uint64),
            },
            **({} if self.n_parts == 1 else {"partly": self._partly_state()}),
        }

    def _partly_state(self) -> State:
        ids = np.array(sorted(self._partly), dtype=np.int64)
        told = [[self._partly[one] >> part & 1 for part in range(self.n_parts)] for one in ids.tolist()]
        return {"ids": ids, "told": np.array(told, dtype=np.bool_).reshape(len(ids), self.n_parts)}

    @classmethod
    def from_state(cls, state: State, n_parts: int = 1) -> Ledger:
        """The inverse of `state`, checked, as another copy."""
        check(
            state,
            {
                "issued": Whole(0, size="issued"),
                "answered": Whole(0, "issued"),
                "known": Array("u8", ("held", 3)),
                "done": Array("?", ("held",)),
                "makers": {
                    "starts": Array("i8", ("copies",), 0, "issued", rising=True),
                    "numbers": Array("i8", ("copies",), 0, 2**52),
                },
                "rewarded": {
                    "ids": Array("i8", ("rewarded",), 0),
                    "digests": Array("u8", ("rewarded",), 1),
                },
                "partly": Default(
                    Maybe(
                        {
                            "ids": Array("i8", ("partly",), 0, "issued-1", rising=True),
                            "told": Array("?", ("partly", n_parts)),
                        }
                    )
                ),
            },
            place="ledger",
        )
        ledger, done, starts = cls(n_parts), state["done"], state["makers"]["starts"]
        ledger.issued, ledger.answered = state["issued"], state["answered"]
        ledger._low = low = ledger.issued - len(done)
        ids, digests = state["rewarded"]["ids"], state["rewarded"]["digests"]
        partly = state["partly"]
        if partly is None:
            if n_parts > 1:  # files from before answers came in parts hold digests of whole ones: of no use for those
                ids, digests = ids[:0], digests[:0]
            partly = {"ids": np.empty(0, dtype=np.int64), "told": np.empty((0, n_parts), dtype=np.bool_)}
        of, bits = ids // n_parts, dict(zip(partly["ids"].tolist(), partly["told"], strict=True))
        require(
            low >= 0
            and low + int(done.sum()) == ledger.answered
            and not done[:1].any()
            and len(np.unique(ids)) == len(ids)
            and int(of.max(initial=-1)) < ledger.issued
            and all(
                one < low or done[one - low] or bool(bits.get(one, {key % n_parts: False})[key % n_parts])
                for one, key in zip(of.tolist(), ids.tolist(), strict=True)
            )
            and all(one >= low and not done[one - low] and 0 < row.sum() < n_parts for one, row in bits.items())
            and (n_parts > 1 or not bits)
            and starts[:1].tolist() == [0],
            "the record of decisions and answers must agree with itself.",
        )
        ledger._partly = {one: sum(1 << part for part in np.flatnonzero(row).tolist()) for one, row in bits.items()}
        ledger._known, ledger._done = state["known"], done
        ledger._starts, ledger._makers = starts, state["makers"]["numbers"]
        ledger._rewarded = dict(zip(ids.tolist(), digests.tolist(), strict=True))
        ledger._become_another()
        return ledger

    def __getstate__(self) -> dict[str, Any]:
        self._write()
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._become_another()

    def _become_another(self) -> None:
        """Take a number of one's own for the decisions from now on."""
        maker, kept = 1 + secrets.randbelow(2**52 - 1), self._starts < self.issued
        self._starts, self._makers = np.r_[self._starts[kept], self.issued], np.r_[self._makers[kept], maker]
        self._signature, self._process = read_only(np.array([maker])), os.getpid()

    def _what_differs(self, differs: int, maker: int) -> str:
        if maker and (differs & 16 or (differs & 1 and maker != self._makers[-1])):
            return "was made by another copy of this learner, or by another learner"
        if differs & 1:
            return f"was not made by this learner, which has made {self.issued:,}"
        wrong = [text for bit, text in _COLUMNS.items() if differs & bit]
        if differs & 16:
            wrong.append("its maker is missing")
        return f"is not as this learner made it: {', '.join(wrong)}"

    def _write(self) -> None:
        """Fill in the rows of the last decisions, if they are not."""
        last = self._unwritten
        if last is not None:
            self._fill(last, context_digests(last.contexts), self._head + self.held - len(last))
            self._unwritten = None

    def _fill(self, decisions: Decisions, contexts: NDArray[np.uint64], place: int) -> None:
        issue_rows(*_shown_columns(decisions), *_plan_columns(decisions), contexts, self._known, self._done, place)

    def _rows(self, column: NDArray[Any]) -> NDArray[Any]:
        return column[self._head : self._head + self.held]

    def _move(self, size: int) -> None:
        known, done = np.empty((size, 3), dtype=np.uint64), np.zeros(size, dtype=np.bool_)
        known[: self.held], done[: self.held] = self._rows(self._known), self._rows(self._done)
        self._known, self._done, self._head = known, done, 0


@lru_cache(maxsize=64)
def _all_accepted(n: int) -> Receipt:
    return Receipt(n, 0, ())


def _count(n: int) -> NDArray[np.int64]:
    return _FIRST if n == 1 else np.arange(n)


_FIRST: NDArray[np.int64] = read_only(np.zeros(1, dtype=np.int64))


def _shown_columns(decisions: Decisions) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    lists, propensities = np.ascontiguousarray(decisions.lists), np.ascontiguousarray(decisions.propensities)
    if lists.shape != propensities.shape:
        raise InputError(f"decisions need a propensity for each shown action, {lists.shape}, got {propensities.shape}.")
    if decisions.placements is not None:
        propensities = np.concatenate([propensities, decisions.placements.reshape(len(lists), -1)], axis=1)
    return np.ascontiguousarray(decisions.ids), lists, propensities.view(np.uint64)


def _plan_columns(decisions: Decisions) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    epochs, arms = np.ascontiguousarray(decisions.epochs), np.ascontiguousarray(decisions.arms)
    return epochs, np.ascontiguousarray(decisions.covered), arms
