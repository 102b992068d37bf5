"""Which event counts for which candidate: matrices of zeros and ones, eight cells per byte, or of real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.packed import packed_coverage, packed_scores, take_bits

Words = NDArray[np.uint64]
Bools = NDArray[np.bool_]


def words_for(n: int) -> int:
    """The number of 64-bit words that hold n bits (at least one word)."""
    return max(1, -(-n // 64))


def pack(rows: Bools, n_words: int) -> Words:
    """Boolean rows (k, n) as (k, n_words) words: bit j of a row is its cell j, and those beyond n are zero."""
    cells = np.zeros((len(rows), 64 * n_words), dtype=np.bool_)
    cells[:, : rows.shape[1]] = rows  # packed as one row: numpy is slow at many short ones
    return np.packbits(cells.reshape(-1), bitorder="little").view("<u8").reshape(len(rows), n_words)


class PackedRows:
    """A matrix with one row per event and one column per candidate."""

    def __init__(self, bits: Words, n_columns: int) -> None:
        self.bits, self.n_columns = np.ascontiguousarray(bits), n_columns  # kernels go by addresses

    @classmethod
    def from_cells(cls, inside: Bools) -> PackedRows:
        """Pack a matrix (rows, columns)."""
        n_columns = inside.shape[1]
        return cls(pack(inside, words_for(n_columns)), n_columns)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.bits.nbytes

    def __getitem__(self, rows: Any) -> PackedRows:
        return PackedRows(self.bits[rows], self.n_columns)

    def __matmul__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_j weights[j] over the ones of each row."""
        padded = np.zeros(64 * self.bits.shape[1])
        padded[: self.n_columns] = weights
        sums = np.empty(len(self.bits))
        packed_scores(self.bits, padded, sums)
        return sums

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e] over the ones of each column."""
        sums = np.empty(64 * self.bits.shape[1])
        packed_coverage(self.bits, np.ascontiguousarray(weights), sums)
        return sums[: self.n_columns]

    def column(self, j: int) -> Bools:
        """One column."""
        return (self.bits[:, j // 64] >> np.uint64(j % 64)) & np.uint64(1) > 0

    def weighted_squares(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·cell² of each column: ones are their own squares."""
        return self.weighted_sum(weights)

    def average(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean within each row, of columns drawn with these probabilities."""
        return np.asarray(np.clip(self @ shares, 0.0, 1.0))

    def spread(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance within each row, of columns drawn with these probabilities."""
        mean = self.average(shares)
        return np.asarray(mean * (1 - mean))

    def squares(self, j: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·(difference to column j)² of each column."""
        mine, ones = self.column(j), self @ np.ones(self.n_columns)
        weights = np.where((ones == 0) | (ones == self.n_columns), 0.0, weights)  # all are alike there
        return np.asarray(weights[mine].sum() + self.weighted_sum(np.where(mine, -weights, weights)))

    def shortfall(self, j: int | None, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·max(difference of column j, 0) to each column; without j, as if that one were all ones."""
        above = weights if j is None else np.where(self.column(j), weights, 0.0)
        return np.asarray(above.sum() - self.weighted_sum(above))

    def take(self, columns: NDArray[np.int64]) -> PackedRows:
        """Some of the columns, in that order."""
        bits = np.empty((len(self.bits), words_for(len(columns))), dtype=np.uint64)
        take_bits(self.bits, columns, bits)
        return PackedRows(bits, len(columns))

    def cells(self) -> Bools:
        """The inverse of `from_cells`."""
        unpacked = np.unpackbits(self.bits.view(np.uint8), axis=1, count=self.n_columns, bitorder="little")
        return unpacked.view(np.bool_)


class RealRows:
    """The same with real numbers for cells, of which none is above 1 in the column that others are compared with."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values, self.n_columns = values, values.shape[1]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.values.nbytes

    def __getitem__(self, rows: Any) -> RealRows:
        return RealRows(self.values[rows])

    def __matmul__(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_j weights[j]·cell of each row."""
        return np.asarray(self.values @ weights)

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·cell of each column."""
        return np.asarray(weights @ self.values)

    def column(self, j: int) -> NDArray[np.float64]:
        """One column."""
        return self.values[:, j]

    def weighted_squares(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·cell² of each column."""
        return np.asarray(weights @ self.values**2)

    def average(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean within each row, of columns drawn with these probabilities."""
        return self @ shares

    def spread(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance within each row, of columns drawn with these probabilities."""
        return np.asarray(np.maximum(self.values**2 @ shares - (self.values @ shares) ** 2, 0.0))

    def squares(self, j: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·(difference to column j)² of each column."""
        return np.asarray(weights @ (self.values - self.values[:, j, None]) ** 2)

    def shortfall(self, j: int | None, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e weights[e]·max(difference of column j, 0) to each column; without j, as if that one were all ones."""
        above = 1.0 if j is None else self.values[:, j, None]
        return np.asarray(weights @ np.maximum(above - self.values, 0.0))

    def take(self, columns: NDArray[np.int64]) -> RealRows:
        """Some of the columns, in that order."""
        return RealRows(self.values[:, columns])

    def cells(self) -> NDArray[np.float64]:
        """The matrix."""
        return self.values


Rows = PackedRows | RealRows


def rows_of(cells: NDArray[Any]) -> Rows:
    """Rows of bits, or of real numbers."""
    return PackedRows.from_cells(cells) if cells.dtype == np.bool_ else RealRows(np.asarray(cells, dtype=np.float64))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Rows below each other: of bits, if all are."""
    packed = [part.bits for part in parts if isinstance(part, PackedRows)]
    if len(packed) == len(parts):
        return PackedRows(np.concatenate(packed), parts[0].n_columns)
    return RealRows(np.concatenate([np.asarray(part.cells(), dtype=np.float64) for part in parts]))
