"""Phase 1 in worlds where one action pays: what any number of uniform rounds finds, drawn exactly and at once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from comband.experiments.catalogue.finite_world import FiniteWorld, graded_world
from comband.problem import Problem
from comband.rounds import Events

Kind = Literal["mixed", "rare"]


def label_world(
    kind: Kind, problem: Problem, *, n_contexts: int, n_policies: int, rng: np.random.Generator
) -> FiniteWorld:
    """Policies right in 5 … 70% of the contexts ("mixed"), or three good ones among many hardly ever right ("rare").

    Among rare good ones a uniform mixture has a large variance: there phase 1 has something to find.
    """
    if kind == "mixed":
        shares = np.linspace(0.05, 0.7, n_policies)
    else:
        shares = np.full(n_policies, 0.5 * problem.uniform_propensity)
        shares[:3] = 0.7, 0.5, 0.5
    return graded_world(problem, n_contexts, shares, rng)


def uniform_hits(world: FiniteWorld, n: int, rng: np.random.Generator) -> Events:
    """The rewards of n uniform lists where every context has one paying action: at most one event for each context.

    A list shows that action with probability m/K whatever the context is, so that the hits of each context are
    multinomial; an event's reward is their number, and w = r/(n·q) is what n single rounds would have.
    """
    N = len(world.relevant)
    counts = rng.multinomial(rng.binomial(n, world.problem.uniform_propensity), np.full(N, 1 / N))
    hit = np.flatnonzero(counts)
    return Events(
        n_rounds=n,
        ids=np.arange(len(hit)),
        versions=np.zeros(len(hit), dtype=np.int64),
        contexts=hit,
        rows=np.arange(len(hit)),
        actions=world.relevant[hit, 0].astype(np.int32),
        rewards=counts[hit].astype(np.float64),
        propensities=np.full(len(hit), world.problem.uniform_propensity),
    )
