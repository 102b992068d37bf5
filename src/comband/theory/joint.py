"""Both phases planned together: as much exploration as pays, instead of as much as a proxy of 2s/(1−γ) asks for.

The proof of `comband.theory.gradient` bounds (1−γ)·max V_π(p̂) by 2s. It says more: after any number n of uniform
rounds, with probability 1 − δ₁,

    max_π V_π(p̂) ≤ the larger root V of D((1+λ)(1+τ+σ)·s/(1−γ), V) = b·L/n,     L = log C(P+N−1, N) + log P + log(2/δ₁),

where h(τ) = (1+τ)·log(1+τ) − τ ≥ ρ·log(2/δ₁)/(sun), which τ = y/3 + √(y²/9 + 2y) satisfies for y the right side, and no
proxy exceeds ρ/(γu), which the floor alone gives. Bernstein's inequality then says how many rounds N₂(V) phase 2 needs,
and n + N₂ is smallest where a further round of phase 1 saves one of phase 2. With λ of order K/(mN) the two parts of V
are of order sK/(mN) and ρ(K/m)²NL/n, and N is free: at N = √(snm/(ρKL)), V is of order s + (K/m)^1.5·√(sρL/n), so that
n of order ρs^⅓·(K/m)·L/ε^(4/3) is enough, and all rounds are of order

    (ρs/ε² + ρs^⅓·K/(m·ε^(4/3)))·log(P/δ)     instead of     (ρs/ε² + (ρ/s)(K/m)³)·log(P/δ).

The algorithm and its oracle stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from comband.page.problem import Problem, check_fraction
from comband.statistics.chernoff import largest_mean
from comband.theory.estimation import estimate_rounds
from comband.theory.gradient import SOLVER_SHARE, log_multisets, sampling_excess
from comband.theory.letters import design_letters

_DRAWS = [10 ** (i / 8) for i in range(-16, 17)]  # (1−γ)/(Nγu), from 0.01 to 100


@dataclass(frozen=True, slots=True)
class JointRounds:
    """Rounds of both phases, and the bound on every variance proxy that N₂ rests on.

    n_explore, n_estimate:
        N₁ and N₂.
    proxy:
        V.
    draws:
        N, how many policies stand for a mixture.

    >>> import comband as cb
    >>> rounds = cb.theory.joint_rounds(cb.Problem(100, 5, 1), n_policies=100, epsilon=0.05, delta=0.05)
    >>> 1e5 < rounds.n_explore + rounds.n_estimate < 1.5e5
    True
    """

    n_explore: int
    n_estimate: int
    proxy: float
    draws: int


def joint_rounds(problem: Problem, *, n_policies: int, epsilon: float, delta: float, floor: float = 0.5) -> JointRounds:
    """N₁ and N₂ of the smallest sum, δ/2 each, for a design with a gap of at most s/50.

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
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> plan = joint_rounds(cb.Problem(1000, 1, 1), n_policies=100, epsilon=0.1, delta=0.05)
    >>> plan.n_explore + plan.n_estimate < 6_000_000  # (K/m)³ is 10⁹
    True
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    half = check_fraction("delta", delta) / 2
    u = m / K

    def proxy_after(n: int, excess: float, log_pairs: float) -> float:
        y = rho * math.log(2 / half) / (s * u * n)
        tau = y / 3 + math.sqrt(y * y / 9 + 2 * y)
        average = (1 + excess) * (1 + tau + SOLVER_SHARE) * s / (1 - gamma)
        bound = largest_mean(average, n=n, bound=rho / (gamma * u**2), log_odds=log_pairs)
        return min(bound, rho / (gamma * u))

    def estimate_after(proxy: float) -> int:
        return estimate_rounds(
            problem, n_policies=n_policies, epsilon=epsilon, delta=half, floor=gamma, second_moment=rho * proxy
        )

    best: JointRounds | None = None
    for draws in sorted({max(1, math.ceil((1 - gamma) / (wanted * gamma * u))) for wanted in _DRAWS}):
        excess = sampling_excess(draws, gamma, u)
        log_pairs = log_multisets(n_policies, draws) + math.log(n_policies) + math.log(2 / half)

        def total(n: int, excess: float = excess, log_pairs: float = log_pairs) -> int:
            return n + estimate_after(proxy_after(n, excess, log_pairs))

        n = smallest_total(total, least=1, most=10**15)
        proxy = proxy_after(n, excess, log_pairs)
        found = JointRounds(n, estimate_after(proxy), proxy, draws)
        if best is None or found.n_explore + found.n_estimate < best.n_explore + best.n_estimate:
            best = found
    assert best is not None
    return best


def smallest_total(total: Callable[[int], int], *, least: int, most: int) -> int:
    """A number at which `total` is about smallest: the best of a grid of powers, then of a finer one around it.

    >>> 950 < smallest_total(lambda n: n + 10**6 // n, least=1, most=10**9) < 1050
    True
    """
    grid = [least * (most / least) ** (i / 90) for i in range(91)]
    for steps in (12, 12):
        best = min(range(len(grid)), key=lambda i: total(round(grid[i])))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = [low * (high / low) ** (i / steps) for i in range(steps + 1)]
    candidates: list[int] = [round(n) for n in grid]
    return min(candidates, key=total)
