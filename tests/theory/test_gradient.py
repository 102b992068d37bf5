"""N₁ by uniform convergence of the gradient: every inequality of the proof by exact computation, then the whole."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from comband import theory
from comband.explore.design import design_exploration
from comband.explore.oracles.enumeration import EnumerationOracle
from comband.explore.solvers.stopping import Stopping
from comband.page.problem import InputError, Problem
from comband.paper.catalogue.finite_world import gradient_norm, random_world
from comband.paper.catalogue.phase_one import label_world, uniform_hits
from comband.paper.catalogue.uniform_convergence import uniform_rounds
from comband.theory.gradient import SOLVER_SHARE, log_multisets

FLOOR = 0.5


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("u", [0.01, 0.05, 0.2, 1.0])
def test_averages_of_drawn_policies(gamma: float, u: float) -> None:
    """1 ≤ E[Q/Q′] ≤ 1 + (1−γ)/(Nγu), Q′ = (1−γ)·binomial(N, c)/N + γu: Jensen, and the sparsification lemma."""
    largest = 0.0
    for N in (1, 3, 10, 50, 300):
        for c in (0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0):
            hits = np.arange(N + 1)
            ratio = ((1 - gamma) * c + gamma * u) / ((1 - gamma) * hits / N + gamma * u)
            mean = float(binom.pmf(hits, N, c) @ ratio)
            assert mean >= 1 - 1e-12
            largest = max(largest, (mean - 1) / ((1 - gamma) / (N * gamma * u)))
    assert 0 < largest <= 1
    if (gamma, u) == (0.1, 0.01):
        assert largest > 0.25  # of the right order


@pytest.mark.parametrize(("N", "gamma", "u"), [(1, 0.5, 0.5), (7, 0.3, 0.25), (40, 0.1, 0.01), (300, 0.9, 0.002)])
def test_the_excess_of_averages_is_an_upper_bound_and_tight(N: int, gamma: float, u: float) -> None:
    """sup_c Q·E[1/Q′] − 1 by exact binomial sums on a fine grid: never above, and within a few per cent."""
    hits, shares = np.arange(N + 1), np.r_[np.geomspace(1e-6, 1, 3000), np.linspace(0.001, 1, 1000)]
    inverse = 1 / ((1 - gamma) * hits / N + gamma * u)
    means = binom.pmf(hits[None], N, shares[:, None]) @ inverse
    exact = float((((1 - gamma) * shares + gamma * u) * means).max()) - 1
    found = theory.sampling_excess(N, gamma, u)
    assert exact <= found <= 1.03 * exact + 1e-6
    assert found < 0.5 * (1 - gamma) / (N * gamma * u)
    assert theory.sampling_excess(10**6, 0.5, 1e-5) < 0.15  # also where sums are long


def test_bits_are_the_worst_of_variables_between_0_and_1() -> None:
    """The lemma for totals: E 1/Q′ for averages of uniform variables is below that for bits of the same mean."""
    rng, N, gamma, u = np.random.default_rng(1), 6, 0.5, 0.1
    draws = rng.random((200_000, N)).mean(axis=1)  # mean ½, far from bits: 0.3 standard errors would not matter
    bits = binom.pmf(np.arange(N + 1), N, 0.5) @ (1 / ((1 - gamma) * np.arange(N + 1) / N + gamma * u))
    assert (1 / ((1 - gamma) * draws + gamma * u)).mean() < bits


def test_number_of_averages() -> None:
    for P in (1, 2, 3, 10, 1000):
        for N in (1, 2, 7, 50, 2000):
            assert log_multisets(P, N) >= math.log(math.comb(P + N - 1, N)) - 1e-9
            assert log_multisets(P, N) <= N * math.log(P) + 1e-9
    assert log_multisets(1000, 1000) < 1.01 * math.log(math.comb(1999, 1000))
    # Nothing is lost to rounding where P is astronomical.
    assert log_multisets(10**30, 50) == pytest.approx(math.log(math.comb(10**30 + 49, 50)), rel=0.1)


def test_upper_tail_of_the_sum_of_weights() -> None:
    """P(M̂ > s(1+τ)) ≤ δ at n = ρ·log(1/δ)/(su·h(τ)): exactly, for one action that always pays (M̂ = binomial/(nu))."""
    for u in (0.02, 0.2):
        for tau in (0.05, 0.3, 1.0):
            n = math.ceil(math.log(1 / 0.05) / (u * ((1 + tau) * math.log1p(tau) - tau)))
            exact = binom.sf(math.floor(n * u * (1 + tau)), n, u)
            assert 0.05 / 50 < exact <= 0.05


@pytest.mark.parametrize("seed", range(4))
def test_sample_gradient_is_at_most_the_weights_and_the_gap(seed: int) -> None:
    """(1−γ)·max V̂ ≤ M̂ + gap, whatever the mixture: KKT on the sample, with the solver's gap in it."""
    rng = np.random.default_rng(seed)
    world = random_world(Problem(12, 3, 2), 60, 20, rng)
    events = uniform_rounds(world, 800, rng)
    mass = float((events.rewards / events.propensities).sum() / events.n_rounds)
    for stopping in (None, Stopping(max_steps=3)):
        solver = "corrective" if stopping is None else "frank-wolfe"
        design = design_exploration(
            events, EnumerationOracle(world.policies), problem=world.problem, solver=solver, stopping=stopping
        )
        # By the definition, not by the solver's own numbers.
        inside = world.policies.contains(events.contexts, events.rows, events.actions)
        Q = (1 - FLOOR) * inside @ design.mixture.weights + FLOOR * 3 / 12
        proxies = (events.rewards / (events.n_rounds * events.propensities * Q)) @ inside
        assert (1 - FLOOR) * proxies.max() <= mass + design.gap + 1e-9
        assert (1 - FLOOR) * proxies.max() == pytest.approx(design.gradient_norm, rel=1e-6)


