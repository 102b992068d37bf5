"""Claim: from totals, the variance of Midzuno's lists does not grow with K; that of pseudo-inverses does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband import theory
from comband.explore.design import design_exploration
from comband.page.problem import Problem
from comband.page.totals import TotalRounds
from comband.paper.catalogue.finite_world import FiniteWorld, graded_world
from comband.paper.checks import Bound, Largest, Slope
from comband.paper.claim import Claim, Plan, grid
from comband.paper.figures import panel, trend
from comband.paper.records import Record, Setting, Values
from comband.policies.midzuno import filled_lists
from comband.statistics.pseudo_inverse import list_overlaps, mixed_list_weights

FLOOR, LIST_SIZE, POLICIES, CONTEXTS = 0.5, 4, 48, 60
FILLS = 60  # lists around the paying action of each context, for averages over fills
DESIGN_STEPS = 25

Floats = NDArray[np.float64]


def lists_around(world: FiniteWorld, rng: np.random.Generator) -> NDArray[np.int32]:
    """(N, FILLS, m): the paying action of every context with uniform others; the only lists with a total above 0."""
    n, m = len(world.relevant), world.problem.list_size
    first = np.repeat(world.relevant[:, :1].astype(np.int32), FILLS, axis=0)
    return filled_lists(first, rng.random((n * FILLS, 2 * m)), world.problem).reshape(n, FILLS, m)


def midzuno_moments(p: Floats, overlaps: Floats, problem: Problem) -> tuple[Floats, Floats]:
    """E D² against policy 0 and E (R/(1−f))², (P,): E over fills of (N − N₀)²/q(a) and N²/q(a).

    `overlaps` (N, P, FILLS) are those of the policies with `lists_around`.
    """
    m, left = problem.list_size, 1 - problem.fill_share
    q = (1 - FLOOR) * np.einsum("p,npl->nl", p, overlaps) / m + FLOOR * problem.uniform_propensity
    gap = overlaps - overlaps[:, :1]
    squares, plain = ((z**2 / q[:, None]).mean(axis=(0, 2)) / left**2 for z in (gap, overlaps))
    return squares, plain


def pseudo_inverse_moments(world: FiniteWorld, p: Floats, around: NDArray[np.int32]) -> Floats:
    """E D² (P,) of T·(π − π₀)ᵀC⁻¹a, lists of the mixture with a share γ of uniform ones."""
    problem = world.problem
    table = np.ascontiguousarray(np.moveaxis(world.lists, 0, 1).astype(np.int32))
    own = list_overlaps(table, table)
    uniform = mixed_list_weights(own, list_overlaps(table, around), p, floor=FLOOR, problem=problem)
    shown = mixed_list_weights(own, own, p, floor=FLOOR, problem=problem)
    pays = world.incidence()[:, 0]
    by_lists = np.einsum("npk,k,nk->p", (shown - shown[:, :1]) ** 2, p, pays) / len(pays)
    by_uniform = ((uniform - uniform[:, :1]) ** 2).mean(axis=(0, 2)) * problem.uniform_propensity
    return np.asarray((1 - FLOOR) * by_lists + FLOOR * by_uniform)


def log_det(world: FiniteWorld) -> Floats:
    """A mixture that nearly maximises E log det C, by multiplicative steps p ← p·E πᵀC⁻¹π."""
    table = np.ascontiguousarray(np.moveaxis(world.lists, 0, 1).astype(np.int32))
    own = list_overlaps(table, table)
    p = np.full(len(world.lists), 1 / len(world.lists))
    for _ in range(DESIGN_STEPS):
        shown = mixed_list_weights(own, own, p, floor=FLOOR, problem=world.problem)
        p = p * np.einsum("npp->p", shown)
        p /= p.sum()
    return p


def measure(setting: Setting, seed: int) -> Values:
    """The largest E D² against the best policy over all others, for each way to learn from totals."""
    problem = Problem(setting["K"], LIST_SIZE, 1, "total")
    rng = np.random.default_rng([seed, setting["K"]])
    shares = np.linspace(0.7, 0.2, POLICIES)  # the best one first
    world = graded_world(problem, CONTEXTS, shares, rng)
    around = lists_around(world, rng)
    table = np.ascontiguousarray(np.moveaxis(world.lists, 0, 1).astype(np.int32))
    overlaps = list_overlaps(table, around)
    uniform = np.full(POLICIES, 1 / POLICIES)
    # Lists of positive totals as many as there are among n uniform ones: the design sees totals only.
    n = round(CONTEXTS * FILLS / problem.uniform_propensity)
    totals = TotalRounds.from_log(
        np.repeat(np.arange(CONTEXTS), FILLS),
        lists=around.reshape(-1, LIST_SIZE),
        totals=np.ones(CONTEXTS * FILLS),
        first_propensities=np.full((CONTEXTS * FILLS, LIST_SIZE), 1 / problem.n_actions),
        problem=problem,
    )
    design = design_exploration(replace(totals.events(), n_rounds=n), world.policies, problem=problem, floor=FLOOR)
    p = design.mixture.weights
    squares, plain = midzuno_moments(p, overlaps, problem)
    bound = theory.total_variance(problem, floor=FLOOR, proxy=1 / (1 - FLOOR) + design.gap)
    alone = midzuno_moments(np.eye(POLICIES)[-1], overlaps, problem)[1]
    return {
        "midzuno": squares.max(),
        "pseudo-inverse": pseudo_inverse_moments(world, uniform, around).max(),
        "log-det": pseudo_inverse_moments(world, log_det(world), around).max(),
        "arms": float(POLICIES * (shares[0] + shares[1])),
        "multiple": plain.max() / bound,
        "multiple_alone": alone.max() / bound,
    }


def draw(records: Sequence[Record], figure: Any) -> None:
    """E D² against K."""
    axes = figure.subplots(1, 1)
    panel(axes, f"m={LIST_SIZE}, {POLICIES} policies, one paying action", "number of actions K", "largest E D²")
    for number, name in enumerate(("arms", "log-det", "pseudo-inverse", "midzuno")):
        trend(axes, records, "K", name, label=name, number=number)
    axes.legend(fontsize=10)


CLAIM = Claim(
    name="total-variance",
    title="From totals alone, with a variance that does not grow with K",
    source="comband's own; the paper leaves full-bandit feedback open, and suggests a log-det design",
    statement="If only the total of a list is seen, differences of policies can be estimated with E D² free of the "
    "number of items K, by lists whose whole law is known (one item drawn from the design, the rest uniform) and the "
    "paper's log-barrier design. Pseudo-inverse estimates with uniform lists in the mixture grow in proportion to K, "
    "with a log-det design as well as without.",
    method=f"Worlds of {CONTEXTS} contexts with one paying action each and {POLICIES} policies that list it in 20 … "
    "70% of them, half of the lists uniform. Second moments of the difference to the best policy are computed exactly "
    "but for an average over uniform fills; the largest over all policies counts. The bound on E R² of the theorem is "
    "compared with the design, and for contrast with Midzuno's lists of the worst policy alone.",
    checks=(
        Slope("Midzuno's lists: slope in K of E D² (theory: 0 for large K)", "K", "midzuno", (-0.3, 0.3)),
        Slope("Pseudo-inverse: slope in K of E D²", "K", "pseudo-inverse", (0.6, 1.3)),
        Slope("Pseudo-inverse with a log-det design: slope in K of E D²", "K", "log-det", (0.6, 1.3)),
        Bound(
            Largest("Largest E R² in multiples of the theorem's bound", "multiple", (0, 1)),
            Largest("exploring with the worst policy alone", "multiple_alone", (0, 1)),
        ),
    ),
    quick=Plan(grid(K=[16, 32, 64, 128]), 3),
    full=Plan(grid(K=[16, 32, 64, 128, 256]), 10),
    measure=measure,
    draw=draw,
    remarks="At small K uniform fills often meet several actions of a list, which helps the pseudo-inverse; its slope "
    "approaches 1 from below.",
)
