"""Matrices of zeros and ones, eight cells per byte: which event counts for which candidate."""

from __future__ import annotations

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
    data = np.zeros((len(rows), 8 * n_words), dtype=np.uint8)
    packed = np.packbits(rows, axis=1, bitorder="little")
    data[:, : packed.shape[1]] = packed
    return data.view("<u8")


class PackedRows:
    """A matrix with one row per event and one column per candidate."""

    def __init__(self, bits: Words, n_columns: int) -> None:
        self.bits, self.n_columns = bits, n_columns

    @classmethod
    def from_cells(cls, inside: Bools) -> PackedRows:
        """Pack a matrix (rows, columns)."""
        n_columns = inside.shape[1]
        return cls(pack(inside, words_for(n_columns)), n_columns)

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, rows: Any) -> PackedRows:
        return PackedRows(np.ascontiguousarray(self.bits[rows]), self.n_columns)

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

    def take(self, columns: NDArray[np.int64]) -> PackedRows:
        """Some of the columns, in that order."""
        bits = np.empty((len(self.bits), words_for(len(columns))), dtype=np.uint64)
        take_bits(self.bits, columns, bits)
        return PackedRows(bits, len(columns))

    def cells(self) -> Bools:
        """The inverse of `from_cells`."""
        unpacked = np.unpackbits(self.bits.view(np.uint8), axis=1, count=self.n_columns, bitorder="little")
        return unpacked.view(np.bool_)
