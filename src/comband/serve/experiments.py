"""The experiments that a process serves, each with the newest plan that it has heard of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from comband.certify.spec import check_recorded
from comband.page.problem import InputError
from comband.page.text import quoted
from comband.policies.fallback import NOTHING
from comband.policies.policy_set import PolicySet
from comband.policies.requested import RequestedLists
from comband.serve import audit
from comband.serve.deciding import Plan
from comband.serve.field import changes_of, check_name, field_of, n_changes, names_of
from comband.serve.journal import Experiment, Journal, Limits, State
from comband.serve.learning import new_learner
from comband.serve.progress import Progress
from comband.serve.requests import Reader, Requests, limits_of, most_candidates, problem_of
from comband.serve.tokens import Token, own_tokens
from comband.serve.wire import AUDITED, Spec

Models = dict[str, Callable[[], PolicySet]]


class UnknownExperimentError(Exception):
    """There is no experiment of this name."""


@dataclass(eq=False, slots=True)
class Running:
    """An experiment as this process serves it, after so many `changes` of its field that it has heard of."""

    experiment: Experiment
    reader: Reader
    limits: tuple[Limits, ...]  # of rewards, and of each further metric
    changes: int = 0
    plan: Plan | None = None
    models: PolicySet | None = None


class Experiments:
    """All experiments of a journal.

    Parameters
    ----------
    journal:
        Where they are.
    models:
        Policies that the service itself may ask, by name.
    """

    def __init__(self, journal: Journal, models: Models) -> None:
        self._journal, self._progress, self._models = journal, Progress(journal), models
        self._running: dict[str, Running] = {}
        self._unfinished: dict[int, Running] = {}
        self._newest, self._heard = 0, audit.latest(journal)
        self.tokens: dict[str, Token] = {}
        self.failures: dict[int, str] = {}  # why learning stopped, wherever it did
        self.refresh()
        for number in self._progress.finished():
            self._unfinished.pop(number, None)

    def find(self, name: str) -> Running:
        """The experiment of this name."""
        found = self._running.get(name)
        if found is None:
            raise UnknownExperimentError(name)
        return found

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._running)

    @property
    def n_archived(self) -> int:
        """How many of them are out of the way."""
        return sum(one.experiment.archived is not None for one in tuple(self._running.values()))

    def all(self) -> list[Running]:
        """All experiments, by age."""
        return sorted(self._running.values(), key=lambda one: one.experiment.id)

    def live(self) -> list[Running]:
        """Those that have not ended, by age."""
        return [one for one in self.unfinished() if one.experiment.state != "ended"]

    def unfinished(self) -> list[Running]:
        """Those that have not ended, or in which something is left to learn, by age."""
        return [running for _, running in sorted(self._unfinished.items(), key=lambda one: one[0])]

    def finish(self, running: Running) -> None:
        """Nothing is left to do for one that has ended: it costs nothing any more."""
        self._unfinished.pop(running.experiment.id, None)

    def settled(self, spec: Spec) -> Spec:
        """With a chain where none was asked for or declined, if what it proves can be checked."""
        if spec.audited is not msgspec.UNSET:
            return spec
        try:
            check_recorded(spec, problem_of(spec))
        except InputError:
            return msgspec.structs.replace(spec, audited=None)
        return msgspec.structs.replace(spec, audited=AUDITED)

    def check(self, spec: Spec) -> None:
        """Refuse what the schema cannot see."""
        if len(set(spec.candidates)) < len(spec.candidates):
            raise InputError("names of candidates must differ.")
        if spec.fallback == NOTHING and NOTHING in spec.candidates:
            raise InputError(f"no candidate may be called {NOTHING!r} where that is the fallback.")
        if spec.fallback not in (None, NOTHING, *spec.candidates):
            raise InputError(
                f"fallback must be one of the candidates, or {NOTHING!r}, got {quoted(str(spec.fallback))}."
            )
        if spec.fallback == NOTHING and spec.places is not None:
            raise InputError(
                f"where places matter none may stay empty: let the fallback be one of the candidates, not {NOTHING!r}."
            )
        if spec.tickets and spec.seed is not None:
            raise InputError("tickets are made with the secret seed of the experiment: leave the seed out.")
        for name in (spec.name, *spec.candidates):
            check_name(name)
        if spec.exploration not in (None, "adaptive") or spec.feedback != "items":
            raise InputError(
                "the service knows the items that candidates send with each request, and no others: it explores with "
                f'them ("exploration": "adaptive") by the rewards of single ones ("feedback": "items"), got '
                f"{quoted(spec.exploration)} and {quoted(spec.feedback)}."
            )
        if spec.digests is not None and len(spec.digests) != len(spec.candidates):
            raise InputError(
                f"digests must be one for each of the {len(spec.candidates)} candidates (null where there is none), "
                f"got {len(spec.digests)}."
            )
        unknown = spec.metric_windows.keys() - {one.name for one in spec.metrics}
        if unknown:
            raise InputError(f"metric_windows has {quoted(min(unknown))}, which is none of the metrics.")
        if spec.max_evaluated < most_candidates(spec):
            raise InputError(
                f"all candidates send their lists with each request: max_evaluated must be at least "
                f"{most_candidates(spec)}, those that may join among them, got {spec.max_evaluated}."
            )
        if spec.is_recorded:
            check_recorded(spec, problem_of(spec))
        nothing = NOTHING if spec.fallback == NOTHING else None
        new_learner(spec, RequestedLists(spec.candidates, problem_of(spec), fallback=nothing), seed=0)
        if spec.models is not None:
            if spec.models not in self._models:
                known = ", ".join(sorted(self._models)) or "none"
                raise InputError(f"models must be one that the service was started with ({known}).")
            if list(self._models[spec.models]().names) != spec.candidates:
                raise InputError("candidates must be the names of the models' policies, in their order.")

    def add(self, experiment: Experiment) -> Running:
        """Serve a further one."""
        spec = experiment.spec
        models = self._models[spec.models]() if spec.models in self._models else None
        running = Running(experiment, Reader(spec, spec.candidates), limits_of(spec), models=models)
        self._unfinished.setdefault(experiment.id, running)
        return self._running.setdefault(experiment.name, running)

    def note_state(self, running: Running, state: State) -> None:
        """Its state has changed."""
        running.experiment = replace(running.experiment, state=state)

    def note_archived(self, running: Running, archived: int | None) -> None:
        """It is out of the way since then, or no more."""
        running.experiment = replace(running.experiment, archived=archived)

    def forget(self, running: Running) -> None:
        """It was deleted."""
        if self._running.get(running.experiment.name) is running:
            del self._running[running.experiment.name]
        self._unfinished.pop(running.experiment.id, None)

    def refresh(self) -> None:
        """Look for tokens, experiments, states and plans that other processes have made; for none that has ended but
        for what the audit trail says of it.
        """
        self.tokens = own_tokens(self._journal)
        for experiment in self._journal.experiments(self._newest):
            there = self._running.get(experiment.name)
            if there is not None and there.experiment.id != experiment.id:  # deleted, which frees the name
                self.forget(there)
            if there is None or there.experiment.id != experiment.id:
                self.add(experiment)
            self._newest = experiment.id
        for entry in audit.since(self._journal, self._heard):
            self._heard = entry.id
            running = self._running.get(entry.name)
            if running is not None and running.experiment.id == entry.experiment:
                if entry.action == "deleted":
                    self.forget(running)
                elif entry.action in ("archived", "unarchived"):
                    self.note_archived(running, entry.time if entry.action == "archived" else None)
        ids = {one.experiment.id for one in self._running.values()}
        self.failures = {number: reason for number, reason in self._progress.failures().items() if number in ids}
        live = self.live()
        states = self._journal.live_states() if live else {}
        for running in live:
            self.note_state(running, states.get(running.experiment.id, "ended"))
        live = self.live()
        changes, epochs = (n_changes(self._journal), self._progress.latest_epochs()) if live else ({}, {})
        for running in live:
            if changes.get(running.experiment.id, 0) > running.changes:
                self.take_changes(running)
            if epochs.get(running.experiment.id, -1) > (-1 if running.plan is None else running.plan.epoch):
                self.take_plan(running)

    def take_changes(self, running: Running) -> list[str]:
        """Know all candidates that have joined by now; returns who is in the field."""
        spec, changes = running.experiment.spec, changes_of(self._journal, running.experiment.id)
        names = names_of(spec, changes)
        if names != running.reader.names:
            running.reader = Reader(spec, names)
        running.changes = len(changes)
        return field_of(spec, changes)

    def older_plan(self, running: Running, epoch: int, requests: Requests) -> Plan:
        """The plan of an epoch that has been published, for requests that must have the lists that it needs. Inside a
        transaction.
        """
        plan = Plan.unpacked(epoch, self._progress.plan(running.experiment.id, epoch), running.reader)
        running.reader.check(requests, plan.needed)
        return plan

    def take_plan(self, running: Running) -> Plan | None:
        """Decide by the newest plan from now on."""
        found = self._progress.latest_plan(running.experiment.id)
        if found is not None and (running.plan is None or found[0] > running.plan.epoch):
            self.take_changes(running)  # the plan was made with its candidates known
            running.plan = Plan.unpacked(*found, running.reader)
        return running.plan
