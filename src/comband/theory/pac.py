"""Theorem 1: the parameters of PAC-COMBAND, gathered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from comband.page.problem import InputError, Problem, check_choice, check_count, check_fraction, check_positive
from comband.policies.reading import reading_of
from comband.theory.design import design_accuracy, design_curvature, frank_wolfe_gap_steps, frank_wolfe_steps
from comband.theory.estimation import estimate_range, estimate_rounds, estimate_variance
from comband.theory.exploration import explore_rounds
from comband.theory.gradient import SOLVER_SHARE, gradient_rounds
from comband.theory.held_out import held_out_plan
from comband.theory.joint import joint_rounds
from comband.theory.letters import PAC_ROUTES, PacRoute, design_letters, estimation_route, sparsity_of
from comband.theory.online import OnlineSchedule, online_comband


@dataclass(frozen=True, slots=True)
class PacSchedule:
    """Parameters of a two-phase learner with the constants they were computed from.

    `accuracy` is what the design's potential is solved to: μ in expectation, or, in the gradient route, the Frank-Wolfe
    gap on the sample. `reasons` holds, for each number, the formula and where it comes from; `print` shows them all.

    Parameters
    ----------
    problem:
        The setting.
    n_policies:
        P.
    epsilon, delta:
        The promise.
    floor:
        γ.
    curvature:
        C.
    variance_bound:
        Of E R(π)².
    range_bound:
        Of R(π).
    n_explore, n_steps, n_estimate:
        N₁, T and N₂.
    n_labelled:
        n_S, the labelled sample of Algorithm 3; None otherwise.
    n_verify:
        Rounds held out to verify the design.

    >>> import comband as cb
    >>> schedule = cb.theory.pac_comband(cb.Problem(20, 2, 1), n_policies=100, epsilon=0.05, delta=0.05)
    >>> schedule.n_rounds == schedule.n_explore + schedule.n_estimate, schedule.route
    (True, 'gradient')
    >>> sorted(schedule.reasons)
    ['accuracy', 'curvature', 'n_estimate', 'n_explore', 'n_steps', 'range_bound', 'variance_bound']
    """

    problem: Problem
    n_policies: int
    epsilon: float
    delta: float
    floor: float
    route: PacRoute
    accuracy: float
    curvature: float
    variance_bound: float
    range_bound: float
    n_explore: int
    n_steps: int
    n_estimate: int
    n_labelled: int | None = None
    n_verify: int = 0
    reasons: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def with_estimation(
        cls,
        problem: Problem,
        *,
        n_policies: int,
        epsilon: float,
        delta: float,
        floor: float,
        route: PacRoute,
        reasons: dict[str, str],
        proxy: float | None = None,
        **exploration: Any,
    ) -> PacSchedule:
        """The first phase as it is given, and the second that goes with it: N₂ at half of δ, with what it rests on.

        `proxy` bounds every variance proxy, if another bound is known than 2s/(1−γ).
        """
        proved = estimation_route(route)
        variance = estimate_variance(problem, floor=floor, route=proved, proxy=proxy)
        bernstein = "Bernstein on every value" if route == "printed" else "Bernstein on paired differences"
        return cls(
            problem=problem,
            n_policies=check_count("n_policies", n_policies),
            epsilon=check_positive("epsilon", epsilon),
            delta=delta,
            floor=floor,
            route=route,
            variance_bound=variance,
            range_bound=estimate_range(problem, floor=floor),
            n_estimate=estimate_rounds(
                problem,
                n_policies=n_policies,
                epsilon=epsilon,
                delta=delta / 2,
                floor=floor,
                route=proved,
                second_moment=variance,
            ),
            reasons=reasons | {"n_estimate": bernstein},
            **exploration,
        )

    @property
    def n_rounds(self) -> int:
        """N₁ + N₂, and what is held out in between."""
        return self.n_explore + self.n_verify + self.n_estimate

    @property
    def oracle_calls(self) -> int:
        """T Frank-Wolfe steps and the final choice."""
        return self.n_steps + 1

    def __str__(self) -> str:
        head = (
            f"K={self.problem.n_actions}, m={self.problem.list_size}, "
            f"s={sparsity_of(self.problem):g}, {self.n_policies} policies, ε={self.epsilon:g}, "
            f"δ={self.delta:g}, γ={self.floor:g} ({self.route} constants)"
        )
        names = ["accuracy", "curvature", "variance_bound", "range_bound", "n_explore", "n_steps"]
        names += ["n_labelled"] if self.n_labelled is not None else []
        names += ["n_verify"] if self.n_verify else []
        names += ["n_estimate"]
        lines = [f"  {name:<15}{getattr(self, name):<12.6g}{self.reasons.get(name, '')}" for name in names]
        return "\n".join([head, *lines])


@overload
def pac_comband(
    problem: Problem,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = ...,
    route: PacRoute = ...,
    contraction_constant: float = ...,
) -> PacSchedule: ...
@overload
def pac_comband(
    problem: Problem, *, n_policies: int, epsilon: float, delta: float, route: Literal["online"]
) -> OnlineSchedule: ...
def pac_comband(
    problem: Problem,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    floor: float = 0.5,
    route: PacRoute | Literal["online"] = "gradient",
    contraction_constant: float = 1.0,
) -> PacSchedule | OnlineSchedule:
    """N₁, T and N₂ with which Algorithm 1 returns an ε-optimal policy with probability 1−δ
    (Theorem 1); with route="online", how many rounds `OnlineComband` needs for that, if candidates can be listed.

    δ is halved between the phases. The gradient route solves the design until its gap is at most s/50, for which some
    of the T steps is enough; refined and printed to μ/3 by T steps. The joint route is the gradient route with as much
    exploration as pays (`joint_rounds`). The held-out route does not trust N₁: as many uniform rounds again,
    `n_verify`, certify the design, and a learner sets N₂ by what they say; the numbers given here are smallest
    together if the design turns out to be worth 1.3·s/(1−γ), and no promise. From totals (`problem.feedback`) N₁, T
    and the certificate stay, and N₂ has the range and variance of `comband.theory.totals`.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    route:
        "gradient", "joint", "refined", "printed" or "held-out"; or "online".
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.
    contraction_constant:
        c of the printed route, which the text hides.

    >>> from comband.page.problem import Problem
    >>> routes = ("online", "joint", "gradient", "refined", "printed")
    >>> plans = [
    ...     pac_comband(Problem(20, 2, 1), n_policies=100, epsilon=0.05, delta=0.05, route=route) for route in routes
    ... ]
    >>> [f"{plan.n_rounds:.0e}" for plan in plans]
    ['3e+04', '8e+04', '9e+04', '1e+10', '2e+20']
    """
    check_choice("route", route, (*PAC_ROUTES, "online"))
    if route == "online":
        return online_comband(problem, n_policies=n_policies, epsilon=epsilon, delta=delta)
    delta = check_fraction("delta", delta)
    gamma, K, m, s, rho = design_letters(problem, floor)
    total = reading_of(problem).TOTAL
    if total and route not in ("gradient", "held-out"):
        raise InputError(f'from totals only the routes "gradient" and "held-out" are proved, got {route!r}.')
    # F̂ lies in [0, ρ(K/m)·log(K/γm)], so no start is further from the minimum than that.
    start = max(rho * (K / m) * math.log(K / (gamma * m)), 1e-12)
    proved = estimation_route(route)  # the route of everything but N₁ and T
    C = design_curvature(problem, floor=floor, route=proved)
    n_verify, proxy = 0, None
    if route == "held-out":
        n_verify, _, proxy = held_out_plan(problem, n_policies=n_policies, epsilon=epsilon, delta=delta, floor=floor)
        accuracy = SOLVER_SHARE * s
        n_explore, n_steps = n_verify, frank_wolfe_gap_steps(curvature=C, start_gap=start, gap=accuracy)
        reasons = {
            "accuracy": f"{SOLVER_SHARE:g}·s, the gap on the sample; nothing rests on it",
            "n_explore": "as many as are held out; nothing rests on it",
            "n_verify": "uniform rounds that certify the design",
            "n_steps": "Jaggi's recursion from t = 1, for the gap",
        }
    elif route == "joint":
        both = joint_rounds(problem, n_policies=n_policies, epsilon=epsilon, delta=delta, floor=floor)
        accuracy, proxy = SOLVER_SHARE * s, both.proxy
        n_explore, n_steps = both.n_explore, frank_wolfe_gap_steps(curvature=C, start_gap=start, gap=accuracy)
        reasons = {
            "accuracy": f"{SOLVER_SHARE:g}·s, the gap on the sample that the proof leaves to the solver",
            "n_explore": f"of the smallest sum with N₂, by averages of N = {both.draws} policies",
            "n_steps": "Jaggi's recursion from t = 1, for the gap",
        }
    elif route == "gradient":
        found = gradient_rounds(problem, n_policies=n_policies, delta=delta / 2, floor=floor)
        accuracy = SOLVER_SHARE * s
        n_explore, n_steps = found.n_rounds, frank_wolfe_gap_steps(curvature=C, start_gap=start, gap=accuracy)
        reasons = {
            "accuracy": f"{SOLVER_SHARE:g}·s, the gap on the sample that the proof leaves to the solver",
            "n_explore": f"uniform convergence of the gradient, by averages of N = {found.draws} policies "
            f"(λ = {found.excess:.3g}, τ = {found.mass:.3g})",
            "n_steps": "Jaggi's recursion from t = 1, for the gap",
        }
    else:
        accuracy = design_accuracy(problem, floor=floor, route=proved)
        n_steps = frank_wolfe_steps(curvature=C, start_gap=start, accuracy=accuracy / 3)
        n_explore = explore_rounds(
            problem,
            n_policies=n_policies,
            delta=delta / 2,
            accuracy=accuracy,
            floor=floor,
            route=proved,
            contraction_constant=contraction_constant,
        )
        reasons = {
            "accuracy": "μ = sγ²m²/(2K²), Lemma log-self-concordance"
            if route == "printed"
            else "μ = s²γ²m²/(2ρ(1−γ)²K²), Lemma log-self-concordance with its dropped factors",
            "n_explore": f"L∞ contraction with an ASSUMED constant {contraction_constant:g} (hidden there)"
            if route == "printed"
            else "Maurer contraction, Massart, McDiarmid, Hoeffding",
            "n_steps": "Jaggi's recursion from t = 1, to μ/3",
        }
    reasons |= {
        "curvature": "C = 4·sK³/(γ²m³), smoothness of Theorem fw-conv times the squared diameter"
        if route == "printed"
        else "C = ρ(1−γ)²K³/(γ²m³), second derivative along a segment",
        "variance_bound": "2sm/(1−γ), which is 4sm at γ = ½"
        if route == "printed"
        else "2sρ/(1−γ), Cauchy-Schwarz with the rewards as weights",
        "range_bound": "ρK/(γm)",
    }
    if proxy is not None:
        reasons |= {"variance_bound": f"ρV, V = {proxy:.3g} {'if certified' if n_verify else 'after N₁ rounds'}"}
    if total:
        reasons |= {
            "variance_bound": "ρ(2sm/(1−γ) + sκ)/(1−f)², or ρs·E N²·K/(γm(1−f)²) where that is smaller",
            "range_bound": "ρK/(γ(1−f)), f = (m−1)/(K−1)",
        }
    return PacSchedule.with_estimation(
        problem,
        n_policies=n_policies,
        epsilon=epsilon,
        delta=delta,
        floor=gamma,
        route=route,
        accuracy=accuracy,
        curvature=C,
        n_explore=n_explore,
        n_steps=n_steps,
        n_verify=n_verify,
        proxy=proxy,
        reasons=reasons,
    )
