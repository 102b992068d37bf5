"""Orders that are uniformly random, each from one uniform number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def seed_of(u: float) -> np.uint64:
    """The 53 bits of a uniform number."""
    return np.uint64(u * 9007199254740992.0)


@njit(cache=True, nogil=True)
def next_uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """SplitMix64: the next state and a uniform number of 53 bits (Steele, Lea & Flood 2014)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def shuffle_row(shown: Any, propensities: Any, u: float) -> None:
    """Put a list (m,), and its propensities with it, into an order that is uniformly random."""
    state = seed_of(u)
    for k in range(len(shown) - 1, 0, -1):
        state, uniform = next_uniform(state)
        j = np.int64(uniform * (k + 1))
        shown[k], shown[j] = shown[j], shown[k]
        propensities[k], propensities[j] = propensities[j], propensities[k]


@njit(cache=True, nogil=True)
def shuffle_lists(lists: NDArray[np.int32], propensities: NDArray[np.float64], u: NDArray[np.float64]) -> None:
    """Put each of lists (n, m), and its propensities with it, into an order that is uniformly random: row i by u[i]."""
    if propensities.shape != lists.shape or len(u) != len(lists):
        raise IndexError("shuffle_lists: one propensity for each action and one number for each list")
    for i in range(len(lists)):
        shuffle_row(lists[i], propensities[i], u[i])
