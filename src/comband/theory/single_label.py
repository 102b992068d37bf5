"""Theorem pac-single-label: the parameters of Algorithm 3, and the earlier result it improves on."""

from __future__ import annotations

import math

from comband.problem import Problem, check_count, check_fraction, check_positive
from comband.theory.design import design_accuracy, frank_wolfe_steps
from comband.theory.estimation import estimate_range, estimate_rounds, estimate_variance
from comband.theory.letters import Route, check_route, design_letters
from comband.theory.pac import PacSchedule


def single_label(
    n_actions: int,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = 0.5,
    route: Route = "refined",
) -> PacSchedule:
    """N₁, T and N₂ of Algorithm 3: one label per context, lists of one (Theorem pac-single-label).

    The hits of N₁ uniform guesses are a labelled sample S of n_S. A (μ/3)-minimiser of the mean of −log
    Q^γ over S is a μ-minimiser of F with probability 1−δ/4 once
    n_S ≥ (3/μ)²(G√(2·log P) + B√(log(8/δ)/2))², G = (1−γ)K/γ, B = log(K/γ) (contraction, Massart,
    McDiarmid, Hoeffding; the text has G = K/γ). n_S is binomial(N₁, 1/K), and Chernoff's
    P(n_S ≤ a − √(2a·log(4/δ))) ≤ δ/4 at a = N₁/K gives N₁ = K(√(L/2) + √(L/2 + n_S))², L =
    log(4/δ). Every context must have exactly one label. N₁ is of order K⁷, T of order K⁴.
    The printed route takes μ = γ²/(2K²), G = K/γ, C = 4K²/γ² and 2·Rad + 5B√(2·log(32/δ)/n_S).
    """
    problem = Problem(n_actions, 1, 1)
    gamma, K, _, _, _ = design_letters(problem, floor)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    refined = check_route(route) == "refined"
    mu = design_accuracy(problem, floor=floor, route=route)
    B = math.log(K / gamma)
    if refined:
        C = (1 - gamma) ** 2 * K**2 / gamma**2
        rad = (1 - gamma) * K / gamma * math.sqrt(2 * math.log(P))
        labelled = (3 / mu * (rad + B * math.sqrt(math.log(8 / delta) / 2))) ** 2
    else:
        C = 4 * K**2 / gamma**2
        rad = K / gamma * math.sqrt(2 * math.log(2 * P))
        labelled = (3 / (2 * mu) * (2 * rad + 5 * B * math.sqrt(2 * math.log(32 / delta)))) ** 2
    n_labelled = max(1, math.ceil(labelled))
    L = math.log(4 / delta)
    n_explore = math.ceil(K * (math.sqrt(L / 2) + math.sqrt(L / 2 + n_labelled)) ** 2)
    return PacSchedule(
        problem=problem,
        n_policies=P,
        epsilon=check_positive("epsilon", epsilon),
        delta=delta,
        floor=gamma,
        route=route,
        accuracy=mu,
        curvature=C,
        variance_bound=estimate_variance(problem, floor=floor, route=route),
        range_bound=estimate_range(problem, floor=floor),
        n_explore=n_explore,
        n_steps=frank_wolfe_steps(curvature=C, start_gap=max(B, 1e-12), accuracy=mu / 3),
        n_estimate=estimate_rounds(
            problem,
            n_policies=P,
            epsilon=epsilon,
            delta=delta / 2,
            floor=floor,
            route=route,
        ),
        n_labelled=n_labelled,
        reasons={
            "accuracy": "μ = γ²/(2(1−γ)²K²)" if refined else "μ = γ²/(2K²)",
            "curvature": "C = (1−γ)²K²/γ²" if refined else "C = 4K²/γ²",
            "variance_bound": "2/(1−γ)",
            "range_bound": "K/γ",
            "n_explore": "K times n_labelled, and Chernoff's margin",
            "n_steps": "Jaggi's recursion from t = 1, to μ/3",
            "n_labelled": "contraction, Massart, McDiarmid, Hoeffding"
            if refined
            else "Lemma uniform-rademacher, Hoeffding",
            "n_estimate": "Bernstein on paired differences" if refined else "Bernstein on every value",
        },
    )


def earlier_single_label(n_actions: int, *, n_policies: int, epsilon: float, delta: float) -> float:
    """The earlier result for one label, (K⁹ + 1/ε²)·log(P/δ) (Erez et al. 2024), in ORDER only.

    Its constants are not stated anywhere; 1 is used for both terms, so compare growth, not values.
    """
    K = check_count("n_actions", n_actions)
    eps = check_positive("epsilon", epsilon)
    P = check_count("n_policies", n_policies)
    return (float(K) ** 9 + 1 / eps**2) * math.log(P / check_fraction("delta", delta))
