"""How many rounds an exploration needs that is learnt online: of order (ρs/ε² + ρK/(mε))·log(P/δ).

`comband.OnlineComband` draws policies by p_t ∝ exp(ηW_{t−1}), W(π) = Σ_t ψ(λR_t(π)), over a floor γ of uniform lists,
and answers with the policy of the largest Σ_t R_t(π). With ψ(z) = z − log(1+z), χ(z) = e^(−z) − 1 + z, b = ρK/(γm),
ξ = λb, any η, α > 0 and

    Φ = sup (e^(ηψ(z)) − 1)/z²,   k = inf (1 − e^(−αψ(z)))/χ(z)   over 0 < z ≤ ξ,    κ = 1 + α/k,   A = Φλ²ρs/(1−γ),

the answer is ε-optimal with probability 1 − δ after

    T ≥ [(1 + κ/η)·log P + (1 + κ/η + 1/k)·log(1/δ)] / (λε − κA/η)                                            (★)

rounds (docs/optimal_rate.md has the proof). Every (γ, ξ, η, α) with a positive denominator is valid, so that a search
for the best one needs no proof; Φ and k do, and have one here.

**Φ** is the larger of η/2, its limit at 0, and its value at ξ. Let G(z) = (e^(ηψ) − 1)/z² and q(z) =
(η/2)·e^(ηψ)/(1+z), the quotient of the derivatives of its parts. G′ has the sign of q − G. q falls on (0, 1/η) and
rises afterwards: (log q)′ = η − (η+1)/(1+z). On (0, 1/η] G is an average of earlier values of q, so G > q and G falls.
Later, wherever G = q, (q − G)′ = q′ > 0: q − G changes its sign once, from − to +. So G falls and then rises, and is
largest at an end. ∎

**k** is the value at ξ if ξ ≤ 1.79 or α ≥ 1/3, and no other (ξ, α) is used here. The quotient of the derivatives of
1 − e^(−αψ) and χ is α·e^(−αψ)·z/((1+z)(1−e^(−z))), and its logarithm has the derivative 1/(z(1+z)) − 1/(e^z−1) −
αz/(1+z). The first two terms together are not positive as long as e^z ≤ 1+z+z², which holds up to 1.79; beyond, the sum
is at most (1 − αz²)/(z(1+z)) < 0 for α ≥ 1/3. So the quotient falls on (0, ξ], and with it the quotient of the
functions, an average of its earlier values: the smallest is at ξ. ∎

**Batches.** If the weights stay as they are for at most n rounds, A grows by a factor (e^z − 1)/z, z = nΦλ²ρb: given
the past the rounds of a batch are independent, so the mean of ⟨p, Π_i e^(ηψ_i)⟩ is at most ⟨p, e^(nΦλ²V)⟩ with V_π =
E R(π)² ≤ ρb and ⟨p, V⟩ ≤ ρs/(1−γ), and e^(cv) lies below its chord on [0, ρb].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scipy.optimize import minimize

from comband._kernels.online import bend
from comband.page.problem import (
    Problem,
    check_choice,
    check_count,
    check_epsilon,
    check_fraction,
    check_itemised,
    check_positive,
)
from comband.theory.estimation import uniform_exploration
from comband.theory.letters import sparsity_of

Explorations = Literal["fewest rounds", "learnt", "uniform lists"]

_ROUNDING = 1e-9  # all numbers are rounded to the safe side by this share, far more than floats may be off


class Point(NamedTuple):
    """The free parameters of (★): γ, λ, η and α."""

    floor: float
    scale: float
    rate: float
    alpha: float


def slack(z: float) -> float:
    """χ(z) = e^(−z) − 1 + z for z ≥ 0, to the last digits also where z is small."""
    if z >= 0.1:
        return math.expm1(-z) + z
    total = 0.0
    for j in range(12, 1, -1):  # z²/2! − z³/3! + …, from the back
        total = (1.0 - z * total) / j
    return z * z * total


def largest_growth(reach: float, rate: float) -> float:
    """Φ: e^(ηψ(z)) ≤ 1 + Φz² for all z in [0, ξ].

    >>> largest_growth(1.0, 2.0)  # e^(2ψ) ≤ 1 + z² on [0, 1]
    1.000000001
    """
    return max(rate / 2, math.expm1(rate * bend(reach)) / reach**2) * (1 + _ROUNDING)


def smallest_share(reach: float, alpha: float) -> float:
    """k: e^(−αψ(z)) ≤ 1 − kχ(z) for all z in [0, ξ]; 0, which always holds, where no larger one is proved."""
    if reach > 1.79 and alpha < 1 / 3:
        return 0.0
    return -math.expm1(-alpha * bend(reach)) / slack(reach) * (1 - _ROUNDING)


@dataclass(frozen=True, slots=True)
class OnlineSchedule:
    """What `OnlineComband` runs with, and what is promised for it.

    Parameters
    ----------
    problem:
        The setting.
    n_policies:
        P.
    epsilon, delta:
        The promise.
    batch_size:
        n, for how many rounds at most the weights stay as they are.
    early_stop:
        Whether half of δ is kept for stopping by evidence.
    n_rounds:
        T: enough in every world.
    floor:
        γ; 1 where uniform lists need fewer rounds, which is known before any data.
    scale, rate:
        λ and η.
    alpha, growth, share, drift:
        α, Φ, k and A, with the factor for batches.
    n_online, n_uniform:
        Rounds with learnt exploration and with uniform lists, whichever are taken.
    reasons:
        Why each number is what it is, by name.

    >>> import comband as cb
    >>> schedule = cb.theory.pac_comband(
    ...     cb.Problem(100, 5, 1), n_policies=100, epsilon=0.05, delta=0.05, route="online"
    ... )
    >>> 37_000 < schedule.n_rounds < 39_000, schedule.uniform
    (True, False)
    """

    problem: Problem
    n_policies: int
    epsilon: float
    delta: float
    batch_size: int
    early_stop: bool
    n_rounds: int
    floor: float
    scale: float
    rate: float
    alpha: float
    growth: float
    share: float
    drift: float
    n_online: int
    n_uniform: int
    reasons: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def uniform(self) -> bool:
        """Whether all lists are uniform ones."""
        return self.floor == 1

    @property
    def delta_of_rounds(self) -> float:
        """The part of δ that T may fail with."""
        return self.delta / 2 if self.early_stop else self.delta

    @property
    def point(self) -> Point:
        """γ, λ, η, α."""
        return Point(self.floor, self.scale, self.rate, self.alpha)

    def epsilon_at(self, n_rounds: int) -> float:
        """What T = n_rounds promises before any data, for every number of them at once: (★) turned round.

        With uniform lists the promise is about `n_rounds` rounds exactly, and this is ε there and ρ elsewhere.
        """
        if self.n_policies == 1:
            return 0.0
        rho = self.problem.max_reward
        if self.uniform or n_rounds == 0:
            return self.epsilon if n_rounds == self.n_rounds else rho
        kappa = 1 + self.alpha / self.share
        logs = _log_terms(self.n_policies, self.delta_of_rounds, self.rate, kappa, self.share)
        return min(rho, (logs / n_rounds + kappa * self.drift / self.rate) / self.scale * (1 + _ROUNDING))

    def __str__(self) -> str:
        head = (
            f"K={self.problem.n_actions}, m={self.problem.list_size}, s={sparsity_of(self.problem):g}, "
            f"{self.n_policies} policies, ε={self.epsilon:g}, δ={self.delta:g}, batches of {self.batch_size:,}"
        )
        lines = [
            f"  {name:<12}{getattr(self, name):<12.6g}{self.reasons[name]}" for name in ("n_rounds", "floor", "scale")
        ]
        lines += [f"  {name:<12}{getattr(self, name):<12.6g}" for name in ("rate", "alpha", "growth", "share", "drift")]
        return "\n".join([head, *lines])


def online_comband(
    problem: Problem,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    batch_size: int = 1,
    early_stop: bool = False,
    exploration: Explorations = "fewest rounds",
) -> OnlineSchedule:
    """Rounds after which `OnlineComband` answers with an ε-optimal policy with probability 1−δ, and its parameters.

    The smaller of (★), minimised over its free parameters, and of uniform lists (`theory.uniform_exploration`). In
    closed form (γ = ½, η = 2, α = 1), T is at most max(4.79ρs/ε², 2ρK/(mε))·(4.4·log P + 7.2·log(1/δ)) + 1 at a batch
    size of 1.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most; rewards of single items are seen.
    n_policies:
        P, how many candidates there are.
    epsilon:
        How much better than the answer another candidate may be.
    delta:
        The probability with which the promise may fail.
    batch_size:
        For how many rounds at most the weights stay as they are.
    early_stop:
        Whether half of δ is kept for stopping by evidence.
    exploration:
        "fewest rounds" takes the smaller; or "learnt", or "uniform lists".

    >>> import comband as cb
    >>> promise = {"n_policies": 100, "epsilon": 0.05, "delta": 0.05}
    >>> one, ten = (cb.theory.online_comband(cb.Problem(K, 1, 1), **promise).n_rounds for K in (1000, 10_000))
    >>> 5 < ten / one < 10  # in proportion to K, at most
    True
    """
    check_itemised(problem, "OnlineComband")
    P, n = check_count("n_policies", n_policies), check_count("batch_size", batch_size)
    epsilon, delta = check_epsilon(epsilon, problem), check_fraction("delta", delta)
    check_choice("exploration", exploration, ("fewest rounds", "learnt", "uniform lists"))
    own = delta / 2 if early_stop else delta
    n_uniform = uniform_exploration(problem, n_policies=P, epsilon=epsilon, delta=own)
    best = _best_point(problem, P, epsilon, own, n)
    n_online = 1 if P == 1 else _rounds(problem, P, epsilon, own, n, best)
    if exploration == "uniform lists" or (exploration == "fewest rounds" and n_uniform < n_online):
        # λ and α are for the evidence: those of (★), whose proof holds with A = Φλ²ρb for any weights.
        best = _best_point(problem, P, epsilon, own, n, floor=1.0)
    return schedule_at(
        problem,
        best,
        n_policies=P,
        epsilon=epsilon,
        delta=delta,
        batch_size=n,
        early_stop=early_stop,
        n_online=n_online,
        n_uniform=n_uniform,
    )


def schedule_at(
    problem: Problem,
    point: Point,
    *,
    n_policies: int,
    epsilon: float,
    delta: float,
    batch_size: int,
    early_stop: bool,
    n_online: int,
    n_uniform: int,
) -> OnlineSchedule:
    """The schedule with these free parameters: of uniform lists if γ = 1, and then what learnt exploration would need
    is told; otherwise that is computed.
    """
    reach = point.scale * _range(problem, point.floor)
    uniform = point.floor == 1
    if not uniform and n_policies > 1:
        own = delta / 2 if early_stop else delta
        n_online = _rounds(problem, n_policies, epsilon, own, batch_size, point)
    return OnlineSchedule(
        problem=problem,
        n_policies=n_policies,
        epsilon=epsilon,
        delta=delta,
        batch_size=batch_size,
        early_stop=early_stop,
        n_rounds=n_uniform if uniform else n_online,
        floor=point.floor,
        scale=point.scale,
        rate=point.rate,
        alpha=point.alpha,
        growth=largest_growth(reach, point.rate),
        share=smallest_share(reach, point.alpha),
        drift=_drift(problem, batch_size, point),
        n_online=n_online,
        n_uniform=n_uniform,
        reasons={
            "n_rounds": f"uniform lists, Bernstein on paired differences; learnt online {n_online:,}"
            if uniform
            else f"learnt online; uniform lists {n_uniform:,}",
            "floor": "uniform lists, as they need fewer rounds" if uniform else "of uniform lists",
            "scale": f"of the estimates, {reach:.3g} at the end of their range",
        },
    )


def closed_form_rounds(problem: Problem, *, n_policies: int, epsilon: float, delta: float) -> int:
    """(★) at γ = ½, η = 2, α = 1, λ = min(ε/(4.79ρs), m/(2ρK)), where Φ = 1 and k = e − 2.

    >>> import comband as cb
    >>> closed_form_rounds(cb.Problem(100, 5, 1), n_policies=100, epsilon=0.05, delta=0.05)
    80151
    """
    rho, s, ratio = problem.max_reward, sparsity_of(problem), problem.n_actions / problem.list_size
    eps = check_positive("epsilon", epsilon)
    logs = 4.4 * math.log(check_count("n_policies", n_policies)) - 7.2 * math.log(check_fraction("delta", delta))
    return math.ceil(max(4.79 * rho * s / eps**2, 2 * rho * ratio / eps) * logs)


def _range(problem: Problem, floor: float) -> float:
    """b."""
    return problem.max_reward / (floor * problem.uniform_propensity)


def _drift(problem: Problem, batch_size: int, point: Point) -> float:
    """A: by how much log ⟨p, e^(ηψ)⟩ grows in a round on average, at most."""
    rho, s = problem.max_reward, sparsity_of(problem)
    b = _range(problem, point.floor)
    growth = largest_growth(point.scale * b, point.rate) * point.scale**2
    single = rho * b  # E R(π)² ≤ ρ·E Σ r/Q ≤ ρb, for every policy by itself and for batches of any size
    if point.floor < 1:
        z = batch_size * growth * rho * b if batch_size > 1 else 0.0
        factor = (math.inf if z > 700 else math.expm1(z) / z) if z else 1.0
        single = min(single, rho * s / (1 - point.floor) * factor)
    return growth * single * (1 + _ROUNDING)


def _log_terms(n_policies: int, delta: float, rate: float, kappa: float, share: float) -> float:
    return (1 + kappa / rate) * math.log(n_policies) - (1 + kappa / rate + 1 / share) * math.log(delta)


def _exact_rounds(
    problem: Problem, n_policies: int, epsilon: float, delta: float, batch_size: int, point: Point
) -> float:
    """(★); infinite where it promises nothing."""
    share = smallest_share(point.scale * _range(problem, point.floor), point.alpha)
    if share <= 0:
        return math.inf
    kappa, most = 1 + point.alpha / share, point.scale * epsilon
    below = most - kappa * _drift(problem, batch_size, point) / point.rate
    if below <= 1e-6 * most:
        return math.inf
    return _log_terms(n_policies, delta, point.rate, kappa, share) / below


def _rounds(problem: Problem, n_policies: int, epsilon: float, delta: float, batch_size: int, point: Point) -> int:
    return math.ceil(_exact_rounds(problem, n_policies, epsilon, delta, batch_size, point) * (1 + _ROUNDING))


def _best_point(
    problem: Problem, n_policies: int, epsilon: float, delta: float, batch_size: int, *, floor: float | None = None
) -> Point:
    """The free parameters for which T is smallest, as far as a search from three starts finds them."""
    rho, s = problem.max_reward, sparsity_of(problem)

    def point(v: list[float]) -> Point:
        reach, rate, alpha = (math.exp(min(max(x, -25.0), 8.0)) for x in v[:3])
        gamma = 1 / (1 + math.exp(-min(max(v[3], -30.0), 30.0))) if floor is None else floor
        return Point(gamma, reach / _range(problem, gamma), rate, alpha)

    def objective(v: list[float]) -> float:
        at = point(v)
        reach = at.scale * _range(problem, at.floor)
        if reach > 20 or at.rate * bend(reach) > 30:
            return 1e3
        found = _exact_rounds(problem, n_policies, epsilon, delta, batch_size, at)
        return math.log(found) if found < math.inf else 1e3

    best, least = None, math.inf
    for start in (-2.0, -0.5, 1.0) if floor is None else (0.0,):
        gamma = point([0.0, 0.0, 0.0, start]).floor
        b = _range(problem, gamma)
        second = s / (1 - gamma) if gamma < 1 else b
        scale = epsilon / (4.79 * rho * second)
        if gamma < 1 and batch_size > 1:
            scale = min(scale, 0.5 / math.sqrt(batch_size * rho * b))
        reach = min(scale * b, 1.0)
        for sharp in (1.0, 0.5 / bend(reach)):
            v = [math.log(reach), math.log(2 * sharp), math.log(sharp), start][: 4 if floor is None else 3]
            options = {"maxiter": 1500, "xatol": 1e-4, "fatol": 1e-7}
            found = minimize(objective, v, method="Nelder-Mead", options=options)
            if found.fun < least:
                best, least = point(list(found.x)), float(found.fun)
    assert best is not None  # every start is a feasible point
    return best
