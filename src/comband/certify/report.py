"""What people are told: selection, status, forecast."""

from __future__ import annotations

import numpy as np

from comband.certify.certifier import Certified
from comband.certify.claims import COVER, FALLBACK, GUARDS, UNLESS_HARMFUL, Run, certificate, claims
from comband.certify.compared import compared, estimated
from comband.certify.queue import waiting_for
from comband.page.text import visible
from comband.statistics.claims import Claim
from comband.statistics.results import (
    CertificationStatus,
    Comparison,
    Guarded,
    Guess,
    Lift,
    Selection,
    says_something,
    telling,
)

_RUNNERS_UP = 3


class Report(Run):
    """A run, put into words."""

    def selection(self) -> Selection:
        """The certified candidate; before that, the one of which most is certified if that says something, and else the
        best guess, with the epsilon that is certified of it.
        """
        verdict, names = self.verdict, self.policies.names
        evidence = verdict.evidence
        guess = self.guess()
        claim, notes = self._named(guess)
        scores = evidence.scores(verdict.alive)
        left = verdict.candidates
        ranked = left[np.argsort(-scores[left], kind="stable")]
        others = [int(i) for i in ranked if i != claim.leader][:_RUNNERS_UP]
        best, *runners_up = estimated(verdict, names, [claim.leader, *others], scores, claim.epsilon)
        notes += [*self._notes(), *self.watch.notes]
        lift = self.lift(claim.leader)
        made = claims(self, claim, lift)
        notes += [one.text for one in made if one.kind == COVER.name]
        notes += [one.text for one in made if one.kind in (UNLESS_HARMFUL.name, FALLBACK.name) and one.holds]
        return Selection(
            policy=self.policies[claim.leader],
            best=best,
            epsilon=claim.epsilon,
            delta=verdict.claimed_delta,
            rounds=self.rounds,
            runners_up=tuple(runners_up),
            claims=made,
            notes=tuple(notes),
            warnings=self.warnings(made[0]),
            guess=guess,
            explained=self.watch.explained,
            error=evidence.value_error(claim.leader),
            target=verdict.epsilon or None,
            forecast=self.forecast(),
            max_reward=evidence.problem.max_reward,
            lift=lift,
            guarded=self.guarded([claim.leader, *others]),
        )

    def lift(self, one: int, *, shares: bool = True) -> Lift | None:
        """Of a candidate over production; None where there is none, or where an interval has not been proved. As a
        share of production's value too, which takes longer.
        """
        evidence, delta = self.verdict.evidence, self.verdict.field.delta
        if evidence.lifts is None:
            return None
        low, high = evidence.lifts.interval(one, evidence.n_rounds, delta)
        relative, railing = None, self.planner.railing
        if shares and railing is not None:
            counted = evidence.n_rounds, evidence.n_uncovered
            relative = evidence.lifts.relative(one, evidence.seen, *counted, railing, delta)
        return Lift(self.policies.names[one], low, high, delta, relative)

    def guarded(self, which: list[int] | None = None) -> tuple[Guarded, ...]:
        """Candidates by each further metric: some, or all that are left."""
        verdict, evidence = self.verdict, self.verdict.evidence
        guardrails, candidates = evidence.guardrails, self.verdict.candidates
        if guardrails is None:
            return ()
        candidates = np.union1d(candidates, self.epochs.current.candidates)
        wanted = np.intersect1d(candidates, verdict.candidates if which is None else which)
        known, rounds = len(evidence.seen) > 0, max(evidence.counted, 1)
        harmful = verdict.harms(wanted)
        rows = []
        for j, (metric, rail) in enumerate(zip(guardrails.metrics, guardrails.rails, strict=True)):
            found = guardrails.estimates(j, candidates, evidence.n_rounds, rounds) if known else None
            for i, one in enumerate(wanted.tolist()):
                standing = "safe" if verdict.is_safe(one) else "harmful" if harmful[i] else "not shown"
                place = int(np.searchsorted(candidates, one))
                value, error = (0.0, float("inf")) if found is None else (found[0][place], found[1][place])
                margin = str(metric).partition(": ")[2]
                size = metric.largest
                name = self.policies.names[one]
                rows.append(Guarded(name, metric.name, float(value) * size, float(error) * size, margin, standing))
            assert rail.most > 0
        return tuple(rows)

    def warnings(self, promise: Claim) -> tuple[str, ...]:
        """What the guards say, and what else takes the certificate away."""
        others = (
            one.failure for one in promise.premises if one.failure and not one.pending and one.name != GUARDS.name
        )
        return (*self.watch.warnings, *others)

    def comparison(self, most: int | None = None) -> Comparison:
        """The one that is named beside all others, or the `most` of largest estimated value."""
        claim, _ = self._named(self.guess())
        promise = certificate(self, claim)
        return compared(self.verdict, self.policies.names, claim, most, promise=promise)

    def _named(self, guess: Guess) -> tuple[Certified, list[str]]:
        """What is certified of the one to be named, and a note if more is certified of another one."""
        verdict, evidence = self.verdict, self.verdict.evidence
        most = verdict.claim()
        if (
            verdict.certified is not None
            or evidence.guardrails is not None  # of a guess it is not known whether it is safe
            or guess.index == most.leader
            or says_something(most.epsilon, float(evidence.values.means[most.leader]))
        ):
            return most, []
        rivals = verdict.rivals(guess.index)
        own = Certified(guess.index, evidence.claim(guess.index, rivals, verdict.enough(rivals)))
        if most.epsilon >= evidence.problem.max_reward:
            return own, []
        return own, [
            f"most is certified of {visible(self.policies.names[most.leader])}: no candidate exceeds it by more than "
            f"{most.epsilon:.3g}, which says little beside its value, so the best guess is named"
        ]

    def guess(self) -> Guess:
        """Who is thought best, with its own estimate and the standard error of that."""
        verdict, evidence, names = self.verdict, self.verdict.evidence, self.policies.names
        candidates = verdict.candidates
        thought = self.planner.beliefs.of(evidence, candidates).guesses
        if evidence.guardrails is not None:
            thought = np.where(self.planner.safe_to_lead(evidence, verdict, self.epochs), thought, -np.inf)
        # Those who look alike are told apart by what is certified of them.
        i = verdict.claim().leader
        if thought[np.searchsorted(candidates, i)] < thought.max():
            i = int(candidates[thought.argmax()])
        value = float(np.clip(evidence.values.means[i], 0.0, evidence.problem.max_reward))
        return Guess(i, names[i], value, evidence.value_error(i))

    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        verdict, evidence = self.verdict, self.verdict.evidence
        claim = verdict.claim()
        own = int(evidence.values.n_rounds[claim.leader])
        lost = float(evidence.values.means[claim.leader] * own - evidence.earned_while(claim.leader))
        forecast, loss = self.forecast(), self.planner.traffic.loss(evidence)
        promise, lift = certificate(self, claim), self.lift(claim.leader, shares=False)
        return CertificationStatus(
            rounds=self.rounds,
            leader=self.policies.names[claim.leader],
            certified=telling(claim.epsilon, evidence.problem.max_reward) if promise.holds else None,
            survivors=int(verdict.alive.sum()),
            dropped=tuple(verdict.dropped),
            expected=self.expected(),
            forecast=forecast,
            reward_lost=lost,
            to_lose=lost / own * forecast if lost > 0 else 0.0,
            loss=None if loss is None else loss.estimate,
            loss_error=None if loss is None else loss.error,
            waiting=self.queue.waiting,
            missing=self.queue.missing,
            late=self.queue.late,
            warnings=self.warnings(promise),
            lift_low=None if lift is None else lift.low,
            lift_high=None if lift is None else lift.high,
            safe=None if evidence.guardrails is None else verdict.is_safe(claim.leader),
        )

    def expected(self) -> float | None:
        """The ε that the budget is expected to certify, if bets go on growing as designed: in all rounds to come the
        evidence against the leader's rivals grows by λ·μ more at another ε that is larger by μ.
        """
        verdict, epoch, budget = self.verdict, self.epochs.current, self.planner.max_rounds
        if budget is None or verdict.certified is not None:
            return None
        evidence, rivals = verdict.evidence, verdict.rivals(epoch.leader)
        place = np.searchsorted(epoch.candidates, rivals)
        growth, stakes = epoch.growth[place], epoch.bets.stakes[place, 1]
        left = max(budget - evidence.rounds, 0)

        def enough(mu: float) -> bool:
            to_come = left * np.maximum(growth + stakes * (mu - epoch.aim), 0.0)
            return bool((evidence.against(epoch.leader, mu, rivals) + to_come >= verdict.enough(rivals)).all())

        low, high = verdict.epsilon, verdict.claim().epsilon
        if high <= low or enough(low):
            return low
        while high - low > 1e-2 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return telling(high, evidence.problem.max_reward)

    def forecast(self) -> float:
        """Rounds until the slowest rival is certified, if bets go on growing as designed; those of the budget that are
        left, if no ε was asked for.
        """
        verdict, epoch = self.verdict, self.epochs.current
        if verdict.certified is not None:
            return 0.0
        if verdict.epsilon == 0 and self.planner.max_rounds is not None:
            return float(max(self.planner.max_rounds - self.rounds, 0))
        rivals = verdict.rivals(epoch.leader)
        against = verdict.evidence.against(epoch.leader, epoch.aim, rivals)
        missing = np.maximum(verdict.enough(rivals) - against, 0.0)
        growth = epoch.growth[np.searchsorted(epoch.candidates, rivals)]
        with np.errstate(over="ignore"):  # a growth that is next to nothing takes for ever
            rounds = np.divide(missing, growth, out=np.full(len(rivals), np.inf), where=growth > 0)
        slowest = float(np.max(rounds, where=missing > 0, initial=0.0))
        return max(slowest, self.planner.safe_in(epoch, verdict.evidence, verdict))

    def _notes(self) -> list[str]:
        verdict, queue, notes = self.verdict, self.queue, []
        if verdict.certified is None:
            so_far = f"this is the best epsilon known after {queue.front:,} rounds"
            notes.append(f"not certified to {verdict.epsilon:g} yet; {so_far}" if verdict.epsilon > 0 else so_far)
            if self.planner.traffic.spent(verdict.evidence):
                notes.append("the reward that may be lost beside the candidate in production (max_loss) is spent")
        breaker = verdict.evidence.breaker
        if breaker is not None and breaker.stopped:
            notes.append(
                f"after {breaker.stopped_after:,} rounds visitors were proven to get less than production's list would "
                f"bring, by more than {100 * breaker.share:g}% of it (max_harm): show that list; such a stop is false "
                f"with probability {breaker.delta:g} at most"
            )
        unanswered, in_period = waiting_for(queue)
        behind = queue.behind - in_period
        if behind:
            in_time = "set a patience"
            longest = [one for one in queue.patiences if one is not None]
            if len(longest) == len(queue.patiences):
                in_time = f"wait: when {max(longest):,} decisions follow it, it counts as without reward"
            notes.append(
                f"{behind:,} answers do not count yet, because decision {unanswered} before them has none: tell it "
                f"too (zeros if it stays without answer), or {in_time}"
            )
        if in_period:
            notes.append(f"{in_period:,} answers count when their period of {queue.period:,} decisions is over")
        failed = queue.failed_decisions
        if len(failed):
            notes.append(
                f"{len(failed):,} answers could not be taken in, because something failed when they were told "
                f"(decision {int(failed[0])} first), and what follows them waits: tell them again"
            )
        if queue.missing:
            notes.append(
                f"{queue.missing:,} decisions were not answered in time and count as without reward: values and "
                "promise are those of rewards that come within the patience"
            )
        if queue.late:
            notes.append(f"{queue.late:,} answers came too late to count")
        guardrails = verdict.evidence.guardrails
        for metric, lacking, tardy in zip(
            () if guardrails is None else guardrails.metrics, queue.lacking, queue.tardy, strict=True
        ):
            if lacking or tardy:
                notes.append(
                    f"{metric.name}: {lacking:,} decisions have none in time, which counts as zeros, and {tardy:,} "
                    "came too late to count: values are what comes in within the patience"
                )
        evidence = verdict.evidence
        if evidence.since:
            notes.append(
                f"only the {evidence.counted:,} rounds from decision {self.epochs[evidence.since].first_id:,} on "
                "count: values, gaps and the promise are averages over them"
            )
        field = verdict.field
        if field.arrived.any() or not field.present.all():
            notes.append(
                "the field has changed: the promise is about the candidates that are in "
                "it now; what is known of newcomers is from rounds since they came"
            )
        return notes
