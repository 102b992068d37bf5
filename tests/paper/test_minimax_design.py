"""The two optima that the claim compares, each against a solver of its own kind."""

from typing import Any

import cvxpy
import numpy as np
import pytest

from comband.paper.catalogue.minimax_design import instance, log_barrier, minimax, proxies


@pytest.mark.parametrize("kind", ["random", "constructed"])
@pytest.mark.parametrize("floor", [0.1, 0.5])
def test_against_cvxpy(kind: str, floor: float) -> None:
    A, w = instance(kind, np.random.default_rng(3), floor=floor, uniform=0.1)
    cp: Any = cvxpy  # its stubs do not list its atoms
    p = cp.Variable(A.shape[1], nonneg=True)
    Q = (1 - floor) * (A @ p) + floor * 0.1
    t = cp.Variable()
    cp.Problem(cp.Minimize(t), [cp.sum(p) == 1, (A * w[:, None]).T @ cp.inv_pos(Q) <= t]).solve(solver=cp.CLARABEL)
    start = log_barrier(A, w, floor=floor, uniform=0.1)
    low, high = minimax(A, w, start, floor=floor, uniform=0.1)
    best = float(np.asarray(t.value))
    assert low <= best * (1 + 1e-6)
    assert high >= best * (1 - 1e-6)
    assert high <= low * (1 + 1e-5)
    cp.Problem(cp.Maximize(w @ cp.log(Q)), [cp.sum(p) == 1]).solve(solver=cp.CLARABEL)
    ours, theirs = (
        w @ np.log((1 - floor) * A @ q + floor * 0.1) for q in (start, np.asarray(p.value, dtype=np.float64))
    )
    assert ours >= theirs - 1e-7


def test_without_a_floor_no_mixture_has_a_smaller_maximum_than_the_weights() -> None:
    rng = np.random.default_rng(4)
    A, w = instance("random", rng, floor=0.0, uniform=0.1)
    for p in rng.dirichlet(np.ones(A.shape[1]), size=50):
        V = proxies(A, w, p, floor=0.0, uniform=0.1)
        assert p @ V == pytest.approx(w.sum())
        assert V.max() >= w.sum()
