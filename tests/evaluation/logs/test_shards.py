"""Which files a log has, how they are cut, and that what is read of the parts is what is read of the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from comband.evaluation.logs import LogError
from comband.evaluation.logs import shards as shards_module
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.id_memory import IdMemory
from comband.evaluation.logs.shards import find_files, find_shards


def table(n: int, first: int = 0) -> pa.Table:
    rows = np.arange(first, first + n)
    return pa.table({"id": rows, "context": rows % 7, "items": [[1, 2]] * n, "rewards": [[0.0, 1.0]] * n,
                     "propensities": [[0.5, 0.5]] * n})  # fmt: skip


def test_folders_patterns_and_files_in_order(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "day=1/c.parquet", "day=2/d.parquet", "_note/e.parquet", ".f.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table(3), tmp_path / name)
    (tmp_path / "readme.txt").write_text("nothing")
    names = ["a.parquet", "b.parquet", "day=1/c.parquet", "day=2/d.parquet"]
    assert [str(path.relative_to(tmp_path)) for path in find_files(tmp_path)] == names
    assert find_files(str(tmp_path / "*.parquet")) == [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert find_files([tmp_path / "b.parquet", tmp_path / "day=*"]) == [
        tmp_path / name for name in ("b.parquet", "day=1/c.parquet", "day=2/d.parquet")
    ]
    with pytest.raises(LogError, match="named twice"):
        find_files([tmp_path, tmp_path / "a.parquet"])
    with pytest.raises(LogError, match="no file is like"):
        find_files(str(tmp_path / "*.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="a folder without"):
        find_files(tmp_path / "empty")
    with pytest.raises(ValueError, match="a log must be a path"):
        find_files(3)


def test_groups_of_rows_become_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SHARD_ROWS", 20)
    folder = tmp_path / "day=2026-01-01" / "land=a%20b"
    folder.mkdir(parents=True)
    pq.write_table(table(75), folder / "x.parquet", row_group_size=10)
    found = find_shards(tmp_path)
    assert [shard.rows for shard in found] == [20, 20, 20, 15]
    assert [shard.table.first_row for shard in found] == [1, 21, 41, 61]
    read = [piece for shard in found for piece in shard.table.pieces(["id", "land", "day"], Faults(""))]
    assert np.concatenate([piece.rows for piece in read]).tolist() == list(range(1, 76))
    assert np.concatenate([piece.columns["id"].to_numpy() for piece in read]).tolist() == list(range(75))
    assert {value.as_py() for piece in read for value in piece.columns["land"]} == {"a b"}
    assert found[0].table.names[-2:] == ("day", "land")
    csv = tmp_path / "day=2026-01-01" / "y.csv"
    csv.write_text("context,item_0,reward_0,propensity_0\n1,2,1,0.5\n")
    whole = find_shards(csv)
    assert [(shard.rows, shard.table.groups) for shard in whole] == [(None, None)]
    (piece,) = whole[0].table.pieces(["context", "day"], Faults(""))
    assert [value.as_py() for value in piece.columns["day"]] == ["2026-01-01"]


def test_files_of_two_formats_are_refused(tmp_path: Path) -> None:
    pq.write_table(table(3), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("item_id,position,click,propensity_score\n1,1,0,0.5\n")
    with pytest.raises(LogError, match=r"one format, but .*a\.parquet is read as comband and .*b\.csv as obd"):
        find_shards(tmp_path)


def test_text_ids_are_known_in_every_process() -> None:
    memory = IdMemory()
    ids = np.array(["b", "a", "12", "b"], dtype=object)
    assert memory.repeated(ids).tolist() == [False, False, False, True]
    first, last = memory.ranges
    assert len(first) == len(last) == 3
    assert 12 in first
    code = "import numpy as np; from comband.evaluation.logs.id_memory import IdMemory; m = IdMemory(); "
    code += "m.repeated(np.array(['a'], dtype=object)); print(m.ranges[0][0])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) in first  # unlike Python's own hash
    assert IdMemory().ranges[0].tolist() == []
