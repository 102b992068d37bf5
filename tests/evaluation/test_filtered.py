"""Lists that are read by shard: the same bytes, and no more in memory than a shard needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import comband as cb
from comband.evaluation import design_log, evaluate_log, filtered
from comband.evaluation.logs import LogError, shards
from comband.evaluation.logs.candidates import _assemble
from comband.evaluation.logs.tables import _parquet_pieces, open_table
from tests.evaluation.worlds import Scrambled, write_log


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 200)


def _long(table: pa.Table) -> pa.Table:
    """One row per context and candidate, a candidate after the other."""
    names = table.column_names[1:]
    return pa.table(
        {
            "context": np.tile(table["context"].to_numpy(), len(names)),
            "candidate": np.repeat(names, len(table)),
            "items": [row for name in names for row in table[name].to_pylist()],
        }
    )


def document(log: Path, lists: Path, **options: object) -> str:
    return json.dumps(evaluate_log(log, lists, **options).as_dict())  # type: ignore[arg-type]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("closed", [False, True])
def test_lists_in_a_folder_or_a_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool, closed: bool
) -> None:
    _, log, lists = write_log(tmp_path)
    options = {"n_actions": 20} if closed else {}
    expected = document(log, lists, **options)
    table = pq.read_table(lists)
    table = _long(table) if long else table
    (tmp_path / "lists").mkdir()
    for k in range(3):
        some = table.filter(pa.array(table["context"].to_numpy() % 3 == k))
        pq.write_table(some, tmp_path / "lists" / f"{k}.parquet", row_group_size=4)
    assert document(log, tmp_path / "lists", **options) == expected
    assert document(log, tmp_path / "lists", client=Scrambled(1), **options) == expected
    pq.write_table(table.sort_by("context"), tmp_path / "large.parquet", row_group_size=4)
    monkeypatch.setattr(filtered, "WHOLE", 100)
    assert filtered.is_large(tmp_path / "large.parquet")
    assert document(log, tmp_path / "large.parquet", **options) == expected
    with pytest.raises(cb.InputError, match="can be asked again"):
        design_log(log, tmp_path / "large.parquet", n_actions=20)


def test_lists_in_files_by_context_with_columns_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _, lists = write_log(tmp_path)
    log, parts, table = pq.read_table(whole), tmp_path / "lists", pq.read_table(lists)
    order = np.argsort(log["context"].to_numpy(), kind="stable")
    pq.write_table(log.take(order), whole, row_group_size=200)  # a shard needs the lists of few files
    expected = document(whole, lists)
    parts.mkdir()
    names = table.column_names
    for k in range(6):
        some = table.slice(5 * k, 5).select([names[0], *np.roll(names[1:], k)])
        pq.write_table(some, parts / f"{k}.parquet")
    held: list[int] = []

    def noted(*given: Any) -> Any:
        found = _assemble(*given)
        held.append(found.lists.shape[1])
        return found

    opened: list[Any] = []
    monkeypatch.setattr(filtered, "_assemble", noted)

    def noted_open(path: Any) -> Any:
        opened.append(path)
        return open_table(path)

    monkeypatch.setattr(filtered, "open_table", noted_open)
    assert document(whole, parts) == expected
    assert (
        len(opened) <= 2 * 6 + 15 + 6
    )  # to describe and load; by shard that of its contexts, and one where they change
    assert len(held) == 15
    assert max(held) <= 5  # contexts of 30: the lists in memory are those of one file, or of parts of two
    pq.write_table(table.slice(25, 5).drop_columns(names[2]), parts / "5.parquet")
    with pytest.raises(LogError, match=r"5\.parquet: column with space is missing \(other files have lists of that"):
        evaluate_log(whole, parts)


def test_only_groups_of_rows_that_may_hold_the_contexts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _, lists = write_log(tmp_path)
    pq.write_table(pq.read_table(lists), lists, row_group_size=5)
    table = pq.read_table(whole)
    pq.write_table(table.filter(pa.array(table["context"].to_numpy() < 5)), whole)
    monkeypatch.setattr(filtered, "WHOLE", 100)
    read: list[int] = []
    pieces = _parquet_pieces

    def noted(*given: object, groups: list[int], first: int) -> object:
        read.extend(groups)
        return pieces(*given, groups=groups, first=first)  # type: ignore[arg-type]

    monkeypatch.setattr(filtered, "_parquet_pieces", noted)
    found = document(whole, lists)
    assert set(read) == {0}  # of six
    monkeypatch.undo()
    assert found == document(whole, lists)


def test_lists_are_checked_where_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, log, lists = write_log(tmp_path)
    table = _long(pq.read_table(lists))
    monkeypatch.setattr(filtered, "WHOLE", 100)
    pq.write_table(table.slice(1), lists)
    with pytest.raises(LogError, match="context 0 has no good list of 'plain'"):
        evaluate_log(log, lists)
    shown = [["a", "b", "c"]] * len(table)
    pq.write_table(table.set_column(2, "items", pa.array(shown)), lists)
    with pytest.raises(LogError, match="items are text; name them all"):
        evaluate_log(log, lists, on_error="skip")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "lists.csv").write_text("context,candidate,item_0\n1,a,2\n")
    with pytest.raises(LogError, match="must be Parquet files"):
        evaluate_log(log, tmp_path / "csv")
