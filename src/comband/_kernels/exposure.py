"""What a guard of exposures wins and loses on each group of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.rising import end_of

TOGETHER = 16  # rounds whose bets are multiplied before the logarithm is taken: far from what a number can hold


@njit(cache=True, nogil=True)
def _bin(q: float, edges: Any) -> int:
    """How many edges are not above q."""
    n = 0
    for edge in edges:
        n += q >= edge
    return n


@njit(cache=True, nogil=True)
def exposure_bets(
    shown: NDArray[np.int64],
    starts: NDArray[np.int64],
    actions: NDArray[np.int64],
    values: NDArray[np.float64],
    rest: NDArray[np.float64],
    n_actions: int,
    n_classes: int,
    edges: NDArray[np.float64],
    stakes: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Products of the bets of `ExposureGuard` over 16 rounds each, (⌈n/16⌉, groups, 2, stakes), and Q of the shown
    actions (n, m).

    shown (n, m), −1 in places that are surely empty; Q of actions[starts[i]:starts[i + 1]], in rising order, are
    `values` in round i, and rest[i] is that of all others. Groups are bins of the propensity between the edges, classes
    of actions y by y mod `n_classes`, and the sum of inverse propensities.
    """
    n, m = shown.shape
    if len(starts) != n + 1 or len(rest) != n or len(actions) != len(values) or not 0 < n_classes <= n_actions:
        raise IndexError("exposure_bets: shapes do not fit together")
    if starts[0] != 0 or starts[n] != len(values):
        raise IndexError("exposure_bets: rows must hold all values")
    n_bins = len(edges) + 1
    n_groups = n_bins + n_classes + 1
    bets = np.ones((-(-n // TOGETHER), n_groups, 2, len(stakes)))
    of_shown = np.empty((n, m))
    observed, expected, largest = np.empty(n_groups), np.empty(n_groups), np.empty(n_groups)
    others = np.empty(n_classes)
    for i in range(n):
        observed[:], expected[:], largest[:] = 0.0, 0.0, 0.0
        for c in range(n_classes):
            others[c] = (n_actions - 1 - c) // n_classes + 1
        inverse = 1.0 / rest[i] if rest[i] > 0.0 else 0.0
        low, high = starts[i], starts[i + 1]
        if not 0 <= low <= high <= len(values):
            raise IndexError("exposure_bets: rows must follow one another")
        for e in range(low, high):
            if not 0 <= actions[e] < n_actions:
                raise IndexError("exposure_bets: an action is out of range")
            c, b = actions[e] % n_classes, _bin(values[e], edges)
            others[c] -= 1.0
            expected[n_bins + c] += values[e]
            expected[b] += values[e]
            if values[e] > 0.0:
                largest[n_bins + c] += 1.0
                largest[b] += 1.0
                inverse = max(inverse, 1.0 / values[e])
        n_others, n_positive, b = 0.0, 0.0, _bin(rest[i], edges)
        for c in range(n_classes):
            left = max(others[c], 0.0)
            n_others += left
            if rest[i] > 0.0:
                expected[n_bins + c] += left * rest[i]
                largest[n_bins + c] += left
            n_positive += largest[n_bins + c]
        if rest[i] > 0.0:
            expected[b] += n_others * rest[i]
            largest[b] += n_others
        possible = True
        for k in range(m):
            y = shown[i, k]
            if y == -1:
                of_shown[i, k] = 1.0
                continue
            if not 0 <= y < n_actions:
                raise IndexError("exposure_bets: a shown action is out of range")
            place = end_of(actions, low, high, y) - 1
            q = values[place] if place >= low and actions[place] == y else rest[i]
            of_shown[i, k] = q
            observed[_bin(q, edges)] += 1.0
            observed[n_bins + y % n_classes] += 1.0
            if q > 0.0:
                observed[n_groups - 1] += 1.0 / q
            else:
                possible = False
        expected[n_groups - 1], largest[n_groups - 1] = n_positive, m * inverse
        together = bets[i // TOGETHER]
        for g in range(n_groups):
            most = min(largest[g], m) if g < n_groups - 1 else largest[g]
            over, up, down = observed[g] - expected[g], expected[g], most - expected[g]
            # Each direction is scaled by the most that it can lose in this context: no bet can lose everything.
            more = max(over / up, -1.0) if up > 1e-9 else 0.0
            less = max(-over / down, -1.0) if down > 1e-9 else 0.0
            for j in range(len(stakes)):
                together[g, 0, j] *= 1.0 + stakes[j] * more
                together[g, 1, j] *= 1.0 + stakes[j] * less
        if not possible:
            together *= 2.0  # an action of probability zero was shown
    return bets, of_shown
