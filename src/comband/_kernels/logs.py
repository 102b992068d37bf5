"""Checks of the rounds and lists of a log."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def round_faults(
    items: NDArray[np.int64],
    rewards: NDArray[np.float64],
    propensities: NDArray[np.float64],
    least_reward: float,
    most: float,
    least: float,
    largest: float,
    repeats: bool,
) -> NDArray[np.uint8]:
    """The first thing wrong with each logged round, 0 if nothing is: see `comband.evaluation.logs.checks.KINDS`.

    Rewards are 0 or at least `least_reward`, their sum at most `most`; propensities lie in [least, largest]; items of
    code −1 are unknown ones.
    """
    n, m = items.shape
    if rewards.shape != items.shape or propensities.shape != items.shape:
        raise IndexError("round_faults: shapes do not fit together")
    codes = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        total = 0.0
        for j in range(m):
            q, r = propensities[i, j], rewards[i, j]
            if items[i, j] < 0:
                codes[i] = 1
            elif np.isnan(q):
                codes[i] = 2
            elif not least <= q <= largest:
                codes[i] = 3
            elif np.isnan(r):
                codes[i] = 4
            elif not (r == 0.0 or least_reward <= r <= 1.0):
                codes[i] = 5
            if codes[i]:
                break
            total += r
            if not repeats:
                for k in range(j):
                    if items[i, k] == items[i, j]:
                        codes[i] = 6
                if codes[i]:
                    break
        if codes[i] == 0 and total > most:
            codes[i] = 7
    return codes


@njit(cache=True, nogil=True)
def list_faults(items: NDArray[np.int64]) -> NDArray[np.uint8]:
    """1 where a list holds an unknown item (code −1), 6 where it repeats one, otherwise 0."""
    n, m = items.shape
    codes = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        for j in range(m):
            if items[i, j] < 0:
                codes[i] = 1
                break
            for k in range(j):
                if items[i, k] == items[i, j]:
                    codes[i] = 6
    return codes


@njit(cache=True, nogil=True)
def number_marks(ids: NDArray[np.int64], prime: int, multiplier: int) -> NDArray[np.int64]:
    """(id·multiplier mod prime)² mod prime of each id; the prime is below 2^31, so that nothing overflows."""
    marks = np.empty(len(ids), dtype=np.int64)
    for i in range(len(ids)):
        spread = (ids[i] % prime) * multiplier % prime  # % is of the divisor's sign here, as in Python
        marks[i] = spread * spread % prime
    return marks


@njit(cache=True, nogil=True)
def least_of_shared(bits: NDArray[np.uint64], values: NDArray[np.float64]) -> float:
    """The smallest value of a row in which some bit is set; infinite if there is none."""
    if len(values) != len(bits):
        raise IndexError("least_of_shared: one value for each row")
    least = np.inf
    for e in range(len(bits)):
        if values[e] < least:
            for word in range(bits.shape[1]):
                if bits[e, word] != 0:
                    least = values[e]
                    break
    return least
