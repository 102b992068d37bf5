"""What a design must reach and what it costs: accuracy μ, curvature C, Frank-Wolfe steps T (Lemma log-self-concordance,
Theorem fw-conv).
"""

from __future__ import annotations

import math

from comband.page.problem import InputError, Problem, check_positive
from comband.theory.letters import Route, check_route, design_letters, smallest_count

_MOST_STEPS = 1e100


def design_accuracy(problem: Problem, *, floor: float = 0.5, route: Route = "refined") -> float:
    """μ: how close to the minimum of F a design must come for ‖∇F‖∞ ≤ 2s.

    Printed (Lemma log-self-concordance): μ = sγ²m²/(2K²).
    Refined: μ = s²γ²m²/(2ρ(1−γ)²K²). The proof gives
    ‖∇F(p̂) − ∇F(p*)‖∞² ≤ (1−γ)²·2ρ(K/γm)²·(F(p̂) − F*), and the text drops the factor (1−γ)² and
    bounds the reward of one list by s where ρ = min(s, m) holds.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    floor:
        γ, the share of uniform lists in the mixture.
    route:
        "refined" (derived in full), or "printed" (as the text has it).

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.design_accuracy(problem, route="printed")
    0.00125
    >>> cb.theory.design_accuracy(problem)  # 1/(1−γ)² = 4 times looser
    0.005
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    if check_route(route) == "printed":
        return s * gamma**2 * m**2 / (2 * K**2)
    return s**2 * gamma**2 * m**2 / (2 * rho * (1 - gamma) ** 2 * K**2)


def design_curvature(problem: Problem, *, floor: float = 0.5, route: Route = "refined") -> float:
    """C: Jaggi's curvature constant of the empirical potential F̂ over the simplex of policies.

    Printed: C ≤ diam₁(Δ)²·β = 4·sK³/(γ²m³), with the smoothness β of Theorem fw-conv.
    Refined: C ≤ ρ(1−γ)²K³/(γ²m³). Along a segment from p to a vertex the second derivative is
    (K/m)Σ_y r(y)(1−γ)²d(y)²/Q(y)², where d(y)² ≤ 1, Q ≥ γm/K, and one list has Σ r ≤ ρ.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    floor:
        γ, the share of uniform lists in the mixture.
    route:
        "refined" (derived in full), or "printed" (as the text has it).

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.design_curvature(problem)  # ρ(K/m)³ at γ = ½
    1000.0
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    if check_route(route) == "printed":
        return 4 * s * K**3 / (gamma**2 * m**3)
    return rho * (1 - gamma) ** 2 * K**3 / (gamma**2 * m**3)


def frank_wolfe_steps(*, curvature: float, start_gap: float, accuracy: float) -> int:
    """T: steps of Algorithm 2 as printed (η_t = 2/(2+t), t = 1, …, T) until F̂(p_{T+1}) − F̂* ≤
    accuracy.

    Unrolling Jaggi's recursion h_{t+1} ≤ (1 − η_t)h_t + η_t²C/2 from t = 1 gives
    h_{T+1} ≤ 2(h₁ + CT)/((T+1)(T+2)), where h₁ is the gap at the start. (Jaggi starts at t = 0,
    where η₀ = 1 forgets the start; the printed algorithm starts at t = 1 and does not.)

    Parameters
    ----------
    accuracy:
        How close to F̂* it must come.
    curvature:
        C.
    start_gap:
        h₁.

    >>> import comband as cb
    >>> cb.theory.frank_wolfe_steps(curvature=1000, start_gap=1, accuracy=1)
    1997
    """
    C = check_positive("curvature", curvature)
    h = check_positive("start_gap", start_gap)
    mu = check_positive("accuracy", accuracy)
    _check_feasible("accuracy", mu, C, h)
    # (T+1)(T+2) ≥ 2(h + CT)/μ, a quadratic in T.
    b = 3 - 2 * C / mu
    c = 2 - 2 * h / mu
    root = b * b - 4 * c
    return 1 if root <= 0 else max(1, math.ceil((-b + math.sqrt(root)) / 2 - 1e-9))


def frank_wolfe_gap_steps(*, curvature: float, start_gap: float, gap: float) -> int:
    """T: steps of Algorithm 2 within which some p_t has a Frank-Wolfe gap g_t of at most `gap`.

    h_{t+1} ≤ h_t − η_t·g_t + η_t²C/2. If g_t were larger for all t = a, …, T, then
    gap·Ση_t < h_a + (C/2)·Ση_t², where Ση_t ≥ 2·log((T+3)/(a+2)), Ση_t² ≤ 4/(a+1) − 4/(T+2), and
    h_a ≤ 2(h₁ + C(a−1))/(a(a+1)) as in `frank_wolfe_steps`. With a = ⌈T/2⌉ that is about 4.4·C/T: the gap, which is
    what the gradient needs, costs no more steps than F̂ itself.

    Parameters
    ----------
    gap:
        The gap that is asked for.
    curvature:
        C.
    start_gap:
        h₁.

    >>> import comband as cb
    >>> cb.theory.frank_wolfe_gap_steps(curvature=1000, start_gap=1, gap=1)
    4327
    """
    C = check_positive("curvature", curvature)
    h = check_positive("start_gap", start_gap)
    g = check_positive("gap", gap)
    _check_feasible("gap", g, C, h)

    def enough(T: int) -> bool:
        a = (T + 1) // 2
        left = 2 * (h + C * (a - 1)) / (a * (a + 1)) + 2 * C * (1 / (a + 1) - 1 / (T + 2))
        return left <= g * 2 * math.log((T + 3) / (a + 2))

    return smallest_count(enough)


def _check_feasible(name: str, goal: float, curvature: float, start_gap: float) -> None:
    """Refuse what no number of steps that floats can count would reach: T is about 2C/goal, or the root of 2h/goal."""
    if curvature / goal > _MOST_STEPS or start_gap / goal > _MOST_STEPS:
        raise InputError(f"{name} must be larger: {goal:g} would take more than {_MOST_STEPS:g} steps.")
