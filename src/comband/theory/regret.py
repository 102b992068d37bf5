"""Theorem regret: step sizes of the regret minimisers and the bounds they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from comband.page.problem import InputError, Problem, check_count, check_number, check_positive
from comband.theory.letters import sparsity_of

Barrier = Literal["safe", "sharp", "printed"]


@dataclass(frozen=True, slots=True)
class RegretSchedule:
    """Step sizes of a regret minimiser and the bound they give; `print` says where each is from.

    A `barrier` of infinity and a `floor` of 0 mean that the algorithm has none.

    Parameters
    ----------
    step_size:
        η.
    reasons:
        For each number the formula and where it comes from.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> schedule = cb.theory.exp4_comb_sparse(problem, n_policies=100, horizon=100_000)
    >>> schedule.floor, 0 < schedule.barrier < 1, schedule.regret < 100_000
    (0.0, True, True)
    """

    step_size: float
    regret: float
    barrier: float = math.inf
    floor: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        names = [name for name in ("step_size", "barrier", "floor", "regret") if name in self.reasons]
        return "\n".join(f"{name:<10}{getattr(self, name):<12.6g}{self.reasons[name]}" for name in names)


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

    Parameters
    ----------
    horizon:
        T, how many rounds there are.
    barrier:
        ν: "safe", "sharp", "printed" or a number.
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    step_size:
        η, if not the best one.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.exp4_comb_sparse(problem, n_policies=100, horizon=100_000).barrier
    0.0625
    >>> cb.theory.exp4_comb_sparse(problem, n_policies=100, horizon=100_000, barrier="sharp").barrier
    0.5
    """
    P = check_count("n_policies", n_policies)
    T = check_count("horizon", horizon)
    s, rho, m = sparsity_of(problem), problem.max_reward, problem.list_size
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

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    horizon:
        T, how many rounds there are.
    step_size:
        η, if not the best one.
    floor:
        γ, if not the smallest one with a bound.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> schedule = cb.theory.exp4(problem, n_policies=100, horizon=100_000)
    >>> 0 < schedule.floor <= 0.5, schedule.regret < 100_000
    (True, True)
    """
    P = check_count("n_policies", n_policies)
    T = check_count("horizon", horizon)
    s, rho = sparsity_of(problem), problem.max_reward
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
