"""Algorithms 1 and 3 as straight lines of plain Python, from the printed page; nothing of the library is used.

Only the order in which random numbers are taken is the library's: m for a uniform list in phase 1; in phase 2 one that
chooses between γ and a policy, then m.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Trace:
    """What happened, stage by stage."""

    lists_1: list[list[int]] = field(default_factory=list)
    p: list[list[float]] = field(default_factory=list)  # p_1, …, p_{T+1}
    lists_2: list[list[int]] = field(default_factory=list)
    q_2: list[list[float]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    answer: int = -1
    margin: float = float("inf")  # smallest lead of a maximiser: near 0 the choice would be a matter of taste


def uniform_list(K: int, m: int, rng: np.random.Generator) -> list[int]:
    """Floyd's algorithm."""
    u = [rng.random() for _ in range(m)]
    chosen: list[int] = []
    for k in range(m):
        top = K - m + k
        y = int(u[k] * (top + 1))
        chosen.append(top if y in chosen else y)
    return chosen


def erm(trace: Trace, table: list[list[list[int]]], data: list[tuple[int, dict[int, float]]]) -> int:
    """argmax_π Σ_i Σ_{y∈π(x_i)} r̂_i(y)."""
    totals = [sum(r.get(y, 0.0) for x, r in data for y in policy[x]) for policy in table]
    best = max(range(len(totals)), key=lambda j: totals[j])
    second = max(t for j, t in enumerate(totals) if j != best)
    trace.margin = min(trace.margin, (totals[best] - second) / max(totals[best], 1e-300))
    return best


def mixed(table: list[list[list[int]]], p: list[float], gamma: float, x: int, y: int, share: float) -> float:
    """Q^γ_{x,y}(p), share = m/K."""
    return (1 - gamma) * sum(pj for pj, policy in zip(p, table, strict=True) if y in policy[x]) + gamma * share


def run(
    table: list[list[list[int]]],
    K: int,
    m: int,
    rows: list[tuple[int, list[float]]],
    *,
    n_explore: int,
    n_estimate: int,
    n_steps: int,
    gamma: float,
    rng: np.random.Generator,
    single_label: bool,
) -> Trace:
    trace = Trace()
    seen: list[tuple[int, dict[int, float]]] = []
    for x, r in rows[:n_explore]:
        a = uniform_list(K, m, rng)
        rng.random()  # for the order in which it is shown
        trace.lists_1.append(sorted(a))
        seen.append((x, {y: r[y] for y in a}))
    if single_label:  # keep the labelled examples; each has weight 1/|S|
        seen = [(x, r) for x, r in seen if any(r.values())]
        scale = 1 / len(seen)
    else:
        scale = K / m / n_explore

    # p_1: the delta distribution on the policy of largest estimated reward (the text leaves it open)
    first = erm(trace, table, [(x, {y: scale * v for y, v in r.items()}) for x, r in seen])
    p = [1.0 if j == first else 0.0 for j in range(len(table))]
    trace.p.append(p)
    for t in range(1, n_steps + 1):
        weighted = [
            (x, {y: (1 - gamma) * scale * v / mixed(table, p, gamma, x, y, m / K) for y, v in r.items()})
            for x, r in seen
        ]
        found = erm(trace, table, weighted)
        eta = 2 / (2 + t)
        p = [(1 - eta) * pj + (eta if j == found else 0.0) for j, pj in enumerate(p)]
        trace.p.append(p)

    data: list[tuple[int, dict[int, float]]] = []
    for x, r in rows[n_explore : n_explore + n_estimate]:
        u = rng.random()
        a = uniform_list(K, m, rng)
        if u >= gamma:
            v, j, total = (u - gamma) / (1 - gamma), 0, p[0]
            while total <= v and j < len(p) - 1:
                j += 1
                total += p[j]
            a = table[j][x]
        rng.random()  # for the order
        a = sorted(a)
        q = [mixed(table, p, gamma, x, y, m / K) for y in a]
        trace.lists_2.append(a)
        trace.q_2.append(q)
        data.append((x, {y: r[y] / qy for y, qy in zip(a, q, strict=True)}))
    trace.answer = erm(trace, table, data)
    trace.values = [sum(r.get(y, 0.0) for x, r in data for y in policy[x]) / n_estimate for policy in table]
    return trace
