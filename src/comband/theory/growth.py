"""How many different policies an infinite class really has on finitely many contexts or events.

Estimates see a policy only through bits 1[y_e ∈ π(x_e)], so the dimension that matters is that of
(x, y) ↦ 1[y ∈ π(x)]; for m = 1 it is the graph dimension. For the top m of a linear score w·φ(x, y), w ∈ R^d, ties by a
fixed order, lists are decided by comparisons 1[w·(φ(x, y) − φ(x, z)) ≥ 0]. M vectors are split by homogeneous
half-spaces, which have dimension d, in at most Σ_{i≤d} C(M, i) ways (Sauer).
"""

from __future__ import annotations

import math

from comband.page.problem import InputError, Problem, check_count, check_problem
from comband.theory.letters import smallest_count

_MOST_BITS = 100_000  # of a number of patterns: 30,000 digits, and seconds to compute


def linear_list_growth(problem: Problem, *, n_features: int, n_contexts: int) -> int:
    """A bound on the ways in which top-m linear scorers in R^d can choose lists for n contexts: M = nK(K−1)/2.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_features:
        d, how many features a context has.
    n_contexts:
        n, how many contexts there are.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.linear_list_growth(problem, n_features=2, n_contexts=10) < 10**9
    True
    """
    K = check_problem(problem).n_actions
    return _sauer(check_count("n_contexts", n_contexts) * K * (K - 1) // 2, check_count("n_features", n_features))


def linear_event_growth(problem: Problem, *, n_features: int, n_events: int) -> int:
    """A bound on the bit patterns 1[y_e ∈ π(x_e)] of E events: y_e is compared with K−1 others, so M = E(K−1).

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_features:
        d, how many features a context has.
    n_events:
        E, how many rewarded items there are.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.linear_event_growth(problem, n_features=2, n_events=10) < 2**20
    True
    """
    E, d = check_count("n_events", n_events), check_count("n_features", n_features)
    K = check_problem(problem).n_actions
    if d >= E and K > 1:
        return _sauer(E, E)  # 2^E, which Σ_{i≤d} C(E(K−1), i) is no smaller than
    compared = _sauer(E * (K - 1), d)
    return compared if compared.bit_length() <= E else 1 << E


def linear_dimension(problem: Problem, *, n_features: int) -> int:
    """A bound on the dimension of (x, y) ↦ 1[y ∈ π(x)]: the most events that `linear_event_growth` lets be shattered.

    At most 2d·log₂(e(K−1)) for K ≥ 3.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_features:
        d, how many features a context has.

    >>> linear_dimension(Problem(20, 3), n_features=2) <= 4 * math.log2(19 * math.e)
    True
    """
    d = check_count("n_features", n_features)
    K = check_problem(problem).n_actions
    # No E beyond 2d·log₂(e(K−1)) can be shattered if K ≥ 3, and none beyond d if K = 2.
    simple = 2 * d * math.log2(math.e * max(K - 1, 2))
    if simple > _MOST_BITS:
        raise InputError(f"n_features must be smaller, got {d:,}: take 2d·log₂(e(K−1)) = {simple:.4g} for the bound.")
    # S(M) = Σ_{i≤d} C(M, i) is log-concave: S(M+1)/S(M) = 2 − C(M, d)/S(M), and every C(M, i)/C(M, d), i < d, falls
    # with M. So log₂ S(E(K−1)) − E is concave in E and 0 at E = 0: where it is not negative is a stretch from there.
    return smallest_count(lambda E: _sauer(E * (K - 1), d).bit_length() <= E) - 1


def blend_list_growth(problem: Problem, *, n_contexts: int) -> int:
    """A bound on the list assignments of all blends (1−t)·a + t·b, t ∈ [0, 1], on n contexts: 2nm(K−m) + 1.

    As t grows, a context's set changes only to actions whose scores rise faster: their ranks by slope sum to more each
    time, which can happen m(K−m) times. Between the at most nm(K−m) changes, and at each of them, there is one pattern.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    n_contexts:
        n, how many contexts there are.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=50, list_size=5, sparsity=1)
    >>> cb.theory.blend_list_growth(problem, n_contexts=10)  # 2·10·5·45 + 1
    4501
    """
    K, m = check_problem(problem).n_actions, problem.list_size
    return 2 * check_count("n_contexts", n_contexts) * m * (K - m) + 1


def _sauer(points: int, dimension: int) -> int:
    """Σ_{i≤d} C(M, i) exactly, if it can be written out."""
    if dimension >= points:
        dimension, bits = points, float(points)
    else:
        bits = dimension * math.log2(math.e * points / dimension)
    if bits > _MOST_BITS:
        raise InputError(
            f"the bound is about 2 to the power {bits:.3g}, which is too large to be written out: its logarithm is at "
            "most d·log(e·M/d) for d features and M comparisons."
        )
    if dimension == points:
        return 1 << points
    total = term = 1
    for i in range(dimension):
        term = term * (points - i) // (i + 1)
        total += term
    return total
