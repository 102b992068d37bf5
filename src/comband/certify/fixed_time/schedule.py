"""Planning a two-phase experiment with a budget: how to split it, and what to expect of it.

`theory` says what is enough in the worst case, which for K/m beyond a handful is more than any page has. Here the
question is turned round: given the rounds one has, which ε can be expected? The answers are FORECASTS: they take a
variance that was measured or assumed for granted. The ε that a learner reports in the end does not rest on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from comband import theory
from comband.page.problem import (
    InputError,
    Problem,
    check_count,
    check_floor,
    check_fraction,
    check_positive,
    check_problem,
)
from comband.statistics.pairs import mean_bound


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """A split of a budget between exploration and estimation, with the ε it may be expected to reach.

    `expected_events`: rewards that uniform lists can be expected to meet in phase 1, what the design is made of.

    Parameters
    ----------
    n_explore, n_estimate:
        Rounds of the two phases.
    epsilon, delta:
        What may be expected, with probability 1 − delta.
    second_moment:
        The bound on every E R(π)² that this rests on.
    basis:
        Where that is from, in words.

    >>> import comband as cb
    >>> plan = cb.plan_budget(cb.Problem(100, 5, 1), n_rounds=50_000, n_policies=200, delta=0.05)
    >>> plan.n_explore + plan.n_estimate, plan.epsilon < 1
    (50000, True)
    """

    n_explore: int
    n_estimate: int
    epsilon: float
    delta: float
    second_moment: float
    expected_events: float
    basis: str

    def __str__(self) -> str:
        return (
            f"{self.n_explore:,} uniform rounds (about {self.expected_events:,.0f} rewards), then {self.n_estimate:,} "
            f"from the design: ε = {self.epsilon:.3g} at δ = {self.delta:g} is forecast\n"
            f"  {self.basis}; a forecast, not a guarantee"
        )


def forecast_epsilon(
    problem: Problem,
    *,
    n_estimate: int,
    n_policies: int,
    delta: float,
    second_moment: float,
    floor: float = 0.5,
) -> float:
    """The ε that `n_estimate` rounds support if every E R(π)² is at most `second_moment` (fixed-n betting bound).

    It is what `PairSums.bounds` gives for a rival that does exactly as well as the leader, with E D² = 2·second_moment.

    Parameters
    ----------
    n_estimate:
        N₂, the rounds of the second phase.
    second_moment:
        What bounds every E R(π)².
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> from comband.certify.fixed_time.schedule import forecast_epsilon
    >>> known = {"n_policies": 100, "delta": 0.05, "second_moment": 2.0}
    >>> few, many = (forecast_epsilon(cb.Problem(50, 5, 1), n_estimate=n, **known) for n in (10_000, 40_000))
    >>> 0.4 < many / few < 0.6  # four times the rounds, half the epsilon
    True
    """
    check_problem(problem)
    n = check_count("n_estimate", n_estimate)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    v = check_positive("second_moment", second_moment)
    if P == 1:
        return 0.0
    b = theory.estimate_range(problem, floor=floor)
    gap = float(mean_bound(0.0, 2 * v * n, n, bound=b, delta=delta, rivals=P - 1))
    return min(gap, problem.max_reward)  # no gap can be larger


def plan_budget(
    problem: Problem,
    n_rounds: int,
    *,
    n_policies: int,
    delta: float,
    explore: float = 0.25,
    floor: float = 0.5,
    proxy: float | None = None,
    reward_rate: float | None = None,
) -> BudgetPlan:
    """Split `n_rounds` and forecast ε.

    Parameters
    ----------
    problem, n_rounds, n_policies, delta, floor:
        The setting, the whole budget, how many candidates there are, the failure probability, the share γ of uniform
        lists in phase 2.
    explore:
        The share of uniform rounds.
    proxy:
        max_π E Σ_{y∈π(x)} r(y)/Q(x, y) of the design as measured (`design.max_variance`); without it the certificate's
        2s/(1−γ) is assumed.
    reward_rate:
        E ‖r‖₁, the expected sum of all K rewards of a round; s if not given.

    >>> plan = plan_budget(Problem(50, 5, 1), 40_000, n_policies=100, delta=0.05)
    >>> (plan.n_explore, plan.n_estimate)
    (10000, 30000)
    """
    n = check_count("n_rounds", n_rounds, least=2)
    share = check_fraction("explore", explore)
    check_floor(floor)
    n_explore = min(max(1, round(share * n)), n - 1)
    v = theory.estimate_variance(problem, floor=floor, proxy=proxy)
    s = problem.n_actions if problem.sparsity is None else problem.sparsity
    rate = s if reward_rate is None else check_positive("reward_rate", reward_rate)
    if rate > s:
        raise InputError(f"reward_rate must not exceed the sparsity {s:g}, got {rate:g}.")
    return BudgetPlan(
        n_explore=n_explore,
        n_estimate=n - n_explore,
        epsilon=forecast_epsilon(
            problem, n_estimate=n - n_explore, n_policies=n_policies, delta=delta, second_moment=v, floor=floor
        ),
        delta=check_fraction("delta", delta),
        second_moment=v,
        expected_events=n_explore * problem.uniform_propensity * rate,
        basis=(
            "assuming the certificate E R² ≤ 2sρ/(1−γ)" if proxy is None else "with the variance measured in phase 1"
        ),
    )
