"""Splitting budgets and forecasting ε."""

import pytest

from comband import Problem, theory
from comband.certify.fixed_time.schedule import forecast_epsilon, plan_budget
from comband.page.problem import InputError

PROBLEM = Problem(50, 5, 1)


def test_split_and_forecast() -> None:
    plan = plan_budget(PROBLEM, 40_000, n_policies=100, delta=0.05, explore=0.1)
    assert (plan.n_explore, plan.n_estimate) == (4000, 36_000)
    assert plan.expected_events == pytest.approx(400)
    assert plan.second_moment == pytest.approx(4)
    assert "not a guarantee" in str(plan)
    assert "assuming" in plan.basis
    measured = plan_budget(PROBLEM, 40_000, n_policies=100, delta=0.05, explore=0.1, proxy=1.0)
    assert measured.epsilon < plan.epsilon
    assert "measured" in measured.basis


def test_forecast_is_near_bernstein() -> None:
    """The number of rounds that theory asks for an ε lets one forecast that ε, up to what the betting grid costs."""
    for epsilon in (0.02, 0.1, 0.3):
        n = theory.estimate_rounds(PROBLEM, n_policies=100, epsilon=epsilon, delta=0.05)
        forecast = forecast_epsilon(PROBLEM, n_estimate=n, n_policies=100, delta=0.05, second_moment=4.0)
        assert 0.6 * epsilon < forecast < 1.4 * epsilon


def test_forecast_limits() -> None:
    assert forecast_epsilon(PROBLEM, n_estimate=1, n_policies=9, delta=0.1, second_moment=1.0) == 1.0
    assert forecast_epsilon(PROBLEM, n_estimate=1, n_policies=1, delta=0.1, second_moment=1.0) == 0.0


def test_absurd_plans_are_refused() -> None:
    for change in ({"explore": 1.0}, {"delta": 0.0}, {"floor": 0.0}, {"proxy": -1.0}, {"reward_rate": 2.0}):
        with pytest.raises(InputError, match=next(iter(change))):
            plan_budget(PROBLEM, 100, n_policies=5, **{"delta": 0.1, **change})
    with pytest.raises(InputError, match="n_rounds"):
        plan_budget(PROBLEM, 1, n_policies=5, delta=0.1)
