"""N₁ by uniform convergence of the gradient: phase 1 in (K/m)³ rounds, with no ε in them.

Phase 2 needs small variance proxies V_π(p̂) = E Σ_{y∈π(x)} r(y)/Q^γ_p̂(x, y), which make the gradient of F, and no small
value of F. A proxy is a mean of nonnegative terms, so that it can be bounded by its sample from one side and
multiplicatively. With u = m/K, b = ρ/(γu²), V̂ the proxies on n uniform rounds and M̂ their Σ_e w_e:

1. Sparsify. p′ is the average of N policies drawn from p̂. Then V_π(p̂) ≤ E V_π(p′) (Jensen), and
   E V̂_π(p′) ≤ (1 + λ)·V̂_π(p̂), where 1 + λ = sup_c Q·E[1/Q′], Q = (1−γ)c + γu, Q′ = (1−γ)·binomial(N, c)/N + γu; it is
   at most (1−γ)/(Nγu), and less than half of that (`sampling_excess`).
2. Union over all pairs (p′, π). There are at most C(P+N−1, N)·P; with probability 1 − δ/2 every V_π(p′) is at most the
   root of D(V̂_π(p′), V) = bL/n, L = log C(P+N−1, N) + log P + log(2/δ) (`comband.statistics.chernoff`). The root is
   concave and grows, so step 1 carries over: V_π(p̂) is at most the root at (1 + λ)·V̂_π(p̂).
3. KKT on the sample. (1−γ)·max V̂_π(p̂) ≤ M̂ + gap, and M̂ ≤ s(1 + τ) with probability 1 − δ/2 once
   n ≥ ρ·log(2/δ)/(su·((1+τ)log(1+τ) − τ)), the upper tail of a mean of terms in [0, ρ/u]. The solver's gap may be σs.

Together (1−γ)·max_π V_π(p̂) ≤ 2s once also n ≥ (1−γ)·b·L/(s·D(v, 2)), v = (1 + λ)(1 + τ + σ) < 2. N and τ are those of a
grid for which n is smallest. docs/open_problems.md has every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from comband.page.problem import Problem, check_count, check_fraction
from comband.statistics.chernoff import poisson_divergence
from comband.theory.letters import design_letters

SOLVER_SHARE = 0.02  # σ: the share of s that is left to the solver's gap
_DRAWS = [10 ** (i / 16) for i in range(-32, 26)]  # (1−γ)/(Nγu), from 0.01 to 40: how many draws are tried
_CELLS = 64  # of c, in each of which the supremum is bounded
_MASSES = [10 ** (-i / 20) for i in range(60)]  # τ, from 1 down to about 0.001


@dataclass(frozen=True, slots=True)
class GradientRounds:
    """N₁ of the gradient route, and the free parameters of its proof at which it is smallest.

    n_rounds:
        N₁.
    draws:
        N, how many policies stand for a mixture.
    excess, mass:
        λ, what that costs on the sample; τ, what the sum of weights may exceed s by.
    log_pairs:
        L, the logarithm of all pairs over δ/2.

    >>> import comband as cb
    >>> found = cb.theory.gradient_labels(10, n_policies=100, delta=0.05)
    >>> found.n_rounds > 0, found.draws > 0, found.mass
    (True, True, 0.0)
    """

    n_rounds: int
    draws: int
    excess: float
    mass: float
    log_pairs: float


def log_multisets(n_policies: int, draws: int) -> float:
    """A bound on log C(P+N−1, N), the number of averages of N out of P policies: N·log P, or the entropy bound."""
    P, N = n_policies, draws
    if P == 1:
        return 0.0
    return min(N * math.log(P), N * math.log1p((P - 1) / N) + (P - 1) * math.log1p(N / (P - 1)))


@lru_cache(maxsize=4096)
def sampling_excess(draws: int, floor: float, uniform: float) -> float:
    """λ of step 1: Q·E[1/Q′] ≤ 1 + λ for every share c of policies that list an action.

    h(c) = E[1/Q′] is the Bernstein polynomial of a convex falling function of the number of draws, so it is convex and
    falls (this holds, with the same λ, for averages of any variables in [0, 1] instead of bits: bits are the largest in
    convex order). In each of some cells of c it lies below its chord, and Q times a falling line is a parabola, whose
    maximum is known: the largest of these is an upper bound of the supremum, no estimate. Sums run over counts within
    12 standard deviations and 40 of their mean; what is left out has a probability below e^(−50).

    >>> sampling_excess(20, 0.5, 0.1) < 0.5 * 0.5 / (20 * 0.5 * 0.1)  # less than half of (1−γ)/(Nγu)
    True
    """
    N, low = draws, floor * uniform
    Q = low * ((1 - floor + low) / low) ** (np.arange(_CELLS + 1) / _CELLS)
    c = (Q - low) / (1 - floor)
    c[0], c[-1] = 0.0, 1.0
    h = np.array([_mean_inverse(N, share, floor, low) for share in c.tolist()])
    slope = (h[1:] - h[:-1]) / (c[1:] - c[:-1])
    # Of (low + (1−γ)c)·(h₀ + slope·(c − c₀)), slope ≤ 0.
    with np.errstate(divide="ignore"):
        top = c[:-1] / 2 - h[:-1] / (2 * np.minimum(slope, -1e-300)) - low / (2 * (1 - floor))
    top = np.clip(top, c[:-1], c[1:])
    largest = float(((low + (1 - floor) * top) * (h[:-1] + slope * (top - c[:-1]))).max())
    return min(max(largest * (1 + 1e-7) - 1, 0.0), (1 - floor) / (N * floor * uniform))


def _mean_inverse(N: int, share: float, floor: float, low: float) -> float:
    """E 1/((1−γ)·binomial(N, c)/N + γu), rounded by far less than a ten-millionth."""
    if share in (0.0, 1.0):
        return 1 / ((1 - floor) * share + low)
    mean = N * share
    reach = 12 * math.sqrt(mean) + 40
    k = np.arange(max(0, math.floor(mean - reach)), min(N, math.ceil(mean + reach)) + 1)
    logs = k * math.log(share) + (N - k) * math.log1p(-share) - gammaln(k + 1) - gammaln(N - k + 1)
    weights = np.exp(logs - logs.max())
    return float(weights @ (1 / ((1 - floor) * k / N + low)) / weights.sum()) + 2 * math.exp(-50) / low


def gradient_rounds(problem: Problem, *, n_policies: int, delta: float, floor: float = 0.5) -> GradientRounds:
    """Uniform rounds after which, with probability 1−δ, (1−γ)·max_π V_π ≤ 2s for a design with a gap of at most s/50.

    Of order (ρ/s)(K/m)³·log P, or (ρ/s)(K/m)²·P·log(K/m) where K/m is larger than the class.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> gradient_rounds(Problem(10, 2, 1), n_policies=100, delta=0.025).n_rounds < 20_000
    True
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    delta = check_fraction("delta", delta)
    u = m / K
    best = None
    for tau in _MASSES:
        rounds = _smallest(rho / (gamma * u**2) / s, u, gamma, tau, n_policies, math.log(2 / delta))
        if rounds is None:
            continue
        mass = rho * math.log(2 / delta) / (s * u * ((1 + tau) * math.log1p(tau) - tau))
        rounds = replace(rounds, n_rounds=max(rounds.n_rounds, math.ceil(mass)))
        if best is None or rounds.n_rounds < best.n_rounds:
            best = rounds
    assert best is not None  # a small τ always leaves room
    return best


