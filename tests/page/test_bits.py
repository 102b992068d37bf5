"""Packed rows against plain matrices."""

from __future__ import annotations

import numpy as np
import pytest

from comband.page.bits import PackedRows, join_rows, rows_of


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


def test_rows_of_bits_and_of_numbers_agree() -> None:
    """Every verb, against the same cells as plain arrays."""
    rng = np.random.default_rng(3)
    bits, weights, shares = rng.random((40, 70)) < 0.4, rng.random(40), rng.dirichlet(np.ones(70))
    cells, columns = bits.astype(float), np.array([5, 69, 2])
    for rows in (rows_of(bits), rows_of(cells)):
        assert (len(rows), rows.n_columns) == (40, 70)
        assert rows.nbytes > 0
        np.testing.assert_allclose(rows.weighted_sum(weights), weights @ cells)
        np.testing.assert_allclose(rows.weighted_squares(weights), weights @ cells**2)
        np.testing.assert_allclose(rows @ shares, cells @ shares)
        np.testing.assert_allclose(rows.average(shares), cells @ shares)
        np.testing.assert_allclose(rows.spread(shares), cells**2 @ shares - (cells @ shares) ** 2)
        np.testing.assert_allclose(rows.squares(7, weights), weights @ (cells - cells[:, [7]]) ** 2)
        np.testing.assert_allclose(rows.shortfall(7, weights), weights @ np.maximum(cells[:, [7]] - cells, 0))
        np.testing.assert_allclose(rows.shortfall(None, weights), weights @ (1 - cells))
        np.testing.assert_array_equal(rows[3:].column(7), cells[3:, 7])
        np.testing.assert_allclose(rows.take(columns).weighted_sum(weights), weights @ cells[:, columns])
        joined = join_rows([rows_of(bits[:0]), rows])
        assert type(joined) is type(rows)
        np.testing.assert_allclose(joined.weighted_sum(weights), weights @ cells)


def test_numbers_may_be_of_any_sign() -> None:
    cells = np.random.default_rng(4).standard_normal((9, 4))
    rows = rows_of(cells)
    np.testing.assert_allclose(rows.squares(2, np.ones(9)), ((cells - cells[:, [2]]) ** 2).sum(axis=0))
    np.testing.assert_allclose(rows.shortfall(None, np.ones(9)), np.maximum(1 - cells, 0).sum(axis=0))
    np.testing.assert_allclose(rows.spread(np.full(4, 0.25)), cells.var(axis=1))


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 1), (0, 1), (0, 3, 1), (0, 1, 1, 1, 0)])
def test_single_rows_are_joined_to_nothing(sizes: tuple[int, ...]) -> None:
    """An empty matrix has no stride of its own, and numpy may then lay out single rows below each other by columns."""
    cells = np.random.default_rng(5).random((sum(sizes), 130)) < 0.5
    ends = np.cumsum(sizes)
    rows = join_rows([rows_of(cells[end - size : end]) for end, size in zip(ends, sizes, strict=True)])
    np.testing.assert_array_equal(rows.cells(), cells)
    shares = np.random.default_rng(6).dirichlet(np.ones(130))
    np.testing.assert_allclose(rows @ shares, cells @ shares)
    np.testing.assert_allclose(rows.weighted_sum(np.ones(len(cells))), cells.sum(axis=0))
