"""Items numbered anew give loops the same answers, in room that follows what was named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from comband._kernels import disagreement, lists, places, totals
from comband._kernels.numbering import FEW_ITEMS, Numbered, number_items

Ints = NDArray[np.int32]
LARGEST = 2**31 - 1


def plain_numbers(rows: Ints, asked: Ints, per_item: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The definition, with a dictionary for each context."""
    numbered, of_asked, items = [], [], []
    most = rows.shape[1] * rows.shape[2]
    for mine, wanted in zip(rows, asked, strict=True):
        known: dict[int, int] = {}
        for y in mine.ravel().tolist():
            if y >= 0:
                known.setdefault(y, len(known))
        numbered.append([[known.get(y, -1) for y in row] for row in mine.tolist()])
        of_asked.append(
            [-1 if z < 0 else known.get(z // per_item, most) * per_item + z % per_item for z in wanted.tolist()]
        )
        items.append([*known, *[-1] * (most - len(known))])
    return numbered, of_asked, items


@given(
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.integers(0, 9),
    st.integers(1, 4),
    st.sampled_from([5, 40, 10**6, LARGEST]),
    st.sampled_from([1, 3]),
)
@settings(deadline=None, max_examples=300)
def test_numbers_are_those_of_a_dictionary(
    seed: int, n: int, n_policies: int, m: int, n_actions: int, per_item: int
) -> None:
    rng = np.random.default_rng(seed)
    n_actions = min(n_actions, LARGEST // per_item)
    # Some far apart and some that differ in their highest bits only, as identifiers may.
    pool = np.concatenate([rng.integers(n_actions, size=6), [-1, 0, n_actions - 1], (1 << 24) * np.arange(9)])
    pool = pool[pool < n_actions]
    rows = rng.choice(pool, (n, n_policies, m)).astype(np.int32)
    wanted = rng.choice(pool, (n, 5))
    asked = np.where(wanted < 0, -1, wanted * per_item + rng.integers(per_item, size=wanted.shape)).astype(np.int32)
    found = number_items(rows, asked, n_actions, per_item)
    assert tuple(part.tolist() for part in found) == plain_numbers(rows, asked, per_item)


def test_what_is_out_of_range_is_refused() -> None:
    rows, asked = np.array([[[0, 7]]], dtype=np.int32), np.array([[3]], dtype=np.int32)
    for wrong in (8, -2):
        with pytest.raises(IndexError, match="an item is out of range"):
            number_items(np.array([[[0, wrong]]], dtype=np.int32), asked, 8, 1)
        with pytest.raises(IndexError, match="asked for is out of range"):
            number_items(rows, np.array([[wrong]], dtype=np.int32), 8, 1)
    assert number_items(rows, np.array([[23]], dtype=np.int32), 8, 3)[1].tolist() == [[1 * 3 + 2]]
    with pytest.raises(IndexError, match="asked for is out of range"):
        number_items(rows, np.array([[24]], dtype=np.int32), 8, 3)
    with pytest.raises(IndexError, match="a row of asked items"):
        number_items(rows, asked[:0], 8, 1)


def test_few_items_keep_their_numbers_and_many_get_small_ones() -> None:
    rows, asked = np.array([[[5, 9], [9, 5]]], dtype=np.int32), np.array([[9, 7]], dtype=np.int32)
    few = Numbered(rows, asked, FEW_ITEMS)
    assert few.lists is rows
    assert few.asked is asked
    assert few.n_actions == FEW_ITEMS
    shown = rows[0]
    assert few.items_of(shown) is shown
    named = Numbered(np.zeros((1, 1, FEW_ITEMS + 1), dtype=np.int32), asked, FEW_ITEMS + 3)
    assert named.n_actions == FEW_ITEMS + 3  # as many are named as there are
    many = Numbered(rows, asked, FEW_ITEMS + 1)
    assert many.n_actions == 5
    assert many.lists.tolist() == [[[0, 1], [1, 0]]]
    assert many.asked.tolist() == [[1, 4]]
    assert many.items_of(np.array([[1, -1, 0]], dtype=np.int32)).tolist() == [[9, -1, 5]]
    assert many.items_of(np.empty((0, 3), dtype=np.int32)).shape == (0, 3)


# ---- loops -----------------------------------------------------------------------------------------------------------

FACTORS = np.array([1.0, 0.6, 0.3])
SMALLEST = np.array([0.05, 0.03, 0.02])
OWN = np.array([0.0, 0.1, 0.0, 0.2, 0.0])


def draws(name: str, rows: Ints, attention: Any, u: Any, n_actions: int, asked: Ints) -> tuple[Any, ...]:
    """What one of the loops says, as lists, numbers and answers."""
    if name == "examination":
        return places.examination_lists(rows, 0, attention, SMALLEST, FACTORS, u, n_actions, asked)
    if name == "pairs":
        return places.pair_lists(rows, 0, attention, SMALLEST, u, n_actions, asked)
    if name == "first":
        first, covered, of_asked = totals.first_actions(rows, 0, attention, SMALLEST, u[:, 0], n_actions, asked)
        return first[:, None], covered, of_asked
    own = OWN if name == "own lists" else np.zeros(5)
    return disagreement.disagreement_lists(rows, 0, attention, SMALLEST, u, n_actions, asked, own)


@pytest.mark.parametrize("name", ["disagreement", "own lists", "gaps", "examination", "pairs", "first"])
def test_loops_draw_the_same_from_new_numbers_bit_for_bit(name: str) -> None:
    rng = np.random.default_rng(3)
    n, n_policies, m, n_actions = 60, 5, 3, FEW_ITEMS + 900
    pool = np.sort(rng.choice(n_actions, 12, replace=False))
    rows = pool[np.argsort(rng.random((n, n_policies, 12)), axis=2)[:, :, :m]].astype(np.int32)
    if name == "gaps":
        rows[rng.random(rows.shape) < 0.2] = -1
    attention = np.array([0.0, 0.4, 0.3, 0.2, 0.1])
    u = rng.random((n, 2))
    per_item = m if name == "pairs" else 1
    asked = rng.choice(pool, (n, 6)).astype(np.int32) * np.int32(per_item)
    asked[:, 5] = rng.integers(n_actions * per_item, size=n)
    asked[:, :5] += rng.integers(per_item, size=(n, 5), dtype=np.int32)
    plain = draws(name, rows, attention, u, n_actions, asked)
    few = Numbered(rows, asked, n_actions, places=per_item)
    assert few.n_actions == n_policies * m + 1
    shown, *rest = draws(name, few.lists, attention, u, few.n_actions, few.asked)
    assert few.items_of(shown).tolist() == plain[0].tolist()
    for ours, theirs in zip(rest, plain[1:], strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_needs_and_inclusion_are_the_same_in_new_numbers() -> None:
    rng = np.random.default_rng(4)
    n, n_policies, m, n_actions = 40, 4, 3, FEW_ITEMS + 900
    pool = rng.choice(n_actions, 9, replace=False)
    rows = pool[np.argsort(rng.random((n, n_policies, 9)), axis=2)[:, :, :m]].astype(np.int32)
    few = Numbered(rows, np.empty((n, 0), dtype=np.int32), n_actions)
    assert few.n_actions < n_actions
    for loop in (disagreement.disputed_counts, places.pair_needs):
        assert loop(few.lists, 1, few.n_actions).tolist() == loop(rows, 1, n_actions).tolist()
    needs = places.examination_needs
    assert needs(few.lists, 1, FACTORS, few.n_actions).tolist() == needs(rows, 1, FACTORS, n_actions).tolist()
    shown = np.concatenate(
        [rng.choice(pool, (n, 4)), rng.integers(n_actions, size=(n, 1)), np.full((n, 1), -1)], axis=1
    )
    shown, weights = shown.astype(np.int32), rng.random(n_policies)
    assert lists.inclusion(rows, weights, shown, n_actions).tolist() == (
        lists._inclusion(rows, weights, shown, n_actions).tolist()
    )
    rows[3, 2] = -1
    assert lists.inclusion(rows, weights, shown, n_actions).tolist() == (
        lists._inclusion(rows, weights, shown, n_actions).tolist()
    )
    with pytest.raises(IndexError, match="inclusion"):
        lists.inclusion(rows, weights, shown[:3], n_actions)
    for wrong in (n_actions, -2):
        shown[2, 1] = wrong
        with pytest.raises(IndexError, match="out of range"):
            lists.inclusion(rows, weights, shown, n_actions)
