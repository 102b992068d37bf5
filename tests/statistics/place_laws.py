"""Laws of lists in a natural order, item by item and place by place: one uniform number puts them into their places."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def inclusion(weights: Floats, m: int) -> Floats:
    """Probabilities (K,) in proportion to weights, each at most 1, together m."""
    q = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=bool)
    while True:
        q[certain] = 1.0
        q[~certain] = weights[~certain] / weights[~certain].sum() * (m - certain.sum())
        if (q <= 1).all():
            return q
        certain |= q > 1


def placements(q: Floats, m: int, random_share: float = 0.0) -> Floats:
    """Q(y, k) (K, m) of items laid end to end on [0, m); a share of the drawn sets is shown in random order."""
    ends = np.cumsum(q) / q.sum() * m
    starts, k = np.concatenate([[0.0], ends[:-1]]), np.arange(m)
    Q = np.maximum(np.minimum(ends[:, None], k + 1) - np.maximum(starts[:, None], k), 0.0)
    return np.asarray((1 - random_share) * Q + random_share * Q.mean(axis=1, keepdims=True))


def all_lists(q: Floats, m: int) -> list[tuple[float, tuple[int, ...]]]:
    """Every list that the number can give, with its probability: between breakpoints the list is one."""
    ends = np.cumsum(q) / q.sum() * m
    cuts = np.unique(np.concatenate([[0.0, 1.0], ends % 1.0]))
    return [
        (b - a, tuple(np.searchsorted(ends, (a + b) / 2 + np.arange(m), side="right").tolist()))
        for a, b in pairwise(cuts)
        if b - a > 1e-13
    ]


class Clicks:
    """Clicks in the lists of some contexts, whose items' relevances go with how often they are shown: one per rewarded
    round, and the row of probabilities of places that goes with it.
    """

    def __init__(self, m: int, *, random_share: float, seed: int, contexts: int = 60, items: int = 30) -> None:
        rng = np.random.default_rng(seed)
        weights = -np.sort(-rng.gamma(0.3, size=(contexts, items)), axis=1) + 1e-3
        self.rows = np.stack([placements(inclusion(row, m), m, random_share) for row in weights])  # (N, K, m)
        self.relevance = -np.sort(-rng.gamma(0.5, size=(contexts, items)), axis=1)

    def draw(self, theta: Floats, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Rewards (n, m) and placements (n, m, m); rows of items that brought nothing are left at 0."""
        m = len(theta)
        chances = (self.rows * self.relevance[:, :, None] * theta).ravel()
        x, y, k = np.unravel_index(rng.choice(chances.size, size=n, p=chances / chances.sum()), self.rows.shape)
        rows = np.zeros((n, m, m))
        rows[np.arange(n), k] = self.rows[x, y]
        return np.eye(m)[k], rows
