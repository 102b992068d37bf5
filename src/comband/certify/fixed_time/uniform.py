"""The baseline: uniform lists for a fixed number of rounds, then the best importance-weighted value."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.fixed_time.claims import FixedTime
from comband.certify.fixed_time.report import value_sums
from comband.learners.atomic import synchronized
from comband.learners.base import Seed
from comband.learners.selector import Selector
from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_count, check_fraction
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Part, State, require
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.reading import reading_of
from comband.statistics.importance import ValueSums
from comband.statistics.results import ANSWER_THEM, UNWATCHED, Candidate, Selection, Status, telling

_RUNNERS_UP = 3


class UniformExploration(Selector):
    """Show `n_rounds` uniform lists, estimate every candidate on all of them, return the best.

    Each candidate's value is estimated by the mean of Σ_{y∈π(x)∩a} r(y)·K/m. The variance of that grows with K/m
    (a round is worth something to π only when a uniform list hits it), so about K·m/ε² rounds are needed: this is what
    everything else in comband is compared with.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    n_rounds:
        The budget; `done` once so many decisions are answered.
    delta:
        The intervals hold for all candidates at once with probability 1 − delta, when `result` is read once, at the
        end of the budget; before it nothing is promised.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.UniformExploration(problem, policies, n_rounds=5000, seed=3)
    >>> result = cb.run(learner, shop).result
    >>> result.rounds, result.epsilon < 0.2
    (5000, True)
    """

    KNOWS_PLACES = True
    KNOWS_ORDER = True

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        n_rounds: int,
        delta: float = 0.05,
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, check_policies(policies), seed=seed)
        self.n_rounds = check_count("n_rounds", n_rounds)
        self.delta = check_fraction("delta", delta)
        equal = np.full(len(policies), 1 / len(policies))
        self._mixture = Mixture(policies, equal, problem=problem, floor=1.0)
        self._bound = reading_of(problem).stretch * problem.max_reward / reading_of(problem).design.uniform_propensity
        self._values = ValueSums.zero(len(policies))

    @property
    def done(self) -> bool:
        """Whether the budget is spent."""
        return self.rounds >= self.n_rounds

    @synchronized
    def result(self) -> Selection:
        """The candidate of highest estimated value."""
        if self.rounds == 0:
            raise InputError("no decision has been answered yet; ask, show the lists, and tell the rewards first.")
        low, high = self._intervals()
        means = self._values.means
        leader = self._leader()
        in_order = self._ledger.overtaken() == 0
        ranked = np.lexsort((np.arange(len(means)) != leader, -means))
        best, *others = (
            Candidate(int(i), self.policies.names[i], float(means[i]), (float(low[i]), float(high[i])))
            for i in ranked[: 1 + _RUNNERS_UP]
        )
        epsilon = self._epsilon(leader, low, high)
        run = FixedTime(self.problem, self.policies, in_order, self.done)
        bound = "empirical Bernstein intervals at a fixed number of rounds"
        promise, cover = run.certificate(epsilon, delta=self.delta, basis=bound), run.cover(epsilon, delta=self.delta)
        notes = [] if in_order else [ANSWER_THEM]
        if not self.done:
            notes.append(f"only {self.rounds:,} of {self.n_rounds:,} planned rounds are in")
        notes += [*(one.text for one in cover), UNWATCHED]
        return Selection(
            policy=self.policies[leader],
            best=best,
            epsilon=epsilon,
            delta=self.delta,
            rounds=self.rounds,
            runners_up=tuple(others),
            claims=(promise, *cover),
            notes=tuple(notes),
            max_reward=self.problem.max_reward,
        )

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now; nothing is certified before the end of the budget."""
        leader = self._leader()
        certified = telling(self._epsilon(leader, *self._intervals()), self.problem.max_reward)
        return Status(self.rounds, self.policies.names[leader], len(self.policies), certified=certified)

    def _leader(self) -> int:
        # Ties are decided by a generator of their own, so that looking changes nothing.
        means = self._values.means
        return int(np.random.default_rng(self.rounds).choice(np.flatnonzero(means == means.max())))

    def _intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._ledger.overtaken() or not self.done:  # they are for one look, at the end
            return np.zeros(len(self.policies)), np.full(len(self.policies), self.problem.max_reward)
        low, high = self._values.bounds(bound=self._bound, delta=self.delta)
        return low, np.minimum(high, self.problem.max_reward)

    def _epsilon(self, leader: int, low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
        rivals = np.delete(high, leader)
        return max(float(rivals.max() - low[leader]), 0.0) if len(rivals) else 0.0

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        return self._mixture.draw(X, self._rng, first_id=first_id)

    def _learn(self, rounds: Rounds) -> None:
        self._values += value_sums(reading_of(self.problem).seen(rounds), self.policies, self.problem)

    def _config(self) -> dict[str, Any]:
        return {"n_rounds": self.n_rounds, "delta": self.delta}

    _SCHEMA: ClassVar = {"values": Part()}

    def _state(self) -> State:
        return {"values": self._values.state()}

    def _restore(self, state: State) -> None:
        values = self._values = ValueSums.from_state(state["values"], P=len(self.policies))
        require(values.n_rounds == self.rounds, "its estimates must be those of all answered rounds.")
        require(
            bool((values.squares <= self._bound * values.sums * (1 + 1e-9)).all()),
            f"no round can be worth more than {self._bound:g} to a candidate.",
        )
