"""Stakes, the wealth of an average over them, and where it crosses a threshold.

Every bet of this library is placed at several stakes at once: an average of fair bets is fair, and one of the stakes is
close to the best whatever the data. So all of them need the same three things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def stake_grid(n: int, *, largest: float = 1.0, per_octave: float = 1.0) -> Floats:
    """`largest`·2^(−k/`per_octave`) for k = 0 … n − 1; fixed beforehand, so it cannot be written to.

    >>> stake_grid(4, largest=0.5).tolist()
    [0.5, 0.25, 0.125, 0.0625]
    """
    grid = largest * 2.0 ** (-np.arange(n) / per_octave)
    grid.flags.writeable = False
    return grid


def log_mean_exp(logs: Floats) -> Floats:
    """log of the average over the last axis of exp(logs): the log-wealth of the average of bets."""
    top = np.maximum(logs.max(axis=-1, keepdims=True), -1e300)  # −∞, where all is lost, stays −∞
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top).mean(axis=-1)))


def bisect(
    reached: Callable[[Floats], NDArray[np.bool_]], low: ArrayLike, high: ArrayLike, *, steps: int = 50
) -> tuple[Floats, Floats]:
    """Where a property that is false below and true above begins, each number by itself: (last false, first true).

    Ends that were never asked stand for themselves: `high` where nothing in between is true, `low` where all of it is.

    >>> [round(float(end), 6) for end in bisect(lambda x: x**2 >= 2, 0.0, 2.0)]
    [1.414214, 1.414214]
    """
    below, above = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    for _ in range(steps):
        middle = (below + above) / 2
        true = reached(middle)
        below, above = np.where(true, below, middle), np.where(true, middle, above)
    return below, above


def crossing(
    excess: Callable[[Floats], Floats], largest: float, *, start: Floats, guess: Floats, steps: int = 32
) -> Floats:
    """The least of the numbers 0, h, 2h … `largest`, h = `largest`/2^`steps`, where a growing function is not negative,
    each function by itself; `largest` also where there is none.

    That is what `bisect` finds, up to rounding and whatever the path: `start`, up to which the function is known to be
    negative unless it nowhere is, and `guess`, where the search goes on, only make it shorter, ten calls or so.
    Chandrupatla's method interpolates where three points promise that this gains and halves elsewhere; after `steps`
    calls it only halves.

    >>> round(float(crossing(lambda x: x**2 - 2, 2.0, start=np.zeros(1), guess=np.ones(1))[0]), 6)
    1.414214
    """
    n = 2.0**steps
    h = largest / n
    below, place = (np.floor(np.fmax(np.fmin(x / h, n), 0.0)) for x in (start, guess))
    above = np.full_like(below, n)
    at_below, at_above = excess(below * h), excess(above * h)
    below, above = np.where(at_above < 0, above, below), np.where(at_below >= 0, below, above)
    # The last one asked, and the one across from it.
    last, at_last, across, at_across = above, at_above, below, at_below
    was_reached = np.ones(below.shape, dtype=np.bool_)
    for calls in count():
        going_on = above - below > 1
        if not going_on.any():
            break
        place = np.where(going_on, np.clip(place, below + 1, above - 1), above)  # who has ended asks what he knows
        value = excess(place * h)
        reached = value >= 0
        below, above = np.where(reached, below, place), np.where(reached, place, above)
        stayed = reached == was_reached
        before, at_before = np.where(stayed, last, across), np.where(stayed, at_last, at_across)
        across, at_across = np.where(stayed, across, last), np.where(stayed, at_across, at_last)
        last, at_last, was_reached = place, value, reached
        with np.errstate(all="ignore"):  # infinite values, and those that have ended: halved
            where, height = (last - across) / (before - across), (at_last - at_across) / (at_before - at_across)
            share = at_last / (at_across - at_last) * at_before / (at_across - at_before) + (before - last) / (
                across - last
            ) * at_last / (at_before - at_last) * at_across / (at_before - at_across)
            gains = (height**2 < where) & ((1 - height) ** 2 < 1 - where) & (calls < steps)
        place = np.round(last + np.where(gains & np.isfinite(share), share, 0.5) * (across - last))
    return np.asarray(above * h)


def one_by_one(total: Floats, terms: Floats) -> Floats:
    """`total` (…) and after it the `terms` (n, …), added one after the other: adding some of them first and the
    others to that finds the same number, to the last bit.

    >>> tenths = np.full((10, 1), 0.1)
    >>> bool(one_by_one(np.zeros(1), tenths) == one_by_one(one_by_one(np.zeros(1), tenths[:7]), tenths[7:]))
    True
    """
    return np.asarray(np.add.accumulate(np.concatenate([total[None], terms]))[-1])


def by_round(worth: Floats, rows: NDArray[Any]) -> Floats:
    """Sums (R, …) of `worth` (E, …) over the events of each round, which stand together (equal `rows`).

    >>> by_round(np.array([[1.0], [2.0], [4.0]]), np.array([7, 7, 9])).tolist()
    [[3.0], [4.0]]
    """
    starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 1)) if len(rows) else np.empty(0, dtype=np.int64)
    return worth if len(starts) == len(worth) else np.asarray(np.add.reduceat(worth, starts, axis=0))


def between(places: NDArray[np.int64], n: int) -> Iterator[slice]:
    """The parts of 0 … n − 1 before, between and after some places, of which each stands after so many.

    >>> [(part.start, part.stop) for part in between(np.array([2, 2, 5]), 6)]
    [(0, 2), (2, 2), (2, 5), (5, 6)]
    """
    start = 0
    for stop in places.tolist():
        yield slice(start, stop)
        start = stop
    yield slice(start, n)


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """The same with n further rows of zeros."""
    return np.concatenate([array, np.zeros((n, *array.shape[1:]), dtype=array.dtype)])
