"""Products and sums over pairs of context and action."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _check_pairs(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    shape: tuple[int, int],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
) -> None:
    if len(actions) != len(rows) or len(data) != len(indices) or len(indptr) == 0:
        raise IndexError("pairs: shapes do not fit together")
    if indptr[0] < 0 or indptr[len(indptr) - 1] > len(indices):
        raise IndexError("pairs: the rows of the matrix do not fit its numbers")
    for i in range(1, len(indptr)):
        if indptr[i] < indptr[i - 1]:
            raise IndexError("pairs: the rows of the matrix do not ascend")
    for k in range(len(indices)):
        if not 0 <= indices[k] < shape[0]:
            raise IndexError("pairs: a column of the matrix is out of range")
    for e in range(len(rows)):
        if not (0 <= rows[e] < len(indptr) - 1 and 0 <= actions[e] < shape[1]):
            raise IndexError("pairs: a pair is out of range")


@njit(cache=True, nogil=True, fastmath=True)
def pair_products(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
) -> NDArray[np.float64]:
    """x_i · w_y for each pair e = (rows[e], actions[e]): x_i a row of a CSR matrix, w_y a column of (d, K)."""
    _check_pairs(indptr, indices, data, coefficients.shape, rows, actions)
    result = np.empty(len(rows))
    for e in range(len(rows)):
        i, y = rows[e], actions[e]
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * coefficients[indices[k], y]
        result[e] = total
    return result


@njit(cache=True, nogil=True, fastmath=True)
def pair_sums(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    data: NDArray[np.float64],
    values: NDArray[np.float64],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    result: NDArray[np.float64],
) -> None:
    """Add Σ_e values[e] · x_{rows[e]} to column actions[e] of `result` (d, K): the transpose of `pair_products`."""
    _check_pairs(indptr, indices, data, result.shape, rows, actions)
    if len(values) != len(rows):
        raise IndexError("pair_sums: one value for each pair")
    for e in range(len(rows)):
        i, y, value = rows[e], actions[e], values[e]
        for k in range(indptr[i], indptr[i + 1]):
            result[indices[k], y] += data[k] * value
