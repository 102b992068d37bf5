"""The paper's quantities as functions: sample sizes, steps and bounds, with every constant stated.

The paper hides constants behind Θ and Õ. Here each is written out and derived, in two routes:

* ``"refined"`` (default): everything is proved with explicit constants (docs/theory.md has the
  derivations). Three steps are sharper than the printed ones: rewards of one list are paired by
  Cauchy-Schwarz with the rewards as weights, so ρ = min(s, m) stands where the text has m; the
  vector contraction of Maurer (2016) replaces the L∞ contraction, so that N₁ grows as (K/m)⁷
  instead of K⁹/m⁸ and without logarithms of n; policies are compared in pairs.
* ``"printed"``: the text's own chain of lemmas. Its L∞ contraction (Foster & Rakhlin 2019) has a
  constant that no text states; it is the argument `contraction_constant`, 1 unless told, and a
  schedule that depends on it is labelled as such. The range of the estimates is the correct
  min(s, m)·K/(γm) in both routes, not the printed K/(γm) (docs/errata.md).

Letters: K = n_actions, m = list_size, s = sparsity (K when unknown: rewards lie in [0, 1]),
ρ = min(s, m), γ = floor, P = n_policies, log is natural.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from comband.problem import (
    InputError,
    Problem,
    check_count,
    check_floor,
    check_fraction,
    check_number,
    check_positive,
)

Route = Literal["refined", "printed"]
Barrier = Literal["safe", "sharp", "printed"]

__all__ = [
    "Barrier",
    "PacSchedule",
    "RegretSchedule",
    "design_accuracy",
    "design_curvature",
    "earlier_single_label",
    "estimate_epsilon",
    "estimate_range",
    "estimate_rounds",
    "estimate_variance",
    "exp4",
    "exp4_comb_sparse",
    "explore_rounds",
    "frank_wolfe_steps",
    "lower_bound",
    "pac_comband",
    "single_label",
    "uniform_exploration",
]


@dataclass(frozen=True, slots=True)
class PacSchedule:
    """Parameters of a two-phase learner with the constants they were computed from.

    `reasons` holds, for each number, the formula and where it comes from; `print` shows them all.
    """

    problem: Problem
    n_policies: int
    epsilon: float
    delta: float
    floor: float
    route: Route
    accuracy: float
    curvature: float
    variance_bound: float
    range_bound: float
    n_explore: int
    n_steps: int
    n_estimate: int
    n_labelled: int | None = None
    reasons: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def n_rounds(self) -> int:
        """N₁ + N₂."""
        return self.n_explore + self.n_estimate

    @property
    def oracle_calls(self) -> int:
        """T Frank-Wolfe steps and the final choice."""
        return self.n_steps + 1

    def __str__(self) -> str:
        head = (
            f"K={self.problem.n_actions}, m={self.problem.list_size}, "
            f"s={_sparsity(self.problem):g}, {self.n_policies} policies, ε={self.epsilon:g}, "
            f"δ={self.delta:g}, γ={self.floor:g} ({self.route} constants)"
        )
        names = ["accuracy", "curvature", "variance_bound", "range_bound", "n_explore", "n_steps"]
        names += ["n_labelled"] if self.n_labelled is not None else []
        names += ["n_estimate"]
        lines = [f"  {name:<15}{getattr(self, name):<12.6g}{self.reasons.get(name, '')}" for name in names]
        return "\n".join([head, *lines])


@dataclass(frozen=True, slots=True)
class RegretSchedule:
    """Step sizes of a regret minimiser and the bound they give; `print` says where each is from.

    A `barrier` of infinity and a `floor` of 0 mean that the algorithm has none.
    """

    step_size: float
    regret: float
    barrier: float = math.inf
    floor: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        names = [name for name in ("step_size", "barrier", "floor", "regret") if name in self.reasons]
        return "\n".join(f"{name:<10}{getattr(self, name):<12.6g}{self.reasons[name]}" for name in names)


def design_accuracy(problem: Problem, *, floor: float = 0.5, route: Route = "refined") -> float:
    """μ: how close to the minimum of F a design must come for ‖∇F‖∞ ≤ 2s.

    Printed (Lemma log-self-concordance): μ = sγ²m²/(2K²).
    Refined: μ = s²γ²m²/(2ρ(1−γ)²K²). The proof gives
    ‖∇F(p̂) − ∇F(p*)‖∞² ≤ (1−γ)²·2ρ(K/γm)²·(F(p̂) − F*), and the text drops the factor (1−γ)² and
    bounds the reward of one list by s where ρ = min(s, m) holds.
    """
    gamma, K, m, s, rho = _design_letters(problem, floor)
    if _route(route) == "printed":
        return s * gamma**2 * m**2 / (2 * K**2)
    return s**2 * gamma**2 * m**2 / (2 * rho * (1 - gamma) ** 2 * K**2)


def design_curvature(problem: Problem, *, floor: float = 0.5, route: Route = "refined") -> float:
    """C: Jaggi's curvature constant of the empirical potential F̂ over the simplex of policies.

    Printed: C ≤ diam₁(Δ)²·β = 4·sK³/(γ²m³), with the smoothness β of Theorem fw-conv.
    Refined: C ≤ ρ(1−γ)²K³/(γ²m³). Along a segment from p to a vertex the second derivative is
    (K/m)Σ_y r(y)(1−γ)²d(y)²/Q(y)², where d(y)² ≤ 1, Q ≥ γm/K, and one list has Σ r ≤ ρ.
    """
    gamma, K, m, s, rho = _design_letters(problem, floor)
    if _route(route) == "printed":
        return 4 * s * K**3 / (gamma**2 * m**3)
    return rho * (1 - gamma) ** 2 * K**3 / (gamma**2 * m**3)


def frank_wolfe_steps(*, curvature: float, start_gap: float, accuracy: float) -> int:
    """T: steps of Algorithm 2 as printed (η_t = 2/(2+t), t = 1, …, T) until F̂(p_{T+1}) − F̂* ≤
    accuracy.

    Unrolling Jaggi's recursion h_{t+1} ≤ (1 − η_t)h_t + η_t²C/2 from t = 1 gives
    h_{T+1} ≤ 2(h₁ + CT)/((T+1)(T+2)), where h₁ is the gap at the start. (Jaggi starts at t = 0,
    where η₀ = 1 forgets the start; the printed algorithm starts at t = 1 and does not.)
    """
    C = check_positive("curvature", curvature)
    h = check_positive("start_gap", start_gap)
    mu = check_positive("accuracy", accuracy)
    # (T+1)(T+2) ≥ 2(h + CT)/μ, a quadratic in T.
    b = 3 - 2 * C / mu
    c = 2 - 2 * h / mu
    root = b * b - 4 * c
    return 1 if root <= 0 else max(1, math.ceil((-b + math.sqrt(root)) / 2 - 1e-9))


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
    """
    gamma, K, m, s, rho = _design_letters(problem, floor)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    if accuracy is None:
        accuracy = design_accuracy(problem, floor=floor, route=route)
    mu = check_positive("accuracy", accuracy)
    log_range = math.log(K / (gamma * m))
    if _route(route) == "refined":
        G = (1 - gamma) * K**2 / (gamma * m**2)
        rad = G * math.sqrt(2 * min(m, 2 * rho) * (m * s / K) * math.log(P))
        deviation = rho * (K / m) * log_range * math.sqrt(math.log(2 / delta) / 2)
        return max(1, math.ceil((3 / mu * (rad + deviation)) ** 2))
    c = check_positive("contraction_constant", contraction_constant)
    rad = c * s * K**2 / (gamma * m**2) * math.sqrt(2 * K * math.log(2 * P))
    deviation = 5 * s * (K / m) * log_range * math.sqrt(2 * math.log(8 / delta))

    def enough(n: float) -> bool:
        return (2 * rad * math.log(n) ** 2 + deviation) / math.sqrt(n) <= 2 * mu / 3

    # log²(n)/√n falls only beyond n = e⁴: look for the crossing on that side, where it is unique.
    low = high = math.exp(4)
    while not enough(high):
        low, high = high, 2 * high
    while high - low > max(0.5, 1e-12 * high):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return math.ceil(high)


