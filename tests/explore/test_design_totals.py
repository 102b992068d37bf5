"""The design from totals: its potential by definition, its optimum against cvxpy, its certificate, its promise."""

from __future__ import annotations

import math
from math import comb
from typing import Any

import cvxpy
import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband import theory
from comband.explore.design import SOLVERS, design_exploration
from comband.explore.oracles import EnumerationOracle
from comband.explore.solvers.stopping import Outcome, Stopping
from comband.page.contexts import Contexts
from comband.page.totals import TotalRounds
from comband.policies import Policy
from comband.policies.midzuno import MidzunoLists
from comband.statistics.chernoff import poisson_divergence
from tests.total_worlds import TotalWorld, total_world

PROBLEM = cb.Problem(20, 3, 2, "total")
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.8, n_users=200, seed=1)
POLICIES = WORLD.candidates(12, seed=2)


class Hidden:
    """A class that is reached only through its oracle."""

    exact = True

    def __init__(self, policies: cb.PolicySet) -> None:
        self._inner = EnumerationOracle(policies)

    def fit(self, X: Contexts, rewards: Any) -> Policy:
        return self._inner.fit(X, rewards)


def rounds_from(floor: float, n: int, seed: int) -> TotalRounds:
    rng = np.random.default_rng(seed)
    batch = WORLD.sample(n, rng)
    mixture = cb.Mixture(POLICIES, np.full(12, 1 / 12), problem=PROBLEM, floor=floor)
    decisions = MidzunoLists(mixture).draw(batch.contexts, rng)
    return TotalRounds.of(decisions, batch.answer(decisions.lists), PROBLEM)


def potential(mixture: cb.Mixture, rounds: TotalRounds) -> tuple[float, NDArray[np.float64]]:
    """F̂ and every variance proxy, written down from their definitions, list by list."""
    value, proxies = 0.0, np.zeros(len(POLICIES))
    contexts, lists = rounds.decisions.contexts, rounds.decisions.lists
    shares = MidzunoLists(mixture).shares(contexts, lists)
    shown = POLICIES.predict(contexts)
    for i, a in enumerate(lists):
        w = rounds.totals[i] / (len(rounds) * rounds.shares[i])
        if w > 0:
            value -= w * math.log(shares[i])
            proxies += w / shares[i] * np.array([len(set(a) & set(mine)) / 3 for mine in shown[i]])
    return value, proxies


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("logged_by", [1.0, 0.3])
@pytest.mark.parametrize("hidden", [False, True])
def test_reports_what_its_mixture_does_on_the_rounds(solver: str, logged_by: float, hidden: bool) -> None:
    rounds = rounds_from(logged_by, 800, seed=3)
    design = design_exploration(
        rounds,
        Hidden(POLICIES) if hidden else POLICIES,
        problem=PROBLEM,
        solver=solver,
        stopping=Stopping(relative_gap=1e-3, max_calls=4000),
    )
    assert design.status is Outcome.GAP, design.message
    if hidden:
        names = {
            tuple(policy.predict(WORLD.sample(50, np.random.default_rng(0)).contexts).ravel()): i
            for i, policy in enumerate(POLICIES)
        }
        p = np.zeros(12)
        for policy, weight in zip(design.mixture.policies, design.mixture.weights, strict=True):
            p[names[tuple(policy.predict(WORLD.sample(50, np.random.default_rng(0)).contexts).ravel())]] += weight
    else:
        p = design.mixture.weights
    value, proxies = potential(cb.Mixture(POLICIES, p, problem=PROBLEM, floor=0.5), rounds)
    assert design.certified
    assert design.value == pytest.approx(value, rel=1e-9)
    assert design.max_variance == pytest.approx(proxies.max(), rel=1e-9)
    assert design.gradient_norm == pytest.approx(0.5 * proxies.max(), rel=1e-9)
    assert design.n_events == np.count_nonzero(rounds.totals)
    mass = (rounds.totals / rounds.shares).mean()
    assert 0.5 * proxies.max() <= mass + design.gap + 1e-12  # KKT: no proxy above Σw/(1−γ)


def every_list(world: TotalWorld) -> TotalRounds:
    """All contexts and lists once: a sample of uniform lists in which sample and population are one."""
    n, L = len(world.rewards), len(world.lists)
    return TotalRounds.from_log(
        np.repeat(np.arange(n), L),
        lists=np.tile(world.lists, (n, 1)),
        totals=world.totals.ravel(),
        list_propensities=np.full(n * L, 1 / L),
        problem=world.problem,
    )


