"""What all certifying learners share: evidence in decision order, elimination, the stopping rule, and what it all came
to.

They differ in one thing only, how an epoch explores, so that a comparison of them compares exploration and nothing
else.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.contexts import Contexts, concat_contexts, n_contexts, pack_contexts, take_contexts, unpack_contexts
from comband.estimates.betting import (
    OFFSETS,
    STAKES,
    Bets,
    PairedEvidence,
    best_stakes,
    credits_at,
    log_mean_wealth,
)
from comband.estimates.guards import DriftGuard, ExposureGuard
from comband.estimates.sequences import ValueBets
from comband.learners.base import WARNING, Candidate, Learner, Seed, Selection, Status, with_prefix
from comband.learners.exploration import Explorer, Plan
from comband.learners.seen import Propensities, Seen
from comband.policies.policy_set import PolicySet, check_policies
from comband.problem import InputError, Problem, check_count, check_epsilon, check_fraction, check_positive
from comband.rounds import Decisions, Events, Rounds
from comband.text import visible

_RUNNERS_UP = 3
_RECENT = 1000  # contexts kept to see how much the candidates disagree
_RECENT_EVENTS = 2000  # events that say how variable a design would be
_AUDIT_EVERY = 10  # one decision in so many has its propensities computed anew
_AUDIT_MOST = 20  # of one ask or tell
_UNANSWERED_CELLS = 100_000  # propensities computed anew at one tell for decisions without answer
_PRIOR_ROUNDS = 300  # how many rounds of an average rival every rival's variance begins with
_DOUBT = 0.5  # standard errors by which a gap is taken to be smaller than it looks when bets are chosen
_LEAST_HOPE = 0.2  # of epsilon: what a bet hopes for at least
_SPEED_UP = 0.5  # a new epoch begins early when so large a share of the candidates is gone


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that cannot be the best: when it was dropped, against which leader, and with what log-evidence."""

    index: int
    name: str
    round: int
    leader: str
    log_evidence: float

    def __str__(self) -> str:
        return (
            f"{visible(self.name)} was dropped after {self.round:,} rounds: it does not beat {visible(self.leader)} "
            f"(evidence {np.exp(min(self.log_evidence, 50)):,.0f} to 1 against its being the best)"
        )


