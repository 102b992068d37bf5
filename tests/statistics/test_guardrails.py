"""Bets on metrics: fair at the margin, by enumeration; bounds that hold for every item of every list; the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify.epochs import Railing
from comband.explore.explorers import DisagreementExplorer
from comband.page.metrics import Metric
from comband.statistics.betting import Bets
from comband.statistics.guardrails import Rail

NOTHING = np.empty(0, dtype=np.int64)
METRICS = [
    Metric(name="gain", margin=0.05),
    Metric(name="cost", margin=0.05, direction="cost"),
    Metric(name="share", margin=0.3, relative=True),
    Metric(name="more", margin=0.3, relative=True, direction="cost"),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
@pytest.mark.parametrize("safety", [False, True])
def test_a_bet_has_the_mean_that_the_proof_says(metric: Metric, safety: bool) -> None:
    """One item is shown, y with probability Q(y), and worth r(y): the mean over all outcomes is exact."""
    rng, K = np.random.default_rng(3), 5
    problem = cb.Problem(n_actions=K, list_size=1, sparsity=1)
    rail = Rail.of(metric, problem)
    Q, r = rng.dirichlet(np.full(K, 3.0)), rng.random(K)
    inside = np.eye(K, 3, dtype=np.bool_)  # three candidates, each with an item of its own; production is the first
    bets = Bets.choose(0, np.array([0.0, 0.02, 0.05]), 40.0)
    mean = np.zeros((3, 3))
    for y in range(K):
        total = np.zeros((3, 3))
        weight = np.array([r[y] / Q[y]])
        rail.enter(total, bets, inside[[y]], np.zeros(1, dtype=np.int64), weight, uncovered=NOTHING, safety=safety)
        mean += Q[y] * np.exp(total)
    h = rail.sign * (r[:3] - rail.share * r[0])
    sign = 1.0 if safety else -1.0
    expected = 1 + sign * bets.stakes * h[:, None]
    np.testing.assert_allclose(mean[1:], expected[1:], rtol=1e-12)
    np.testing.assert_allclose(mean[0], 1.0, rtol=1e-12)
    # With what a round adds beside: a supermartingale of all that are safe, or of all that are not.
    fair = mean * np.exp(rail.credit(bets.stakes, safety=safety))
    at_margin = (1 - sign * bets.stakes * rail.margin) * np.exp(rail.credit(bets.stakes, safety=safety))
    np.testing.assert_allclose(at_margin, 1.0, rtol=1e-12)
    fine = (h >= -rail.margin) != safety
    assert (fair[1:][fine[1:]] <= 1 + 1e-12).all()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
@pytest.mark.parametrize("safety", [False, True])
@pytest.mark.parametrize("own", [0.0, 0.4])
def test_no_round_brings_more_than_the_bound(metric: Metric, safety: bool, own: float) -> None:
    """The most that one reward can add, over all candidates, contexts and items, with exact propensities; for some
    choice of leader it comes close.
    """
    K, m, P, N, closest = 12, 3, 5, 40, 0.0
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    rail = Rail.of(metric, problem)
    rng = np.random.default_rng(7)
    lists = np.argsort(rng.random((P, N, 4)), axis=2)[:, :, :m].astype(np.int32)
    lists[:, :, 0] = 11  # which all show
    policies = cb.PolicySet.from_lists(lists, problem)
    for leader in range(P):
        for production in range(P):
            shares = np.zeros(P)
            shares[production] = own
            explorer = DisagreementExplorer(
                policies,
                np.arange(P),
                leader=leader,
                attention=np.where(rng.random(P) < 0.3, 1.0, 1e-6),
                smallest_disputed=0.12,
                problem=problem,
                own=shares,
            )
            railing = Railing((rail,), production, own_lists=True)
            floors = railing.floors(explorer, leader)
            Q = explorer.propensities_of(np.arange(N))
            covered = explorer.draw(np.arange(N), 1).decisions.covered
            assert covered.any()
            shown = np.stack([(lists[i][:, :, None] == np.arange(K)).any(axis=1) for i in range(P)])
            D = np.where(Q > 0, (shown - rail.share * shown[production].astype(float)) / np.maximum(Q, 1e-12), 0.0)
            lost = (-1.0 if safety else 1.0) * rail.sign * D[:, covered]
            bound = rail.bound(floors, safety=safety)
            others = np.arange(P) != production
            assert lost[others].max() <= bound * (1 + 1e-9)
            closest = max(closest, float(lost[others].max()) / bound)
            if safety and leader != production:
                assert lost[leader].max() <= rail.bound(floors, safety=True, leader=True) * (1 + 1e-9)
    assert closest > 0.8


def test_the_kernel_is_its_plain_form() -> None:
    rng, E, S = np.random.default_rng(4), 60, 7
    rows, inside, weights = np.sort(rng.integers(25, size=E)), rng.random((E, S)) < 0.4, rng.uniform(0.1, 2.0, E)
    bets = Bets.choose(2, np.where(np.arange(S) == 2, 0.0, rng.uniform(0.001, 0.02, S)), 30.0)
    for metric in METRICS:
        rail: Any = Rail.of(metric, cb.Problem(n_actions=9, list_size=3, sparsity=1))
        for safety in (False, True):
            total, plain = np.zeros((S, 3)), np.zeros((S, 3))
            after = np.array([5, 5, 40])
            rail.enter(total, bets, inside, rows, weights, uncovered=after, safety=safety)
            sign = rail.sign * (-1.0 if safety else 1.0)
            cut = [slice(0, 5), slice(5, 40), slice(40, E)]
            for part in cut:
                for row in np.unique(rows[part]):
                    mine = np.arange(E)[part][rows[part] == row]
                    D = (weights[mine, None] * (inside[mine] - rail.share * inside[mine][:, [2]])).sum(axis=0)
                    plain += np.log1p(-sign * bets.stakes * np.where(np.arange(S) == 2, 0.0, D)[:, None])
            worst = rail.most if sign > 0 else rail.share * rail.most
            lost = 3 * np.log1p(-bets.stakes * worst)
            lost[2] = 0.0
            np.testing.assert_allclose(total, plain + lost, rtol=1e-12, atol=1e-14)
