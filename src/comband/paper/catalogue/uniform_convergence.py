"""Claim: a design made from N₁ uniform rounds is as good on the population, up to an error that falls with N₁."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from comband.explore.design import design_exploration
from comband.explore.oracles.enumeration import EnumerationOracle
from comband.explore.solvers.stopping import Stopping
from comband.page.problem import Problem
from comband.page.rounds import Events, Rounds
from comband.paper.catalogue.finite_world import FiniteWorld, Floats, potential, random_world
from comband.paper.checks import Slope
from comband.paper.claim import Claim, Plan
from comband.paper.figures import guide, panel, trend
from comband.paper.records import Record, Setting, Values, group_by
from comband.policies.mixture import Mixture

TIGHT = Stopping(relative_gap=1e-7, max_calls=2000)


def measure(setting: Setting, seed: int) -> Values:
    """F(p̂) − min F on the population, for p̂ made from N₁ uniform rounds."""
    problem = Problem(setting["K"], setting["m"], setting["s"])
    world = random_world(problem, 150, 30, np.random.default_rng([seed, 0]))
    events = uniform_rounds(world, setting["rounds"], np.random.default_rng([seed, 1]))
    return {"excess": excess(world, events), "problem": f"K={setting['K']}, m={setting['m']}, s={setting['s']}"}


def uniform_rounds(world: FiniteWorld, n: int, rng: np.random.Generator) -> Events:
    """Phase 1: what n uniform lists find."""
    policies = world.policies
    uniform = Mixture(policies, np.full(len(policies), 1 / len(policies)), problem=world.problem, floor=1.0)
    events = Events.none()
    for start in range(0, n, 200_000):
        batch = world.sample(min(200_000, n - start), rng)
        decisions = uniform.draw(batch.contexts, rng)
        events += Rounds(decisions, batch.answer(decisions.lists)).events()
    return events


def excess(world: FiniteWorld, events: Events, *, floor: float = 0.5) -> float:
    """F(p̂) − min F ≥ 0 on the population, p̂ the minimiser for `events`."""
    oracle, inside, problem = EnumerationOracle(world.policies), world.incidence(), world.problem

    def value(source: Events) -> float:
        design = design_exploration(source, oracle, problem=problem, floor=floor, stopping=TIGHT)
        p: Floats = design.mixture.weights
        return potential(inside, p, problem, floor)

    return max(value(events) - value(world.population()), 1e-9)


def draw(records: Sequence[Record], figure: Any) -> None:
    """Excess against rounds, one line a problem."""
    axes = panel(figure.subplots(), "phase 1", "uniform rounds N₁", "F(p̂) − min F on the population")
    for number, (name, group) in enumerate(group_by(records, "problem").items()):
        trend(axes, group, "rounds", "excess", label=name, number=number)
    levels = sorted({r["rounds"] for r in records})
    top = max(r["excess"] for r in records if r["rounds"] == levels[0])
    guide(axes, levels, top, -0.5, "slope −1/2, as the lemma promises")
    axes.legend()


def _plan(rounds: Sequence[int], n_seeds: int) -> Plan:
    problems = ({"K": 10, "m": 1, "s": 1}, {"K": 20, "m": 2, "s": 1}, {"K": 20, "m": 3, "s": 3})
    return Plan([{**problem, "rounds": n} for problem in problems for n in rounds], n_seeds)


def _slope(name: str) -> Slope:
    return Slope(f"Slope of the excess in N₁, {name}", "rounds", "excess", (-np.inf, -0.4), {"problem": name})


CLAIM = Claim(
    name="uniform-convergence",
    title="A design from N₁ uniform rounds is good on the population, with an error of at most order N₁^(−1/2)",
    source="Lemma uniform-convergence",
    statement="Phase 1 shows N₁ uniform lists and minimises the potential on what they found. The excess over the "
    "population's minimum is at most of order 1/√N₁, for all mixtures at once.",
    method="Random worlds of 150 contexts and 30 policies, whose population potential is known exactly. N₁ uniform "
    "rounds, the design from them, and its excess on the population.",
    checks=(_slope("K=10, m=1, s=1"), _slope("K=20, m=2, s=1"), _slope("K=20, m=3, s=3")),
    quick=_plan((2_000, 8_000, 32_000, 128_000), 6),
    full=_plan((2_000, 8_000, 32_000, 128_000, 512_000, 2_048_000), 20),
    measure=measure,
    draw=draw,
    remarks="The lemma is an upper bound, so a steeper fall supports it. Slopes near −1 are what one expects where "
    "the potential is curved at its minimum: the lemma's N₁, of order 1/μ², is then far more than needed.",
)
