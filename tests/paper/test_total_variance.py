"""The second moments of the claim about totals, by enumeration of all lists."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from comband.page.problem import Problem
from comband.paper.catalogue import total_variance
from comband.paper.catalogue.finite_world import FiniteWorld, graded_world
from comband.statistics.pseudo_inverse import list_overlaps


def every_fill(world: FiniteWorld) -> np.ndarray:
    """All lists around the paying action of each context, once each."""
    K, m = world.problem.n_actions, world.problem.list_size
    return np.array(
        [
            [[y, *fill] for fill in combinations([z for z in range(K) if z != y], m - 1)]
            for y in world.relevant[:, 0].tolist()
        ],
        dtype=np.int32,
    )


@pytest.mark.parametrize(("K", "m"), [(6, 2), (7, 3)])
def test_moments_by_enumeration(K: int, m: int) -> None:
    rng = np.random.default_rng(K)
    problem = Problem(K, m, 1, "total")
    world = graded_world(problem, 6, np.array([0.7, 0.5, 0.2, 0.3]), rng)
    p, gamma, f = rng.dirichlet(np.ones(4)), total_variance.FLOOR, problem.fill_share
    around = every_fill(world)
    table = np.moveaxis(world.lists, 0, 1).astype(np.int32)
    found = total_variance.midzuno_moments(p, list_overlaps(table, around), problem)
    by_inverse = total_variance.pseudo_inverse_moments(world, p, around)
    squares, plain, inverse = np.zeros(4), np.zeros(4), np.zeros(4)
    for x in range(6):
        Pi = np.array([[y in mine for y in range(K)] for mine in world.lists[:, x].tolist()], dtype=float)
        A = np.array([[y in a for y in range(K)] for a in combinations(range(K), m)], dtype=float)
        T, q = A[:, world.relevant[x, 0]], (1 - gamma) * (A @ Pi.T @ p) / m + gamma * m / K
        R = T[:, None] * (A @ Pi.T) / q[:, None] / (1 - f)
        law = q / comb(K - 1, m - 1)
        assert law.sum() == pytest.approx(1)
        squares += law @ (R - R[:, :1]) ** 2 / 6
        plain += law @ R**2 / 6
        C = gamma * A.T @ A / len(A) + (1 - gamma) * (Pi.T * p) @ Pi
        law = np.full(len(A), gamma / len(A))
        for k in range(4):
            law[(Pi[k] == A).all(axis=1)] += (1 - gamma) * p[k]
        B = A @ np.linalg.solve(C, (Pi - Pi[0]).T)
        inverse += (law * T) @ B**2 / 6
    np.testing.assert_allclose(found[0], squares, rtol=1e-10)
    np.testing.assert_allclose(found[1], plain, rtol=1e-10)
    np.testing.assert_allclose(by_inverse, inverse, rtol=1e-9, atol=1e-12)
