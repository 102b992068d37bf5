"""Phase 1 in worlds where one action pays: what any number of uniform rounds finds, drawn exactly and at once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.paper.catalogue.finite_world import FiniteWorld, graded_world

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
    """The rewards of n uniform lists where every context has one paying action.

    A list shows that action with probability m/K whatever the context is: the hits are binomial, and rounds without
    one need not be drawn.
    """
    u = world.problem.uniform_propensity
    hits = int(rng.binomial(n, u))
    contexts = rng.integers(len(world.relevant), size=hits)
    return Events(
        n_rounds=n,
        ids=np.arange(hits),
        epochs=np.zeros(hits, dtype=np.int64),
        contexts=contexts,
        rows=np.arange(hits),
        actions=world.relevant[contexts, 0].astype(np.int32),
        rewards=np.ones(hits),
        propensities=np.full(hits, u),
    )
