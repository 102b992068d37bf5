"""N₁ against computations by hand, and the complexity behind it against its definition."""

import math

import numpy as np
import pytest

from comband import theory
from comband.page.problem import Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


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
