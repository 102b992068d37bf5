"""Loops of exploration that is learnt online: what rewarded rounds are worth to every policy."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SMALL = 0.02  # below, log(1 + z) would cancel z but for a few digits: the series has an error of 1e-16 of its value


@njit(cache=True, nogil=True)
def bend(z: float) -> float:
    """ψ(z) = z − log(1 + z) for z ≥ 0, to the last digits also where z is small."""
    if z >= _SMALL:
        return z - math.log1p(z)
    total = 0.0
    for j in range(10, 1, -1):  # z²/2 − z³/3 + z⁴/4 − …, from the back
        total = 1.0 / j - z * total
    return z * z * total


@njit(cache=True, nogil=True)
def credit_rounds(
    lists: NDArray[np.int32],
    rows: NDArray[np.int64],
    actions: NDArray[np.int32],
    amounts: NDArray[np.float64],
    scale: float,
    totals: NDArray[np.float64],
    bends: NDArray[np.float64],
) -> None:
    """For lists (n, P, m) and events whose rows ascend: R = Σ amounts[e]·1[actions[e] ∈ lists[i, p]] over the events of
    row i; totals[p] −= R and bends[p] += ψ(scale·R).
    """
    n_policies, m = lists.shape[1], lists.shape[2]
    if len(actions) != len(rows) or len(amounts) != len(rows):
        raise IndexError("credit_rounds: an action and an amount for each row")
    if len(totals) != n_policies or len(bends) != n_policies:
        raise IndexError("credit_rounds: two sums for each policy")
    gained = np.zeros(n_policies, dtype=np.float64)
    first = 0
    while first < len(rows):
        i = rows[first]
        if not 0 <= i < len(lists):
            raise IndexError("credit_rounds: a row is out of range")
        block = lists[i]
        gained[:] = 0.0
        end = first
        while end < len(rows) and rows[end] == i:
            y, amount = actions[end], amounts[end]
            for p in range(n_policies):
                hit = 0
                for j in range(m):
                    hit |= 1 if block[p, j] == y else 0
                gained[p] += amount * hit
            end += 1
        for p in range(n_policies):
            if gained[p] > 0.0:
                totals[p] -= gained[p]
                bends[p] += bend(scale * gained[p])
        first = end
