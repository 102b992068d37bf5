"""The runner: complete, resumable after any interruption, and always with the same results."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import comband as cb
from comband.paper.claim import Task
from comband.paper.runner import ResultsFile, as_plain, run_tasks
from tests.paper.toy import measure, toy
from tests.waiting import wait_for


def test_runs_everything_once_and_only_what_is_missing(tmp_path: Path) -> None:
    tasks = toy().tasks(quick=False)
    seen: list[bool] = []
    records = run_tasks(tasks, tmp_path, workers=2, on_done=lambda task, fresh: seen.append(fresh))["toy"]
    assert [(r.setting, r.seed) for r in records] == [(t.setting, t.seed) for t in tasks]
    assert [r["y"] for r in records] == [float(measure(t.setting, t.seed)["y"]) for t in tasks]
    assert records[0]["path"] == [0, 1]
    seen.clear()
    again = run_tasks(tasks, tmp_path, workers=1, on_done=lambda task, fresh: seen.append(fresh))["toy"]
    assert again == records
    assert seen == [False] * len(tasks)


@pytest.mark.parametrize("cut", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_torn_last_line_is_run_again(tmp_path: Path, cut: int) -> None:
    tasks = toy().tasks(quick=True)
    whole = run_tasks(tasks, tmp_path / "whole", workers=1)["toy"]
    content = (tmp_path / "whole" / "toy.jsonl").read_bytes()
    torn = tmp_path / "torn" / "toy.jsonl"
    torn.parent.mkdir()
    torn.write_bytes(content[:-cut])
    fresh: list[Task] = []
    resumed = run_tasks(tasks, torn.parent, workers=1, on_done=lambda t, new: fresh.append(t) if new else None)["toy"]
    assert resumed == whole
    assert len(fresh) == 1
    assert all(json.loads(line) for line in torn.read_bytes().splitlines())


def test_a_foreign_line_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "toy.jsonl").write_text('{"key": 1}\n')
    with pytest.raises(cb.InputError, match=r"line 1 of .*toy\.jsonl is not a result"):
        ResultsFile(tmp_path / "toy.jsonl").read()


def test_a_failing_run_says_which_and_keeps_the_others(tmp_path: Path) -> None:
    tasks = toy(fails=8.0).tasks(quick=False)
    with pytest.raises(RuntimeError, match="cannot be measured") as caught:
        run_tasks(tasks, tmp_path, workers=1)
    assert "'x': 8.0" in caught.value.__notes__[0]
    assert len(ResultsFile(tmp_path / "toy.jsonl").read()) == 12


def test_keys_are_stable_and_tell_settings_apart() -> None:
    tasks = toy().tasks(quick=False)
    assert len({task.key for task in tasks}) == len(tasks)
    assert Task(toy(), {"x": 1.0}, 0).key == tasks[0].key == "05450c8953f22c78"
    with pytest.raises(cb.InputError, match="JSON values"):
        _ = Task(toy(), {"x": object()}, 0).key


SCRIPT = """
import sys
from pathlib import Path
from comband.paper.runner import run_tasks
from tests.paper.toy import toy
if __name__ == "__main__":
    run_tasks(toy(sleep=0.1).tasks(quick=False), Path(sys.argv[1]), workers=2)
"""


@pytest.mark.slow
def test_killed_and_resumed_is_the_same_as_uninterrupted(tmp_path: Path) -> None:
    """SIGKILL in the middle; nothing goes on working in secret; the rest is run afterwards."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    results = tmp_path / "out" / "toy.jsonl"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    process = subprocess.Popen([sys.executable, str(script), str(results.parent)], env=env)

    def two_lines() -> bool:
        assert process.poll() is None
        return results.exists() and results.read_bytes().count(b"\n") >= 2

    wait_for(two_lines, "two tasks are done")
    process.send_signal(signal.SIGKILL)
    process.wait()
    tasks = toy(sleep=0.1).tasks(quick=False)
    fresh: list[bool] = []
    resumed = run_tasks(tasks, results.parent, workers=1, on_done=lambda task, new: fresh.append(new))["toy"]
    assert 2 <= fresh.count(False) < len(tasks)
    assert resumed == run_tasks(tasks, tmp_path / "uninterrupted")["toy"]


def test_two_runs_may_not_share_a_folder(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(cb.InputError, match="another run is writing"):
            run_tasks(toy().tasks(quick=True), tmp_path)


def test_what_could_not_be_measured_is_null_on_disk_and_nan_again(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path / "toy.jsonl")
    task = toy().tasks(quick=True)[0]
    file.append(task, {name: as_plain(v) for name, v in {"y": math.nan, "path": [1.0, math.nan]}.items()}, 0.1)
    assert "NaN" not in file.path.read_text()
    record = file.read()[task.key]
    assert math.isnan(record["y"])
    assert record["path"][0] == 1.0
    assert math.isnan(record["path"][1])
    with pytest.raises(cb.InputError, match="finite"):
        as_plain([1.0, math.inf])
    with pytest.raises(cb.InputError, match="JSON"):
        _ = Task(toy(), {"x": math.inf}, 0).key
