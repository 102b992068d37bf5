"""Theorem pac-single-label: the parameters of Algorithm 3, and the earlier result it improves on."""

from __future__ import annotations

import math

from comband.page.problem import InputError, Problem, check_count, check_fraction, check_positive
from comband.theory.design import design_accuracy, frank_wolfe_gap_steps, frank_wolfe_steps
from comband.theory.gradient import SOLVER_SHARE, gradient_labels
from comband.theory.letters import PacRoute, check_pac_route, design_letters, estimation_route
from comband.theory.pac import PacSchedule, pac_comband


def single_label(
    n_actions: int,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = 0.5,
    route: PacRoute = "gradient",
) -> PacSchedule:
    """N₁, T and N₂ of Algorithm 3: one label per context, lists of one (Theorem pac-single-label).

    The hits of N₁ uniform guesses are a labelled sample S of n_S. A (μ/3)-minimiser of the mean of −log
    Q^γ over S is a μ-minimiser of F with probability 1−δ/4 once
    n_S ≥ (3/μ)²(G√(2·log P) + B√(log(8/δ)/2))², G = (1−γ)K/γ, B = log(K/γ) (contraction, Massart,
    McDiarmid, Hoeffding; the text has G = K/γ). n_S is binomial(N₁, 1/K), and Chernoff's
    P(n_S ≤ a − √(2a·log(4/δ))) ≤ δ/4 at a = N₁/K gives N₁ = K(√(L/2) + √(L/2 + n_S))², L =
    log(4/δ). Every context must have exactly one label. N₁ is of order K⁷, T of order K⁴.
    The gradient route bounds the variance proxies instead (`gradient_labels`, also with probability 1−δ/4): n_S is of
    order K²·log P, so N₁ of order K³ and T of order K².
    The printed route takes μ = γ²/(2K²), G = K/γ, C = 4K²/γ² and 2·Rad + 5B√(2·log(32/δ)/n_S).

    Parameters
    ----------
    route:
        "gradient", "refined", "printed" or "held-out".
    n_actions:
        K, how many labels there are.
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> schedule = cb.theory.single_label(10, n_policies=100, epsilon=0.1, delta=0.05)
    >>> schedule.n_labelled < schedule.n_explore, schedule.n_estimate > 0
    (True, True)
    """
    problem = Problem(n_actions, 1, 1)
    if route == "held-out":  # the labels that uniform guesses meet are certified as those of any lists of one
        return pac_comband(problem, n_policies=n_policies, epsilon=epsilon, delta=delta, floor=floor, route=route)
    gamma, K, _, _, _ = design_letters(problem, floor)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    if route == "joint":
        raise InputError(
            'route="joint" is proved for PAC-COMBAND, got it for one label; give "gradient" or "held-out".'
        )
    proved = estimation_route(check_pac_route(route))
    B = max(math.log(K / gamma), 1e-12)  # of F̂, so no start is further from the minimum
    C = 4 * K**2 / gamma**2 if route == "printed" else (1 - gamma) ** 2 * K**2 / gamma**2
    if route == "gradient":
        accuracy = SOLVER_SHARE
        n_labelled = gradient_labels(n_actions, n_policies=P, delta=delta / 4, floor=floor).n_rounds
        n_steps = frank_wolfe_gap_steps(curvature=C, start_gap=B, gap=accuracy)
    else:
        accuracy = design_accuracy(problem, floor=floor, route=proved)
        if route == "refined":
            rad = (1 - gamma) * K / gamma * math.sqrt(2 * math.log(P))
            labelled = (3 / accuracy * (rad + B * math.sqrt(math.log(8 / delta) / 2))) ** 2
        else:
            rad = K / gamma * math.sqrt(2 * math.log(2 * P))
            labelled = (3 / (2 * accuracy) * (2 * rad + 5 * B * math.sqrt(2 * math.log(32 / delta)))) ** 2
        n_labelled = max(1, math.ceil(labelled))
        n_steps = frank_wolfe_steps(curvature=C, start_gap=B, accuracy=accuracy / 3)
    L = math.log(4 / delta)
    n_explore = math.ceil(K * (math.sqrt(L / 2) + math.sqrt(L / 2 + n_labelled)) ** 2)
    return PacSchedule.with_estimation(
        problem,
        n_policies=P,
        epsilon=epsilon,
        delta=delta,
        floor=gamma,
        route=route,
        accuracy=accuracy,
        curvature=C,
        n_explore=n_explore,
        n_steps=n_steps,
        n_labelled=n_labelled,
        reasons={
            "accuracy": {
                "gradient": "the gap on the sample that the proof leaves to the solver",
                "refined": "μ = γ²/(2(1−γ)²K²)",
                "printed": "μ = γ²/(2K²)",
            }[route],
            "curvature": "C = 4K²/γ²" if route == "printed" else "C = (1−γ)²K²/γ²",
            "variance_bound": "2/(1−γ)",
            "range_bound": "K/γ",
            "n_explore": "K times n_labelled, and Chernoff's margin",
            "n_steps": f"Jaggi's recursion from t = 1, {'for the gap' if route == 'gradient' else 'to μ/3'}",
            "n_labelled": {
                "gradient": "uniform convergence of the gradient",
                "refined": "contraction, Massart, McDiarmid, Hoeffding",
                "printed": "Lemma uniform-rademacher, Hoeffding",
            }[route],
        },
    )


def earlier_single_label(n_actions: int, *, n_policies: int, epsilon: float, delta: float) -> float:
    """The earlier result for one label, (K⁹ + 1/ε²)·log(P/δ) (Erez et al. 2024), in ORDER only.

    Its constants are not stated anywhere; 1 is used for both terms, so compare growth, not values.

    Parameters
    ----------
    n_actions:
        K, how many labels there are.
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.

    >>> import comband as cb
    >>> cb.theory.earlier_single_label(10, n_policies=100, epsilon=0.1, delta=0.05) > 1e9
    True
    """
    K = check_count("n_actions", n_actions)
    eps = check_positive("epsilon", epsilon)
    P = check_count("n_policies", n_policies)
    return (float(K) ** 9 + 1 / eps**2) * math.log(P / check_fraction("delta", delta))
