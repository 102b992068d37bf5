"""Every number of `comband.theory` against a computation by hand, and its refusals."""

import math
from typing import Any

import numpy as np
import pytest

from comband import theory
from comband.problem import InputError, Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


def test_accuracy_by_hand() -> None:
    # sγ²m²/(2K²) = 2·¼·9/288; refined: s²γ²m²/(2ρ(1−γ)²K²) = 4·9/(4·144)
    assert theory.design_accuracy(SMALL, route="printed") == pytest.approx(0.015625)
    assert theory.design_accuracy(SMALL) == pytest.approx(0.0625)


def test_curvature_by_hand() -> None:
    # 4·sK³/(γ²m³) = 4·2·64/¼; refined: ρ(1−γ)²(K/m)³/γ² = 2·64
    assert theory.design_curvature(SMALL, route="printed") == pytest.approx(2048)
    assert theory.design_curvature(SMALL) == pytest.approx(128)


@pytest.mark.parametrize("accuracy", [1e-3, 0.1, 0.7, 3.0, 1e4])
@pytest.mark.parametrize("start_gap", [0.01, 1.0, 500.0])
def test_steps_are_the_smallest_that_the_unrolled_recursion_allows(accuracy: float, start_gap: float) -> None:
    C = 12.0

    def bound(T: int) -> float:
        h = start_gap
        for t in range(1, T + 1):
            eta = 2 / (2 + t)
            h = (1 - eta) * h + eta**2 * C / 2
        return h

    T = theory.frank_wolfe_steps(curvature=C, start_gap=start_gap, accuracy=accuracy)
    assert bound(T) <= accuracy
    closed = 2 * (start_gap + C * T) / ((T + 1) * (T + 2))
    assert closed <= accuracy * (1 + 1e-9)
    if T > 1:
        assert 2 * (start_gap + C * (T - 1)) / (T * (T + 1)) > accuracy


def test_explore_rounds_by_hand() -> None:
    # G = (1−γ)(K/m)²/γ = 16; min(m, 2ρ) = 3; ms/K = ½; B = 2·4·log 8
    rad = 16 * math.sqrt(2 * 3 * 0.5 * math.log(50))
    deviation = 8 * math.log(8) * math.sqrt(math.log(2 / 0.1) / 2)
    expected = (3 / 0.0625 * (rad + deviation)) ** 2
    assert theory.explore_rounds(SMALL, n_policies=50, delta=0.1) == math.ceil(expected)


def test_printed_explore_rounds_solve_their_inequality() -> None:
    mu = 0.015625
    n = theory.explore_rounds(SMALL, n_policies=50, delta=0.1, route="printed")
    rad = 2 * 144 / (0.5 * 9) * math.sqrt(12) * math.sqrt(2 * math.log(100))
    deviation = 5 * 2 * 4 * math.log(8) * math.sqrt(2 * math.log(80))

    def left(n: float) -> float:
        return (2 * rad * math.log(n) ** 2 + deviation) / math.sqrt(n)

    assert left(n) <= 2 * mu / 3 * (1 + 1e-9)
    assert left(0.999 * n) > 2 * mu / 3
    assert theory.explore_rounds(SMALL, n_policies=50, delta=0.1, route="printed", contraction_constant=2) > (3.9 * n)


def test_explore_rounds_grow_as_the_seventh_power() -> None:
    sizes = [theory.explore_rounds(Problem(K, 1, 1), n_policies=10**6, delta=0.05) for K in (10**4, 10**5)]
    assert math.log10(sizes[1] / sizes[0]) == pytest.approx(7, abs=0.15)