@dataclass(frozen=True, slots=True)
class CertificationStatus(Status):
    """Where a certifying learner stands.

    Parameters
    ----------
    dropped:
        Who was dropped, in order.
    reward_lost:
        What exploration cost so far: the leader's estimated value times the rounds, minus the rewards seen.
    waiting, missing, late:
        Decisions not answered yet; decisions that were never answered in time and count as without reward; answers
        that came after that.
    warnings:
        Signs that what the promise rests on does not hold.
    """

    dropped: tuple[Dropped, ...] = ()
    reward_lost: float = 0.0
    waiting: int = 0
    missing: int = 0
    late: int = 0
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        total = self.survivors + len(self.dropped)
        known = (
            f"certified: no candidate is better by more than {self.epsilon:.3g}"
            if self.epsilon < self.max_reward
            else "nothing is certified yet"
        )
        lines = [
            *(f"{WARNING}: {text}" for text in self.warnings),
            f"{self.leader} leads after {self.rounds:,} rounds; {self.survivors:,} of {total:,} candidates may be best",
            f"  {known}{self._to_go()}",
        ]
        answers = {"waiting": self.waiting, "missing": self.missing, "late": self.late}
        if any(answers.values()):
            lines.append(f"  answers {', '.join(f'{name}: {count:,}' for name, count in answers.items() if count)}")
        return "\n".join(lines)


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
        self._versions = np.empty(0, dtype=np.int64)  # of decisions from the front on
        self._answered = np.empty(0, dtype=np.bool_)
        self._held = Events.none()  # answered, but behind an unanswered one
        self._missing = self._late = 0
        self._reward = 0.0
        self._open: list[Decisions] = []  # batches with decisions that may stay without answer
        self._exposure = ExposureGuard(problem.n_actions)
        self._unanswered = ExposureGuard(problem.n_actions, unanswered=True)
        self._drift = DriftGuard()
        # Decisions of the current epoch with a reward that speaks for its leader, and with one that speaks against it.
        self._for = self._against = np.empty(0, dtype=np.int64)
        self._slowest = -1
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
    def done(self) -> bool:
        """Whether the promise is kept, or the budget spent."""
        return self._certified is not None or (self.max_rounds is not None and self.rounds >= self.max_rounds)

    def result(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        if self._front == 0:
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

    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        leader, epsilon = self._claim()
        value = self._values.means[leader]
        return CertificationStatus(
            rounds=self.rounds,
            leader=self.policies.names[leader],
            epsilon=epsilon,
            survivors=int(self._alive.sum()),
            dropped=tuple(self._dropped),
            forecast=self._forecast(),
            reward_lost=float(value * self._front - self._reward),
            waiting=int((~self._answered).sum()),
            missing=self._missing,
            late=self._late,
            max_reward=self.problem.max_reward,
            warnings=self._warnings(),
        )

    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends (P,), (P,) of intervals that hold all values at all times, with probability 1 − delta of their own."""
        return self._values.intervals(delta=self.delta, max_reward=self.problem.max_reward)

    # ---- decisions and answers ---------------------------------------------------------------------------------------

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self.patience is not None and n_contexts(X) > self.patience:
            raise InputError(
                f"a batch must not be larger than patience={self.patience}, got {n_contexts(X)} contexts: its first "
                "decisions would be overdue before anybody could answer them."
            )
        decisions = self._explorer.draw(X, self._rng, first_id=first_id, version=len(self._epochs) - 1)
        self._watch_draws(decisions)
        self._versions = np.concatenate([self._versions, decisions.versions])
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

    def _learn(self, rounds: Rounds) -> None:
        self._audit(rounds.decisions)
        current = rounds.decisions.ids >= self._front
        self._late += int((~current).sum())
        self._answered[rounds.decisions.ids[current] - self._front] = True
        self._held = self._held + rounds[current].events()
        n = self._settled()
        if n == 0:
            return
        versions = self._versions[:n]
        events, self._held = _split(self._held, self._front + n)
        self._missing += n - int(self._answered[:n].sum())
        self._watch_unanswered(self._front + np.flatnonzero(~self._answered[:n]), self._front + n)
        self._versions, self._answered = self._versions[n:].copy(), self._answered[n:].copy()
        self._front += n
        self._take(versions, events)
        self._judge()
        self._maybe_begin_epoch()

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
        epochs = decisions.versions[chosen] // self._explorer.stride
        for k in np.unique(epochs):
            sample = decisions[chosen[epochs == k]]
            explorer = self._explorer if k == len(self._epochs) - 1 else self._explorer_of(self._epochs[k])
            computed = explorer.all_propensities(sample.contexts).of(sample.lists.astype(np.int64))
            self._exposure.compare(sample.propensities, computed)

    def _watch_unanswered(self, ids: NDArray[np.int64], front: int) -> None:
        """See whether decisions that were never answered show certain actions more often than they should."""
        room = max(1, _UNANSWERED_CELLS // self._unanswered.n_classes)
        for batch in self._open:
            mine = ids[(ids >= batch.ids[0]) & (ids <= batch.ids[-1])][:room]
            room -= len(mine)
            if len(mine):
                sample = batch[mine - batch.ids[0]]
                epoch = self._epochs[int(sample.versions[0]) // self._explorer.stride]
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
            overdue = np.arange(self._front, self._front + len(blocking)) < self._ledger.issued - self.patience
            blocking &= ~overdue
        first = np.flatnonzero(blocking)
        return int(first[0]) if len(first) else len(blocking)

    def _take(self, versions: NDArray[np.int64], events: Events) -> None:
        """Enter rounds into the evidence, epoch by epoch."""
        stride = self._explorer.stride
        epochs, uncovered = versions // stride, self._explorer.uncovered(versions % stride)
        of_event = events.versions[events.rows]
        self._reward += float(events.rewards.sum())
        for k in np.unique(epochs):
            epoch, here = self._epochs[k], epochs == k
            n, n_uncovered = int(here.sum()), int((here & uncovered).sum())
            chosen = np.flatnonzero((of_event // stride == k) & ~self._explorer.uncovered(of_event % stride))
            rows, actions = events.rows[chosen], events.actions[chosen]
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
            everyone = len(epoch.candidates) == len(self.policies)  # then adding in place is several times faster
            self._log_wealth[slice(None) if everyone else epoch.candidates] += evidence.log_wealth
            self._values.add(
                epoch.candidates,
                inside,
                rows,
                weights,
                bound=epoch.value_bound,
                n_rounds=n,
                n_uncovered=n_uncovered,
                max_reward=self.problem.max_reward,
            )
            if k == len(self._epochs) - 1:
                led = inside[:, epoch.bets.leader]
                self._for = np.concatenate([self._for, np.unique(events.ids[rows[led]])])
                against = ~led & inside.any(axis=1)
                self._against = np.concatenate([self._against, np.unique(events.ids[rows[against]])])
                first = epoch.first_id
                self._drift.update(self._for - first, self._against - first, epoch.n_rounds + n)
            epoch.n_rounds += n
            epoch.n_uncovered += n_uncovered
            self._keep(events, chosen, inside, actions, k)

    def _inside(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.bool_]:
        """Whether each event's action counts for each of the epoch's candidates."""
        return self.policies.contains(events.contexts, events.rows[chosen], events.actions[chosen], epoch.candidates)

    def _propensities(self, events: Events, chosen: NDArray[np.int64], epoch: Epoch) -> NDArray[np.float64]:
        """What rewards are divided by."""
        return events.propensities[chosen]

    def _keep(
        self,
        events: Events,
        chosen: NDArray[np.int64],
        inside: NDArray[np.bool_],
        actions: NDArray[np.int32],
        k: int,
    ) -> None:
        """Keep events for later designs."""
        if len(chosen) == 0:
            return
        needed, rows = np.unique(events.rows[chosen], return_inverse=True)
        kept = Events(
            n_rounds=0,
            ids=events.ids[needed],
            versions=np.full(len(needed), k),
            contexts=take_contexts(events.contexts, needed),
            rows=rows,
            actions=actions,
            rewards=events.rewards[chosen],
            propensities=self._propensities(events, chosen, self._epochs[k]),
        )
        self._seen.add(kept, inside, self._epochs[k].candidates)

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
        against[near] = log_mean_wealth(self._log_wealth[near])
        out = against >= self._threshold
        out[leader] = False
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

    def _evidence(self, leader: int, mu: float, rivals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log-evidence against "π exceeds the leader by more than μ", for each rival that is left."""
        total = self._log_wealth[rivals]
        table = credits_at(mu / self._unit)
        for epoch in self._epochs:
            if epoch.leader == leader and epoch.n_rounds:
                # Rivals that are left were candidates in every epoch.
                place = np.searchsorted(epoch.candidates, rivals)
                total += epoch.n_rounds * table[epoch.bets.levels[place]]
        return log_mean_wealth(total) if len(rivals) else np.empty(0)

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
        rounds = np.divide(missing, growth, out=np.full(len(rivals), np.inf), where=growth > 0)
        return float(np.max(rounds, where=missing > 0, initial=0.0))

    def _candidates(self, indices: list[int], scores: NDArray[np.float64], epsilon: float) -> list[Candidate]:
        """Values and intervals of the leader (first) and some others, in agreement with what is certified.

        The leader's value is estimated from all its rounds, the others' by their differences to it, which are far more
        exact. Intervals are cut to the certificate: no candidate that is left reaches above the leader's upper end by
        more than epsilon.
        """
        low, high = self._values.intervals(delta=self.delta, max_reward=self.problem.max_reward, indices=indices)
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
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Choose leader, plan and bets from the past, for contexts that nobody has seen yet."""
        candidates = np.flatnonzero(self._alive)
        self._seen.forget(self._alive)
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

    def _state(self) -> dict[str, NDArray[Any]]:
        names = list(self.policies.names)
        state: dict[str, NDArray[Any]] = {
            "log_wealth": self._log_wealth,
            "value_sums": self._values.sums,
            "value_low": self._values.low,
            "value_high": self._values.high,
            "value_bounds": np.array(list(self._values.rounds)),
            "value_rounds": np.array(list(self._values.rounds.values()), dtype=np.int64).reshape(-1, len(names)),
            "alive": self._alive,
            "dropped": np.array(
                [(d.index, d.round, names.index(d.leader), d.log_evidence) for d in self._dropped], dtype=np.float64
            ).reshape(-1, 4),
            "columns": self._seen.columns,
            "bits": self._seen.rows.bits,
            "versions": self._versions,
            "answered": self._answered,
            "counts": np.array([self._front, self._missing, self._late, len(self._epochs), len(self._open)]),
            "reward": np.array(self._reward),
            "unit": np.array(self._unit),
            "tie_seed": np.array(self._tie_seed),
            "for": self._for,
            "against": self._against,
            "exposure": self._exposure.pack(),
            "unanswered": self._unanswered.pack(),
            "drift": self._drift.pack(),
            "certified": np.array([] if self._certified is None else self._certified),
            "best_claim": np.array([] if self._best_claim is None else self._best_claim),
        }
        state |= {f"events.{name}": array for name, array in self._seen.events.state().items()}
        state |= {f"held.{name}": array for name, array in self._held.state().items()}
        for k, decisions in enumerate(self._open):
            state |= {f"open{k}.{name}": array for name, array in decisions.state().items()}
        if self._recent is not None:
            state |= {f"recent.{name}": array for name, array in pack_contexts(self._recent).items()}
        for k, epoch in enumerate(self._epochs):
            state |= {f"epoch{k}.{name}": array for name, array in _pack_epoch(epoch).items()}
        return state

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._log_wealth = arrays["log_wealth"]
        bounds, rounds = arrays["value_bounds"].tolist(), list(arrays["value_rounds"])
        self._unit = float(arrays.get("unit", 1.0))
        self._values = ValueBets(
            arrays["value_sums"],
            arrays["value_low"],
            arrays["value_high"],
            dict(zip(bounds, rounds, strict=True)),
            unit=self._unit,
        )
        self._alive = arrays["alive"]
        names = self.policies.names
        self._dropped = [
            Dropped(int(i), names[int(i)], int(when), names[int(leader)], float(evidence))
            for i, when, leader, evidence in arrays["dropped"]
        ]
        self._versions, self._answered = arrays["versions"], arrays["answered"]
        self._front, self._missing, self._late, n_epochs, n_open = (int(v) for v in arrays["counts"])
        self._open = [Decisions.from_state(with_prefix(arrays, f"open{k}.")) for k in range(n_open)]
        self._reward = float(arrays["reward"])
        self._tie_seed = int(arrays["tie_seed"])
        self._for, self._against = arrays["for"], arrays["against"]
        self._exposure.unpack(arrays["exposure"])
        self._unanswered.unpack(arrays["unanswered"])
        self._drift.unpack(arrays["drift"])
        self._certified, self._best_claim = (
            (int(claim[0]), float(claim[1])) if len(claim) else None
            for claim in (arrays["certified"], arrays["best_claim"])
        )
        events = Events.from_state(with_prefix(arrays, "events."))
        self._seen = Seen.of(events, arrays["bits"], arrays["columns"])
        self._held = Events.from_state(with_prefix(arrays, "held."))
        recent = with_prefix(arrays, "recent.")
        self._recent = unpack_contexts(recent) if recent else None
        self._epochs = [_unpack_epoch(with_prefix(arrays, f"epoch{k}.")) for k in range(n_epochs)]
        self._explorer = self._explorer_of(self._epochs[-1])


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
        versions=events.versions[rewarded],
        contexts=take_contexts(events.contexts, rewarded),
        rows=rows[chosen],
        actions=events.actions[chosen],
        rewards=events.rewards[chosen],
        propensities=events.propensities[chosen],
    )


def _pack_epoch(epoch: Epoch) -> dict[str, NDArray[Any]]:
    return {
        "candidates": epoch.candidates,
        "kind": np.array(epoch.plan.kind),
        "weights": epoch.plan.weights,
        "levels": epoch.bets.levels,
        "growth": epoch.growth,
        "whole": np.array(
            [epoch.leader, epoch.bets.leader, epoch.start, epoch.first_id, epoch.n_rounds, epoch.n_uncovered]
        ),
        "real": np.array([epoch.plan.floor, epoch.bets.bound, epoch.value_bound, epoch.bets.unit]),
    }


def _unpack_epoch(arrays: dict[str, NDArray[Any]]) -> Epoch:
    leader, position, start, first_id, n_rounds, n_uncovered = (int(v) for v in arrays["whole"])
    floor, bound, value_bound, *rest = (float(v) for v in arrays["real"])
    levels, unit = arrays["levels"], rest[0] if rest else 1.0
    if not rest:  # the first release had no unit, and fewer stakes: "no bet" was number 72
        levels = np.where(levels == 72, len(STAKES) - 1, levels)
    return Epoch(
        candidates=arrays["candidates"],
        leader=leader,
        plan=Plan(str(arrays["kind"]), arrays["weights"], floor),  # type: ignore[arg-type]
        bets=Bets(position, levels, bound, unit),
        value_bound=value_bound,
        growth=arrays["growth"],
        start=start,
        first_id=first_id,
        n_rounds=n_rounds,
        n_uncovered=n_uncovered,
    )
