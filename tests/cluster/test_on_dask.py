"""Real clusters of processes: the same bytes for any number of workers, whoever dies meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.certify import Task
from typer.testing import CliRunner

import comband as cb
from comband.cluster import connect, connecting
from comband.cluster.on_dask import OnDask
from comband.commands.cli import app
from comband.evaluation import design_log, evaluate_log
from comband.evaluation.logs import LogError, shards
from comband.explore.solvers.sharded import ShardedIncidence
from comband.paper.runner import run_tasks
from tests.cluster.clusters import Cluster, environment, kill
from tests.evaluation.test_designing import figures
from tests.evaluation.worlds import counts, write_log
from tests.paper.toy import toy
from tests.waiting import LIMIT, wait_for

SLOW = "tests.evaluation.worlds:make_slow"
# Connections of clusters that die, as they do here, are closed by nobody.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("log")
    return write_log(folder, n=3000, files=3, group=100)[1:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.add_workers(1)
        yield made


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 200)


def document(folder: Path, candidates: str, client: object = None) -> str:
    return json.dumps(evaluate_log(folder, candidates, n_actions=20, client=client).as_dict())


def _calls_of_a_task() -> list[tuple[int, ...]]:
    """What a task asks of glibc, on a worker that has run none before, in whose environment a nanny has been."""
    from comband.cluster import on_dask

    asked: list[tuple[int, ...]] = []
    on_dask._keep_memory_within_a_task.cache_clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(on_dask, "_libc", lambda name: lambda *given: asked.append(given))
        on_dask._on_one_thread(int)
        on_dask._on_one_thread(int)
    on_dask._keep_memory_within_a_task.cache_clear()
    return asked


def test_memory_stays_with_a_worker_until_its_task_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nanny's workers would give back each array that is freed; without a nanny nothing is asked."""
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert _calls_of_a_task() == []
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    assert _calls_of_a_task() == [(-1, 1 << 28), (-3, 1 << 25)]  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: once


class Shuffled(OnDask):
    """Shards are submitted in any order, and some of them twice."""

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        rng, found = np.random.default_rng(), list[Any]([None] * len(items))
        order = rng.permutation([*range(len(items)), *rng.integers(len(items), size=5)])
        for i, handle in zip(order, super().each(what, function, [items[i] for i in order], *shared), strict=True):
            found[i] = handle
        return found


@pytest.mark.slow
def test_one_two_and_five_workers(log: tuple[Path, Path], cluster: Cluster) -> None:
    folder, lists = log
    expected = document(folder, str(lists))
    for more in (0, 1, 3):
        cluster.add_workers(more)
        assert document(folder, str(lists), cluster.client) == expected
    assert document(folder, str(lists), Shuffled(cluster.client)) == expected
    assert document(folder, "tests.evaluation.worlds:make_policies", cluster.client) == expected
    again = json.dumps(evaluate_log(folder, cb.read_candidates(lists, n_actions=20), client=cluster.client).as_dict())
    assert again == expected


def test_two_workers(log: tuple[Path, Path], cluster: Cluster) -> None:
    folder, lists = log
    cluster.add_workers(max(0, 2 - len(cluster.client.scheduler_info()["workers"])))
    assert document(folder, str(lists), Shuffled(cluster.client)) == document(folder, str(lists))


def test_metrics_on_workers_are_those_read_here(log: tuple[Path, Path], cluster: Cluster, tmp_path: Path) -> None:
    """Every second reward is a purchase of twice as much."""
    for number, path in enumerate(sorted(log[0].rglob("*.parquet"))):
        table = pq.read_table(path)
        bought = [[2.0 * reward * (i % 2) for reward in row] for i, row in enumerate(table["rewards"].to_pylist())]
        pq.write_table(table.append_column("purchases", pa.array(bought)), tmp_path / f"{number}.parquet")
    asked: dict[str, Any] = {
        "n_actions": 20,
        "min_propensity": 0.01,
        "production": cb.read_candidates(log[1], n_actions=20).names[0],
        "metrics": [cb.Metric(name="purchases", margin=0.5, largest=2.0)],
    }
    here = evaluate_log(tmp_path, str(log[1]), **asked).as_dict()
    assert len(here["guarded"]) == len(here["lifts"]) > 1
    assert evaluate_log(tmp_path, str(log[1]), client=cluster.client, **asked).as_dict() == here


