"""Lists that do not stand as they were said to stand are noticed; those that do are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.certify.watch import DrawnPlacesGuard
from comband.page.storage import ABSENT
from comband.statistics import DrawnPlaceGuard

K, M = 12, 3


def some_law(rng: np.random.Generator, n_lists: int = 6) -> tuple[NDArray[np.int32], NDArray[np.float64], Any]:
    """Lists (L, m) with their probabilities, and Q (K, m)."""
    lists = np.argsort(rng.random((n_lists, K)), axis=1)[:, :M].astype(np.int32)
    chances, Q = rng.dirichlet(np.ones(n_lists)), np.zeros((K, M))
    for one, chance in zip(lists, chances, strict=True):
        Q[one, np.arange(M)] += chance
    return lists, chances, Q


def test_the_bets_are_fair_by_enumeration() -> None:
    """Whatever the law of one round is, what is multiplied has mean 1; and nothing can be lost that is not there."""
    for seed in range(20):
        lists, chances, Q = some_law(np.random.default_rng(seed))
        mean: Any = 0.0
        for one, chance in zip(lists, chances, strict=True):
            guard = DrawnPlaceGuard(M)
            guard.update(one[None], Q[one][None])
            wealth = np.exp(guard._log_wealth)
            assert (wealth > 0).all()
            mean = mean + chance * wealth
        np.testing.assert_allclose(mean, 1.0, atol=1e-12)


def test_false_alarms_are_as_rare_as_the_level() -> None:
    rng, level, alarms = np.random.default_rng(1), 0.05, 0
    for seed in range(200):
        lists, chances, Q = some_law(np.random.default_rng(seed))
        guard = DrawnPlaceGuard(M, level=level)
        for _ in range(5):
            drawn = lists[rng.choice(len(lists), p=chances, size=60)]
            guard.update(drawn, Q[drawn])
        alarms += guard.alarm
    assert alarms <= binom.isf(1e-6, 200, level)


@pytest.mark.parametrize("fault", ["shuffled", "turned around", "one item on top"])
def test_another_order_than_was_stated_is_noticed(fault: str) -> None:
    problem = cb.Problem(20, M, sparsity=1, order="natural")
    shop = cb.SyntheticRecommender(problem, n_users=12, seed=0)
    learner = cb.AdaptiveComband(problem, shop.candidates(6, seed=1), epsilon=0.05, first_epoch=10**6, seed=1)
    rng = np.random.default_rng(0)
    decisions = learner.ask(shop.sample(6000, rng).contexts)
    assert not learner.watch[DrawnPlacesGuard].warning
    shown, stated = decisions.lists.copy(), np.asarray(decisions.placements).copy()
    if fault == "shuffled":
        order = np.argsort(rng.random(shown.shape), axis=1)
    elif fault == "turned around":
        order = np.tile(np.arange(M)[::-1], (len(shown), 1))
    else:
        common = int(np.bincount(shown[:, 1:].ravel(), minlength=20).argmax())
        order = np.argsort(shown != common, axis=1, kind="stable")
    guard = DrawnPlaceGuard(M)
    guard.update(decisions.lists, np.asarray(decisions.placements))
    assert not guard.alarm
    guard = DrawnPlaceGuard(M)
    guard.update(np.take_along_axis(shown, order, 1), np.take_along_axis(stated, order[:, :, None], 1))
    assert guard.alarm
    assert "another order" in guard.message


def test_it_is_saved_and_files_from_before_load() -> None:
    problem = cb.Problem(20, M, sparsity=1, places=[1, 0.6, 0.3])
    shop = cb.SyntheticRecommender(problem, n_users=12, seed=0)
    policies = shop.candidates(6, seed=1)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, seed=1)
    learner.ask(shop.sample(100, np.random.default_rng(0)).contexts)
    mine = learner.watch[DrawnPlacesGuard].places
    assert mine.n_rounds == 10  # one decision in ten
    state = learner.state()
    again = cb.AdaptiveComband.from_state(state, policies).watch[DrawnPlacesGuard].places
    np.testing.assert_array_equal(again._log_wealth, mine._log_wealth)
    watch: Any = learner.watch.state()
    del watch["drawn places"]
    learner.watch.restore({**watch, "drawn places": ABSENT}, learner.epochs, 0, total=0)
    assert learner.watch.anew[-1]["guard"] == "DrawnPlacesGuard"
