"""Each compiled kernel against a plain numpy twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comband._kernels.betting import ONE, split_histogram, split_shared
from comband._kernels.lists import (
    contains,
    credit,
    draw_policies,
    inclusion,
    linear_top_lists,
    top_lists,
    uniform_lists,
    valid_lists,
    valid_rewards,
)
from comband._kernels.logs import least_of_shared, list_faults, round_faults
from comband._kernels.records import event_rows, issue_rows, reward_digests
from comband._kernels.rising import end_of
from comband.page.bits import PackedRows
from tests.strategies import hoeffding_radius


@given(
    values=st.lists(st.integers(-3, 6), max_size=9),
    value=st.integers(-4, 7),
    ends=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
@settings(deadline=None)
def test_the_end_of_what_is_not_above_a_number(values: list[int], value: int, ends: tuple[int, int]) -> None:
    rising, (low, high) = np.sort(np.array(values, dtype=np.int64)), sorted(min(end, len(values)) for end in ends)
    expected = low + np.searchsorted(rising[low:high], value, side="right")
    assert end_of(rising, low, high, value) == expected


def floyd(u: np.ndarray, n_actions: int) -> np.ndarray:
    lists = []
    for row in u:
        taken: list[int] = []
        for k, value in enumerate(row):
            top = n_actions - len(row) + k
            y = int(value * (top + 1))
            taken.append(top if y in taken else y)
        lists.append(taken)
    return np.array(lists).reshape(u.shape)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 60))
@settings(deadline=None, max_examples=300)
def test_uniform_lists_equal_floyd(seed: int, m: int, extra: int) -> None:
    u = np.random.default_rng(seed).random((5, m))
    lists = uniform_lists(u, m + extra)
    assert lists.tolist() == floyd(u, m + extra).tolist()
    assert all(len(set(row)) == m for row in lists.tolist())


def test_uniform_lists_are_uniform() -> None:
    n, n_actions, m = 200_000, 5, 2
    u = np.random.default_rng(0).random((n, m))
    lists = np.sort(uniform_lists(u, n_actions), axis=1)
    _, counts = np.unique(lists @ [n_actions, 1], return_counts=True)
    assert len(counts) == 10
    assert np.abs(counts / n - 0.1).max() < hoeffding_radius(n, 1e-6, tests=10)


@given(st.integers(0, 2**32), st.sampled_from([*range(1, 21), 32, 33, 100]), st.integers(1, 4))
@settings(deadline=None, max_examples=300)
def test_top_lists_equal_a_sort(seed: int, n_actions: int, n_blocks: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, n_actions + 1))
    scores = rng.integers(0, 4, (3, n_blocks, n_actions)).astype(float)  # many ties
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    rank = np.stack([rng.permutation(n_actions) for _ in range(n_blocks)]).astype(np.int32)
    expected = [
        [sorted(range(n_actions), key=lambda y: (-row[y], first[y]))[:m] for row, first in zip(rows, rank, strict=True)]
        for rows in scores
    ]
    assert top_lists(scores, rank, m).tolist() == expected
    spoilt = scores.copy()
    spoilt[1, 0, rng.integers(n_actions)] = np.nan
    assert (top_lists(spoilt, rank, m)[:, 0, 0] < 0).tolist() == [False, True, False]


@given(st.integers(0, 2**32), st.sampled_from([*range(1, 21), 100, 512, 513, 1100]), st.integers(0, 9))
@settings(deadline=None, max_examples=200)
def test_linear_top_lists_equal_scores_and_a_sort(seed: int, n_actions: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, n_actions + 1))
    X = rng.integers(-2, 3, (4, d)).astype(float)  # whole numbers: sums are exact, and ties are many
    weights = rng.integers(-2, 3, (d, 3, n_actions)).astype(float)
    rank = np.stack([rng.permutation(n_actions) for _ in range(3)]).astype(np.int32)
    which = np.array([2, 0])
    scores = np.einsum("nd,dpk->npk", X, weights)[:, which]
    expected = top_lists(np.ascontiguousarray(scores), rank[which], m)
    for precision in (np.float64, np.float32):
        lists = np.full((4, 2, m), -7, dtype=np.int32)
        linear_top_lists(X.astype(precision), weights.astype(precision), which, rank, lists, 0, 1)
        assert (lists[:, 1] == -7).all()
        linear_top_lists(X.astype(precision), weights.astype(precision), which, rank, lists, 1, 2)
        assert lists.tolist() == expected.tolist()


@given(st.integers(0, 2**32), st.integers(0, 6))
@settings(deadline=None, max_examples=200)
def test_inclusion_and_contains_equal_comparison(seed: int, n_policies: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, n_actions = 4, 3, 8
    lists = np.argsort(rng.random((n, n_policies, n_actions)), axis=2)[:, :, :m].astype(np.int32)
    weights = rng.random(n_policies)
    shown = rng.integers(0, n_actions, (n, 5)).astype(np.int32)
    inside = (lists[:, :, None, :] == shown[:, None, :, None]).any(axis=3)
    expected = np.einsum("npk,p->nk", inside, weights)
    np.testing.assert_allclose(inclusion(lists, weights, shown, n_actions), expected, atol=1e-15)
    rows = rng.integers(0, n, 10)
    actions = rng.integers(0, n_actions, 10).astype(np.int32)
    found = contains(lists, rows, actions)
    assert found.tolist() == (lists[rows] == actions[:, None, None]).any(axis=2).tolist()


@pytest.mark.parametrize("m", range(1, 13))
def test_contains_for_every_length_of_list(m: int) -> None:
    rng = np.random.default_rng(m)
    lists = np.argsort(rng.random((5, 70, 15)), axis=2)[:, :, :m].astype(np.int32)
    rows, actions = rng.integers(5, size=40), rng.integers(15, size=40).astype(np.int32)
    assert contains(lists, rows, actions).tolist() == (lists[rows] == actions[:, None, None]).any(axis=2).tolist()


def test_credit_is_a_masked_sum() -> None:
    rng = np.random.default_rng(0)
    lists = np.argsort(rng.random((4, 50, 9)), axis=2)[:, :, :3].astype(np.int32)
    rows, actions = rng.integers(4, size=30), rng.integers(9, size=30).astype(np.int32)
    amounts, totals = rng.normal(size=30), rng.normal(size=50)
    inside = (lists[rows] == actions[:, None, None]).any(axis=2)
    expected = totals + amounts @ inside
    credit(lists, rows, actions, amounts, totals)
    np.testing.assert_allclose(totals, expected, rtol=1e-12)


def first_fault(items: list[int], rewards: list[float], chances: list[float], repeats: bool) -> int:
    total = 0.0
    for j, (y, r, q) in enumerate(zip(items, rewards, chances, strict=True)):
        checks = [(y < 0, 1), (np.isnan(q), 2), (not 0 < q <= 1, 3), (np.isnan(r), 4), (not 0 <= r <= 1, 5)]
        checks.append((not repeats and y in items[:j], 6))
        for bad, code in checks:
            if bad:
                return code
        total += r
    return 7 if total > 1 else 0


@given(st.data())
@settings(deadline=None, max_examples=100)
def test_round_faults_equal_the_plain_rules(data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 4))
    number = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, -0.5, float("nan")])
    rounds = st.lists(st.tuples(st.integers(-1, 5), number, number), min_size=m, max_size=m)
    table = np.array(data.draw(st.lists(rounds, min_size=1, max_size=6)), dtype=float)
    items, rewards, chances = table[..., 0].astype(np.int64), table[..., 1].copy(), table[..., 2].copy()
    repeats = data.draw(st.booleans())
    codes = round_faults(items, rewards, chances, 1e-100, 1.0, 2.0**-53, 1.0, repeats)
    columns = (items.tolist(), rewards.tolist(), chances.tolist())
    plain = [first_fault(*row, repeats) for row in zip(*columns, strict=True)]
    assert codes.tolist() == plain
    lists = list_faults(items)
    expected = [1 if -1 in row else 6 if len(set(row)) < m else 0 for row in items.tolist()]
    assert lists.tolist() == expected


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_split_histogram_equals_interpolation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound, ratio, k = 5.0, 1.5, 12
    values = rng.uniform(-bound, bound, size=(20, 2)) * 10.0 ** -rng.integers(0, 5, size=(20, 2))
    whole = np.zeros((2 * k + 1, 2), dtype=np.int64)
    split_histogram(values, whole, bound, np.log(ratio))
    counts = whole / ONE
    positive = bound * ratio ** -np.arange(k - 1, -1, -1.0)
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    expected = np.zeros_like(counts)
    for p in range(2):
        for z in values[:, p]:
            right = int(np.clip(np.searchsorted(grid, z), 1, 2 * k))
            share = (z - grid[right - 1]) / (grid[right] - grid[right - 1])
            expected[right, p] += share
            expected[right - 1, p] += 1 - share
    np.testing.assert_allclose(counts, expected, atol=1e-9)
    assert whole.sum() == 40 * 2**40


@pytest.mark.parametrize(("P", "most"), [(1, 1), (64, 3), (70, 6), (130, 7), (5, 12)])
def test_split_shared_is_split_histogram_of_the_sums(P: int, most: int) -> None:
    rng = np.random.default_rng(P)
    sizes = rng.integers(1, most + 1, size=40)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    inside = rng.random((starts[-1], P)) < 0.3
    weights = rng.uniform(0.1, 1, size=starts[-1])
    for offsets in (np.zeros(40), -rng.random(40) * (rng.random(40) < 0.5)):
        X = np.add.reduceat(weights[:, None] * inside, starts[:-1], axis=0) + offsets[:, None]
        expected, counts = np.zeros((2, 21, P), dtype=np.int64)
        sums, squares = np.zeros((2, 2, P), dtype=np.int64)
        split_histogram(X, expected, 13.0, np.log(1.5))
        bits = PackedRows.from_cells(inside).bits
        largest = split_shared(bits, starts, weights, offsets, counts, sums, squares, 13.0, np.log(1.5), 16.0)
        np.testing.assert_allclose(counts / ONE, expected / ONE, rtol=1e-9, atol=1e-9)
        for digits, unit, plain in ((sums, 16.0, X), (squares, 256.0, np.square(X))):
            np.testing.assert_allclose((digits[0] + digits[1] / ONE) / ONE * unit, plain.sum(axis=0), atol=1e-12)
        assert largest == pytest.approx(np.abs(X).max(), rel=1e-12)


def test_prints_tell_decisions_and_rewards_apart() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    ids, lists = np.arange(n), rng.integers(0, 50, (n, 3)).astype(np.int32)
    q = rng.uniform(0.1, 1, (n, 3))
    plans, contexts = np.arange(n), rng.integers(2**63, size=n).astype(np.uint64)
    plan = plans // 200, plans % 2 == 0, plans // 2 % 100 - 1

    def rows(ids: Any, lists: Any, q: Any, plan: tuple[Any, Any, Any] = plan) -> Any:
        known, done = np.zeros((n, 3), dtype=np.uint64), np.ones(n, dtype=np.bool_)
        issue_rows(ids, lists, q.view(np.uint64), *plan, contexts, known, done, 0)
        assert not done.any()
        return known

    known = rows(ids, lists, q)
    assert len(set(known[:, 0].tolist())) == n
    assert len(set(known[:, 1].tolist())) == n
    for other in ((plan[0] + 1, *plan[1:]), (plan[0], ~plan[1], plan[2]), (*plan[:2], plan[2] + 1)):
        assert (rows(ids, lists, q, other)[:, 1] != known[:, 1]).all()
    assert known[:, 2].tolist() == contexts.tolist()
    for changed in (
        rows(ids + 1, lists, q),
        rows(ids, lists[:, ::-1].copy() + np.int32(1), q),
        rows(ids, lists, np.nextafter(q, 1)),
    ):
        assert (changed[:, 0] != known[:, 0]).all()
    rewards = rng.random((n, 3)) * (rng.random((n, 3)) < 0.3)
    seen = reward_digests(rewards)
    assert ((seen == 0) == ~rewards.any(axis=1)).all()
    assert len(set(seen.tolist())) == len({tuple(row) for row in rewards.tolist()})
    assert (reward_digests(np.where(rewards == 0, -0.0, rewards)) == seen).all()


@given(st.integers(0, 2**32), st.integers(1, 40), st.booleans())
@settings(deadline=None, max_examples=200)
def test_valid_lists_equal_sets(seed: int, m: int, spoil: bool) -> None:
    rng = np.random.default_rng(seed)
    lists = np.stack([rng.permutation(m + 3)[:m] for _ in range(4)]).astype(np.int32)
    if spoil:
        lists[rng.integers(4), rng.integers(m)] = rng.integers(-1, m + 4)
    expected = all(len(set(row)) == m and min(row) >= 0 and max(row) < m + 3 for row in lists.tolist())
    assert valid_lists(lists, m + 3) == expected


def test_valid_rewards_by_hand() -> None:
    fine = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, -0.0]])
    assert valid_rewards(fine, 1e-100, 1.5)
    assert not valid_rewards(fine, 1e-100, 1.4)
    for wrong in (np.nan, -1e-300, 1e-310, np.nextafter(1, 2), np.inf):
        spoilt = fine.copy()
        spoilt[1, 1] = wrong
        assert not valid_rewards(spoilt, 1e-100, np.inf)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, max_examples=100)
def test_draw_policies_equals_a_search(seed: int, floor: float) -> None:
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(rng.dirichlet(np.ones(6)) * (rng.random(6) < 0.7))
    u = rng.random((20, 2))
    for row, drawn in zip(u[:, 0], draw_policies(cumulative, u, floor), strict=True):
        if row < floor:
            assert drawn == -1
        else:
            v = (row - floor) / (1 - floor) * cumulative[-1]
            assert drawn == min(np.searchsorted(cumulative, v, side="right"), 5)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_event_rows_are_the_positive_rewards(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards = rng.random((int(rng.integers(0, 12)), int(rng.integers(1, 5)))) * (rng.random() < 0.9)
    rewards[rng.random(rewards.shape) < rng.random()] = rng.choice([0.0, -0.0])
    where, place, rewarded, rows = event_rows(rewards)
    np.testing.assert_array_equal(np.stack([where, place]), np.nonzero(rewards > 0))
    expected, inverse = np.unique(where, return_inverse=True)
    np.testing.assert_array_equal(rewarded, expected)
    np.testing.assert_array_equal(rows, inverse)


def test_least_of_shared_is_the_smallest_where_a_bit_is_set() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**63, size=(200, 3), dtype=np.uint64) * (rng.random((200, 3)) < 0.2)
    values = rng.random(200)
    assert least_of_shared(bits, values) == values[bits.any(axis=1)].min()
    assert least_of_shared(np.zeros((2, 1), dtype=np.uint64), values[:2]) == np.inf
