"""What all certifying learners are: parts, and how asking and telling run through them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.certify.bundle import write_bundle
from comband.certify.certifier import Certifier
from comband.certify.claims import CERTIFICATE
from comband.certify.epochs import Epochs
from comband.certify.evidence import Evidence
from comband.certify.field import NEVER
from comband.certify.notifications import Asked, Entered, Told, Unanswered
from comband.certify.parts import Parts
from comband.certify.queue import Queue, Settled
from comband.certify.recording import Recording
from comband.certify.spec import Spec, check_breaker, check_by_chance, check_guarded, check_recorded, exploration_of
from comband.certify.watch import Watch
from comband.learners.atomic import Checkpoint, synchronized
from comband.learners.ledger import Admission, Ledger
from comband.learners.selector import Selector
from comband.page.contexts import Contexts, n_contexts
from comband.page.declaring import documented, plain, table, takes_settings
from comband.page.keyed import SECRET_BYTES
from comband.page.problem import InputError, Problem, check_count, check_epsilon, check_flag
from comband.page.rounds import Decisions, Rounds, check_decisions
from comband.page.storage import Flag, State, require
from comband.policies.base import Policy
from comband.policies.policy_set import PolicySet, check_policies
from comband.statistics.results import NOT_SAVED, CertificationStatus, Comparison, Selection


class CertifyingLearner(Selector):
    """Explores in epochs until one candidate is certified to be within ε of the best, with probability 1 − δ, at any
    time.

    Evidence is that of `comband.statistics.betting`. In each epoch the leader is the candidate of highest estimated
    value, or the one before it if that is likely to be certified sooner. A candidate is dropped when the evidence
    against its being the best reaches 1/δ; the learner is done when that against "it exceeds the leader by more than ε"
    has reached 1/δ for every other one that is left.

    A decision enters the evidence in the order in which decisions were made, once it and all before it are answered,
    or have waited for `patience` further decisions (then it counts as without reward, and an answer that comes later is
    late): answers that come early cannot bias the result. With a patience, a candidate's value is what comes in within
    it.

    What is shown next depends on which answers came between which decisions, and on nothing else: not on the order or
    the parts in which they were told. Rounds are added up in the order of decisions; candidates are dropped, and epochs
    begin, when decisions are asked for, or before that when all decisions are in the evidence, so that no answer can
    come in between. A certificate may be looked for at any time (`done`, `result`, `status`).

    Its parts can be looked at: `epochs`, `queue`, `evidence`, `verdict`, `watch`.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.certify.learner import CertifyingLearner
    >>> learner = CertifyingLearner(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    >>> len(learner.epochs) > 0, learner.verdict.epsilon
    (True, 0.2)
    """

    FROM_TOTALS = True  # with an exploration for them
    KNOWS_PLACES = True
    KNOWS_ORDER = True
    KNOWS_GAPS = True
    KNOWS_PROBABILITIES = True

    EXPLORATION: ClassVar[str] = "adaptive"
    """How learners of this class explore, where nothing else is said."""

    SPEC: ClassVar[type[Spec]] = Spec
    """What is declared; `class Mine(AdaptiveComband, spec=MySpec)` declares more."""

    def __init_subclass__(cls, *, spec: type[Spec] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if spec is not None:
            cls.SPEC, init = spec, inspect.unwrap(CertifyingLearner.__init__)
            cls.__init__ = takes_settings(spec)(init)  # type: ignore[method-assign]
        cls.__doc__ = documented(cls.__doc__, cls.SPEC)

    @takes_settings(Spec)
    def __init__(self, problem: Problem, policies: PolicySet, spec: Spec) -> None:
        super().__init__(problem, check_policies(policies, gaps=True, by_chance=True), seed=spec.seed)
        self.spec = spec
        exploration = exploration_of(spec, problem, self.EXPLORATION)
        if policies.by_chance:
            check_by_chance(spec, problem, policies)
        if spec.epsilon is not None:
            check_epsilon(spec.epsilon, problem)
        CERTIFICATE.check(self.options())
        recorded = None
        if spec.audited is not None:
            check_recorded(spec, problem)
            recorded = Recording(problem, spec, policies, secret=self._rng.bytes(SECRET_BYTES))
        if spec.max_harm is not None:
            check_breaker(spec, problem)
        if spec.metrics:
            check_guarded(spec, problem)
            self._ledger = Ledger(1 + len(spec.metrics))
        self._all = Parts(
            problem,
            policies,
            self._ledger,
            spec=spec,
            exploration=exploration,
            tie_seed=int(self._rng.integers(2**63)),
            recording=recorded,
        )
        self._drawn: Decisions | None = None  # elsewhere, and about to be adopted
        self._over = False  # whether as much reward may be lost as is allowed; once seen, for good
        self._up_to_date: tuple[int, int] | None = None  # after how many decisions and rounds; see `_move_on`
        self._all.begin_epoch(first_id=0)

    # ---- its parts, to look at ---------------------------------------------------------------------------------------

    @property
    def epochs(self) -> Epochs:
        """All epochs so far."""
        return self._all.epochs

    @property
    def queue(self) -> Queue:
        """Decisions and answers that are not in the evidence yet."""
        return self._all.queue

    @property
    def evidence(self) -> Evidence:
        """What all rounds so far say."""
        return self._all.evidence

    @property
    @synchronized
    def verdict(self) -> Certifier:
        """Who is out, and what is certified."""
        self._look()
        return self._all.verdict

    @property
    def watch(self) -> Watch:
        """The guards."""
        return self._all.watch

    @property
    def declared(self) -> tuple[tuple[str, str, str], ...]:
        """What was said beforehand: name, value and what it is."""
        return tuple(table(self.problem, self.spec))

    def options(self) -> frozenset[str]:
        """The names of the settings that differ from their defaults, and of how page and candidates are read: what a
        claim must know of (`comband.certify.claims`).
        """
        return self.spec.options(self.problem, self.policies)

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @property
    @synchronized
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent: that of decisions, or that of reward that may be lost; or
        visitors are proven to be harmed (`stopped_by_harm`).
        """
        self._look()
        certified = self._all.verdict.certified is not None
        return certified or self._over or self.decisions_left == 0 or self.stopped_by_harm

    @property
    def stopped_by_harm(self) -> bool:
        """Whether visitors were proven to get less than production's list would bring, by more than `max_harm`: show
        that list to all.
        """
        breaker = self._all.evidence.breaker
        return breaker is not None and breaker.stopped

    @property
    def rounds(self) -> int:
        """How many rounds are in the evidence: decisions that, like all before them, are answered or overdue."""
        return self._all.queue.front

    @property
    def decisions_left(self) -> int | None:
        """How many more decisions `max_rounds` allows, at least 0; None where that is not set."""
        return None if self.spec.max_rounds is None else max(self.spec.max_rounds - self._ledger.issued, 0)

    @property
    def largest_batch(self) -> int | None:
        """How many decisions may be asked for at once now: as many as the patience, or up to the end of the period;
        None where neither is set.
        """
        period = self.spec.period
        ends = [*self._all.queue.patiences, period - self._ledger.issued % period if period > 1 else None]
        return min((end for end in ends if end is not None), default=None)

    @synchronized
    def result(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        if self.rounds == self._ledger.answered == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        self._look()
        selection = self._all.report(self.rounds, self.options()).selection()
        notes = selection.notes if self._can_be_saved else (*selection.notes, NOT_SAVED)
        return replace(selection, notes=notes, declared=self.declared)

    @synchronized
    def status(self) -> CertificationStatus:
        """Where the learner stands now, with the verdict of `result` once decisions are answered."""
        nothing_yet = self.rounds == self._ledger.answered == 0
        return replace(self.progress(), verdict=None if nothing_yet else self.result().verdict)

    @synchronized
    def progress(self) -> CertificationStatus:
        """The same without the verdict, which takes longer."""
        self._look()
        return self._all.report(self.rounds, self.options()).status()

    @synchronized
    def comparison(self, most: int | None = None) -> Comparison:
        """The leader beside all other candidates, or the `most` best of them: differences and their bounds."""
        if most is not None:
            check_count("most", most)
        self._look()
        return self._all.report(self.rounds, self.options()).comparison(most)

    @synchronized
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (P,), (P,) of intervals that hold all values at all times, with probability 1 − delta of their own:
        those of the candidates at the start and of all who came later, and in all stretches of `recent` together.
        """
        return self._all.evidence.values.bounds(delta=self._all.verdict.delta, max_reward=self.problem.max_reward)

    @property
    @synchronized
    def head(self) -> str:
        """The hash of all that is recorded so far, to be published elsewhere: who has it can see that nothing before
        was changed afterwards. Needs `audited`.
        """
        return self._recording().head

    @synchronized
    def certificate(self, path: str | os.PathLike[str]) -> None:
        """Write what is claimed, and all that is needed to check it, to one file, with the program that checks it; see
        docs/howto_check.md. Needs `audited`. The file reveals the secret seed of all random numbers, also of those to
        come.
        """
        parts, recording, warnings = self._all, self._recording(), self.result().warnings
        write_bundle(path, recording, parts.verdict, parts.queue, warnings)

    def _recording(self) -> Recording:
        if self._all.recording is None:
            raise InputError(
                "this learner keeps no record that others could check: make it with "
                "audited=0.01, say, the share of rounds of which all candidates' lists are kept."
            )
        return self._all.recording

    @synchronized
    def adopt(self, drawn: Decisions) -> Decisions:
        """Take over decisions that another process drew with the explorer of one epoch of this learner, in an order
        that does not depend on rewards; tell what is returned, which is numbered and signed here.

        A plan that is no longer the current one is still valid: its bets were fixed before its contexts were drawn.
        With a period, all decisions of one must be drawn with the same plan, and no batch may reach into the next one.
        Where places are "pairs" the lists are of items, each in its place, as the learner's own are.
        """
        self._drawn = check_decisions(drawn)
        try:
            return self.ask(drawn.contexts)
        finally:
            self._drawn = None

    @synchronized
    def follow(self, number: int, published: State) -> None:
        """Take over an epoch (`Epoch.state`) that another process planned from the same rounds, and by which decisions
        were drawn, in place of the one that was planned here.

        Two processors plan the same up to rounding, and where scores are equal up to rounding they may choose another
        leader. The promise needs of an epoch that it was fixed before its contexts were drawn, and that its bets are
        those that its explorer allows: not who computed it, nor that it is the best one. What was published has that;
        its propensities are those of the decisions, and with its leader and stakes the evidence is the one process that
        the first learner followed, not a second one that would need a δ of its own.

        `InputError` where it cannot have been planned from these rounds: other candidates, another beginning, a leader
        who is out, or bets that its explorer does not allow.
        """
        self._all.follow(number, published)
        self._up_to_date = None

    # ---- a field that changes ----------------------------------------------------------------------------------------

    @property
    def field(self) -> tuple[str, ...]:
        """The names of those who are candidates now, dropped or not."""
        return tuple(self.policies.names[i] for i in np.flatnonzero(self._all.verdict.field.present))

    def add(self, policy: Policy | ArrayLike | None = None, *, name: str, planned: bool = False) -> None:
        """A further candidate, from the next decision on; its evidence begins there. None for candidates whose lists
        come with the request; probabilities (contexts, items) where those of the others are given.

        `planned` says that who comes, and when, does not depend on what this experiment has brought so far. A model
        that was trained on its rounds does, on whatever day it comes: that needs an open field.
        """
        self._change([(policy, name)], [], planned=planned)

    def withdraw(self, name: str, *, planned: bool = False) -> None:
        """The candidate of this name is one no more, from the next decision on; if it leads, another takes over.

        It is asked again only about decisions that were made before. `planned` as for `add`.
        """
        self._change([], [name], planned=planned)

    def replace(self, name: str, policy: Policy | None = None, *, by: str, planned: bool = False) -> None:
        """`withdraw` one candidate and `add` another, a new version of it, say, under the name `by`."""
        self._change([(policy, by)], [name], planned=planned)

    @synchronized
    def _change(self, arrivals: list[tuple[Any, str]], leaving: list[str], *, planned: bool) -> None:
        parts, issued = self._all, self._ledger.issued
        check_flag("planned", planned)
        if not (planned or self.spec.open_field):
            raise InputError(
                "a candidate that comes or goes because of what was seen costs a part of delta, which is set aside "
                "from the start: make the learner with open_field=True; or say planned=True, if the change was fixed "
                "without looking at the data."
            )
        if self.spec.metrics:
            raise InputError(
                "candidates cannot come or go where further metrics are guarded (metrics): who is safe is promised of "
                "those that were there at the start. Make a new learner with the candidates that there are now."
            )
        if issued % self.spec.period:
            raise InputError(
                f"the field can change when a period is over, in {-issued % self.spec.period:,} decisions."
            )
        here = self.field
        for name in leaving:
            if name not in here:
                raise InputError(f"there is no candidate {name!r} to withdraw; there are {', '.join(here)}.")
        if len(here) + len(arrivals) == len(leaving):
            raise InputError(f"{leaving[0]!r} is the only candidate: add another before it is withdrawn.")
        parts.planner.traffic.check_leaving([self.policies.names.index(name) for name in leaving])
        before = Checkpoint(self, *parts.changing(epoch=True))
        try:
            policies = self.policies
            for policy, name in arrivals:
                policies = policies.extended(policy, name)
            policies.check(self.problem)
            withdrawn = [self.policies.names.index(name) for name in leaving]
            parts.change(policies, withdrawn, planned=planned, first_id=issued)
            self._class, self._probe_digests, self._up_to_date = policies, None, None
            if self.spec.prior_scores is not None:
                self.spec = replace(self.spec, prior_scores=parts.planner.beliefs.scores)
        except BaseException:
            before.restore()
            raise

    # ---- asking and telling ------------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        parts = self._all
        self._move_on()
        if self._drawn is not None:
            adopted = parts.adopt(self._drawn, X, first_id)
            return parts.reading.shown(adopted)
        number = len(parts.epochs) - 1
        parts.queue.check_batch(n_contexts(X), first_id, number)
        epoch = parts.epochs.current
        keep = parts.recent.room(len(epoch.candidates))
        rng = self._rng if parts.recording is None else parts.recording.numbers(first_id)
        drawn = epoch.explorer.draw(X, rng, first_id=first_id, epoch=number, keep=keep)
        parts.watch.observe(Asked(drawn.decisions, epoch))
        parts.queue.append(drawn.decisions)
        parts.recent.add(X, drawn.lists, epoch.candidates)
        return parts.reading.shown(drawn.decisions)

    def _issue(self, decisions: Decisions) -> None:
        super()._issue(decisions)
        if self._all.recording is not None:
            self._all.recording.decided(decisions, self.policies, elsewhere=self._drawn is not None)

    def _check_told(
        self, rewards: ArrayLike | None, metrics: Mapping[str, ArrayLike], n: int
    ) -> dict[int, NDArray[np.float64]]:
        declared = self.spec.metrics
        names = [one.name for one in declared]
        unknown = [name for name in metrics if name not in names]
        if unknown:
            known = f"those that are declared are {', '.join(names)}" if names else "none is declared (metrics=[…])"
            raise InputError(f"there is no metric {', '.join(unknown)}: {known}.")
        if not declared:
            return super()._check_told(rewards, {}, n)
        told = {} if rewards is None else {0: self._check_rewards(rewards, n)}
        told |= {
            j: one.values(metrics[one.name], self.problem, n=n)
            for j, one in enumerate(declared, start=1)
            if one.name in metrics
        }
        if not told:
            raise InputError(
                f"tell what is known: tell(decisions, rewards), tell(decisions, {names[0]}=…), or both together."
            )
        return told

    def _learn(self, rounds: Rounds) -> None:
        self._take_in({0: rounds})

    def _take_in(self, told: Mapping[int, Rounds]) -> None:
        parts, rounds = self._all, told.get(0)
        if rounds is not None and parts.recording is not None:
            parts.recording.answered(rounds, self.policies, issued=self._ledger.issued)
        read = {part: parts.reading.told(one, parts.epochs) for part, one in told.items()}
        if rounds is not None:
            parts.watch.observe(Told(read[0][0].decisions, parts.epochs, rounds.rewards))
        settled = parts.queue.settle({part: counted for part, (_, counted) in read.items()})
        if settled is not None:
            self._enter(settled)

    def _enter(self, settled: Settled) -> None:
        """Rounds enter the evidence, as a whole or not at all."""
        parts, evidence, epochs = self._all, self._all.evidence, self._all.epochs
        if settled.unanswered:
            parts.watch.observe(Unanswered(settled.unanswered, epochs))
        blocks = evidence.blocks(settled.first_id, settled.epochs, settled.covered, settled.events, settled.further)
        n_rounds = {block.epoch: evidence.rounds_of(block.epoch) for block in blocks}
        for block in blocks:
            n_rounds[block.epoch] += block.n_rounds
            epoch, current = epochs[block.epoch], block.epoch == len(epochs) - 1
            parts.watch.observe(Entered(block, epoch, current, n_rounds[block.epoch], block.decisions, block.uncovered))
        self._corrupt = True  # candidates and guards have answered: nothing fails from here on
        for block in blocks:
            evidence.add(block)
        parts.verdict.note(eventful=any(block.moves for block in blocks))

    def _look(self) -> None:
        """See whether there is a certificate, or too much may be lost: at any time."""
        self._all.verdict.look()
        self._all.look()
        self._over = self._over or self._all.planner.traffic.spent(self._all.evidence)

    def _issued(self) -> None:
        queue = self._all.queue
        settled = queue.settle_overdue() if queue.may_be_overdue else None
        if settled is not None:
            self._enter(settled)

    def _conclude(self) -> None:
        if self._all.queue.front == self._ledger.issued:  # no answer can come before the next decision
            # If candidates fail now, the answers are in all the same; `ask` tries again, and fails if it must.
            with suppress(Exception):
                self._move_on()

    def _move_on(self) -> None:
        """Drop what the evidence excludes, and begin the next epoch if it is due. Doing it again changes nothing."""
        parts, now = self._all, self._now
        if self._up_to_date == now:
            return
        parts.verdict.judge()
        parts.look()
        issued, left = now[0], int(np.count_nonzero(parts.verdict.alive))
        age = issued - parts.epochs[parts.evidence.since].first_id
        old = self.spec.recent is not None and age >= self.spec.recent and not parts.epochs.current.fitting
        whole = issued % self.spec.period == 0
        due = parts.epochs.due(now[1], left) or parts.verdict.leader_harms
        if parts.verdict.certified is None and whole and (old or due):
            before = Checkpoint(self, *parts.changing(epoch=True))
            try:
                (parts.restart if old else parts.begin_epoch)(first_id=issued)
            except BaseException:
                before.restore()
                raise
            parts.verdict.judge()  # with another leader, the one before may be out
            parts.look()
        self._up_to_date = now

    @property
    def _now(self) -> tuple[int, int]:
        """How many decisions there are, and how many rounds."""
        return self._ledger.issued, self._all.queue.front

    def _failed_to_learn(self, admission: Admission) -> None:
        ids, recording = admission.ids[admission.rows], self._all.recording
        of_parts = admission.parts or {0: admission.rows}
        self._all.queue.note_failed({part: admission.ids[rows] for part, rows in of_parts.items()})
        if recording is not None and self.spec.patience is not None:
            recording.failed(ids, issued=self._ledger.issued)

    def _parts(self, *, asking: bool = False) -> tuple[object, ...]:
        moving = asking and self._up_to_date != self._now
        return self._all.changing(asking=asking, moving=moving)

    # ---- saving ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        return plain(self.spec)

    def _all_indices(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._all.verdict.field.present)

    def _indices_in(self, state: State) -> NDArray[np.int64]:
        return np.flatnonzero(state["learnt"]["field"]["gone"] == NEVER)

    _SCHEMA: ClassVar = {**Parts.SCHEMA, "over": Flag()}

    def _state(self) -> State:
        return {**self._all.state(), "over": self._over}

    def _restore(self, state: State) -> None:
        self._all.restore(state, self._ledger)
        self._over = state["over"]
        require(
            not self._over or self._all.planner.traffic.max_loss is not None,
            "reward can be spent where there is a limit to it.",
        )


CertifyingLearner.__doc__ = documented(CertifyingLearner.__doc__, Spec)
