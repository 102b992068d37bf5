"""What all certifying learners are: parts, and how asking and telling run through them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.claims import reading_options
from comband.contexts import Contexts, n_contexts
from comband.exploration.adaptive import DisagreementExploration
from comband.exploration.base import Exploration, check_objective
from comband.exploration.midzuno import MidzunoExploration
from comband.learners.atomic import Checkpoint, alone
from comband.learners.base import Seed
from comband.learners.certifying.beliefs import Beliefs
from comband.learners.certifying.claims import CERTIFICATE
from comband.learners.certifying.epochs import Epochs
from comband.learners.certifying.evidence import Evidence
from comband.learners.certifying.field import NEVER
from comband.learners.certifying.moments import Asked, Entered, Guard, Told, Unanswered
from comband.learners.certifying.parts import Parts
from comband.learners.certifying.planner import first_aim
from comband.learners.certifying.queue import Queue, Settled
from comband.learners.certifying.traffic import EVERYBODY, Traffic
from comband.learners.certifying.verdict import Verdict
from comband.learners.certifying.watch import Watch
from comband.learners.ledger import Admission
from comband.learners.selector import Selector
from comband.places import placed_rounds, unplaced
from comband.policies.base import Policy
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, Problem, check_count, check_epsilon, check_flag, check_fraction, check_positive
from comband.results import NOT_SAVED, CertificationStatus, Comparison, Selection
from comband.rounds import Decisions, Rounds, check_decisions
from comband.storage import Flag, State, require


class CertifyingLearner(Selector):
    """Explores in epochs until one candidate is certified to be within ε of the best, with probability 1 − δ, at any
    time.

    Evidence is that of `comband.estimates.betting`. In each epoch the leader is the candidate of highest estimated
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
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    exploration:
        How an epoch explores: the one thing in which certifying learners differ, so that a comparison of them compares
        exploration and nothing else. By default that of `AdaptiveComband`.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
        Whoever has a budget rather than an epsilon says None, and max_rounds: then the smallest one is sought that
        these rounds certify, and `status().expected` is a forecast of it.
    prior_scores, prior_error:
        (P,) what is known of the candidates beforehand, such as each one's hit rate on held-out data, in units of
        reward per round, and the standard error of such a score (epsilon if it is not given). They decide who leads and
        what is staked at first, and lose their say where rounds contradict them: the promise never depends on them.
    max_rounds:
        A budget of decisions; when so many were made, answered or not, the learner is done, and reports the best
        epsilon that is certified by then. Answers to them may still be told, and count.
    patience:
        How many later decisions a decision waits for its answer; None: for ever. Batches must not be larger.
    first_epoch, epoch_growth:
        The first epoch's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    period:
        The length of a rhythm (a day, a week), in rounds: epochs begin, and rounds enter the evidence, by whole
        periods. Values are then averages over a period, and the promise holds however gaps rise and fall within it.
        No batch may reach into the next period.
    recent:
        Count recent rounds only: whenever so many have passed without a certificate (and the period is over), evidence
        begins anew, and whoever was dropped is a candidate again. Values are then averages over the rounds that count.
        With probability 1 − delta no claim of any stretch is wrong: the k-th has delta·(1/k² − 1/(k + 1)²), so that
        the first takes about a tenth more rounds than without; see `comband.learners.certifying.stretches`. None: all
        rounds count.
    open_field:
        Whether candidates may come and go (`add`, `withdraw`, `replace`) in ways that depend on the data. Half of delta
        is set aside for that; otherwise changes must be planned. See `comband.learners.certifying.field`.
    objective:
        "rounds": as few as possible until the certificate. "reward": lose as little reward as possible meanwhile, in
        more rounds, where the exploration can; the promise is the same.
    traffic:
        Who takes part, and what it may cost; an exploration of your own must then look at `Standing.exposure`. See
        `comband.learners.certifying.traffic`.
    guards:
        Further guards, beside those that every certifying learner has; see `comband.learners.certifying.Guard`.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.learners import CertifyingLearner
    >>> learner = CertifyingLearner(problem, policies, epsilon=0.2, seed=3)
    >>> result = cb.run(learner, shop, batch_size=500).result
    >>> result.epsilon <= 0.2
    True
    >>> len(learner.epochs) > 0, learner.verdict.epsilon
    (True, 0.2)
    """

    FROM_TOTALS = True  # with an exploration for them
    KNOWS_PLACES = True
    KNOWS_GAPS = True

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        exploration: Exploration | None = None,
        epsilon: float | None,
        delta: float = 0.05,
        prior_scores: ArrayLike | None = None,
        prior_error: float | None = None,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        period: int = 1,
        recent: int | None = None,
        open_field: bool = False,
        objective: str = "rounds",
        traffic: Traffic = EVERYBODY,
        guards: Sequence[Guard] = (),
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies, gaps=True), seed=seed)
        if exploration is None:
            exploration = MidzunoExploration() if problem.feedback == "total" else DisagreementExploration()
        self.exploration: Exploration = exploration
        self.epsilon = None if epsilon is None else check_epsilon(epsilon, problem)
        self.delta = check_fraction("delta", delta)
        self.max_rounds = None if max_rounds is None else check_count("max_rounds", max_rounds)
        if self.epsilon is not None:
            scale = self.epsilon
        elif self.max_rounds is not None:
            scale = first_aim(problem, self.delta, self.max_rounds)
        else:
            raise InputError(
                "epsilon=None asks for the smallest epsilon that a budget certifies; say the budget, max_rounds, too."
            )
        beliefs = Beliefs(len(policies), prior_scores, prior_error, epsilon=scale)
        self.prior_scores = None if prior_scores is None else beliefs.scores.tolist()  # plain values: they are saved
        self.prior_error = None if prior_error is None else beliefs.error
        self.patience = None if patience is None else check_count("patience", patience)
        self.first_epoch = check_count("first_epoch", first_epoch)
        self.epoch_growth = check_positive("epoch_growth", epoch_growth)
        if self.epoch_growth <= 1:
            raise InputError(f"epoch_growth must be above 1, got {epoch_growth}: epochs must get longer.")
        self.period = check_count("period", period)
        self.recent = None if recent is None else check_count("recent", recent)
        if self.recent is not None and self.recent < 2 * self.first_epoch:
            raise InputError(
                f"recent must be at least 2·first_epoch = {2 * self.first_epoch:,} rounds, got {recent}: a few epochs "
                "are needed until anything can be certified."
            )
        self.open_field = check_flag("open_field", open_field)
        self.objective = check_objective(objective)
        self._all = Parts(
            problem,
            policies,
            self._ledger,
            exploration=self.exploration,
            epsilon=self.epsilon or 0.0,
            delta=self.delta,
            beliefs=beliefs,
            max_rounds=self.max_rounds,
            objective=self.objective,
            traffic=traffic,
            patience=self.patience,
            first_epoch=self.first_epoch,
            epoch_growth=self.epoch_growth,
            period=self.period,
            guards=guards,
            tie_seed=int(self._rng.integers(2**63)),
            open_field=self.open_field,
            restarts=self.recent is not None,
        )
        self._drawn: Decisions | None = None  # elsewhere, and about to be adopted
        self._over = False  # whether as much reward may be lost as is allowed; once seen, for good
        self._up_to_date: tuple[int, int] | None = None  # after how many decisions and rounds; see `_move_on`
        CERTIFICATE.check(self.options())
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
    @alone
    def verdict(self) -> Verdict:
        """Who is out, and what is certified."""
        self._look()
        return self._all.verdict

    @property
    def watch(self) -> Watch:
        """The guards."""
        return self._all.watch

    def options(self) -> frozenset[str]:
        """The names of the settings that differ from their defaults, and of how page and candidates are read: what a
        claim must know of (`comband.learners.certifying.claims`).
        """
        traffic, further = self._all.planner.traffic, self._all.watch.further
        settings = {**self._config(), "guards": further, **asdict(traffic)}
        defaults = {**_DEFAULTS, **_defaults(type(self))}
        used = {name for name, value in settings.items() if value != defaults.get(name, ...)}
        used = used - {"epsilon"} | ({"no epsilon"} if self.epsilon is None else set())
        return reading_options(self.problem, self.policies) | used

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @property
    @alone
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent: that of decisions, or that of reward that may be lost."""
        self._look()
        return self._all.verdict.certified is not None or self._over or self.decisions_left == 0

    @property
    def rounds(self) -> int:
        """How many rounds are in the evidence: decisions that, like all before them, are answered or overdue."""
        return self._all.queue.front

    @property
    def decisions_left(self) -> int | None:
        """How many more decisions `max_rounds` allows, at least 0; None where that is not set."""
        return None if self.max_rounds is None else max(self.max_rounds - self._ledger.issued, 0)

    @alone
    def result(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        if self.rounds == self._ledger.answered == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        self._look()
        selection = self._all.report(self.rounds, self.options()).selection()
        return selection if self._can_be_saved else replace(selection, notes=(*selection.notes, NOT_SAVED))

    @alone
    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        self._look()
        return self._all.report(self.rounds, self.options()).status()

    @alone
    def comparison(self, most: int | None = None) -> Comparison:
        """The leader beside all other candidates, or the `most` best of them: differences and their bounds."""
        if most is not None:
            check_count("most", most)
        self._look()
        return self._all.report(self.rounds, self.options()).comparison(most)

    @alone
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (P,), (P,) of intervals that hold all values at all times, with probability 1 − delta of their own:
        those of the candidates at the start and of all who came later, and in all stretches of `recent` together.
        """
        return self._all.evidence.values.bounds(delta=self._all.verdict.delta, max_reward=self.problem.max_reward)

    @alone
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

    @alone
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

    def add(self, policy: Policy | None = None, *, name: str, planned: bool = False) -> None:
        """A further candidate, from the next decision on; its evidence begins there. None for candidates whose lists
        come with the request.

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

    @alone
    def _change(self, arrivals: list[tuple[Policy | None, str]], leaving: list[str], *, planned: bool) -> None:
        parts, issued = self._all, self._ledger.issued
        check_flag("planned", planned)
        if not (planned or self.open_field):
            raise InputError(
                "a change that may depend on the data must be paid for from the start: make the learner with "
                "open_field=True, or say planned=True if who comes and goes, and when, was settled without looking."
            )
        if issued % self.period:
            raise InputError(f"the field can change when a period is over, in {-issued % self.period:,} decisions.")
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
            self._class, self._testimony, self._up_to_date = policies, None, None
            if self.prior_scores is not None:
                self.prior_scores = parts.planner.beliefs.scores.tolist()
        except BaseException:
            before.restore()
            raise

    # ---- asking and telling ------------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        parts = self._all
        self._move_on()
        if self._drawn is not None:
            adopted = parts.adopt(self._drawn, X, first_id)
            return unplaced(adopted) if self.problem.places == "pairs" else adopted
        number = len(parts.epochs) - 1
        parts.queue.check_batch(n_contexts(X), first_id, number)
        epoch = parts.epochs.current
        keep = parts.recent.room(len(epoch.candidates))
        drawn = epoch.explorer.draw(X, self._rng, first_id=first_id, epoch=number, keep=keep)
        parts.watch.observe(Asked(drawn.decisions, epoch))
        parts.queue.append(drawn.decisions)
        parts.recent.add(X, drawn.lists, epoch.candidates)
        return unplaced(drawn.decisions) if self.problem.places == "pairs" else drawn.decisions

    def _learn(self, rounds: Rounds) -> None:
        parts = self._all
        placed = rounds if self.problem.places is None else placed_rounds(rounds, self.problem.places, share=True)
        shown = placed if self.problem.places == "pairs" else rounds
        parts.watch.observe(Told(shown.decisions, parts.epochs, rounds.rewards))
        settled = parts.queue.settle(placed)
        if settled is not None:
            self._enter(settled)

    def _enter(self, settled: Settled) -> None:
        """Rounds enter the evidence, as a whole or not at all."""
        parts, evidence, epochs = self._all, self._all.evidence, self._all.epochs
        if settled.unanswered:
            parts.watch.observe(Unanswered(settled.unanswered, epochs))
        blocks = evidence.blocks(settled.first_id, settled.epochs, settled.covered, settled.events)
        n_rounds = {block.epoch: evidence.rounds_of(block.epoch) for block in blocks}
        for block in blocks:
            n_rounds[block.epoch] += block.n_rounds
            epoch, current = epochs[block.epoch], block.epoch == len(epochs) - 1
            parts.watch.observe(Entered(block, epoch, current, n_rounds[block.epoch], block.decisions, block.uncovered))
        self._torn = True  # candidates and guards have answered: nothing fails from here on
        for block in blocks:
            evidence.add(block)
        parts.verdict.note(eventful=any(block.eventful for block in blocks))

    def _look(self) -> None:
        """See whether there is a certificate, or too much may be lost: at any time."""
        self._all.verdict.look()
        self._over = self._over or self._all.planner.traffic.spent(self._all.evidence)

    def _issued(self) -> None:
        queue = self._all.queue
        settled = queue.settle_overdue() if queue.front < queue.oldest else None
        if settled is not None:
            self._enter(settled)

    def _conclude(self) -> None:
        if self._all.queue.front == self._ledger.issued:  # no answer can come before the next decision
            # If candidates fail now, the answers are in all the same; `ask` tries again, and fails if it must.
            with suppress(Exception):
                self._move_on()

    def _move_on(self) -> None:
        """Drop whom the evidence excludes, and begin the next epoch if it is due. Doing it again changes nothing."""
        parts, now = self._all, self._now
        if self._up_to_date == now:
            return
        parts.verdict.judge()
        issued, left = now[0], int(np.count_nonzero(parts.verdict.alive))
        old = self.recent is not None and issued - parts.epochs[parts.evidence.since].first_id >= self.recent
        whole = issued % self.period == 0
        if parts.verdict.certified is None and whole and (old or parts.epochs.due(now[1], left)):
            before = Checkpoint(self, *parts.changing(epoch=True))
            try:
                (parts.restart if old else parts.begin_epoch)(first_id=issued)
            except BaseException:
                before.restore()
                raise
            parts.verdict.judge()  # with another leader, the one before may be out
        self._up_to_date = now

    @property
    def _now(self) -> tuple[int, int]:
        """How many decisions there are, and how many rounds."""
        return self._ledger.issued, self._all.queue.front

    def _failed_to_learn(self, admission: Admission) -> None:
        self._all.queue.note_failed(admission.ids[admission.rows])

    def _parts(self, *, asking: bool = False) -> tuple[object, ...]:
        moving = asking and self._up_to_date != self._now
        return self._all.changing(asking=asking, moving=moving)

    # ---- saving ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if name not in _OBJECTS}

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


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """The settings of a learner that have a default."""
    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


_DEFAULTS = {"guards": (), **asdict(EVERYBODY)}
_OBJECTS = {"problem", "policies", "seed", "exploration", "traffic", "guards"}  # no plain values: not saved