def estimate_range(problem: Problem, *, floor: float = 0.5) -> float:
    """The largest value of R(π) = Σ_{y∈π(x)∩a} r(y)/Q^γ(x, y): ρK/(γm).

    Q^γ ≥ γm/K and a shown list collects at most ρ = min(s, m). The text has K/(γm), which is
    right only when a list collects at most 1.
    """
    gamma, K, m, _, rho = _letters(problem, floor)
    return rho * K / (gamma * m)


def estimate_variance(
    problem: Problem, *, floor: float = 0.5, route: Route = "refined", proxy: float | None = None
) -> float:
    """A bound on E R(π)² ≥ Var R(π) from a bound on max_π V(π), V(π) = E Σ_{y∈π(x)} r(y)/Q^γ(x, y).

    `proxy` bounds V; by default the certificate's 2s/(1−γ) (4s at γ = ½), which ‖∇F‖∞ ≤ 2s gives.
    Printed: Var ≤ m·V, so 4sm. Refined: Var ≤ ρ·V, so 4s·min(s, m), because
    (Σ_{y∈π∩a} r/Q)² ≤ (Σ_{y∈π∩a} r)·(Σ_{y∈π∩a} r/Q²) and the first factor is at most ρ.
    """
    gamma, _, m, s, rho = _design_letters(problem, floor)
    V = 2 * s / (1 - gamma) if proxy is None else check_positive("proxy", proxy)
    return (m if _route(route) == "printed" else rho) * V


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
    if _route(route) == "printed":
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


