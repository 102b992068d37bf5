"""No kernel reads or writes out of bounds, whatever comes: each refuses shapes and indices that do not fit, and all
kernels pass their own tests when they are compiled with numba's bounds check.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comband._kernels import (
    betting,
    disagreement,
    exposure,
    ftrl,
    lists,
    logs,
    orders,
    packed,
    pairs,
    places,
    records,
    search,
    totals,
)

LISTS = np.array([[[0, 1], [1, 2]], [[2, 3], [0, 3]]], dtype=np.int32)  # two contexts, two policies, K = 4
SHOWN = np.array([[0, 1], [2, 3]], dtype=np.int32)
BAD = np.array([[0, 1], [2, 10**6]], dtype=np.int32)
NEGATIVE = np.array([[0, 1], [2, -(2**31)]], dtype=np.int32)
HALF = np.array([0.5, 0.5])
FLOORS = np.array([0.1, 0.1, 0.1])
ROWS, ACTIONS, ONES = np.array([0, 1]), np.array([1, 2], dtype=np.int32), np.ones(2)
BITS = np.ones((3, 2), dtype=np.uint64)
INSIDE = np.array([[True, False], [False, True]])
LEVELS = np.zeros((2, 3), dtype=np.int64)
STAKES = np.array([0.5, 0.25, 0.0])
STARTS = np.arange(3)
TWO = np.full((2, 2), 0.5)
NONE_OWN = np.zeros(2)


def outside(lists: np.ndarray) -> np.ndarray:
    spoilt = lists.copy()
    spoilt[-1, -1, -1] = 10**6
    return spoilt


def disputed(
    lists: np.ndarray = LISTS,
    asked: np.ndarray = SHOWN,
    attention: np.ndarray = HALF,
    u: np.ndarray = TWO,
    leader: int = 0,
    own: np.ndarray = NONE_OWN,
) -> Any:
    return disagreement.disagreement_lists(lists, leader, attention, FLOORS, u, 4, asked, own)


def first(lists: np.ndarray = LISTS, asked: np.ndarray = SHOWN, attention: np.ndarray = HALF, leader: int = 0) -> Any:
    return totals.first_actions(lists, leader, attention, FLOORS, HALF, 4, asked)


def paired(levels: np.ndarray = LEVELS, leader: int = 0, weights: np.ndarray = ONES) -> Any:
    return betting.add_paired_log_wealth(INSIDE, ROWS, weights, leader, levels, STAKES, np.zeros((2, 3)))


def linear(which: np.ndarray = ROWS[:1], n_lists: int = 1, last: int = 1) -> Any:
    empty = np.empty((n_lists, 1, 1), dtype=np.int32)
    rank = np.zeros((1, 3), dtype=np.int32)
    return lists.linear_top_lists(np.ones((1, 2)), np.ones((2, 1, 3)), which, rank, empty, 0, last)


def exposed(
    shown: np.ndarray = SHOWN,
    starts: np.ndarray = STARTS,
    actions: np.ndarray = ROWS,
    rest: np.ndarray = HALF,
    n_classes: int = 4,
) -> Any:
    numbers = (HALF, rest, 4, n_classes, FLOORS, STAKES)
    return exposure.exposure_bets(shown.astype(np.int64), starts, actions, *numbers)


BOTH = np.zeros(2, dtype=np.int64)
DONE = np.zeros(4, dtype=np.bool_)
DECISIONS = (ROWS, SHOWN, np.ones((2, 2), dtype=np.uint64), BOTH, DONE[:2], BOTH, np.zeros(2, dtype=np.uint64))


def compare(issued: int = 2, starts: np.ndarray = BOTH[:1], ids: np.ndarray = ROWS) -> Any:
    known = np.zeros((4, 3), dtype=np.uint64)
    return records.compare_rows(ids, *DECISIONS[1:], BOTH, known, DONE, 2, 0, issued, starts, BOTH[:1])


def examined(lists: np.ndarray = LISTS, asked: np.ndarray = SHOWN, factors: np.ndarray = ONES, leader: int = 0) -> Any:
    return places.examination_lists(lists, leader, HALF, FLOORS, factors, TWO, 4, asked)


def paired_up(lists: np.ndarray = LISTS, asked: np.ndarray = SHOWN, u: np.ndarray = TWO, leader: int = 0) -> Any:
    return places.pair_lists(lists, leader, HALF, FLOORS, u, 4, asked)


def _shared(bits: np.ndarray, starts: list[int], n_variables: int = 3) -> float:
    sums, squares = np.zeros((2, 2, n_variables), dtype=np.int64)
    counts = np.zeros((9, n_variables), dtype=np.int64)
    return float(betting.split_shared(bits, np.array(starts), ONES, ONES, counts, sums, squares, 5.0, 0.5, 8.0))


REFUSED: dict[str, Callable[[], Any]] = {
    "orders with a number missing": lambda: orders.shuffle_lists(SHOWN.copy(), TWO.copy(), HALF[:1]),
    "orders with a propensity missing": lambda: orders.shuffle_lists(SHOWN.copy(), TWO[:, :1].copy(), HALF),
    "examination of an action out of range": lambda: examined(outside(LISTS)),
    "examination asked for an action out of range": lambda: examined(asked=BAD),
    "examination with a factor missing": lambda: examined(factors=ONES[:1]),
    "examination with no such leader": lambda: examined(leader=2),
    "needs of examination, no such leader": lambda: places.examination_needs(LISTS, -1, ONES, 4),
    "needs of examination, action out of range": lambda: places.examination_needs(outside(LISTS), 0, ONES, 4),
    "pairs of an action out of range": lambda: paired_up(outside(LISTS)),
    "pairs asked for one out of range": lambda: paired_up(asked=BAD),
    "pairs with a number missing": lambda: paired_up(u=TWO[:1]),
    "pairs with no such leader": lambda: paired_up(leader=-1),
    "needs of pairs, no such leader": lambda: places.pair_needs(LISTS, 2, 4),
    "needs of pairs, action out of range": lambda: places.pair_needs(outside(LISTS), 0, 4),
    "inclusion of an action out of range": lambda: lists.inclusion(LISTS, HALF, BAD, 4),
    "inclusion of a negative action": lambda: lists.inclusion(LISTS, HALF, NEGATIVE, 4),
    "inclusion with a weight missing": lambda: lists.inclusion(LISTS, HALF[:1], SHOWN, 4),
    "contains, row out of range": lambda: lists.contains(LISTS, np.array([0, 2]), ACTIONS),
    "contains, negative row": lambda: lists.contains(LISTS, np.array([0, -3]), ACTIONS),
    "credit, row out of range": lambda: lists.credit(LISTS, np.array([0, 9]), ACTIONS, ONES, np.zeros(2)),
    "credit, too few totals": lambda: lists.credit(LISTS, ROWS, ACTIONS, ONES, np.zeros(1)),
    "disagreement, list out of range": lambda: disputed(lists=outside(LISTS)),
    "disagreement, asked out of range": lambda: disputed(asked=BAD),
    "disagreement, attention missing": lambda: disputed(attention=HALF[:1]),
    "exposure, shown action out of range": lambda: exposed(shown=BAD),
    "exposure, negative action": lambda: exposed(shown=NEGATIVE),
    "exposure, action out of range": lambda: exposed(actions=np.array([0, 4])),
    "exposure, rows missing": lambda: exposed(starts=np.arange(2)),
    "exposure, rows that go back": lambda: exposed(starts=np.array([0, 5, 2])),
    "exposure, values without a row": lambda: exposed(starts=np.array([0, 1, 1])),
    "exposure, rest missing": lambda: exposed(rest=HALF[:1]),
    "exposure, more classes than actions": lambda: exposed(n_classes=5),
    "disagreement, numbers missing": lambda: disputed(u=TWO[:1]),
    "disagreement, one number for each": lambda: disputed(u=TWO[:, :1].copy()),
    "disagreement, own lists only": lambda: disputed(own=HALF),
    "disagreement, own shares missing": lambda: disputed(own=NONE_OWN[:1]),
    "disagreement, leader out of range": lambda: disputed(leader=2),
    "first actions, list out of range": lambda: first(lists=outside(LISTS)),
    "first actions, asked out of range": lambda: first(asked=BAD),
    "first actions, asked below all": lambda: first(asked=NEGATIVE),
    "first actions, attention missing": lambda: first(attention=HALF[:1]),
    "first actions, no such leader": lambda: first(leader=2),
    "disputed, list out of range": lambda: disagreement.disputed_counts(outside(LISTS), 0, 4),
    "disputed, leader out of range": lambda: disagreement.disputed_counts(LISTS, 2, 4),
    "paired bets, level out of range": lambda: paired(levels=LEVELS + 3),
    "paired bets, negative level": lambda: paired(levels=LEVELS - 1),
    "paired bets, leader out of range": lambda: paired(leader=2),
    "paired bets, weight missing": lambda: paired(weights=ONES[:1]),
    "value bets, wealths too small": lambda: betting.add_value_log_wealth(
        INSIDE, ROWS, ONES, STAKES, np.zeros((1, 3)), np.zeros((2, 3)), np.zeros(2)
    ),
    "value bets, sums too small": lambda: betting.add_value_log_wealth(
        INSIDE, ROWS, ONES, STAKES, np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(1)
    ),
    "linear scores, policy out of range": lambda: linear(which=np.array([1])),
    "linear scores, too few lists": lambda: linear(n_lists=0),
    "linear scores, lists out of range": lambda: linear(last=2),
    "packed pass, group out of range": lambda: packed.packed_pass(
        np.zeros((1, 1, 2, 16), dtype=np.uint32), np.ones(64, dtype=np.float32), np.zeros(16), 0, 2
    ),
    "top lists, rank too small": lambda: lists.top_lists(np.ones((1, 1, 3)), np.zeros((1, 2), dtype=np.int32), 1),
    "packed scores, too few numbers": lambda: packed.packed_scores(BITS, np.ones(64), np.empty(3)),
    "packed scores, with gaps": lambda: packed.packed_scores(BITS[:, ::-1], np.ones(128), np.empty(3)),
    "packed coverage, too few sums": lambda: packed.packed_coverage(BITS, np.ones(3), np.empty(64)),
    "packed gram, too few numbers": lambda: packed.packed_gram(
        BITS, np.ones(64, dtype=np.float32), np.empty((3, 3)), dense=True
    ),
    "packed pass, too few numbers": lambda: packed.packed_pass(
        np.zeros((1, 1, 2, 16), dtype=np.uint32), np.ones(32, dtype=np.float32), np.empty(16), 0, 1
    ),
    "sparse scores, event out of range": lambda: packed.sparse_scores(
        np.array([0, 2]), np.array([0, 7], dtype=np.int32), np.ones(2), np.empty(1)
    ),
    "taken bits, column out of range": lambda: packed.take_bits(BITS, np.array([128]), np.empty((3, 1), np.uint64)),
    "transposed bits, too small": lambda: packed.transpose_bits(
        np.zeros((8, 2), dtype=np.uint8), np.zeros((8, 1), dtype=np.uint8)
    ),
    "line search, a number missing": lambda: search.line_search(ONES, ONES[:1], ONES, 0.0, 1.0),
    "FTRL, a weight missing": lambda: ftrl.ftrl_solve(ONES, 1.0, 1.0, 0.0, 0.0, np.ones(1)),
    "softmax, a weight missing": lambda: ftrl.softmax_solve(ONES, 1.0, np.ones(1)),
    "pairs, column out of range": lambda: pairs.pair_products(
        np.array([0, 1]), np.array([5]), np.ones(1), np.ones((2, 2)), np.array([0]), np.array([0])
    ),
    "pairs, action out of range": lambda: pairs.pair_sums(
        np.array([0, 1]), np.array([0]), np.ones(1), np.ones(1), np.array([0]), np.array([2]), np.ones((2, 2))
    ),
    "histogram, counts for another number of variables": lambda: betting.split_histogram(
        np.ones((2, 3)), np.zeros((9, 2), dtype=np.int64), 5.0, 0.5
    ),
    "shared histogram, bits for fewer variables": lambda: _shared(
        np.zeros((2, 1), np.uint64), [0, 1, 2], n_variables=65
    ),
    "shared histogram, a row of bits missing": lambda: _shared(np.zeros((1, 1), np.uint64), [0, 1, 2]),
    "shared histogram, events of no round": lambda: _shared(np.zeros((2, 1), np.uint64), [0, 1, 1]),
    "shared histogram, rounds that do not ascend": lambda: _shared(np.zeros((2, 1), np.uint64), [0, 3, 2]),
    "shared histogram, a round missing": lambda: _shared(np.zeros((2, 1), np.uint64), [0, 2]),
    "round faults, a column too short": lambda: logs.round_faults(
        np.zeros((2, 2), dtype=np.int64), np.zeros((2, 1)), np.ones((2, 2)), 1e-100, 1.0, 1e-16, 1.0, False
    ),
    "ledger, no room for new rows": lambda: records.issue_rows(*DECISIONS, np.zeros((3, 3), np.uint64), DONE[:3], 2),
    "ledger, record too short": lambda: compare(issued=10**6),
    "ledger, nobody signed": lambda: compare(starts=np.array([5])),
    "ledger, settled beyond the record": lambda: records.settle_rows(ROWS, DONE[:2], DONE, 2, 0, 10**6),
    "prints of words beyond the end": lambda: records.word_digests(np.zeros(2, dtype=np.uint64), np.array([1, 3])),
    "prints of entries beyond the end": lambda: records.csr_digests(np.array([3]), np.array([0, 1]), ONES),
    "draws from no policy": lambda: lists.draw_policies(np.empty(0), np.ones((1, 1)), 0.0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_kernels_refuse_what_does_not_fit(case: str) -> None:
    with pytest.raises(IndexError):
        REFUSED[case]()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-310])
@pytest.mark.parametrize("bound", [1.0, 1e308, 5e-324, np.inf])
def test_histograms_stay_within_their_counts(value: float, bound: float) -> None:
    frame = np.full((12, 3), 7)  # the counts are in column 1: what stands around them must not change
    frame[:, 1] = 0
    betting.split_histogram(np.full((4, 1), value), frame[:11, 1:2], bound, np.log(1.5))
    assert (frame[:, [0, 2]] == 7).all()
    assert frame[11, 1] == 0
    frame[:11, 1] = 0
    for n_events in (1, 2, 8):  # for all at once, looked up, and not
        bits, (sums, squares) = np.ones((n_events, 1), np.uint64), np.zeros((2, 2, 1), dtype=np.int64)
        weights, starts = np.full(n_events, value), np.array([0, n_events])
        betting.split_shared(bits, starts, weights, np.zeros(1), frame[:11, 1:2], sums, squares, bound, 0.4, bound)
        assert (frame[:, [0, 2]] == 7).all()
        assert frame[11, 1] == 0


def test_uniform_lists_stay_in_range_for_any_numbers() -> None:
    u = np.array([[np.nan, 2.0, -5.0], [np.inf, -np.inf, 1e300], [1.0, 1.0, 1.0]])
    drawn = lists.uniform_lists(u, 7)
    assert all(len(set(row)) == 3 and min(row) >= 0 and max(row) < 7 for row in drawn.tolist())


def test_ids_far_out_are_unknown() -> None:
    assert compare(ids=np.array([-(2**62), 2**62]))[0].tolist() == [1, 1]


@pytest.mark.slow
def test_a_debug_build_of_all_kernels_passes_their_tests(tmp_path: Path) -> None:
    """Compiled with numba's bounds check, in a process and a cache of its own."""
    root = Path(__file__).parents[1]
    files = [
        "test_kernels.py",
        "test_kernels_packed.py",
        "test_kernels_bounds.py",
        "test_kernels_orders.py",
        "test_kernels_places.py",
        "test_kernels_requests.py",
        "statistics",
        "explore/solvers",
        "policies",
    ]
    files += [
        "explore/oracles/test_regression.py",
        "learners/test_ledger.py",
        "certify/test_event_store.py",
        "certify/test_adaptive.py",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not slow"]
    done = subprocess.run(
        [*command, *(str(root / "tests" / name) for name in files)],
        cwd=root,
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
