"""The bit kernels against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from comband._kernels.packed import (
    _AVX2,
    _packed_pass_avx2,
    _packed_pass_plain,
    packed_coverage,
    packed_gram,
    packed_scores,
    sparse_scores,
    transpose_bits,
)
from comband._kernels.search import line_search
from comband.explore.solvers.incidence import LANES, SCREEN
from comband.page.bits import pack


def bits_and_matrix(k: int, words: int, density: float, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    A = np.random.default_rng(seed).random((k, 64 * words)) < density
    return pack(A, words), A.astype(np.float64)


@pytest.mark.parametrize(("k", "words"), [(1, 1), (3, 2), (7, 33), (40, 70)])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_double_kernels(k: int, words: int, density: float) -> None:
    bits, A = bits_and_matrix(k, words, density, seed=k)
    rng = np.random.default_rng(words)
    c, p = rng.exponential(size=64 * words), rng.normal(size=k)
    scores, coverage, gram = np.empty(k), np.empty(64 * words), np.empty((k, k))
    packed_scores(bits, c, scores)
    packed_coverage(bits, p, coverage)
    np.testing.assert_allclose(scores, A @ c, rtol=1e-13)
    np.testing.assert_allclose(coverage, p @ A, rtol=1e-12, atol=1e-13)
    for dense in (True, False):
        packed_gram(bits, c.astype(np.float32), gram, dense=dense)
        np.testing.assert_allclose(gram, (A * c) @ A.T, rtol=4e-6)


WAYS = [_packed_pass_plain, *([_packed_pass_avx2] if _AVX2 else [])]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("blocks", "n", "words", "skip"), [(1, 1, 1, 1), (1, 40, 19, 1), (7, 33, 32, 1), (7, 33, 32, 3)]
)
def test_single_precision_pass_stays_within_its_bound(way: Any, blocks: int, n: int, words: int, skip: int) -> None:
    A = np.random.default_rng(0).random((n, blocks * words * 64)) < 0.4
    groups = -(-n // LANES)
    bits = np.zeros((groups * LANES, blocks * words), dtype=np.uint64)
    bits[:n] = pack(A, blocks * words)
    lanes = bits.view("<u4").reshape(groups, LANES, blocks, 2 * words).transpose(2, 0, 3, 1)
    events = np.arange(A.shape[1]).reshape(blocks, -1)[::skip].ravel()
    for c in (np.full(len(events), 1 / 3), np.random.default_rng(1).exponential(size=len(events))):
        scores = np.empty(groups * LANES)
        way(np.ascontiguousarray(lanes)[::skip], c.astype(np.float32), scores, 0, groups)
        np.testing.assert_allclose(scores[:n], A[:, events] @ c, rtol=SCREEN / 2)
        assert not scores[n:].any()


def test_sparse_scores() -> None:
    rng = np.random.default_rng(2)
    A = rng.random((50, 9)) < 0.3
    A[:, 4] = False
    starts = np.concatenate([[0], np.cumsum(A.sum(axis=0))])
    events = np.nonzero(A.T)[1].astype(np.int32)
    c, scores = rng.random(50), np.empty(9)
    sparse_scores(starts, events, c, scores)
    np.testing.assert_allclose(scores, c @ A, rtol=1e-14)


def test_transpose_bits() -> None:
    A = np.random.default_rng(3).random((64, 24)) < 0.5
    columns = np.zeros((24, 8), dtype=np.uint8)
    transpose_bits(np.packbits(A, axis=1, bitorder="little"), columns)
    np.testing.assert_array_equal(columns, np.packbits(A.T, axis=1, bitorder="little"))


def test_line_search_against_a_fine_grid() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        w, Q = rng.exponential(size=20), rng.uniform(0.05, 1, size=20)
        direction, slope = rng.uniform(-1, 1, 20) * Q, rng.normal()
        t = line_search(w, Q, direction, slope, 1.0)
        grid = np.linspace(0, 1, 4001)
        values = slope * grid - np.log(Q[:, None] + direction[:, None] * grid).T @ w
        here = slope * t - np.log(Q + t * direction) @ w
        assert 0 <= t <= 1
        assert here <= values.min() + 1e-12
