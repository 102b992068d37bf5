"""Every statistic speaks one grammar: zero, add, a + b, bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from comband.statistics import PairSums, ValueBets, ValueSums
from comband.statistics.histograms import ValueHistograms

P, BOUND, DELTA = 3, 2.0, 1e-8


class Statistic(NamedTuple):
    zero: Callable[[int], Any]
    add: Callable[[Any, np.ndarray], None]
    bounds: Callable[[Any], Any]
    arrays: Callable[[Any], list[Any]]


def _bet(statistic: ValueBets, block: np.ndarray) -> None:
    rows, _ = np.nonzero(block)  # one event per candidate and round, so that each can have a value of its own
    events = np.unique(rows)
    for j in range(P):
        weights = block[events, j]
        statistic.add(
            np.array([j]), np.ones((len(events), 1), dtype=bool), events, weights, bound=BOUND, n_rounds=len(block)
        )


STATISTICS = {
    "ValueSums": Statistic(
        lambda n: ValueSums.zero(P, n_rounds=n),
        lambda s, block: s.add(block),
        lambda s: s.bounds(bound=BOUND, delta=DELTA),
        lambda s: [s.n_rounds, s.sums, s.squares],
    ),
    "PairSums": Statistic(
        lambda n: PairSums.zero(P, 1, n_rounds=n),
        lambda s, block: s.add(block),
        lambda s: (np.zeros(P), s.bounds(bound=BOUND, delta=DELTA)),
        lambda s: [s.n_rounds, s.leader, s.sums, s.squares],
    ),
    "ValueHistograms": Statistic(
        lambda n: ValueHistograms.zero(P, bound=BOUND, n_rounds=n),
        lambda s, block: s.add(block),
        lambda s: s.bounds(threshold=P / DELTA, largest=1.0),
        lambda s: [s.n_rounds, s.counts],
    ),
    "ValueBets": Statistic(
        lambda n: ValueBets.zero(P),
        _bet,
        lambda s: s.bounds(delta=DELTA, max_reward=1.0),
        lambda s: [s.n_rounds, s.sums, s.low, s.high],
    ),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_what_was_seen_in_parts_is_what_was_seen(name: str) -> None:
    zero, add, bounds, arrays = STATISTICS[name]
    rng = np.random.default_rng(5)
    values = BOUND * (rng.random((400, P)) < 0.2)
    whole, parts = zero(400), [zero(150), zero(250)]
    add(whole, values)
    for part, block in zip(parts, (values[:150], values[150:]), strict=True):
        add(part, block[:40])
        add(part, block[40:])
    for sum_of_both in (parts[0] + parts[1], parts[1] + parts[0], zero(0) + whole):
        for one, other in zip(arrays(sum_of_both), arrays(whole), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        for one, other in zip(bounds(sum_of_both), bounds(whole), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", STATISTICS)
def test_bounds_hold_what_they_are_about_and_narrow(name: str) -> None:
    zero, add, bounds, _ = STATISTICS[name]
    rng = np.random.default_rng(6)
    chances = np.array([0.1, 0.15, 0.2])  # means 0.2, 0.3, 0.4
    truth = np.maximum(BOUND * (chances - chances[1]), 0) if name == "PairSums" else BOUND * chances
    widths = []
    for n in (200, 20_000):
        statistic = zero(n)
        add(statistic, BOUND * (rng.random((n, P)) < chances))
        low, high = bounds(statistic)
        assert (low <= truth + 1e-12).all()
        assert (high >= truth - 1e-12).all()
        widths.append((high - low).max())
    assert widths[1] < widths[0] / 3
