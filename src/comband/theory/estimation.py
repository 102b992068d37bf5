"""N₂ by Bernstein's inequality: how many rounds the final choice needs, and what a number of them promises."""

from __future__ import annotations

import math

from comband.page.problem import Problem, check_count, check_fraction, check_positive, check_problem
from comband.policies.reading import reading_of
from comband.theory.letters import Route, all_letters, check_route, design_letters, sparsity_of
from comband.theory.totals import total_range, total_variance


def estimate_range(problem: Problem, *, floor: float = 0.5) -> float:
    """The largest value of R(π) = Σ_{y∈π(x)∩a} r(y)/Q^γ(x, y): ρK/(γm).

    Q^γ ≥ γm/K and a shown list collects at most ρ = min(s, m). The text has K/(γm), which is
    right only when a list collects at most 1.

    From totals: ρK/(γ(1−f)), of differences (`comband.theory.totals`).

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.estimate_range(problem)  # ρK/(γm)
    20.0
    """
    if reading_of(check_problem(problem)).TOTAL:
        return total_range(problem, floor=floor)
    gamma, K, m, _, rho = all_letters(problem, floor)
    return rho * K / (gamma * m)


def estimate_variance(
    problem: Problem, *, floor: float = 0.5, route: Route = "refined", proxy: float | None = None
) -> float:
    """A bound on E R(π)² ≥ Var R(π) from a bound on max_π V(π), V(π) = E Σ_{y∈π(x)} r(y)/Q^γ(x, y).

    `proxy` bounds V; by default the certificate's 2s/(1−γ) (4s at γ = ½), which ‖∇F‖∞ ≤ 2s gives.
    Printed: Var ≤ m·V, so 4sm. Refined: Var ≤ ρ·V, so 4s·min(s, m), because
    (Σ_{y∈π∩a} r/Q)² ≤ (Σ_{y∈π∩a} r)·(Σ_{y∈π∩a} r/Q²) and the first factor is at most ρ.

    From totals: `theory.total_variance`, whatever the route.

    Parameters
    ----------
    route:
        "refined" or "printed".
    proxy:
        A bound on max_π V(π), if a smaller one is known.
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.estimate_variance(problem), cb.theory.estimate_variance(problem, route="printed")
    (4.0, 20.0)
    """
    if reading_of(check_problem(problem)).TOTAL:
        check_route(route)
        return total_variance(problem, floor=design_letters(problem, floor)[0], proxy=proxy)
    gamma, _, m, s, rho = design_letters(problem, floor)
    V = 2 * s / (1 - gamma) if proxy is None else check_positive("proxy", proxy)
    return (m if check_route(route) == "printed" else rho) * V


def estimate_rounds(
    problem: Problem,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = 0.5,
    route: Route = "refined",
    second_moment: float | None = None,
) -> int:
    """N₂: rounds from the design after which the empirical best is ε-optimal with probability 1−δ.

    Bernstein's inequality with v = `second_moment`, a bound on every E R(π)² (by default the one of
    `estimate_variance`), and b = ρK/(γm), the range:

    Printed: every value within ε/2, P one-sided events (π* from below, the others from above):
    N₂ = (8v/ε² + 4b/(3ε))·log(P/δ).
    Refined: only the differences D = R(π) − R(π*) of the at most P−1 policies with a gap above ε
    need to average below 0. E D² ≤ 2v, because neither half is negative, and D − E D ≤ b + ε at
    gap ε (larger gaps are easier): N₂ = (4v/ε² + 2(b+ε)/(3ε))·log((P−1)/δ).

    Parameters
    ----------
    second_moment:
        v, if a smaller bound is known.
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.
    route:
        "refined" (derived in full), or "printed" (as the text has it).

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.estimate_rounds(problem, n_policies=100, epsilon=0.05, delta=0.05)
    50611
    >>> cb.theory.estimate_rounds(problem, n_policies=100, epsilon=0.05, delta=0.05, route="printed")
    490512
    """
    P = check_count("n_policies", n_policies)
    eps = check_positive("epsilon", epsilon)
    delta = check_fraction("delta", delta)
    b = estimate_range(problem, floor=floor)
    v = (
        estimate_variance(problem, floor=floor, route=route)
        if second_moment is None
        else check_positive("second_moment", second_moment)
    )
    if check_route(route) == "printed":
        return math.ceil((8 * v / eps**2 + 4 * b / (3 * eps)) * math.log(P / delta))
    if P == 1:
        return 1
    return math.ceil((4 * v / eps**2 + 2 * (b + eps) / (3 * eps)) * math.log((P - 1) / delta))


def estimate_epsilon(
    problem: Problem,
    *,
    n_estimate: int,
    n_policies: int,
    delta: float,
    floor: float = 0.5,
    second_moment: float | None = None,
) -> float:
    """The ε of the refined `estimate_rounds` turned round: what N₂ rounds promise with probability 1−δ.

    The positive root of N₂ε² = (4v + ⅔bε + ⅔ε²)·log((P−1)/δ); ρ, the trivial answer, if it is smaller or there is none.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_estimate:
        N₂.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.
    second_moment:
        v, if a smaller bound is known than that of `estimate_variance`.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> n = cb.theory.estimate_rounds(problem, n_policies=100, epsilon=0.05, delta=0.05)
    >>> round(cb.theory.estimate_epsilon(problem, n_estimate=n, n_policies=100, delta=0.05), 4)
    0.05
    """
    n = check_count("n_estimate", n_estimate)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    if P == 1:
        return 0.0
    v = (
        estimate_variance(problem, floor=floor)
        if second_moment is None
        else check_positive("second_moment", second_moment)
    )
    L = math.log((P - 1) / delta)
    b = estimate_range(problem, floor=floor)
    square = n - 2 * L / 3
    if square <= 0:
        return problem.max_reward
    half = b * L / 3
    return min(problem.max_reward, (half + math.sqrt(half**2 + 4 * v * L * square)) / square)


def uniform_exploration(problem: Problem, *, n_policies: int, epsilon: float, delta: float) -> int:
    """Rounds that uniform lists alone need: the naive Km/ε² with its constants.

    Q = m/K everywhere, so a difference D = R(π) − R(π*) has E D² ≤ ρ·(K/m)·E Σ r over what one of the two lists and the
    other does not, which is at most ρ·(K/m)·min(s, 2ρ) (2mK for dense rewards: the printed Km/ε²), and R ≤ ρK/m; then
    Bernstein on paired differences as in `estimate_rounds`. From totals the variance is that of
    `theory.total_variance` at γ = 1.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> promise = {"n_policies": 100, "epsilon": 0.05, "delta": 0.05}
    >>> few, many = (cb.theory.uniform_exploration(cb.Problem(K, 5, 1), **promise) for K in (50, 500))
    >>> 9 < many / few < 11  # ten times the items, ten times the rounds
    True
    """
    if reading_of(check_problem(problem)).TOTAL and problem.list_size > 1:
        second_moment = total_variance(problem, floor=1.0)
    else:
        rho = problem.max_reward  # `estimate_rounds` takes half of what bounds E D²
        second_moment = rho * min(sparsity_of(problem), 2 * rho) / 2 * problem.n_actions / problem.list_size
    return estimate_rounds(
        problem, n_policies=n_policies, epsilon=epsilon, delta=delta, floor=1.0, second_moment=second_moment
    )
