"""What people are told: selection, status, forecast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.learners.certifying.epochs import Epochs
from comband.learners.certifying.queue import Queue
from comband.learners.certifying.verdict import Verdict
from comband.learners.certifying.watch import Watch
from comband.policies.policy_set import PolicySet
from comband.results import Candidate, CertificationStatus, ComparedCandidate, Comparison, Selection, telling

_RUNNERS_UP = 3


@dataclass(frozen=True, eq=False, slots=True)
class Report:
    """A learner's parts, put into words; `rounds` are those that were answered."""

    policies: PolicySet
    epochs: Epochs
    verdict: Verdict
    queue: Queue
    watch: Watch
    rounds: int

    def selection(self) -> Selection:
        """The certified candidate; before that, the leader with the epsilon that is certified so far."""
        verdict, names = self.verdict, self.policies.names
        problem = verdict.evidence.problem
        claim = verdict.claim()
        scores = verdict.evidence.scores(verdict.alive)
        left = verdict.candidates
        ranked = left[np.argsort(-scores[left], kind="stable")]
        others = [int(i) for i in ranked if i != claim.leader][:_RUNNERS_UP]
        best, *runners_up = self._candidates([claim.leader, *others], scores, claim.epsilon)
        notes = []
        if others and scores[others[0]] > scores[claim.leader]:
            notes.append(
                f"{names[others[0]]} has a higher estimate; the promise is about {names[claim.leader]}, and it would "
                "take more rounds to tell them apart"
            )
        notes += self._notes()
        if self.watch.places.note:
            notes.append(self.watch.places.note)
        if self.policies.cover is not None:
            notes.append(
                self.policies.cover.promise(epsilon=claim.epsilon, delta=verdict.delta, max_reward=problem.max_reward)
            )
        return Selection(
            policy=self.policies[claim.leader],
            best=best,
            epsilon=claim.epsilon,
            delta=verdict.delta,
            rounds=self.rounds,
            runners_up=tuple(runners_up),
            guarantee="from differences on the same rounds, by betting, valid at any time"
            if claim.epsilon < problem.max_reward
            else "trivial: nothing is certified yet",
            notes=tuple(notes),
            warnings=self.watch.warnings,
        )

    def comparison(self, most: int | None = None) -> Comparison:
        """The claim's leader beside all others, or the `most` of largest estimated value.

        A candidate that was dropped is no more estimated than when it was, from its own rounds; one that is left is by
        its difference to the leader.
        """
        verdict, evidence, names = self.verdict, self.verdict.evidence, self.policies.names
        claim = verdict.claim()
        scores, means = evidence.scores(verdict.alive), evidence.values.means
        left = verdict.candidates
        left = left[np.argsort(-scores[left], kind="stable")]
        rivals = left[left != claim.leader][:most]
        gone = [one for one in verdict.dropped if not verdict.alive[one.index]]
        gone.sort(key=lambda one: -means[one.index])
        gone = gone if most is None else gone[: most - len(rivals)]
        bounds = np.minimum(evidence.claims(claim.leader, rivals, verdict.threshold), claim.epsilon)
        here = self._candidates([claim.leader, *map(int, rivals)], scores, claim.epsilon)
        winner = here[0]
        compared = [
            ComparedCandidate(one.index, one.name, one.value, one.interval, min(one.value - winner.value, bound), bound)
            for one, bound in zip(here, (0.0, *bounds.tolist()), strict=True)
        ]
        if gone:
            which = [one.index for one in gone]
            low, high = evidence.values.bounds(
                delta=verdict.delta, max_reward=evidence.problem.max_reward, indices=which
            )
            for i, when, bottom, top in zip(which, (one.round for one in gone), low, high, strict=True):
                value = float(np.clip(means[i], bottom, top))
                behind = min(value - winner.value, 0.0)
                compared.append(
                    ComparedCandidate(i, names[i], value, (float(bottom), float(top)), behind, 0.0, dropped=when)
                )
        return Comparison.of(compared, epsilon=claim.epsilon, delta=verdict.delta, target=verdict.epsilon)

    def status(self) -> CertificationStatus:
        """Where the learner stands now."""
        verdict, evidence = self.verdict, self.verdict.evidence
        claim = verdict.claim()
        value = evidence.values.means[claim.leader]
        return CertificationStatus(
            rounds=self.rounds,
            leader=self.policies.names[claim.leader],
            certified=telling(claim.epsilon, evidence.problem.max_reward),
            survivors=int(verdict.alive.sum()),
            dropped=tuple(verdict.dropped),
            forecast=self.forecast(),
            reward_lost=float(value * evidence.rounds - evidence.reward),
            waiting=self.queue.waiting,
            missing=self.queue.missing,
            late=self.queue.late,
            warnings=self.watch.warnings,
        )

    def forecast(self) -> float:
        """Rounds until the slowest rival is certified, if bets go on growing as designed."""
        verdict, epoch = self.verdict, self.epochs.current
        if verdict.certified is not None:
            return 0.0
        rivals = verdict.rivals(epoch.leader)
        against = verdict.evidence.against(epoch.leader, verdict.epsilon, rivals)
        missing = np.maximum(verdict.threshold - against, 0.0)
        growth = epoch.growth[np.searchsorted(epoch.candidates, rivals)]
        with np.errstate(over="ignore"):  # a growth that is next to nothing takes for ever
            rounds = np.divide(missing, growth, out=np.full(len(rivals), np.inf), where=growth > 0)
        return float(np.max(rounds, where=missing > 0, initial=0.0))

    def _notes(self) -> list[str]:
        verdict, queue, notes = self.verdict, self.queue, []
        if verdict.certified is None:
            notes.append(
                f"not certified to {verdict.epsilon:g} yet; this is the best epsilon known after {queue.front:,} rounds"
            )
        behind = queue.behind
        if behind:
            notes.append(
                f"{behind:,} answers do not count yet, because decision {queue.front} before them has none: tell it "
                "too (zeros if it stays without answer), or set a patience"
            )
        if len(queue.failed):
            notes.append(
                f"{len(queue.failed):,} answers could not be taken in, because something failed when they were told "
                f"(decision {int(queue.failed[0])} first), and what follows them waits: tell them again"
            )
        if queue.missing:
            notes.append(
                f"{queue.missing:,} decisions were not answered in time and count as without reward: values and "
                "promise are those of rewards that come within the patience"
            )
        if queue.late:
            notes.append(f"{queue.late:,} answers came too late to count")
        return notes

    def _candidates(self, indices: list[int], scores: NDArray[np.float64], epsilon: float) -> list[Candidate]:
        """Values and intervals of the leader (first) and some others, in agreement with what is certified.

        The leader's value is estimated from all its rounds, the others' by their differences to it, which are far more
        exact. Intervals are cut to the certificate: no candidate that is left reaches above the leader's upper end by
        more than epsilon.
        """
        evidence = self.verdict.evidence
        low, high = evidence.values.bounds(
            delta=self.verdict.delta, max_reward=evidence.problem.max_reward, indices=indices
        )
        value = float(np.clip(evidence.values.means[indices[0]], low[0], high[0]))
        low[0] = max(low[0], min(low.max() - epsilon, value))
        result = []
        for i, bottom, top in zip(indices, low, np.minimum(high, high[0] + epsilon), strict=True):
            bottom = min(bottom, top)
            shown = float(np.clip(value + scores[i] - scores[indices[0]], bottom, top))
            result.append(Candidate(i, self.policies.names[i], shown, (float(bottom), float(top))))
        return result
