"""The place guard's bets have mean one; it is silent where places work as said, and soon alarms where they do not."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from comband.page.problem import InputError
from comband.statistics.place_guard import PlaceGuard
from tests.states import plain
from tests.statistics.place_laws import Clicks, all_lists, inclusion, placements

DCG = tuple(1 / np.log2(np.arange(5) + 2))
STEEP = (1.0, 0.6, 0.3)
STEPS = (0.3, 0.5, 0.65, 0.8, 0.9, 1.1, 1.25)
SHARES = np.array([1 / 2, *(1 / 14 for _ in STEPS)])


def clicks(shares: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """n rounds with one click each, in the places by these shares."""
    return np.eye(len(shares))[rng.choice(len(shares), size=n, p=shares)]


def alarm_times(factors: Any, stated: Any, n: int, runs: int, seed: int) -> NDArray[np.float64]:
    """After how many clicks in random order the guard alarms, each looked at; inf if it does not within n.

    Plain arithmetic, for all runs at once: the product of (n_k + m·p0_k)/(n + m)/p0_k, and those of fixed factors.
    """
    rng = np.random.default_rng(seed)
    p, p0 = (np.array(f) / np.sum(f) for f in (factors, stated))
    m = len(p)
    fixed = p0 * np.array(STEPS)[:, None] ** np.arange(m)
    fixed /= fixed.sum(axis=1, keepdims=True)
    counts, log_wealths, times = np.zeros((runs, m)), np.zeros((runs, 8)), np.full(runs, np.inf)
    for t in range(n):
        k = rng.choice(m, size=runs, p=p)
        log_wealths[:, 0] += np.log((counts[np.arange(runs), k] + m * p0[k]) / (t + m) / p0[k])
        log_wealths[:, 1:] += np.log(fixed / p0).T[k]
        counts[np.arange(runs), k] += 1
        times[(np.exp(log_wealths) @ SHARES >= 1000) & np.isinf(times)] = t + 1
    return times


def twin(
    rewards: NDArray[np.float64], rows: NDArray[np.float64], theta: Any, max_reward: float
) -> tuple[NDArray[np.float64], float]:
    """Logs of wealth of all players, and the peak of their mean, of rounds with known placements, from the formulas."""
    theta, m = np.array(theta), len(theta)
    counts, exposures, logs, peak = np.zeros(m), np.zeros(m), np.zeros(8), 0.0
    for R, Q in zip(rewards, rows, strict=True):
        if not R.any():
            continue
        fitted = (counts + m * theta / theta.sum()) / (exposures + 1)
        for i, other in enumerate([fitted, *(theta * a ** np.arange(m) for a in STEPS)]):
            ratio = other / theta
            stake = 1 / max(min(1, max_reward), max_reward * (1 - ratio.min() / ratio.max()))
            g = [ratio[k] * (Q[k] @ theta) / (Q[k] @ other) if R[k] else 1.0 for k in range(m)]
            logs[i] += np.log(1 + stake * sum(R[k] * (g[k] - 1) for k in range(m)))
        for k in np.flatnonzero(R):
            counts[k] += R[k] / R.sum()
            exposures += R[k] / R.sum() * Q[k] / (Q[k] @ fitted)
        peak = max(peak, float(logsumexp(logs, b=SHARES)))
    return logs, peak


def test_the_guard_is_the_plain_product() -> None:
    rng = np.random.default_rng(0)
    for stated in (None, STEEP):
        p0 = np.full(3, 1 / 3) if stated is None else np.array(STEEP) / sum(STEEP)
        guard = PlaceGuard(stated, list_size=3, max_reward=1)
        rounds = clicks(np.array([0.5, 0.3, 0.2]), 400, rng)
        counts, logs, peak = np.zeros(3), np.zeros(8), 0.0
        for k in rounds.argmax(axis=1):
            logs[0] += np.log((counts[k] + 3 * p0[k]) / (counts.sum() + 3) / p0[k])
            for i, a in enumerate(STEPS):
                p = p0 * a ** np.arange(3)
                logs[i + 1] += np.log(p[k] / p.sum() / p0[k])
            counts[k] += 1
            peak = max(peak, float(logsumexp(logs, b=SHARES)))
        for part in np.split(np.insert(rounds, [5, 100], 0.0, axis=0), [7, 8, 300]):
            guard.update(part)
        assert guard.n_rounds == 400
        assert guard.log_evidence == pytest.approx(peak, rel=1e-12)
        assert guard.shares.tolist() == pytest.approx((counts / 400).tolist())
        assert guard.expected.tolist() == pytest.approx(p0.tolist())
        state = guard.state()
        assert state["log_wealths"].tolist() == pytest.approx(logs.tolist(), rel=1e-12)
        prior = 3 * p0
        marginal = gammaln(3) - gammaln(403) + (gammaln(counts + prior) - gammaln(prior) - counts * np.log(p0)).sum()
        assert state["log_wealths"][0] == pytest.approx(marginal)


@pytest.mark.parametrize("stated", [None, STEEP])
def test_equal_placements_are_random_order(stated: Any) -> None:
    """With one reward per round; with several a stake may follow them only if the order is random given the set."""
    rounds = clicks(np.array([0.5, 0.3, 0.2]), 300, np.random.default_rng(1))
    random, known = (PlaceGuard(stated, list_size=3, max_reward=1) for _ in range(2))
    random.update(rounds)
    known.update(rounds, np.full((300, 3, 3), 0.17))
    assert (random.n_known, known.n_known) == (0, 300)
    for name, value in random.state().items():
        if name != "n_known":
            np.testing.assert_allclose(known.state()[name], value, rtol=1e-10, atol=1e-10)
    assert known.noticeable == pytest.approx(random.noticeable, rel=1e-9)


@pytest.mark.parametrize("stated", [None, STEEP])
@pytest.mark.parametrize("max_reward", [0.8, 1.0, 1.5, 3.0])
def test_the_guard_of_a_known_order_is_its_twin(stated: Any, max_reward: float) -> None:
    rng = np.random.default_rng(2)
    n, m = 200, 3
    rows = rng.dirichlet(np.ones(m + 1), size=(n, m))[:, :, :m]
    rewards = rng.random((n, m)) * (rng.random((n, m)) < 0.5)
    rewards *= np.minimum(1, max_reward / np.maximum(rewards.sum(axis=1, keepdims=True), 1e-9))
    guard = PlaceGuard(stated, list_size=m, max_reward=max_reward)
    for part in np.split(np.arange(n), [1, 7, 90]):
        guard.update(rewards[part], rows[part])
    logs, peak = twin(rewards, rows, np.ones(m) if stated is None else stated, max_reward)
    assert guard.state()["log_wealths"].tolist() == pytest.approx(logs.tolist(), rel=1e-11, abs=1e-11)
    assert guard.log_evidence == pytest.approx(peak, rel=1e-11)
    whole = PlaceGuard(stated, list_size=m, max_reward=max_reward)
    whole.update(rewards, rows)
    assert plain(whole.state()) == plain(guard.state())  # into which parts rounds are cut does not matter


def wealth_ratios(before: PlaceGuard, *round_: Any) -> NDArray[np.float64]:
    """By what each player's wealth is multiplied in one more round, and the mean of all."""
    state = before.state()
    again = PlaceGuard.from_state(dict(state), before.places, list_size=before.list_size, max_reward=before.max_reward)
    again.update(*round_)
    after = again.state()
    players = after["log_wealths"] - state["log_wealths"]
    return np.asarray(np.exp(np.append(players, after["log_wealth"] - state["log_wealth"])))


