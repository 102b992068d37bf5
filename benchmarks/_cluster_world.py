"""The log, the candidates, other people's estimates and the processes of `benchmarks.cluster`."""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb

K, M, CONTEXTS = 500, 5, 5_000
PROBLEM = cb.Problem(K, M, sparsity=1)
FLOOR = 0.5  # the share of uniform draws in every slot is at least this
_MAIN = "from comband.commands.cli import main; main()"


@functools.cache
def _liked() -> Any:
    return np.random.default_rng(1).integers(0, 100, size=(CONTEXTS, M), dtype=np.int32)


def _lists(n_policies: int, contexts: Any) -> Any:
    """Lists (P, n, m): one item of each hundred, more of the liked ones the later the candidate."""
    rng, liked = np.random.default_rng(3), _liked()[contexts % CONTEXTS]
    lists = rng.integers(0, 100, size=(n_policies, *liked.shape), dtype=np.int32)
    shares = np.linspace(0, 0.5, n_policies)
    for p in range(n_policies):
        copied = rng.random(liked.shape) < shares[p]
        lists[p][copied] = liked[copied]
    lists += 100 * np.arange(M, dtype=np.int32)
    return lists


def _candidates(n_policies: int) -> cb.PolicySet:
    return cb.PolicySet.from_lists(_lists(n_policies, np.arange(CONTEXTS)), PROBLEM)


def candidates_10() -> cb.PolicySet:
    return _candidates(10)


def candidates_100() -> cb.PolicySet:
    return _candidates(100)


def candidates_1000() -> cb.PolicySet:
    return _candidates(1000)


def factory(n_policies: int) -> str:
    """What `--candidates` is given."""
    return f"benchmarks._cluster_world:candidates_{n_policies}"