def test_rounds_by_hand_on_a_finer_grid() -> None:
    """The formula written out once more; N₁ is the smallest of a grid, so a finer one gains little and never loses."""
    problem, P, delta, gamma = Problem(12, 3, 2), 50, 0.05, 0.3
    found = theory.gradient_rounds(problem, n_policies=P, delta=delta, floor=gamma)
    u, s, rho = 0.25, 2, 2
    b = rho / (gamma * u**2)

    def rounds(N: int, tau: float) -> float:
        v = (1 + theory.sampling_excess(N, gamma, u)) * (1 + tau + SOLVER_SHARE)
        if v >= 2:
            return math.inf
        pairs = min(N * math.log(P), N * math.log(1 + (P - 1) / N) + (P - 1) * math.log(1 + N / (P - 1)))
        L = pairs + math.log(P) + math.log(2 / delta)
        # In units of s/(1−γ): Chernoff's exponent must reach bL/n at v against 2.
        exponent = s / (1 - gamma) * (v * math.log(v / 2) - v + 2)
        mass = (rho / u) * math.log(2 / delta) / (s * ((1 + tau) * math.log(1 + tau) - tau))
        return max(b * L / exponent, mass)

    assert found.n_rounds == math.ceil(rounds(found.draws, found.mass))
    finest = min(rounds(N, tau) for N in range(5, 40) for tau in np.geomspace(0.005, 0.9, 1500))
    assert 0.999 * finest <= found.n_rounds <= 1.02 * finest + 1
    # κ of the linear form (1+κ)V̂ + β(2+κ+1/κ), β = bL/2n, is the tangent of a weaker bound: never fewer rounds.
    kappas = np.geomspace(0.01, 1, 400)
    v = (1 + found.excess) * (1 + found.mass + SOLVER_SHARE)
    room = 2 - (1 + kappas) * v
    linear = b * found.log_pairs * (2 + kappas + 1 / kappas) * (1 - gamma) / (2 * s * np.where(room > 0, room, 1e-9))
    assert linear.min() >= found.n_rounds - 1


