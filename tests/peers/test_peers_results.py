"""Lines of results: resumed, never run twice, left out with a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers.results import Ledger, PeerMissingError, Row, band, grouped, peak_megabytes, peer, versions

KEY = {"world": "needle", "method": "a", "seed": 1}


def test_what_has_a_line_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "out" / "job.jsonl"
    with Ledger(path) as ledger:
        ledger.run(KEY, lambda: {"regrets": {250: 0.5}})

    def never() -> Row:
        raise AssertionError("it has a line")

    with Ledger(path) as again:
        again.run(KEY, never)
        assert again.rows == [{**KEY, "regrets": {"250": 0.5}}]
        again.run({**KEY, "seed": 2}, lambda: {"regrets": {}})
    assert [row["seed"] for row in Ledger(path).rows] == [1, 2]


def test_a_line_cut_off_by_a_kill_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    with Ledger(path) as ledger:
        ledger.run(KEY, lambda: {"x": "é"})
    with path.open("a") as file:
        file.write('{"world": "needle", "met')
    assert len(Ledger(path).rows) == 1  # to read it changes nothing
    assert path.read_text().endswith('"met')
    with Ledger(path) as again:
        again.run({**KEY, "seed": 2}, lambda: {"x": 2})
    assert [row["x"] for row in Ledger(path).rows] == ["é", 2]


def test_one_process_adds_lines_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    with Ledger(path) as second:
        with Ledger(path) as first:
            first.run(KEY, lambda: {"x": 1})
            with pytest.raises(SystemExit, match="Another run is adding lines"):
                second.run({**KEY, "seed": 2}, lambda: {"x": 2})
        second.run(KEY, lambda: {"x": 3})  # it sees what was added meanwhile
        second.run({**KEY, "seed": 2}, lambda: {"x": 2})
    assert [row["x"] for row in Ledger(path).rows] == [1, 2]


def test_an_absent_peer_is_left_out_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PeerMissingError, match="make peers"):
        peer("no_such_peer.at_all")
    with Ledger(tmp_path / "job.jsonl") as ledger:
        for seed in (1, 2):
            ledger.run({**KEY, "seed": seed}, lambda: {"x": peer("no_such_peer")})
    assert ledger.rows == []
    assert "no_such_peer" in ledger.left_out["a"]
    assert capsys.readouterr().out.count("left out") == 1


def test_bands_groups_and_versions() -> None:
    assert band([4.0, 1.0, 2.0, 3.0, 5.0]) == (2.0, 3.0, 4.0)
    rows: list[Row] = [{"a": 1, "b": 1}, {"a": 2}, {"a": 1, "b": 2}]
    assert {key: len(some) for key, some in grouped(rows, "a").items()} == {(1,): 2, (2,): 1}
    assert {"Python", "numpy", "comband"} <= set(versions())


def test_the_peak_of_a_child_is_its_own() -> None:
    """A child of a large process does not begin with its parent's peak, as `ru_maxrss` would have it."""
    held = np.ones(40_000_000)  # 320 MB
    program = "from benchmarks.peers.results import peak_megabytes; print(peak_megabytes())"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert 1 < float(printed) < peak_megabytes() - 0.5 * held.nbytes / 2**20
