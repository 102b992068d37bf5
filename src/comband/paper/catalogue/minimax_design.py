"""Claim: minimising the largest variance directly gains nothing without a floor, and next to nothing with one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog

from comband.paper.catalogue.finite_world import Floats
from comband.paper.checks import Largest
from comband.paper.claim import Claim, Plan
from comband.paper.figures import limit, panel, trend
from comband.paper.records import Record, Setting, Values, group_by


def proxies(A: Floats, w: Floats, p: Floats, *, floor: float, uniform: float) -> Floats:
    """V_π(p) = Σ_e w_e A[e, π]/Q_e for every policy, (P,)."""
    return np.asarray((w / ((1 - floor) * A @ p + floor * uniform)) @ A)


def log_barrier(A: Floats, w: Floats, *, floor: float, uniform: float, steps: int = 200_000) -> Floats:
    """The minimiser of −Σ w·log Q, by multiplicative updates, which need no solver: p ← p·V/(Σ p·V)."""
    p = np.full(A.shape[1], 1 / A.shape[1])
    for _ in range(steps):
        V = proxies(A, w, p, floor=floor, uniform=uniform)
        if V.max() <= (1 + 1e-9) * (p @ V):
            break
        p = p * V / (p @ V)
    return np.asarray(p / p.sum())


def minimax(
    A: Floats, w: Floats, start: Floats, *, floor: float, uniform: float, steps: int = 400
) -> tuple[float, float]:
    """Bounds from below and above on min_p max_π V_π(p), by cutting planes (Kelley).

    Every V_π is convex in p, so its tangents at the points visited lie below it; their linear program bounds the
    minimum from below and says where to look next.
    """
    n = A.shape[1]
    p, best, lowest = start, np.inf, 0.0
    rows: list[Floats] = []
    levels: list[Floats] = []
    for _ in range(steps):
        Q = (1 - floor) * A @ p + floor * uniform
        V = (w / Q) @ A
        best = min(best, float(V.max()))
        slopes = -(1 - floor) * (A * (w / Q**2)[:, None]).T @ A
        rows.append(np.column_stack([slopes, -np.ones(n)]))
        levels.append(slopes @ p - V)
        program = linprog(
            np.append(np.zeros(n), 1.0),
            A_ub=np.concatenate(rows),
            b_ub=np.concatenate(levels),
            A_eq=np.append(np.ones(n), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, 1)] * n + [(0, None)],
        )
        lowest = max(lowest, float(program.fun))
        if best - lowest <= 1e-6 * best:
            break
        # Half-way to the program's answer: cutting planes alone jump from corner to corner.
        p = (p + np.maximum(program.x[:n], 0)) / 2
        p = p / p.sum()
    return lowest, best


def instance(kind: str, rng: np.random.Generator, *, floor: float, uniform: float) -> tuple[Floats, Floats]:
    """Incidence (E, P) and weights (E,): policies at random, or a construction that is bad for the log-barrier."""
    if kind == "random":
        A = (rng.random((60, 10)) < rng.uniform(0.05, 0.6, 10)).astype(float)
        A[A.sum(axis=1) == 0, 0] = 1.0
        w = rng.exponential(size=60)
        return A, w / w.sum()
    # Each pair of b sets shares an event, each has one of its own, and one more set holds all shared events. The
    # weights make all V equal at a p that gives the last set a share: the log-barrier's optimum, not the maximum's.
    b = int(rng.integers(3, 9))
    pairs = list(itertools.combinations(range(b), 2))
    A = np.zeros((len(pairs) + b, b + 1))
    for event, pair in enumerate(pairs):
        A[event, [*pair, b]] = 1
    A[len(pairs) + np.arange(b), np.arange(b)] = 1
    share = rng.uniform(0.02, 0.4)
    p = np.append(np.full(b, (1 - share) / b), share)
    counts = np.append(np.full(len(pairs), 1 / len(pairs)), np.full(b, 1 - (b - 1) / len(pairs)))
    w = counts * ((1 - floor) * A @ p + floor * uniform)
    return A, w


def measure(setting: Setting, seed: int) -> Values:
    """The largest variance at the log-barrier's optimum, over bounds on the smallest possible."""
    rng = np.random.default_rng([seed, round(100 * setting["floor"])])
    gamma, u = setting["floor"], setting["uniform"]
    A, w = instance(setting["kind"], rng, floor=gamma, uniform=u)
    p = log_barrier(A, w, floor=gamma, uniform=u)
    reached = float(proxies(A, w, p, floor=gamma, uniform=u).max())
    lowest, best = minimax(A, w, p, floor=gamma, uniform=u)
    return {"ratio": reached / lowest, "gained": reached / best, "mass": reached / w.sum()}


def draw(records: Sequence[Record], figure: Any) -> None:
    """The ratio against the floor."""
    axes = panel(figure.subplots(), "largest variance of a policy", "floor γ", "log-barrier over minimax", log="")
    for number, (kind, group) in enumerate(group_by(records, "kind").items()):
        trend(axes, group, "floor", "ratio", label=kind, number=number)
    limit(axes, 1.0, "no difference")
    axes.legend()


def _plan(n_seeds: int) -> Plan:
    settings = [{"kind": "random", "floor": 0.0, "uniform": 0.1}]
    settings += [
        {"kind": kind, "floor": floor, "uniform": 0.1}
        for kind in ("random", "constructed")
        for floor in (0.1, 0.5, 0.9)
    ]
    return Plan(settings, n_seeds)


CLAIM = Claim(
    name="minimax-design",
    title="Minimising the largest variance directly gains nothing without a floor, and at most a few percent with one",
    source="comband's own; the paper suggests to minimise the norm of the gradient directly",
    statement="The design could minimise the largest variance proxy of a policy itself, instead of the log-barrier "
    "potential whose gradient it is. Without a floor (γ = 0) both have the same optimum. With one they differ, by "
    "less than 5 percent in the worst instances that we could build.",
    method="Random incidences of 60 events and 10 policies, and a construction that is bad for the log-barrier. The "
    "smallest possible maximum is bounded from both sides by cutting planes; the ratios are over the lower bound.",
    checks=(
        Largest("Largest ratio without a floor", "ratio", (1 - 1e-5, 1 + 1e-4), {"floor": 0.0}),
        Largest("Largest variance over Σw without a floor (theory: 1)", "mass", (1 - 1e-5, 1 + 1e-4), {"floor": 0.0}),
        Largest("Largest ratio with a floor", "ratio", (1 - 1e-5, 1.05)),
        Largest("Largest ratio with a floor, of the construction: they do differ", "gained", (1.001, 1.05)),
    ),
    quick=_plan(4),
    full=_plan(30),
    measure=measure,
    draw=draw,
    remarks="Without a floor Σ_π p(π)V_π(p) = Σw for every p, so that no maximum is below Σw; at the log-barrier's "
    "optimum every V_π is at most Σw.",
)
