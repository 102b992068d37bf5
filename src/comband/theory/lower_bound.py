"""Theorem lower-bound-formal: how many rounds every algorithm needs."""

from __future__ import annotations

from comband.page.problem import InputError, Problem, check_positive
from comband.theory.letters import sparsity_of


def lower_bound(problem: Problem, *, epsilon: float) -> float:
    """sm/(3072ε²): with fewer rounds some instance I_S defeats every algorithm (Theorem
    lower-bound-formal).

    On the unconditioned Bernoulli instance, any algorithm outputs an ε/2-suboptimal list with
    probability above ½ (the printed proof aims at ¼ and has a gap; docs/errata.md gives the
    repaired argument, which keeps 3072). It needs m ≤ K/12 and, for the text's "sufficiently
    small ε", ε ≤ s(K−m)/(4K) and s/K + ε/m ≤ 1. For rewards that are s-sparse *surely*, s must
    also be at least 6·log(4T), so that conditioning on ‖r‖₁ ≤ s costs probability at most ¼.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    epsilon:
        How much better than the answer another candidate may be.

    >>> import comband as cb
    >>> cb.theory.lower_bound(cb.Problem(120, 10, 10), epsilon=0.01) // 1
    325.0
    """
    eps = check_positive("epsilon", epsilon)
    s = sparsity_of(problem)
    K, m = problem.n_actions, problem.list_size
    if 12 * m > K:
        raise InputError(f"the lower bound needs list_size ≤ n_actions/12 = {K / 12:g}, got {m}.")
    limit = min(s * (K - m) / (4 * K), m * (1 - s / K))
    if eps > limit:
        raise InputError(f"the lower bound needs epsilon ≤ min(s(K−m)/(4K), m(1−s/K)) = {limit:g}, got {eps:g}.")
    return s * m / (3072 * eps**2)
