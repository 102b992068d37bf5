"""Lists in the candidates' mean order, each item with the probability that a mixture of them shows it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Lists = NDArray[np.int64]


def natural_law(lists: NDArray[np.integer], weights: Array, n_items: int) -> tuple[Array, Lists, Array]:
    """All lists that systematic sampling can give, with their probabilities, and Q(y, k) (K, m), of one context: items
    are laid end to end by their shares of the candidates' first places, which count more than later ones.
    """
    m = lists.shape[1]
    q, rank = np.zeros(n_items), np.zeros(n_items)
    for own, weight in zip(lists, weights, strict=True):
        q[own] += weight
        rank[own] += weight / np.arange(1, m + 1)
    order = np.argsort(-(rank + 1e-9 * q), kind="stable")[: int((q > 0).sum())]
    ends = np.cumsum(q[order])
    cuts = np.unique(np.concatenate([[0.0, 1.0], ends % 1.0]).round(12))
    middles = np.array([(a + b) / 2 for a, b in pairwise(cuts)])
    at = np.searchsorted(ends, middles[:, None] + np.arange(m), side="right")
    shown, chances = order[np.minimum(at, len(order) - 1)], np.diff(cuts)
    Q = np.zeros((n_items, m))
    np.add.at(Q, (shown, np.arange(m)), chances[:, None])
    return chances, shown, Q
