"""What a learner of two phases answers: the empirical best, what is known about it, and on what that rests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from comband import theory
from comband.certify.fixed_time.claims import FixedTime
from comband.certify.fixed_time.phases import Phases
from comband.certify.fixed_time.selection import PacSelection
from comband.explore.design import Design
from comband.explore.held_out import HeldOutCertificate
from comband.explore.oracles.base import Oracle
from comband.explore.oracles.enumeration import EnumerationOracle
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem
from comband.page.rounds import Events
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.importance import ValueSums
from comband.statistics.pairs import PairSums
from comband.statistics.results import ANSWER_THEM, UNWATCHED, Candidate
from comband.statistics.totals import total_values
from comband.theory.letters import PacRoute, sparsity_of

_RUNNERS_UP = 3


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Report:
    """What there is to report on.

    policies, n_policies:
        The class, listed or behind an oracle, and its size if that is known.
    n_explore, n_verify, n_estimate:
        The plan; None while N₂ is not settled.
    values:
        Sums of phase 2 for a class that is listed.
    ensured:
        The bound on every E R(π)² that the theorem's N₁ ensures, if it was kept; None otherwise.
    in_order:
        Whether the rounds that the answer rests on were answered in the order of decisions.
    advice:
        What would do with fewer rounds.
    """

    problem: Problem
    policies: PolicySet | Oracle
    n_policies: int | None
    delta: float
    floor: float
    route: PacRoute
    n_explore: int
    n_verify: int
    n_estimate: int | None
    phases: Phases
    design: Design | None
    certificate: HeldOutCertificate | None
    values: ValueSums | None
    ensured: float | None
    in_order: bool
    advice: str | None = None

    def selection(self, *, rounds: int) -> PacSelection:
        """The empirical best of phase 2 (one oracle call); before phase 2 has any round, that of phase 1."""
        begun = self.phases.estimated.n_rounds > 0
        parts, floor = (self.phases.estimated, self.floor) if begun else (self.phases.explored, 1.0)
        events = parts.joined()
        if events.n_rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        if isinstance(self.policies, PolicySet):
            known = self.policies
            leader = self._best_listed(events, known)
            epsilon, basis = self._paired_epsilon(events, known, leader, floor)
        else:
            if len(events) == 0:
                raise InputError("no positive reward has been seen, so the oracle has nothing to choose by.")
            known = self._found(events)
            leader = 0
            epsilon, basis = self._theory_epsilon()
        listed = self.policies if isinstance(self.policies, PolicySet) else None
        planned = self._finished if listed is None else begun  # paired bounds hold at all numbers of rounds at once
        if not (self.in_order and planned):
            epsilon = self.problem.max_reward
        run = FixedTime(self.problem, listed, self.in_order, planned)
        promise, cover = run.certificate(epsilon, delta=self.delta, basis=basis), run.cover(epsilon, delta=self.delta)
        sums = value_sums(events, known, self.problem) if self.values is None else self.values
        candidates = self._candidates(known, sums, leader, floor)
        calls = (0 if self.design is None else self.design.oracle_calls) + (self.certificate is not None)
        reading = reading_of(self.problem)
        return PacSelection(
            policy=known[leader],
            best=candidates[0],
            epsilon=epsilon,
            delta=self.delta,
            rounds=rounds,
            runners_up=candidates[1 : 1 + _RUNNERS_UP],
            claims=(promise, *cover),
            notes=(*self._notes(), *(one.text for one in cover), UNWATCHED),
            max_reward=self.problem.max_reward,
            candidates=candidates,
            design=self.design,
            measured_variance=float(sums.variances.max()),
            variance_bound=reading.spread**2
            * theory.estimate_variance(reading.theory, floor=self.floor, route="printed"),
            proxy_bound=2 * sparsity_of(reading.theory) / (1 - self.floor),
            oracle_calls=calls + 1,
            certificate=self.certificate,
            n_explore=self.phases.explored.n_rounds,
            n_estimate=self.phases.estimated.n_rounds,
        )

    @property
    def _setting(self) -> Problem:
        """In which lists were designed."""
        return reading_of(self.problem).design

    @property
    def _finished(self) -> bool:
        """Whether the planned rounds of phase 2 are in."""
        return self.n_estimate is not None and self.phases.estimated.n_rounds >= self.n_estimate

    def _best_listed(self, events: Events, policies: PolicySet) -> int:
        reading = reading_of(self.problem)
        events, policies = reading.estimating(events, policies)
        return EnumerationOracle(policies, seed=1).best(*_importance_weighted(events, reading.events))

    def _range(self, floor: float) -> float:
        """The most that one round can be worth to a candidate."""
        reading = reading_of(self.problem)
        return reading.stretch * theory.estimate_range(reading.design, floor=floor)

    def _found(self, events: Events) -> PolicySet:
        """The oracle's answer first, then the policies of the design."""
        best = self.policies.fit(*_importance_weighted(events, self.problem))  # type: ignore[union-attr]
        if self.design is None:
            return PolicySet([best], ["selected"])
        mixture = self.design.mixture
        support = mixture.policies.subset(mixture.support)
        return PolicySet([best, *support], ["selected", *(f"design {i}" for i in range(len(support)))])

    def _paired_epsilon(self, events: Events, policies: PolicySet, leader: int, floor: float) -> tuple[float, str]:
        pairs = PairSums.from_events(*reading_of(self.problem).estimating(events, policies), leader)
        gaps = pairs.bounds(bound=self._range(floor), delta=self.delta)
        epsilon = min(float(gaps.max()), self.problem.max_reward)
        return epsilon, "paired betting bound, at any number of rounds of phase 2"

    def _theory_epsilon(self) -> tuple[float, str]:
        """ε against a class behind an oracle, and what it rests on."""
        trivial, design = self.problem.max_reward, self.design
        if not self.policies.exact:  # type: ignore[union-attr]
            return trivial, "nothing better may have been found, but it may exist: the oracle is approximate"
        if self.n_policies is None:
            return trivial, "none but the trivial one: n_policies, the size of the class, was not given"
        if self.phases.estimated.n_rounds == 0 or design is None:
            return trivial, ""
        moment, delta = None, self.delta / 2
        if self.certificate is not None:
            moment = certified_moment(self._setting, self.certificate, floor=self.floor)
            why = "Bernstein, with the variance that held-out rounds certify"
        elif self.ensured is not None:
            moment = self.ensured
            why = f"Bernstein, with the variance that N₁ of the {self.route} route ensures"
        else:
            delta, why = self.delta, "Bernstein, if the design's certificate holds in expectation"
        epsilon = theory.estimate_epsilon(
            self._setting,
            n_estimate=self.phases.estimated.n_rounds,
            n_policies=self.n_policies,
            delta=delta,
            floor=self.floor,
            second_moment=moment,
        )
        return epsilon, why

    def _candidates(self, known: PolicySet, sums: ValueSums, leader: int, floor: float) -> tuple[Candidate, ...]:
        # The interval of a policy found by search must hold for the whole class: δ is shared by n_policies.
        share = min(1.0, len(known) / self.n_policies) if self.n_policies else 1.0
        low, high = sums.bounds(bound=self._range(floor), delta=self.delta * share)
        high = np.minimum(high, self.problem.max_reward)
        # A policy found by search may be one of any number; and these intervals are for one look, at the end.
        if not self.in_order or self.n_policies is None or not self._finished:
            low, high = np.zeros_like(low), np.full_like(high, self.problem.max_reward)
        ranked = np.lexsort((-sums.means, np.arange(len(known)) != leader))
        return tuple(
            Candidate(int(i), known.names[i], float(sums.means[i]), (float(low[i]), float(high[i]))) for i in ranked
        )

    def _notes(self) -> list[str]:
        explored, verified, estimated = (
            part.n_rounds for part in (self.phases.explored, self.phases.verified, self.phases.estimated)
        )
        notes = [] if self.in_order else [ANSWER_THEM]
        if self.design is not None and verified < self.n_verify:
            notes.append(f"{verified:,} of {self.n_verify:,} decisions held out of the design are in")
        if estimated == 0:
            notes.append(f"phase 2 has not begun: this rests on {explored:,} of {self.n_explore:,} uniform rounds")
        elif not self._finished:
            planned = "an unknown number of" if self.n_estimate is None else f"{self.n_estimate:,}"
            notes.append(
                f"only {estimated:,} of {planned} planned rounds of phase 2 are in; values have no intervals before"
            )
        if self.phases.late:
            notes.append(f"{self.phases.late:,} uniform rounds were answered after the design was made, and left aside")
        if not isinstance(self.policies, PolicySet) and not self.policies.exact:
            notes.append(
                "the oracle is approximate: the policy is the best it found, not the best of the class; that none is "
                "better cannot be promised, only its own value"
            )
        if self.advice is not None:
            notes.append(self.advice)
        return notes


