"""What Algorithms 1 and 3 share: uniform lists, a design, lists from the design, the empirical best."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from comband import theory
from comband._kernels import uniform_lists
from comband.contexts import Contexts, n_contexts
from comband.design import Design, design_exploration
from comband.estimates.importance import ValueSums
from comband.estimates.intervals import empirical_bernstein
from comband.estimates.pairs import PairSums
from comband.learners.atomic import alone
from comband.learners.base import ANSWER_THEM, OUT_OF_ORDER, UNWATCHED, Candidate, Learner, Seed, Selection, Status
from comband.oracles.base import Oracle
from comband.oracles.enumeration import EnumerationOracle
from comband.policies.policy_set import PolicySet
from comband.problem import (
    InputError,
    Problem,
    check_count,
    check_epsilon,
    check_floor,
    check_fraction,
)
from comband.rounds import Decisions, Events, Rounds, read_only
from comband.schedule import forecast_epsilon
from comband.solvers.stopping import Stopping
from comband.storage import Part, State, Whole, require

Solver = Literal["corrective", "frank-wolfe"]

_RUNNERS_UP = 3
_EXPLORE, _ESTIMATE = 0, 1  # versions of decisions


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PacSelection(Selection):
    """A selection with everything the two phases found out; its repr is meant to be read.

    candidates:
        Every candidate with value and interval, best first. Behind an oracle there is no such list: then the selected
        policy and those that the design plays.
    design:
        The exploration mixture with its gap and certificate; None while there is none.
    measured_variance:
        The largest sample variance of R(π) among the candidates in phase 2 (in phase 1, before phase 2 has begun).
    variance_bound:
        2sm/(1−γ), which is the paper's 4sm at γ = ½.
    oracle_calls:
        Those for the design, and one for the answer.
    """

    candidates: tuple[Candidate, ...]
    design: Design | None
    measured_variance: float
    variance_bound: float
    oracle_calls: int
    n_explore: int
    n_estimate: int

    @property
    def certified(self) -> bool:
        """Whether the design's largest variance proxy over the class is at most 2s/(1−γ), on the rewards of phase 1.

        False also when that cannot be known: without any reward, or with an approximate oracle.
        """
        design = self.design
        if design is None or not design.certified:
            return False
        return design.max_variance * design.mixture.problem.list_size <= self.variance_bound

    def __str__(self) -> str:
        lines = [
            Selection.__str__(self),  # by name: slots give the class an identity that a bare super() misses
            f"  rounds: {self.n_explore:,} uniform + {self.n_estimate:,} from the design; "
            f"{self.oracle_calls:,} oracle calls",
        ]
        if self.design is not None:
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
        if solver not in ("corrective", "frank-wolfe"):
            raise InputError(f"solver must be 'corrective' or 'frank-wolfe', got {solver!r}.")
        if n_steps is not None and solver != "frank-wolfe":
            raise InputError("n_steps is for solver='frank-wolfe', Algorithm 2 as printed; the other stops by its gap.")
        self.solver: Solver = solver
        self._listed = isinstance(policies, PolicySet)
        self.n_policies = len(policies) if isinstance(policies, PolicySet) else n_policies
        if self.n_policies is not None:
            check_count("n_policies", self.n_policies)
        # As they came, for `save`; whole numbers may be numpy's, which JSON does not know.
        self._given = [int(n) if isinstance(n, np.integer) else n for n in (n_explore, n_estimate, n_steps)]
        self.n_explore = self._plan().n_explore if n_explore is None else check_count("n_explore", n_explore)
        self.n_estimate: int | None  # None until the design's variance is measured
        if n_estimate == "measured":
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
        self._estimated = Events.none()
        self._values: ValueSums | None = None
        self._design: Design | None = None
        self._late = 0
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
            second_moment=self._measured_moment(self._design),
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
        sums = ValueSums.from_events(events, known) if self._values is None else self._values
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
            oracle_calls=1 if self._design is None else self._design.oracle_calls + 1,
            n_explore=self._explored.n_rounds,
            n_estimate=self._estimated.n_rounds,
        )

    @alone
    def status(self) -> Status:
        """Where the learner stands now; its ε is the forecast."""
        leader = "" if self._values is None else self.policies.names[int(np.argmax(self._values.sums))]
        return Status(self.rounds, leader, self.forecast(), self.n_policies or 0, max_reward=self.problem.max_reward)

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self._design is not None:
            return self._design.mixture.draw(X, self._rng, first_id=first_id, version=_ESTIMATE)
        n, K, m = n_contexts(X), self.problem.n_actions, self.problem.list_size
        return Decisions(
            ids=read_only(np.arange(first_id, first_id + n)),
            lists=read_only(uniform_lists(self._rng.random((n, m)), K)),
            propensities=read_only(np.full((n, m), m / K)),
            versions=read_only(np.full(n, _EXPLORE)),
            contexts=X,
        )

    def _learn(self, rounds: Rounds) -> None:
        # Versions are those of the learner's own record: there are no others than these two.
        uniform = rounds.decisions.versions == _EXPLORE
        explored, estimated = rounds[np.flatnonzero(uniform)], rounds[np.flatnonzero(~uniform)]
        if len(estimated):
            events = estimated.events()
            self._estimated = self._estimated + events
            if self._listed:
                values = ValueSums.from_events(events, self.policies)
                self._values = values if self._values is None else self._values + values
        if len(explored) == 0:
            return
        if self._design is not None:
            self._late += len(explored)
            return
        self._explored = self._explored + explored.events()
        if self._explored.n_rounds >= self.n_explore:
            self._first_estimate = self._ledger.issued
            self._start_phase_2()

    def _in_order(self) -> bool:
        """Whether the rounds that the answer rests on were answered in the order of decisions."""
        return self._ledger.overtaken(self._first_estimate if self._estimated.n_rounds else 0) == 0

    def _start_phase_2(self) -> None:
        oracle = EnumerationOracle(self._class) if isinstance(self._class, PolicySet) else self._class
        # Algorithm 2 takes its T steps whatever the gap, and keeps the smallest weights.
        printed = self.n_steps is not None
        self._design = design_exploration(
            self._weighed(self._explored),
            oracle,
            problem=self.problem,
            floor=self.floor,
            solver=self.solver,
            stopping=Stopping(max_steps=self.n_steps) if printed else None,
            trim=0.0 if printed else 1e-9,
        )
        if self.n_estimate is None and self.epsilon is not None and self.n_policies is not None:
            self.n_estimate = theory.estimate_rounds(
                self.problem,
                n_policies=self.n_policies,
                epsilon=self.epsilon,
                delta=self.delta,
                floor=self.floor,
                second_moment=self._measured_moment(self._design),
            )

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
        gaps = pairs.gaps(bound=theory.estimate_range(self.problem, floor=floor), delta=self.delta)
        epsilon = min(float(gaps.max()), self.problem.max_reward)
        return epsilon, "paired betting bound at a fixed number of rounds"

    def _theory_epsilon(self) -> tuple[float, str]:
        if self.n_policies is None:
            return self.problem.max_reward, "none but the trivial one: n_policies, the size of the class, was not given"
        if self._estimated.n_rounds == 0:
            return self.problem.max_reward, "none but the trivial one: phase 2 has not begun"
        epsilon = theory.estimate_epsilon(
            self.problem,
            n_estimate=self._estimated.n_rounds,
            n_policies=self.n_policies,
            delta=self.delta,
            floor=self.floor,
        )
        return epsilon, "Bernstein, if the design's certificate holds in expectation"

    def _candidates(self, known: PolicySet, sums: ValueSums, leader: int, floor: float) -> tuple[Candidate, ...]:
        # The interval of a policy found by search must hold for the whole class: δ is shared by n_policies.
        share = min(1.0, len(known) / self.n_policies) if self.n_policies else 1.0
        bound = theory.estimate_range(self.problem, floor=floor)
        low, high = empirical_bernstein(sums, bound=bound, delta=self.delta * share)
        high = np.minimum(high, self.problem.max_reward)
        if not self._in_order():
            low, high = np.zeros_like(low), np.full_like(high, self.problem.max_reward)
        ranked = np.lexsort((-sums.means, np.arange(len(known)) != leader))
        return tuple(
            Candidate(int(i), known.names[i], float(sums.means[i]), (float(low[i]), float(high[i]))) for i in ranked
        )

    def _notes(self) -> tuple[str, ...]:
        notes = [] if self._in_order() else [ANSWER_THEM]
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
            notes.append("the oracle is approximate: the policy is the best it found, not the best of the class")
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
        n_explore, n_estimate, n_steps = self._given
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_explore": n_explore,
            "n_estimate": n_estimate,
            "n_steps": n_steps,
            "floor": self.floor,
            "solver": self.solver,
        }

    _SCHEMA: ClassVar = {"late": Whole(0), "first_estimate": Whole(0), "explored": Part(), "estimated": Part()}

    def _state(self) -> State:
        return {
            "late": self._late,
            "first_estimate": self._first_estimate,
            "explored": self._explored.state(),
            "estimated": self._estimated.state(),
        }

    def _restore(self, state: State) -> None:
        self._late, self._first_estimate = state["late"], state["first_estimate"]
        self._explored, self._estimated = (Events.from_state(state[name]) for name in ("explored", "estimated"))
        over, issued = self._explored.n_rounds >= self.n_explore, self._ledger.issued
        require(
            self._explored.n_rounds + self._estimated.n_rounds + self._late == self.rounds
            and self._first_estimate <= issued
            and (over or self._first_estimate == self._late == self._estimated.n_rounds == 0),
            "its phases do not fit its rounds.",
        )
        uniform = self.problem.uniform_propensity
        for events, version, first, last in (
            (self._explored, _EXPLORE, 0, self._first_estimate if over else issued),
            (self._estimated, _ESTIMATE, self._first_estimate, issued),
        ):
            events.check(self.problem, ids=(first, last))
            least = uniform if version == _EXPLORE else self.floor * uniform
            require(
                events.n_rewarded <= events.n_rounds <= last - first
                and bool((events.versions == version).all())
                and float(events.propensities.min(initial=1.0)) >= least * (1 - 1e-9),
                "events of a phase must be those of its lists.",
            )
        require(
            float(self._explored.propensities.max(initial=0.0)) <= uniform * (1 + 1e-9),
            "lists of phase 1 must be uniform.",
        )
        # The design is a function of what phase 1 saw: made again, not stored.
        if self._explored.n_rounds >= self.n_explore:
            self._start_phase_2()
            if self._estimated.n_rounds:
                self._values = ValueSums.from_events(self._estimated, self.policies)