def test_estimate_quantities_by_hand() -> None:
    assert theory.estimate_range(SMALL) == pytest.approx(2 * 12 / (0.5 * 3))  # ρK/(γm) = 16
    assert theory.estimate_variance(SMALL, route="printed") == pytest.approx(4 * 2 * 3)  # 4sm
    assert theory.estimate_variance(SMALL) == pytest.approx(4 * 2 * 2)  # 4sρ
    assert theory.estimate_variance(SMALL, proxy=1.5) == pytest.approx(3.0)
    n = theory.estimate_rounds(SMALL, n_policies=50, epsilon=0.1, delta=0.1, route="printed")
    assert n == math.ceil((8 * 24 / 0.01 + 4 * 16 / 0.3) * math.log(500))
    n = theory.estimate_rounds(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert n == math.ceil((4 * 16 / 0.01 + 2 * 16.1 / 0.3) * math.log(490))
    assert theory.estimate_rounds(SMALL, n_policies=1, epsilon=0.1, delta=0.1) == 1


def test_estimate_epsilon_inverts_estimate_rounds() -> None:
    for epsilon in (0.03, 0.2, 0.7):
        n = theory.estimate_rounds(SMALL, n_policies=50, epsilon=epsilon, delta=0.1)
        back = theory.estimate_epsilon(SMALL, n_estimate=n, n_policies=50, delta=0.1)
        assert back == pytest.approx(epsilon, rel=1e-3)
        assert back <= epsilon
    assert theory.estimate_epsilon(SMALL, n_estimate=3, n_policies=50, delta=0.1) == 2
    assert theory.estimate_epsilon(SMALL, n_estimate=3, n_policies=1, delta=0.1) == 0


def test_pac_comband_gathers_the_parts() -> None:
    plan = theory.pac_comband(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert plan.n_explore == theory.explore_rounds(SMALL, n_policies=50, delta=0.05)
    assert plan.n_estimate == theory.estimate_rounds(SMALL, n_policies=50, epsilon=0.1, delta=0.05)
    # h₁ ≤ 8·log 8, C = 128, μ/3 = 1/48
    assert 2 * (8 * math.log(8) + 128 * plan.n_steps) / ((plan.n_steps + 1) * (plan.n_steps + 2)) <= 1 / 48
    assert plan.n_rounds == plan.n_explore + plan.n_estimate
    assert plan.oracle_calls == plan.n_steps + 1
    text = str(plan)
    assert "refined" in text
    assert "Bernstein" in text
    assert "ASSUMED" in str(theory.pac_comband(SMALL, n_policies=50, epsilon=0.1, delta=0.1, route="printed"))


def test_refined_is_never_worse_than_printed() -> None:
    for K, m, s in [(10, 1, 1), (100, 5, 1), (100, 5, 20), (60, 5, 5), (1000, 10, 3)]:
        problem = Problem(K, m, s)
        refined, printed = (
            theory.pac_comband(problem, n_policies=200, epsilon=0.05, delta=0.05, route=route)
            for route in ("refined", "printed")
        )
        assert refined.n_explore < printed.n_explore
        assert refined.n_steps < printed.n_steps
        assert refined.n_estimate < printed.n_estimate


def test_single_label_by_hand() -> None:
    plan = theory.single_label(6, n_policies=20, epsilon=0.2, delta=0.1)
    mu = 1 / 72
    n = (3 / mu * (6 * math.sqrt(2 * math.log(20)) + math.log(12) * math.sqrt(math.log(80) / 2))) ** 2
    assert plan.accuracy == pytest.approx(mu)
    assert plan.n_labelled == math.ceil(n)
    L = math.log(40)
    assert plan.n_explore == math.ceil(6 * (math.sqrt(L / 2) + math.sqrt(L / 2 + math.ceil(n))) ** 2)
    assert "n_labelled" in str(plan)
    # Chernoff's margin is solved exactly: a − √(2aL) = |S| at a = N₁/K.
    a = plan.n_explore / 6
    assert a - math.sqrt(2 * a * L) == pytest.approx(n, rel=1e-6)


def test_single_label_growth_in_k() -> None:
    plans = [theory.single_label(K, n_policies=10**6, epsilon=0.2, delta=0.1) for K in (10**4, 10**5)]
    assert math.log10(plans[1].n_explore / plans[0].n_explore) == pytest.approx(7, abs=0.1)
    assert math.log10(plans[1].n_steps / plans[0].n_steps) == pytest.approx(4, abs=0.01)
    printed = theory.single_label(50, n_policies=20, epsilon=0.2, delta=0.1, route="printed")
    refined = theory.single_label(50, n_policies=20, epsilon=0.2, delta=0.1)
    assert printed.n_explore > refined.n_explore


def test_references_by_hand() -> None:
    # v = ρ²K/m = 16, b = ρK/m = 8
    n = theory.uniform_exploration(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert n == math.ceil((4 * 16 / 0.01 + 2 * 8.1 / 0.3) * math.log(490))
    earlier = theory.earlier_single_label(3, n_policies=20, epsilon=0.1, delta=0.1)
    assert earlier == pytest.approx((3**9 + 100) * math.log(200))
    assert theory.lower_bound(Problem(24, 2, 4), epsilon=0.01) == pytest.approx(8e4 / 3072)


def test_regret_bounds_by_hand() -> None:
    """SMALL has m = 3 and s = ρ = 2; the factors of √(log(P)·T) are 2√(κsρ)."""
    root = math.sqrt(1000 * math.log(10))
    safe = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000)
    assert safe.barrier == 1 / 32
    assert safe.step_size == pytest.approx(math.sqrt(math.log(10) / (8 / 15 * 4 * 1000)))
    assert safe.regret == pytest.approx(2 + 32 * 10 * math.log(1000) + 2 * math.sqrt(8 / 15 * 4) * root)
    sharp = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier="sharp")
    assert sharp.barrier == 1 / 4
    assert sharp.step_size == pytest.approx(math.sqrt(math.log(10) / (4 * 1000)))
    assert sharp.regret == pytest.approx(2 + 4 * 10 * math.log(1000) + 2 * 2 * root)
    printed = theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier="printed")
    assert printed.barrier == 1 / 16
    assert printed.step_size == pytest.approx(math.sqrt(math.log(10) / (6 * 1000)))
    kappa = 1 / (2 * (1 - 2 / 16))
    assert printed.regret == pytest.approx(
        2 + 16 * 10 * math.log(1000) + math.sqrt(6) * root + kappa * 4 / math.sqrt(6) * root
    )
    hopeless = theory.exp4_comb_sparse(Problem(20, 16, 16), n_policies=10, horizon=1000, barrier="printed")
    assert hopeless.regret == math.inf
    classic = theory.exp4(SMALL, n_policies=10, horizon=1000)
    cost = 4 * SMALL.n_actions / 3 + (math.e - 2) * 4
    assert classic.step_size == pytest.approx(math.sqrt(math.log(10) / (1000 * cost)))
    assert classic.floor == pytest.approx(classic.step_size * 2 * SMALL.n_actions / 3)
    assert classic.regret == pytest.approx(2 * math.sqrt(cost) * root)
    assert theory.exp4(SMALL, n_policies=10, horizon=1000, floor=0).regret == math.inf
    short = theory.exp4(SMALL, n_policies=10, horizon=1)
    assert short.floor == 0.5
    assert short.step_size == pytest.approx(0.5 * 3 / (2 * SMALL.n_actions))
    assert "barrier" in str(safe)
    assert "floor" not in str(safe)
    assert "barrier" not in str(classic)


