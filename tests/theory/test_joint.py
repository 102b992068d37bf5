"""Both phases planned together: the bound of the gradient route at any number of rounds, and the smallest sum."""

import math

import pytest

from comband import theory
from comband.page.problem import InputError, Problem
from comband.theory.gradient import SOLVER_SHARE, log_multisets
from comband.theory.joint import smallest_total


def test_rounds_by_hand() -> None:
    """V and N₂ once more from the formulas of the module's head, at the N₁ that was chosen."""
    problem, P, epsilon, delta, gamma = Problem(40, 2, 1), 60, 0.05, 0.1, 0.4
    found = theory.joint_rounds(problem, n_policies=P, epsilon=epsilon, delta=delta, floor=gamma)
    u, n = 2 / 40, found.n_explore
    excess = theory.sampling_excess(found.draws, gamma, u)
    y = math.log(4 / delta) / (u * n)
    tau = y / 3 + math.sqrt(y * y / 9 + 2 * y)
    assert (1 + tau) * math.log1p(tau) - tau >= y
    average = (1 + excess) * (1 + tau + SOLVER_SHARE) / (1 - gamma)
    L = log_multisets(P, found.draws) + math.log(P) + math.log(4 / delta)
    V = found.proxy
    assert average < V < 1 / (gamma * u)
    assert average * math.log(average / V) - average + V == pytest.approx(L / (gamma * u**2 * n), rel=1e-9)
    b = 1 / (gamma * u)
    expected = (4 * V / epsilon**2 + 2 * (b + epsilon) / (3 * epsilon)) * math.log(2 * (P - 1) / delta)
    assert found.n_estimate == math.ceil(expected)


def test_the_sum_is_no_larger_than_by_the_gradient_route() -> None:
    for K, m, s, epsilon in ((10, 2, 1, 0.05), (100, 5, 1, 0.01), (1000, 1, 1, 0.1), (200, 10, 3, 0.2)):
        promise = {"n_policies": 100, "epsilon": epsilon, "delta": 0.05}
        joint = theory.pac_comband(Problem(K, m, s), route="joint", **promise)  # type: ignore[call-overload]
        gradient = theory.pac_comband(Problem(K, m, s), **promise)  # type: ignore[call-overload]
        assert joint.n_rounds <= 1.01 * gradient.n_rounds
        assert joint.variance_bound == pytest.approx(min(s, m) * joint_proxy(K, m, s, epsilon))


def joint_proxy(K: int, m: int, s: int, epsilon: float) -> float:
    return theory.joint_rounds(Problem(K, m, s), n_policies=100, epsilon=epsilon, delta=0.05).proxy


def test_growth_in_k_and_epsilon_is_that_of_the_text() -> None:
    """Phase 1 in proportion to (K/m)/ε^(4/3)."""

    def rounds(K: int, epsilon: float) -> int:
        return theory.joint_rounds(Problem(K, 1, 1), n_policies=10**9, epsilon=epsilon, delta=0.05).n_explore

    assert math.log10(rounds(3000, 0.002) / rounds(300, 0.002)) == pytest.approx(1, abs=0.1)
    assert math.log10(rounds(1000, 0.001) / rounds(1000, 0.01)) == pytest.approx(4 / 3, abs=0.1)


def test_a_smallest_total_is_found_and_totals_are_refused() -> None:
    assert smallest_total(lambda n: abs(n - 12345), least=1, most=10**9) == pytest.approx(12345, rel=0.01)
    with pytest.raises(InputError, match="from totals only the routes"):
        theory.pac_comband(Problem(8, 2, 1, "total"), n_policies=5, epsilon=0.1, delta=0.1, route="joint")
    with pytest.raises(InputError, match="proved for PAC-COMBAND"):
        theory.single_label(8, n_policies=5, epsilon=0.1, delta=0.1, route="joint")
