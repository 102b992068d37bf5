"""PAC-COMBAND from totals: what it computes by definition, its promise, and its manners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import comband as cb
from comband import theory
from comband.certify.fixed_time import PacSelection
from comband.explore.oracles import EnumerationOracle
from comband.page.contexts import Contexts
from comband.policies import Policy
from comband.policies.midzuno import MidzunoLists
from comband.statistics.pairs import mean_bound

PROBLEM = cb.Problem(10, 3, 2, "total")
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.9, n_users=100, seed=1)
POLICIES = WORLD.candidates(8, seed=2)


class Hidden:
    """A class that is reached only through its oracle."""

    exact = True

    def __init__(self, policies: cb.PolicySet) -> None:
        self._inner = EnumerationOracle(policies)

    def fit(self, X: Contexts, rewards: Any) -> Policy:
        return self._inner.fit(X, rewards)


def played(learner: cb.PacComband, n: int, *, seed: int = 0, batch: int = 500) -> list[tuple[cb.Decisions, Any]]:
    rng, made = np.random.default_rng(seed), []
    for _ in range(-(-n // batch)):
        rows = WORLD.sample(batch, rng)
        decisions = learner.ask(rows.contexts)
        totals = rows.answer(decisions.lists)
        learner.tell(decisions, totals)
        made.append((decisions, totals))
    return made


def test_everything_by_definition() -> None:
    learner = cb.PacComband(PROBLEM, POLICIES, n_explore=1000, n_estimate=2000, floor=0.4, delta=0.1, seed=3)
    made = played(learner, 3000)
    assert learner.done
    design = learner.design
    assert design is not None
    for decisions, _ in made[:2]:
        np.testing.assert_array_equal(decisions.propensities, 3 / 10)
    law = MidzunoLists(design.mixture)
    sums, squares, pairs = np.zeros(8), np.zeros(8), np.zeros((2, 8, 8))
    f = 2 / 9
    for decisions, totals in made[2:]:
        q = law.shares(decisions.contexts, decisions.lists)
        np.testing.assert_allclose((decisions.propensities.sum(axis=1) - 3 * f) / (1 - f), q, rtol=1e-12)
        shown = POLICIES.predict(decisions.contexts)
        for i, a in enumerate(decisions.lists):
            N = np.array([len(set(a) & set(mine)) for mine in shown[i]])
            X = totals[i] * (N - f * 3) / ((1 - f) * q[i])
            sums, squares = sums + X, squares + X**2
            D = X[:, None] - X
            pairs += [D, D**2]
    result = learner.result()
    leader = int(sums.argmax())
    assert result.index == leader
    assert result.value == pytest.approx(sums[leader] / 2000, rel=1e-9)
    gaps = mean_bound(
        pairs[0][:, leader], pairs[1][:, leader], 2000, bound=2 * 10 / (0.4 * (1 - f)), delta=0.1, rivals=7
    )
    assert result.epsilon == pytest.approx(np.delete(gaps, leader).max(), rel=1e-9)
    variances = (squares - sums**2 / 2000) / 1999
    assert result.measured_variance == pytest.approx(variances.max(), rel=1e-9)
    assert result.variance_bound == theory.total_variance(PROBLEM, floor=0.4)
    assert result.proxy_bound == pytest.approx(4 / 0.6)
    assert result.certified is (design.max_variance <= 4 / 0.6)
    truth = WORLD.values(POLICIES)
    for candidate in result.candidates:
        low, high = candidate.interval
        assert low <= truth[candidate.index] <= high


def run(seed: int, **options: Any) -> tuple[PacSelection, float]:
    rng = np.random.default_rng(seed)
    problem = cb.Problem(8, 2, 1, "total")
    world = cb.SyntheticRecommender(problem, click_rate=0.6, n_users=40, decay=0.5, seed=rng)
    policies = world.candidates(6, seed=rng)
    learner = cb.PacComband(problem, policies, seed=seed, **options)
    result = cb.run(learner, world, batch_size=5000, seed=seed).result
    assert isinstance(result, PacSelection)
    values = world.values(policies)
    return result, float(values.max() - values[result.index])


def test_promise_is_kept() -> None:
    """ε as reported, at far too few rounds for the theorem; δ = .2: a right program fails below 1e-6."""
    runs = [run(seed, n_explore=300, n_estimate=1500, delta=0.2) for seed in range(60)]
    assert sum(lost > result.epsilon for result, lost in runs) <= binom.isf(1e-6, 60, 0.2)
    assert np.median([result.epsilon for result, _ in runs]) < 1  # it says something
    assert min(lost for _, lost in runs) == 0


def test_the_theorem_with_its_own_parameters() -> None:
    plan = theory.pac_comband(cb.Problem(8, 2, 1, "total"), n_policies=6, epsilon=0.25, delta=0.05)
    result, lost = run(1, epsilon=0.25)
    assert (result.n_explore >= plan.n_explore, result.n_estimate >= plan.n_estimate) == (True, True)
    assert result.rounds <= plan.n_rounds + 10_000
    assert lost <= 0.25
    assert result.certified


def test_held_out_route_verifies_the_design() -> None:
    result, lost = run(2, epsilon=0.25, route="held-out")
    certificate = result.certificate
    assert certificate is not None
    assert certificate.proved
    assert certificate.max_variance <= result.proxy_bound
    assert result.certified
    v = theory.total_variance(cb.Problem(8, 2, 1, "total"), floor=0.5, proxy=certificate.max_variance)
    wanted = theory.estimate_rounds(
        cb.Problem(8, 2, 1, "total"), n_policies=6, epsilon=0.25, delta=0.025, second_moment=v
    )
    assert wanted <= result.n_estimate <= wanted + 5000
    assert lost <= 0.25


def test_a_class_behind_an_oracle() -> None:
    listed = cb.PacComband(PROBLEM, POLICIES, n_explore=1000, n_estimate=2000, seed=3)
    hidden = cb.PacComband(PROBLEM, Hidden(POLICIES), n_explore=1000, n_estimate=2000, n_policies=8, seed=3)
    played(listed, 3000)
    played(hidden, 3000)
    assert hidden.design is not None
    assert listed.design is not None
    assert hidden.design.value == pytest.approx(listed.design.value, rel=1e-5)
    selected = hidden.result()
    contexts = WORLD.sample(200, np.random.default_rng(9)).contexts
    assert any(np.array_equal(selected.policy.predict(contexts), policy.predict(contexts)) for policy in POLICIES)
    assert selected.guarantee.startswith("Bernstein")


@pytest.mark.parametrize("route", ["gradient", "held-out"])
def test_saved_in_any_phase_it_goes_on_as_if_nothing_had_happened(tmp_path: Path, route: Any) -> None:
    n_verify = 500 if route == "held-out" else 0
    settings = {"n_explore": 1000, "n_estimate": 1500, "n_verify": n_verify, "seed": 4}
    whole = cb.PacComband(PROBLEM, POLICIES, **settings)  # type: ignore[arg-type]
    parts = cb.PacComband(PROBLEM, POLICIES, **settings)  # type: ignore[arg-type]
    played(whole, 3000)
    rng = np.random.default_rng(0)
    for _ in range(6):
        rows = WORLD.sample(500, rng)
        decisions = parts.ask(rows.contexts)
        parts.tell(decisions, rows.answer(decisions.lists))
        parts.save(tmp_path / "learner.npz")
        parts = cb.PacComband.load(tmp_path / "learner.npz", POLICIES)
    assert parts.problem == PROBLEM
    assert str(parts.result()) == str(whole.result())


def test_what_is_told_is_checked_and_nothing_is_half_done() -> None:
    learner = cb.PacComband(PROBLEM, POLICIES, n_explore=20, n_estimate=20, seed=1)
    rows = WORLD.sample(4, np.random.default_rng(0))
    decisions = learner.ask(rows.contexts)
    for wrong, words in (
        ([[0, 0, 1]] * 4, r"one number per round, shape \(4,\), got shape \(4, 3\)"),
        ([0, 0, 2.5, 0], "must not exceed 2"),
        ([0, -1, 0, 0], r"in \[0, 2\], got -1"),
        ([0, np.nan, 0, 0], "got nan in row 1"),
    ):
        with pytest.raises(cb.InputError, match=words):
            learner.tell(decisions, wrong)
    assert learner.rounds == 0
    learner.tell(decisions, [0, 2, 1, 0])
    assert learner.rounds == 4
    for route in ("refined", "printed"):
        with pytest.raises(cb.InputError, match='only the routes "gradient" and "held-out"'):
            cb.PacComband(PROBLEM, POLICIES, epsilon=0.3, route=route)
