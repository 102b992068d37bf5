"""The band for factors holds the true ones at all times, in every known order, and narrows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from comband.page.places import fit_factors
from comband.page.problem import InputError
from comband.statistics.factor_band import FactorBand
from tests.states import plain
from tests.statistics.place_laws import Clicks, all_lists, inclusion, placements

THETA = np.array([1.0, 0.6, 0.3])


def test_bets_against_the_true_factors_have_mean_one() -> None:
    """Over all lists of a law, and all outcomes of clicks that come together: several per round."""
    q = inclusion(np.random.default_rng(1).gamma(0.7, size=6), 3)
    Q, relevance = placements(q, 3), np.random.default_rng(2).random(6)
    rng = np.random.default_rng(3)
    before = FactorBand(list_size=3, level=0.01)
    before.update(np.eye(3)[rng.integers(3, size=9)], rng.dirichlet(np.ones(3), size=(9, 3)))
    mean = total = 0.0
    for p, one in all_lists(q, 3):
        chances = relevance[list(one)] * THETA
        for low, high in pairwise(np.sort(np.concatenate([[0.0, 1.0], chances]))):
            band = FactorBand.from_state(before.state(), list_size=3, level=0.01)
            band.update([(chances > (low + high) / 2).astype(float)], Q[list(one)][None])
            mean += p * (high - low) * np.exp(band.log_evidence(THETA) - before.log_evidence(THETA))
            total += p * (high - low)
    assert total == pytest.approx(1)
    assert mean == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_true_factors_are_seldom_ever_outside(share: float) -> None:
    """At a level of .05, looked at 40 times: more than 45 of 300 runs would have a chance below 1e-9."""
    assert binom.sf(45, 300, 0.05) < 1e-9
    worlds = [Clicks(3, random_share=share, seed=i, contexts=20) for i in range(3)]
    left = 0
    for run in range(300):
        rewards, rows = worlds[run % 3].draw(THETA, 400, np.random.default_rng([run, 9]))
        band = FactorBand(list_size=3, max_reward=1, level=0.05)
        outside = False
        for part in np.split(np.arange(400), 40):
            band.update(rewards[part], rows[part])
            outside |= not band.contains(THETA)
        left += outside
    assert left <= 45


def test_bounds_are_the_ends_of_what_is_possible() -> None:
    """By a fine grid over both factors; and the fit is inside."""
    world = Clicks(3, random_share=0.3, seed=5)
    rewards, rows = world.draw(THETA, 800, np.random.default_rng(4))
    band = FactorBand(list_size=3, max_reward=1, level=0.05)
    band.update(rewards, rows)
    low, high = band.bounds()
    fitted = np.array(fit_factors(rewards, rows))
    assert band.contains(fitted)
    assert (low <= fitted).all()
    assert (fitted <= high).all()
    grid = [np.geomspace(low[k] * 0.9, high[k] * 1.1, 60) for k in (1, 2)]
    inside = [(a, b) for a in grid[0] for b in grid[1] if band.contains([1, a, b])]
    for k in (1, 2):
        found = [point[k - 1] for point in inside]
        step = grid[k - 1][1] / grid[k - 1][0]
        assert low[k] <= min(found) * (1 + 1e-6) <= low[k] * step**2
        assert high[k] / step**2 <= max(found) <= high[k] * (1 + 1e-6)


def test_it_narrows_with_rewards_and_random_orders() -> None:
    widths = []
    for share, n in ((0.05, 500), (0.05, 3000), (1.0, 3000)):
        rewards, rows = Clicks(3, random_share=share, seed=6).draw(THETA, n, np.random.default_rng(7))
        band = FactorBand(list_size=3, max_reward=1, level=0.01)
        band.update(rewards, rows)
        low, high = band.bounds()
        widths.append(float(np.log(high / low)[1:].max()))
    assert widths[0] > widths[1] > widths[2]


def test_into_which_parts_rounds_are_cut_does_not_matter_and_it_is_saved() -> None:
    rng = np.random.default_rng(8)
    rewards = rng.random((60, 3)) * (rng.random((60, 3)) < 0.4)
    rows = rng.dirichlet(np.ones(4), size=(60, 3))[:, :, :3]
    whole, parts = (FactorBand(list_size=3, level=0.05) for _ in range(2))
    whole.update(rewards, rows)
    for part in np.split(np.arange(60), [1, 7, 30]):
        parts.update(rewards[part], rows[part])
    assert plain(whole.state()) == plain(parts.state())
    again = FactorBand.from_state(whole.state(), list_size=3, level=0.05)
    assert again.log_evidence(THETA) == whole.log_evidence(THETA)
    with pytest.raises(InputError):
        FactorBand.from_state({**whole.state(), "n_rounds": 3}, list_size=3, level=0.05)


@pytest.mark.parametrize(
    ("rewards", "rows"),
    [([[1, 0]], None), ([[2, 0, 0]], None), ([[1, 0, 0]], np.zeros((1, 3, 3))), ([[1, 0, 0]], np.zeros((1, 3)))],
)
def test_what_cannot_be_is_refused(rewards: Any, rows: Any) -> None:
    with pytest.raises(InputError):
        FactorBand(list_size=3, level=0.05).update(rewards, rows)


def test_nothing_seen_leaves_everything_possible() -> None:
    low, high = FactorBand(list_size=3, level=0.05).bounds()
    assert low[1] <= 1e-3 * (1 + 1e-6)
    assert high[1] >= 1e3 * (1 - 1e-6)
