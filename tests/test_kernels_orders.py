from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.stats import chi2

from comband._kernels.orders import shuffle_lists

ALARM = 1e-7


def test_orders_are_uniform_given_the_set() -> None:
    """Chi-square over all orders of four, and of pairs of neighbouring rounds, whose numbers are successive."""
    n = 240_000
    lists = np.tile(np.array([7, 3, 9, 1], dtype=np.int32), (n, 1))
    propensities = lists / 10.0
    shuffle_lists(lists, propensities, np.random.default_rng(5).random(n))
    assert (propensities == lists / 10.0).all()
    number = {order: i for i, order in enumerate(permutations([1, 3, 7, 9]))}
    found = np.array([number[tuple(row)] for row in lists.tolist()])
    for counts in (np.bincount(found, minlength=24), np.bincount(24 * found[::2] + found[1::2], minlength=576)):
        expected = counts.sum() / len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ALARM, len(counts) - 1)


def test_orders_follow_the_number_alone() -> None:
    lists = np.tile(np.arange(6, dtype=np.int32), (50, 1))
    u = np.random.default_rng(0).random(50)
    whole, parts = lists.copy(), lists.copy()
    shuffle_lists(whole, np.zeros((50, 6)), u)
    for rows in (slice(0, 13), slice(13, 50)):
        shuffle_lists(parts[rows], np.zeros((50, 6))[rows], u[rows])
    assert (whole == parts).all()
    assert (np.sort(whole, axis=1) == lists).all()
    assert len({tuple(row) for row in whole.tolist()}) > 40
