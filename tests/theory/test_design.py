"""μ, C and T against computations by hand."""

import pytest

from comband import theory
from comband.problem import Problem

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


def test_unknown_sparsity_is_k() -> None:
    assert theory.design_accuracy(Problem(12, 3), route="printed") == theory.design_accuracy(
        Problem(12, 3, 12), route="printed"
    )
