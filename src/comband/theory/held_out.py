"""How many rounds to hold out for the certificate of a design (`Design.certify`)."""

from __future__ import annotations

import math

from comband.page.problem import Problem, check_count, check_fraction, check_problem
from comband.statistics.chernoff import largest_mean
from comband.theory.estimation import estimate_rounds, estimate_variance
from comband.theory.joint import smallest_total
from comband.theory.letters import design_letters, smallest_count, sparsity_of

_HOPED_FOR = 1.3  # the largest average on held-out rounds in multiples of s/(1−γ), where planning must assume one


def held_out_plan(
    problem: Problem, *, n_policies: int, epsilon: float, delta: float, floor: float = 0.5
) -> tuple[int, int, float]:
    """How many rounds to hold out, what phase 2 then needs, and the proxy that would be certified: of the smallest sum,
    with as many rounds for the design as are held out, if the design turns out to be worth 1.3·s/(1−γ) on them. At
    least so many that the certificate would be half of what the floor alone gives, or twice that worth.

    A plan: the certificate holds for any number of rounds, and phase 2 follows from what it says. δ/2 is for each.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    epsilon, delta:
        The promise.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> n_verify, n_estimate, proxy = held_out_plan(cb.Problem(100, 5, 1), n_policies=100, epsilon=0.05, delta=0.05)
    >>> 5_000 < n_verify < n_estimate, 2.6 < proxy
    (True, True)
    """
    gamma, K, m, s, rho = design_letters(problem, floor)
    P, half = check_count("n_policies", n_policies), check_fraction("delta", delta) / 2
    u = m / K
    trivial, worth = rho / (gamma * u), _HOPED_FOR * s / (1 - gamma)

    def proxy_after(n: int) -> float:
        return min(largest_mean(worth, n=n, bound=trivial / u, log_odds=math.log(P / half)), trivial)

    def estimate_after(n: int) -> int:
        moment = estimate_variance(problem, floor=gamma, proxy=proxy_after(n))
        return estimate_rounds(problem, n_policies=P, epsilon=epsilon, delta=half, floor=gamma, second_moment=moment)

    least = smallest_count(lambda n: proxy_after(n) <= max(trivial / 2, 2 * worth))
    n = smallest_total(lambda n: 2 * n + estimate_after(n), least=least, most=10**15)
    return n, estimate_after(n), proxy_after(n)


def held_out_rounds(problem: Problem, *, n_policies: int, delta: float) -> int:
    """20·(ρ/s)(K/m)²·log(P/δ) uniform rounds: the certificate is then mostly within 1.5 times the truth.

    Chernoff's exponent b·log(P/δ)/n, b = ρ(K/m)²/γ, is then s/(20γ), a tenth of s at γ = ½, against proxies of about
    s/(1−γ). The certificate holds for any number of rounds; this is one at which it is also tight.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_policies:
        P, how many candidates there are.
    delta:
        The probability with which the promise may fail.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.held_out_rounds(problem, n_policies=100, delta=0.05)  # 20·(K/m)²·log(P/δ)
    15202
    """
    P = check_count("n_policies", n_policies)
    ratio = check_problem(problem).max_reward / sparsity_of(problem) / problem.uniform_propensity**2
    return math.ceil(20 * ratio * math.log(P / check_fraction("delta", delta)))
