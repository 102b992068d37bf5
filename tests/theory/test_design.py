"""μ, C and T against computations by hand."""

import math

import numpy as np
import pytest

from comband import theory
from comband.page.problem import Problem

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


@pytest.mark.parametrize("gap", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("start_gap", [0.01, 500.0])
def test_some_step_has_the_gap(gap: float, start_gap: float) -> None:
    """If every gap were larger, the recursion would bring h below 0 by step T; by a third of T it does not."""
    C = 12.0

    def end(T: int) -> float:
        h = start_gap
        for t in range(1, T + 1):
            eta = 2 / (2 + t)
            # Both inequalities hold: a step gains at least η·gap − η²C/2, and h is never above Jaggi's bound.
            h = min(h - eta * gap + eta**2 * C / 2, 2 * (start_gap + C * t) / ((t + 1) * (t + 2)))
            if h < 0:
                return h
        return h

    T = theory.frank_wolfe_gap_steps(curvature=C, start_gap=start_gap, gap=gap)
    assert end(T) < 0 or T == 1
    if T > 20:
        assert end(T // 3) > 0


def test_gap_steps_on_a_potential() -> None:
    """Algorithm 2 on random potentials: its smallest gap within T steps is at most the one that T was computed for."""
    rng = np.random.default_rng(5)
    gamma, u = 0.5, 0.25
    for _ in range(5):
        A = (rng.random((40, 15)) < rng.uniform(0.05, 0.7, 15)).astype(float)
        w = rng.random(40) / 40
        C = (1 - gamma) ** 2 * w.sum() / (gamma * u) ** 2
        gap = 0.1 * w.sum()
        T = theory.frank_wolfe_gap_steps(curvature=C, start_gap=w.sum() * math.log(1 / (gamma * u)), gap=gap)
        p, gaps = np.eye(15)[0], []
        for t in range(1, T + 1):
            proxies = (w / ((1 - gamma) * A @ p + gamma * u)) @ A
            gaps.append((1 - gamma) * (proxies.max() - p @ proxies))
            p = (1 - 2 / (2 + t)) * p + 2 / (2 + t) * np.eye(15)[int(proxies.argmax())]
        assert min(gaps) <= gap
        assert gaps[0] > gap
