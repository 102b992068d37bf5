"""All of it in one process: decide, reward, learn, tell.

With PostgreSQL any number of such processes serve the same experiments: all of them decide and take rewards, and for
each experiment one of them, the holder of the lease, learns.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import ParamSpec, TypeVar

import numpy as np
from msgspec import Raw
from msgspec.structs import replace

from comband.page.problem import InputError
from comband.page.text import quoted
from comband.policies.policy_set import PolicySet
from comband.serve import audit, chain
from comband.serve.audit import PROCESS, Actor
from comband.serve.bounds import Bounds
from comband.serve.certificates import NO_CHAIN, first_record, write_certificate
from comband.serve.deciding import Asked, Made, Plan
from comband.serve.digests import number_of, tickets_of
from comband.serve.experiments import Experiments, Models, Running
from comband.serve.field import Change, changes_of, digests_of, record_change
from comband.serve.housekeeping import Housekeeping
from comband.serve.journal import (
    ENVIRONMENT,
    Experiment,
    Journal,
    NewRewards,
    NotRunningError,
    Receipt,
    State,
    StoredDecision,
    detail,
)
from comband.serve.learners import Learners, Timing
from comband.serve.queries import Queries
from comband.serve.reading import Readers
from comband.serve.requests import Requests, check_elements, keys_of, unpack_body
from comband.serve.stores import open_database
from comband.serve.warming import Warming
from comband.serve.wire import (
    MAX_BATCH,
    MAX_CONTEXT,
    Clone,
    Decision,
    DecisionRequest,
    FieldChange,
    FieldChanged,
    Head,
    RawDecision,
    RawDecisions,
    RefusedRequest,
    RewardFault,
    RewardPost,
    RewardReceipt,
    Spec,
    as_json,
    decision_requests_of,
)
from comband.serve.writer import Writer

_LARGE = 256 * 1024  # bytes of a body that would hold up others
_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")
_VERBS = {"running": "resumed", "paused": "paused", "ended": "ended", "deleted": "deleted"}
_log = logging.getLogger("comband.serve")


class RepeatedRequestError(Exception):
    """A request id came again with other lists."""


class NotReadyError(Exception):
    """There is no plan yet."""


class WarmingError(Exception):
    """Loops are being compiled."""


class FieldClosedError(Exception):
    """The winner is known, and candidates come and go no more; its name is the argument."""


class Service:
    """Experiments over a store.

    Parameters
    ----------
    store:
        `sqlite:///file` or `postgresql://…`.
    models:
        Policies that the service itself may ask, by name; see `Spec.models`.
    timing:
        How often things are looked at.
    learn:
        Whether this process may be the one that learns.
    bounds:
        What is waited for at most, and how much is taken on.
    environment:
        Whose experiments of the store are served.
    retention_days:
        After how many days decisions that brought nothing are removed; 0: never.
    """

    def __init__(
        self,
        store: str,
        *,
        models: Models | None = None,
        timing: Timing | None = None,
        learn: bool = True,
        bounds: Bounds | None = None,
        environment: str = ENVIRONMENT,
        retention_days: float = 0.0,
    ) -> None:
        self.bounds = limits = bounds or Bounds()
        self.database = open_database(store, limits)
        self.database.migrate()
        self.journal = Journal(self.database, environment)
        self.writer = Writer(self.journal, limits)
        self.readers = Readers(
            "reading", threads=limits.max_readers, waiting=limits.max_waiting, timeout=limits.answer_timeout
        )
        self._probes = Readers("readiness", threads=1, waiting=16, timeout=limits.ready_timeout)
        self.timing = timing or Timing()
        self.started = time.time()
        self.counts = {"decisions": 0, "rewards": 0, "repeated": 0}
        self.reward_faults: dict[str, int] = {}
        self.experiments = Experiments(self.journal, models or {})
        self.learners = Learners(self.experiments, self.journal, self.writer, self.timing) if learn else None
        self.queries = Queries(self.experiments, self.journal)
        self.housekeeping = Housekeeping(
            self.journal, self.writer, every=self.timing.house, retention_days=retention_days
        )
        self._stop = threading.Event()
        self.warming = Warming(self._stop)
        self._thread = threading.Thread(target=self._poll, name="comband-plans", daemon=True)
        self._thread.start()

    def check_ready(self) -> None:
        """`StoreError` if the store cannot be read, `WarmingError` while loops are being compiled."""
        self.journal.check()
        if self.warming.under_way:
            raise WarmingError

    async def is_ready(self) -> None:
        """The same without waiting for longer than `ready_timeout`."""
        await self._probes.run(self.check_ready)

    def close(self, within: float = 60.0) -> None:
        """Finish what was begun, save, give the leases back, and close; what takes too long is broken off."""
        end = time.monotonic() + within
        self._stop.set()
        self.housekeeping.close(0.1 * within)
        if self.learners is not None:
            self.learners.close(0.6 * within)
        self._thread.join(timeout=max(0.1, min(10.0, 0.5 * (end - time.monotonic()))))
        self.writer.close(max(0.1, end - time.monotonic()))
        for readers in (self.readers, self._probes):
            readers.close()
        self.database.close()

    def _poll(self) -> None:
        """Hear of what other processes do."""
        while not self._stop.is_set():
            try:
                self.database.wait(self.timing.poll)
                if not self._stop.is_set():
                    self.experiments.refresh()
            except Exception as error:
                if not self._stop.is_set():
                    _log.warning("could not look for news", extra={"facts": {"error": str(error)}})
                    self._stop.wait(1.0)

    async def create(self, spec: Spec, *, by: Actor = PROCESS, like: str | None = None) -> Experiment:
        """A new experiment, maybe `like` another one; `TakenError` if its name is taken."""
        spec = self.experiments.settled(spec)
        self.experiments.check(spec)
        seed = secrets.token_hex(32) if spec.seed is None else f"{spec.seed:064x}"

        declared = first_record(spec, seed) if spec.is_recorded else None

        def write(journal: Journal) -> Experiment:
            made = journal.create(spec, seed)
            if declared is not None:
                chain.begin(journal.database, made.id, declared)
            detail = {"spec": spec} if like is None else {"like": like, "spec": spec}
            audit.record(journal, by, "created", experiment=made.id, name=made.name, detail=detail)
            return made

        experiment = await self.writer.call_soon(write)
        running = self.experiments.add(experiment)
        self._wake()
        for _ in range(500):  # the learning process makes the first plan at once
            if await self.readers.run(self.experiments.take_plan, running) is not None:
                break
            await asyncio.sleep(0.02)
        return experiment

    async def set_state(self, name: str, state: State, *, by: Actor = PROCESS) -> State | None:
        """Pause, resume or end; the state before, or None if it has ended."""
        running = self.experiments.find(name)
        was = await self._set_state(running, state, by)
        if was is not None:
            self.experiments.note_state(running, state)
        self._wake()
        return was

    async def _set_state(self, running: Running, state: State, by: Actor) -> State | None:
        number, name = running.experiment.id, running.experiment.name

        def write(journal: Journal) -> State | None:
            was = journal.set_state(number, state)
            if was not in (None, state):
                detail = {"before": was, "decisions": journal.n_decisions(number)}
                audit.record(journal, by, _VERBS[state], experiment=number, name=name, detail=detail)
            return was

        return await self.writer.call_soon(write, number)

    async def delete(self, name: str, *, by: Actor = PROCESS) -> bool:
        """Delete one that has ended; False if it has not."""
        running = self.experiments.find(name)
        if await self._set_state(running, "deleted", by) is None:
            return False
        self.experiments.forget(running)
        self.housekeeping.wake()
        return True

    async def archive(self, name: str, archived: bool, *, by: Actor = PROCESS) -> int | None:
        """Put one that has ended out of the way, or back; since when it is. `NotRunningError` if it has not ended."""
        running = self.experiments.find(name)
        number = running.experiment.id

        def write(journal: Journal) -> int | None:
            since = journal.archive(number, archived)
            if since != running.experiment.archived:
                verb = "archived" if archived else "unarchived"
                audit.record(journal, by, verb, experiment=number, name=name)
            return since

        since = await self.writer.call_soon(write, number)
        self.experiments.note_archived(running, since)
        return since

    async def clone(self, name: str, what: Clone, *, by: Actor = PROCESS) -> Experiment:
        """A new experiment with the settings of another one and the candidates that are in its field now."""
        running = self.experiments.find(name)
        spec = running.experiment.spec
        field = await self.readers.run(self.experiments.take_changes, running)
        note = spec.note if what.note is None else what.note
        changes = await self.readers.run(changes_of, self.journal, running.experiment.id)
        known = digests_of(spec, changes)
        digests = [known[one] for one in field] if any(known.values()) else None
        new = replace(spec, name=what.name, candidates=field, note=note, digests=digests)
        return await self.create(new, by=by, like=name)

    async def change_field(self, name: str, what: FieldChange, *, by: Actor = PROCESS) -> FieldChanged:
        """A candidate joins, another leaves; waits until decisions are made by it, for a while."""
        running = self.experiments.find(name)
        experiment = running.experiment
        if running.plan is not None and running.plan.winner is not None:
            raise FieldClosedError(running.reader.names[running.plan.winner])

        def write(journal: Journal) -> Change:
            made = record_change(journal, experiment.id, experiment.spec, what)
            audit.record(journal, by, "field changed", experiment=experiment.id, name=name, detail=what)
            return made

        made = await self.writer.call_soon(write, experiment.id)
        field = await self.readers.run(self.experiments.take_changes, running)
        self._wake()
        for _ in range(250):
            plan = await self.readers.run(self.experiments.take_plan, running)
            if plan is not None and plan.changes > made.number:
                return FieldChanged(change=made.number, candidates=field, applied=True)
            if plan is not None and plan.winner is not None:  # it was certified before the change could count
                raise FieldClosedError(running.reader.names[plan.winner])
            await asyncio.sleep(0.02)
        return FieldChanged(change=made.number, candidates=field, applied=False)

    def head(self, name: str) -> Head:
        """The hash of all that is recorded so far; `InputError` where no chain is kept."""
        running = self.experiments.find(name)
        head, records, decisions, ended = chain.head_of(self.database, running.experiment.id)
        if not head:
            raise InputError(NO_CHAIN)
        return Head(name, head, records, decisions, ended)

    def certificate(self, name: str, path: str) -> None:
        """Write the bundle that others check; `UnfinishedError` while anything is open."""
        write_certificate(path, self.journal, self.experiments.find(name).experiment)

    def _wake(self) -> None:
        if self.learners is not None:
            self.learners.wake()

    # ---- decisions and rewards ---------------------------------------------------------------------------------------

    async def decide(self, name: str, asked: Sequence[DecisionRequest]) -> list[Decision]:
        """Decisions, in the order of the requests; durable when this returns. The first request that is refused
        (`RepeatedRequestError`, `NotRunningError`) is raised, though others may have been decided.
        """
        running, plan = await self._deciding(name)
        made = await self._decide(running, plan, self._read(running, plan, asked))
        return [
            Decision(
                one.decision,
                one.request,
                keys_of(one.items),
                one.propensities,
                one.epoch,
                one.ticket,
                one.not_needed,
                one.placements,
            )
            for one in map(_given, made)
        ]

    async def decide_body(self, name: str, body: bytes) -> RawDecision | RawDecisions:
        """The same from the body of a request; of a batch, one by one what is refused."""
        running, plan = await self._deciding(name)
        requests = await self.off_the_loop(len(body), self._read_body, running, plan, body)
        made = await self._decide(running, plan, requests)
        if body.lstrip()[:1] != b"[" or all(isinstance(one, NotRunningError) for one in made):
            return _given(made[0])
        refused = [
            RefusedRequest(i, requests.ids[i], *refusal_of(one))
            for i, one in enumerate(made)
            if isinstance(one, Exception)
        ]
        return RawDecisions([None if isinstance(one, Exception) else one for one in made], refused)

    def _read_body(self, running: Running, plan: Plan, body: bytes) -> Requests:
        check_elements(body, MAX_BATCH, MAX_CONTEXT)
        requests = running.reader.scan(body, plan.needed) if running.models is None else None
        if requests is None:
            asked = decision_requests_of(body)
            requests = self._read(running, plan, asked if isinstance(asked, list) else [asked])
        return requests

    async def off_the_loop(
        self, size: int, call: Callable[_Arguments, _Result], *args: _Arguments.args, **more: _Arguments.kwargs
    ) -> _Result:
        """The result of a call that takes the longer the larger something is, in a thread if it is large."""
        return call(*args, **more) if size <= _LARGE else await self.readers.run(call, *args, **more)

    async def _deciding(self, name: str) -> tuple[Running, Plan]:
        while self.warming.is_cold:  # here, and not in a loop that is compiled, for which all requests would wait
            await asyncio.sleep(0.02)
        running = self.experiments.find(name)
        plan = running.plan
        if running.experiment.state == "ended":
            raise NotRunningError("ended")
        if plan is None:
            plan = await self.readers.run(self.experiments.take_plan, running)
            if plan is None:
                raise NotReadyError(name)
        return running, plan

    def _read(self, running: Running, plan: Plan, asked: Sequence[DecisionRequest]) -> Requests:
        if running.models is not None:
            asked = _with_lists(running.models, asked)
        elif any(one.context is not None for one in asked):
            raise InputError('"context" is for experiments with models of the service; send "lists".')
        return running.reader.read(asked, plan.needed)

    async def _decide(self, running: Running, plan: Plan, requests: Requests) -> list[RawDecision | Exception]:
        older = partial(self.experiments.older_plan, running)
        parts = await self.writer.decide(Asked(running.experiment, plan, running.reader.fallback, requests, older))
        if len(parts) == 1:
            return self._answers(running, parts[0], requests)
        edges = [0, *accumulate(part.n for part in parts)]
        return [
            answer
            for part, (first, last) in zip(parts, pairwise(edges), strict=True)
            for answer in self._answers(running, part, requests.some(first, last))
        ]

    def _answers(self, running: Running, made: Made, requests: Requests) -> list[RawDecision | Exception]:
        first, n, drawn, others = made.first, made.n, made.drawn, made.stored.others
        idle = self._idle(running.reader.names, made.plan, requests) if made.plan.idle else [[]] * n
        numbers, seed = made.stored.numbers[first : first + n], running.experiment.seed
        decisions: list[RawDecision | Exception] = []
        for i, sizes, weights, number, ticket, names in zip(
            range(first, first + n),
            drawn.items[first : first + n],
            drawn.propensities[first : first + n].tolist(),
            numbers,
            tickets_of(seed, numbers),
            idle,
            strict=True,
        ):
            if number >= 0:
                items = Raw(drawn.shown[drawn.begins[i] : drawn.begins[i + 1] - 1])
                one = RawDecision(number, drawn.requests[i], items, weights[:sizes], drawn.epoch, ticket, names)
                if drawn.placements is not None:
                    one.placements = drawn.placements[i, :sizes].tolist()
                decisions.append(one)
            else:
                decisions.append(self._known(others[i], requests, i - first, names, seed))
        self.counts["decisions"] += n
        return decisions

    def _idle(self, names: Sequence[str], plan: Plan, requests: Requests) -> list[list[str]]:
        """Whose lists were sent and are not needed, for each request."""
        needed = np.append(plan.needed, np.True_)[np.minimum(requests.given, len(plan.needed))]
        edges, given = requests.edges[:, 0].tolist(), requests.given
        return [[names[k] for k in given[first:last][~needed[first:last]].tolist()] for first, last in pairwise(edges)]

    def _known(
        self, made: StoredDecision | NotRunningError, requests: Requests, i: int, idle: list[str], seed: str
    ) -> RawDecision | Exception:
        """The decision that a request has already, or why it has none."""
        if isinstance(made, NotRunningError):
            return made
        body = unpack_body(made.body)
        if not requests.is_same(i, body):
            return RepeatedRequestError(made.request)
        self.counts["repeated"] += 1
        items = body.items()
        propensities = np.frombuffer(body.propensities, np.float64)[: len(items)].tolist()
        [ticket] = tickets_of(seed, [made.number])
        placements = body.of_places(len(items)).tolist()
        text = Raw(as_json(items))
        return RawDecision(made.number, made.request, text, propensities, made.epoch, ticket, idle, placements)

    async def reward(self, name: str, posts: Sequence[RewardPost]) -> RewardReceipt:
        """Rewards; durable when this returns."""
        running = self.experiments.find(name)
        seed, only_tickets = running.experiment.seed, running.experiment.spec.tickets
        names = [None, *(metric.name for metric in running.experiment.spec.metrics)]
        new, unnamed, told = [], {}, [part for one in posts for part in _parts(running.experiment.spec, one)]
        for i, (post, part, values) in enumerate(told):
            number = number_of(seed, post.decision) if isinstance(post.decision, str) else post.decision
            if number is None or (only_tickets and not isinstance(post.decision, str)):
                unnamed[i] = Receipt(
                    faults=[(item, "unknown" if number is None else "no ticket") for item, _ in values]
                )
            else:
                new.append(NewRewards(running.experiment.id, number, values, running.limits[part], part))
        made = iter(await self.writer.reward(new) if new else ())
        receipts: list[Receipt] = [unnamed[i] if i in unnamed else next(made) for i in range(len(told))]
        faults = [
            RewardFault(post.decision, item, outcome, detail(outcome), names[part])
            for (post, part, _), receipt in zip(told, receipts, strict=True)
            for item, outcome in receipt.faults
        ]
        for fault in faults:
            self.reward_faults[fault.outcome] = self.reward_faults.get(fault.outcome, 0) + 1
        accepted = sum(receipt.accepted for receipt in receipts)
        self.counts["rewards"] += accepted
        return RewardReceipt(accepted, sum(receipt.duplicates for receipt in receipts), faults)


def _parts(spec: Spec, post: RewardPost) -> list[tuple[RewardPost, int, Sequence[tuple[str | int, float]]]]:
    """The parts of an answer that a post has: rewards, and values of metrics that the experiment knows."""
    found: list[tuple[RewardPost, int, Sequence[tuple[str | int, float]]]] = []
    if post.rewards or not post.metrics:
        if not post.rewards:
            raise InputError('a post has "rewards", pairs of item and reward, or "metrics", or both.')
        found.append((post, 0, post.rewards))
    metrics = {one.name: (part, one) for part, one in enumerate(spec.metrics, start=1)}
    for name, values in post.metrics.items():
        if name not in metrics:
            known = ", ".join(metrics) or "none"
            raise InputError(f"the experiment has no metric {quoted(name)}; it has {known}.")
        part, metric = metrics[name]
        largest = max((value for _, value in values), default=0.0)
        if largest > metric.largest:
            raise InputError(
                f"{name} of an item is at most {metric.largest:g}, as was declared (largest), got {largest:g}."
            )
        found.append((post, part, values))
    return found


def _given(made: RawDecision | Exception) -> RawDecision:
    """The decision, if there is one."""
    if isinstance(made, Exception):
        raise made
    return made


def refusal_of(error: Exception) -> tuple[int, str, str]:
    """Status, title and detail of a request that has no decision, because its id came with other lists or the
    experiment does not run.
    """
    if isinstance(error, RepeatedRequestError):
        detail = "This request id came before with other lists, and has a decision; choose a new id for each request."
        return 409, "Not possible in this state", detail
    what = "resume it, or " if str(error) == "paused" else ""
    detail = f"The experiment is {error}: {what}show a list of your own, and ask for no decision."
    return 409, "Not possible in this state", detail


def _with_lists(models: PolicySet, asked: Sequence[DecisionRequest]) -> list[DecisionRequest]:
    """Requests with the lists of the service's own policies for their contexts."""
    if any(one.context is None or one.lists is not None for one in asked):
        raise InputError('an experiment with models of the service needs a "context", and no "lists".')
    lengths = {len(one.context or ()) for one in asked}
    if len(lengths) > 1:
        raise InputError(f"contexts of one batch must have one length, got {sorted(lengths)}.")
    lists = models.predict(np.array([one.context for one in asked], dtype=np.float64))
    return [DecisionRequest(lists=table.tolist(), request=one.request) for one, table in zip(asked, lists, strict=True)]
