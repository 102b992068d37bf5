"""What all certifying learners are: parts, and how asking and telling run through them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.contexts import Contexts, alike, n_contexts
from comband.exploration.base import Exploration
from comband.exploration.disagreement import DisagreementExploration
from comband.exploration.midzuno import MidzunoExploration
from comband.exploration.recent import RecentContexts
from comband.learners.atomic import Checkpoint, alone
from comband.learners.base import Seed
from comband.learners.certifying.epochs import Epoch, Epochs
from comband.learners.certifying.evidence import Evidence
from comband.learners.certifying.planner import Planner
from comband.learners.certifying.queue import Queue
from comband.learners.certifying.report import Report
from comband.learners.certifying.verdict import Verdict
from comband.learners.certifying.watch import Asked, Began, Entered, Guard, Told, Unanswered, Watch
from comband.learners.ledger import Admission
from comband.learners.selector import Selector
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, Problem, check_count, check_epsilon, check_fraction, check_positive
from comband.results import CertificationStatus, Selection
from comband.rounds import Decisions, Rounds
from comband.storage import Many, Maybe, Part, State, Whole, require


class CertifyingLearner(Selector):
    """Explores in epochs until one candidate is certified to be within ε of the best, with probability 1 − δ, at any
    time.

    Evidence is that of `comband.estimates.betting`. In each epoch the leader is the candidate of highest estimated
    value, or the one before it if that is likely to be certified sooner. A candidate is dropped when the evidence
    against its being the best reaches 1/δ; the learner is done when that against "it exceeds the leader by more than ε"
    has reached 1/δ for every other one that is left.

    A decision enters the evidence in the order in which decisions were made, once it and all before it are answered,
    or have waited for `patience` further decisions (then it counts as without reward): answers that come early cannot
    bias the result. With a patience, a candidate's value is what comes in within it.

    Its parts can be looked at: `epochs`, `queue`, `evidence`, `verdict`, `watch`.

    Parameters
    ----------
    problem, policies, seed:
        As for every learner.
    exploration:
        How an epoch explores: the one thing in which certifying learners differ, so that a comparison of them compares
        exploration and nothing else. By default that of `AdaptiveComband`.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
    max_rounds:
        A budget; when it is spent the best epsilon that is certified by then is reported.
    patience:
        How many later decisions a decision waits for its answer; None: for ever. Batches must not be larger.
    first_epoch, epoch_growth:
        The first epoch's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    guards:
        Further guards, beside those that every certifying learner has; see `comband.learners.certifying.Guard`.
    """

    FROM_TOTALS = True  # with an exploration for them

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        exploration: Exploration | None = None,
        epsilon: float,
        delta: float = 0.05,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies), seed=seed)
        if exploration is None:
            exploration = MidzunoExploration() if problem.feedback == "total" else DisagreementExploration()
        self.exploration: Exploration = exploration
        self.epsilon = check_epsilon(epsilon, problem)
        self.delta = check_fraction("delta", delta)
        self.max_rounds = None if max_rounds is None else check_count("max_rounds", max_rounds)
        self.patience = None if patience is None else check_count("patience", patience)
        self.first_epoch = check_count("first_epoch", first_epoch)
        self.epoch_growth = check_positive("epoch_growth", epoch_growth)
        if self.epoch_growth <= 1:
            raise InputError(f"epoch_growth must be above 1, got {epoch_growth}: epochs must get longer.")
        self._epochs = Epochs(first_epoch=self.first_epoch, epoch_growth=self.epoch_growth)
        self._evidence = Evidence(problem, len(policies), self._epochs)
        self._verdict = Verdict(self._evidence, policies.names, epsilon=self.epsilon, delta=self.delta)
        self._queue = Queue(self._ledger, patience=self.patience)
        self._watch = Watch(problem.n_actions, guards)
        self._recent = RecentContexts(policies, problem)
        self._moved = False  # whether evidence has come since it was seen if a new epoch is due
        tie_seed = int(self._rng.integers(2**63))
        self._planner = Planner(policies, self.exploration, max_rounds=self.max_rounds, tie_seed=tie_seed)
        self._begin_epoch()

    # ---- its parts, to look at ---------------------------------------------------------------------------------------

    @property
    def epochs(self) -> Epochs:
        """All epochs so far."""
        return self._epochs

    @property
    def queue(self) -> Queue:
        """Decisions and answers that are not in the evidence yet."""
        return self._queue

    @property
    def evidence(self) -> Evidence:
        """What all rounds so far say."""
        return self._evidence

    @property
    def verdict(self) -> Verdict:
        """Who is out, and what is certified."""
        return self._verdict

    @property
    def watch(self) -> Watch:
        """The guards."""
        return self._watch

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @property
    @alone
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent."""
        return self._verdict.certified is not None or (self.max_rounds is not None and self.rounds >= self.max_rounds)

    @alone
    def result(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        if self.rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        return self._report().selection()

    @alone
    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        return self._report().status()

    @alone
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (P,), (P,) of intervals that hold all values at all times, with probability 1 − delta of their own."""
        return self._evidence.values.bounds(delta=self.delta, max_reward=self.problem.max_reward)

    def _report(self) -> Report:
        return Report(self.policies, self._epochs, self._verdict, self._queue, self._watch, self.rounds)

    # ---- asking and telling ------------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        self._queue.check_size(n_contexts(X))
        number, epoch = len(self._epochs) - 1, self._epochs.current
        keep = self._recent.room(len(epoch.candidates))
        drawn = epoch.explorer.draw(X, self._rng, first_id=first_id, epoch=number, keep=keep)
        self._watch.observe(Asked(drawn.decisions, epoch))
        self._queue.append(drawn.decisions)
        self._recent.add(X, drawn.lists, epoch.candidates)
        return drawn.decisions

    def _learn(self, rounds: Rounds) -> None:
        self._watch.observe(Told(rounds.decisions, self._epochs))
        settled = self._queue.settle(rounds)
        if settled is None:
            return
        if settled.unanswered:
            self._watch.observe(Unanswered(settled.unanswered, self._epochs))
        blocks = self._evidence.blocks(settled.epochs, settled.covered, settled.events)
        for block in blocks:
            epoch, before = self._epochs[block.epoch], self._evidence.rounds_of(block.epoch)
            current = block.epoch == len(self._epochs) - 1
            self._watch.observe(Entered(block, epoch, current, before + block.n_rounds))
        self._torn = self._moved = True  # candidates and guards have answered: nothing fails from here on
        for block in blocks:
            self._evidence.add(block)
        if self._verdict.may_change() or any(block.paired is not None for block in blocks):
            self._verdict.judge()

    def _prepare(self, *, asking: bool) -> None:
        if not self._moved:
            return
        if self._verdict.certified is None and self._epochs.due(self._queue.front, int(self._verdict.alive.sum())):
            before = Checkpoint(self, *self._parts())
            try:
                self._begin_epoch()
            except BaseException:
                before.restore()
                raise
        self._moved = False

    def _conclude(self) -> None:
        # If candidates fail now, the answers are in all the same; `ask` and `tell` try again, and fail if they must.
        with suppress(Exception):
            self._prepare(asking=False)

    def _failed_to_learn(self, admission: Admission) -> None:
        self._queue.note_failed(admission.ids[admission.rows])

    def _begin_epoch(self) -> None:
        self._evidence.seen.forget(self._verdict.alive)
        if len(self._epochs):
            self._verdict.end_epoch()
        self._epochs.append(
            self._planner.next(self._epochs, self._evidence, self._verdict, self._recent, first_id=self._ledger.issued)
        )
        self._watch.observe(Began(self._epochs.current, self._epochs.planned_rounds()))

    def _parts(self) -> tuple[object, ...]:
        evidence = self._evidence
        mine = (self._epochs, evidence, evidence.seen, self._verdict, self._queue, self._recent)
        return *mine, *self._watch.parts()

    # ---- saving ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        given = inspect.signature(type(self)).parameters.keys() - _OBJECTS
        return {name: getattr(self, name) for name in given}

    _SCHEMA: ClassVar = {
        "epochs": Many(Epoch.SCHEMA),
        "evidence": Evidence.SCHEMA,
        "verdict": Verdict.SCHEMA,
        "queue": Queue.SCHEMA,
        "watch": Watch.SCHEMA,
        "recent": Maybe(Part()),
        "tie_seed": Whole(0, (1 << 63) - 1),
    }

    def _state(self) -> State:
        return {
            "epochs": self._epochs.state(),
            "evidence": self._evidence.state(),
            "verdict": self._verdict.state(),
            "queue": self._queue.state(),
            "watch": self._watch.state(),
            "recent": self._recent.state(),
            "tie_seed": self._planner.tie_seed,
        }

    def _restore(self, state: State) -> None:
        problem, policies, epochs, ledger = self.problem, self.policies, self._epochs, self._ledger
        require(
            int(state["evidence"]["n_rounds"].sum()) == state["queue"]["front"],
            "decisions, answers and rounds must be as many as each other.",
        )
        epochs.restore(state["epochs"], policies, problem, unit=self._evidence.unit, issued=ledger.issued)
        self._evidence = Evidence.from_state(state["evidence"], problem, len(policies), epochs)
        self._verdict = Verdict(self._evidence, policies.names, epsilon=self.epsilon, delta=self.delta)
        self._verdict.restore(state["verdict"])
        self._queue = Queue(ledger, patience=self.patience)
        self._queue.restore(state["queue"], problem, policies, n_epochs=len(epochs))
        require(self._queue.front >= epochs.current.start, "its current epoch must have begun.")
        self._watch.restore(state["watch"], epochs, self._evidence.rounds_of(len(epochs) - 1))
        self._recent = RecentContexts.from_state(state["recent"], policies, problem)
        kept, recent = [self._evidence.seen.events.contexts, *self._queue.contexts], self._recent
        require(
            recent.is_last_of(ledger.issued) and all(alike(recent.contexts, part) for part in kept),
            "the recent contexts must be as many as were asked for, and of one kind with the others.",
        )
        self._planner.tie_seed, self._moved = state["tie_seed"], True


_OBJECTS = {"problem", "policies", "seed", "exploration", "guards"}  # no plain values: not saved
