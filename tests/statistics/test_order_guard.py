"""The guard of the order: its wealth by straight-line products, exactly fair, seldom wrong, and quick if it can be."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.statistics import order_guard
from comband.statistics.order_guard import OrderGuard
from tests.states import plain

NONE = np.empty(0, dtype=np.int64)


def fed(guard: OrderGuard, d: NDArray[np.float64], first: int, bounds: tuple[float, float], **more: Any) -> None:
    """Rounds of the first pair, from a decision on."""
    ids = first + np.arange(len(d))
    options = {"rounds": ids, "uncovered": NONE} | more
    guard.update(np.array([0]), d[:, None], ids, bounds=np.array([bounds]), **options)


def close_moments(guard: OrderGuard) -> OrderGuard:
    """The same guard with moments after every single round."""
    guard._moments = 1 + np.arange(len(guard._moments))
    return guard


def wealth(guard: OrderGuard, d: NDArray[np.float64], g: float, bounds: NDArray[np.float64]) -> float:
    """W(g) of one pair by products; `bounds` (n, 2) of each round."""
    up = np.minimum(guard._stakes, 0.9 / bounds[:, :1])
    down = np.minimum(guard._stakes, 0.9 / bounds[:, 1:])
    above, below = (1 + up * d[:, None]) / (1 + up * g), (1 - down * d[:, None]) / (1 - down * g)
    total = 0.0
    for tau in guard._moments:
        for early, late in ((above, below), (below, above)):
            total += early[:tau].prod(axis=0).mean() * late[tau:].prod(axis=0).mean()
    return total / (2 * len(guard._moments))


def test_wealth_is_that_of_the_formula_and_its_minimum_is_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        guard = close_moments(OrderGuard())
        guard.begin(3, 1, 40)
        parts = [rng.choice([-1.5, 0.0, 0.0, 2.0], size=30), rng.choice([-3.0, 0.0, 1.2], size=25)]
        bounds = [(1.5, 2.0), (3.0, 1.2)]
        fed(guard, parts[0], 40, bounds[0])
        fed(guard, parts[1][::-1], 70, bounds[1], rounds=np.arange(94, 69, -1))  # whichever is told first
        d = np.concatenate([parts[0], parts[1][::-1]])
        each = np.repeat(bounds, [30, 25], axis=0)
        function = order_guard._Wealth(guard, 0)
        for g in (-0.7, 0.0, 0.3):
            assert function.at(g)[0] == pytest.approx(np.log(wealth(guard, d, g, each)), abs=1e-10)
            slope = (function.at(g + 1e-6)[0] - function.at(g - 1e-6)[0]) / 2e-6
            assert function.at(g)[1] == pytest.approx(slope, rel=1e-4, abs=1e-4)
        least = function.at(function.minimum(1.0))[0]
        grid = [function.at(g)[0] for g in np.linspace(-1, 1, 2001)]
        assert min(grid) - 1e-3 < least <= min(grid) + 1e-12


@pytest.mark.parametrize("uncovered", [False, True])
def test_bets_are_fair_whatever_is_drawn(uncovered: bool) -> None:
    """Every outcome of five rounds, the last two of which are drawn otherwise, but with the same mean 0.2."""
    first, second = ((-1.0, 0.3), (0.0, 0.2), (1.0, 0.5)), ((-2.0, 0.4), (1.0, 0.2), (2.0, 0.4))
    assert [sum(x * q for x, q in kind) for kind in (first, second)] == pytest.approx([0.2, 0.2])
    expected = 0.0
    for path in product(*([first] * 3 + [second] * 2)):
        guard = close_moments(OrderGuard())
        guard.begin(0, 1, 0)
        d, chance = np.array([x for x, _ in path]), float(np.prod([q for _, q in path]))
        fed(guard, d[:3], 0, (1.0, 1.0))
        if uncovered:
            # The last round may be anything: it counts as the worst.
            fed(guard, d[3:4], 3, (2.0, 2.0), rounds=np.array([3, 4]), uncovered=np.array([4]))
        else:
            fed(guard, d[3:], 3, (2.0, 2.0))
        expected += chance * np.exp(order_guard._Wealth(guard, 0).at(0.2)[0])
    if uncovered:
        assert 0.5 < expected < 1
    else:
        assert expected == pytest.approx(1, abs=1e-12)


def test_weights_of_pairs_sum_to_one() -> None:
    known = sum(order_guard._weight(s) for s in range(10**5))
    assert 1 - 2 * (10**5) ** -0.5 / 1.6 < known < 1


def a_run(
    rng: np.random.Generator,
    n: int,
    *,
    swap: bool = False,
    shares: tuple[float, ...] = (0.2, 0.4, 0.7, 0.9),
    level: float = 0.001,
    period: int = 1,
) -> tuple[int | None, OrderGuard]:
    """When it gives alarm, over n rounds: 5% clicks, 2% with the other list, shown more and more often."""
    guard, t = OrderGuard(level=level, period=period), 0
    guard.begin(0, 1, 0)
    for q in shares:
        size = n // len(shares)
        first, second = np.array((0.02, 0.05) if swap and t >= n // 2 else (0.05, 0.02))
        if period > 1:  # by night nobody clicks, by day twice as many
            light = np.arange(size) % period < period // 2
            first, second = 2 * first * light, 2 * second * light
        u, shown = rng.random(size), rng.random((size, 2)) < q
        d = np.where(u < first, shown[:, 0] / q, 0) - np.where((u >= first) & (u < first + second), shown[:, 1] / q, 0)
        for part in np.array_split(d, 10):
            fed(guard, part, t, (1 / q, 1 / q))
            t += len(part)
            guard.look()
            if guard.alarm:
                return t, guard
    return None, guard


@pytest.mark.parametrize("period", [1, 20])
def test_false_alarms_are_rare(period: int) -> None:
    runs, level = 60, 0.1
    alarms = sum(
        a_run(np.random.default_rng([s, period]), 4000, level=level, period=period)[0] is not None for s in range(runs)
    )
    assert alarms <= binom.isf(1e-6, runs, level)


@pytest.mark.slow
def test_false_alarms_stay_below_the_level() -> None:
    runs = 3000
    found = [a_run(np.random.default_rng([s, 7]), 8000)[0] for s in range(runs)]
    alarms = sum(one is not None for one in found)
    print(f"{alarms} of {runs} runs gave a false alarm")
    assert alarms <= binom.isf(1e-6, runs, 0.001)


def test_a_swap_is_noticed_and_described() -> None:
    when, guard = a_run(np.random.default_rng(3), 16_000, swap=True, shares=(0.7, 0.9, 0.8, 0.9))
    assert when is not None
    assert 8000 < when <= 13_000
    assert guard.change is not None
    assert 6500 < guard.change.moment < 9500
    assert guard.change.before > 0 > guard.change.after
    text = guard.message(["the old one", "the new one"])
    assert text.startswith("the order of candidates is not what it was: the old one less the new one was +0.0")
    assert "certify again" in text
    again = OrderGuard()
    again.restore(guard.state(), P=2)
    assert plain(again.state()) == plain(guard.state())
    assert again.alarm
    assert again.message(["a", "b"]) == guard.message(["a", "b"])


def test_pairs_come_and_go() -> None:
    rng, guard = np.random.default_rng(5), OrderGuard()
    guard.begin(0, 1, 0)
    guard.begin(0, 2, 50)
    d, ids = rng.choice([-1.0, 0.0, 1.0], size=(100, 2)), np.arange(100)
    both = np.ones((2, 2))
    guard.update(np.array([0, 1]), d, ids, rounds=ids, uncovered=NONE, bounds=both)
    alone = OrderGuard()
    alone.begin(5, 5, 0)  # takes a number
    alone.begin(0, 2, 50)
    alone.keep(np.array([False, True]))
    alone.update(np.array([0]), d[50:, 1:], ids[50:], rounds=ids[50:], uncovered=NONE, bounds=both[:1])
    guard.keep(np.array([False, True]))  # rounds before decision 50 never counted for it
    assert plain(guard.state()) == plain(alone.state())


def test_files_that_cannot_be_are_refused() -> None:
    guard = OrderGuard()
    guard.begin(0, 1, 0)
    fed(guard, np.array([1.0, -1.0, 0.0]), 0, (1.0, 1.0))
    good = guard.state()
    for wrong in (
        {"pairs": np.array([[1, 1]])},
        {"bounds": np.array([[0.5, 1.0]])},
        {"logs": good["logs"] + 1},
        {"begun": 0},
        {"peak": 20.0},
    ):
        with pytest.raises(cb.InputError):
            OrderGuard().restore({**good, **wrong}, P=2)