def test_growth_in_k() -> None:
    """(K/m)³ where the class is large beside K/m, (K/m)² and logarithms where it is small; and never with ε."""

    def slope(P: int, sizes: tuple[int, ...]) -> float:
        rounds = [theory.gradient_rounds(Problem(K, 2, 1), n_policies=P, delta=0.05).n_rounds for K in sizes]
        return float(np.polyfit(np.log(sizes), np.log(rounds), 1)[0])

    assert slope(10**9, (20, 40, 80, 160)) == pytest.approx(3, abs=0.1)
    assert slope(10**9, (200, 2000, 20000)) == pytest.approx(3, abs=0.1)
    assert slope(10, (2000, 20000, 200000)) == pytest.approx(2, abs=0.2)
    plans = [theory.pac_comband(Problem(20, 2, 1), n_policies=9, epsilon=e, delta=0.05) for e in (0.3, 0.01)]
    assert plans[0].n_explore == plans[1].n_explore


def test_fewer_rounds_than_the_other_routes() -> None:
    for K, m, s in [(4, 2, 1), (10, 2, 1), (10, 10, 3), (100, 5, 1), (100, 5, 20), (60, 5, None), (1000, 10, 3)]:
        gradient, refined = (
            theory.pac_comband(Problem(K, m, s), n_policies=100, epsilon=0.05, delta=0.05, route=route)
            for route in ("gradient", "refined")
        )
        assert gradient.n_explore < refined.n_explore
        assert gradient.n_estimate == refined.n_estimate
    # The numbers of the documentation.
    known = {(10, 2): (6.1e3, 9.5e7, 2.5e17), (100, 5): (1.9e5, 1.4e12, 5.6e23)}
    for (K, m), expected in known.items():
        for route, n in zip(("gradient", "refined", "printed"), expected, strict=True):
            plan = theory.pac_comband(Problem(K, m, 1), n_policies=100, epsilon=0.05, delta=0.05, route=route)  # type: ignore[call-overload]
            assert plan.n_explore == pytest.approx(n, rel=0.03)


def test_labels_by_hand() -> None:
    found = theory.gradient_labels(6, n_policies=20, delta=0.025)
    v = (1 + theory.sampling_excess(found.draws, 0.5, 1 / 6)) * (1 + SOLVER_SHARE)
    exponent = 2 * (v * math.log(v / 2) - v + 2)
    assert found.n_rounds == math.ceil(12 * found.log_pairs / exponent)
    assert found.log_pairs == pytest.approx(log_multisets(20, found.draws) + math.log(20 / 0.025))
    with pytest.raises(InputError, match="delta"):
        theory.gradient_labels(6, n_policies=20, delta=0)


def largest_gradients(K: int, runs: int, *, share: float = 1.0) -> list[float]:
    """(1−γ)·max_π V_π over 2s of designs made from `share`·N₁ uniform rounds, exactly."""
    problem = Problem(K, 2, 1)
    found = []
    for run in range(runs):
        rng = np.random.default_rng([run, K])
        world = label_world("rare" if run % 2 else "mixed", problem, n_contexts=300, n_policies=100, rng=rng)
        n = math.ceil(share * theory.gradient_rounds(problem, n_policies=100, delta=0.05).n_rounds)
        oracle = EnumerationOracle(world.policies)
        design = design_exploration(uniform_hits(world, n, rng), oracle, problem=problem, floor=FLOOR)
        assert design.gap <= SOLVER_SHARE
        found.append(gradient_norm(world.incidence(), design.mixture.weights, problem, FLOOR) / 2)
    return found


@pytest.mark.parametrize("K", [10, 40])
def test_designs_of_n1_rounds_are_within_2s(K: int) -> None:
    assert max(largest_gradients(K, 6)) <= 1


def test_far_fewer_rounds_would_not_do() -> None:
    """The simulation can fail: with a thousandth of N₁, about a handful of hits, designs are beyond 2s."""
    assert max(largest_gradients(40, 8, share=1e-3)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("K", [10, 20, 40, 80, 160])
def test_no_design_of_n1_rounds_is_beyond_2s(K: int) -> None:
    """200 runs for each K at N₁ itself; designs that failed with probability δ would all pass in 1e-22 of cases."""
    largest = max(largest_gradients(K, 200))
    print(f"K = {K}: the largest gradient of 200 designs is {largest:.3f} of 2s")
    assert largest <= 1
