"""Contexts of every kind are copied, so that nobody alters them later, and known again by what they hold."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import comband as cb
from comband.page.contexts import (
    concat_contexts,
    context_digests,
    pack_contexts,
    private_contexts,
    take_contexts,
    unpack_contexts,
)
from comband.page.rounds import Decisions

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(6, 3))
SPARSE = sp.csr_array(np.where(RNG.random((6, 9)) < 0.4, RNG.random((6, 9)), 0.0))


@dataclass
class Visitor:
    age: int
    tags: list[str]
    seen: dict[str, float] = field(default_factory=dict, compare=False)


class Opaque:
    pass


KINDS: dict[str, Any] = {
    "dense": DENSE,
    "single precision": DENSE.astype(np.float32),
    "columns first": np.asfortranarray(DENSE),
    "every other": RNG.normal(size=(12, 6))[::2, ::2],
    "cubes": RNG.normal(size=(6, 2, 2)),
    "whole numbers": np.array([5, 3, 2**60, 2**60 + 1, -1, 0]),
    "huge numbers": np.array([5, 3, 2**64 - 5, 2**63, 1, 0], dtype=np.uint64),
    "flags": np.array([[True, False], [False, True], [True, True]] * 2),
    "sparse": SPARSE,
    "sparse by columns": SPARSE.tocsc(),
    "sparse matrix": sp.csr_matrix(SPARSE),
    "names": ["ann", "bob", "c", "", "dädalus", "e" * 50],
    "array of names": np.array(["ann", "bob", "c", "", "dädalus", "e" * 50]),
    "rows of lists": DENSE.tolist(),
    "pairs of names": np.array([["a", "b"]] * 6),
    "dates": np.array(["2026-01-01", "2026-01-02"] * 3, dtype="M8[D]"),
    "mixed": [1, "1", None, (1, "a"), {"a": [1, 2], "b": None}, b"x"],
    "objects": np.array([{"a": 1}, "x", None, 3, datetime.date(2026, 1, 1), Visitor(3, ["a"])], dtype=object),
    "ragged": [np.arange(k) for k in range(6)],
    "frame": pd.DataFrame({"a": RNG.normal(size=6), "b": np.arange(6)}),
    "frame of text": pd.DataFrame({"a": RNG.normal(size=6), "b": list("uvwxyz")}),
    "range": range(6),
}
every_kind = pytest.mark.parametrize("X", KINDS.values(), ids=KINDS.keys())


@every_kind
def test_a_print_belongs_to_the_context_and_not_to_its_batch(X: Any) -> None:
    digests = context_digests(private_contexts(X))
    assert digests.dtype == np.uint64
    assert digests.tolist() == context_digests(X).tolist()
    for index in (slice(2, 5), np.array([4, 0, 0]), np.array([1])):
        assert context_digests(take_contexts(X, index)).tolist() == digests[index].tolist()
    halves = concat_contexts([take_contexts(X, slice(0, 3)), take_contexts(X, slice(3, 6))])
    assert context_digests(halves).tolist() == digests.tolist()


@every_kind
def test_saved_contexts_are_known_again(X: Any, tmp_path: Path) -> None:
    zeros = np.zeros((6, 1), dtype=np.int32)
    decisions = Decisions(np.arange(6), zeros, np.ones((6, 1)), np.arange(6), X)
    try:
        decisions.save(tmp_path / "d.npz")
    except ValueError:
        pytest.skip("cannot be saved without pickle")
    if isinstance(X, list) and len({type(x) for x in X}) > 1:
        pytest.skip("comes back as another kind")
    assert context_digests(Decisions.load(tmp_path / "d.npz").contexts).tolist() == context_digests(X).tolist()


def test_equal_values_in_any_type_are_one_and_others_are_not() -> None:
    same: list[Any] = [[0, 3, -7], (0.0, 3.0, -7.0), np.array([0, 3, -7], dtype=np.int8), np.array([-0.0, 3, -7])]
    assert len({context_digests(X).tobytes() for X in same}) == 1
    assert context_digests(DENSE).tolist() == context_digests(DENSE.tolist()).tolist()
    unsorted = sp.csr_array((np.array([2.0, 1, 0, 4]), np.array([2, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    assert context_digests(unsorted).tolist() == context_digests(sp.csr_array([[1.0, 0, 6]])).tolist()
    different: list[Any] = [1, 2, 1.5, "1", b"1", None, (1, 2), (2, 1), {1: 2}, {2: 1}, {1, 2}, 2**60, 2**60 + 1]
    different += [True + 2, float("nan"), datetime.date(2026, 1, 1), Visitor(1, ["a"]), Visitor(2, ["a"]), Opaque()]
    digests = context_digests(different)
    assert len(set(digests.tolist())) == len(different)
    grid = np.stack(np.meshgrid(np.arange(100), np.arange(100)), axis=-1).reshape(-1, 2)
    assert len(set(context_digests(grid).tolist())) == 10_000


def test_what_is_not_compared_does_not_count_and_opaque_objects_count_by_type() -> None:
    one, other = Visitor(1, ["a"]), Visitor(1, ["a"])
    other.seen["later"] = 1.0  # a cache is no part of the context
    assert context_digests([one]).tolist() == context_digests([other]).tolist()
    assert context_digests([Opaque()]).tolist() == context_digests([Opaque()]).tolist()


@pytest.mark.parametrize("alter", [lambda X: X.__setitem__(0, 7), lambda X: X.__iadd__(1)])
def test_a_private_copy_does_not_follow_and_cannot_be_written(alter: Callable[[Any], Any]) -> None:
    for X in (DENSE.copy(), np.arange(6)):
        mine, before = private_contexts(X), X.copy()
        alter(X)
        assert (mine == before).all()
        with pytest.raises(ValueError, match="read-only"):
            alter(mine)
    matrix = SPARSE.copy()
    mine = private_contexts(matrix)
    matrix.data[:] = 0
    assert (mine.toarray() == SPARSE.toarray()).all()
    with pytest.raises(ValueError, match="read-only"):
        mine.data[0] = 1
    names = ["a", "b"]
    mine = private_contexts(names)
    names[0] = "c"
    assert mine == ["a", "b"]
    frame = KINDS["frame"].copy()
    mine = private_contexts(frame)
    frame.loc[0, "a"] = 9.0
    assert mine.loc[0, "a"] != 9.0


def test_text_and_numbers_held_as_objects_are_saved_and_nothing_is_lost() -> None:
    text = np.array(["tea", "rice", ""], dtype=object)
    for X in (
        text,
        text.reshape(3, 1),
        np.array([1, 2**62, -3], dtype=object),
        np.array([0.5, 1.0, -2.0], dtype=object),
        pd.Series(["tea", "rice", ""]),
        pd.DataFrame({"a": ["tea", "rice", ""]}),
        *([np.array(["tea", "rice", ""], dtype=np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else []),
    ):
        again = unpack_contexts(pack_contexts(X))
        assert not again.dtype.hasobject
        assert again.tolist() == np.asarray(X).tolist()
        assert context_digests(again).tolist() == context_digests(np.asarray(X).tolist()).tolist()
    for wrong in (["a\0", "b"], [1, 2.5, "a"], [10**25, 1], [None, None], [{"a": 1}]):
        with pytest.raises(cb.InputError, match="cannot be saved without pickle"):
            pack_contexts(np.array([*wrong, None], dtype=object)[: len(wrong)])
