"""ε-greedy over policies: the leader so far, and a share of uniform lists. A baseline."""

from __future__ import annotations

from typing import Any

from comband.learners.base import Seed
from comband.learners.weighted import Propensities
from comband.page.problem import Problem, check_count, check_floor, check_problem
from comband.policies.policy_set import PolicySet, check_policies
from comband.regret.explore_then_commit import Greedy, explore_rounds


class EpsilonGreedy(Greedy):
    """With probability ε a uniform list, otherwise the list of the policy with the highest estimated total.

    Regret of order T^(2/3) where rewards are i.i.d., and no bound against an adversary: a leader that stops paying is
    left only as fast as the uniform lists can tell.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    policies:
        The candidates.
    propensities:
        "always", or "when rewarded" to evaluate all policies only on contexts where a reward came.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    horizon:
        T, how many rounds will be played.
    epsilon:
        The share of uniform lists; by default that of the best explore-then-commit split of T.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> learner = cb.EpsilonGreedy(problem, policies, horizon=2000, seed=3)
    >>> cb.run(learner, shop, batch_size=100).result.rounds
    2000
    """

    def __init__(
        self,
        problem: Problem,
        policies: PolicySet,
        *,
        horizon: int,
        epsilon: float | None = None,
        propensities: Propensities = "always",
        seed: Seed = 0,
    ) -> None:
        self.horizon = check_count("horizon", horizon)
        if epsilon is None:
            epsilon = (
                explore_rounds(check_problem(problem), n_policies=len(check_policies(policies)), horizon=self.horizon)
                / self.horizon
            )
        super().__init__(problem, policies, floor=check_floor(epsilon), propensities=propensities, seed=seed)

    @property
    def done(self) -> bool:
        """Whether the horizon is played out."""
        return self.rounds >= self.horizon

    def _config(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "epsilon": self.floor, "propensities": self.propensities}
