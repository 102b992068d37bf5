"""The learner of one experiment: consumes the journal in decision order, and says how to decide next.

Its state is a function of the journal alone. Decisions enter in blocks of a fixed size, when all of a block are
settled (every item answered, or the attribution window over), each with the epoch whose plan drew it; a new epoch
begins after the block that makes it due. So a learner that was killed and replays the journal from a snapshot, or from
the beginning, comes to the same state to the last bit, and to the plans that were published.

On another processor, or with other versions of the libraries below, sums are rounded otherwise: plans then differ in
their last digits, and in who leads where scores are equal up to that. The plan that was published is a fact of the
journal, by which decisions were drawn: a learner that comes to another one follows it, and says by how much they
differ. `CertifyingLearner.follow` says why the promise never depends on who computed a plan.
What no rounding explains is refused (`ReplayError`): other candidates, another beginning, another winner.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import contains
from comband.certify.adaptive import AdaptiveComband
from comband.page.contexts import Contexts
from comband.page.declaring import declared
from comband.page.problem import InputError
from comband.page.rounds import Decisions
from comband.page.storage import Part, State, Whole, check, pack, require, unpack
from comband.policies.base import Policy
from comband.policies.fallback import NOTHING
from comband.policies.requested import RequestedLists
from comband.serve import audit
from comband.serve.chain import Record
from comband.serve.deciding import pack_plan, plan_state
from comband.serve.field import Change, changes_of, names_of
from comband.serve.journal import Experiment, Journal, StoredDecision
from comband.serve.progress import Progress
from comband.serve.requests import Body, fallback_of, filled, limits_of, metrics_of, problem_of, unpack_body
from comband.serve.wire import SETTINGS, Spec

_REMEMBERED = 1600  # tables; the learner looks back on a thousand contexts
HARMED = "visitors harmed"
_AT_ONCE = 64  # blocks that are looked at together
_SHARES = 4  # decisions of a block that say whose items are shown
_FADE = 0.9  # what a block's share weighs a block later
TOLERANCE = 1e-6  # relative; by more than that no plan differs through rounding alone
Write = Callable[[Callable[[Journal], Any]], Any]
_log = logging.getLogger("comband.serve")


class ReplayError(Exception):
    """The journal cannot lead to the plan that was published: its process had learnt from other facts."""


class JournalLists(RequestedLists):
    """The candidates of an experiment; contexts are numbers of decisions, whose lists are in the journal.

    Parameters
    ----------
    experiment, journal:
        Whose lists, and where they are; without a journal only those that are remembered.
    names:
        All candidates so far, in the order in which they came.
    """

    def __init__(self, experiment: Experiment, journal: Journal | None, names: Sequence[str]) -> None:
        self._fallback = fallback_of(experiment.spec, names)
        nothing = NOTHING if self._fallback == NOTHING else None
        super().__init__(names, problem_of(experiment.spec), fallback=nothing)
        self._experiment, self._journal = experiment, journal
        self._known: OrderedDict[int, Body] = OrderedDict()

    def extended(self, policy: Policy | None, name: str) -> JournalLists:
        """The same with one candidate more, which had no lists in decisions so far."""
        wider = JournalLists(self._experiment, self._journal, [*self.names, name])
        wider._known = self._known
        return wider

    def remember(self, number: int, body: Body) -> NDArray[np.int32]:
        """Keep the table of a decision for a while."""
        self._known[number] = body
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return self._table(body)

    def tables(self, X: Contexts) -> NDArray[np.int32]:
        """The tables (n, P, m) of these decisions."""
        numbers = np.asarray(X)
        if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
            raise InputError(f"contexts must be numbers of decisions, got an array of shape {numbers.shape}.")
        result = np.empty((len(numbers), len(self), self.problem.list_size), dtype=np.int32)
        missing: dict[int, list[int]] = {}
        for i, number in enumerate(numbers.tolist()):
            body = self._known.get(number)
            if body is None:
                missing.setdefault(number, []).append(i)
            else:
                result[i] = self._table(body)
        if missing:
            journal = self._journal
            for stored in () if journal is None else journal.decisions_at(self._experiment.id, list(missing)):
                result[missing.pop(stored.number)] = self._table(unpack_body(stored.body))
            if missing:
                raise InputError(f"decision {min(missing)} is not in the journal.")
        return result

    def _table(self, body: Body) -> NDArray[np.int32]:
        given, rows = body.rows(self.problem.list_size)
        return filled(given, rows, len(self), self._fallback)


def new_learner(spec: Spec, policies: RequestedLists, seed: int) -> AdaptiveComband:
    """The learner of an experiment before its first decision; `InputError` where it promises what cannot be."""
    said = {name: getattr(spec, name) for name in SETTINGS if name in declared(AdaptiveComband.SPEC)}
    # Decisions wait in the journal, for all parts of their answers; see `Learning._settled`.
    said["patience"], said["metrics"] = None, metrics_of(spec)
    said["audited"] = None  # the journal keeps the record; see `comband.serve.chain`
    return AdaptiveComband(problem_of(spec), policies, **said, seed=seed)


class Learning:
    """The learner of one experiment, and how far it has read.

    Parameters
    ----------
    experiment, journal:
        Whose facts are learnt from.
    write:
        Runs a function of the journal inside a transaction, and waits until it is durable.
    fence:
        The number of this process's lease.
    """

    def __init__(self, experiment: Experiment, journal: Journal, write: Write, fence: int) -> None:
        self.experiment, self._journal, self._write, self.fence = experiment, journal, write, fence
        self._progress = Progress(journal)
        self.unreadable: list[int] = []  # positions of snapshots that were passed over
        self.learner, self.position, self.changes = self._restored()
        # Plans are published before the snapshot of the state that made them.
        self.published = len(self.learner.epochs) if self.position else 0
        self.front = journal.counts(experiment.id)[1]
        self.shares = np.zeros(len(self.learner.policies))
        self._weight = 0.0
        self.saved_at = self.position
        self._ended = False  # whether the chain is
        self._changed: list[Record] = []  # for the chain: candidates that came or left since the last plan
        self.differences: list[float] = []  # of plans that were published from those made here, where they differ
        self._publish(self.position)

    def _restored(self) -> tuple[AdaptiveComband, int, int]:
        """From the newest snapshot that can be read, or from the beginning; after how many decisions and changes."""
        spec, changes = self.experiment.spec, changes_of(self._journal, self.experiment.id)
        for position, data in self._progress.latest_snapshots(self.experiment.id):
            try:
                learner, n = unpack(data, "learner", partial(self._built, changes), source="a snapshot")
            except InputError as error:
                self.unreadable.append(position)
                _log.error(
                    "a snapshot cannot be read, and is passed over",
                    extra={"facts": {"experiment": self.experiment.name, "position": position, "error": str(error)}},
                )
                continue
            return learner, position, n
        upto, removed = self._journal.retained(self.experiment.id)
        if removed:
            raise ReplayError(
                f"{removed:,} of the first {upto:,} decisions were removed by age, and no snapshot can be read: "
                "restore a back-up, or go on with the version of comband that wrote the snapshots"
            )
        lists = JournalLists(self.experiment, self._journal, spec.candidates)
        return new_learner(spec, lists, int(self.experiment.seed, 16)), 0, 0

    def _built(self, changes: Sequence[Change], state: State) -> tuple[AdaptiveComband, int]:
        check(state, {"changes": Whole(0, len(changes)), "learner": Part()})
        names = names_of(self.experiment.spec, changes[: state["changes"]])
        policies = JournalLists(self.experiment, self._journal, names)
        return AdaptiveComband.from_state(state["learner"], policies), state["changes"]

    def step(self, *, ended: bool = False, most: int = _AT_ONCE) -> bool:
        """Settle what has waited long enough, and learn from some of it; whether there may be more to do at once."""
        next_, front, clock = self._journal.counts(self.experiment.id)
        upto = self._settled_upto(front, next_, clock, ended)
        m = self.experiment.spec.list_size
        if upto > front and not self._write(
            lambda _: self._progress.advance(self.experiment.id, upto, clock, self.fence, m)
        ):
            return True
        self.front = front = upto
        if self.learner.done:
            self.position = front
            return upto - front > 0
        # Candidates that come or go from now on do so after the front, which is here or further on.
        changes = changes_of(self._journal, self.experiment.id, self.changes)
        if self._change(changes):
            return True
        ends = list(islice(self._ends(self.position, front), most))
        if not ends:
            return False
        self._learn(self.position, ends, changes)
        return True

    def save(self) -> None:
        """A snapshot of the state, from which others go on."""
        if self.position == self.saved_at:
            return
        state = pack("learner", {"changes": self.changes, "learner": self.learner.state()})
        position = self.position
        self._write(lambda _: self._progress.snapshot(self.experiment.id, position, state, self.fence))
        self.saved_at = position

    @property
    def winner(self) -> int | None:
        """Who is shown from now on: the one that was chosen, or production where visitors were proven to be harmed."""
        if self.learner.stopped_by_harm:
            return self.learner.policies.names.index(self.experiment.spec.production)
        return self.learner.result().index if self.learner.done else None

    def end_chain(self) -> None:
        """Say at the end of the chain what is known, once all is settled and learnt."""
        next_, front, _ = self._journal.counts(self.experiment.id)
        if self.experiment.spec.is_recorded and not self._ended and front >= next_ and self.position >= next_:
            news = [*self._news(), *self._claimed(), {"kind": "end"}]
            self._write(lambda _: self._progress.tell(self.experiment.id, news, self.fence))
            self._ended = True

    # ---- settling ----------------------------------------------------------------------------------------------------

    def _ends(self, first: int, last: int) -> Iterator[int]:
        """Where the blocks end that begin at `first`: each has so many decisions, or the last ones of a period."""
        size, period = self.experiment.spec.block, self.experiment.spec.period
        while first < last:
            first = min(first + size, last, first + period - first % period if period > 1 else last)
            yield first

    def _settled_upto(self, front: int, next_: int, clock: int, ended: bool) -> int:
        size, upto = self.experiment.spec.block, front
        for blocks in (1, _AT_ONCE):
            last = min(next_, front + blocks * size)
            if last <= upto:
                break
            upto = self._settled(front, last, next_, clock, ended and last == next_)
            if upto < last or last == next_:
                break
        return upto

    def _settled(self, front: int, last: int, next_: int, clock: int, to_the_end: bool) -> int:
        """The end of the last whole block before `last` up to which all decisions are settled: answered in full, or
        older than the window or the patience.
        """
        spec, experiment = self.experiment.spec, self.experiment.id
        limits, upto = limits_of(spec), front
        times = self._progress.times(experiment, front, last)
        overdue = np.array(
            [
                [
                    time + one.window < clock or (one.patience is not None and number < next_ - one.patience)
                    for one in limits
                ]
                for number, time, _ in times
            ],
            dtype=np.bool_,
        )
        answers = {} if overdue.all() else self._progress.answers(experiment, front, last)
        for end in self._ends(front, front + len(times)):
            is_whole = end - upto == spec.block or (spec.period > 1 and end % spec.period == 0)
            if not (is_whole or to_the_end):
                break
            rows = range(upto - front, end - front)
            if not all(
                overdue[i, part] or answers.get((times[i][0], part), 0) == times[i][2]
                for i in rows
                for part in range(len(limits))
            ):
                break
            upto = end
        return upto

    # ---- learning ----------------------------------------------------------------------------------------------------

    def _change(self, changes: Sequence[Change]) -> bool:
        """Let candidates come and go as of here, and publish what follows from it; whether that settles everything."""
        learner = self.learner
        for one in changes:
            whole = self.position % self.experiment.spec.period == 0
            if one.number == self.changes and one.after <= self.position and whole and not learner.done:
                self._changed.append(self._change_record(one))
                add, withdraw, planned = one.what.add, one.what.withdraw, one.what.planned
                if add is not None and withdraw is not None:
                    learner.replace(withdraw, by=add, planned=planned)
                elif add is not None:
                    learner.add(name=add, planned=planned)
                elif withdraw is not None:
                    learner.withdraw(withdraw, planned=planned)
                self.changes += 1
                self.shares = np.append(self.shares, np.zeros(len(learner.policies) - len(self.shares)))
                self._publish(self.position)
        return learner.done

    def _learn(self, first: int, ends: Sequence[int], changes: Sequence[Change]) -> None:
        experiment, last = self.experiment.id, ends[-1]
        rows = self._journal.decisions(experiment, first, last)
        spec = self.experiment.spec
        told = {
            name: np.zeros((len(rows), spec.list_size)) for name in ("rewards", *(one.name for one in spec.metrics))
        }
        for part, values in enumerate(told.values()):
            for number, place, value in self._journal.rewards(experiment, first, last, part):
                values[number - first, place] = value
        for start, end in pairwise((first, *ends)):
            here = slice(start - first, end - first)
            inside = learn_block(self.learner, rows[here], **{name: values[here] for name, values in told.items()})
            if inside is not None:
                self._note_shares(inside)
            self._publish(end)
            self.position = end
            if self._change(changes):
                break

    def _note_shares(self, inside: NDArray[np.float64]) -> None:
        """Shares of candidates, faded over blocks."""
        self._weight = _FADE * self._weight + 1
        self.shares = self.shares + (inside - self.shares) / self._weight

    def _publish(self, position: int) -> None:
        """Plans of epochs that have begun since, and the winner if there is one."""
        learner, alive = self.learner, self.learner.verdict.alive
        plans = [
            pack_plan(learner.epochs[k], None, alive, self.changes) for k in range(self.published, len(learner.epochs))
        ]
        if learner.done and self.published <= len(learner.epochs):
            plans.append(pack_plan(None, self.winner, alive, self.changes))
        for plan in plans:
            number, news = self.published, self._told_with(self.published) if self.experiment.spec.is_recorded else []
            there = self._write(
                partial(_publish, self._progress, self.experiment.id, number, position, plan, self.fence, news)
            )
            self._changed = []
            if there != plan:
                self._follow(number, there, plan)
            self.published += 1
        if plans and learner.stopped_by_harm:
            self._write(partial(_note_harm, self.experiment, learner.rounds))
            _log.warning("visitors were proven to be harmed", extra={"facts": {"experiment": self.experiment.name}})

    # ---- what the chain is told --------------------------------------------------------------------------------------

    def _told_with(self, number: int) -> list[Record]:
        """What the chain is to hold together with a plan."""
        learner = self.learner
        if number == len(learner.epochs):
            shown = {"kind": "plan", "epoch": number, "winner": self.winner, "restart": False}
            return [*self._changed, *self._news(), *self._claimed(), shown]
        epoch = learner.epochs[number]
        state, restart = epoch.state(), bool(number and learner.evidence.since == number)
        named = {name: state[name] for name in ("leader", "explorer", "levels", "bound", "value_bound")}
        plan = {"kind": "plan", "epoch": number, "restart": restart, "asked": np.unique(epoch.candidates), **named}
        return [*self._changed, plan, *self._news()]

    def _news(self) -> list[Record]:
        """Who is out."""
        return [
            {"kind": "dropped", "candidate": one.index, "rounds": one.round} for one in self.learner.verdict.dropped
        ]

    def _claimed(self) -> list[Record]:
        """What is certified, and what guards say."""
        learner = self.learner
        claim, warnings = learner.verdict.claim(), list(learner.result().warnings) if learner.rounds else []
        return [
            {"kind": "guards", "warnings": warnings},
            {"kind": "claim", "leader": claim.leader, "epsilon": claim.epsilon, "rounds": learner.rounds},
        ]

    def _change_record(self, change: Change) -> Record:
        """A change of the field that is about to be made."""
        add, withdraw, names = change.what.add, change.what.withdraw, self.learner.policies.names
        return {
            "kind": "change",
            "number": change.number,
            "rounds": self.learner.rounds,
            "arrivals": [] if add is None else [add],
            "withdrawn": [] if withdraw is None else [names.index(withdraw)],
            "planned": change.what.planned,
            "digests": [] if add is None else [change.what.digest],
        }

    def _follow(self, number: int, there: bytes, plan: bytes) -> None:
        """Go on with the plan that is there, which another process has published, in place of the one made here."""
        theirs, mine = plan_state(there, number), plan_state(plan, number)
        if theirs["bets"] is None:  # an earlier version published the explorer alone, and bets were those of its replay
            theirs["bets"] = mine["bets"]
        difference = _difference(theirs, mine)
        if difference == 0:
            return
        facts = {"experiment": self.experiment.name, "epoch": number, "difference": difference}
        try:
            require(
                theirs["winner"] is None and mine["winner"] is None and theirs["changes"] == mine["changes"],
                "it has another winner, or another field.",
            )
            self.learner.follow(number, {**theirs["bets"], "explorer": theirs["explorer"]})
        except InputError as error:
            raise ReplayError(
                f"the journal of {self.experiment.name!r} cannot lead to the plan of epoch {number} in it: {error}"
            ) from None
        self.differences.append(difference)
        if difference <= TOLERANCE:
            _log.info("followed a plan that differs by rounding", extra={"facts": facts})
        else:
            _log.warning(
                "followed a plan that another program, or another choice of equals, made", extra={"facts": facts}
            )


def learn_block(
    learner: AdaptiveComband,
    rows: Sequence[StoredDecision],
    rewards: NDArray[np.float64],
    **metrics: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Tell a learner of a block of decisions; the share (P,) of items shown at its end that each candidate would have
    shown, None if none were.
    """
    bodies = [unpack_body(row.body) for row in rows]
    lists = np.stack([np.frombuffer(body.shown, np.int32) for body in bodies])
    policies = learner.policies
    assert isinstance(policies, JournalLists)
    tables = [policies.remember(row.number, body) for row, body in zip(rows, bodies, strict=True)]
    for epoch, run in groupby(range(len(rows)), key=lambda i: rows[i].epoch):
        if learner.done:
            break
        here = list(run)
        drawn = Decisions(
            ids=np.arange(len(here)),
            lists=lists[here],
            propensities=np.stack([np.frombuffer(bodies[i].propensities, np.float64) for i in here]),
            epochs=np.full(len(here), epoch),
            contexts=np.array([rows[i].number for i in here]),
            covered=np.array([bodies[i].covered for i in here]),
            placements=np.stack([bodies[i].of_places() for i in here]) if bodies[here[0]].placements else None,
        )
        more = {name: values[here] for name, values in metrics.items()}
        learner.tell(learner.adopt(drawn), rewards[here], **more)
    at_the_end = lists[-_SHARES:]
    places = np.nonzero(at_the_end >= 0)
    if len(places[0]) == 0:
        return None
    return np.asarray(contains(np.stack(tables[-_SHARES:]), places[0], at_the_end[places]).mean(axis=0))