@pytest.mark.parametrize("rewards", [(1, 0, 0), (1, 1, 0), (1, 0.5, 0.2), (0.1, 0, 0), (1, 1, 1)])
def test_bets_have_mean_one_where_places_do_not_matter(rewards: tuple[float, ...]) -> None:
    """Over all orders of one set whose items bring these rewards wherever they are, also several at once."""
    guard = PlaceGuard(None, list_size=3)
    guard.update(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]]))
    means = np.mean([wealth_ratios(guard, [order]) for order in permutations(rewards)], axis=0)
    np.testing.assert_allclose(means, 1, rtol=0, atol=1e-12)


def test_bets_have_mean_one_by_examination() -> None:
    """Over all orders and all outcomes of independent clicks with chances rel·θ_k, several per round."""
    theta, relevance = np.array(STEEP), np.array([0.9, 0.5, 0.2])
    guard = PlaceGuard(STEEP, list_size=3, max_reward=3)
    guard.update([[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0]])
    mean, total = np.zeros(9), 0.0
    for order in permutations(range(3)):
        chances = relevance[list(order)] * theta
        for outcome in product((0.0, 1.0), repeat=3):
            p = float(np.prod(np.where(outcome, chances, 1 - chances))) / 6
            mean += p * wealth_ratios(guard, [outcome])
            total += p
    assert total == pytest.approx(1)
    np.testing.assert_allclose(mean, 1, rtol=0, atol=1e-12)


