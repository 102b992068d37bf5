"""Decisions and answers in order: what may enter the evidence, what waits, what is late, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.learners.ledger import Ledger
from comband.page.lists import check_lists, check_propensities
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions, Events, Rounds, events_of_rounds
from comband.page.storage import Array, Default, Held, Many, Stored, Whole, require
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

    Parameters
    ----------
    ledger:
        The learner's record of its decisions.
    patience:
        How many later decisions a decision waits for its answer; None: for ever.
    period:
        How many decisions enter the evidence together.
    n_further:
        How many metrics are told beside the reward, in the same answer: there is one front for all of them.
    """

    def __init__(self, ledger: Ledger, *, patience: int | None, period: int = 1, n_further: int = 0) -> None:
        self.ledger, self.patience, self.period = ledger, patience, period
        self.front = 0  # all decisions below are in the evidence
        self.missing = self.late = 0
        self.failed: NDArray[np.int64] = np.empty(
            0, dtype=np.int64
        )  # told in vain: not overdue, however long they wait
        self._epochs = np.empty(0, dtype=np.int64)  # of decisions from the front on
        self._covered = np.empty(0, dtype=np.bool_)
        self._answered = np.empty(0, dtype=np.bool_)  # in time
        self._held = Events.none()  # answered, but behind an unanswered one; in the order of decisions
        self._further = [Events.none()] * n_further  # of each metric, the same
        self._open: list[Decisions] = []  # batches with decisions that may stay without answer

    @property
    def oldest(self) -> int:
        """The first decision that is not overdue: answers to those before it are late."""
        return 0 if self.patience is None else max(self.ledger.issued - self.patience, 0)

    @property
    def waiting(self) -> int:
        """How many decisions are neither answered nor overdue."""
        return int(self._blocking().sum())

    @property
    def behind(self) -> int:
        """How many answers do not count yet, because an older decision has none."""
        return int(self._answered.sum())

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
        if self.patience is not None and n > self.patience:
            raise InputError(
                f"a batch must not be larger than patience={self.patience}, got {n} contexts: its first "
                "decisions would be overdue before they could be answered."
            )

    def append(self, decisions: Decisions) -> None:
        """Decisions that were just made."""
        answered = np.zeros(len(decisions), dtype=np.bool_)
        if len(self._epochs) == 0:  # the usual case
            self._epochs, self._covered, self._answered = decisions.epochs, decisions.covered, answered
        else:
            self._epochs = np.concatenate([self._epochs, decisions.epochs])
            self._covered = np.concatenate([self._covered, decisions.covered])
            self._answered = np.concatenate([self._answered, answered])
        if self.patience is not None and len(decisions):
            self._open.append(decisions)

    def settle(self, rounds: Rounds, further: Sequence[Rounds] = ()) -> Settled | None:
        """Take in answers that the ledger is about to note, `further` with the values of each metric in place of
        rewards, and let go of what may enter the evidence now.
        """
        ids = rounds.decisions.ids
        said = [one if np.count_nonzero(one.rewards) else None for one in (rounds, *further)]
        if self._is_all(ids) and (not any(said) or len(ids) == 1 or bool((ids[1:] > ids[:-1]).all())):
            events, *others = (self._held if one is None else one.events() for one in said)  # of which none is held
            return self._let_go(len(ids), events, tuple(others), [])
        in_time = ids >= max(self.front, self.oldest)
        if len(self.failed):  # they came in time, and had to be told again
            in_time |= np.isin(ids, self.failed)
            self.failed = self.failed[~np.isin(self.failed, ids)]
        self.late += int((~in_time).sum())
        answered = self._answered.copy()
        answered[ids[in_time] - self.front] = True
        self._answered = answered
        held = [self._held, *self._further]
        for j, one in enumerate(said):
            if one is not None:
                held[j] = _in_order(held[j] + (one if in_time.all() else one[in_time]).events())
        self._held, *self._further = held
        return self.settle_overdue()

    def settle_overdue(self) -> Settled | None:
        """Let go of what may enter the evidence now, after no further answer."""
        first = np.flatnonzero(self._blocking())
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
        answered = self._answered[:n]
        self.missing += n - int(answered.sum())
        unanswered = self._unanswered(self.front + np.flatnonzero(~answered))
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
        self._answered = self._answered[n:].copy()
        self.front += n
        return settled

    def _is_all(self, ids: NDArray[np.int64]) -> bool:
        """Whether these are all decisions that wait, and no event waits for them, the common case: they need not be
        kept, nor picked from what is.
        """
        waiting = len(self._epochs)
        return (
            self.patience is None
            and self.period == 1
            and len(ids) == waiting > 0
            and len(self.failed) == len(self._held) == sum(map(len, self._further)) == 0
            and int(ids[0] if waiting == 1 else ids.min()) >= self.front  # as many as there are, and no number twice
        )

    def note_failed(self, ids: NDArray[np.int64]) -> None:
        """Answers that could not be taken in because something failed."""
        if self.patience is not None:
            self.failed = np.union1d(self.failed, ids[ids >= max(self.front, self.oldest)])

    def _blocking(self) -> NDArray[np.bool_]:
        """Which decisions from the front on have no answer, and still wait for it."""
        blocking = ~self._answered
        blocking[: max(self.oldest - self.front, 0)] = False
        blocking[self.failed - self.front] = True
        return blocking

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
        "held": Held(Events),
        "further": Default(Many(Held(Events)), lambda sizes: []),
        "open": Many(Held(Decisions)),
        "failed": Array("i8", ("failed",), 0, rising=True),
        "missing": Whole(0),
        "late": Whole(0),
    }

    def _agree(self) -> None:
        front, issued, answered = self.front, self.ledger.issued, self._answered
        require(front + len(self._epochs) == issued, "there must be an epoch for every decision.")
        require(
            self.ledger.answered == front - self.missing + int(answered.sum()) + self.late
            and not (answered & ~self.ledger.answered_from(front)).any()
            and self.late <= self.missing + int((~answered).sum())
            and self.missing <= front
            and (self.patience is not None or self.missing == self.late == len(self.failed) == 0)
            and front <= int(self.failed.min(initial=front)) <= int(self.failed.max(initial=front)) <= issued
            and not answered[self.failed[self.failed < issued] - front].any(),
            "decisions, answers and rounds must be as many as each other.",
        )

    def check(
        self, problem: Problem, policies: PolicySet, *, n_epochs: int, of_events: Sequence[Problem], per_reward: int
    ) -> None:
        """Refuse decisions and answers, just restored, that cannot be of these epochs: `problem` is the setting of
        lists, `of_events` those of rewards and of each further metric, and `per_reward` says how many events each has.
        """
        front, issued, answered = self.front, self.ledger.issued, self._answered
        require(len(self._further) + 1 == len(of_events), "answers must hold what was declared to be told.")
        for held, setting in zip((self._held, *self._further), of_events, strict=True):
            held.check(setting, ids=(front, issued), per_item=per_reward)
            require(
                int(self._epochs.max(initial=0)) < n_epochs
                and not (np.diff(held.ids) < 0).any()
                and int(held.arms.max(initial=-1)) < len(policies)
                and bool(answered[held.ids - front].all())
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
    answered = queue._answered
    ids = np.arange(queue.front, queue.front + len(answered))
    awaited = ~answered
    if queue.patience is not None:
        awaited &= (ids >= queue.ledger.issued - queue.patience) | np.isin(ids, queue.failed)
    n = int(np.append(awaited, True).argmax())
    return queue.front + n, int(answered[:n].sum())


def _split(events: Events, first_id: int) -> tuple[Events, Events]:
    """Events of decisions below `first_id`, and the others."""
    n = int(np.searchsorted(events.ids, first_id))
    if n == events.n_rewarded:
        return events, Events.none()
    whole = np.arange(events.n_rewarded)
    return events_of_rounds(events, whole[:n])[0], events_of_rounds(events, whole[n:])[0]