def write_log(folder: Path, n_rounds: int, *, per_file: int = 1_000_000, contexts: int = CONTEXTS, by: str = "") -> int:
    """Rounds that show one item of each hundred, with a click in about one of ten; how many bytes they take on disk.

    The item of a slot is the liked one with probability 1 − γ, and uniform with γ ∈ [½, 1], drawn for each round and
    slot: so propensities are numbers that do not repeat, as in a real log. With by="context" each file has contexts of
    its own. Files that are there are left as they are.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True, parents=True)
    n_files = -(-n_rounds // per_file)
    for number, first in enumerate(range(0, n_rounds, per_file)):
        path, part = folder / f"part-{number:04}.parquet", folder / "unfinished"
        if path.exists():
            continue
        n, rng = min(per_file, n_rounds - first), np.random.default_rng([2, number])
        low, high = (contexts * number // n_files, contexts * (number + 1) // n_files) if by else (0, contexts)
        context = rng.integers(low, high, size=n)
        liked = _liked()[context % CONTEXTS]
        floors = rng.uniform(FLOOR, 1, size=(n, M))
        own = np.where(rng.random((n, M)) < floors, rng.integers(0, 100, size=(n, M)), liked)
        propensities = floors / 100 + np.where(own == liked, 1 - floors, 0)
        slot = rng.integers(0, M, size=n)
        rewards = np.zeros((n, M))
        rewards[np.arange(n), slot] = rng.random(n) < np.where((own == liked)[np.arange(n), slot], 0.2, 0.05)
        columns = {"items": own + 100 * np.arange(M), "rewards": rewards, "propensities": propensities}
        offsets = pa.array(np.arange(n + 1, dtype=np.int32) * M)
        arrays = {name: pa.ListArray.from_arrays(offsets, pa.array(values.ravel())) for name, values in columns.items()}
        table = pa.table({"id": np.arange(first, first + n), "context": context, **arrays})
        pq.write_table(table, part, row_group_size=1 << 17, write_page_checksum=True)
        part.rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def write_lists(folder: Path, n_policies: int, contexts: int, parts: int) -> int:
    """Lists in so many files, each with contexts of its own; how many bytes they are as numbers of four bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True, parents=True)
    for number in range(parts):
        own = np.arange(contexts * number // parts, contexts * (number + 1) // parts)
        lists = _lists(n_policies, own)
        columns = {
            f"ranker-{p}": pa.FixedSizeListArray.from_arrays(pa.array(lists[p].ravel()), M) for p in range(n_policies)
        }
        pq.write_table(pa.table({"context": own, **columns}), folder / f"lists-{number:04}.parquet")
    return contexts * n_policies * M * 4


def scan(folder: Path) -> tuple[float, float]:
    """Seconds, and CPU-seconds, of a bare scan of the columns that an evaluation reads."""
    import duckdb

    began, used = time.perf_counter(), time.process_time()
    duckdb.connect().sql(
        "SELECT count(*), sum(id), sum(context), sum(list_sum(items)), sum(list_sum(rewards)), "
        f"min(list_min(propensities)) FROM read_parquet('{folder}/*.parquet')"
    ).fetchall()
    return time.perf_counter() - began, time.process_time() - used


def sql_values(folder: Path, policies: cb.PolicySet, which: list[int]) -> list[float]:
    """Σ r/q over items that candidate and log share, per round, by SQL."""
    import duckdb
    import pyarrow as pa

    lists = policies.predict(np.arange(CONTEXTS), np.array(which))
    values = []
    for k in range(len(which)):
        shown = pa.table({"context": np.arange(CONTEXTS), "own": lists[:, k].tolist()})
        connection = duckdb.connect()
        connection.register("shown", shown)
        (value,) = connection.sql(
            "SELECT sum(CASE WHEN list_contains(own, item) THEN reward / propensity ELSE 0 END) / count(DISTINCT id) "
            "FROM (SELECT id, context, unnest(items) AS item, unnest(rewards) AS reward, unnest(propensities) AS "
            f"propensity FROM read_parquet('{folder}/*.parquet')) JOIN shown USING (context)"
        ).fetchall()[0]
        values.append(float(value))
    return values


def obp_values(folder: Path, policies: cb.PolicySet, which: list[int]) -> list[float] | None:
    """The same by obp's SlateIndependentIPS (an item of a hundred stands in its own slot only); None without obp."""
    import pyarrow.parquet as pq

    try:
        slates = importlib.import_module("obp.ope.estimators_slate")
    except ImportError:
        return None
    table = pq.read_table(folder)
    contexts = table["context"].to_numpy()
    items, rewards, chances = (
        np.array(table[name].combine_chunks().flatten()).reshape(-1, M) for name in ("items", "rewards", "propensities")
    )
    lists = policies.predict(contexts, np.array(which))
    values = []
    for k in range(len(which)):
        value = slates.SlateIndependentIPS(len_list=M).estimate_policy_value(
            slate_id=np.repeat(np.arange(len(contexts)), M),
            reward=rewards.ravel(),
            position=np.tile(np.arange(M), len(contexts)),
            pscore_item_position=chances.ravel(),
            evaluation_policy_pscore_item_position=(items == lists[:, k]).ravel().astype(float),
        )
        values.append(float(value))
    return values


class Cluster:
    """A scheduler and workers of one thread by command line, and what they used."""

    def __init__(self, folder: Path, n_workers: int, memory: str) -> None:
        self._scratch = tempfile.TemporaryDirectory(dir=folder)
        self.processes: list[subprocess.Popen[bytes]] = []
        file = Path(self._scratch.name) / "scheduler.json"
        self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(file))
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        for _ in range(n_workers):
            options = ("--nthreads", "1", "--memory-limit", memory, "--host", "127.0.0.1")
            self._start("worker", self.address, *options, "--local-directory", self._scratch.name)
        from distributed import Client

        with Client(self.address) as client:
            client.wait_for_workers(n_workers, timeout=120)
            self._pids = [self.processes[0].pid, *client.run(os.getpid).values()]
        self._began = [cpu_seconds(pid) for pid in self._pids]

    def _start(self, *command: str) -> None:
        quiet = subprocess.DEVNULL
        line = [sys.executable, "-m", "dask", *command, "--no-dashboard"]
        self.processes.append(subprocess.Popen(line, stdout=quiet, stderr=quiet, start_new_session=True))

    def stop(self) -> dict[str, Any]:
        """End all; the peak memory (MB) and the CPU-seconds since they were ready, of the scheduler and each worker."""
        peaks = [peak_mb(pid) for pid in self._pids]
        used = [cpu_seconds(pid) - began for pid, began in zip(self._pids, self._began, strict=True)]
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._scratch.cleanup()
        return {"scheduler_mb": peaks[0], "worker_mb": peaks[1:], "scheduler_cpu": used[0], "worker_cpu": used[1:]}


class _Peak:
    """The most memory of a process until it ends; what the system tells afterwards counts the parent that forked it."""

    def __init__(self, pid: int) -> None:
        self.mb = 0.0
        threading.Thread(target=self._watch, args=(pid,), daemon=True).start()

    def _watch(self, pid: int) -> None:
        with suppress(OSError):
            while not np.isnan(found := peak_mb(pid)):
                self.mb = found
                time.sleep(0.02)


def peak_mb(pid: int) -> float:
    """The most memory that a process had at any time."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def cpu_seconds(pid: int) -> float:
    """What a process has used of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def evaluate(log: Path, candidates: str, options: Iterable[str] = ()) -> tuple[dict[str, Any], str]:
    """`comband evaluate`: its seconds, CPU-seconds and peak memory (MB), and its document."""
    command = [sys.executable, "-c", _MAIN, "evaluate", str(log), "-c", candidates, "--sparsity", "1", "--json"]
    command += ["--min-propensity", str(FLOOR / 100), "--quiet", *options]
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output)
        peak = _Peak(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"comband evaluate failed on {log}")
        output.seek(0)
        used = usage.ru_utime + usage.ru_stime
        return {"seconds": seconds, "command_cpu": used, "command_mb": peak.mb}, output.read()