@pytest.mark.parametrize("barrier", ["safe", "sharp", 0.4])
def test_the_step_size_minimises_the_bound(barrier: Any) -> None:
    def bound(change: float) -> float:
        eta = change * theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier=barrier).step_size
        return theory.exp4_comb_sparse(SMALL, n_policies=10, horizon=1000, barrier=barrier, step_size=eta).regret

    assert bound(1) < min(bound(0.99), bound(1.01))


def test_price_of_the_regulariser() -> None:
    """R(p*_γ) − R(p₁) ≤ P·log(T)/ν + log(P)/η at γ = 1/(PT): Φ(p₁) is subtracted, so log T and not log(PT)."""
    for P, T in ((1, 1), (2, 1), (2, 50), (30, 7), (1000, 10**6)):
        comparator = np.full(P, 1 / (P * T))
        comparator[0] += 1 - 1 / T
        barrier = -np.log(comparator).sum() - P * math.log(P)
        entropy = (comparator * np.log(comparator)).sum() + math.log(P)
        assert barrier <= P * math.log(T) + 1e-9
        assert entropy <= math.log(P) + 1e-12


def test_variance_of_the_estimates_of_a_round() -> None:
    """Σ_i p_i·E ĉ(i)² ≤ sρ by enumeration of the drawn policy; the text's sm is looser."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        K, m, P = 12, int(rng.integers(1, 6)), int(rng.integers(1, 9))
        member = np.zeros((P, K))
        for row in member:
            row[rng.choice(K, m, replace=False)] = 1
        r = rng.random(K) * (rng.random(K) < 0.5)
        s = max(float(r.sum()), 1e-9)
        p = rng.dirichlet(np.ones(P))
        Q = p @ member
        weighted = np.divide(r, Q, out=np.zeros(K), where=Q > 0)
        second = sum(p[a] * (member @ (weighted * member[a])) ** 2 for a in range(P))
        assert p @ second <= s * min(s, m) + 1e-9


def test_unknown_sparsity_is_k() -> None:
    assert theory.design_accuracy(Problem(12, 3), route="printed") == theory.design_accuracy(
        Problem(12, 3, 12), route="printed"
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0}, "delta"),
        ({"n_policies": 0}, "n_policies"),
        ({"n_policies": 2.5}, "n_policies"),
        ({"floor": 0}, "floor"),
        ({"floor": 1.0}, "floor"),
        ({"route": "guess"}, "route"),
    ],
)
def test_absurd_inputs_are_refused(change: dict[str, object], word: str) -> None:
    arguments: dict[str, object] = {"n_policies": 5, "epsilon": 0.1, "delta": 0.1, **change}
    with pytest.raises(InputError, match=word):
        theory.pac_comband(SMALL, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=word):
        theory.single_label(5, **arguments)  # type: ignore[arg-type]


def test_other_absurd_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="sparsity"):
        Problem(5, 2, 6)
    with pytest.raises(InputError, match="n_actions/12"):
        theory.lower_bound(Problem(12, 2, 1), epsilon=0.01)
    with pytest.raises(InputError, match="epsilon"):
        theory.lower_bound(Problem(24, 2, 1), epsilon=0.5)
    with pytest.raises(InputError, match="barrier"):
        theory.exp4_comb_sparse(SMALL, n_policies=5, horizon=10, barrier=0.5)
    with pytest.raises(InputError, match="barrier"):
        theory.exp4_comb_sparse(SMALL, n_policies=5, horizon=10, barrier="huge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="floor"):
        theory.exp4(SMALL, n_policies=5, horizon=10, floor=1.5)
    with pytest.raises(InputError, match="horizon"):
        theory.exp4(SMALL, n_policies=5, horizon=0)


@pytest.mark.parametrize(("K", "m", "s"), [(5, 2, 1.0), (5, 2, 2.0), (6, 3, 0.5), (4, 1, 1.0), (8, 4, 1.0)])
def test_rademacher_bound_of_phase_1(K: int, m: int, s: float) -> None:
    """The complexity behind N₁ against its definition: two policies, so that the supremum is over a segment."""
    rng = np.random.default_rng(K + m)
    gamma, n, rho = 0.5, 200, min(s, m)
    G = (1 - gamma) * K**2 / (gamma * m**2)
    incidence = np.zeros((n, K, 2))
    r = rng.random((n, K)) * (rng.random((n, K)) < 0.5)
    r *= np.minimum(1, s / np.maximum(r.sum(1, keepdims=True), 1e-9))
    shown = np.zeros((n, K))
    for i in range(n):
        shown[i, rng.choice(K, m, replace=False)] = 1
        for j in range(2):
            incidence[i, rng.choice(K, m, replace=False), j] = 1
    grid = np.linspace(0, 1, 201)
    p = np.stack([grid, 1 - grid])
    f = -(K / m) * np.einsum("iy,iyg->ig", r * shown, np.log(gamma * m / K + (1 - gamma) * incidence @ p))
    assert f.min() >= 0
    assert f.max() <= rho * (K / m) * math.log(K / (gamma * m)) + 1e-12
    signs = rng.choice([-1.0, 1.0], size=(4000, n))
    measured = (signs @ f).max(axis=1).mean() / n
    bound = G * math.sqrt(2 * min(m, 2 * rho) * (r * shown).sum() * math.log(2)) / n
    assert measured <= bound
    assert measured >= 0.01 * bound  # of the right order, not a bound on something else
