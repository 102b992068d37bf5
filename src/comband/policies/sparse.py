"""Propensities of all actions without an array of contexts × actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class SparsePropensities:
    """Q(x, y) of all K actions in n contexts, written down only where it differs from the context's common value.

    However lists are drawn, only actions that some policy lists for a context have a propensity of their own; all
    others share one. So this is exact at any K, and as large as the policies' lists.

    Parameters
    ----------
    n_actions:
        K.
    rows, actions, values:
        (e,) Q of single actions, ordered by row and action, none twice.
    rest:
        (n,) Q of every other action of a context.

    >>> q = SparsePropensities(4, np.array([0, 0]), np.array([1, 3]), np.array([0.5, 0.7]), np.array([0.4]))
    >>> q.dense().tolist()
    [[0.4, 0.5, 0.4, 0.7]]
    >>> q.of(np.array([[3, 0]])).tolist()
    [[0.7, 0.4]]
    """

    n_actions: int
    rows: NDArray[np.int64]
    actions: NDArray[np.int64]
    values: NDArray[np.float64]
    rest: NDArray[np.float64]

    @classmethod
    def of_sorted(
        cls, n_actions: int, listed: NDArray[np.int32], values: NDArray[np.float64], rest: NDArray[np.float64]
    ) -> Self:
        """From actions (n, k), each row in ascending order and with repetitions, and their propensities (n, k); −1 is
        no action.
        """
        first = listed >= 0
        first[:, 1:] &= listed[:, 1:] != listed[:, :-1]
        return cls(n_actions, np.nonzero(first)[0], listed[first].astype(np.int64), values[first], rest)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Several blocks of contexts, one after the other."""
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        return cls(
            parts[0].n_actions,
            np.concatenate([part.rows + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
            np.concatenate([part.actions for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.rest for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.rest)

    def of(self, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        """Q of the listed actions, (n, k)."""
        keys = self.rows * self.n_actions + self.actions
        wanted = np.arange(len(self))[:, None] * self.n_actions + lists
        at = np.searchsorted(keys, wanted)
        found = np.append(keys, -1)[at] == wanted
        return np.where(found, np.append(self.values, 0.0)[at], self.rest[:, None])

    def dense(self) -> NDArray[np.float64]:
        """Q of all actions, (n, K)."""
        result = np.repeat(self.rest[:, None], self.n_actions, axis=1)
        result[self.rows, self.actions] = self.values
        return result


def sorted_actions(lists: NDArray[np.int32]) -> NDArray[np.int32]:
    """All actions of each context's lists (n, S, m) in ascending order, (n, S·m), with repetitions."""
    return np.sort(lists.reshape(len(lists), lists.shape[1] * lists.shape[2]), axis=1)
