"""What all certifying learners share: evidence in decision order, elimination, the stopping rule, and what it all came
to.

They differ in one thing only, how an epoch explores, so that a comparison of them compares exploration and nothing
else.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.contexts import (
    Contexts,
    alike,
    concat_contexts,
    n_contexts,
    pack_contexts,
    take_contexts,
    unpack_contexts,
)
from comband.estimates.betting import OFFSETS, STAKES, Bets, PairedEvidence, best_stakes, credits_at
from comband.estimates.grids import log_mean_exp
from comband.estimates.guards import DriftGuard, ExposureGuard
from comband.estimates.sequences import ValueBets
from comband.learners.atomic import Checkpoint, alone
from comband.learners.base import Learner, Seed
from comband.learners.exploration import Explorer, Plan
from comband.learners.ledger import Admission
from comband.learners.seen import Propensities, Seen
from comband.lists import check_lists, check_propensities
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, Problem, check_count, check_epsilon, check_fraction, check_positive
from comband.results import Candidate, CertificationStatus, Dropped, Selection, telling
from comband.rounds import Decisions, Events, Rounds
from comband.storage import Array, Many, Maybe, Part, Real, State, Text, Whole, check, require

_RUNNERS_UP = 3
_RECENT = 1000  # contexts kept to see how much the candidates disagree
_RECENT_EVENTS = 2000  # events that say how variable a design would be
_AUDIT_EVERY = 10  # one decision in so many has its propensities computed anew
_AUDIT_MOST = 20  # of one ask or tell
_UNANSWERED_CELLS = 100_000  # propensities computed anew at one tell for decisions without answer
_PRIOR_ROUNDS = 300  # how many rounds of an average rival every rival's variance begins with
_DOUBT = 0.5  # standard errors by which a gap is taken to be smaller than it looks when bets are chosen
_LEAST_HOPE = 0.2  # of epsilon: what a bet hopes for at least
_CLAIM = {"leader": Whole(0, "P-1"), "epsilon": Real(0)}  # how claims are saved
_SPEED_UP = 0.5  # a new epoch begins early when so large a share of the candidates is gone


@dataclass(eq=False, slots=True)
class Epoch:
    """One plan with its bets, and what was seen under it. All but the two counts is fixed before its first context is
    drawn.
    """

    candidates: NDArray[np.int64]
    leader: int  # its number among all policies
    plan: Plan
    bets: Bets
    value_bound: float
    growth: NDArray[np.float64]
    start: int
    first_id: int
    n_rounds: int = 0
    n_uncovered: int = 0

    SCHEMA: ClassVar = {
        "candidates": Array("i8", ("S",), 0, "P-1", rising=True),
        "leader": Whole(0, "P-1"),
        "plan": {
            "kind": Text(("mixture", "actions", "arms")),
            "weights": Array("f8", ("W",), 0),
            "floor": Real(0, 1),
        },
        "levels": Array("i8", ("S", len(OFFSETS)), 0, len(STAKES) - 1),
        "bound": Real(0),
        "value_bound": Real(0),
        "growth": Array("f8", ("S",)),
        "start": Whole(0),
        "first_id": Whole(0),
        "n_rounds": Whole(0),
        "n_uncovered": Whole(0),
    }

    def state(self) -> State:
        """All of it by name, for a file; see `comband.storage`."""
        return {
            "candidates": self.candidates,
            "leader": self.leader,
            "plan": {"kind": self.plan.kind, "weights": self.plan.weights, "floor": self.plan.floor},
            "levels": self.bets.levels,
            "bound": self.bets.bound,
            "value_bound": self.value_bound,
            "growth": self.growth,
            "start": self.start,
            "first_id": self.first_id,
            "n_rounds": self.n_rounds,
            "n_uncovered": self.n_uncovered,
        }

    @classmethod
    def from_state(cls, state: State, n_policies: int, *, unit: float) -> Epoch:
        """The inverse of `state`, checked; `unit` is that of the stakes."""
        check(state, cls.SCHEMA, P=n_policies)
        candidates, plan = state["candidates"], Plan(**state["plan"])
        place = int(np.searchsorted(candidates, state["leader"]))
        total = {"mixture": 1.0, "arms": 1.0}.get(plan.kind)
        require(
            place < len(candidates)
            and int(candidates[place]) == state["leader"]
            and len(plan.weights) in (len(candidates), n_policies)
            and (total is None or abs(float(plan.weights.sum()) - total) < 1e-6)
            and plan.floor > 0
            and state["bound"] > 0
            and state["value_bound"] > 0
            and state["n_uncovered"] <= state["n_rounds"],
            "an epoch must have a leader among its candidates, a plan for them, and bounds.",
        )
        return cls(
            candidates=candidates,
            leader=state["leader"],
            plan=plan,
            bets=Bets(place, state["levels"], float(state["bound"]), unit),
            value_bound=float(state["value_bound"]),
            growth=state["growth"],
            start=state["start"],
            first_id=state["first_id"],
            n_rounds=state["n_rounds"],
            n_uncovered=state["n_uncovered"],
        )


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """What some rounds of one epoch say, before it counts.

    ids (C,) of the rewarded rounds; rows (E,), which of them each event belongs to; inside (E, S), for which candidates
    it counts, and weights (E,), by how much. evidence is None where the rounds, uneventful, leave the wealths alone.
    """

    epoch: int
    ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    inside: NDArray[np.bool_]
    weights: NDArray[np.float64]
    evidence: PairedEvidence | None
    n_rounds: int
    n_uncovered: int
    kept: Events | None


@dataclass(frozen=True, eq=False, slots=True)
class Standing:
    """What a plan may look at: all of it comes from decisions before the epoch.

    candidates (S,); leader, a position among them; gaps (S,), estimated V(ℓ) − V(π) ≥ 0; need (S,), the share of the
    evidence that is still missing for each; contexts, the most recent ones.
    """

    candidates: NDArray[np.int64]
    leader: int
    gaps: NDArray[np.float64]
    need: NDArray[np.float64]
    contexts: Contexts | None


class CertifyingLearner(Learner):
    """Explores in epochs until one candidate is certified to be within ε of the best, with probability 1 − δ, at any
    time.

    Evidence is that of `comband.estimates.betting`. In each epoch the leader is the candidate of highest estimated
    value, or the one before it if that is likely to be certified sooner. A candidate is dropped when the evidence
    against its being the best reaches 1/δ; the learner is done when that against "it exceeds the leader by more than ε"
    has reached 1/δ for every other one that is left.

    A decision enters the evidence in the order in which decisions were made, once it and all before it are answered,
    or have waited for `patience` further decisions (then it counts as without reward): answers that come early cannot
    bias the result. With a patience, a candidate's value is what comes in within it.

    Parameters
    ----------
    problem, policies, seed:
        As for every learner.
    epsilon, delta:
        The promise: no candidate's value exceeds the selected one's by more than epsilon, with probability 1 − delta.
    max_rounds:
        A budget; when it is spent the best epsilon that is certified by then is reported.
    patience:
        How many later decisions a decision waits for its answer; None: for ever. Batches must not be larger.
    first_epoch, epoch_growth:
        The first epoch's length in rounds; each further one lasts (epoch_growth − 1) times all rounds so far.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        epsilon: float,
        delta: float = 0.05,
        max_rounds: int | None = None,
        patience: int | None = None,
        first_epoch: int = 300,
        epoch_growth: float = 1.2,
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies), seed=seed)
        self.epsilon = check_epsilon(epsilon, problem)
        self.delta = check_fraction("delta", delta)
        self.max_rounds = None if max_rounds is None else check_count("max_rounds", max_rounds)
        self.patience = None if patience is None else check_count("patience", patience)
        self.first_epoch = check_count("first_epoch", first_epoch)
        self.epoch_growth = check_positive("epoch_growth", epoch_growth)
        if self.epoch_growth <= 1:
            raise InputError(f"epoch_growth must be above 1, got {epoch_growth}: epochs must get longer.")
        P = len(policies)
        self._unit = min(1.0, problem.max_reward)  # of stakes: a problem with all rewards rescaled is the same problem
        self._log_wealth = np.zeros((P, len(OFFSETS)))
        self._values = ValueBets.zero(P, unit=self._unit)
        self._alive = np.ones(P, dtype=np.bool_)
        self._dropped: list[Dropped] = []
        self._seen = Seen(P)
        self._recent: Contexts | None = None
        self._front = 0  # all decisions below are in the evidence
        self._moved = False  # whether it has moved since it was seen if a new epoch is due
        self._epoch_of = np.empty(0, dtype=np.int64)  # of decisions from the front on
        self._covered = np.empty(0, dtype=np.bool_)
        self._answered = np.empty(0, dtype=np.bool_)
        self._held = Events.none()  # answered, but behind an unanswered one
        self._missing = self._late = 0
        self._failed = np.empty(0, dtype=np.int64)  # told in vain: these are not overdue, however long they wait
        self._reward = 0.0
        self._open: list[Decisions] = []  # batches with decisions that may stay without answer
        self._exposure = ExposureGuard(problem.n_actions)
        self._unanswered = ExposureGuard(problem.n_actions, unanswered=True)
        self._drift = DriftGuard()
        # Decisions of the current epoch with a reward that speaks for its leader, and with one that speaks against it.
        self._for = self._against = np.empty(0, dtype=np.int64)
        self._slowest = -1
        self._open_until = 0.0  # see `_uneventful_until`
        self._credits = credits_at(self.epsilon / self._unit)
        self._certified: tuple[int, float] | None = None  # leader and epsilon, once and for all
        self._best_claim: tuple[int, float] | None = None  # of the epochs that are over
        self._epochs: list[Epoch] = []
        self._tie_seed = int(self._rng.integers(2**63))
        self._begin_epoch()

    @abstractmethod
    def _plan(self, standing: Standing) -> Plan:
        """How the next epoch explores."""

    # ---- the protocol ------------------------------------------------------------------------------------------------

    @property
    @alone
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent."""
        return self._certified is not None or (self.max_rounds is not None and self.rounds >= self.max_rounds)

    @alone
    def result(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        if self.rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        leader, epsilon = self._claim()
        scores = self._scores()
        left = np.flatnonzero(self._alive)
        ranked = left[np.argsort(-scores[left], kind="stable")]
        others = [int(i) for i in ranked if i != leader][:_RUNNERS_UP]
        best, *runners_up = self._candidates([leader, *others], scores, epsilon)
        notes = []
        if others and scores[others[0]] > scores[leader]:
            notes.append(
                f"{self.policies.names[others[0]]} has a higher estimate; the promise is about "
                f"{self.policies.names[leader]}, and it would take more rounds to tell them apart"
            )
        if self._certified is None:
            notes.append(
                f"not certified to {self.epsilon:g} yet; this is the best epsilon known after {self._front:,} rounds"
            )
        behind = int(self._answered.sum())
        if behind:
            notes.append(
                f"{behind:,} answers do not count yet, because decision {self._front} before them has none: tell it "
                "too (zeros if it stays without answer), or set a patience"
            )
        if len(self._failed):
            notes.append(
                f"{len(self._failed):,} answers could not be taken in, because something failed when they were told "
                f"(decision {int(self._failed[0])} first), and what follows them waits: tell them again"
            )
        if self._missing:
            notes.append(
                f"{self._missing:,} decisions were not answered in time and count as without reward: values and "
                "promise are those of rewards that come within the patience"
            )
        if self._late:
            notes.append(f"{self._late:,} answers came too late to count")
        if self.policies.cover is not None:
            notes.append(
                self.policies.cover.promise(epsilon=epsilon, delta=self.delta, max_reward=self.problem.max_reward)
            )
        return Selection(
            policy=self.policies[leader],
            best=best,
            epsilon=epsilon,
            delta=self.delta,
            rounds=self.rounds,
            runners_up=tuple(runners_up),
            guarantee="from differences on the same rounds, by betting, valid at any time"
            if epsilon < self.problem.max_reward
            else "trivial: nothing is certified yet",
            notes=tuple(notes),
            warnings=self._warnings(),
        )

    @alone
    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        leader, epsilon = self._claim()
        value = self._values.means[leader]
        return CertificationStatus(
            rounds=self.rounds,
            leader=self.policies.names[leader],
            survivors=int(self._alive.sum()),
            certified=telling(epsilon, self.problem.max_reward),
            dropped=tuple(self._dropped),
            forecast=self._forecast(),
            reward_lost=float(value * self._front - self._reward),
            waiting=int((~self._answered).sum()),
            missing=self._missing,
            late=self._late,
            warnings=self._warnings(),
        )

    @alone
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (P,), (P,) of intervals that hold all values at all times, with probability 1 − delta of their own."""
        return self._values.bounds(delta=self.delta, max_reward=self.problem.max_reward)

    # ---- decisions and answers ---------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self.patience is not None and n_contexts(X) > self.patience:
            raise InputError(
                f"a batch must not be larger than patience={self.patience}, got {n_contexts(X)} contexts: its first "
                "decisions would be overdue before anybody could answer them."
            )
        decisions = self._explorer.draw(X, self._rng, first_id=first_id, epoch=len(self._epochs) - 1)
        self._watch_draws(decisions)
        self._epoch_of = np.concatenate([self._epoch_of, decisions.epochs])
        self._covered = np.concatenate([self._covered, decisions.covered])
        self._answered = np.concatenate([self._answered, np.zeros(len(decisions), dtype=np.bool_)])
        n = n_contexts(X)
        if n:
            fresh = take_contexts(X, slice(max(0, n - _RECENT), n))
            kept = fresh if self._recent is None else concat_contexts([self._recent, fresh])
            count = n_contexts(kept)
            self._recent = take_contexts(kept, slice(max(0, count - _RECENT), count))
            if self.patience is not None:
                self._open.append(decisions)
        return decisions

    def _parts(self) -> tuple[object, ...]:
        return self._seen, self._exposure, self._unanswered, self._drift

    def _learn(self, rounds: Rounds) -> None:
        self._audit(rounds.decisions)
        ids = rounds.decisions.ids
        current = ids >= self._front
        self._late += int((~current).sum())
        if len(self._failed):
            self._failed = self._failed[~np.isin(self._failed, ids)]
        answered = self._answered.copy()
        answered[ids[current] - self._front] = True
        self._answered = answered
        if rounds.rewards.any():
            self._held = self._held + (rounds if current.all() else rounds[current]).events()
        n = self._settled()
        if n == 0:
            return
        epochs, covered = self._epoch_of[:n], self._covered[:n]
        events = self._held
        if len(events):
            events, self._held = _split(events, self._front + n)
        self._missing += n - int(self._answered[:n].sum())
        self._watch_unanswered(self._front + np.flatnonzero(~self._answered[:n]), self._front + n)
        self._epoch_of, self._covered = self._epoch_of[n:].copy(), self._covered[n:].copy()
        self._answered = self._answered[n:].copy()
        self._front += n
        blocks = self._blocks(epochs, covered, events)
        self._torn = self._moved = True  # all candidates have answered: nothing fails from here on
        self._reward += float(events.rewards.sum())
        for block in blocks:
            self._take(block)
        if self._front >= self._open_until or any(block.evidence is not None for block in blocks):
            self._judge()

    def _prepare(self, *, asking: bool) -> None:
        if self._moved:
            self._maybe_begin_epoch()
            self._moved = False

    def _conclude(self) -> None:
        # If candidates fail now, the answers are in all the same; `ask` and `tell` try again, and fail if they must.
        with suppress(Exception):
            self._prepare(asking=False)

    def _failed_to_learn(self, admission: Admission) -> None:
        if self.patience is not None:
            ids = admission.ids[admission.rows]
            self._failed = np.union1d(self._failed, ids[ids >= self._front])

    def _watch_draws(self, decisions: Decisions) -> None:
        """See whether lists are drawn with their propensities: now, for which answers come, and when, may depend on
        what is shown.
        """
        chosen = np.flatnonzero(decisions.ids % _AUDIT_EVERY == 0)[:_AUDIT_MOST]
        if len(chosen):
            sample = decisions[chosen]
            self._exposure.update(sample.lists, self._explorer.all_propensities(sample.contexts), sample.propensities)

    def _audit(self, decisions: Decisions) -> None:
        """Compute some propensities anew from the contexts that are told, and compare with those of the decisions."""
        chosen = np.flatnonzero(decisions.ids % _AUDIT_EVERY == 0)[:_AUDIT_MOST]
        if len(chosen) == 0:
            return
        epochs = decisions.epochs[chosen]
        for k in np.unique(epochs):
            sample = decisions[chosen[epochs == k]]
            explorer = self._explorer if k == len(self._epochs) - 1 else self._explorer_of(self._epochs[k])
            self._exposure.compare(sample.propensities, explorer.shown_propensities(sample.contexts, sample.lists))

    def _watch_unanswered(self, ids: NDArray[np.int64], front: int) -> None:
        """See whether decisions that were never answered show certain actions more often than they should."""
        room = max(1, _UNANSWERED_CELLS // self._unanswered.n_classes)
        for batch in self._open:
            mine = ids[(ids >= batch.ids[0]) & (ids <= batch.ids[-1])][:room]
            room -= len(mine)
            if len(mine):
                sample = batch[mine - batch.ids[0]]
                epoch = self._epochs[int(sample.epochs[0])]
                explorer = self._explorer if epoch is self._epochs[-1] else self._explorer_of(epoch)
                self._unanswered.update(sample.lists, explorer.all_propensities(sample.contexts))
        self._open = [batch for batch in self._open if batch.ids[-1] >= front]

    def _explorer_of(self, epoch: Epoch) -> Explorer:
        return epoch.plan.explorer(self.policies, epoch.candidates, epoch.bets.leader, self.problem)

    def _warnings(self) -> tuple[str, ...]:
        return tuple(guard.message for guard in (self._exposure, self._unanswered, self._drift) if guard.alarm)

    def _settled(self) -> int:
        """How many decisions from the front on may enter the evidence."""
        blocking = ~self._answered
        if self.patience is not None:
            ids = np.arange(self._front, self._front + len(blocking))
            overdue = (ids < self._ledger.issued - self.patience) & ~np.isin(ids, self._failed)
            blocking &= ~overdue
        first = np.flatnonzero(blocking)
        return int(first[0]) if len(first) else len(blocking)

    def _blocks(self, epochs: NDArray[np.int64], covered: NDArray[np.bool_], events: Events) -> list[Block]:
        """What rounds say, epoch by epoch; nothing is changed."""
        of_event, counts = events.epochs[events.rows], events.covered[events.rows]
        blocks = []
        for k in epochs[:1] if epochs[0] == epochs[-1] else np.unique(epochs):  # they rise: decisions are in order
            epoch, here = self._epochs[k], epochs == k
            n, n_uncovered = int(here.sum()), int((here & ~covered).sum())
            chosen = np.flatnonzero((of_event == k) & counts)
            rows = events.rows[chosen]
            evidence = None
            if len(rows) or n_uncovered:
                inside = self._inside(events, chosen, epoch)
                weights = events.rewards[chosen] / self._propensities(events, chosen, epoch)
                evidence = PairedEvidence.from_events(
                    epoch.bets,
                    inside,
                    rows,
                    weights,
                    n_rounds=n,
                    n_uncovered=n_uncovered,
                    max_reward=self.problem.max_reward,
                )
            else:
                inside, weights = np.empty((0, len(epoch.candidates)), dtype=np.bool_), np.empty(0)
            kept = self._kept(events, chosen, int(k))
            blocks.append(Block(int(k), events.ids, rows, inside, weights, evidence, n, n_uncovered, kept))
        return blocks

    def _take(self, block: Block) -> None:
        """Enter the rounds of one epoch into the evidence."""
        epoch, inside, rows = self._epochs[block.epoch], block.inside, block.rows
        everyone = len(epoch.candidates) == len(self.policies)  # then adding in place is several times faster
        if block.evidence is not None:
            self._log_wealth[slice(None) if everyone else epoch.candidates] += block.evidence.log_wealth
        self._values.add(
            epoch.candidates,
            inside,
            rows,
            block.weights,
            bound=epoch.value_bound,
            n_rounds=block.n_rounds,
            n_uncovered=block.n_uncovered,
            max_reward=self.problem.max_reward,
        )
        if block.epoch == len(self._epochs) - 1:
            if len(rows):
                led = inside[:, epoch.bets.leader]
                self._for = np.concatenate([self._for, np.unique(block.ids[rows[led]])])
                against = ~led & inside.any(axis=1)
                self._against = np.concatenate([self._against, np.unique(block.ids[rows[against]])])
            first = epoch.first_id
            self._drift.update(self._for - first, self._against - first, epoch.n_rounds + block.n_rounds)
        epoch.n_rounds += block.n_rounds
        epoch.n_uncovered += block.n_uncovered
        if block.kept is not None:
            self._seen.add(block.kept, inside, epoch.candidates)

    def _inside(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.bool_]:
        """Whether each event's action counts for each of the epoch's candidates."""
        return self.policies.contains(events.contexts, events.rows[chosen], events.actions[chosen], epoch.candidates)

    def _propensities(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.float64]:
        """What rewards are divided by."""
        return events.propensities[chosen]

    def _kept(self, events: Events, chosen: NDArray[np.int64], k: int) -> Events | None:
        """The events that later designs need."""
        if len(chosen) == 0:
            return None
        needed, rows = np.unique(events.rows[chosen], return_inverse=True)
        return Events(
            n_rounds=0,
            ids=events.ids[needed],
            epochs=np.full(len(needed), k),
            contexts=take_contexts(events.contexts, needed),
            arms=events.arms[needed],
            rows=rows,
            actions=events.actions[chosen],
            rewards=events.rewards[chosen],
            propensities=self._propensities(events, chosen, self._epochs[k]),
        )

    # ---- evidence ----------------------------------------------------------------------------------------------------

    @property
    def _threshold(self) -> float:
        return float(np.log(1 / self.delta))

    def _judge(self) -> None:
        """Drop whom the evidence excludes, and see whether all others are certified."""
        leader = self._epochs[-1].leader
        against = np.full(len(self._alive), -np.inf)
        # An average is no larger than the largest.
        near = np.flatnonzero(self._alive & (self._log_wealth >= self._threshold).any(axis=1))
        against[near] = log_mean_exp(self._log_wealth[near])
        out = against >= self._threshold
        out[leader] = False  # late answers of older epochs may reach it: that counts when another leads
        for i in np.flatnonzero(out):
            names = self.policies.names
            self._dropped.append(Dropped(int(i), names[i], self._front, names[leader], float(against[i])))
        self._alive &= ~out
        if self._certified is None and not self._surely_open(leader):
            rivals = self._rivals(leader)
            evidence = self._evidence(leader, self.epsilon, rivals)
            if (evidence >= self._threshold).all():
                self._certified = (leader, min(self._certified_epsilon(leader), self.epsilon))
            else:
                self._slowest = int(rivals[evidence.argmin()])
        self._open_until = self._uneventful_until(leader)

    def _uneventful_until(self, leader: int) -> float:
        """As long as all wealths stay what they are, there is nothing to judge before so many rounds are in.

        What a rival's wealth at ε lacks, the credit of uneventful rounds must bring; a mean is no larger than its
        largest part, so the stake that would get there first says how many of them that takes at least.
        """
        if self._certified is not None:
            return np.inf
        i = np.array([self._slowest])
        missing, credit = self._threshold - self._log_wealth[i], np.zeros((1, len(OFFSETS)))
        for epoch in self._epochs:
            if epoch.leader == leader:
                of_epoch = self._credits[epoch.bets.levels[np.searchsorted(epoch.candidates, i)]]
                missing, credit = missing - epoch.n_rounds * of_epoch, np.maximum(credit, of_epoch)
        rounds = np.divide(missing, credit, out=np.full(missing.shape, np.inf), where=credit > 0)
        return self._front + 0.999999 * max(float(rounds.min()), 0.0) - 1

    def _surely_open(self, leader: int) -> bool:
        """Whether the rival that was slowest at the last look is still not certified: then no other need be asked."""
        i = self._slowest
        if i < 0 or i == leader or not self._alive[i]:
            return False
        return bool(self._evidence(leader, self.epsilon, np.array([i]))[0] < self._threshold)

    def _rivals(self, leader: int) -> NDArray[np.int64]:
        alive = self._alive.copy()
        alive[leader] = False
        return np.flatnonzero(alive)

    def _evidence(
        self, leader: int, mu: float, rivals: NDArray[np.int64], log_wealth: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Log-evidence against "π exceeds the leader by more than μ", for each rival that is left; from their
        log-wealths, or from others.
        """
        total = self._log_wealth[rivals] if log_wealth is None else log_wealth.copy()
        table = self._credits if mu == self.epsilon else credits_at(mu / self._unit)
        for epoch in self._epochs:
            if epoch.leader == leader and epoch.n_rounds:
                # Rivals that are left were candidates in every epoch.
                place = np.searchsorted(epoch.candidates, rivals)
                total += epoch.n_rounds * table[epoch.bets.levels[place]]
        return log_mean_exp(total) if len(rivals) else np.empty(0)

    def _certified_epsilon(self, leader: int) -> float:
        """The smallest μ certified for all rivals, to one per cent above."""
        rivals = self._rivals(leader)
        low, high = 0.0, self.problem.max_reward
        if len(rivals) == 0 or (self._evidence(leader, 0.0, rivals) >= self._threshold).all():
            return 0.0
        while high - low > 1e-2 * high:
            middle = (low * high) ** 0.5 if low > 0 else high / 4
            open_rivals = rivals[self._evidence(leader, middle, rivals) < self._threshold]
            if len(open_rivals):
                low, rivals = middle, open_rivals
            else:
                high = middle
            if high < 1e-6 * self.problem.max_reward:
                break
        return high

    def _claim(self) -> tuple[int, float]:
        """A candidate and its certified epsilon: the smallest that was ever certified for one that is left.

        All claims, of all leaders and at all times, hold on one event.
        """
        if self._certified is not None:
            return self._certified
        leader = self._epochs[-1].leader
        now = leader, self._certified_epsilon(leader)
        best = self._best_claim
        return best if best is not None and best[1] < now[1] and self._alive[best[0]] else now

    def _forecast(self) -> float:
        """Rounds until the slowest rival is certified, if bets go on growing as designed."""
        if self._certified is not None:
            return 0.0
        epoch = self._epochs[-1]
        rivals = self._rivals(epoch.leader)
        missing = np.maximum(self._threshold - self._evidence(epoch.leader, self.epsilon, rivals), 0.0)
        growth = epoch.growth[np.searchsorted(epoch.candidates, rivals)]
        with np.errstate(over="ignore"):  # a growth that is next to nothing takes for ever
            rounds = np.divide(missing, growth, out=np.full(len(rivals), np.inf), where=growth > 0)
        return float(np.max(rounds, where=missing > 0, initial=0.0))

    def _candidates(self, indices: list[int], scores: NDArray[np.float64], epsilon: float) -> list[Candidate]:
        """Values and intervals of the leader (first) and some others, in agreement with what is certified.

        The leader's value is estimated from all its rounds, the others' by their differences to it, which are far more
        exact. Intervals are cut to the certificate: no candidate that is left reaches above the leader's upper end by
        more than epsilon.
        """
        low, high = self._values.bounds(delta=self.delta, max_reward=self.problem.max_reward, indices=indices)
        value = float(np.clip(self._values.means[indices[0]], low[0], high[0]))
        low[0] = max(low[0], min(low.max() - epsilon, value))
        result = []
        for i, bottom, top in zip(indices, low, np.minimum(high, high[0] + epsilon), strict=True):
            bottom = min(bottom, top)
            shown = float(np.clip(value + scores[i] - scores[indices[0]], bottom, top))
            result.append(Candidate(i, self.policies.names[i], shown, (float(bottom), float(top))))
        return result

    # ---- epochs ------------------------------------------------------------------------------------------------------

    def _maybe_begin_epoch(self) -> None:
        if self._certified is not None:
            return
        current = self._epochs[-1]
        since = self._front - current.start
        fewer = self._alive.sum() <= _SPEED_UP * len(current.candidates)
        if since >= max(self.first_epoch, (self.epoch_growth - 1) * self._front) or (
            fewer and 2 * since >= self.first_epoch
        ):
            before = Checkpoint(self, *self._parts())
            try:
                self._begin_epoch()
            except BaseException:
                before.restore()
                raise

    def _begin_epoch(self) -> None:
        """Choose leader, plan and bets from the past, for contexts that nobody has seen yet."""
        candidates = np.flatnonzero(self._alive)
        self._seen.forget(self._alive)
        self._open_until = 0.0
        if self._epochs:
            self._for = self._against = np.empty(0, dtype=np.int64)
            self._best_claim = self._claim()
        scores = self._scores()[candidates]
        leader = self._pick_leader(candidates, scores)
        gaps = np.maximum(scores[leader] - scores, 0.0)
        against = self._evidence(int(candidates[leader]), self.epsilon, candidates)
        need = np.clip(1 - against / self._threshold, 0.1, None)
        plan = self._plan(Standing(candidates, leader, gaps, need, self._recent))
        self._explorer: Explorer = plan.explorer(self.policies, candidates, leader, self.problem)
        rho = self.problem.max_reward
        bound = rho / self._explorer.least
        if len(self._seen):
            moments = self._second_moments(leader, bound, self._explorer.propensities)
            wanted = best_stakes(self._hoped_for(gaps, moments), moments)
        else:
            moments = np.full(len(candidates), bound * rho)
            wanted = np.full(len(candidates), 0.2 / bound)
        wanted[leader] = 0.0
        bets = Bets.choose(leader, wanted, bound, unit=self._unit)
        stake = bets.stakes[:, 1]
        self._epochs.append(
            Epoch(
                candidates=candidates,
                leader=int(candidates[leader]),
                plan=plan,
                bets=bets,
                value_bound=rho / self._explorer.least_any,
                growth=stake * (self.epsilon + gaps) - stake**2 * moments / 2,
                start=self._front,
                first_id=self._ledger.issued,
            )
        )
        self._drift.begin(self._planned_rounds())

    def _planned_rounds(self) -> int:
        """How many rounds of its own the current epoch has for sure when it ends, unless many candidates are dropped.

        It ends when the rounds since its start, some of which were decided before it, are (growth − 1) times all.
        """
        epoch = self._epochs[-1]
        growth = self.epoch_growth - 1
        least = self.first_epoch if growth >= 1 else max(self.first_epoch, growth / (1 - growth) * epoch.start)
        return int(least) - (epoch.first_id - epoch.start)

    def _hoped_for(self, gaps: NDArray[np.float64], moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """The −E(D − μ) on which to bet: gaps, taken smaller than they look, plus the epsilon to be certified.

        When the budget is too small for ε, the epsilon that it may suffice for takes its place.
        """
        epsilon = np.full(len(gaps), self.epsilon)
        if self.max_rounds is not None:
            epsilon = np.maximum(epsilon, np.sqrt(2 * self._threshold * moments / self.max_rounds))
        doubt = _DOUBT * np.sqrt(moments / max(self._front, 1))
        return np.maximum(epsilon + gaps - doubt, _LEAST_HOPE * epsilon)

    def _pick_leader(self, candidates: NDArray[np.int64], scores: NDArray[np.float64]) -> int:
        """Whoever is expected to be certified first: the candidate of highest estimated value, or the leader so far.

        A new leader begins without the evidence that was gathered for the old one, which may well be good enough.
        """
        # Ties are decided by a generator of their own: the candidate listed first has no advantage, and looking
        # changes nothing.
        ties = np.flatnonzero(scores == scores.max())
        best = int(np.random.default_rng([self._tie_seed, self._front, len(self._epochs)]).choice(ties))
        if not self._epochs or not self._alive[self._epochs[-1].leader] or len(self._seen) == 0:
            return best
        before = int(np.searchsorted(candidates, self._epochs[-1].leader))
        if self._rounds_to_go(before, candidates, scores) < self._rounds_to_go(best, candidates, scores):
            return before
        return best

    def _rounds_to_go(self, leader: int, candidates: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
        """How long the slowest rival would take if this one led from now on, under propensities as they were."""
        bound = self.problem.max_reward / self._explorer.least
        moments = self._second_moments(leader, bound, lambda events, chosen, _rows: events.propensities[chosen])
        missing = np.maximum(self._threshold - self._evidence(int(candidates[leader]), self.epsilon, candidates), 0.0)
        rounds = missing * 2 * moments / self._hoped_for(scores[leader] - scores, moments) ** 2
        return float(np.delete(rounds, leader).max(initial=0.0))

    def _scores(self) -> NDArray[np.float64]:
        """Estimated values up to a common shift (P,); −inf for the dropped."""
        scores = np.full(len(self.policies), -np.inf)
        candidates = np.flatnonzero(self._alive)
        n_rounds = np.array([epoch.n_rounds for epoch in self._epochs], dtype=np.int64)
        scores[candidates] = self._seen.scores(candidates, n_rounds, unit=self._unit)
        return scores

    def _second_moments(self, leader: int, bound: float, propensities: Propensities) -> NDArray[np.float64]:
        """E D² of each candidate against the leader under given propensities, from recent events; shrunk towards
        more.
        """
        first = max(0, len(self._seen) - _RECENT_EVENTS)
        total = self._seen.squares(leader, first, propensities)
        events = self._seen.events
        n_rounds = self._front - (int(events.ids[events.rows[first]]) if first else 0)
        # Few events tell little about a rival's variance: rounds of an average rival and one event more are added.
        # Too small a variance would mean too large stakes, which is what an e-process cannot forgive.
        average = total.sum() / max(n_rounds * max(len(total) - 1, 1), 1)
        return np.asarray(
            (total + _PRIOR_ROUNDS * average + bound * self.problem.max_reward) / (n_rounds + _PRIOR_ROUNDS)
        )

    # ---- saving ------------------------------------------------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "max_rounds": self.max_rounds,
            "patience": self.patience,
            "first_epoch": self.first_epoch,
            "epoch_growth": self.epoch_growth,
        }

    _SCHEMA: ClassVar = {
        "log_wealth": Array("f8", ("P", len(OFFSETS))),
        "values": ValueBets.SCHEMA,
        "dropped": {
            "candidates": Array("i8", ("D",), 0, "P-1"),
            "rounds": Array("i8", ("D",), 0),
            "leaders": Array("i8", ("D",), 0, "P-1"),
            "log_evidence": Array("f8", ("D",)),
        },
        "seen": Seen.SCHEMA,
        "queue": {
            "front": Whole(0),
            "epochs": Array("i8", ("n",), 0),
            "covered": Array("?", ("n",)),
            "answered": Array("?", ("n",)),
            "held": Part(),
            "open": Many(Part()),
            "failed": Array("i8", ("failed",), 0, rising=True),
            "missing": Whole(0),
            "late": Whole(0),
        },
        "recent": Maybe(Part()),
        "reward": Real(0),
        "tie_seed": Whole(0, (1 << 63) - 1),
        "for_leader": Array("i8", ("for",), 0, rising=True),
        "against_leader": Array("i8", ("against",), 0, rising=True),
        "exposure": ExposureGuard.SCHEMA,
        "unanswered": ExposureGuard.SCHEMA,
        "drift": DriftGuard.SCHEMA,
        "certified": Maybe(_CLAIM),
        "best_claim": Maybe(_CLAIM),
        "epochs": Many(Epoch.SCHEMA),
    }

    def _state(self) -> State:
        place = {name: i for i, name in enumerate(self.policies.names)}
        whole = [(d.index, d.round, place[d.leader]) for d in self._dropped]
        candidates, rounds, leaders = np.array(whole, dtype=np.int64).reshape(-1, 3).T
        return {
            "log_wealth": self._log_wealth,
            "values": self._values.state(),
            "dropped": {
                "candidates": candidates,
                "rounds": rounds,
                "leaders": leaders,
                "log_evidence": np.array([d.log_evidence for d in self._dropped], dtype=np.float64),
            },
            "seen": self._seen.state(),
            "queue": {
                "front": self._front,
                "epochs": self._epoch_of,
                "covered": self._covered,
                "answered": self._answered,
                "held": self._held.state(),
                "open": [decisions.state() for decisions in self._open],
                "failed": self._failed,
                "missing": self._missing,
                "late": self._late,
            },
            "recent": None if self._recent is None else pack_contexts(self._recent),
            "reward": self._reward,
            "tie_seed": self._tie_seed,
            "for_leader": self._for,
            "against_leader": self._against,
            "exposure": self._exposure.state(),
            "unanswered": self._unanswered.state(),
            "drift": self._drift.state(),
            "certified": _claim_state(self._certified),
            "best_claim": _claim_state(self._best_claim),
            "epochs": [epoch.state() for epoch in self._epochs],
        }

    def _restore(self, state: State) -> None:
        P, K = len(self.policies), self.problem.n_actions
        self._epochs = [Epoch.from_state(part, P, unit=self._unit) for part in state["epochs"]]
        self._restore_epochs()
        self._restore_dropped(state["dropped"])
        self._restore_queue(state["queue"])
        self._log_wealth = state["log_wealth"]
        self._values = ValueBets.from_state(state["values"], P, unit=self._unit)
        self._seen = Seen.from_state(state["seen"], P)
        self._recent = None if state["recent"] is None else unpack_contexts(state["recent"])
        recent = [] if self._recent is None else self._recent
        kept = [self._seen.events.contexts, self._held.contexts, *(decisions.contexts for decisions in self._open)]
        require(
            n_contexts(recent) == min(self._ledger.issued, _RECENT) and all(alike(recent, part) for part in kept),
            "the recent contexts must be as many as were asked for, and of one kind with the others.",
        )
        self._reward, self._tie_seed = state["reward"], state["tie_seed"]
        self._for, self._against = state["for_leader"], state["against_leader"]
        self._exposure = ExposureGuard.from_state(state["exposure"], K)
        self._unanswered = ExposureGuard.from_state(state["unanswered"], K, unanswered=True)
        self._drift = DriftGuard.from_state(state["drift"])
        require(
            state["drift"]["stretch"] == len(self._epochs) - 1
            and state["drift"]["planned"] == self._planned_rounds()
            and state["drift"]["looked"] <= self._epochs[-1].n_rounds,
            "the drift guard must watch the current epoch.",
        )
        self._certified, self._best_claim = (
            None if claim is None else (claim["leader"], float(claim["epsilon"]))
            for claim in (state["certified"], state["best_claim"])
        )
        self._compare_evidence()

    def _restore_epochs(self) -> None:
        """See that epochs follow each other; the last one's bounds are those of its explorer."""
        epochs = self._epochs
        require(len(epochs) > 0 and len(epochs[0].candidates) == len(self.policies), "its first epoch must be of all.")
        for before, after in pairwise(epochs):
            require(
                before.start <= after.start
                and before.first_id <= after.first_id
                and bool(np.isin(after.candidates, before.candidates).all()),
                "its epochs must follow each other.",
            )
        current = epochs[-1]
        self._explorer = self._explorer_of(current)
        bounds = self.problem.max_reward / np.array([self._explorer.least, self._explorer.least_any])
        require(
            epochs[0].start == epochs[0].first_id == 0
            and current.first_id <= self._ledger.issued
            and np.allclose([current.bets.bound, current.value_bound], bounds, rtol=1e-9),
            "the bets of an epoch must be those of its plan.",
        )

    def _restore_dropped(self, state: State) -> None:
        names, evidence = self.policies.names, state["log_evidence"].tolist()
        columns = (state[name].tolist() for name in ("candidates", "rounds", "leaders"))
        self._dropped = [
            Dropped(i, names[i], when, names[leader], e) for i, when, leader, e in zip(*columns, evidence, strict=True)
        ]
        self._alive = np.ones(len(names), dtype=np.bool_)
        self._alive[state["candidates"]] = False
        current = self._epochs[-1]
        require(
            int((~self._alive).sum()) == len(self._dropped)
            and bool(self._alive[current.leader])
            and bool(np.isin(np.flatnonzero(self._alive), current.candidates).all())
            and bool((state["log_evidence"] >= self._threshold).all())
            and not (state["candidates"] == state["leaders"]).any(),
            "candidates must be dropped once each, by evidence, and never the leader.",
        )

    def _restore_queue(self, state: State) -> None:
        self._front, self._missing, self._late = state["front"], state["missing"], state["late"]
        self._epoch_of, self._covered, self._answered = (state[name] for name in ("epochs", "covered", "answered"))
        self._failed, self._moved = state["failed"], True
        self._held = Events.from_state(state["held"])
        self._open = [Decisions.from_state(part) for part in state["open"]]
        issued, front = self._ledger.issued, self._front
        waiting = int((~self._answered).sum())
        require(
            front + len(self._epoch_of) == issued
            and issued - self._ledger.answered == self._missing - self._late + waiting
            and sum(epoch.n_rounds for epoch in self._epochs) == front >= self._epochs[-1].start
            and self._late <= self._missing <= front
            and (self.patience is not None or self._missing == len(self._failed) == 0)
            and front <= int(self._failed.min(initial=front)) <= int(self._failed.max(initial=front)) <= issued
            and not self._answered[self._failed[self._failed < issued] - front].any(),
            "decisions, answers and rounds must be as many as each other.",
        )
        self._held.check(self.problem, ids=(front, issued))
        require(
            int(self._epoch_of.max(initial=0)) < len(self._epochs)
            and not (np.diff(self._epoch_of) < 0).any()
            and int(self._held.arms.max(initial=-1)) < len(self.policies)
            and bool(self._answered[self._held.ids - front].all())
            and np.array_equal(self._epoch_of[self._held.ids - front], self._held.epochs)
            and np.array_equal(self._covered[self._held.ids - front], self._held.covered),
            "answers that wait must be those of decisions made in these epochs.",
        )
        for decisions in self._open:
            check_lists(decisions.lists, self.problem)
            check_propensities(decisions.propensities, shape=decisions.lists.shape)
            first, last = (int(decisions.ids[0]), int(decisions.ids[-1])) if len(decisions) else (0, -1)
            here = slice(max(first - front, 0), last + 1 - front)
            require(
                front <= last < issued
                and np.array_equal(decisions.ids, np.arange(first, last + 1))
                and np.array_equal(decisions.epochs[max(front - first, 0) :], self._epoch_of[here])
                and np.array_equal(decisions.covered[max(front - first, 0) :], self._covered[here])
                and 0 <= int(decisions.epochs.min()) <= int(decisions.epochs.max()) < len(self._epochs),
                "open decisions must be this learner's own.",
            )

    def _compare_evidence(self) -> None:
        """See that evidence and claims are such as the events that are kept allow.

        log(1 − λD) ≤ −λD, and −D is at most what the leader earned by events that do not count for the rival: so from
        the kept events follows the most that the log-wealth of any candidate that is left can have been, at any time.
        """
        seen, epochs, front = self._seen, self._epochs, self._front
        events, rows = seen.events, seen.rows
        events.check(self.problem, ids=(0, front))
        of_event = events.epochs[events.rows]
        current = epochs[-1]
        require(
            np.array_equal(seen.columns, current.candidates)
            and 0 <= int(of_event.min(initial=0)) <= int(of_event.max(initial=0)) < len(epochs)
            and float(events.rewards.sum()) <= self._reward * (1 + 1e-9) + 1e-9
            and self._reward <= front * self.problem.max_reward * (1 + 1e-9),
            "the events that are kept must be those of its rounds.",
        )
        counts: dict[float, NDArray[np.int64]] = {}
        most = np.zeros((len(seen.columns), len(OFFSETS)))
        weights = events.rewards / events.propensities
        for k, epoch in enumerate(epochs):
            if epoch.n_rounds:
                of_bound = counts.setdefault(epoch.value_bound, np.zeros(len(self.policies), dtype=np.int64))
                of_bound[epoch.candidates] += epoch.n_rounds
            chosen = np.flatnonzero(of_event == k)
            if len(chosen) == 0:
                continue
            part, earned = rows[chosen], weights[chosen]
            if epoch.leader in seen.columns:
                earned = np.where(part.column(int(np.searchsorted(seen.columns, epoch.leader))), earned, 0.0)
            lost = np.maximum(earned.sum() - part.weighted_sum(earned), 0.0)
            most += epoch.bets.stakes[np.searchsorted(epoch.candidates, seen.columns)] * lost[:, None]
        require(
            list(counts) == list(self._values.rounds)
            and all(np.array_equal(counts[bound], self._values.rounds[bound]) for bound in counts)
            and bool((self._log_wealth[seen.columns] <= most * (1 + 1e-6) + 1e-6).all()),
            "evidence must not exceed what the events that are kept allow.",
        )
        for now in (self._for, self._against):
            within = len(now) == 0 or current.first_id <= int(now[0]) <= int(now[-1]) < front
            require(within, "rewards for and against the leader must be those of its epoch.")
        for claim in (self._certified, self._best_claim):
            bounded = claim is None or claim[1] <= self.problem.max_reward
            require(bounded, "no claim is about more than a round can bring.")
            if claim is not None and self._alive[claim[0]]:
                rivals = self._rivals(claim[0])
                possible = most[np.searchsorted(seen.columns, rivals)] * (1 + 1e-6) + 1e-6
                # Certified epsilons are those of a bisection that ends at ρ, where nothing is claimed.
                require(
                    claim[1] >= self.problem.max_reward
                    or bool((self._evidence(claim[0], claim[1], rivals, possible) >= self._threshold).all()),
                    "a claim must be such as the evidence allows.",
                )
        require(
            self._certified is None or (self._certified[0] == current.leader and self._certified[1] <= self.epsilon),
            "what is certified must be about the leader, and to epsilon.",
        )


def _claim_state(claim: tuple[int, float] | None) -> State | None:
    return None if claim is None else {"leader": claim[0], "epsilon": claim[1]}


def _split(events: Events, first_id: int) -> tuple[Events, Events]:
    """Events of decisions below `first_id`, in the order of decisions, and the others."""
    early = np.flatnonzero(events.ids < first_id)
    early = early[np.argsort(events.ids[early], kind="stable")]
    return _of_rounds(events, early), _of_rounds(events, np.flatnonzero(events.ids >= first_id))


def _of_rounds(events: Events, rewarded: NDArray[np.int64]) -> Events:
    """The events of some rewarded rounds, in that order."""
    place = np.full(events.n_rewarded, -1, dtype=np.int64)
    place[rewarded] = np.arange(len(rewarded))
    rows = place[events.rows]
    chosen = np.argsort(rows, kind="stable")[int((rows < 0).sum()) :]
    return Events(
        n_rounds=0,
        ids=events.ids[rewarded],
        epochs=events.epochs[rewarded],
        contexts=take_contexts(events.contexts, rewarded),
        covered=events.covered[rewarded],
        arms=events.arms[rewarded],
        rows=rows[chosen],
        actions=events.actions[chosen],
        rewards=events.rewards[chosen],
        propensities=events.propensities[chosen],
    )
