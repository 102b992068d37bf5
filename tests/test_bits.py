"""Packed rows against plain matrices."""

from __future__ import annotations

import numpy as np
import pytest

from comband.bits import PackedRows


@pytest.mark.parametrize(("n_rows", "n_columns"), [(0, 5), (1, 1), (7, 64), (30, 65), (200, 333)])
def test_packed_rows_are_a_matrix(n_rows: int, n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    A = rng.random((n_rows, n_columns)) < 0.3
    rows = PackedRows.from_cells(A)
    np.testing.assert_array_equal(rows.cells(), A)
    by_column, by_row = rng.random(n_columns), rng.random(n_rows)
    np.testing.assert_allclose(rows @ by_column, A @ by_column, atol=1e-12)
    np.testing.assert_allclose(rows.weighted_sum(by_row), by_row @ A, atol=1e-12)
    np.testing.assert_array_equal(rows.column(n_columns - 1), A[:, -1])
    some = np.sort(rng.choice(n_columns, size=(n_columns + 1) // 2, replace=False))
    np.testing.assert_allclose(rows.take(some) @ by_column[some], A[:, some] @ by_column[some], atol=1e-12)
    np.testing.assert_array_equal(rows[n_rows // 2 :].column(0), A[n_rows // 2 :, 0])