def pac_comband(
    problem: Problem,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = 0.5,
    route: Route = "refined",
    contraction_constant: float = 1.0,
) -> PacSchedule:
    """N₁, T and N₂ with which Algorithm 1 returns an ε-optimal policy with probability 1−δ
    (Theorem 1).

    δ is halved between the phases, and the design is solved to μ/3.

    >>> from comband.problem import Problem
    >>> plan = pac_comband(Problem(20, 2, 1), n_policies=100, epsilon=0.05, delta=0.05)
    >>> plan.n_estimate < pac_comband(
    ...     Problem(20, 2, 1), n_policies=100, epsilon=0.05, delta=0.05, route="printed"
    ... ).n_estimate
    True
    """
    delta = check_fraction("delta", delta)
    gamma, K, m, _, rho = _design_letters(problem, floor)
    refined = _route(route) == "refined"
    mu = design_accuracy(problem, floor=floor, route=route)
    C = design_curvature(problem, floor=floor, route=route)
    # F̂ lies in [0, ρ(K/m)·log(K/γm)], so no start is further from the minimum than that.
    start = max(rho * (K / m) * math.log(K / (gamma * m)), 1e-12)
    reasons = {
        "accuracy": "μ = s²γ²m²/(2ρ(1−γ)²K²), Lemma log-self-concordance with its dropped factors"
        if refined
        else "μ = sγ²m²/(2K²), Lemma log-self-concordance",
        "curvature": "C = ρ(1−γ)²K³/(γ²m³), second derivative along a segment"
        if refined
        else "C = 4·sK³/(γ²m³), smoothness of Theorem fw-conv times the squared diameter",
        "variance_bound": "2sρ/(1−γ), Cauchy-Schwarz with the rewards as weights"
        if refined
        else "2sm/(1−γ), which is 4sm at γ = ½",
        "range_bound": "ρK/(γm)",
        "n_explore": "Maurer contraction, Massart, McDiarmid, Hoeffding"
        if refined
        else f"L∞ contraction with an ASSUMED constant {contraction_constant:g} (hidden there)",
        "n_steps": "Jaggi's recursion from t = 1, to μ/3",
        "n_estimate": "Bernstein on paired differences" if refined else "Bernstein on every value",
    }
    return PacSchedule(
        problem=problem,
        n_policies=check_count("n_policies", n_policies),
        epsilon=check_positive("epsilon", epsilon),
        delta=delta,
        floor=gamma,
        route=route,
        accuracy=mu,
        curvature=C,
        variance_bound=estimate_variance(problem, floor=floor, route=route),
        range_bound=estimate_range(problem, floor=floor),
        n_explore=explore_rounds(
            problem,
            n_policies=n_policies,
            delta=delta / 2,
            accuracy=mu,
            floor=floor,
            route=route,
            contraction_constant=contraction_constant,
        ),
        n_steps=frank_wolfe_steps(curvature=C, start_gap=start, accuracy=mu / 3),
        n_estimate=estimate_rounds(
            problem,
            n_policies=n_policies,
            epsilon=epsilon,
            delta=delta / 2,
            floor=floor,
            route=route,
        ),
        reasons=reasons,
    )


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
    gamma, K, _, _, _ = _design_letters(problem, floor)
    P = check_count("n_policies", n_policies)
    delta = check_fraction("delta", delta)
    refined = _route(route) == "refined"
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


