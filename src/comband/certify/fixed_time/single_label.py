"""Bandit PAC for single-label classification, Algorithm 3 of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband import theory
from comband.certify.fixed_time.learner import TwoPhase
from comband.page.problem import InputError
from comband.page.rounds import Events


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
    policies:
        A `PolicySet`, or an oracle of a class that can be reached only through it.
    epsilon, delta:
        The promise that the theorem's parameters are computed for; `delta` is also that of the reported ε.
    n_explore, n_estimate, n_steps:
        N₁, N₂ and T. Left out, they are those of `theory.single_label`. n_estimate="measured" sets N₂ by the variance
        that phase 1 measured.
    floor:
        γ, the share of uniform guesses in phase 2.
    solver:
        "corrective" (default) stops by its gap; "frank-wolfe" is Algorithm 2 as printed, for `n_steps` steps.
    n_policies:
        The size of a class behind an oracle (a `PolicySet` knows its own).
    n_verify:
        How many decisions after phase 1 are held out of the design, to certify it before phase 2 begins.
    route:
        Where parameters that are left out come from: "gradient", "refined", "printed" or "held-out" (see `PacComband`).
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.

    References
    ----------
    Erez & Koren, Algorithm 3 (where "predict yᵢ" means ŷᵢ) and Theorem pac-single-label.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=3, list_size=1, sparsity=1)
    >>> world = cb.MultilabelWorld(cb.MultilabelData.from_sklearn("iris"), list_size=1)
    >>> policies = cb.PolicySet([cb.ConstantPolicy([y], problem) for y in range(3)])
    >>> learner = cb.SingleLabelComband(problem, policies, n_explore=500, n_estimate=1000, seed=3)
    >>> cb.run(learner, world, batch_size=500).result.rounds
    1500
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
