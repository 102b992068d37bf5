"""Small worlds with exact values, in which wrong certifications are easy to make and quick to find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb

K, M, N, P = 10, 2, 12, 8


@dataclass(frozen=True)
class SmallWorld:
    problem: cb.Problem
    policies: cb.PolicySet
    chances: NDArray[np.float64]
    values: NDArray[np.float64]

    def play(self, learner: cb.Learner, n: int, rng: np.random.Generator) -> None:
        """n rounds of at most one click, of which it is told where, or that there was one."""
        x = rng.integers(len(self.chances), size=n)
        label = (rng.random(n)[:, None] >= np.cumsum(self.chances, axis=1)[x]).sum(axis=1)
        decisions = learner.ask(x)
        clicked = decisions.lists == label[:, None]
        learner.tell(decisions, (clicked.any(axis=1) if self.problem.feedback == "total" else clicked).astype(float))


def small_world(kind: str, seed: int) -> SmallWorld:
    """Kinds: "clustered" (a continuum of quality), "needle" (one good among random ones), "equal", and "crowd"."""
    rng = np.random.default_rng([seed, 77])
    problem = cb.Problem(n_actions=K, list_size=M, sparsity=1)
    taste = rng.standard_normal((N, K))
    chances = np.zeros((N, K))
    profile = 0.8 * 0.75 ** np.arange(6) / (0.75 ** np.arange(6)).sum()
    np.put_along_axis(chances, np.argsort(-taste, axis=1)[:, :6], profile, axis=1)
    if kind == "clustered":
        scores = [taste + noise * rng.standard_normal((N, K)) for noise in np.linspace(0.3, 1.5, P)]
    elif kind == "needle":
        scores = [rng.standard_normal((N, K)) for _ in range(P - 1)] + [taste + 0.3 * rng.standard_normal((N, K))]
    elif kind == "crowd":
        # Actions 0 and 1 please everybody a little, and all but the best candidate show one of them; the best shows two
        # others that are wanted more. What the crowd agrees on is shown more often.
        chances[:] = 0.02
        chances[:, :2], chances[:, 8:] = 0.2, 0.24
        scores = [rng.standard_normal((N, K)) + 9.0 * (np.arange(K) == p % 2) for p in range(P - 1)]
        scores = [s - 9.0 * (np.arange(K) >= 8) for s in scores]
        scores.append(np.tile(9.0 * (np.arange(K) >= 8), (N, 1)))
    else:
        chances[:] = 0.8 / K
        scores = [rng.standard_normal((N, K)) for _ in range(P)]
    lists = np.stack([np.argsort(-s, axis=1)[:, :M] for s in scores])
    values = np.array([np.take_along_axis(chances, rows, axis=1).sum(axis=1).mean() for rows in lists])
    return SmallWorld(problem, cb.PolicySet.from_lists(lists, problem), chances, values)