def known_law(seed: int, m: int, own: float) -> tuple[list[tuple[float, tuple[int, ...]]], NDArray[np.float64]]:
    """Lists with their probabilities and Q(y, k): natural order, with a candidate's own list shown at times."""
    rng = np.random.default_rng(seed)
    q = inclusion(rng.gamma(0.7, size=6), m)
    lists = [((1 - own) * p, one) for p, one in all_lists(q, m)]
    Q = (1 - own) * placements(q, m)
    if own:
        mine = tuple(rng.permutation(6)[:m].tolist())
        lists.append((own, mine))
        Q[list(mine), np.arange(m)] += own
    found = np.zeros_like(Q)
    for p, one in lists:
        found[list(one), np.arange(m)] += p
    np.testing.assert_allclose(found, Q, rtol=0, atol=1e-12)
    return lists, Q


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("stated", [None, STEEP])
def test_bets_have_mean_one_in_any_known_order(seed: int, stated: Any) -> None:
    """Over all lists of a law, and all outcomes of clicks that depend on each other: several per round."""
    m = 3
    lists, Q = known_law(seed, m, own=0.3 if seed % 2 else 0.0)
    theta = np.ones(m) if stated is None else np.array(stated)
    relevance = np.random.default_rng([seed, 1]).random(6)
    guard = PlaceGuard(stated, list_size=m, max_reward=m)
    rng = np.random.default_rng([seed, 2])
    guard.update(np.eye(m)[rng.integers(m, size=9)], rng.dirichlet(np.ones(m), size=(9, m)))
    mean, total = np.zeros(9), 0.0
    for p_list, one in lists:
        rows = Q[list(one)][None]
        chances = relevance[list(one)] * theta
        # One number decides all clicks of a round: those whose chance exceeds it come together.
        cuts = np.sort(np.concatenate([[0.0, 1.0], chances]))
        for low, high in pairwise(cuts):
            mean += p_list * (high - low) * wealth_ratios(guard, [(chances > (low + high) / 2).astype(float)], rows)
            total += p_list * (high - low)
    assert total == pytest.approx(1)
    np.testing.assert_allclose(mean, 1, rtol=0, atol=1e-12)


def test_stakes_do_not_follow_rewards_where_the_order_follows_the_set() -> None:
    """A is in either place equally often: before B, which is always answered as well, or behind C, which never is."""
    lists = [((1.0, 1.0), [[0.5, 0.5], [0.0, 0.5]]), ((0.0, 1.0), [[0.5, 0.0], [0.5, 0.5]])]
    guard = PlaceGuard(None, list_size=2)
    guard.update([[1, 0], [1, 0], [0, 1]])
    known = np.mean([wealth_ratios(guard, [rewards], [rows]) for rewards, rows in lists], axis=0)
    np.testing.assert_allclose(known, 1, rtol=0, atol=1e-12)
    as_if_random = np.mean([wealth_ratios(guard, [rewards]) for rewards, _ in lists], axis=0)
    assert np.abs(as_if_random - 1).max() > 0.01


@pytest.mark.parametrize("max_reward", [0.5, 1.0, 2.0, 3.0])
def test_no_bet_falls_below_zero(max_reward: float) -> None:
    """All that a round may bring, in the place that speaks most against each player, whatever the other places had."""
    m = 3
    for before in range(m):
        guard = PlaceGuard(STEEP, list_size=m, max_reward=max_reward)
        one = min(1.0, max_reward)
        guard.update(np.tile(one * np.eye(m)[before], (50, 1)), np.full((50, m, m), 0.3))
        for k in range(m):
            rewards = np.zeros(m)
            rewards[np.roll(np.arange(m), -k)] = np.clip(max_reward - np.arange(m), 0, 1)
            rows = np.full((m, m), 1e-9) + (1 - 1e-6) * np.eye(m)[[1, 2, 0]]
            ratios = wealth_ratios(guard, [rewards], rows[None])
            assert (ratios >= 1e-12).all()
    # The most that the stake may be: with ρ = 3 rewards in the worst place of the steepest player nearly all is lost.
    steep = PlaceGuard(None, list_size=m, max_reward=1)
    rows = np.full((1, m, m), 1e-9) + (1 - 1e-6) * np.eye(m)[0]
    ratio = wealth_ratios(steep, [[0, 0, 1]], rows)[1]
    assert ratio == pytest.approx(0.3**2, rel=1e-3)


