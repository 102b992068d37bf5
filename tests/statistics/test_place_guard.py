"""The place guard's bets have mean one; it is silent where places work as said, and soon alarms where they do not."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import binom

from comband.page.problem import InputError
from comband.statistics.place_guard import PlaceGuard
from tests.states import plain

DCG = tuple(1 / np.log2(np.arange(5) + 2))
STEEP = (1.0, 0.6, 0.3)


def clicks(shares: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """n rounds with one click each, in the places by these shares."""
    return np.eye(len(shares))[rng.choice(len(shares), size=n, p=shares)]


def alarm_times(factors: Any, stated: Any, n: int, runs: int, seed: int) -> NDArray[np.float64]:
    """After how many clicks the guard alarms, each looked at; inf if it does not within n.

    Plain arithmetic, for all runs at once: the product of (n_k + 1)/(n + m)/p0_k.
    """
    rng = np.random.default_rng(seed)
    p, p0 = (np.array(f) / np.sum(f) for f in (factors, stated))
    m = len(p)
    counts, log_wealth, times = np.zeros((runs, m)), np.zeros(runs), np.full(runs, np.inf)
    for t in range(n):
        k = rng.choice(m, size=runs, p=p)
        log_wealth += np.log((counts[np.arange(runs), k] + 1) / (t + m) / p0[k])
        counts[np.arange(runs), k] += 1
        times[(log_wealth >= np.log(1000)) & np.isinf(times)] = t + 1
    return times


def test_the_guard_is_the_plain_product() -> None:
    rng = np.random.default_rng(0)
    for stated in (None, STEEP):
        p0 = np.full(3, 1 / 3) if stated is None else np.array(STEEP) / sum(STEEP)
        guard = PlaceGuard(stated, list_size=3, max_reward=1)
        rounds = clicks(np.array([0.5, 0.3, 0.2]), 400, rng)
        counts, log_wealth, peak = np.zeros(3), 0.0, 0.0
        for k in rounds.argmax(axis=1):
            log_wealth += np.log((counts[k] + 1) / (counts.sum() + 3) / p0[k])
            counts[k] += 1
            peak = max(peak, log_wealth)
        for part in np.split(np.insert(rounds, [5, 100], 0.0, axis=0), [7, 8, 300]):
            guard.update(part)
        assert guard.n_rounds == 400
        assert guard.log_evidence == pytest.approx(peak, rel=1e-12)
        assert guard.shares.tolist() == pytest.approx((counts / 400).tolist())
        marginal = gammaln(3) + gammaln(counts + 1).sum() - gammaln(403) - (counts * np.log(p0)).sum()
        assert log_wealth == pytest.approx(marginal)


@pytest.mark.parametrize("rewards", [(1, 0, 0), (1, 1, 0), (1, 0.5, 0.2), (0.1, 0, 0), (1, 1, 1)])
def test_bets_have_mean_one_where_places_do_not_matter(rewards: tuple[float, ...]) -> None:
    """Over all orders of one set whose items bring these rewards wherever they are, also several at once."""
    guard = PlaceGuard(None, list_size=3)
    guard.update(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]))
    state, means = guard.state(), []
    for order in permutations(rewards):
        again = PlaceGuard.from_state(state, None, list_size=3)
        again.update([order])
        means.append(np.exp(again.state()["log_wealth"] - state["log_wealth"]))
    assert np.mean(means) == pytest.approx(1, abs=1e-12)


def test_bets_have_mean_one_by_examination() -> None:
    """Over all orders and all outcomes of independent clicks with chances rel·θ_k, several per round."""
    theta, relevance = np.array(STEEP), np.array([0.9, 0.5, 0.2])
    guard = PlaceGuard(STEEP, list_size=3, max_reward=3)
    guard.update([[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0]])
    state, mean, total = guard.state(), 0.0, 0.0
    for order in permutations(range(3)):
        chances = relevance[list(order)] * theta
        for outcome in product((0.0, 1.0), repeat=3):
            p = float(np.prod(np.where(outcome, chances, 1 - chances))) / 6
            again = PlaceGuard.from_state(state, STEEP, list_size=3, max_reward=3)
            again.update([outcome])
            mean += p * np.exp(again.state()["log_wealth"] - state["log_wealth"])
            total += p
    assert total == pytest.approx(1)
    assert mean == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("factors", "median", "late"), [(STEEP, 85, 173), (DCG, 180, 367)])
def test_effects_are_noticed_within_some_hundred_clicks(factors: Any, median: int, late: int) -> None:
    """Half of the runs by `median` clicks, 95 of 100 by `late`, up to 15 per cent: with 2,000 runs a quantile that is
    right is off by so much with probability below 1e-6.
    """
    times = alarm_times(factors, np.ones(len(factors)), 800, 2000, seed=1)
    assert np.isfinite(times).all()
    # The share of alarms by a time somewhat later (earlier) than the stated quantile is above (below) it.
    for quantile, at in ((0.5, median), (0.95, late)):
        assert binom.sf(int((times <= 1.15 * at).sum()), 2000, quantile) < 0.5
        assert binom.cdf(int((times <= 0.85 * at).sum()), 2000, quantile) < 0.5


def test_a_wrong_factor_is_noticed() -> None:
    times = alarm_times([1, 1 / 2, 1 / 3], STEEP, 3000, 200, seed=2)
    assert np.isfinite(times).mean() > 0.5


def test_no_false_alarms() -> None:
    """In 400 runs of 3,000 clicks, each looked at: more than 9 alarms at a level of .001 have a chance below 1e-9."""
    assert binom.sf(9, 400, 0.001) < 1e-9
    for factors in (np.ones(3), np.array(DCG)):
        assert np.isfinite(alarm_times(factors, factors, 3000, 400, seed=3)).sum() <= 9


@pytest.mark.slow
def test_no_false_alarms_in_long_runs() -> None:
    """In 5,000 runs of 20,000 clicks: more than 25 alarms at a level of .001 have a chance below 1e-9."""
    assert binom.sf(25, 5000, 0.001) < 1e-9
    assert np.isfinite(alarm_times(np.ones(3), np.ones(3), 20_000, 5000, seed=4)).sum() <= 25


@pytest.mark.parametrize("stated", [None, STEEP])
def test_it_says_how_strong_an_effect_it_would_have_noticed(stated: Any) -> None:
    """Of 1,000 runs with that effect about 950 are noticed by then; fewer than 850 have a chance below 1e-9."""
    base = np.ones(3) if stated is None else np.array(stated)
    last = 0.0
    for n in (60, 150, 600, 5000):
        guard = PlaceGuard(stated, list_size=3, max_reward=1)
        guard.update(clicks(base / base.sum(), n, np.random.default_rng(5)))
        a = guard.noticeable
        assert a > last  # the more clicks, the weaker the effect that is noticed
        last = a
        times = alarm_times(base * a ** (np.arange(3) / 2), base, n, 1000, seed=n)
        assert np.isfinite(times).sum() >= 850
    assert PlaceGuard(None, list_size=3).noticeable == 0
    assert PlaceGuard(None, list_size=1).noticeable == 0


def test_the_message_says_what_to_do() -> None:
    guard = PlaceGuard(None, list_size=3)
    assert guard.message == ""
    guard.update(clicks(np.array([0.7, 0.2, 0.1]), 200, np.random.default_rng(1)))
    assert guard.alarm
    assert "places matter" in guard.message
    assert "fit_examination" in guard.message
    assert "33%, 33%, 33%" in guard.message
    stated = PlaceGuard(STEEP, list_size=3, max_reward=1)
    stated.update(clicks(np.array([0.2, 0.2, 0.6]), 200, np.random.default_rng(1)))
    assert "stated factors" in stated.message


def test_it_is_saved_and_checked() -> None:
    guard = PlaceGuard(STEEP, list_size=3, max_reward=2)
    guard.update(np.random.default_rng(0).random((50, 3)) / 2)
    state = guard.state()
    again = PlaceGuard.from_state(state, STEEP, list_size=3, max_reward=2)
    assert plain(again.state()) == plain(state)
    for name, value in (("peak", -1.0), ("n_rounds", 7), ("counts", np.ones(2)), ("log_wealth", 1e9)):
        with pytest.raises(InputError):
            PlaceGuard.from_state({**state, name: value}, STEEP, list_size=3, max_reward=2)


def test_what_it_cannot_watch_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to watch"):
        PlaceGuard("pairs", list_size=3)  # type: ignore[arg-type]
    guard = PlaceGuard(None, list_size=3)
    for wrong in ([[1, 0]], [[-1, 0, 0]], [1, 0, 0]):
        with pytest.raises(InputError, match="rewards must be those of 3 places"):
            guard.update(wrong)


@pytest.mark.parametrize(
    "rewards", [[[np.inf, 0, 0]], [[1, 1, 1]], [[2, 0, 0]], [[np.nan, 0, 0]], [["a", 0, 0]], [1, 0]]
)
def test_rewards_that_cannot_be_are_refused(rewards: Any) -> None:
    guard = PlaceGuard(None, list_size=3, max_reward=2)
    with pytest.raises(InputError, match="rewards"):
        guard.update(rewards)
    assert guard.n_rounds == 0