def test_each_worker_makes_the_policies_once(log: tuple[Path, Path], cluster: Cluster) -> None:
    cluster.add_workers(max(0, 2 - len(cluster.client.scheduler_info()["workers"])))
    cluster.client.run(counts)
    evaluate_log(log[0], "tests.evaluation.worlds:make_counted", client=cluster.client)
    found = cluster.client.run(counts).values()
    assert max(each["made"] for each in found) == 1
    assert all(each["made"] == (each["asked"] > 0) for each in found)


def test_a_design_on_a_cluster(log: tuple[Path, Path], cluster: Cluster, tmp_path: Path) -> None:
    folder, lists = log
    expected = design_log(folder, lists, n_actions=20, sparsity=1)[0]
    cluster.add_workers(max(0, 2 - len(cluster.client.scheduler_info()["workers"])))
    kept: list[Any] = []
    asked: list[str] = []
    ask, scores = OnDask.ask, ShardedIncidence.scores

    def noted_ask(self: OnDask, what: str, *given: Any) -> list[Any]:
        asked.append(what)
        return ask(self, what, *given)

    def noted_scores(self: ShardedIncidence, gains: Any) -> Any:
        kept.append(cluster.client.who_has(list(self._parts)))
        before = len(asked)
        found = scores(self, gains)
        assert asked[before:] == ["a pass"]  # one question to each part, and a sum
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OnDask, "ask", noted_ask)
        patched.setattr(ShardedIncidence, "scores", noted_scores)
        found = design_log(folder, lists, n_actions=20, sparsity=1, client=cluster.client)[0]
    assert figures(found) == figures(expected)
    assert len(kept) >= found.oracle_calls > 1
    assert all(workers for where in kept for workers in where.values())  # columns stay on the workers
    assert len({worker for workers in kept[0].values() for worker in workers}) > 1
    options = ["-c", str(lists), "--n-actions", "20", "--sparsity", "1", "--json", "--out", str(tmp_path / "made.npz")]
    here, there = (
        CliRunner().invoke(app, ["design", str(folder), *options, *more])
        for more in ([], ["--cluster", cluster.address])
    )
    assert here.exit_code == there.exit_code in (0, 3)
    assert here.stdout == there.stdout


def killed_meanwhile(folder: Path, cluster: Cluster, rng: np.random.Generator, kills: int) -> tuple[str, float]:
    """What an evaluation says during which workers are killed, at random moments, and how long it took."""
    cluster.client.wait_for_workers(2, timeout=LIMIT)
    pids = rng.permutation(cluster.worker_pids())[:kills]
    timers = [threading.Timer(float(rng.uniform(0, 1.5)), kill, [int(pid)]) for pid in pids]
    began = time.monotonic()
    for timer in timers:
        timer.start()
    found = document(folder, SLOW, cluster.client)
    seconds = time.monotonic() - began
    for timer in timers:
        timer.join()
    return found, seconds


def test_workers_that_are_killed(log: tuple[Path, Path], cluster: Cluster) -> None:
    folder, lists = log
    expected = document(folder, str(lists))
    cluster.add_workers(max(0, 2 - len(cluster.client.scheduler_info()["workers"])))
    found, _ = killed_meanwhile(folder, cluster, np.random.default_rng(), kills=2)
    assert found == expected


@pytest.mark.slow
def test_thirty_workers_that_are_killed(log: tuple[Path, Path], cluster: Cluster) -> None:
    folder, lists = log
    expected = document(folder, str(lists))
    cluster.add_workers(max(0, 3 - len(cluster.client.scheduler_info()["workers"])))
    rng, slowest = np.random.default_rng(), 0.0
    for _ in range(16):
        found, seconds = killed_meanwhile(folder, cluster, rng, kills=2)
        assert found == expected
        slowest = max(slowest, seconds)
    print(f"32 workers killed; the slowest of 16 evaluations took {slowest:.1f} s")