def _difference(one: Any, other: Any) -> float:
    """By how much two states differ: the largest relative difference of their numbers, infinite where more does."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((_difference(one[name], other[name]) for name in one), default=0.0)
    if isinstance(one, (float, np.ndarray)) and isinstance(other, (float, np.ndarray)):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind != "f":
            return 0.0 if np.array_equal(a, b) else math.inf
        scale = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
        return float(np.abs(a - b).max(initial=0.0)) / scale if scale else 0.0
    return 0.0 if one == other else math.inf


def _note_harm(experiment: Experiment, rounds: int, journal: Journal) -> None:
    """The trail says once that visitors were proven to be harmed, and the experiment is paused if that was declared."""
    run, number = journal.database.run, experiment.id
    if run("SELECT id FROM audit WHERE experiment = ? AND action = ?", [number, HARMED]):
        return
    audit.record(journal, audit.PROCESS, HARMED, experiment=number, name=experiment.name, detail={"rounds": rounds})
    if experiment.spec.after_harm == "pause" and journal.set_state(number, "paused") == "running":
        detail = {"before": "running", "decisions": journal.n_decisions(number)}
        audit.record(journal, audit.PROCESS, "paused", experiment=number, name=experiment.name, detail=detail)


def _publish(
    progress: Progress,
    experiment: int,
    epoch: int,
    made_after: int,
    plan: bytes,
    fence: int,
    news: Sequence[Record],
    _: Journal,
) -> bytes:
    return progress.publish(experiment, epoch, made_after, plan, fence, news)
