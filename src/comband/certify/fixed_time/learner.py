"""What Algorithms 1 and 3 share: uniform lists, a design, lists from the design, the empirical best."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from comband import theory
from comband._kernels.lists import uniform_lists
from comband._kernels.orders import shuffle_lists
from comband.certify.fixed_time.phases import ESTIMATE, EXPLORE, Phases
from comband.certify.fixed_time.report import Report, certified_moment, measured_moment, value_sums
from comband.certify.fixed_time.schedule import forecast_epsilon
from comband.certify.fixed_time.selection import PacSelection
from comband.explore.design import Design, design_exploration
from comband.explore.held_out import HeldOutCertificate
from comband.explore.oracles.base import Oracle
from comband.explore.oracles.enumeration import EnumerationOracle
from comband.explore.solvers.stopping import Stopping
from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.selector import Selector
from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import (
    InputError,
    Problem,
    check_count,
    check_epsilon,
    check_floor,
    check_fraction,
)
from comband.page.rounds import Decisions, Events, Rounds
from comband.page.storage import State
from comband.policies.midzuno import MidzunoLists
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.importance import ValueSums
from comband.statistics.results import Status, telling
from comband.theory.letters import PacRoute, check_pac_route

Solver = Literal["corrective", "frank-wolfe"]


class TwoPhase(Selector):
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
        route: PacRoute | None = None,
        seed: Seed = 0,
    ) -> None:
        if isinstance(policies, EnumerationOracle):
            policies = policies.policies  # nothing is hidden behind this one
        super().__init__(problem, policies, seed=seed)
        self._check_problem()
        reading = self._reading = reading_of(problem)
        if not reading.SETS and not isinstance(policies, PolicySet):
            raise InputError(
                f"places={problem.places!r} need policies that can be listed: an oracle finds the best policy for "
                "rewards of items, whatever their places. Give a PolicySet, or a problem without places."
            )
        # Lists are designed as sets, or as pairs of item and place; what the theorems say of rewards there holds of
        # values of stretched rewards: see `Reading.stretch` and `Reading.spread`.
        self._setting, self._spread = reading.design, reading.spread
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
        if route is None:
            # Behind an oracle nothing is compared pair by pair: what the design is worth is better known than trusted.
            verify = n_explore is None and not self._listed and bool(getattr(policies, "exact", False))
            route = "held-out" if verify else "gradient"
        if route == "online":  # type: ignore[comparison-overlap]
            raise InputError('route="online" has no two phases: use OnlineComband, which learns how to explore online.')
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
        self._phases = Phases()
        self._values: ValueSums | None = None
        self._design: Design | None = None
        self._certificate: HeldOutCertificate | None = None
        # Whether what the design was made from is a fair sample; asked behind oracles alone, and so in no file.
        self._explored_in_order = True

    @abstractmethod
    def _check_problem(self) -> None:
        """Refuse a problem that the algorithm is not made for."""

    @abstractmethod
    def _theory(self, n_policies: int, epsilon: float) -> theory.PacSchedule:
        """The theorem's parameters, in the setting in which lists are designed."""

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
    @synchronized
    def done(self) -> bool:
        """Whether both phases are over."""
        return self.n_estimate is not None and self._phases.estimated.n_rounds >= self.n_estimate

    @synchronized
    def forecast(self) -> float:
        """The ε that phase 2 may be expected to support: a FORECAST by the variance that phase 1 measured.

        It takes the design's largest variance proxy for the truth and uses the fixed-n betting bound. What `result`
        reports rests on phase 2 alone.
        """
        if self._design is None or self.n_estimate is None or self.n_policies is None:
            return self.problem.max_reward
        forecast = forecast_epsilon(
            self._setting,
            n_estimate=max(self.n_estimate, self._phases.estimated.n_rounds),
            n_policies=self.n_policies,
            delta=self.delta,
            second_moment=self._moment(),
            floor=self.floor,
        )
        return min(self._spread * forecast, self.problem.max_reward)

    @synchronized
    def result(self) -> PacSelection:
        """The empirical best of phase 2 (one oracle call), and what is known about it.

        Before phase 2 has any round, the best by the uniform lists of phase 1.
        """
        return Report(
            problem=self.problem,
            policies=self._class,
            n_policies=self.n_policies,
            delta=self.delta,
            floor=self.floor,
            route=self.route,
            n_explore=self.n_explore,
            n_verify=self.n_verify,
            n_estimate=self.n_estimate,
            phases=self._phases,
            design=self._design,
            certificate=self._certificate,
            values=self._values,
            ensured=self._ensured_moment(),
            in_order=self._in_order(),
            advice=self.advice,
        ).selection(rounds=self.rounds)

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now; what is certified is computed by `result`."""
        leader = "" if self._values is None else self.policies.names[int(np.argmax(self._values.sums))]
        expected = telling(self.forecast(), self.problem.max_reward)
        return Status(self.rounds, leader, self.n_policies or 0, expected=expected)

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self._design is not None and not self._verifying:
            mixture = self._design.mixture
            lists = MidzunoLists(mixture) if self._reading.TOTAL else mixture
            return lists.draw(X, self._rng, first_id=first_id, epoch=ESTIMATE)
        n, K, m = n_contexts(X), self.problem.n_actions, self.problem.list_size
        u = self._rng.random((n, m + 1))
        shown = uniform_lists(np.ascontiguousarray(u[:, :m]), K)
        propensities = np.full((n, m), self._setting.uniform_propensity)
        shuffle_lists(shown, propensities, np.ascontiguousarray(u[:, m]))
        placements = np.full((n, m, m), 1 / K) if self._reading.natural else None
        return Decisions.unsigned(first_id, shown, propensities, epoch=EXPLORE, contexts=X, placements=placements)

    def _learn(self, rounds: Rounds) -> None:
        # Epochs are those of the learner's own record: there are no others than these two.
        uniform = rounds.decisions.epochs == EXPLORE
        explored = rounds if uniform.all() else rounds[np.flatnonzero(uniform)]
        estimated = rounds if not uniform.any() else rounds[np.flatnonzero(~uniform)]
        if len(estimated):
            events = self._reading.seen(estimated)
            self._phases = self._phases.estimate(events)
            if self._listed:
                values = value_sums(events, self.policies, self.problem)
                self._values = values if self._values is None else self._values + values
        if len(explored) == 0:
            return
        if self._design is None:
            self._phases = self._phases.explore(self._reading.seen(explored))
            if self._phases.explored.n_rounds >= self.n_explore:
                issued = self._ledger.issued
                self._phases = replace(self._phases, first_verify=issued, first_estimate=issued)
                answered = self._ledger.answered_from(0)
                answered[explored.decisions.ids] = True
                self._explored_in_order = bool(answered[: int(answered.sum())].all())
                self._make_design()
            return
        # Held out are the next n_verify decisions, whenever they are answered: those answered first may be no sample.
        places = explored.decisions.ids - self._phases.first_verify
        held_out = explored[np.flatnonzero((places >= 0) & (places < self.n_verify))]
        self._phases = self._phases.leave(len(explored) - len(held_out))
        if len(held_out):
            self._phases = self._phases.verify(self._reading.seen(held_out))
            if not self._verifying:
                self._phases = replace(self._phases, first_estimate=self._ledger.issued)
                self._certify()

    @property
    def _verifying(self) -> bool:
        """Whether held-out rounds are still to come."""
        return self._phases.verified.n_rounds < self.n_verify

    def _in_order(self) -> bool:
        """Whether the rounds that the answer rests on were answered in the order of decisions."""
        return self._ledger.overtaken(self._phases.first_estimate if self._phases.estimated.n_rounds else 0) == 0

    def _make_design(self) -> None:
        oracle = self._class
        if isinstance(oracle, PolicySet):
            oracle = EnumerationOracle(self._reading.drawn(oracle))
        # Algorithm 2 takes its T steps whatever the gap, and keeps the smallest weights; but within the T of the
        # gradient route some step has the gap that its proof asks for, and that one is meant.
        printed = self.n_steps is not None
        by_gap = printed and self._given[2] is None and self.route in ("gradient", "joint", "held-out")
        gap = self._plan().accuracy if by_gap else None
        self._design = design_exploration(
            self._weighed(self._phases.explored.joined()),
            oracle,
            problem=self.problem,
            floor=self.floor,
            solver=self.solver,
            stopping=Stopping(max_steps=self.n_steps, gap=gap) if printed else None,
            trim=0.0 if printed else 1e-9,
        )
        if self._given[1] == "measured":
            self._set_estimate_rounds(self._moment(), self.delta)

    def _certify(self) -> None:
        """Phase 2 begins when the held-out rounds are in: half of δ is theirs."""
        assert self._design is not None
        self._certificate = self._design.certify(
            self._phases.verified.joined(), self.delta / 2, n_policies=self.n_policies
        )
        if self._given[1] is None:
            self._set_estimate_rounds(self._moment(), self.delta / 2)

    def _set_estimate_rounds(self, second_moment: float, delta: float) -> None:
        self.n_estimate = theory.estimate_rounds(
            self._setting,
            n_policies=int(self.n_policies or 0),
            epsilon=float(self.epsilon or 0) / self._spread,
            delta=delta,
            floor=self.floor,
            second_moment=second_moment,
        )

    def _moment(self) -> float:
        """max_π E R(π)² as far as it is known: certified by held-out rounds, or measured in phase 1."""
        if self._certificate is not None:
            return certified_moment(self._setting, self._certificate, floor=self.floor)
        assert self._design is not None
        return measured_moment(
            self._setting,
            self._design,
            floor=self.floor,
            n_explored=self._phases.explored.n_rounds,
            n_policies=self.n_policies,
            delta=self.delta,
        )

    @property
    def advice(self) -> str | None:
        """What would do with fewer rounds, if anything is known that would."""
        return None

    def _ensured_moment(self) -> float | None:
        """The bound on every E R(π)² that N₁ rounds of a proved route ensure; None without them."""
        return self._plan().variance_bound if self._enough_explored() else None

    def _enough_explored(self) -> bool:
        """Whether N₁ was kept, by a route whose constants are proved and with rounds that were answered in the order of
        decisions, and the design solved as the proof asks.
        """
        design, proved = self._design, self.route in ("gradient", "joint", "refined") and self._explored_in_order
        if design is None or self.epsilon is None or self.n_policies is None or not proved:
            return False
        plan = self._plan()
        gap = plan.accuracy / 3 if self.route == "refined" else plan.accuracy
        return design.certified and self._phases.explored.n_rounds >= plan.n_explore and design.gap <= gap

    def _plan(self) -> theory.PacSchedule:
        self._needs("epsilon", "n_policies")
        return self._theory(int(self.n_policies or 0), float(self.epsilon or 0) / self._spread)

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

    _SCHEMA: ClassVar = Phases.SCHEMA

    def _state(self) -> State:
        return self._phases.state()

    def _restore(self, state: State) -> None:
        self._phases = Phases.from_state(state)
        self._phases.check(
            self._setting,
            n_explore=self.n_explore,
            n_verify=self.n_verify,
            floor=self.floor,
            rounds=self.rounds,
            issued=self._ledger.issued,
        )
        # The design is a function of what phase 1 saw, its certificate of what was held out: made again, not stored.
        if self._phases.explored.n_rounds >= self.n_explore:
            self._make_design()
            if self.n_verify and not self._verifying:
                self._certify()
            if self._phases.estimated.n_rounds:
                self._values = value_sums(self._phases.estimated.joined(), self.policies, self.problem)