@pytest.mark.parametrize("seed", range(25))
def test_optimum_against_cvxpy_and_its_second_moments(seed: int) -> None:
    world = total_world(seed, most_actions=8, n_contexts=4, n_policies=8)
    problem, floor = world.problem, 0.5
    K, m, s = problem.n_actions, problem.list_size, float(problem.sparsity or 0)
    rounds = every_list(world)
    if not rounds.totals.any():
        pytest.skip("a world without rewards")
    design = design_exploration(
        rounds, world.policies, problem=problem, floor=floor, stopping=Stopping(relative_gap=1e-9, max_calls=2000)
    )
    assert design.status is Outcome.GAP, design.message
    cp: Any = cvxpy  # its stubs do not list its atoms
    p = cp.Variable(8, nonneg=True)
    w = (world.totals / comb(K - 1, m - 1) / 4).ravel()
    A = np.moveaxis(world.overlaps, 1, 2).reshape(-1, 8) / m
    kept = w > 0
    Q = (1 - floor) * (A[kept] @ p) + floor * m / K
    tight = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
    model = cp.Problem(cp.Minimize(-w[kept] @ cp.log(Q)), [cp.sum(p) == 1])
    assert design.value == pytest.approx(model.solve(solver="CLARABEL", **tight), abs=1e-6)
    # KKT, in the world: V ≤ E‖r‖₁/(1−γ) ≤ s/(1−γ), and with it the second moments of phase 2.
    assert (1 - floor) * design.max_variance <= world.rewards.sum(axis=1).mean() + design.gap + 1e-12
    shares = world.shares(design.mixture)
    law = shares / comb(K - 1, m - 1) / 4
    np.testing.assert_allclose(law.sum(), 1, atol=1e-13)
    R = world.totals[:, None] * world.overlaps / shares[:, None] / (1 - problem.fill_share)
    second = np.einsum("xa,xpa->p", law, R**2)
    assert second.max() <= theory.total_variance(problem, floor=floor, proxy=s / (1 - floor) + design.gap)


def test_certificate_by_hand_and_for_any_logging() -> None:
    design = design_exploration(rounds_from(1.0, 500, seed=1), POLICIES, problem=PROBLEM)
    for floor, least in ((1.0, None), (0.4, 0.4 * 3 / 20)):
        fresh = rounds_from(floor, 700, seed=2)
        certificate = design.certify(fresh, 0.1, least_propensity=least)
        largest = float(potential(design.mixture, fresh)[1].max())
        assert certificate.estimate == pytest.approx(largest, rel=1e-9)
        b = 2 / ((3 / 20 if least is None else least) * 0.5 * 3 / 20)
        wanted = b * math.log(12 / 0.1) / 700
        found = certificate.max_variance
        assert found == pytest.approx(2 / (0.5 * 3 / 20)) or float(poisson_divergence(largest, found)) == pytest.approx(
            wanted, rel=1e-6
        )
        assert design.certify(fresh.events(), 0.1, least_propensity=least).max_variance == pytest.approx(found)
    with pytest.raises(cb.InputError, match="not logged with uniform lists"):
        design.certify(rounds_from(0.4, 700, seed=2), 0.1)


def test_certificate_is_seldom_below_the_truth() -> None:
    """With δ = .05, 16 or more of 60 are wrong with a probability below 1e-6 if the certificate is right."""
    world = total_world(4, most_actions=8, n_contexts=4, n_policies=8)
    problem, rng = world.problem, np.random.default_rng(0)
    K, m = problem.n_actions, problem.list_size
    assert m > 1
    uniform = MidzunoLists(cb.Mixture(world.policies, np.full(8, 1 / 8), problem=problem, floor=1.0))

    def play(n: int) -> TotalRounds:
        contexts = rng.integers(4, size=n)
        decisions = uniform.draw(contexts, rng)
        totals = np.take_along_axis(world.rewards[contexts], decisions.lists.astype(np.int64), axis=1).sum(axis=1)
        return TotalRounds.of(decisions, totals, problem)

    wrong = 0
    for _ in range(60):
        design = design_exploration(play(60), world.policies, problem=problem)
        shares = world.shares(design.mixture)
        w = world.totals / comb(K - 1, m - 1) / 4
        truth = np.einsum("xa,xpa->p", w, world.overlaps / m / shares[:, None]).max()
        wrong += design.certify(play(200), 0.05).max_variance < truth
    assert wrong < 16


def test_refused() -> None:
    rounds = rounds_from(1.0, 50, seed=1)
    single = cb.Problem(20, 3, 2)
    with pytest.raises(cb.InputError, match='feedback="items"'):
        design_exploration(rounds, POLICIES, problem=single)
    batch = WORLD.sample(50, np.random.default_rng(0))
    decisions = cb.Mixture(POLICIES, np.full(12, 1 / 12), problem=single, floor=1.0).draw(batch.contexts, 1)
    hits = np.take_along_axis(batch.rewards.toarray(), decisions.lists.astype(np.int64), axis=1)
    items = cb.Rounds(decisions, hits)
    with pytest.raises(cb.InputError, match="rewards of single actions"):
        design_exploration(items, POLICIES, problem=PROBLEM)
    with pytest.raises(cb.InputError, match="give TotalRounds or their events"):
        design_exploration(items.events(), POLICIES, problem=PROBLEM)
    with pytest.raises(cb.InputError, match="these rounds are of"):
        design_exploration(rounds, POLICIES, problem=cb.Problem(20, 2, 2, "total"))
    with pytest.raises(cb.InputError, match="must be Rounds, TotalRounds or Events, got list"):
        design_exploration([], POLICIES, problem=PROBLEM)  # type: ignore[arg-type]
