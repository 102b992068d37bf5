"""Bandit PAC for single-label classification, Algorithm 3 of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband import theory
from comband.learners.two_phase import TwoPhase
from comband.problem import InputError
from comband.rounds import Events


class SingleLabelComband(TwoPhase):
    """One right label for each context, one guess per round: the hits of N₁ uniform guesses are a labelled sample S.

    The design minimises F̂(p) = −(1/n_S) Σ_{(x,y)∈S} log Q^γ_p(x, y); the rest is `PacComband`. Without importance
    weights the potential is smaller by K, which is what the theorem's K⁷ instead of K⁹ comes from. (For rewards in
    {0, 1} both potentials have the same minimisers, and Frank-Wolfe the same steps: the difference is in the schedule
    and in the scale of the gap.)

    Parameters
    ----------
    problem:
        With list_size 1 and sparsity 1. Rewards must be 0 or 1: right or wrong.
    policies, epsilon, delta, n_explore, n_estimate, n_steps, floor, solver, n_policies, n_verify, route, seed:
        As for `PacComband`; what is left out is that of `theory.single_label`.

    References
    ----------
    Erez & Koren, Algorithm 3 (where "predict yᵢ" means ŷᵢ) and Theorem pac-single-label.
    """

    def _check_problem(self) -> None:
        problem = self.problem
        if problem.list_size != 1 or problem.sparsity != 1:
            raise InputError(
                f"single-label learning needs list_size=1 and sparsity=1, got list_size={problem.list_size} and "
                f"sparsity={problem.sparsity}; use PacComband otherwise."
            )

    def _theory(self, n_policies: int, epsilon: float) -> theory.PacSchedule:
        return theory.single_label(
            self.problem.n_actions,
            n_policies=n_policies,
            epsilon=epsilon,
            delta=self.delta,
            floor=self.floor,
            route=self.route,
        )

    def _check_rewards(self, rewards: ArrayLike, n: int) -> NDArray[np.float64]:
        checked = super()._check_rewards(rewards, n)
        if np.count_nonzero(checked) != np.count_nonzero(checked == 1.0):
            wrong = checked[(checked != 0.0) & (checked != 1.0)][0]
            raise InputError(
                f"single-label rewards are 0 or 1 (wrong or right), got {wrong:g}; use PacComband for other rewards."
            )
        return checked

    def _weighed(self, events: Events) -> Events:
        # |S| labelled examples, each of weight 1/|S|: as if only hits had been rounds, each shown for certain.
        return replace(events, n_rounds=len(events), propensities=np.ones(len(events)))