@pytest.mark.parametrize(("factors", "median", "late"), [(STEEP, 79, 157), (DCG, 145, 293)])
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


def test_an_effect_that_does_not_fall_along_the_page_is_noticed() -> None:
    times = alarm_times([1, 1.6, 1], np.ones(3), 3000, 200, seed=2)
    assert np.isfinite(times).all()


def natural_alarms(factors: Any, stated: Any, n: int, runs: int, *, random_share: float, seed: int) -> list[PlaceGuard]:
    """Guards of runs in natural order, each with n clicks in one of five worlds."""
    theta, guards = np.array(factors, dtype=float), []
    worlds = [Clicks(len(theta), random_share=random_share, seed=10 * seed + i, contexts=20) for i in range(5)]
    for run in range(runs):
        world = worlds[run % 5]
        guard = PlaceGuard(stated, list_size=len(theta), max_reward=1)
        guard.update(*world.draw(theta, n, np.random.default_rng([seed, run])))
        guards.append(guard)
    return guards


@pytest.mark.parametrize(("share", "n"), [(0.0, 6000), (0.05, 1700), (0.2, 500)])
def test_effects_are_noticed_in_natural_order(share: float, n: int) -> None:
    """Of 100 runs some 95; fewer than 70 would have a chance below 1e-12."""
    assert binom.cdf(70, 100, 0.93) < 1e-10
    guards = natural_alarms(STEEP, None, n, 100, random_share=share, seed=4)
    assert sum(guard.alarm for guard in guards) > 70


def test_wrong_factors_are_noticed_in_natural_order() -> None:
    guards = natural_alarms(np.ones(3), STEEP, 1700, 100, random_share=0.05, seed=5)
    assert sum(guard.alarm for guard in guards) > 70


def test_no_false_alarms() -> None:
    """In 400 runs of 3,000 clicks, each looked at: more than 9 alarms at a level of .001 have a chance below 1e-9."""
    assert binom.sf(9, 400, 0.001) < 1e-9
    for factors in (np.ones(3), np.array(DCG)):
        assert np.isfinite(alarm_times(factors, factors, 3000, 400, seed=3)).sum() <= 9


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_no_false_alarms_in_natural_order(share: float) -> None:
    """As above."""
    for stated in (None, STEEP):
        theta = np.ones(3) if stated is None else np.array(stated)
        guards = natural_alarms(theta, stated, 1500, 400, random_share=share, seed=6)
        assert sum(guard.alarm for guard in guards) <= 9


@pytest.mark.slow
def test_no_false_alarms_in_long_runs() -> None:
    """In 5,000 runs of 20,000 clicks: more than 25 alarms at a level of .001 have a chance below 1e-9."""
    assert binom.sf(25, 5000, 0.001) < 1e-9
    assert np.isfinite(alarm_times(np.ones(3), np.ones(3), 20_000, 5000, seed=4)).sum() <= 25


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.05])
def test_no_false_alarms_in_long_runs_in_natural_order(share: float) -> None:
    """As above, of 5,000 clicks."""
    guards = natural_alarms(DCG, DCG, 5000, 5000, random_share=share, seed=7)
    assert sum(guard.alarm for guard in guards) <= 25


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


@pytest.mark.parametrize(("share", "n"), [(0.0, 4000), (0.05, 2000), (0.2, 800)])
@pytest.mark.parametrize("stated", [None, STEEP])
def test_it_says_so_in_natural_order_too(stated: Any, share: float, n: int) -> None:
    """Of 200 runs some 190; fewer than 160 would have a chance below 1e-9."""
    assert binom.cdf(160, 200, 0.94) < 1e-9
    base = np.ones(3) if stated is None else np.array(stated)
    a = float(np.mean([guard.noticeable for guard in natural_alarms(base, stated, n, 5, random_share=share, seed=8)]))
    assert 0.2 < a < 0.9
    noticed = natural_alarms(base * a ** (np.arange(3) / 2), stated, n, 200, random_share=share, seed=8)
    assert sum(guard.alarm for guard in noticed) >= 160
    # Nor does it say much too little: an effect that is half as strong (in its log) is noticed in fewer runs.
    weak = natural_alarms(base * a ** (np.arange(3) / 4), stated, n, 200, random_share=share, seed=8)
    assert sum(guard.alarm for guard in weak) < 160


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


