from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from comband._kernels.packed import packed_scores
from comband.explore.solvers.columns import Columns
from comband.explore.solvers.corrective import FullyCorrective
from comband.explore.solvers.frank_wolfe import ExactStep, PrintedStep, Rule, minimise
from comband.explore.solvers.potential import Floats
from comband.explore.solvers.stopping import Outcome, State, Stopping
from tests.explore.solvers.problems import Dense, random_problem

RULES: dict[str, Rule] = {
    "printed": PrintedStep(),
    "line search": ExactStep(),
    "away": ExactStep("away"),
    "pairwise": ExactStep("pairwise"),
    "corrective": FullyCorrective(),
}


def delta(problem: Dense, j: int) -> tuple[Columns, list[float]]:
    return Columns([j], problem.incidence.columns(np.array([j])), np.zeros(1)), [1.0]


def algorithm_2(problem: Dense, first: int, n_steps: int) -> NDArray[np.float64]:
    """The paper's Algorithm 2 from a delta distribution, in ten lines."""
    p = np.zeros(problem.A.shape[1])
    p[first] = 1.0
    for t in range(1, n_steps + 1):
        gradient = -(1 - problem.floor) * problem.proxies(p)
        q = np.zeros_like(p)
        q[np.argmin(gradient)] = 1.0
        eta = 2 / (2 + t)
        p = (1 - eta) * p + eta * q
    return p


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_steps", [0, 1, 2, 3, 10, 60])
def test_printed_rule_follows_algorithm_2(seed: int, n_steps: int) -> None:
    problem = random_problem(seed, n_events=150, n_policies=25)
    solution = minimise(
        problem.potential,
        problem.incidence,
        rule=PrintedStep(),
        stopping=Stopping(max_steps=n_steps),
        start=delta(problem, 3),
    )
    assert solution.status is Outcome.STEPS
    assert solution.state.calls == n_steps + 1
    expected = algorithm_2(problem, 3, n_steps)
    np.testing.assert_allclose(problem.full(solution.keys, solution.weights), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_reports_the_truth_about_where_it_stopped(name: str) -> None:
    problem = random_problem(7, n_events=400, n_policies=30)
    best = minimise(
        problem.potential, problem.incidence, rule=FullyCorrective(), stopping=Stopping(relative_gap=1e-12)
    ).state.value
    solution = minimise(
        problem.potential,
        problem.incidence,
        rule=RULES[name],
        stopping=Stopping(relative_gap=3e-3, max_calls=3000),
    )
    state, p = solution.state, problem.full(solution.keys, solution.weights)
    assert solution.status is Outcome.GAP, solution.message
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.min() >= 0.0
    assert state.value == pytest.approx(problem.value(p), rel=1e-11)
    assert state.maximum == pytest.approx(problem.proxies(p).max(), rel=1e-11)
    assert state.gradient_norm == pytest.approx((1 - problem.floor) * problem.proxies(p).max(), rel=1e-11)
    assert state.gap == pytest.approx((1 - problem.floor) * (problem.proxies(p).max() - problem.proxies(p) @ p))
    assert state.value - best <= state.gap
    assert state.support == np.count_nonzero(p)


@pytest.mark.parametrize("name", ["away", "pairwise", "corrective"])
def test_values_never_rise(name: str) -> None:
    problem = random_problem(11, n_events=300, n_policies=40)
    values: list[float] = []
    minimise(
        problem.potential,
        problem.incidence,
        rule=RULES[name],
        stopping=Stopping(relative_gap=1e-6, max_calls=2000),
        callback=lambda state: values.append(state.value),
    )
    assert len(values) > 3
    assert np.diff(values).max() <= 1e-14


@pytest.mark.parametrize("equal", [False, True])
def test_certificate_is_never_below_the_true_maximum(equal: bool) -> None:
    """Large enough for the single-precision pass to err; equal weights make its rounding systematic."""
    problem = random_problem(5, n_events=6000, n_policies=200)
    if equal:
        from tests.explore.solvers.problems import dense

        problem = dense(problem.A, np.full(6000, 1 / 6000))
    states: list[State] = []
    for rule, calls in ((PrintedStep(), 30), (FullyCorrective(), 60)):
        for stop in range(2, calls, 7):
            solution = minimise(problem.potential, problem.incidence, rule=rule, stopping=Stopping(max_calls=stop))
            truth = problem.proxies(problem.full(solution.keys, solution.weights)).max()
            assert solution.state.maximum >= truth * (1 - 1e-12)
            states.append(solution.state)
    assert min(state.relative_gap for state in states) < 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_lemma_bounds_the_gradient_anywhere(seed: int) -> None:
    """‖∇F(p)‖∞ ≤ W + √(2W(F(p) − min F))·K/(γm), hence ≤ 2W when the gap is at most μ; W = Σw plays s."""
    rng = np.random.default_rng(seed)
    problem = random_problem(
        seed, n_events=80, n_policies=15, floor=float(rng.uniform(0.05, 0.5)), uniform=float(rng.uniform(0.02, 0.5))
    )
    W, b = problem.potential.mass, problem.floor * problem.uniform
    optimum = minimise(
        problem.potential, problem.incidence, rule=FullyCorrective(), stopping=Stopping(relative_gap=1e-11)
    )
    best = optimum.state.value
    for concentration in (0.05, 0.3, 3.0):
        p = rng.dirichlet(np.full(15, concentration))
        for share in (0.0, 0.9, 0.999):
            mixed = share * problem.full(optimum.keys, optimum.weights) + (1 - share) * p
            norm = (1 - problem.floor) * problem.proxies(mixed).max()
            excess = max(0.0, problem.value(mixed) - best)
            assert norm <= W + np.sqrt(2 * W * excess) / b + 1e-9
    at_mu = minimise(
        problem.potential,
        problem.incidence,
        rule=ExactStep("pairwise"),
        stopping=Stopping.paper(sparsity=W, floor=problem.floor, uniform=problem.uniform),
    )
    assert at_mu.state.gradient_norm <= 2 * W


class Forgetful:
    """An approximate oracle: it sees only every other policy, and of those returns the second best."""

    exact = False

    def __init__(self, problem: Dense) -> None:
        self.problem, self.n_words = problem, problem.incidence.n_words

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        scores = self.problem.incidence.scores(gains)[::2]
        j = 2 * int(np.argsort(-scores)[1])
        bits = self.problem.incidence.columns(np.array([j]))
        packed_scores(bits, gains, score := np.empty(1))
        return Columns([j], bits, score)


@pytest.mark.parametrize("name", ["line search", "away", "pairwise", "corrective"])
def test_an_approximate_oracle_ends_without_a_certificate_for_the_class(name: str) -> None:
    problem = random_problem(3, n_events=200, n_policies=20)
    problem_oracle = Forgetful(problem)
    solution = minimise(
        problem.potential, problem_oracle, rule=RULES[name], stopping=Stopping(relative_gap=1e-9, max_calls=5000)
    )
    assert solution.status in (Outcome.STALLED, Outcome.GAP)
    assert not solution.exact
    assert "approximate" in solution.message
    # what is reported is true of the columns it has seen
    proxies = problem.proxies(problem.full(solution.keys, solution.weights))
    assert solution.state.maximum >= proxies[np.array(solution.keys, dtype=int)].max() * (1 - 1e-9)


def test_stopping_rules() -> None:
    problem = random_problem(1, n_events=200, n_policies=20)

    def stop(**rules: float | int) -> tuple[Outcome, State]:
        stopping = Stopping(**rules)  # type: ignore[arg-type]
        solution = minimise(problem.potential, problem.incidence, rule=FullyCorrective(), stopping=stopping)
        return solution.status, solution.state

    assert stop(max_calls=3)[0] is Outcome.CALLS
    assert stop(max_seconds=0.0)[0] is Outcome.TIME
    status, state = stop(certificate=2 * problem.potential.mass)
    assert status is Outcome.CERTIFICATE
    assert state.gradient_norm <= 2 * problem.potential.mass
    status, state = stop(certificate_ratio=0.01)
    assert status is Outcome.CERTIFICATE
    assert state.maximum <= 1.01 * state.average
    assert Stopping.paper(sparsity=2.0, floor=0.5, uniform=0.2).gap == pytest.approx(2 * 0.25 * 0.04 / 2)
    status, state = stop(gap=1e-5)
    assert status is Outcome.GAP
    assert state.gap <= 1e-5
    # asked for more than floating point can give, it says so instead of turning for ever
    status, state = stop(gap=0.0)
    assert status in (Outcome.STALLED, Outcome.GAP)
    assert state.gap < 1e-10