def test_a_damaged_shard_is_named(log: tuple[Path, Path], cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    for path in log[0].rglob("*.parquet"):
        copy = folder / path.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for name in ("part-1.parquet", "part-2.parquet"):
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 3] ^= 255
        (folder / name).write_bytes(data)
    for how in ("refuse", "skip"):  # the first of the two, always
        with pytest.raises(LogError, match=r"part-1\.parquet breaks off after row"):
            evaluate_log(folder, log[1], on_error=how, client=cluster.client)


@pytest.mark.parametrize("threads", [True, False])
def test_a_local_cluster_by_command_line(log: tuple[Path, Path], threads: bool) -> None:
    """Lists are looked up by threads, policies of one's own are asked in processes."""
    folder, lists = log
    expected = evaluate_log(folder, lists, n_actions=20).as_dict()
    candidates = [str(lists), "--n-actions", "20"] if threads else ["tests.evaluation.worlds:make_policies"]
    command = [
        sys.executable,
        "-c",
        "from comband.commands.cli import main; main()",
        "evaluate",
        str(folder),
        "-c",
        *candidates,
    ]
    run = subprocess.run(
        [*command, "--cluster", "local:2", "--json", "--exit-zero"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == json.loads(json.dumps(expected))
    assert ("inproc://" in run.stderr) == threads
    assert ("tcp://" in run.stderr) != threads
    assert "rows" in run.stderr


@pytest.mark.slow
def test_experiments_run_on_a_cluster_too(cluster: Cluster, tmp_path: Path) -> None:
    tasks = toy().tasks(quick=False)
    here = run_tasks(tasks, tmp_path / "here", workers=1)
    assert run_tasks(tasks, tmp_path / "there", client=cluster.client) == here


@pytest.mark.slow
def test_simulations_run_on_a_cluster_too(cluster: Cluster) -> None:
    command = ["simulate", "--rounds", "600", "--candidates", "4", "--items", "20", "--slots", "3", "--seeds", "3"]
    runs = [CliRunner().invoke(app, [*command, "--json", *more]) for more in ([], ["--cluster", cluster.address])]
    assert [run.exit_code for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    found = json.loads(runs[0].stdout)["runs"]
    assert [run["seed"] for run in found] == [7, 8, 9]
    assert len({run["true_best_value"] for run in found}) == 3
    one = CliRunner().invoke(app, [*command[:-1], "1", "--seed", "8", "--json"])
    assert {"seed": 8, **json.loads(one.stdout)} == found[1]


def test_seeds_of_a_benchmark_run_on_a_cluster_too(cluster: Cluster) -> None:
    tasks = [Task(None, "needle", 4, seed, ("adaptive", "uniform lists"), 800) for seed in (5, 6, 7)]
    pool = cluster.client.get_executor(pure=False)
    here, there = [task.run() for task in tasks], list(pool.map(Task.run, tasks))
    for found in (*here, *there):
        for run in found["runs"].values():
            del run["seconds"]
    assert here == there


def test_a_scheduler_that_is_killed(log: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with Cluster(tmp_path) as cluster:
        cluster.add_workers(1)
        command = [
            sys.executable,
            "-c",
            "from comband.commands.cli import main; main()",
            "evaluate",
            str(log[0]),
            "-c",
            SLOW,
        ]
        command += ["--cluster", cluster.address, "--html", str(page), "--json"]
        run = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: any(cluster.client.processing().values()), "work begins")
        kill(cluster.scheduler.pid)
        out, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 1
    assert out == ""
    assert "the scheduler of the cluster no longer answers" in err
    assert not page.exists()


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_PATIENCE", "1s")
    for where, why in (("tcp://127.0.0.1:1", "no scheduler answers"), ("local:0", "at least one"), ("", "must be")):
        with pytest.raises(cb.InputError, match=why), connect(where):
            pass
