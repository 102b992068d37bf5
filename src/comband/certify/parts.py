"""The parts of a certifying learner, made, saved and restored together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from comband.certify.beliefs import Beliefs
from comband.certify.breaker import FALSE_STOP, Breaker
from comband.certify.certifier import Certifier
from comband.certify.epochs import Epoch, Epochs, Railing
from comband.certify.evidence import Evidence
from comband.certify.field import Field
from comband.certify.guardrails import Guardrails, Lifts
from comband.certify.notifications import Asked, Began, Watched
from comband.certify.planner import Planner, scale
from comband.certify.queue import Queue
from comband.certify.recording import Recording
from comband.certify.report import Report
from comband.certify.spec import Spec
from comband.certify.traffic import Traffic
from comband.certify.validate import check_evidence
from comband.certify.watch import PlacesGuard, Watch
from comband.explore.explorers.base import Exploration
from comband.explore.explorers.blocks import check_arms
from comband.explore.explorers.recent import RecentContexts
from comband.learners.ledger import Ledger
from comband.page.contexts import Contexts, alike
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions
from comband.page.storage import Default, Many, Maybe, Part, State, Text, Whole, require
from comband.page.text import quoted
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.guardrails import Rail


def _lifted(spec: Spec, problem: Problem) -> bool:
    """Whether there is an interval of the lift over production: where all rounds count, and single rewards are told."""
    reading = reading_of(problem)
    return spec.recent is None and not (reading.TOTAL or reading.FITTED)


class Parts:
    """Epochs, queue, evidence, verdict, watch, the recent contexts, and who plans the next epoch.

    Parameters
    ----------
    problem, policies:
        As for `CertifyingLearner`.
    ledger:
        The learner's record of its decisions.
    spec, exploration:
        What was declared, and the exploration that it asks for.
    tie_seed:
        Decides ties between candidates that might lead.
    recording:
        Writes down what others can check, if that was declared.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        ledger: Ledger,
        *,
        spec: Spec,
        exploration: Exploration,
        tie_seed: int,
        recording: Recording | None = None,
    ) -> None:
        self.recording = recording
        self.reading = reading = reading_of(problem)
        self._policies = reading.drawn(policies)
        traffic, epsilon = Traffic.of(spec, policies), scale(spec, problem)
        self.epochs = Epochs(first_epoch=spec.first_epoch, epoch_growth=spec.epoch_growth)
        waits = tuple(spec.patience if one.patience is None else one.patience for one in spec.metrics)
        self.queue = Queue(ledger, patience=spec.patience, period=spec.period, further=waits)
        self._metrics, self._lifted = tuple(spec.metrics), traffic.production is not None and _lifted(spec, problem)
        self._production = traffic.production
        self.evidence = Evidence(
            reading.events,
            len(policies),
            self.epochs,
            per_reward=reading.per_reward,
            guardrails=self._guardrails(),
            lifts=self._lifts(),
            breaker=self._breaker(spec),
        )
        field = Field(len(policies), delta=spec.delta, is_open=spec.open_field)
        self.verdict = Certifier(
            self.evidence,
            policies.names,
            epsilon=spec.epsilon or 0.0,
            field=field,
            kept=traffic.production,
            restarts=spec.recent is not None,
        )
        self.watch = Watch(Watched(problem, policies.names, spec.period), spec.guards)
        self.recent = RecentContexts(self._policies, reading.lists)
        self.planner = Planner(
            self._policies,
            exploration,
            reading=reading,
            beliefs=Beliefs(len(policies), spec.prior_scores, spec.prior_error, epsilon=epsilon),
            max_rounds=spec.max_rounds,
            objective=spec.objective,
            traffic=traffic,
            tie_seed=tie_seed,
            railing=self._railing(),
            shuffled=spec.shuffled,
        )

    def _guardrails(self) -> Guardrails | None:
        if not self._metrics or self._production is None:
            return None
        reading = self.reading
        return Guardrails(
            self._metrics,
            reading.events,
            len(self._policies),
            self._production,
            self.epochs,
            per_reward=reading.per_reward,
        )

    def _lifts(self) -> Lifts | None:
        if not self._lifted or self._production is None:
            return None
        return Lifts(self._rails()[0], len(self._policies), self._production, self.epochs)

    def _breaker(self, spec: Spec) -> Breaker | None:
        railing = self._railing()
        if spec.max_harm is None or railing is None:
            return None
        return Breaker(railing, spec.max_harm, FALSE_STOP if spec.false_stop is None else spec.false_stop)

    def _rails(self) -> tuple[Rail, ...]:
        events = self.reading.events
        most = events.max_reward
        return Rail(1.0, 1.0, 0.0, most, min(1.0, most)), *(Rail.of(metric, events) for metric in self._metrics)

    def _railing(self) -> Railing | None:
        if not self._lifted or self._production is None:
            return None
        return Railing(self._rails(), self._production, own_lists=not self._policies.has_gaps)

    def begin_epoch(self, first_id: int) -> None:
        """The next epoch, whose first decision will be `first_id`."""
        if len(self.epochs) and self.epochs.current.fitting and self.watch[PlacesGuard].fit.clear:
            self.restart(first_id)
            return
        if len(self.epochs):
            self.verdict.end_epoch()
            self.evidence.end_epoch()
            if self.recording is not None and self.verdict.best_before is not None:
                self.look()
                self.recording.claim(self.verdict.best_before, self.evidence.rounds)
        self._begin(first_id)

    def restart(self, first_id: int) -> None:
        """The next epoch, of all who are in the field, with which evidence begins anew."""
        self.evidence.restart()
        self.verdict.restart(counts=not self.epochs.current.fitting)
        self.epochs.origin = self.evidence.rounds
        if self.recording is not None:
            self.recording.forget()
        self._begin(first_id, restart=True)

    def look(self) -> None:
        """Write down what was dropped or certified since the last time, if that is asked for."""
        if self.recording is not None:
            self.recording.look(self.verdict)

    def _begin(self, first_id: int, *, restart: bool = False) -> None:
        self.evidence.forget(self.verdict.alive)
        self.evidence.admit(self.verdict.candidates)
        self.epochs.append(
            self.planner.next(
                self.epochs,
                self.evidence,
                self.verdict,
                self.recent,
                first_id=first_id,
                factors=self._factors(begin=restart),
            )
        )
        self.watch.observe(Began(self.epochs.current, self.epochs.planned_rounds(), self.verdict.names))
        if self.recording is not None:
            self.recording.plan(len(self.epochs) - 1, self.epochs.current, restart=restart)

    def _factors(self, *, begin: bool) -> tuple[float, ...] | None:
        """Of places, of the next epoch: as they are fitted by now, once they were clear."""
        if not self.reading.FITTED or not (begin or (len(self.epochs) and not self.epochs.current.fitting)):
            return None
        fitted = self.watch[PlacesGuard].fit.factors
        return self.epochs.current.factors if fitted is None else fitted

    def change(self, policies: PolicySet, withdrawn: Sequence[int], *, planned: bool, first_id: int) -> None:
        """The next epoch is of another field: with what `policies` have in addition, and without some. A failure leaves
        these parts half changed; see `changing`.
        """
        arrivals, epoch = len(policies) - len(self.verdict.field), len(self.epochs)
        field = self.verdict.field.changed(epoch=epoch, arrivals=arrivals, withdrawn=withdrawn, planned=planned)
        self._policies = self.planner.policies = self.reading.drawn(policies)
        self.planner.beliefs = self.planner.beliefs.grown(arrivals)
        self.recent = self.recent.of(self._policies)
        self.evidence.end_epoch()
        self.evidence.change(arrivals, withdrawn)
        self.look()
        self.verdict.change(policies.names, field)
        if self.recording is not None:
            self.recording.change(self.verdict, policies, len(policies) - arrivals, withdrawn, planned=planned)
        self._begin(first_id)
        self.verdict.judge()
        self.look()

    def adopt(self, drawn: Decisions, X: Contexts, first_id: int) -> Decisions:
        """What was drawn elsewhere with the explorer of one epoch, as if it had been drawn here."""
        numbers = np.unique(drawn.epochs)
        if len(numbers) > 1 or (len(numbers) and not 0 <= numbers[0] < len(self.epochs)):
            raise InputError(
                f"decisions to adopt must be of one epoch in 0 … {len(self.epochs) - 1}, got {numbers.tolist()}."
            )
        lists = self.reading.as_drawn(drawn.lists)
        number = int(numbers[0]) if len(numbers) else 0
        decisions = Decisions.unsigned(
            first_id,
            check_lists(lists, self.reading.lists, gaps=self._policies.has_gaps).copy(),
            drawn.propensities.copy(),
            epoch=number,
            contexts=X,
            covered=drawn.covered.copy(),
            arms=check_arms(drawn.arms, self.epochs[number].explorer).copy(),
            placements=None if drawn.placements is None else drawn.placements.copy(),
        )
        self.queue.check_batch(len(decisions), first_id, number)
        epoch = self.epochs[number]
        self.watch.observe(Asked(decisions, epoch))
        self.queue.append(decisions)
        self.recent.add(X, None, epoch.candidates)
        return decisions

    def follow(self, number: int, published: State) -> None:
        """The epoch that another process published in place of the one that was planned here, if it can be: of the same
        candidates, begun at the same decision, led by one that is left, and with nothing drawn by the one planned here.
        """
        mine = self.epochs[number]
        epoch = Epoch.from_state(
            published, self._policies, self.reading.lists, unit=self.evidence.unit, railing=self.planner.railing
        )
        require(
            np.array_equal(epoch.candidates, mine.candidates)
            and (epoch.start, epoch.first_id) == (mine.start, mine.first_id),
            "an epoch that is followed must have the candidates and the beginning of the one planned here.",
        )
        require(
            epoch.fitting == mine.fitting, "an epoch that is followed must have factors if the one planned here has."
        )
        require(bool(self.verdict.alive[epoch.leader]), "an epoch that is followed must be led by one who is left.")
        require(self.evidence.rounds_of(number) == 0, "rounds of this epoch have entered already.")
        if epoch.leader != mine.leader:
            self.verdict.lead(epoch.leader)
            require(
                self.evidence.guardrails is None or np.array_equal(self.verdict.candidates, epoch.candidates),
                "an epoch that is followed must have the candidates that are left when its leader leads.",
            )
        self.epochs.replace(number, epoch)
        self.verdict.look_again()
        if self.recording is not None:
            self.recording.plan(number, epoch, restart=False)

    def report(self, rounds: int, options: frozenset[str]) -> Report:
        """All of it in words, after so many rounds, with these options."""
        return Report(
            self.reading.problem,
            options,
            self._policies,
            self.planner,
            self.epochs,
            self.verdict,
            self.queue,
            self.watch,
            rounds,
        )

    def changing(self, *, epoch: bool = False, asking: bool = False, moving: bool = False) -> tuple[object, ...]:
        """The objects whose attributes are replaced by what may fail: when an epoch begins, or else when decisions are
        made (asking; an epoch may begin before if the learner is moving on) and answers taken in. What enters the
        evidence is altered when nothing can fail any more.
        """
        guardrails = self.evidence.guardrails
        more = () if guardrails is None else (guardrails, *guardrails.seen)
        mine = (self, self.planner, self.epochs, self.evidence, self.evidence.seen, *more, self.verdict)
        mine = (*(mine if epoch or moving else ()), *(() if epoch else (self.queue,)))
        recording = () if self.recording is None else (self.recording,)
        return (
            *mine,
            *recording,
            self.recent,
            *self.watch.parts(asking=asking and not moving and self.queue.waits_for_ever),
        )

    SCHEMA: ClassVar = {
        "field": Field.SCHEMA,
        "epochs": Many(Epoch.SCHEMA),
        "queue": Queue.SCHEMA,
        "evidence": Evidence.SCHEMA,
        "verdict": Certifier.SCHEMA,
        "watch": Watch.SCHEMA,
        "recent": Maybe(Part()),
        "exploration": Text(),
        "tie_seed": Whole(0, (1 << 63) - 1),
        "recording": Default(Maybe(Part())),
    }

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        return {
            "field": self.verdict.field.state(),
            "epochs": self.epochs.state(),
            "queue": self.queue.state(),
            "evidence": self.evidence.state(),
            "verdict": self.verdict.state(),
            "watch": self.watch.state(),
            "recent": self.recent.state(),
            "exploration": type(self.planner.exploration).__name__,
            "tie_seed": self.planner.tie_seed,
            "recording": None if self.recording is None else self.recording.state(),
        }

    def restore(self, state: State, ledger: Ledger) -> None:
        """The inverse of `state`, whose schema has been compared: the parts must agree with each other."""
        problem, policies, epochs = self.reading.lists, self._policies, self.epochs
        per_reward = self.evidence.per_reward
        given = type(self.planner.exploration).__name__
        if state["exploration"] != given:
            raise InputError(
                f"it was saved with another exploration, {quoted(state['exploration'])}, than {given}; give the same "
                "to load(…, exploration=…)."
            )
        require(
            int(state["evidence"]["n_rounds"].sum()) == state["queue"]["front"],
            "decisions, answers and rounds must be as many as each other.",
        )
        now = self.verdict.field
        field = Field.from_state(state["field"], 0, delta=now.delta, is_open=now.open)
        require(field.open == now.open, "its field must be open if that was declared, and only then.")
        epochs.restore(
            state["epochs"],
            policies,
            problem,
            unit=self.evidence.unit,
            issued=ledger.issued,
            field=field,
            since=state["evidence"]["since"],
            railing=self.planner.railing,
        )
        self.evidence = Evidence.from_state(
            state["evidence"],
            self.reading.events,
            len(policies),
            epochs,
            per_reward=per_reward,
            n_first=field.n_first,
            withdrawn=frozenset(np.flatnonzero(~field.present).tolist()),
            guardrails=self._guardrails(),
            lifts=self._lifts(),
            breaker=None if self.evidence.breaker is None else self.evidence.breaker.anew(),
        )
        check_evidence(self.evidence)
        self.verdict = self.verdict.on(self.evidence, field)
        self.verdict.restore(state["verdict"])
        patience, *further = self.queue.patiences
        self.queue = Queue(ledger, patience=patience, period=self.queue.period, further=further)
        self.queue.restore(state["queue"])
        settings = [self.reading.events, *(metric.problem(self.reading.events) for metric in self._metrics)]
        self.queue.check(problem, policies, n_epochs=len(epochs), of_events=settings, per_reward=per_reward)
        require(self.queue.front >= epochs.current.start, "its current epoch must have begun.")
        self.watch.restore(state["watch"], epochs, self.evidence.rounds_of(len(epochs) - 1), total=self.queue.front)
        self.recent = RecentContexts.from_state(state["recent"], policies, problem)
        recent, kept = self.recent.contexts, [self.evidence.seen.events.contexts, *self.queue.contexts]
        require(
            self.recent.is_last_of(ledger.issued) and all(alike(recent, part) for part in kept),
            "the recent contexts must be as many as were asked for, and of one kind with the others.",
        )
        self.planner.tie_seed = state["tie_seed"]
        require((state["recording"] is None) == (self.recording is None), "a record is kept if that was declared.")
        if self.recording is not None:
            numbers = {"issued": ledger.issued, "answered": ledger.answered}
            self.recording.restore(state["recording"], n_policies=len(policies), epochs=epochs, **numbers)
