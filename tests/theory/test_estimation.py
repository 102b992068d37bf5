"""N₂ and the ε it promises against computations by hand."""

import math

import pytest

from comband import theory
from comband.page.problem import Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


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
