"""What explorers that ask all candidates share: contexts in blocks, attention as shares, whole lists."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from comband.contexts import Contexts, n_contexts, take_contexts
from comband.policies.scored import BLOCK
from comband.problem import as_generator

Seed = int | np.random.SeedSequence | np.random.Generator
Lists = NDArray[np.int32]
Floats = NDArray[np.float64]


def row_blocks(n: int, n_policies: int, list_size: int) -> list[slice]:
    """n contexts in slices for which the lists of all policies take up no more than a block."""
    step = max(1, BLOCK // (n_policies * list_size))
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def attention_shares(attention: Floats, leader: int) -> Floats:
    """Attention as shares that sum to one, none for the leader; equal ones where nobody has any.

    >>> attention_shares(np.array([5.0, 1.0, 3.0]), leader=0).tolist()
    [0.0, 0.25, 0.75]
    """
    weights = attention.copy()
    weights[leader] = 0.0
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(len(weights), 1 / max(len(weights) - 1, 1))
    shares[leader] = 0.0
    return np.asarray(shares)


def draw_whole_lists(
    X: Contexts,
    rng: Seed,
    *,
    n_policies: int,
    list_size: int,
    predict: Callable[[Contexts], Lists],
    shares: Callable[[Lists, Lists], Floats],
) -> tuple[NDArray[np.int64], Lists, Floats]:
    """The list of one policy for each context, drawn uniformly: whose it is, the list, and its items' propensities.

    `predict` gives the lists (n, P, m) of all policies, `shares` the propensities of the second lists given the first.
    """
    n = n_contexts(X)
    who = np.minimum((as_generator(rng).random(n) * n_policies).astype(np.int64), n_policies - 1)
    lists, propensities = np.empty((n, list_size), dtype=np.int32), np.empty((n, list_size))
    for rows in row_blocks(n, n_policies, list_size):
        predicted = predict(take_contexts(X, rows))
        lists[rows] = predicted[np.arange(len(predicted)), who[rows]]
        propensities[rows] = shares(predicted, lists[rows])
    return who, lists, propensities
