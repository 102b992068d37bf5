"""Blocks, attention and whole lists against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers.blocks import WholeLists, attention_shares, row_blocks


@pytest.mark.parametrize(("n", "n_policies"), [(0, 3), (1, 3), (10_000, 7), (50, 10**8)])
def test_blocks_hold_every_context_once(n: int, n_policies: int) -> None:
    blocks = row_blocks(n, n_policies, 5)
    assert [i for rows in blocks for i in range(rows.start, rows.stop)] == list(range(n))
    assert all(rows.stop > rows.start for rows in blocks)


def test_attention_is_shared_by_the_rivals() -> None:
    given = np.array([2.0, 1.0, 5.0])
    assert attention_shares(given, leader=2).tolist() == [2 / 3, 1 / 3, 0.0]
    assert given.tolist() == [2.0, 1.0, 5.0]
    assert attention_shares(np.array([0.0, 0.0, 4.0]), leader=2).tolist() == [0.5, 0.5, 0.0]
    assert attention_shares(np.ones(1), leader=0).tolist() == [0.0]


def test_whole_lists_are_those_of_who_was_drawn() -> None:
    rng = np.random.default_rng(3)
    problem = cb.Problem(20, 4)
    tables = rng.permuted(np.tile(np.arange(20), (6, 9, 1)), axis=2)[:, :, :4].astype(np.int32)
    policies = cb.PolicySet.from_lists(tables, problem)
    X = rng.integers(9, size=3000)

    class Arms(WholeLists):
        ONE_CREDITED = True

    drawn = Arms(policies, np.arange(6), problem).draw(X, 5).decisions
    who, lists, q = drawn.arms, drawn.lists, drawn.propensities
    u = np.random.default_rng(5).random(3000)
    assert who.tolist() == [int(6 * number) for number in u]
    assert (lists == tables[who, X]).all()
    for t in range(20):
        by_hand = [np.mean([item in tables[j, X[t]] for j in range(6)]) for item in lists[t]]
        assert q[t] == pytest.approx(by_hand)
