"""EXP4-COMB-SPARSE where there are no contexts: all m-subsets of the actions compete, and none is enumerated."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.explore.solvers.ftrl import Ftrl
from comband.learners.atomic import synchronized
from comband.learners.base import Learner, Seed
from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import InputError, Problem, check_count, check_positive
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, State, Whole, require
from comband.policies.constant import ConstantPolicy
from comband.statistics.claims import nothing
from comband.statistics.results import REGRET_INSTEAD, Candidate, Selection, Status

_NAME = "best fixed list"


class SparseMSets(Learner):
    """Competes with the best fixed list in hindsight, over all C(K, m) of them.

    A distribution over lists matters only through its marginals q ∈ [0, 1]^K, Σq = m, and any such q can be drawn. So
    the weights are K, not C(K, m):

        q_{t+1} = argmin  q·Σ ĉ_τ + (1/η) Σ q log q − (1/ν) Σ log q,   ĉ_t(y) = −r_t(y) 1[y ∈ a_t] / q_t(y).

    Each ĉ_t(y) concerns one action, so q_{t+1} ≤ q_t/(1−ν) whatever the lists collect, and ν = ½ is stable; the
    variance term is Σ q E ĉ² = ‖r‖² ≤ s. Hence, as in Theorem exp4-comb-regret with actions for policies,

        E Regret ≤ m + 2 K log T + 2 √(s m T log(K/m)),   η = √(m log(K/m) / (s T)).

    Parameters
    ----------
    problem:
        K, m and s; without a sparsity s = K is used.
    horizon:
        T.
    barrier:
        ν.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    >>> learner = SparseMSets(Problem(n_actions=6, list_size=2, sparsity=1), horizon=400)
    >>> for _ in range(400):
    ...     decisions = learner.ask([None])
    ...     receipt = learner.tell(decisions, 1.0 * (decisions.lists == 4))
    >>> int(np.argmax(learner.marginals))
    4
    """

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int,
        barrier: float = 0.5,
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, seed=seed)
        self.horizon = check_count("horizon", horizon)
        self.barrier = check_positive("barrier", barrier)
        if self.barrier >= 1:
            raise InputError(f"barrier must lie below 1, where marginals are no longer stable, got {self.barrier:g}.")
        K, m = problem.n_actions, problem.list_size
        s = K if problem.sparsity is None else problem.sparsity
        self.step_size = math.sqrt(m * max(math.log(K / m), math.log(2)) / (s * self.horizon))
        self._losses = np.zeros(K)
        self._marginals = np.full(K, m / K)
        self._stale = False
        self._version = 0

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.rounds >= self.horizon

    @property
    @synchronized
    def marginals(self) -> NDArray[np.float64]:
        """q (K,): the probability that each action is in the next list."""
        if self._stale:
            self._marginals = capped_marginals(
                self._losses, total=self.problem.list_size, eta=self.step_size, nu=self.barrier
            )
            self._stale = False
            self._version += 1
        return self._marginals

    @synchronized
    def result(self) -> Selection:
        """The list of the m actions with the highest estimated totals; no promise beyond the regret of the run."""
        rho, m = self.problem.max_reward, self.problem.list_size
        ties = np.random.default_rng(self.rounds).random(len(self._losses))
        top = np.lexsort((ties, self._losses))[:m]
        value = min(float(-self._losses[top].sum() / max(self.rounds, 1)), rho)
        return Selection(
            policy=ConstantPolicy(top, self.problem),
            best=Candidate(0, _NAME, value, (0.0, rho)),
            epsilon=rho,
            delta=0.0,
            rounds=self.rounds,
            runners_up=(),
            claims=(nothing(REGRET_INSTEAD),),
        )

    @synchronized
    def status(self) -> Status:
        """Where the learner stands now."""
        return Status(self.rounds, _NAME, 1)

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        q = self.marginals
        n, m = n_contexts(X), self.problem.list_size
        # Systematic sampling: one uniform u, and the actions over which the cumulated marginals pass u, u+1, …, u+m−1.
        edges = np.cumsum(q)
        edges *= m / edges[-1]
        points = self._rng.random((n, 1)) + np.arange(m)
        lists = np.minimum(np.searchsorted(edges, points, side="right"), len(q) - 1).astype(np.int32)
        return Decisions.unsigned(first_id, lists, np.minimum(q[lists], 1.0), epoch=self._version, contexts=X)

    def _learn(self, rounds: Rounds) -> None:
        where, place = np.nonzero(rounds.rewards)
        if len(where):
            shown = rounds.decisions.lists[where, place]
            amounts = -rounds.rewards[where, place] / rounds.decisions.propensities[where, place]
            self._corrupt = True
            np.add.at(self._losses, shown, amounts)
            self._stale = True

    def _config(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "barrier": self.barrier}

    _SCHEMA: ClassVar = {
        "losses": Array("f8", ("K",), high=0),
        "marginals": Array("f8", ("K",), 0, 1),
        "version": Whole(0),
    }

    def _state(self) -> State:
        return {"losses": self._losses, "marginals": self.marginals, "version": self._version}

    def _restore(self, state: State) -> None:
        self._losses, self._version, self._stale = state["losses"], state["version"], True
        same = np.allclose(self.marginals, state["marginals"], rtol=1e-6, atol=1e-9)
        require(same, "marginals must be those of the losses.")
        self._marginals, self._version = state["marginals"], state["version"]


def capped_marginals(losses: NDArray[np.float64], *, total: int, eta: float, nu: float) -> NDArray[np.float64]:
    """Minimise L·q + (1/η) Σ q log q − (1/ν) Σ log q over 0 < q ≤ 1, Σq = m.

    Without the caps, q = M p turns the problem into that of `Ftrl` on the simplex with barrier M ν. Capping only adds
    to what the others share, so an action over its cap stays there: at most m rounds of solving.
    """
    q = np.ones(len(losses))
    free = np.arange(len(losses))
    left = total
    while left > 0 and len(free) > left:
        share = left * Ftrl(len(free), eta=eta, nu=left * nu).solve(losses[free])
        over = share > 1
        if not over.any():
            q[free] = share
            return q
        left -= int(over.sum())
        free = free[~over]
    return q
