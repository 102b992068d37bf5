"""N₁ by uniform convergence of the potential: how many uniform rounds a design needs."""

from __future__ import annotations

import math

from comband.page.problem import Problem, check_count, check_fraction, check_positive
from comband.theory.design import design_accuracy
from comband.theory.letters import Route, check_route, design_letters, smallest_count


def explore_rounds(
    problem: Problem,
    *,
    n_policies: int,
    delta: float,
    accuracy: float | None = None,
    floor: float = 0.5,
    route: Route = "refined",
    contraction_constant: float = 1.0,
) -> int:
    """N₁: uniform rounds after which, with probability 1−δ, a (μ/3)-minimiser of F̂ is a
    μ-minimiser of F.

    Both routes ask 2·Rad + deviations ≤ 2μ/3. One f(p; z) lies in [0, B], B = ρ(K/m)·log(K/(γm)).

    Refined: Rad ≤ G·√(2·min(m, 2ρ)·(ms/K)·log P / n) with G = (1−γ)K²/(γm²), the slope of one term:
    Maurer's vector contraction with the rewards as weights (or, for m ≤ 2ρ, contraction place by
    place), Massart's lemma over the P vertices, and E Σ_{y∈a} r(y) ≤ ms/K for a uniform list.
    McDiarmid for the supremum and Hoeffding at p*, δ/2 each: B√(log(2/δ)/2n), twice. Together
    n ≥ (3/μ)²(√n·Rad + B√(log(2/δ)/2))², of order (K/m)⁷·log P + (K/m)⁶·log²(K/m)·log(1/δ).

    Printed: Rad ≤ c·(sK²/γm²)·√K·√(2·log(2P)/n)·log²n (Lemma ell-infty-rademacher; c is hidden in
    the text and is `contraction_constant` here) and 5B√(2·log(8/δ)/n), B = (sK/m)·log(K/(γm))
    (Lemma uniform-rademacher and Hoeffding, δ/2 each), solved for n.

    Parameters
    ----------
    contraction_constant:
        c of the printed route.
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.
    accuracy:
        μ, by default that of `design_accuracy`.
    floor:
        γ, the share of uniform lists in the mixture.
    route:
        "refined" (derived in full), or "printed" (as the text has it).

    >>> import comband as cb
    >>> cb.theory.explore_rounds(cb.Problem(10, 2, 1), n_policies=100, delta=0.05) > 10**6
    True
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    if accuracy is None:
        accuracy = design_accuracy(problem, floor=floor, route=route)
    mu = check_positive("accuracy", accuracy)
    log_range = math.log(K / (gamma * m))
    if check_route(route) == "refined":
        G = (1 - gamma) * K**2 / (gamma * m**2)
        rad = G * math.sqrt(2 * min(m, 2 * rho) * (m * s / K) * math.log(P))
        deviation = rho * (K / m) * log_range * math.sqrt(math.log(2 / delta) / 2)
        return max(1, math.ceil((3 / mu * (rad + deviation)) ** 2))
    c = check_positive("contraction_constant", contraction_constant)
    rad = c * s * K**2 / (gamma * m**2) * math.sqrt(2 * K * math.log(2 * P))
    deviation = 5 * s * (K / m) * log_range * math.sqrt(2 * math.log(8 / delta))

    def enough(n: int) -> bool:
        return (2 * rad * math.log(n) ** 2 + deviation) / math.sqrt(n) <= 2 * mu / 3

    # log²(n)/√n falls only beyond n = e⁴: look for the crossing on that side, where it is unique.
    return smallest_count(enough, start=math.ceil(math.exp(4)))
