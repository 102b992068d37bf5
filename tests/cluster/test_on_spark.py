"""Parts on Spark: the same bytes as here, whoever dies meanwhile; skipped where there is no Java runtime."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.cluster import connect
from comband.cluster.on_spark import OnSpark
from comband.commands.cli import app
from comband.evaluation import design_log, evaluate_log
from comband.evaluation.logs import LogError, shards
from tests.cluster.clusters import kill
from tests.documents import ROOT
from tests.evaluation.test_designing import figures
from tests.evaluation.worlds import write_log

pytest.importorskip("pyspark", reason="there is no pyspark")
if shutil.which("java") is None:
    pytest.skip("there is no Java runtime on this machine", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
SLOW = "tests.evaluation.worlds:make_slow"
EXECUTORS = "spark:local-cluster[2,1,1024]"  # two executors, each a process of its own


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 200)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_log(tmp_path_factory.mktemp("log"))[1:]


@pytest.fixture(autouse=True, scope="module")
def _found_by_executors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        yield


def document(folder: Path, candidates: str, client: object = None) -> str:
    return json.dumps(evaluate_log(folder, candidates, n_actions=20, client=client).as_dict())


@pytest.mark.slow
def test_the_same_bytes_designs_and_errors_as_here(log: tuple[Path, Path], tmp_path: Path) -> None:
    folder, lists = log
    told: list[tuple[str, int, int]] = []
    with connect("spark:local[2]", lambda *given: told.append(given)) as work:
        assert isinstance(work, OnSpark)
        assert document(folder, str(lists), work) == document(folder, str(lists))
        assert ("reading", 15, 15) in told
        assert sum(tally.rows for tally in work.tallies.values()) == 3000
        policies = "tests.evaluation.worlds:make_policies"
        assert document(folder, policies, work) == document(folder, policies)
        known = cb.read_candidates(lists, n_actions=20)
        assert evaluate_log(folder, known, client=work) == evaluate_log(folder, known)
        made = design_log(folder, lists, n_actions=20, sparsity=1, client=work)[0]
        assert figures(made) == figures(design_log(folder, lists, n_actions=20, sparsity=1)[0])
        damaged = tmp_path / "damaged"
        shutil.copytree(folder, damaged)
        path = next(damaged.rglob("part-1.parquet"))
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 255
        path.write_bytes(data)
        with pytest.raises(LogError, match=r"part-1\.parquet breaks off after row"):
            evaluate_log(damaged, lists, client=work)
        parts = work.each("numbers", int, ["1", "2", "3"])
        assert work.gather("numbers", pow, parts, 2) == [1, 4, 9]
        assert work.ask("numbers", pow, parts, [1, 2, 3]) == [1, 4, 27]
        assert work.total("numbers", sum, parts) == 6
        with pytest.raises(ValueError, match="invalid literal for int"):
            work.each("numbers", int, ["1", "two", "three"])
        kept = Path(work.share(3).path).parent
        assert kept.exists()
    assert not kept.exists()


@pytest.mark.slow
def test_the_command_line(log: tuple[Path, Path]) -> None:
    folder, lists = log
    options = ["evaluate", str(folder), "-c", str(lists), "--n-actions", "20", "--json"]
    here, there = (CliRunner().invoke(app, [*options, *more]) for more in ([], ["--cluster", "spark:local[2]"]))
    assert here.exit_code == there.exit_code in (0, 3)
    assert here.stdout == there.stdout


def executors() -> list[int]:
    """The processes of this one's executors."""
    found, parents = [], {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            if "CoarseGrainedExecutorBackend" in command:
                found.append(int(entry.name))

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return [pid for pid in found if ours(pid)]


@pytest.mark.slow
def test_an_executor_that_is_killed(log: tuple[Path, Path]) -> None:
    folder, lists = log
    expected = document(folder, str(lists))
    rng = np.random.default_rng()
    with connect(EXECUTORS) as work:
        assert document(folder, SLOW, work) == expected
        before = executors()
        assert before
        killed: list[int] = []

        def strike() -> None:
            time.sleep(float(rng.uniform(0, 2)))
            killed.append(before[0])
            kill(before[0])

        timer = threading.Thread(target=strike)
        timer.start()
        assert document(folder, SLOW, work) == expected
        timer.join()
        assert document(folder, SLOW, work) == expected
        assert killed[0] not in executors()


def test_addresses_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(cb.InputError, match="Spark needs a Java runtime"), connect("spark:local[2]"):
        pass
