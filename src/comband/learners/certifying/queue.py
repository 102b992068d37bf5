"""Decisions and answers in order: what may enter the evidence, what waits, what is late, what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.learners.ledger import Ledger
from comband.lists import check_lists, check_propensities
from comband.policies.policy_set import PolicySet
from comband.problem import InputError, Problem
from comband.rounds import Decisions, Events, Rounds, events_of_rounds
from comband.storage import Array, Many, Part, State, Whole, check, require


@dataclass(frozen=True, eq=False, slots=True)
class Settled:
    """Rounds that enter the evidence, in the order of decisions.

    epochs, covered:
        (n,) of their decisions.
    events:
        Their rewards.
    unanswered:
        Batches of decisions, and which rows of them were never answered in time.
    """

    epochs: NDArray[np.int64]
    covered: NDArray[np.bool_]
    events: Events
    unanswered: list[tuple[Decisions, NDArray[np.int64]]]


class Queue:
    """A decision enters the evidence in the order in which decisions were made, once it and all before it are answered,
    or have waited for `patience` further decisions (then it counts as without reward): answers that come early cannot
    bias the result.

    Who was answered is the ledger's to know; it is asked.

    Parameters
    ----------
    ledger:
        The learner's record of its decisions.
    patience:
        How many later decisions a decision waits for its answer; None: for ever.
    period:
        How many decisions enter the evidence together.
    """

    def __init__(self, ledger: Ledger, *, patience: int | None, period: int = 1) -> None:
        self.ledger, self.patience, self.period = ledger, patience, period
        self.front = 0  # all decisions below are in the evidence
        self.missing = self.late = 0
        self.failed: NDArray[np.int64] = np.empty(
            0, dtype=np.int64
        )  # told in vain: not overdue, however long they wait
        self._epochs = np.empty(0, dtype=np.int64)  # of decisions from the front on
        self._covered = np.empty(0, dtype=np.bool_)
        self._held = Events.none()  # answered, but behind an unanswered one
        self._open: list[Decisions] = []  # batches with decisions that may stay without answer

    @property
    def waiting(self) -> int:
        """How many decisions are neither answered nor overdue."""
        return int((~self.ledger.answered_from(self.front)).sum())

    @property
    def behind(self) -> int:
        """How many answers do not count yet, because an older decision has none."""
        return int(self.ledger.answered_from(self.front).sum())

    def check_size(self, n: int, first_id: int) -> None:
        """Refuse a batch of which some would be overdue before anybody could answer, or that reaches into the next
        period.
        """
        room = self.period - first_id % self.period
        if self.period > 1 and n > room:
            raise InputError(
                f"a batch must not reach into the next period, which begins in {room:,} decisions, got {n:,} contexts: "
                "cut it there."
            )
        if self.patience is not None and n > self.patience:
            raise InputError(
                f"a batch must not be larger than patience={self.patience}, got {n} contexts: its first "
                "decisions would be overdue before anybody could answer them."
            )

    def append(self, decisions: Decisions) -> None:
        """Decisions that were just made."""
        self._epochs = np.concatenate([self._epochs, decisions.epochs])
        self._covered = np.concatenate([self._covered, decisions.covered])
        if self.patience is not None and len(decisions):
            self._open.append(decisions)

    def settle(self, rounds: Rounds) -> Settled | None:
        """Take in answers that the ledger is about to note, and let go of what may enter the evidence now."""
        ids, front = rounds.decisions.ids, self.front
        rewarded = bool(np.count_nonzero(rounds.rewards))
        if self._is_all(ids) and (not rewarded or len(ids) == 1 or bool((ids[1:] > ids[:-1]).all())):
            settled = Settled(self._epochs, self._covered, rounds.events() if rewarded else self._held, [])
            self._epochs, self._covered = self._epochs[:0].copy(), self._covered[:0].copy()
            self.front += len(ids)
            return settled
        current = ids >= front
        self.late += int((~current).sum())
        if len(self.failed):
            self.failed = self.failed[~np.isin(self.failed, ids)]
        answered = self.ledger.answered_from(front)
        answered[ids[current] - front] = True
        if rewarded:
            self._held = self._held + (rounds if current.all() else rounds[current]).events()
        n = self._n_settled(answered)
        if n == 0:
            return None
        events = self._held
        if len(events):
            events, self._held = _split(events, front + n)
        self.missing += n - int(answered[:n].sum())
        unanswered = self._unanswered(front + np.flatnonzero(~answered[:n]))
        self._open = [batch for batch in self._open if batch.ids[-1] >= front + n]
        settled = Settled(self._epochs[:n], self._covered[:n], events, unanswered)
        self._epochs, self._covered = self._epochs[n:].copy(), self._covered[n:].copy()
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
            and len(self.failed) == len(self._held) == 0
            and int(ids[0] if waiting == 1 else ids.min()) >= self.front  # as many as there are, and no number twice
        )

    def note_failed(self, ids: NDArray[np.int64]) -> None:
        """Answers that could not be taken in because something failed."""
        if self.patience is not None:
            self.failed = np.union1d(self.failed, ids[ids >= self.front])

    def _n_settled(self, answered: NDArray[np.bool_]) -> int:
        """How many decisions from the front on may enter the evidence."""
        blocking = ~answered
        if self.patience is not None:
            ids = np.arange(self.front, self.front + len(blocking))
            overdue = (ids < self.ledger.issued - self.patience) & ~np.isin(ids, self.failed)
            blocking &= ~overdue
        first = np.flatnonzero(blocking)
        n = int(first[0]) if len(first) else len(blocking)
        return n - (self.front + n) % self.period

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
        return [self._held.contexts, *(decisions.contexts for decisions in self._open)]

    SCHEMA: ClassVar = {
        "front": Whole(0),
        "epochs": Array("i8", ("n",), 0),
        "covered": Array("?", ("n",)),
        "held": Part(),
        "open": Many(Part()),
        "failed": Array("i8", ("failed",), 0, rising=True),
        "missing": Whole(0),
        "late": Whole(0),
    }

    def state(self) -> State:
        """All but the ledger by name, for a file; see `comband.storage`."""
        return {
            "front": self.front,
            "epochs": self._epochs,
            "covered": self._covered,
            "held": self._held.state(),
            "open": [decisions.state() for decisions in self._open],
            "failed": self.failed,
            "missing": self.missing,
            "late": self.late,
        }

    def restore(
        self,
        state: State,
        problem: Problem,
        policies: PolicySet,
        *,
        n_epochs: int,
        of_events: Problem | None = None,
        per_reward: int = 1,
    ) -> None:
        """The inverse of `state`, checked against the ledger; `of_events` is the setting of events, if it is not that
        of lists, and `per_reward` how many of them each reward has.
        """
        check(state, self.SCHEMA)
        self.front, self.missing, self.late = state["front"], state["missing"], state["late"]
        self._epochs, self._covered, self.failed = state["epochs"], state["covered"], state["failed"]
        self._held = Events.from_state(state["held"])
        self._open = [Decisions.from_state(part) for part in state["open"]]
        front, issued, held = self.front, self.ledger.issued, self._held
        require(front + len(self._epochs) == issued, "there must be an epoch for every decision.")
        answered = self.ledger.answered_from(front)
        require(
            issued - self.ledger.answered == self.missing - self.late + int((~answered).sum())
            and self.late <= self.missing <= front
            and (self.patience is not None or self.missing == len(self.failed) == 0)
            and front <= int(self.failed.min(initial=front)) <= int(self.failed.max(initial=front)) <= issued
            and not answered[self.failed[self.failed < issued] - front].any(),
            "decisions, answers and rounds must be as many as each other.",
        )
        held.check(problem if of_events is None else of_events, ids=(front, issued), per_item=per_reward)
        require(
            int(self._epochs.max(initial=0)) < n_epochs
            and not (np.diff(self._epochs) < 0).any()
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


def _split(events: Events, first_id: int) -> tuple[Events, Events]:
    """Events of decisions below `first_id`, in the order of decisions, and the others."""
    early = np.flatnonzero(events.ids < first_id)
    early = early[np.argsort(events.ids[early], kind="stable")]
    return events_of_rounds(events, early)[0], events_of_rounds(events, np.flatnonzero(events.ids >= first_id))[0]