def value_sums(events: Events, policies: PolicySet, problem: Problem) -> ValueSums:
    """Sums of the policies' estimates, from single rewards or from totals."""
    reading = reading_of(problem)
    if reading.TOTAL:
        return total_values(events, policies, problem)
    return ValueSums.from_events(*reading.estimating(events, policies))


def _importance_weighted(events: Events, problem: Problem) -> tuple[Contexts, sp.csr_array]:
    weights = events.rewards / events.propensities
    shape = (events.n_rewarded, problem.n_actions)
    return events.contexts, sp.csr_array((weights, (events.rows, events.actions)), shape=shape)


def certified_moment(problem: Problem, certificate: HeldOutCertificate, *, floor: float) -> float:
    """A bound on max_π E R(π)²: ρ·V."""
    return theory.estimate_variance(problem, floor=floor, proxy=certificate.max_variance)


def measured_moment(
    problem: Problem, design: Design, *, floor: float, n_explored: int, n_policies: int | None, delta: float
) -> float:
    """An estimate of max_π E R(π)² from phase 1, with a margin: ρ·(V̂ + √(2V̂cL/N₁) + cL/(3N₁)).

    V̂ = max_π Σ_e w_e A[e, π]/Q_e is an average over rounds of terms of at most c = ρ(K/m)(K/γm), and L = log(P/δ):
    Bernstein's margin for a fixed design. The design was fitted to the same rounds, so this is no proof; nothing
    that `result` promises rests on it.
    """
    ratio = 1 / problem.uniform_propensity
    c = problem.max_reward * ratio * ratio / floor
    V = design.max_variance
    share = c * math.log((n_policies or 1) / delta) / n_explored
    inflated = V + math.sqrt(2 * V * share) + share / 3
    if reading_of(problem).TOTAL:
        return theory.total_variance(problem, floor=floor, proxy=inflated)
    # No variance proxy exceeds what uniform lists at rate γ alone give, E Σ r·K/(γm) ≤ ρK/(γm).
    return problem.max_reward * min(inflated, problem.max_reward * ratio / floor)
