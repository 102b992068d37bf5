from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from comband import InputError
from comband.explore.oracles.pairs import check_matrix, context_keys, distinct_contexts, shown_pairs

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
LISTS = np.array([[0, 1], [2, 0], [0, 2]])
REWARDS = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
PROPENSITIES = np.array([[0.5, 0.25], [0.5, 0.25], [0.5, 1.0]])


def test_repeated_pairs_become_one() -> None:
    pairs = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3)
    assert pairs.n_contexts == 2
    assert list(zip(pairs.rows.tolist(), pairs.actions.tolist(), pairs.rewards.tolist(), strict=True)) == [
        (0, 0, 0.5),
        (0, 1, 0.0),
        (0, 2, 1.0),
        (1, 0, 1.0),
        (1, 2, 0.0),
    ]
    np.testing.assert_allclose(pairs.weights, 1.0)


def test_independent_answers_add_up() -> None:
    pairs = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3, repeat_correlation=0.0)
    np.testing.assert_allclose(pairs.weights * 6 / 5, [2, 1, 1, 1, 1])


def test_importance_clip_and_self_normalisation() -> None:
    full = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3, importance=1.0)
    np.testing.assert_allclose(full.weights, np.array([2, 4, 1, 4, 2]) / (13 / 5))
    clipped = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3, importance=1.0, clip=1.0)
    np.testing.assert_allclose(clipped.weights, np.minimum(full.weights, 1.0))
    even = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3, importance=1.0, self_normalize=True)
    for action in range(3):
        assert even.weights[even.actions == action].mean() == pytest.approx(1.0)


def test_rounds_of_weight_zero_are_gone() -> None:
    pairs = shown_pairs(X, LISTS, REWARDS, PROPENSITIES, n_actions=3, round_weights=np.array([0.0, 1.0, 0.0]))
    assert pairs.actions.tolist() == [0, 2]


def test_sparse_and_dense_contexts_are_told_apart_alike() -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(2, size=(40, 4)).astype(float)
    kept, where = distinct_contexts(dense)
    np.testing.assert_array_equal(kept[where], dense)
    assert len(kept) == len(np.unique(dense, axis=0))
    sparse, there = distinct_contexts(sp.csr_array(dense))
    np.testing.assert_array_equal(sparse.toarray()[there], dense)
    np.testing.assert_array_equal(there, where)


def test_equal_contexts_have_equal_keys_however_they_are_stored() -> None:
    stored = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 3])), shape=(1, 3))
    assert list(context_keys(stored)) == list(context_keys(sp.csr_array(stored.toarray())))
    assert list(context_keys(np.array([[0.0, 1.0]]))) == list(context_keys(np.array([[-0.0, 1.0]], dtype=np.float32)))
    assert len(set(context_keys(np.array([[0.0, 1.0], [1.0, 0.0]])))) == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.arange(3), "numeric matrix"),
        (np.array([["a"]]), "numeric matrix"),
        (np.array([[np.nan]]), "finite"),
        (sp.csr_array(np.array([[np.inf]])), "finite"),
    ],
)
def test_contexts_must_be_finite_matrices(bad: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_matrix(bad)
