"""Packed rows against plain matrices; what was seen against sums over events."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from comband.learners.seen import PackedRows, Seen
from comband.rounds import Events


@pytest.mark.parametrize(("n_rows", "n_columns"), [(0, 5), (1, 1), (7, 64), (30, 65), (200, 333)])
def test_packed_rows_are_a_matrix(n_rows: int, n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    A = rng.random((n_rows, n_columns)) < 0.3
    rows = PackedRows.from_cells(A)
    by_column, by_row = rng.random(n_columns), rng.random(n_rows)
    np.testing.assert_allclose(rows @ by_column, A @ by_column, atol=1e-12)
    np.testing.assert_allclose(rows.weighted_sum(by_row), by_row @ A, atol=1e-12)
    np.testing.assert_array_equal(rows.column(n_columns - 1), A[:, -1])
    some = np.sort(rng.choice(n_columns, size=(n_columns + 1) // 2, replace=False))
    np.testing.assert_allclose(rows.take(some) @ by_column[some], A[:, some] @ by_column[some], atol=1e-12)
    np.testing.assert_array_equal(rows[n_rows // 2 :].column(0), A[n_rows // 2 :, 0])


def block(rng: np.random.Generator, n: int, epoch: int, n_policies: int) -> tuple[Events, NDArray[np.bool_]]:
    events = Events(
        n_rounds=0,
        ids=np.arange(n),
        versions=np.full(n, epoch),
        contexts=np.zeros((n, 1)),
        rows=np.arange(n),
        actions=np.zeros(n, dtype=np.int32),
        rewards=rng.random(n) * 0.9 + 0.1,
        propensities=rng.random(n) * 0.8 + 0.1,
    )
    return events, rng.random((n, n_policies)) < 0.3


def test_scores_and_squares_are_sums_over_events() -> None:
    rng = np.random.default_rng(0)
    P, sizes, n_rounds = 70, (40, 25), np.array([400, 300])
    seen = Seen(P)
    blocks = [block(rng, n, k, P) for k, n in enumerate(sizes)]
    for events, inside in blocks:
        seen.add(events, inside, np.arange(P))
    alive = rng.random(P) < 0.6
    left = np.flatnonzero(alive)
    seen.forget(alive)
    precisions, totals = [], []
    for (events, inside), n in zip(blocks, n_rounds, strict=True):
        share, w = inside[:, left].mean(axis=1), events.rewards / events.propensities
        precisions.append(n / (w**2 * 2 * share * (1 - share)).sum())
        totals.append(w @ inside[:, left])
    expected = np.array(precisions) @ np.array(totals) / (np.array(precisions) @ n_rounds)
    np.testing.assert_allclose(seen.scores(left, n_rounds), expected, rtol=1e-12)

    q = rng.random(sum(sizes))
    first, leader = 10, 3
    A = np.concatenate([inside[:, left] for _, inside in blocks])[first:]
    rewards, own = seen.events.rewards[first:], seen.events.propensities[first:]
    expected = (rewards**2 / (own * q[first:])) @ (A[:, [leader]] != A)
    squares = seen.squares(leader, first, lambda _events, chosen, _rows: q[chosen])
    np.testing.assert_allclose(squares, expected, atol=1e-9)
    assert squares[leader] <= 1e-9
