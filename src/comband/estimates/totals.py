"""Values of many policies from totals: what a list's total says about each policy, by how much they overlap.

For a list a of share q(a) = P(a | x)·C(K−1, m−1), with total T and |π∩a| actions of π(x) in it, R(π) = T·|π∩a|/q(a) has
mean

    Σ_a T(a)·|π∩a| / C(K−1, m−1)  =  Σ_{y, z} r(y)·1[z ∈ π]·#{a ∋ y, z} / C(K−1, m−1)  =  (1−f)·V(π) + f·m·‖r‖₁,

because a pair y ≠ z is together in C(K−2, m−2) lists, f = (m−1)/(K−1) of those that hold y. So R(π) − R(ℓ), divided by
1−f, is unbiased for V(π) − V(ℓ), and T(|π∩a| − f·m)/((1−f)·q(a)) for V(π). Every list must be possible.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from comband.estimates.importance import SharedActions, ValueSums
from comband.policies.policy_set import PolicySet
from comband.problem import Problem
from comband.rounds import Events


def total_values(events: Events, policies: PolicySet, problem: Problem) -> ValueSums:
    """Sums over rounds of X_t(π) = T(|π∩a| − f·m)/((1−f)·q(a)), unbiased for V(π), and of its square.

    `events` are those of `TotalRounds.events`: all m actions of a rewarded round, each credited with T/((1−f)·q(a)).
    X may be negative; it lies in an interval of length `theory.estimate_range`.
    """
    result = ValueSums.zero(len(policies), n_rounds=events.n_rounds)
    for values in total_round_values(events, policies, problem):
        result.add(values)
    return result


def total_round_values(events: Events, policies: PolicySet, problem: Problem) -> Iterator[NDArray[np.float64]]:
    """X_t(π) of all rewarded rounds t and policies π, in blocks (rounds, P) of bounded size."""
    weights = events.rewards / events.propensities
    excess = problem.fill_share * np.bincount(events.rows, weights, minlength=events.n_rewarded)
    for block in SharedActions.blocks(policies, events.contexts, events.rows, events.actions):
        yield block.sums(weights) - excess[block.rounds, None]
