"""How many rounds to hold out for the certificate of a design (`Design.certify`)."""

from __future__ import annotations

import math

from comband.problem import Problem, check_count, check_fraction, check_problem
from comband.theory.letters import sparsity_of


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