def uniform_exploration(problem: Problem, *, n_policies: int, epsilon: float, delta: float) -> int:
    """Rounds that uniform lists alone need: the naive Km/ε² with its constants.

    Q = m/K everywhere, so Var R(π) ≤ ρ·(K/m)·E Σ_{y∈π} r ≤ ρ²K/m (mK for dense rewards, ρ = m: the
    printed Km/ε²), R ≤ ρK/m; then Bernstein on paired differences as in `estimate_rounds`.
    """
    rho = problem.max_reward
    return estimate_rounds(
        problem,
        n_policies=n_policies,
        epsilon=epsilon,
        delta=delta,
        floor=1.0,
        second_moment=rho**2 * problem.n_actions / problem.list_size,
    )


def earlier_single_label(n_actions: int, *, n_policies: int, epsilon: float, delta: float) -> float:
    """The earlier result for one label, (K⁹ + 1/ε²)·log(P/δ) (Erez et al. 2024), in ORDER only.

    Its constants are not stated anywhere; 1 is used for both terms, so compare growth, not values.
    """
    K = check_count("n_actions", n_actions)
    eps = check_positive("epsilon", epsilon)
    P = check_count("n_policies", n_policies)
    return (float(K) ** 9 + 1 / eps**2) * math.log(P / check_fraction("delta", delta))


def lower_bound(problem: Problem, *, epsilon: float) -> float:
    """sm/(3072ε²): with fewer rounds some instance I_S defeats every algorithm (Theorem
    lower-bound-formal).

    On the unconditioned Bernoulli instance, any algorithm outputs an ε/2-suboptimal list with
    probability above ½ (the printed proof aims at ¼ and has a gap; docs/errata.md gives the
    repaired argument, which keeps 3072). It needs m ≤ K/12 and, for the text's "sufficiently
    small ε", ε ≤ s(K−m)/(4K) and s/K + ε/m ≤ 1. For rewards that are s-sparse *surely*, s must
    also be at least 6·log(4T), so that conditioning on ‖r‖₁ ≤ s costs probability at most ¼.
    """
    eps = check_positive("epsilon", epsilon)
    K, m, s = problem.n_actions, problem.list_size, _sparsity(problem)
    if 12 * m > K:
        raise InputError(f"the lower bound needs list_size ≤ n_actions/12 = {K / 12:g}, got {m}.")
    limit = min(s * (K - m) / (4 * K), m * (1 - s / K))
    if eps > limit:
        raise InputError(f"the lower bound needs epsilon ≤ min(s(K−m)/(4K), m(1−s/K)) = {limit:g}, got {eps:g}.")
    return s * m / (3072 * eps**2)


def exp4_comb_sparse(
    problem: Problem,
    *,
    n_policies: int,
    horizon: int,
    step_size: float | None = None,
    barrier: Barrier | float = "safe",
) -> RegretSchedule:
    """η, ν and the expected regret bound of Algorithm 4, EXP4-COMB-SPARSE, over T = `horizon`
    rounds; `Exp4CombSparse` runs with exactly these.

    E Regret ≤ ρ + P·log(T)/ν + log(P)/η + η·κ·sρ·T, κ = 1/(2(1−νρ)), for every η > 0 and ν < 1/ρ
    (docs/regret.md has the four steps). η is the one for which this is smallest, √(log P/(κsρT)), and

    - barrier "safe": ν = 1/(16ρ), the text's lemma redone for lists by its own argument; κ = 8/15;
    - "sharp": ν = 1/(2ρ), the largest for which p_{t+1} ≤ 2p_t on every stream; κ = 1, P·log T eight
      times cheaper;
    - "printed": ν = 1/16 and η = √(log P/(smT)) as in the text. From ρ = 16 on nothing bounds its
      regret here, and the bound given is infinite;
    - or a number below 1/ρ.
    """
    P = check_count("n_policies", n_policies)
    T = check_count("horizon", horizon)
    s, rho, m = _sparsity(problem), problem.max_reward, problem.list_size
    nu, name = _barrier(barrier, rho)
    kappa = 1 / (2 * (1 - nu * rho)) if nu * rho < 1 else math.inf
    spread = s * m if barrier == "printed" else kappa * s * rho
    best = math.sqrt(math.log(max(P, 2)) / (spread * T))
    eta = best if step_size is None else check_positive("step_size", step_size)
    return RegretSchedule(
        step_size=eta,
        barrier=nu,
        regret=rho + P * math.log(T) / nu + math.log(P) / eta + eta * kappa * s * rho * T,
        reasons={
            "step_size": "η = √(log P/(smT))" if barrier == "printed" else "η = √(log P/(κsρT))",
            "barrier": name,
            "regret": "ρ + P·log(T)/ν + log(P)/η + ηκsρT, κ = 1/(2(1−νρ))",
        },
    )


