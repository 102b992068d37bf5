"""Bets on the places of rewards: the loop of `comband.statistics.place_guard`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def stake_against(smallest: float, largest: float, max_reward: float) -> float:
    """The stake on factors whose ratios to the stated ones lie between these.

    A reward counts by ratio − 1 > smallest/largest − 1, a round's rewards sum to ρ at most, and no bet may fall below
    zero; a stake of 1 on a reward of 1 is the likelihood ratio.
    """
    return 1.0 / max(min(1.0, max_reward), max_reward * (1.0 - smallest / largest))


@njit(cache=True, nogil=True)
def _sum(row: Floats, factors: Floats) -> float:
    """Σ_k of probabilities of places times factors; the library's product costs more than so few numbers."""
    total = 0.0
    for k in range(len(row)):
        total += row[k] * factors[k]
    return total


@njit(cache=True, nogil=True)
def bet_on_places(
    rewards: Floats,
    placements: Floats,
    stated: Floats,
    others: Floats,
    stakes: Floats,
    shares: Floats,
    effects: Floats,
    effect_stakes: Floats,
    nearest: NDArray[np.int64],
    max_reward: float,
    by_total: bool,
    counts: Floats,
    expected: Floats,
    exposures: Floats,
    log_wealths: Floats,
    information: Floats,
) -> tuple[float, float]:
    """Enter n rounds, one after the other; returns the log of the players' mean wealth, its largest and its last value.

    Of each round the rewards (m,) by place, and the probabilities (m, m) of the item in place j to be in place k.
    Players: the first fits factors to what has been, from `counts` and `exposures` (m,), the others bet on `others`
    (A, m) with `stakes` (A,); their mean is by `shares` (1 + A,). `expected` (m,) is what `counts` should be. Of each
    of `effects` (B, m) `information` (3, B) gathers how much evidence a bet on it would bring if it were true, its
    variance, and how much its `nearest` player would win. With `by_total` a stake is one over the round's rewards. The
    last five arrays are changed.
    """
    n, m = rewards.shape
    n_others, n_effects = others.shape[0], effects.shape[0]
    if (
        placements.shape != (n, m, m)
        or stated.shape != (m,)
        or others.shape[1] != m
        or effects.shape[1] != m
        or stakes.shape != (n_others,)
        or shares.shape != (n_others + 1,)
        or log_wealths.shape != (n_others + 1,)
        or effect_stakes.shape != (n_effects,)
        or nearest.shape != (n_effects,)
        or information.shape != (3, n_effects)
        or counts.shape != (m,)
        or expected.shape != (m,)
        or exposures.shape != (m,)
        or (n_effects > 0 and (nearest.min() < 0 or nearest.max() >= n_others))
    ):
        raise IndexError("bet_on_places: sizes that do not go together")
    fitted, prior = np.empty(m), m * stated / stated.sum()
    bets, due_others = np.empty(n_others + 1), np.empty(n_others)
    peak, last = -np.inf, 0.0
    for i in range(n):
        total = rewards[i].sum()
        smallest, largest = np.inf, 0.0
        for k in range(m):
            fitted[k] = (counts[k] + prior[k]) / (exposures[k] + 1.0)
            smallest = min(smallest, fitted[k] / stated[k])
            largest = max(largest, fitted[k] / stated[k])
        own_stake = 1.0 / total if by_total else stake_against(smallest, largest, max_reward)
        bets[:] = 1.0
        for j in range(m):
            r = rewards[i, j]
            if r <= 0.0:
                continue
            row = placements[i, j]
            due = _sum(row, stated)  # e(x, y)
            due_fitted = _sum(row, fitted)
            bets[0] += own_stake * r * (fitted[j] / stated[j] * due / due_fitted - 1.0)
            for a in range(n_others):
                stake = 1.0 / total if by_total else stakes[a]
                due_others[a] = _sum(row, others[a])
                bets[a + 1] += stake * r * (others[a, j] / stated[j] * due / due_others[a] - 1.0)
            for b in range(n_effects):
                # If this effect were true: where the reward would have come from, and what bets on it would bring.
                a = nearest[b]
                stake = 1.0 / total if by_total else effect_stakes[b]
                other_stake = 1.0 / total if by_total else stakes[a]
                due_b, due_a = _sum(row, effects[b]), due_others[a]
                mean, square, other = 0.0, 0.0, 0.0
                for k in range(m):
                    p = row[k] * effects[b, k] / due_b
                    if p > 0.0:
                        gain = np.log1p(stake * r * (effects[b, k] / stated[k] * due / due_b - 1.0))
                        mean += p * gain
                        square += p * gain * gain
                        other += p * np.log1p(other_stake * r * (others[a, k] / stated[k] * due / due_a - 1.0))
                information[0, b] += mean
                information[1, b] += square - mean * mean
                information[2, b] += other
            counts[j] += r / total
            for k in range(m):
                expected[k] += r / total * row[k] * stated[k] / due
                exposures[k] += r / total * row[k] / due_fitted
        top = -np.inf
        for a in range(n_others + 1):
            # Sums of rewards may pass ρ by a rounding error, and no more.
            log_wealths[a] += np.log(max(bets[a], 1e-12))
            top = max(top, log_wealths[a])
        wealth = 0.0
        for a in range(n_others + 1):
            wealth += shares[a] * np.exp(log_wealths[a] - top)
        last = top + np.log(wealth)
        peak = max(peak, last)
    return peak, last