def test_what_was_expected_is_by_the_law() -> None:
    """An item that is first three times out of four should bring three quarters of its rewards there."""
    guard = PlaceGuard(None, list_size=2, max_reward=1)
    rows = np.array([[0.6, 0.2], [0.2, 0.6]])
    guard.update(np.tile([0.0, 1.0], (60, 1)), np.tile(rows, (60, 1, 1))[:, ::-1])
    assert guard.alarm
    assert "places matter, and the promise" in guard.message
    assert "75%, 25% were expected" in guard.message
    assert "0%, 100% came" in guard.message


def test_it_is_saved_and_checked() -> None:
    guard = PlaceGuard(STEEP, list_size=3, max_reward=2)
    guard.update(np.random.default_rng(0).random((50, 3)) / 2)
    guard.update(np.random.default_rng(1).random((50, 3)) / 2, np.full((50, 3, 3), 0.3))
    state = guard.state()
    again = PlaceGuard.from_state(dict(state), STEEP, list_size=3, max_reward=2)
    assert plain(again.state()) == plain(state)
    forged: dict[str, Any] = {"peak": -1.0, "n_rounds": 7, "counts": np.ones(2), "log_wealth": 1e9, "n_known": 101}
    forged |= {"log_wealths": state["log_wealths"] + 1, "expected": np.ones(3), "exposures": -np.ones(3)}
    forged["information"] = -1 - state["information"]
    for name, value in forged.items():
        with pytest.raises(InputError):
            PlaceGuard.from_state({**state, name: value}, STEEP, list_size=3, max_reward=2)


@pytest.mark.parametrize("stated", [None, STEEP])
def test_files_from_before_orders_were_known_are_read(stated: Any) -> None:
    """All wealth goes on with all players; what could have been noticed is that of random order."""
    rounds = clicks(np.array([0.4, 0.3, 0.3]), 400, np.random.default_rng(3))
    counts = rounds.sum(axis=0)
    old = {"counts": counts, "log_wealth": -1.5, "peak": 0.7, "n_rounds": 400}
    guard = PlaceGuard.from_state(old, stated, list_size=3, max_reward=1)
    assert guard.log_evidence == 0.7
    assert guard.state()["log_wealths"].tolist() == [-1.5] * 8
    assert guard.state()["log_wealth"] == -1.5
    new = PlaceGuard(stated, list_size=3, max_reward=1)
    new.update(rounds)
    assert guard.noticeable == pytest.approx(new.noticeable)
    assert guard.expected.tolist() == pytest.approx(new.expected.tolist())
    guard.update(rounds)
    assert guard.n_rounds == 800


def test_what_it_cannot_watch_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to watch"):
        PlaceGuard("pairs", list_size=3)  # type: ignore[arg-type]
    guard = PlaceGuard(None, list_size=3)
    for wrong in ([[1, 0]], [[-1, 0, 0]], [1, 0, 0]):
        with pytest.raises(InputError, match="rewards must be those of 3 places"):
            guard.update(wrong)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((1, 3), 0.3), "shape"),
        (np.full((2, 3, 3), 0.3), "shape"),
        (np.full((1, 3, 3), 0.4), "together at most 1"),
        (np.full((1, 3, 3), -0.1), "in \\[0, 1\\]"),
        (np.full((1, 3, 3), np.nan), "in \\[0, 1\\]"),
        (np.array([[[0.0, 0.5, 0.5]] * 3]), "shown in a place"),
    ],
)
def test_placements_that_cannot_be_are_refused(rows: Any, message: str) -> None:
    guard = PlaceGuard(None, list_size=3)
    with pytest.raises(InputError, match=message):
        guard.update([[1, 0, 0]], rows)
    assert guard.n_rounds == 0
    guard.update([[0, 0, 0]], np.full((1, 3, 3), np.nan))  # where nothing was answered they do not matter


@pytest.mark.parametrize(
    "rewards", [[[np.inf, 0, 0]], [[1, 1, 1]], [[2, 0, 0]], [[np.nan, 0, 0]], [["a", 0, 0]], [1, 0]]
)
def test_rewards_that_cannot_be_are_refused(rewards: Any) -> None:
    guard = PlaceGuard(None, list_size=3, max_reward=2)
    with pytest.raises(InputError, match="rewards"):
        guard.update(rewards)
    assert guard.n_rounds == 0
