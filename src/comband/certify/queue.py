"""Decisions and answers in order: what may enter the evidence, what waits, what is late, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.learners.ledger import Ledger
from comband.page.lists import check_lists, check_propensities
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions, Events, Rounds, events_of_rounds
from comband.page.storage import Array, Column, Default, Held, Many, Stored, Whole, require
from comband.policies.policy_set import PolicySet


@dataclass(frozen=True, eq=False, slots=True)
class Settled:
    """Rounds that enter the evidence, in the order of decisions.

    first_id, epochs, covered:
        Of their decisions, from the first on: (n,) epochs, and whether each is covered.
    events, further:
        Their rewards, and what they say of each further metric.
    unanswered:
        Batches of decisions, and which rows of them were never answered in time.
    """

    first_id: int
    epochs: NDArray[np.int64]
    covered: NDArray[np.bool_]
    events: Events
    further: tuple[Events, ...]
    unanswered: list[tuple[Decisions, NDArray[np.int64]]]


class Queue(Stored):
    """A decision enters the evidence in the order in which decisions were made, once it and all before it are answered,
    or have waited for `patience` further decisions (then it counts as without reward): answers that come early cannot
    bias the result.

    An answer's age is the number of decisions that were made since, when it is told, whatever was told before: what
    is older than the patience is late, and counts as if it had not come. So the same answers, told after the same
    numbers of decisions, lead to the same state in whatever order and in whatever parts they are told.

    An answer has several parts where further metrics are told: rewards (part 0), and the values of each. Each comes
    when it comes, and is waited for as long as its own patience says; there is one front for all of them, that of the
    slowest.

    Parameters
    ----------
    ledger:
        The learner's record of its decisions.
    patience:
        How many later decisions a decision waits for its answer; None: for ever.
    period:
        How many decisions enter the evidence together.
    further:
        The patience of each further part.
    """

    def __init__(
        self, ledger: Ledger, *, patience: int | None, period: int = 1, further: Sequence[int | None] = ()
    ) -> None:
        self.ledger, self.patience, self.period = ledger, patience, period
        self.patiences = (patience, *further)
        self.front = 0  # all decisions below are in the evidence
        self.missing = self.late = 0  # of part 0
        self.lacking, self.tardy = [0] * len(further), [0] * len(further)  # of the others
        # Told in vain, and so not overdue, however long they wait: the decision's number times that of parts, plus the
        # part's.
        self.failed: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._epochs = np.empty(0, dtype=np.int64)  # of decisions from the front on
        self._covered = np.empty(0, dtype=np.bool_)
        self._answered = np.empty(0, dtype=np.bool_)  # in time, part 0
        self._others = np.empty((0, len(further)), dtype=np.bool_)  # the others
        self._held = Events.none()  # answered, but behind an unanswered one; in the order of decisions
        self._further = [Events.none()] * len(further)  # of each metric, the same
        self._open: list[Decisions] = []  # batches with decisions that may stay without answer

    @property
    def oldest(self) -> int:
        """The first decision whose rewards are not overdue: those of the ones before it are late."""
        return self.oldest_of(0)

    def oldest_of(self, part: int) -> int:
        """The same of one part of answers."""
        patience = self.patiences[part]
        return 0 if patience is None else max(self.ledger.issued - patience, 0)

    @property
    def waits_for_ever(self) -> bool:
        """Whether no part is ever overdue."""
        return all(one is None for one in self.patiences)

    @property
    def may_be_overdue(self) -> bool:
        """Whether a part of a decision that is not in the evidence is overdue."""
        least = min((one for one in self.patiences if one is not None), default=None)
        return least is not None and self.front < self.ledger.issued - least

    @property
    def failed_decisions(self) -> NDArray[np.int64]:
        """Those of which a part was told in vain."""
        return np.unique(self.failed // len(self.patiences))

    @property
    def waiting(self) -> int:
        """How many decisions are neither answered nor overdue."""
        return int(self.blocking.sum())

    @property
    def behind(self) -> int:
        """How many answers do not count yet, because an older decision has none."""
        return int(self.whole.sum())

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Whether all parts of each decision from the front on have come in time."""
        return self._answered & self._others.all(axis=1) if self._further else self._answered

    def _told(self) -> NDArray[np.bool_]:
        """(n, parts) of them, in an array of its own."""
        return np.concatenate([self._answered[:, None], self._others], axis=1)

    def check_batch(self, n: int, first_id: int, epoch: int) -> None:
        """Refuse a batch of which some would be overdue before they could be answered, that reaches into the next
        period, or that is of another epoch than what the period began with: its rounds enter together, and bets of one
        epoch must see all of a rhythm or nothing.
        """
        begun = int(self._epochs[-1]) if first_id % self.period else epoch
        if n and begun != epoch:
            raise InputError(
                "all decisions of a period must be drawn with one epoch's plan: this one, with "
                f"{-first_id % self.period:,} to go, began with that of epoch {begun}, got epoch {epoch}; adopt what "
                "was drawn with the former until the period is over."
            )
        room = self.period - first_id % self.period
        if self.period > 1 and n > room:
            raise InputError(
                f"a batch must not reach into the next period, which begins in {room:,} decisions, got {n:,} contexts: "
                "cut it there."
            )
        patience = min((one for one in self.patiences if one is not None), default=None)
        if patience is not None and n > patience:
            raise InputError(
                f"a batch must not be larger than patience={patience}, got {n} contexts: its first "
                "decisions would be overdue before they could be answered."
            )

    def append(self, decisions: Decisions) -> None:
        """Decisions that were just made."""
        answered = np.zeros(len(decisions), dtype=np.bool_)
        others = np.zeros((len(decisions), len(self._further)), dtype=np.bool_)
        if len(self._epochs) == 0:  # the usual case
            self._epochs, self._covered = decisions.epochs, decisions.covered
            self._answered, self._others = answered, others
        else:
            self._epochs = np.concatenate([self._epochs, decisions.epochs])
            self._covered = np.concatenate([self._covered, decisions.covered])
            self._answered = np.concatenate([self._answered, answered])
            self._others = np.concatenate([self._others, others])
        if self.patience is not None and len(decisions):
            self._open.append(decisions)

    def settle(self, told: Mapping[int, Rounds]) -> Settled | None:
        """Take in the parts of answers that the ledger is about to note, and let go of what may enter the evidence
        now.
        """
        said = {part: one for part, one in told.items() if np.count_nonzero(one.rewards)}
        if len(told) == len(self.patiences):
            ids = told[0].decisions.ids
            in_order = not said or len(ids) == 1 or bool((ids[1:] > ids[:-1]).all())
            if (
                in_order
                and self._is_all(ids)
                and all(one.decisions.ids is ids or len(one) == len(ids) for one in told.values())
            ):
                none = (self._held, *self._further)  # of which none holds anything
                events, *further = (said[part].events() if part in said else one for part, one in enumerate(none))
                return self._let_go(len(ids), events, tuple(further), [])
        held, ready = [self._held, *self._further], self._told()
        n_parts = len(self.patiences)
        late = [self.late, *self.tardy]
        for part, one in told.items():
            ids = one.decisions.ids
            in_time = ids >= max(self.front, self.oldest_of(part))
            if len(self.failed):  # they came in time, and had to be told again
                keys = ids * n_parts + part
                in_time |= np.isin(keys, self.failed)
                self.failed = self.failed[~np.isin(self.failed, keys)]
            late[part] += int((~in_time).sum())
            ready[ids[in_time] - self.front, part] = True
            if part in said:
                held[part] = _in_order(held[part] + (one if in_time.all() else one[in_time]).events())
        self.late, *self.tardy = late
        self._answered, self._others = ready[:, 0].copy(), ready[:, 1:].copy()
        self._held, *self._further = held
        return self.settle_overdue()

    def settle_overdue(self) -> Settled | None:
        """Let go of what may enter the evidence now, after no further answer."""
        first = np.flatnonzero(self.blocking)
        n = int(first[0]) if len(first) else len(self._answered)
        n -= (self.front + n) % self.period
        if n == 0:
            return None
        events, further = self._held, self._further
        if len(events):
            events, self._held = _split(events, self.front + n)
        if further:
            parts = [_split(one, self.front + n) for one in further]
            further, self._further = [part[0] for part in parts], [part[1] for part in parts]
        told = self._told()[:n]
        missing, *lacking = (n - told.sum(axis=0)).tolist()
        self.missing += missing
        self.lacking = [before + now for before, now in zip(self.lacking, lacking, strict=True)]
        unanswered = self._unanswered(self.front + np.flatnonzero(~told[:, 0]))
        self._open = [batch for batch in self._open if batch.ids[-1] >= self.front + n]
        return self._let_go(n, events, tuple(further), unanswered)

    def _let_go(
        self,
        n: int,
        events: Events,
        further: tuple[Events, ...],
        unanswered: list[tuple[Decisions, NDArray[np.int64]]],
    ) -> Settled:
        settled = Settled(self.front, self._epochs[:n], self._covered[:n], events, further, unanswered)
        self._epochs, self._covered = self._epochs[n:].copy(), self._covered[n:].copy()
        self._answered, self._others = self._answered[n:].copy(), self._others[n:].copy()
        self.front += n
        return settled

    def _is_all(self, ids: NDArray[np.int64]) -> bool:
        """Whether these are all decisions that wait, and no event waits for them, the common case: they need not be
        kept, nor picked from what is.
        """
        waiting = len(self._epochs)
        return (
            self.waits_for_ever
            and self.period == 1
            and len(ids) == waiting > 0
            and len(self.failed) == len(self._held) == sum(map(len, self._further)) == 0
            and (len(self.patiences) == 1 or not (self._answered.any() or self._others.any()))
            and int(ids[0] if waiting == 1 else ids.min()) >= self.front  # as many as there are, and no number twice
        )

    def note_failed(self, told: Mapping[int, NDArray[np.int64]]) -> None:
        """Answers, the decisions of each part, that could not be taken in because something failed."""
        n_parts = len(self.patiences)
        for part, ids in told.items():
            if self.patiences[part] is not None:
                in_time = ids[ids >= max(self.front, self.oldest_of(part))]
                self.failed = np.union1d(self.failed, in_time * n_parts + part)

    @property
    def blocking(self) -> NDArray[np.bool_]:
        """Which decisions from the front on have a part that has not come, and is still waited for."""
        awaited = ~self._told()
        for part in range(awaited.shape[1]):
            awaited[: max(self.oldest_of(part) - self.front, 0), part] = False
        n_parts = len(self.patiences)
        awaited[self.failed // n_parts - self.front, self.failed % n_parts] = True
        return np.asarray(awaited.any(axis=1))

    def _unanswered(self, ids: NDArray[np.int64]) -> list[tuple[Decisions, NDArray[np.int64]]]:
        parts = []
        for batch in self._open:
            mine = ids[(ids >= batch.ids[0]) & (ids <= batch.ids[-1])]
            if len(mine):
                parts.append((batch, mine - batch.ids[0]))
        return parts

    @property
    def contexts(self) -> list[Any]:
        """Batches of contexts that are kept here."""
        return [
            self._held.contexts,
            *(one.contexts for one in self._further),
            *(decisions.contexts for decisions in self._open),
        ]

    SCHEMA: ClassVar = {
        "front": Whole(0),
        "epochs": Array("i8", ("n",), 0),
        "covered": Array("?", ("n",)),
        "answered": Array("?", ("n",)),
        "others": Default(Array("?", ("n", "J")), lambda sizes: np.empty((sizes["n"], 0), dtype=np.bool_)),
        "held": Held(Events),
        "further": Default(Many(Held(Events)), lambda sizes: []),
        "open": Many(Held(Decisions)),
        "failed": Array("i8", ("failed",), 0, rising=True),
        "missing": Whole(0),
        "late": Whole(0),
        "lacking": Default(Column("i8", ("J",), 0), lambda sizes: np.empty(0, dtype=np.int64)),
        "tardy": Default(Column("i8", ("J",), 0), lambda sizes: np.empty(0, dtype=np.int64)),
    }

    def _agree(self) -> None:
        front, issued, n_parts = self.front, self.ledger.issued, len(self.patiences)
        if self._others.shape[1] == len(self.lacking) == len(self.tardy) == 0 and n_parts > 1:
            # From before answers came in parts: all of each came together.
            self._others = np.repeat(self._answered[:, None], n_parts - 1, axis=1)
            self.lacking, self.tardy = [self.missing] * (n_parts - 1), [self.late] * (n_parts - 1)
            self.failed = (self.failed[:, None] * n_parts + np.arange(n_parts)).ravel()
        require(front + len(self._epochs) == issued, "there must be an epoch for every decision.")
        require(
            self._others.shape[1] == len(self.lacking) == len(self.tardy) == n_parts - 1,
            "there must be as many parts of answers as were declared.",
        )
        known, told, of_failed = self.ledger.parts_from(front), self._told(), self.failed // n_parts
        for part, (missing, late) in enumerate(
            zip([self.missing, *self.lacking], [self.late, *self.tardy], strict=True)
        ):
            mine = told[:, part]
            require(
                self.ledger.n_told(part) == front - missing + int(mine.sum()) + late
                and not (mine & ~known[:, part]).any()
                and late <= missing + int((~mine).sum())
                and missing <= front
                and (
                    self.patiences[part] is not None
                    or missing == late == int((self.failed % n_parts == part).sum()) == 0
                ),
                "decisions, answers and rounds must be as many as each other.",
            )
        require(
            front <= int(of_failed.min(initial=front)) <= int(of_failed.max(initial=front)) <= issued
            and not told[of_failed[of_failed < issued] - front, (self.failed % n_parts)[of_failed < issued]].any(),
            "decisions, answers and rounds must be as many as each other.",
        )

    def check(
        self, problem: Problem, policies: PolicySet, *, n_epochs: int, of_events: Sequence[Problem], per_reward: int
    ) -> None:
        """Refuse decisions and answers, just restored, that cannot be of these epochs: `problem` is the setting of
        lists, `of_events` those of rewards and of each further metric, and `per_reward` says how many events each has.
        """
        front, issued, told = self.front, self.ledger.issued, self._told()
        require(len(self._further) + 1 == len(of_events), "answers must hold what was declared to be told.")
        for part, (held, setting) in enumerate(zip((self._held, *self._further), of_events, strict=True)):
            held.check(setting, ids=(front, issued), per_item=per_reward)
            require(
                int(self._epochs.max(initial=0)) < n_epochs
                and not (np.diff(held.ids) < 0).any()
                and int(held.arms.max(initial=-1)) < len(policies)
                and bool(told[held.ids - front, part].all())
                and np.array_equal(self._epochs[held.ids - front], held.epochs)
                and np.array_equal(self._covered[held.ids - front], held.covered),
                "answers that wait must be those of decisions made in these epochs.",
            )
        for decisions in self._open:
            check_lists(decisions.lists, problem, gaps=policies.has_gaps)
            check_propensities(decisions.propensities, shape=decisions.lists.shape)
            first, last = (int(decisions.ids[0]), int(decisions.ids[-1])) if len(decisions) else (0, -1)
            here, there = slice(max(first - front, 0), last + 1 - front), max(front - first, 0)
            require(
                front <= last < issued
                and np.array_equal(decisions.ids, np.arange(first, last + 1))
                and np.array_equal(decisions.epochs[there:], self._epochs[here])
                and np.array_equal(decisions.covered[there:], self._covered[here])
                and 0 <= int(decisions.epochs.min()) <= int(decisions.epochs.max()) < n_epochs,
                "open decisions must be this learner's own.",
            )


def _in_order(events: Events) -> Events:
    """The same, in the order of decisions."""
    return events_of_rounds(events, np.argsort(events.ids, kind="stable"))[0]


def waiting_for(queue: Queue) -> tuple[int, int]:
    """The first decision whose answer is waited for, or the next one if none is; and how many answers to decisions
    before it do not count yet, because their period is not over.
    """
    whole = queue.whole
    n = int(np.append(queue.blocking, True).argmax())
    return queue.front + n, int(whole[:n].sum())


def _split(events: Events, first_id: int) -> tuple[Events, Events]:
    """Events of decisions below `first_id`, and the others."""
    n = int(np.searchsorted(events.ids, first_id))
    if n == events.n_rewarded:
        return events, Events.none()
    whole = np.arange(events.n_rewarded)
    return events_of_rounds(events, whole[:n])[0], events_of_rounds(events, whole[n:])[0]