def gradient_labels(n_actions: int, *, n_policies: int, delta: float, floor: float = 0.5) -> GradientRounds:
    """The same for a sample of labels, one for each context (Algorithm 3): order K²·log P of them.

    A labelled context has terms of at most b = K/γ, and the weights of the sample sum to 1 exactly: τ = 0.

    Parameters
    ----------
    n_actions:
        K, how many labels there are.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> cb.theory.gradient_labels(10, n_policies=100, delta=0.05).n_rounds  # of order K²·log P
    2720
    """
    gamma, K, *_ = design_letters(Problem(n_actions, 1, 1), floor)
    log_odds = math.log(1 / check_fraction("delta", delta))
    best = _smallest(K / gamma, 1 / K, gamma, 0.0, n_policies, log_odds)
    assert best is not None
    return best


def _smallest(b: float, u: float, gamma: float, tau: float, n_policies: int, log_odds: float) -> GradientRounds | None:
    """The fewest terms in [0, b·s] by steps 1 and 2 over a grid of N, given τ; None if τ leaves no room."""
    P = check_count("n_policies", n_policies)
    best = None
    for N in sorted({math.ceil((1 - gamma) / (wanted * gamma * u)) for wanted in _DRAWS}):
        excess = sampling_excess(N, gamma, u)
        v = (1 + excess) * (1 + tau + SOLVER_SHARE)
        if v >= 2:
            continue
        L = log_multisets(P, N) + math.log(P) + log_odds
        n = math.ceil((1 - gamma) * b * L / poisson_divergence(v, 2.0))
        if best is None or n < best.n_rounds:
            best = GradientRounds(n, N, excess, tau, L)
    return best
