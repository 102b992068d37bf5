from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest

from comband.explore.solvers.corrective import FullyCorrective, nonnegative_quadratic, warm_start
from comband.explore.solvers.frank_wolfe import Solution, minimise
from comband.explore.solvers.stopping import Outcome, Stopping
from tests.explore.solvers.problems import Dense, dense, random_problem


def solve(problem: Dense, n_columns: int = 1) -> Solution:
    return minimise(
        problem.potential,
        problem.incidence,
        rule=FullyCorrective(),
        stopping=Stopping(relative_gap=1e-10, max_calls=500),
        n_columns=n_columns,
    )


def reference(problem: Dense) -> float:
    cp: Any = cvxpy  # its stubs do not list its atoms
    p = cp.Variable(problem.A.shape[1], nonneg=True)
    Q = (1 - problem.floor) * (problem.A.astype(float) @ p) + problem.floor * problem.uniform
    model = cp.Problem(cp.Minimize(-problem.w @ cp.log(Q)), [cp.sum(p) == 1])
    tight = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
    return float(model.solve(solver="CLARABEL", **tight))


def degenerate() -> dict[str, Dense]:
    rng = np.random.default_rng(0)
    A, w = rng.random((40, 6)) < 0.4, rng.random(40) / 40
    uncovered, everywhere = A.copy(), A.copy()
    uncovered[5] = False
    everywhere[7] = True
    return {
        "one policy": dense(A[:, :1], w),
        "one event": dense(A[:1], w[:1]),
        "identical policies": dense(np.repeat(A[:, :2], 4, axis=1), w),
        "an event no policy covers": dense(uncovered, w),
        "no event is covered": dense(np.zeros_like(A), w),
        "an event all policies cover": dense(everywhere, w),
        "a policy that covers all": dense(np.hstack([A, np.ones((40, 1), bool)]), w),
        "all uniform lists": dense(A, w, floor=1.0),
        "tiny floor": dense(A, w, floor=0.01, uniform=0.01),
        "weights far apart": dense(A, w * np.logspace(-9, 0, 40)),
        "disjoint policies": dense(np.eye(30, dtype=bool), np.full(30, 1 / 30)),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("n_columns", [1, 30])
def test_degenerate_problems_against_cvxpy(name: str, n_columns: int) -> None:
    problem = degenerate()[name]
    solution = solve(problem, n_columns)
    assert solution.status is Outcome.GAP, solution.message
    assert np.isfinite(solution.weights).all()
    assert solution.state.value == pytest.approx(reference(problem), abs=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_optimum_against_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        seed,
        n_events=int(rng.integers(2, 120)),
        n_policies=int(rng.integers(2, 30)),
        density=float(rng.uniform(0.03, 0.5)),
        floor=float(rng.uniform(0.02, 0.9)),
        uniform=float(rng.uniform(0.002, 0.5)),
    )
    solution = solve(problem, n_columns=1 + 29 * (seed % 2))
    assert solution.status is Outcome.GAP, solution.message
    assert solution.state.value == pytest.approx(reference(problem), abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_calls_stay_near_the_support(seed: int) -> None:
    problem = random_problem(seed, n_events=1500, n_policies=200)
    single, several = solve(problem), solve(problem, n_columns=30)
    assert single.state.calls <= 2 * single.state.support + 2
    assert several.state.calls <= 12
    assert several.state.value == pytest.approx(single.state.value, abs=1e-9)


def test_warm_start_changes_nothing_but_the_way() -> None:
    problem = random_problem(2, n_events=30_000, n_policies=60)
    start, calls = warm_start(problem.potential, problem.incidence, n_columns=30)
    assert calls > 0
    stopping = Stopping(relative_gap=1e-9)
    warm = minimise(
        problem.potential, problem.incidence, rule=FullyCorrective(), stopping=stopping, n_columns=30, start=start
    )
    cold = minimise(problem.potential, problem.incidence, rule=FullyCorrective(), stopping=stopping, n_columns=30)
    assert warm.state.value == pytest.approx(cold.state.value, abs=1e-9)
    assert warm.state.calls <= cold.state.calls


@pytest.mark.parametrize("seed", range(30))
def test_nonnegative_quadratic_meets_its_optimality_conditions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 40))
    B = (rng.random((k + 5, k)) < 0.4).astype(float)
    H = B.T @ B + 1e-6 * np.eye(k)
    q = rng.normal(size=k)
    start = np.where(rng.random(k) < 0.3, rng.random(k), 0.0)
    x = nonnegative_quadratic(H, q, start)
    slope = q - H @ x
    scale = np.abs(q).max() + np.abs(H @ x).max()
    assert x.min() >= 0.0
    assert slope.max() <= 1e-8 * scale
    assert np.abs(slope[x > 0]).max(initial=0.0) <= 1e-8 * scale
