"""Ids: positions, codes, and noticing repetitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.id_memory import IdMemory
from comband.evaluation.logs.keys import ItemIndex, unify_keys
from comband.page.catalogue import Catalogue


@given(st.lists(st.integers(-50, 2**60), unique=True, max_size=20), st.lists(st.integers(-50, 60), max_size=20))
@settings(max_examples=50, deadline=None)
def test_numbers_are_found_where_they_are(known: list[int], asked: list[int]) -> None:
    index = Catalogue(np.array(known, dtype=np.int64))
    keys = np.array(asked + known, dtype=np.int64)
    expected = [known.index(key) if key in known else -1 for key in keys.tolist()]
    assert index.find(keys).tolist() == expected
    assert index.find(keys.astype(str).astype(object)).tolist() == expected


def test_leading_zeros_are_text() -> None:
    keys = unify_keys([np.array([7, 8]), np.array(["007"], dtype=object)])
    assert keys.tolist() == ["7", "8", "007"]
    assert unify_keys([np.array(["7", "-8"], dtype=object)]).tolist() == [7, -8]
    assert Catalogue(np.array([7])).find(np.array(["007", "7", "x"], dtype=object)).tolist() == [-1, 0, -1]


def test_items_are_numbers_or_text_but_not_both() -> None:
    items = ItemIndex()
    assert items.learn(np.array([3, 9])).tolist() == [3, 9]
    assert items.size == 10
    with pytest.raises(LogError, match="some of both"):
        items.learn(np.array(["tea"], dtype=object))
    texts = ItemIndex()
    assert texts.learn(np.array(["tea", "rice", "tea"], dtype=object)).tolist() == [0, 1, 0]
    assert not texts.numeric


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
@settings(max_examples=100, deadline=None)
def test_id_memory_equals_a_set(batches: list[list[int]]) -> None:
    memory, seen = IdMemory(), set()
    for batch in batches:
        expected = []
        for key in batch:
            expected.append(key in seen)
            seen.add(key)
        assert memory.repeated(np.array(batch, dtype=np.int64)).tolist() == expected


def test_consecutive_ids_take_one_range() -> None:
    memory = IdMemory()
    for start in range(0, 10_000, 100):
        assert not memory.repeated(np.arange(start, start + 100)).any()
    assert sum(len(first) for first, _ in memory._runs) == 1
    assert memory.repeated(np.array(["a", "b", "a"], dtype=object)).tolist() == [False, False, True]


def test_no_text_is_taken_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {"": 0, "a": 7, "b": -7, "c": 2**62 - 1, "1": 0, "8": 0}
    monkeypatch.setattr("comband.evaluation.logs.id_memory.hash", hashes.get, raising=False)
    memory = IdMemory()
    assert not memory.repeated(np.array([-(2**62) + 1, -7, 0, 7, 2**62 - 1])).any()
    texts = np.array(["", "a", "b", "c"], dtype=object)
    assert not memory.repeated(texts).any()
    assert memory.repeated(texts).all()
    assert not memory.repeated(np.array(["1", "8"], dtype=object)).any()
