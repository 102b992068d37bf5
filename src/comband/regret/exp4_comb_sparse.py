"""Algorithm 4, EXP4-COMB-SPARSE: regret against an adversary that follows the sparsity, not the number of actions."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband import theory
from comband.explore.solvers.ftrl import Ftrl
from comband.learners.base import Seed
from comband.learners.weighted import Propensities, WeightedPolicies
from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import Problem, check_count
from comband.page.rounds import Decisions
from comband.page.storage import State
from comband.policies.policy_set import PolicySet
from comband.theory import Barrier

_FIRST_HORIZON = 1024


class Exp4CombSparse(WeightedPolicies):
    """Competes with the best policy in hindsight over T rounds chosen by an oblivious adversary.

    Follows the regularised leader on importance-weighted losses with entropy/η and log-barrier/ν over Π:

        p_{t+1} = argmin_p  p·Σ_{τ≤t} ĉ_τ + (1/η) Σ p log p − (1/ν) Σ log p.

    Expected regret ≤ ρ + P log(T)/ν + log(P)/η + η s ρ T/(2(1−νρ)), ρ = min(s, m): K does not enter, P does. η, ν and
    the bound are those of `theory.exp4_comb_sparse`. For many policies and short horizons `Exp4` is the better choice:
    `theory.exp4` says from where on. The bound is for feedback told before the next
    decision; late feedback is allowed and stays unbiased, but the stability p_{t+1} ≤ 2 p_t is then not promised.

    Parameters
    ----------
    problem:
        K, m and s; without a sparsity s = K is used.
    policies:
        The class Π.
    horizon:
        T, how many rounds will be played. None if it is not known: then η is set for the next power of two at each
        doubling (the regulariser only grows, so nothing is forgotten). For T ≥ 1024 the last two terms of the bound
        are then together at most 1.57 times what they are for known T.
    barrier:
        ν: "safe" 1/(16ρ), the paper's argument redone for lists; "sharp" 1/(2ρ), proved another way, with the smaller
        bound and mostly the smaller regret; "printed", ν = 1/16 and η as in the text; or a number below 1/ρ.
    propensities:
        "always", or "when rewarded" to evaluate all policies only on contexts where a reward came.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    Reference: Erez & Koren, Algorithm 4 and Theorem exp4-comb-regret. Two departures from the printed text: the
    log-barrier has the sign its analysis needs, and ν the factor 1/ρ that lists need.

    >>> problem = Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)
    >>> learner = Exp4CombSparse(problem, policies, horizon=100, propensities="when rewarded")
    >>> for _ in range(100):
    ...     decisions = learner.ask([0])
    ...     receipt = learner.tell(decisions, 1.0 * (decisions.lists == 3))
    >>> bool(learner.weights[1] > learner.weights[0])
    True
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        horizon: int | None = None,
        barrier: Barrier | float = "safe",
        propensities: Propensities = "always",
        seed: Seed = 0,
    ) -> None:
        super().__init__(problem, policies, floor=0.0, propensities=propensities, seed=seed)
        self.horizon = None if horizon is None else check_count("horizon", horizon)
        self.barrier = barrier
        self._planned = _FIRST_HORIZON if self.horizon is None else self.horizon
        eta, nu = self._step_sizes()
        self._ftrl = Ftrl(len(policies), eta=eta, nu=nu)

    @property
    def done(self) -> bool:
        """Whether the horizon is played out; never, if it is not known."""
        return self.horizon is not None and self.rounds >= self.horizon

    @property
    def step_sizes(self) -> tuple[float, float]:
        """(η, ν) as they are now."""
        return self._ftrl.eta, self._ftrl.nu

    def _step_sizes(self) -> tuple[float, float]:
        schedule = theory.exp4_comb_sparse(
            self.problem, n_policies=len(self.policies), horizon=self._planned, barrier=self.barrier
        )
        return schedule.step_size, schedule.barrier

    def _decide(self, X: Contexts, first_id: int) -> Decisions:
        if self.horizon is None and self._plan_for(first_id + n_contexts(X)):
            # Solved anew in a copy: if the decision fails, the old weights stay.
            self._ftrl, self._edges = copy.deepcopy(self._ftrl), np.empty_like(self._edges)
            self._ftrl.eta = self._step_sizes()[0]
            self._stale = True
        return super()._decide(X, first_id)

    def _plan_for(self, rounds: int) -> bool:
        """Double an unknown horizon until it holds so many rounds; whether that changed it."""
        before = self._planned
        while self.horizon is None and rounds > self._planned:
            self._planned *= 2
        return self._planned != before

    def _weights(self) -> NDArray[np.float64]:
        return self._ftrl.weights

    def _solve(self) -> None:
        self._ftrl.solve(self._losses)

    def _config(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "barrier": self.barrier, "propensities": self.propensities}

    _SCHEMA: ClassVar = {**WeightedPolicies._SCHEMA, "ftrl": Ftrl.SCHEMA}

    def _state(self) -> State:
        return {**super()._state(), "ftrl": self._ftrl.state()}

    def _restore_weights(self, state: State) -> None:
        self._plan_for(self._ledger.issued)
        eta, nu = self._step_sizes()
        self._ftrl = Ftrl.from_state(state["ftrl"], self._losses, eta=eta, nu=nu)
