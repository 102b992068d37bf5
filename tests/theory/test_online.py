"""The rounds of learnt exploration: every constant of (★), each step of its proof by enumeration, and the schedule."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import comband as cb
from comband import theory
from comband._kernels.online import bend
from comband.theory.online import closed_form_rounds, largest_growth, slack, smallest_share
from tests.theory.online_steps import Step, excesses

LARGE = cb.Problem(100, 5, sparsity=1)


@pytest.mark.parametrize("z", [1e-9, 1e-5, 0.003, 0.0199, 0.02, 0.09, 0.1, 0.7, 3.0, 40.0])
def test_bend_and_slack_are_exact_to_the_last_digits(z: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.mpf(z)
        for found, wanted in (
            (bend(z), exact - mpmath.log1p(exact)),
            (slack(z), mpmath.expm1(-exact) + exact),
        ):
            assert abs(mpmath.mpf(found) / wanted - 1) < 1e-13


def growth_at(z: mpmath.mpf, rate: float) -> mpmath.mpf:
    return mpmath.expm1(rate * (z - mpmath.log1p(z))) / z**2


def share_at(z: mpmath.mpf, alpha: float) -> mpmath.mpf:
    return -mpmath.expm1(-alpha * (z - mpmath.log1p(z))) / (mpmath.expm1(-z) + z)


def test_growth_and_share_bound_what_they_are_said_to_on_the_whole_interval() -> None:
    rng = np.random.default_rng(1)
    tight = 0
    for _ in range(60):
        reach = float(np.exp(rng.uniform(math.log(0.01), math.log(6))))
        rate, alpha = (float(np.exp(rng.uniform(-2, 3))) / (2 * bend(reach)) for _ in range(2))
        growth, share = largest_growth(reach, rate), smallest_share(reach, alpha)
        with mpmath.workdps(30):
            zs = [mpmath.mpf(reach) * (j / mpmath.mpf(60)) ** 2 for j in range(1, 61)]
            largest = max(growth_at(z, rate) for z in zs)
            smallest = min(share_at(z, alpha) for z in zs)
        assert largest <= growth
        assert share <= smallest
        tight += share > 0
        if share > 0:
            assert share == pytest.approx(float(smallest), rel=1e-6)
        assert growth == pytest.approx(float(max(largest, mpmath.mpf(rate) / 2)), rel=1e-2)
    assert tight > 30


def test_growth_may_lie_at_either_end_and_in_between_it_is_smaller() -> None:
    """G falls and then rises: for a small rate it is largest at 0, for a large one at ξ."""
    assert largest_growth(1.0, 0.1) == pytest.approx(0.05)
    with mpmath.workdps(30):
        assert largest_growth(3.0, 6.0) == pytest.approx(float(growth_at(mpmath.mpf(3), 6.0)))
        middle = [growth_at(mpmath.mpf(z) / 100, 1.2) for z in (1, 150, 1200)]
    assert middle[1] < middle[0]
    assert middle[1] < middle[2]


def test_no_share_is_claimed_where_none_is_proved() -> None:
    assert smallest_share(1.8, 0.3) == 0
    assert smallest_share(1.79, 0.3) > 0
    assert smallest_share(1.8, 0.34) > 0


def check_steps(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    largest = np.full(3, -np.inf)
    for number in range(n):
        step = Step(rng)
        np.testing.assert_allclose(step.mean(step.worth), step.values, atol=1e-12)
        schedule = step.random_schedule(rng, batch_size=(1, 1, 2, 7, 40)[number % 5])
        largest = np.maximum(largest, excesses(step, schedule))
    assert (largest <= 1e-12).all(), largest
    assert (largest[:2] > -1e-4).all(), largest  # and no step has room that it does not need


def test_each_step_of_the_proof_by_enumeration() -> None:
    check_steps(400, seed=2)


@pytest.mark.slow
def test_each_step_of_the_proof_by_enumeration_of_many() -> None:
    check_steps(6000, seed=3)


def test_the_schedule_is_a_point_of_the_theorem() -> None:
    """T once more from the printed formula, with Φ and k from a grid in 30 digits."""
    for problem, batch_size in ((LARGE, 1), (cb.Problem(1000, 2, sparsity=3), 50), (cb.Problem(30, 3), 1)):
        P, epsilon, delta = 70, 0.2, 0.04
        found = theory.online_comband(
            problem, n_policies=P, epsilon=epsilon, delta=delta, batch_size=batch_size, exploration="learnt"
        )
        rho, s = problem.max_reward, float(problem.sparsity or problem.n_actions)
        b = rho * problem.n_actions / (found.floor * problem.list_size)
        reach, lam, eta = found.scale * b, found.scale, found.rate
        with mpmath.workdps(30):
            zs = [mpmath.mpf(reach) * j / 2000 for j in range(1, 2001)]
            growth = float(max(max(growth_at(z, eta) for z in zs), eta / 2))
            k = float(min(share_at(z, found.alpha) for z in zs))
        z = batch_size * growth * lam**2 * rho * b
        drift = growth * lam**2 * rho * s / (1 - found.floor) * (math.expm1(z) / z if batch_size > 1 else 1)
        drift = min(drift, growth * lam**2 * rho * b)
        kappa = 1 + found.alpha / k
        logs = (1 + kappa / eta) * math.log(P) + (1 + kappa / eta + 1 / k) * math.log(1 / delta)
        rounds = logs / (lam * epsilon - kappa * drift / eta)
        assert rounds <= found.n_rounds <= 1.0001 * rounds + 1
        assert found.epsilon_at(found.n_rounds) <= epsilon
        assert found.epsilon_at(found.n_rounds - 2) > epsilon * (1 - 1e-9)


def test_the_closed_form_is_one_point_and_the_search_finds_no_worse() -> None:
    # γ = ½, η = 2, α = 1: Φ = 1 and k = e − 2 up to ξ = 1, so κ = 2.3922, and 2.1961 log P + 3.5883 log(1/δ) above
    assert largest_growth(1.0, 2.0) == pytest.approx(1.0)
    assert smallest_share(1.0, 1.0) == pytest.approx(math.e - 2)
    kappa = 1 + 1 / (math.e - 2)
    assert 2 * (1 + kappa / 2) <= 4.4
    assert 2 * (1 + kappa / 2 + 1 / (math.e - 2)) <= 7.2
    assert 2 * kappa <= 4.79  # κΦλ²ρs/(η(1−γ)) = κλ²ρs is at most half of λε up to λ = ε/(4.79ρs)
    for K, m, s, epsilon in ((10, 1, 1, 0.1), (100, 5, 1, 0.01), (1000, 1, 1, 0.3), (200, 4, 3, 0.2), (12, 6, 12, 0.5)):
        problem, promise = cb.Problem(K, m, sparsity=s), {"n_policies": 50, "epsilon": epsilon, "delta": 0.05}
        found = theory.online_comband(problem, exploration="learnt", **promise)  # type: ignore[arg-type]
        assert found.n_rounds <= closed_form_rounds(problem, **promise)  # type: ignore[arg-type]


def test_rounds_grow_with_k_in_proportion_and_with_epsilon_as_the_theorem_says() -> None:
    def rounds(K: int, epsilon: float) -> int:
        return theory.online_comband(cb.Problem(K, 1, 1), n_policies=100, epsilon=epsilon, delta=0.05).n_rounds

    assert 8 < rounds(10**6, 0.3) / rounds(10**5, 0.3) <= 10.01
    assert rounds(2, 0.001) > 100 * rounds(2, 0.011)
    assert 95 < rounds(10, 1e-5) / rounds(10, 1e-4) < 101
    # and the leading constant is 4ρs·log(P/δ)/ε²
    assert rounds(100, 1e-6) / (4 * math.log(100 / 0.05) / 1e-12) == pytest.approx(1, abs=0.02)


def test_larger_batches_cost_rounds_and_uniform_lists_do_not_mind() -> None:
    promise = {"n_policies": 100, "epsilon": 0.1, "delta": 0.05}
    found = [theory.online_comband(LARGE, batch_size=n, **promise).n_online for n in (1, 2, 10, 100, 1000)]  # type: ignore[arg-type]
    assert found == sorted(found)
    assert found[-1] < 4 * found[0]
    ends = [theory.online_comband(cb.Problem(10, 5, 1), batch_size=n, **promise) for n in (1, 1000)]  # type: ignore[arg-type]
    assert ends[0].uniform
    assert ends[0].n_rounds == ends[1].n_rounds == ends[0].n_uniform < ends[0].n_online


def test_half_of_delta_is_kept_for_stopping_early() -> None:
    promise = {"n_policies": 100, "epsilon": 0.1}
    early = theory.online_comband(LARGE, delta=0.1, early_stop=True, **promise)  # type: ignore[arg-type]
    assert early.n_rounds == theory.online_comband(LARGE, delta=0.05, **promise).n_rounds  # type: ignore[arg-type]
    assert early.delta_of_rounds == 0.05


def test_what_is_not_proved_is_refused() -> None:
    promise = {"n_policies": 100, "epsilon": 0.1, "delta": 0.05}
    with pytest.raises(cb.InputError, match="total"):
        theory.online_comband(cb.Problem(10, 2, 1, feedback="total"), **promise)  # type: ignore[arg-type]
    with pytest.raises(cb.InputError, match="exploration must be"):
        theory.online_comband(LARGE, exploration="best", **promise)  # type: ignore[arg-type]
    assert theory.online_comband(LARGE, **{**promise, "n_policies": 1}).n_rounds == 1  # type: ignore[arg-type]
