"""Columns of the incidence, as bit strings or as probabilities, and the few of them that carry weight."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from comband._kernels.packed import packed_coverage, packed_scores
from comband.explore.solvers.potential import Floats


@dataclass(frozen=True)
class Columns:
    """What an oracle answers: policies' keys, their columns, their scores; best first. Columns are bits (k, words), or
    probabilities (k, E).
    """

    keys: Sequence[Hashable]
    bits: npt.NDArray[Any]
    scores: Floats


class ColumnOracle(Protocol):
    """Finds the columns with the largest Σ_e c_e A[e, π]: the linear minimisation of Frank-Wolfe.

    `exact` says whether the first column returned is a true maximiser over the class; only then
    do gap and certificate speak about the whole class.
    """

    exact: bool
    n_words: int

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """The best column and up to n − 1 more that promise enough over `average`."""
        ...


class ActiveSet:
    """The support of the mixture: keys, columns as bits, weights, and the coverage Ap."""

    def __init__(self, n_words: int) -> None:
        self.keys: list[Hashable] = []
        self.weights = np.zeros(0)
        self.coverage = np.zeros(64 * n_words)
        self._bits: npt.NDArray[Any] = np.zeros((16, n_words), dtype=np.uint64)
        self._index: dict[Hashable, int] = {}

    @property
    def bits(self) -> npt.NDArray[Any]:
        """Columns of the support, (k, words) or (k, E)."""
        return self._bits[: len(self.keys)]

    @property
    def real(self) -> bool:
        """Whether columns are probabilities instead of bits."""
        return self._bits.dtype == np.float64

    def add(self, columns: Columns) -> npt.NDArray[np.intp]:
        """Take columns in at weight zero; returns their places, also of those already there."""
        if not self.keys and columns.bits.dtype != self._bits.dtype:
            self._bits = np.zeros((16, columns.bits.shape[1]), dtype=columns.bits.dtype)
        places = np.empty(len(columns.keys), dtype=np.intp)
        for i, key in enumerate(columns.keys):
            place = self._index.get(key)
            if place is None:
                place = self._index[key] = len(self.keys)
                self.keys.append(key)
                if place == len(self._bits):
                    self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
                self._bits[place] = columns.bits[i]
            places[i] = place
        grown = np.zeros(len(self.keys))
        grown[: len(self.weights)] = self.weights
        self.weights = grown
        return places

    def set_weights(self, weights: Floats, coverage: Floats | None = None) -> None:
        """Replace the weights; the coverage is recomputed unless the caller has it."""
        self.weights = weights
        self.coverage = self.cover(weights) if coverage is None else coverage

    def cover(self, weights: Floats) -> Floats:
        """A·weights for any weights on the support's columns."""
        if self.real:
            return np.asarray(weights @ self.bits)
        coverage = np.empty_like(self.coverage)
        packed_coverage(self.bits, weights, coverage)
        return coverage

    def scores(self, gains: Floats) -> Floats:
        """Σ_e c_e A[e, j] for the columns of the support, in double precision."""
        if self.real:
            return np.asarray(self.bits @ gains)
        scores = np.empty(len(self.keys))
        packed_scores(self.bits, gains, scores)
        return scores

    def drop_zeros(self) -> None:
        """Columns whose weight is zero leave."""
        keep = np.flatnonzero(self.weights > 0.0)
        if len(keep) == len(self.keys):
            return
        self._bits[: len(keep)] = self._bits[keep]
        self.keys = [self.keys[i] for i in keep]
        self._index = {key: i for i, key in enumerate(self.keys)}
        self.weights = self.weights[keep]
