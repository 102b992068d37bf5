"""How many different policies an infinite class really has on finitely many contexts or events.

Estimates see a policy only through bits 1[y_e ∈ π(x_e)], so the dimension that matters is that of
(x, y) ↦ 1[y ∈ π(x)]; for m = 1 it is the graph dimension. For the top m of a linear score w·φ(x, y), w ∈ R^d, ties by a
fixed order, lists are decided by comparisons 1[w·(φ(x, y) − φ(x, z)) ≥ 0]. M vectors are split by homogeneous
half-spaces, which have dimension d, in at most Σ_{i≤d} C(M, i) ways (Sauer).
"""

from __future__ import annotations

import math

from comband.problem import Problem, check_count


def linear_list_growth(problem: Problem, *, n_features: int, n_contexts: int) -> int:
    """A bound on the ways in which top-m linear scorers in R^d can choose lists for n contexts: M = nK(K−1)/2."""
    K = problem.n_actions
    return _sauer(check_count("n_contexts", n_contexts) * K * (K - 1) // 2, check_count("n_features", n_features))


def linear_event_growth(problem: Problem, *, n_features: int, n_events: int) -> int:
    """A bound on the bit patterns 1[y_e ∈ π(x_e)] of E events: y_e is compared with K−1 others, so M = E(K−1)."""
    E = check_count("n_events", n_events)
    patterns: int = 2**E
    return min(patterns, _sauer(E * (problem.n_actions - 1), check_count("n_features", n_features)))


def linear_dimension(problem: Problem, *, n_features: int) -> int:
    """A bound on the dimension of (x, y) ↦ 1[y ∈ π(x)]: the most events that `linear_event_growth` lets be shattered.

    At most 2d·log₂(e(K−1)) for K ≥ 3.

    >>> linear_dimension(Problem(20, 3), n_features=2) <= 4 * math.log2(19 * math.e)
    True
    """
    d = check_count("n_features", n_features)
    # No E beyond 2d·log₂(e(K−1)) can be shattered if K ≥ 3, and none beyond d if K = 2.
    highest = math.ceil(2 * d * math.log2(math.e * max(problem.n_actions - 1, 2)))
    shattered = [E for E in range(1, highest + 1) if _sauer(E * (problem.n_actions - 1), d) >= 2**E]
    return max(shattered, default=0)


def blend_list_growth(problem: Problem, *, n_contexts: int) -> int:
    """A bound on the list assignments of all blends (1−t)·a + t·b, t ∈ [0, 1], on n contexts: 2nm(K−m) + 1.

    As t grows, a context's set changes only to actions whose scores rise faster: their ranks by slope sum to more each
    time, which can happen m(K−m) times. Between the at most nm(K−m) changes, and at each of them, there is one pattern.
    """
    K, m = problem.n_actions, problem.list_size
    return 2 * check_count("n_contexts", n_contexts) * m * (K - m) + 1


def _sauer(points: int, dimension: int) -> int:
    """Σ_{i≤d} C(M, i)."""
    return sum(math.comb(points, i) for i in range(dimension + 1))
