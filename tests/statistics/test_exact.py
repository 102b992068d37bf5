"""Sums that do not depend on order, parts or grouping, and that are those of rational arithmetic."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from comband.page.bits import PackedRows
from comband.statistics.exact import MOST, ExactSums, ExactValueSums
from comband.statistics.histograms import ValueHistograms
from comband.statistics.importance import SharedActions

Seen = tuple[ValueHistograms, ExactValueSums]


def seen(values: NDArray[np.float64], *, bound: float, events: int = 1) -> Seen:
    """Rounds with one event in the lists of all P candidates, whose weight is X; or with others that nobody shows."""
    n = len(values)
    rows, inside = np.arange(n), np.zeros((n * events, 3), dtype=bool)
    inside[::events] = True
    shared = SharedActions(rows, np.arange(n * events), np.repeat(rows, events), PackedRows.from_cells(inside))
    values = np.repeat(values, events)
    histograms = ValueHistograms.zero(3, bound=bound, n_rounds=n)
    sums = ExactValueSums.zero(3, bound=bound, n_rounds=n)
    histograms.add_shared(shared, values, sums=sums)
    return histograms, sums


def digits(both: Seen) -> list[NDArray[np.int64]]:
    for exact in (both[0].exact, both[1].sums, both[1].squares):
        exact.carry()
    return [both[0].exact.digits, both[1].sums.digits, both[1].squares.digits]


def numbers(rng: np.random.Generator, n: int, bound: float) -> NDArray[np.float64]:
    """Of all sizes, where a floating-point sum depends on the order."""
    return np.asarray(bound * 10.0 ** -rng.uniform(0, 9, n))


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([1.0, 37.5, 1e4, 3e-5]))
@settings(deadline=None, max_examples=30)
def test_any_order_and_any_parts_have_the_same_digits(seed: int, n_parts: int, bound: float) -> None:
    rng = np.random.default_rng(seed)
    values = numbers(rng, 200, bound)
    whole = seen(values, bound=bound)
    cuts = np.sort(rng.integers(0, 201, n_parts - 1))
    parts = [seen(part, bound=bound) for part in np.split(rng.permutation(values), cuts)]
    while len(parts) > 1:  # put together in any way
        i, j = rng.choice(len(parts), 2, replace=False)
        (a, x), (b, y) = parts[i], pickle.loads(pickle.dumps(parts[j]))
        parts = [part for k, part in enumerate(parts) if k not in (i, j)] + [(a + b, x + y)]
    for one, other in zip(digits(whole), digits(parts[0]), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole[1].rounded().sums, parts[0][1].rounded().sums)


@pytest.mark.parametrize("events", [1, 2, 9])  # for all at once, looked up, and not
def test_sums_are_those_of_rational_numbers(events: int) -> None:
    rng = np.random.default_rng(1)
    values = numbers(rng, 3000, 250.0)
    sums = seen(values, bound=250.0, events=events)[1].rounded()
    exact = sum(Fraction(value) for value in values.tolist())
    squares = sum(Fraction(value) ** 2 for value in values.tolist())
    assert abs(float(Fraction(sums.sums[0]) / exact - 1)) < 1e-15
    assert abs(float(Fraction(sums.squares[0]) / squares - 1)) < 1e-15


def test_digits_are_carried_before_they_run_over() -> None:
    exact = ExactSums.zero(1, digits=2)
    for _ in range(40):  # 40·2^20 fours would be 2^67
        exact.room(MOST)
        exact.digits[1] += np.int64(4 * MOST) << 40
    assert exact.values.tolist() == [160 * MOST]
    assert (exact + exact).values.tolist() == [320 * MOST]


def test_what_lies_out_of_range_is_refused_as_before() -> None:
    for value in (3.0, 1e300, np.inf, np.nan):
        with pytest.raises(ValueError, match="at most 2 can be"):
            seen(np.array([1.0, value]), bound=2.0)
