"""What Algorithms 1 and 3 share: uniform lists, a design, lists from the design, the empirical best."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from comband import theory
from comband._kernels.lists import uniform_lists
from comband.contexts import Contexts, n_contexts
from comband.design import Design, design_exploration
from comband.estimates.importance import ValueSums
from comband.estimates.pairs import PairSums
from comband.estimates.totals import total_values
from comband.held_out import HeldOutCertificate
from comband.learners.atomic import alone
from comband.learners.base import Learner, Seed
from comband.oracles.base import Oracle
from comband.oracles.enumeration import EnumerationOracle
from comband.policies.midzuno import MidzunoLists
from comband.policies.policy_set import PolicySet
from comband.problem import (
    InputError,
    Problem,
    check_count,
    check_epsilon,
    check_floor,
    check_fraction,
)
from comband.results import ANSWER_THEM, OUT_OF_ORDER, UNWATCHED, Candidate, Selection, Status, telling
from comband.rounds import Decisions, Events, Rounds
from comband.schedule import forecast_epsilon
from comband.solvers.stopping import Stopping
from comband.storage import Part, State, Whole, require
from comband.theory.letters import PacRoute, check_pac_route, sparsity_of
from comband.totals import TotalRounds, list_weights

Solver = Literal["corrective", "frank-wolfe"]

_RUNNERS_UP = 3
_EXPLORE, _ESTIMATE = 0, 1  # epochs of decisions: the two phases


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PacSelection(Selection):
    """A selection with everything the two phases found out; its repr is meant to be read.

    candidates:
        Every candidate with value and interval, best first. Behind an oracle there is no such list: then the selected
        policy and those that the design plays.
    design, certificate:
        The exploration mixture with its gap and certificate on the rewards of phase 1, and what held-out rounds say
        about it, if there were any; None while there is none.
    measured_variance:
        The largest sample variance of R(π) among the candidates in phase 2 (in phase 1, before phase 2 has begun).
    variance_bound:
        2sm/(1−γ), which is the paper's 4sm at γ = ½; from totals `theory.total_variance`.
    proxy_bound:
        2s/(1−γ), what the theorem asks of the design's largest variance proxy.
    oracle_calls:
        Those for the design, one for its certificate on held-out rounds, and one for the answer.
    """

    candidates: tuple[Candidate, ...]
    design: Design | None
    measured_variance: float
    variance_bound: float
    proxy_bound: float
    oracle_calls: int
    n_explore: int
    n_estimate: int
    certificate: HeldOutCertificate | None = None

    @property
    def certified(self) -> bool:
        """Whether the design's largest variance proxy over the class is at most 2s/(1−γ).

        In the world, if rounds were held out to certify it; otherwise on the rewards of phase 1. False also when that
        cannot be known: without any reward, or with an approximate oracle.
        """
        design, certificate = self.design, self.certificate
        if certificate is not None:
            return certificate.proved and certificate.max_variance <= self.proxy_bound
        if design is None or not design.certified:
            return False
        return design.max_variance <= self.proxy_bound

    def __str__(self) -> str:
        held_out = "" if self.certificate is None else f"{self.certificate.n_rounds:,} held out + "
        lines = [
            Selection.__str__(self),  # by name: slots give the class an identity that a bare super() misses
            f"  rounds: {self.n_explore:,} uniform + {held_out}{self.n_estimate:,} from the design; "
            f"{self.oracle_calls:,} oracle calls",
        ]
        if self.certificate is not None:
            verdict = "holds" if self.certified else "does not hold"
            lines.append(f"  design: {self.certificate}; the bound of the theorem {verdict}")
        elif self.design is not None:
            verdict = "holds" if self.certified else "does not hold" if self.design.certified else "cannot be known"
            lines.append(
                f"  design: gap {self.design.gap:.3g}, largest variance proxy {self.design.max_variance:.4g} "
                f"(the certificate {verdict} on the rewards of phase 1)"
            )
        lines.append(
            f"  variance of the estimates: at most {self.measured_variance:.4g} measured, "
            f"{self.variance_bound:.4g} in the theorem"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


class TwoPhase(Learner):
    """Uniform lists until a design can be made, then lists from the design; the empirical best is the answer.

    Decisions asked for before the design is made are uniform, also beyond N₁: those that are answered in time enter the
    design, later ones are counted and left aside. Subclasses say which theorem sets the parameters and how the
    potential weighs what phase 1 saw.
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet | Oracle,
        *,
        epsilon: float | None = None,
        delta: float = 0.05,
        n_explore: int | None = None,
        n_estimate: int | Literal["measured"] | None = None,
        n_steps: int | None = None,
        floor: float = 0.5,
        solver: Solver = "corrective",
        n_policies: int | None = None,
        n_verify: int | None = None,
        route: PacRoute = "gradient",
        seed: Seed = 0,
    ) -> None:
        if isinstance(policies, EnumerationOracle):
            policies = policies.policies  # nothing is hidden behind this one
        super().__init__(problem, policies, seed=seed)
        self._check_problem()
        self.epsilon = None if epsilon is None else check_epsilon(epsilon, problem)
        self.delta = check_fraction("delta", delta)
        self.floor = check_floor(floor)
        if self.floor == 1:
            raise InputError("floor must lie below 1, got 1: uniform lists leave nothing to design.")
        if not isinstance(solver, str) or solver not in ("corrective", "frank-wolfe"):
            raise InputError(f"solver must be 'corrective' or 'frank-wolfe', got {solver!r}.")
        if n_steps is not None and solver != "frank-wolfe":
            raise InputError("n_steps is for solver='frank-wolfe', Algorithm 2 as printed; the other stops by its gap.")
        self.solver: Solver = solver
        self._listed = isinstance(policies, PolicySet)
        self.n_policies = len(policies) if isinstance(policies, PolicySet) else n_policies
        if self.n_policies is not None:
            check_count("n_policies", self.n_policies)
        check_pac_route(route)
        self.route: PacRoute = route
        # As they came, for `save`; whole numbers may be numpy's, which JSON does not know.
        given = n_explore, n_estimate, n_steps, n_verify
        self._given = [int(n) if isinstance(n, np.integer) else n for n in given]
        self.n_explore = self._plan().n_explore if n_explore is None else check_count("n_explore", n_explore)
        if n_verify is None:
            self.n_verify = self._plan().n_verify if route == "held-out" else 0
        else:
            self.n_verify = check_count("n_verify", n_verify, least=0)
        if self.n_verify:
            self._needs("n_policies")
        self.n_estimate: int | None  # None until the design's variance is measured
        if n_estimate == "measured" or (n_estimate is None and self.n_verify):
            self._needs("epsilon", "n_policies")
            self.n_estimate = None
        elif n_estimate is None:
            self.n_estimate = self._plan().n_estimate
        else:
            self.n_estimate = check_count("n_estimate", n_estimate)
        self.n_steps: int | None = None
        if solver == "frank-wolfe":
            self.n_steps = self._plan().n_steps if n_steps is None else check_count("n_steps", n_steps)
        self._explored = Events.none()
        self._verified = Events.none()
        self._estimated = Events.none()
        self._values: ValueSums | None = None
        self._design: Design | None = None
        self._certificate: HeldOutCertificate | None = None
        self._late = 0
        self._first_verify = 0  # the first decision that is held out of the design
        self._first_estimate = 0  # the first decision of phase 2

    @abstractmethod
    def _check_problem(self) -> None:
        """Refuse a problem that the algorithm is not made for."""

    @abstractmethod
    def _theory(self, n_policies: int, epsilon: float) -> theory.PacSchedule:
        """The theorem's parameters."""

    @abstractmethod
    def _weighed(self, events: Events) -> Events:
        """The events of phase 1, such that r/(n·q) are their weights in the potential."""

    @property
    def design(self) -> Design | None:
        """The exploration mixture with its certificate, once phase 1 is over."""
        return self._design

    @property
    def certificate(self) -> HeldOutCertificate | None:
        """What held-out rounds say about the design, once they are in; None without any."""
        return self._certificate

    @property
    @alone
    def done(self) -> bool:
        """Whether both phases are over."""
        return self.n_estimate is not None and self._estimated.n_rounds >= self.n_estimate

    @alone
    def forecast(self) -> float:
        """The ε that phase 2 may be expected to support: a FORECAST by the variance that phase 1 measured.

        It takes the design's largest variance proxy for the truth and uses the fixed-n betting bound. What `result`
        reports rests on phase 2 alone.
        """
        if self._design is None or self.n_estimate is None or self.n_policies is None:
            return self.problem.max_reward
        return forecast_epsilon(
            self.problem,
            n_estimate=max(self.n_estimate, self._estimated.n_rounds),
            n_policies=self.n_policies,
            delta=self.delta,
            second_moment=self._measured_moment(self._design)
            if self._certificate is None
            else self._certified_moment(self._certificate),
            floor=self.floor,
        )

    @alone
    def result(self) -> PacSelection:
        """The empirical best of phase 2 (one oracle call), and what is known about it.

        Before phase 2 has any round, the best by the uniform lists of phase 1.
        """
        events, floor = (self._estimated, self.floor) if self._estimated.n_rounds else (self._explored, 1.0)
        if events.n_rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        if isinstance(self._class, PolicySet):
            known = self._class
            leader = EnumerationOracle(known, seed=1).best(*self._importance_weighted(events))
            epsilon, guarantee = self._paired_epsilon(events, known, leader, floor)
        else:
            if len(events) == 0:
                raise InputError("no positive reward has been seen, so the oracle has nothing to choose by.")
            known = self._found(events)
            leader = 0
            epsilon, guarantee = self._theory_epsilon()
        if not self._in_order():
            epsilon, guarantee = self.problem.max_reward, OUT_OF_ORDER
        sums = self._value_sums(events, known) if self._values is None else self._values
        candidates = self._candidates(known, sums, leader, floor)
        return PacSelection(
            policy=known[leader],
            best=candidates[0],
            epsilon=epsilon,
            delta=self.delta,
            rounds=self.rounds,
            runners_up=candidates[1 : 1 + _RUNNERS_UP],
            guarantee=guarantee,
            notes=self._notes(),
            candidates=candidates,
            design=self._design,
            measured_variance=float(sums.variances.max()),
            variance_bound=theory.estimate_variance(self.problem, floor=self.floor, route="printed"),
            proxy_bound=2 * sparsity_of(self.problem) / (1 - self.floor),
            oracle_calls=self._oracle_calls() + 1,
            certificate=self._certificate,
            n_explore=self._explored.n_rounds,
            n_estimate=self._estimated.n_rounds,
        )

    @alone
    def status(self) -> Status:
        """Where the learner stands now; what is certified is computed by `result`."""
        leader = "" if self._values is None else self.policies.names[int(np.argmax(self._values.sums))]
        expected = telling(self.forecast(), self.problem.max_reward)
        return Status(self.rounds, leader, self.n_policies or 0, expected=expected)

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self._design is not None and not self._verifying:
            mixture = self._design.mixture
            lists = MidzunoLists(mixture) if self.problem.feedback == "total" else mixture
            return lists.draw(X, self._rng, first_id=first_id, epoch=_ESTIMATE)
        n, K, m = n_contexts(X), self.problem.n_actions, self.problem.list_size
        shown, propensities = uniform_lists(self._rng.random((n, m)), K), np.empty((n, m))
        propensities.fill(m / K)
        return Decisions.unsigned(first_id, shown, propensities, epoch=_EXPLORE, contexts=X)

    def _learn(self, rounds: Rounds) -> None:
        # Epochs are those of the learner's own record: there are no others than these two.
        uniform = rounds.decisions.epochs == _EXPLORE
        explored, estimated = rounds[np.flatnonzero(uniform)], rounds[np.flatnonzero(~uniform)]
        if len(estimated):
            events = self._events(estimated)
            self._estimated = self._estimated + events
            if self._listed:
                values = self._value_sums(events, self.policies)
                self._values = values if self._values is None else self._values + values
        if len(explored) == 0:
            return
        if self._design is None:
            self._explored = self._explored + self._events(explored)
            if self._explored.n_rounds >= self.n_explore:
                self._first_verify = self._first_estimate = self._ledger.issued
                self._make_design()
            return
        # Held out are the next n_verify decisions, whenever they are answered: those answered first may be no sample.
        places = explored.decisions.ids - self._first_verify
        held_out = explored[np.flatnonzero((places >= 0) & (places < self.n_verify))]
        self._late += len(explored) - len(held_out)
        if len(held_out):
            self._verified = self._verified + self._events(held_out)
            if not self._verifying:
                self._first_estimate = self._ledger.issued
                self._certify()

    def _events(self, rounds: Rounds) -> Events:
        """What rounds say of single actions; from totals, what they are credited with."""
        if self.problem.feedback == "total":
            return TotalRounds.of(rounds.decisions, rounds.rewards.sum(axis=1), self.problem).events()
        return rounds.events()

    def _value_sums(self, events: Events, policies: PolicySet) -> ValueSums:
        if self.problem.feedback == "total":
            return total_values(events, policies, self.problem)
        return ValueSums.from_events(events, policies)

    @property
    def _verifying(self) -> bool:
        """Whether held-out rounds are still to come."""
        return self._verified.n_rounds < self.n_verify

    def _in_order(self) -> bool:
        """Whether the rounds that the answer rests on were answered in the order of decisions."""
        return self._ledger.overtaken(self._first_estimate if self._estimated.n_rounds else 0) == 0

    def _make_design(self) -> None:
        oracle = EnumerationOracle(self._class) if isinstance(self._class, PolicySet) else self._class
        # Algorithm 2 takes its T steps whatever the gap, and keeps the smallest weights; but within the T of the
        # gradient route some step has the gap that its proof asks for, and that one is meant.
        printed = self.n_steps is not None
        by_gap = printed and self._given[2] is None and self.route in ("gradient", "held-out")
        gap = self._plan().accuracy if by_gap else None
        self._design = design_exploration(
            self._weighed(self._explored),
            oracle,
            problem=self.problem,
            floor=self.floor,
            solver=self.solver,
            stopping=Stopping(max_steps=self.n_steps, gap=gap) if printed else None,
            trim=0.0 if printed else 1e-9,
        )
        if self._given[1] == "measured":
            self._set_estimate_rounds(self._measured_moment(self._design), self.delta)

    def _certify(self) -> None:
        """Phase 2 begins when the held-out rounds are in: half of δ is theirs."""
        assert self._design is not None
        self._certificate = self._design.certify(self._verified, self.delta / 2, n_policies=self.n_policies)
        if self._given[1] is None:
            self._set_estimate_rounds(self._certified_moment(self._certificate), self.delta / 2)

    def _oracle_calls(self) -> int:
        """Those for the design and its certificate."""
        return (0 if self._design is None else self._design.oracle_calls) + (self._certificate is not None)

    def _set_estimate_rounds(self, second_moment: float, delta: float) -> None:
        self.n_estimate = theory.estimate_rounds(
            self.problem,
            n_policies=int(self.n_policies or 0),
            epsilon=float(self.epsilon or 0),
            delta=delta,
            floor=self.floor,
            second_moment=second_moment,
        )

    def _certified_moment(self, certificate: HeldOutCertificate) -> float:
        """A bound on max_π E R(π)²: ρ·V."""
        return theory.estimate_variance(self.problem, floor=self.floor, proxy=certificate.max_variance)

    def _measured_moment(self, design: Design) -> float:
        """An estimate of max_π E R(π)² from phase 1, with a margin: ρ·(V̂ + √(2V̂cL/N₁) + cL/(3N₁)).

        V̂ = max_π Σ_e w_e A[e, π]/Q_e is an average over rounds of terms of at most c = ρ(K/m)(K/γm), and L = log(P/δ):
        Bernstein's margin for a fixed design. The design was fitted to the same rounds, so this is no proof; nothing
        that `result` promises rests on it.
        """
        ratio = 1 / self.problem.uniform_propensity
        c = self.problem.max_reward * ratio * ratio / self.floor
        V = design.max_variance
        share = c * math.log((self.n_policies or 1) / self.delta) / self._explored.n_rounds
        inflated = V + math.sqrt(2 * V * share) + share / 3
        if self.problem.feedback == "total":
            return theory.total_variance(self.problem, floor=self.floor, proxy=inflated)
        # No variance proxy exceeds what uniform lists at rate γ alone give, E Σ r·K/(γm) ≤ ρK/(γm).
        return self.problem.max_reward * min(inflated, self.problem.max_reward * ratio / self.floor)

    def _found(self, events: Events) -> PolicySet:
        """The oracle's answer first, then the policies of the design."""
        best = self._class.fit(*self._importance_weighted(events))  # type: ignore[union-attr]
        if self._design is None:
            return PolicySet([best], ["selected"])
        mixture = self._design.mixture
        support = mixture.policies.subset(mixture.support)
        return PolicySet([best, *support], ["selected", *(f"design {i}" for i in range(len(support)))])

    def _importance_weighted(self, events: Events) -> tuple[Contexts, sp.csr_array]:
        weights = events.rewards / events.propensities
        shape = (events.n_rewarded, self.problem.n_actions)
        return events.contexts, sp.csr_array((weights, (events.rows, events.actions)), shape=shape)

    def _paired_epsilon(self, events: Events, policies: PolicySet, leader: int, floor: float) -> tuple[float, str]:
        pairs = PairSums.from_events(events, policies, leader)
        gaps = pairs.bounds(bound=theory.estimate_range(self.problem, floor=floor), delta=self.delta)
        epsilon = min(float(gaps.max()), self.problem.max_reward)
        return epsilon, "paired betting bound at a fixed number of rounds"

    def _theory_epsilon(self) -> tuple[float, str]:
        """ε against a class behind an oracle, and what it rests on."""
        trivial, design = self.problem.max_reward, self._design
        if not self._class.exact:  # type: ignore[union-attr]
            return trivial, "nothing better may have been found, but it may exist: the oracle is approximate"
        if self.n_policies is None:
            return trivial, "none but the trivial one: n_policies, the size of the class, was not given"
        if self._estimated.n_rounds == 0 or design is None:
            return trivial, "none but the trivial one: phase 2 has not begun"
        moment, delta = None, self.delta / 2
        if self._certificate is not None:
            moment = self._certified_moment(self._certificate)
            why = "Bernstein, with the variance that held-out rounds certify"
        elif self._enough_explored(design):
            why = f"Bernstein, with the variance that N₁ of the {self.route} route ensures"
        else:
            delta, why = self.delta, "Bernstein, if the design's certificate holds in expectation"
        epsilon = theory.estimate_epsilon(
            self.problem,
            n_estimate=self._estimated.n_rounds,
            n_policies=self.n_policies,
            delta=delta,
            floor=self.floor,
            second_moment=moment,
        )
        return epsilon, why

    def _enough_explored(self, design: Design) -> bool:
        """Whether N₁ was kept, by a route whose constants are proved, and the design solved as the proof asks."""
        if self.epsilon is None or self.route not in ("gradient", "refined"):
            return False
        plan = self._plan()
        gap = plan.accuracy if self.route == "gradient" else plan.accuracy / 3
        return design.certified and self._explored.n_rounds >= plan.n_explore and design.gap <= gap

    def _candidates(self, known: PolicySet, sums: ValueSums, leader: int, floor: float) -> tuple[Candidate, ...]:
        # The interval of a policy found by search must hold for the whole class: δ is shared by n_policies.
        share = min(1.0, len(known) / self.n_policies) if self.n_policies else 1.0
        bound = theory.estimate_range(self.problem, floor=floor)
        low, high = sums.bounds(bound=bound, delta=self.delta * share)
        high = np.minimum(high, self.problem.max_reward)
        if not self._in_order() or self.n_policies is None:  # a policy found by search, among nobody knows how many
            low, high = np.zeros_like(low), np.full_like(high, self.problem.max_reward)
        ranked = np.lexsort((-sums.means, np.arange(len(known)) != leader))
        return tuple(
            Candidate(int(i), known.names[i], float(sums.means[i]), (float(low[i]), float(high[i]))) for i in ranked
        )

    def _notes(self) -> tuple[str, ...]:
        notes = [] if self._in_order() else [ANSWER_THEM]
        if self._design is not None and self._verifying:
            notes.append(f"{self._verified.n_rounds:,} of {self.n_verify:,} decisions held out of the design are in")
        if self._estimated.n_rounds == 0:
            notes.append(
                f"phase 2 has not begun: this rests on {self._explored.n_rounds:,} of {self.n_explore:,} uniform rounds"
            )
        elif not self.done:
            planned = "an unknown number of" if self.n_estimate is None else f"{self.n_estimate:,}"
            notes.append(f"only {self._estimated.n_rounds:,} of {planned} planned rounds of phase 2 are in")
        if self._late:
            notes.append(f"{self._late:,} uniform rounds were answered after the design was made, and left aside")
        if not self._listed and not self._class.exact:  # type: ignore[union-attr]
            notes.append(
                "the oracle is approximate: the policy is the best it found, not the best of the class; that none is "
                "better cannot be promised, only its own value"
            )
        return (*notes, UNWATCHED)

    def _plan(self) -> theory.PacSchedule:
        self._needs("epsilon", "n_policies")
        return self._theory(int(self.n_policies or 0), float(self.epsilon or 0))

    def _needs(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                raise InputError(
                    f"{name} is needed to compute what was left out; give it, or give n_explore and n_estimate "
                    "(and n_steps with solver='frank-wolfe') by hand."
                )

    def _config(self) -> dict[str, Any]:
        n_explore, n_estimate, n_steps, n_verify = self._given
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_explore": n_explore,
            "n_estimate": n_estimate,
            "n_steps": n_steps,
            "n_verify": n_verify,
            "route": self.route,
            "floor": self.floor,
            "solver": self.solver,
        }

    _SCHEMA: ClassVar = {
        "late": Whole(0),
        "first_verify": Whole(0),
        "first_estimate": Whole(0),
        "explored": Part(),
        "verified": Part(),
        "estimated": Part(),
    }

    def _state(self) -> State:
        return {
            "late": self._late,
            "first_verify": self._first_verify,
            "first_estimate": self._first_estimate,
            "explored": self._explored.state(),
            "verified": self._verified.state(),
            "estimated": self._estimated.state(),
        }

    def _restore(self, state: State) -> None:
        self._late = state["late"]
        self._first_verify, self._first_estimate = state["first_verify"], state["first_estimate"]
        self._explored, self._verified, self._estimated = (
            Events.from_state(state[name]) for name in ("explored", "verified", "estimated")
        )
        over, issued = self._explored.n_rounds >= self.n_explore, self._ledger.issued
        require(
            sum(part.n_rounds for part in (self._explored, self._verified, self._estimated)) + self._late == self.rounds
            and self._first_verify <= self._first_estimate <= issued
            and self._verified.n_rounds <= self.n_verify
            and (over or self._first_estimate == self._late == self._verified.n_rounds == 0)
            and (not self._verifying or self._first_estimate == self._first_verify)
            and (not self._verifying or self._estimated.n_rounds == 0),
            "its phases do not fit its rounds.",
        )
        uniform = self.problem.uniform_propensity
        if self.problem.feedback == "total":
            uniform *= (1 - self.problem.fill_share) / self.problem.list_size  # of equal parts: TotalRounds.events
        for events, phase, first, last in (
            (self._explored, _EXPLORE, 0, self._first_verify if over else issued),
            (self._verified, _EXPLORE, self._first_verify, min(self._first_verify + self.n_verify, issued)),
            (self._estimated, _ESTIMATE, self._first_estimate, issued),
        ):
            events.check(self.problem, ids=(first, last))
            if self.problem.feedback == "total":
                list_weights(events, self.problem)  # refuses what no totals can be
            least = uniform if phase == _EXPLORE else self.floor * uniform
            require(
                events.n_rewarded <= events.n_rounds <= last - first
                and bool((events.epochs == phase).all())
                and float(events.propensities.min(initial=1.0)) >= least * (1 - 1e-9),
                "events of a phase must be those of its lists.",
            )
        shown = np.concatenate([self._explored.propensities, self._verified.propensities])
        require(float(shown.max(initial=0.0)) <= uniform * (1 + 1e-9), "lists of phase 1 must be uniform.")
        # The design is a function of what phase 1 saw, its certificate of what was held out: made again, not stored.
        if over:
            self._make_design()
            if self.n_verify and not self._verifying:
                self._certify()
            if self._estimated.n_rounds:
                self._values = self._value_sums(self._estimated, self.policies)