def exp4(
    problem: Problem,
    *,
    n_policies: int,
    horizon: int,
    step_size: float | None = None,
    floor: float | None = None,
) -> RegretSchedule:
    """η, γ and the expected regret bound of EXP4 with lists, about 2ρ√(KT·log(P)/m): it grows with K;
    `Exp4` runs with exactly these.

    Exponential weights on the estimated rewards with a share γ ≥ ηρK/m of uniform lists, so that no
    estimate exceeds 1/η (exp x ≤ 1 + x + (e−2)x² for x ≤ 1): E Regret ≤ γρT + log(P)/η + (e−2)η·sρ·T.
    η = √(log P/((ρ²K/m + (e−2)sρ)T)) and γ = ηρK/m, at most ½ (η then follows γ). A smaller γ has no
    bound: it is given as infinite.
    """
    P = check_count("n_policies", n_policies)
    T = check_count("horizon", horizon)
    s, rho = _sparsity(problem), problem.max_reward
    largest = rho / problem.uniform_propensity  # of γ times any estimate
    best = math.sqrt(math.log(max(P, 2)) / ((rho * largest + (math.e - 2) * s * rho) * T))
    eta = min(best, 0.5 / largest) if step_size is None else check_positive("step_size", step_size)
    gamma = min(eta * largest, 0.5) if floor is None else check_number("floor", floor)
    if not 0 <= gamma <= 1:
        raise InputError(f"floor must lie in [0, 1], got {gamma:g}.")
    bound = gamma * rho * T + math.log(P) / eta + (math.e - 2) * eta * s * rho * T
    return RegretSchedule(
        step_size=eta,
        floor=gamma,
        regret=bound if eta * largest <= gamma * (1 + 1e-9) else math.inf,
        reasons={
            "step_size": "η = √(log P/((ρ²K/m + (e−2)sρ)T))",
            "floor": "γ = ηρK/m, at most ½",
            "regret": "γρT + log(P)/η + (e−2)ηsρT",
        },
    )


def _barrier(barrier: Barrier | float, rho: float) -> tuple[float, str]:
    """ν and where it is from."""
    if barrier == "safe":
        return 1 / (16 * rho), "ν = 1/(16ρ)"
    if barrier == "sharp":
        return 1 / (2 * rho), "ν = 1/(2ρ)"
    if barrier == "printed":
        return 1 / 16, "ν = 1/16"
    nu = check_positive("barrier", barrier)
    if nu * rho >= 1:
        raise InputError(f"barrier must lie below 1/ρ = {1 / rho:g}, where weights are stable, got {nu:g}.")
    return nu, "ν as given"


def _sparsity(problem: Problem) -> float:
    """s, or K when no bound is known: rewards lie in [0, 1]."""
    return float(problem.n_actions if problem.sparsity is None else problem.sparsity)


def _letters(problem: Problem, floor: Any) -> tuple[float, float, float, float, float]:
    """γ, K, m, s, ρ as floats."""
    gamma = check_floor(floor)
    return (
        gamma,
        float(problem.n_actions),
        float(problem.list_size),
        _sparsity(problem),
        problem.max_reward,
    )


def _design_letters(problem: Problem, floor: Any) -> tuple[float, float, float, float, float]:
    """The same where there is a design, which only uniform lists (γ = 1) would not be."""
    letters = _letters(problem, floor)
    if letters[0] == 1:
        raise InputError("floor must lie below 1 here, got 1: only uniform lists leave nothing to design.")
    return letters


def _route(route: str) -> str:
    if route not in ("refined", "printed"):
        raise InputError(f"route must be 'refined' or 'printed', got {route!r}.")
    return route
