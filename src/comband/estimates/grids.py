"""Stakes, the wealth of an average over them, and where it crosses a threshold.

Every bet of this library is placed at several stakes at once: an average of fair bets is fair, and one of the stakes is
close to the best whatever the data. So all of them need the same three things.
"""

from __future__ import annotations

from collections.abc import Callable
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


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """The same with n further rows of zeros."""
    return np.concatenate([array, np.zeros((n, *array.shape[1:]), dtype=array.dtype)])
