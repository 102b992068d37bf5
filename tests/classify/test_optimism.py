from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from comband.classify.optimism import Optimistic, Widths

K, D, M = 6, 4, 2


def shown(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    contexts = rng.integers(-200, 201, size=(n, D)) * (rng.random((n, D)) < 0.6)
    return contexts / 64.0, np.array([rng.permutation(K)[:M] for _ in range(n)], dtype=np.int32)


def by_hand(contexts: np.ndarray, lists: np.ndarray, x: np.ndarray, label: int) -> float:
    variance = 0.0
    for j, value in enumerate([*x.tolist(), 1.0]):
        precision = 3.0
        for row, labels in zip(contexts, lists, strict=True):
            if label in labels:
                precision += [*row.tolist(), 1.0][j] ** 2
        variance += value**2 / precision
    return float(np.sqrt(variance))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_widths_are_those_of_the_formula(kind: type) -> None:
    contexts, lists = shown(40, 1)
    widths = Widths(D, K)
    widths.add(kind(contexts), lists)
    new, _ = shown(5, 2)
    expected = [[by_hand(contexts, lists, x, label) for label in range(K)] for x in new]
    np.testing.assert_allclose(widths(kind(new)), expected, rtol=1e-12)


def test_widths_are_the_errors_of_a_ridge_regression_of_uncorrelated_features() -> None:
    """One-hot contexts without the constant: the diagonal of the inverse is the inverse of the diagonal."""
    rng = np.random.default_rng(3)
    contexts, lists = np.eye(D)[rng.integers(D, size=60)], rng.integers(K, size=(60, 1))
    widths = Widths(D, K)
    widths.add(contexts, lists)
    for label in range(K):
        own = contexts[lists[:, 0] == label]
        covariance = np.linalg.inv(own.T @ own + 3 * np.eye(D))
        constant = 1 / (3 + len(own))
        np.testing.assert_allclose(widths(np.eye(D))[:, label] ** 2 - constant, np.diag(covariance), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_sums_do_not_depend_on_how_rounds_come(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts, lists = shown(57, 4)
    contexts /= 3.0  # squares that are rounded
    whole, parts = Widths(D, K), Widths(D, K)
    whole.add(kind(contexts), lists)
    monkeypatch.setattr("comband.classify.optimism._STEP", 16)
    for some in (slice(0, 1), slice(1, 30), slice(30, 57)):
        parts.add(kind(contexts[some]), lists[some])
    np.testing.assert_array_equal(whole(contexts), parts(contexts))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_, np.float32])
def test_small_numbers_do_not_overflow(dtype: type) -> None:
    contexts: Any = np.full((3, D), 100).astype(dtype)
    lists = np.zeros((3, 1), dtype=np.int32)
    for kind in (np.asarray, sp.csr_array):
        widths, plain = Widths(D, K), Widths(D, K)
        widths.add(kind(contexts), lists)
        plain.add(contexts.astype(np.float64), lists)
        np.testing.assert_allclose(widths(kind(contexts)), plain(contexts.astype(np.float64)), rtol=1e-12)


def test_upper_bounds_lie_above_by_half_to_one_and_a_half_widths() -> None:
    contexts, lists = shown(30, 5)
    widths = Widths(D, K)
    widths.add(contexts, lists)
    rng = np.random.default_rng(6)
    above = Optimistic(lambda X: np.ones((len(X), K)), widths, 0.2, rng)(contexts) - 1
    tilt = above / (0.7 * 0.4 * widths(contexts))
    np.testing.assert_allclose(tilt, np.broadcast_to(tilt[0], tilt.shape), rtol=1e-9)
    assert 0.5 <= tilt.min() < tilt.max() <= 1.5
