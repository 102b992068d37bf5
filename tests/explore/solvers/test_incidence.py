from __future__ import annotations

import numpy as np
import pytest

from comband.explore.solvers.incidence import PackedIncidence, SparseIncidence, build_incidence
from comband.page.bits import pack


@pytest.mark.parametrize(("density", "kind"), [(0.3, PackedIncidence), (0.01, SparseIncidence)])
@pytest.mark.parametrize(("n_events", "n_policies"), [(1, 1), (70, 13), (5000, 40)])
def test_scores_and_columns(density: float, kind: type, n_events: int, n_policies: int) -> None:
    rng = np.random.default_rng(n_events)
    A = rng.random((n_events, n_policies)) < density
    A[0, 0] = kind is PackedIncidence
    w = rng.random(n_events)
    incidence, padded = build_incidence(
        [(A[i : i + 600], w[i : i + 600]) for i in range(0, n_events, 600)], merge=False
    )
    assert isinstance(incidence, kind)
    np.testing.assert_array_equal(padded, np.pad(w, (0, len(padded) - n_events)))
    np.testing.assert_allclose(incidence.scores(padded), w @ A, rtol=1e-6)
    some = rng.permutation(n_policies)[:5]
    np.testing.assert_array_equal(incidence.columns(some), pack(A.T[some], incidence.n_words))
    best = incidence.best(padded, n=3, average=-1e9)
    order = np.argsort(-(w @ A), kind="stable")[:3]
    assert list(best.keys) == order.tolist()
    np.testing.assert_allclose(best.scores, (w @ A)[order], rtol=1e-13)


def test_one_bit_a_cell() -> None:
    A = np.random.default_rng(0).random((8192, 96)) < 0.5
    incidence, _ = build_incidence([(A, np.ones(8192))], merge=False)
    assert incidence.nbytes == A.size // 8


@pytest.mark.parametrize("density", [0.3, 0.01])
def test_identical_rows_are_merged_with_their_weights_added(density: float) -> None:
    rng = np.random.default_rng(1)
    distinct = rng.random((40, 64)) < density
    distinct[np.arange(40), np.arange(40)] ^= True
    which = rng.integers(40, size=3000)
    A, w = distinct[which], rng.random(3000)
    blocks = [(A[i : i + 700], w[i : i + 700]) for i in range(0, 3000, 700)]
    merged, weights = build_incidence(blocks)
    assert np.count_nonzero(weights) == len(np.unique(A, axis=0))
    np.testing.assert_allclose(merged.scores(weights), w @ A, rtol=1e-6)


def test_near_ties_are_decided_in_double() -> None:
    """Two columns that single precision cannot tell apart: the better one must still come first."""
    n = 20_000
    A = np.zeros((n, 2), dtype=bool)
    A[: n // 2, 0] = A[n // 2 :, 1] = True
    w = np.full(n, 1 / 3)
    w[-1] *= 1 + 1e-9
    incidence, padded = build_incidence([(A, w)], merge=False)
    assert incidence.best(padded).keys == [1]


@pytest.mark.parametrize("density", [0.3, 0.01])
def test_thinning_keeps_whole_events(density: float) -> None:
    rng = np.random.default_rng(2)
    A, w = rng.random((9000, 20)) < density, rng.random(9000)
    incidence, padded = build_incidence([(A, w)], merge=False)
    thinned, events = incidence.thin(3)
    kept = np.where(events >= 0, padded[events], 0.0)
    inside = events[(events >= 0) & (events < 9000)]
    assert 0.2 < len(inside) / 9000 < 0.5
    np.testing.assert_allclose(thinned.scores(kept), w[inside] @ A[inside], rtol=1e-6)


def test_no_events_is_an_error_here() -> None:
    with pytest.raises(ValueError, match="at least one event"):
        build_incidence([])
