"""`comband evaluate --cluster` on a log larger than its workers' memory, beside a bare DuckDB scan of the same files.

Run it with `python -m benchmarks.cluster [--quick] [--rounds N] [--json FILE]`. The full size is 50 million rounds of 5
slots on disk, with 10, 100 and 1,000 candidates that are Python policies (`benchmarks.cluster:candidates_10`, …). A
scheduler and one or two workers of one thread and 1 GB each are started by command line. Told are: wall time, the peak
memory of each process, the ratio to the scan, the gain from a second worker, what a cluster costs on a small log, and
the largest difference to the values of three candidates by DuckDB's SQL (and by obp's estimator where obp is there).
Documents of all runs on one log must be the same bytes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb

K, M, CONTEXTS = 500, 5, 5_000
PROBLEM = cb.Problem(K, M, sparsity=1)
MEMORY = "1GB"
_MAIN = "from comband.cli import main; main()"


def _lists(n_policies: int) -> Any:
    """Lists (P, N, m): one item of each hundred, more of the liked ones the later the candidate."""
    rng = np.random.default_rng(1)
    liked = rng.integers(0, 100, size=(CONTEXTS, M))
    lists = rng.integers(0, 100, size=(n_policies, CONTEXTS, M), dtype=np.int32)
    shares = np.linspace(0, 0.5, n_policies)
    for p in range(n_policies):
        copied = rng.random((CONTEXTS, M)) < shares[p]
        lists[p][copied] = liked[copied]
    return lists + 100 * np.arange(M, dtype=np.int32), liked + 100 * np.arange(M)


def candidates_10() -> cb.PolicySet:
    return cb.PolicySet.from_lists(_lists(10)[0], PROBLEM)


def candidates_100() -> cb.PolicySet:
    return cb.PolicySet.from_lists(_lists(100)[0], PROBLEM)


def candidates_1000() -> cb.PolicySet:
    return cb.PolicySet.from_lists(_lists(1000)[0], PROBLEM)


def write_log(folder: Path, n_rounds: int, per_file: int = 1_000_000) -> None:
    """Rounds that show one item of each hundred, uniformly (propensity 1/100), with a click in about one of ten."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    liked = _lists(10)[1]
    for number, first in enumerate(range(0, n_rounds, per_file)):
        n, rng = min(per_file, n_rounds - first), np.random.default_rng([2, number])
        contexts = rng.integers(0, CONTEXTS, size=n)
        items = rng.integers(0, 100, size=(n, M)) + 100 * np.arange(M)
        slot = rng.integers(0, M, size=n)
        chance = np.where((items == liked[contexts])[np.arange(n), slot], 0.8, 0.09)
        rewards = np.zeros((n, M))
        rewards[np.arange(n), slot] = rng.random(n) < chance
        columns = {"items": items, "rewards": rewards, "propensities": np.full((n, M), 0.01)}
        offsets = pa.array(np.arange(n + 1, dtype=np.int32) * M)
        arrays = {name: pa.ListArray.from_arrays(offsets, pa.array(values.ravel())) for name, values in columns.items()}
        table = pa.table({"id": np.arange(first, first + n), "context": contexts, **arrays})
        pq.write_table(table, folder / f"part-{number:04}.parquet", row_group_size=1 << 17, write_page_checksum=True)


def scan(folder: Path) -> float:
    """Seconds of a bare scan of the columns that an evaluation reads."""
    import duckdb

    began = time.perf_counter()
    duckdb.connect().sql(
        "SELECT count(*), sum(id), sum(context), sum(list_sum(items)), sum(list_sum(rewards)), "
        f"min(list_min(propensities)) FROM read_parquet('{folder}/*.parquet')"
    ).fetchall()
    return time.perf_counter() - began


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
    """The same by obp's InverseProbabilityWeighting, slot by slot; None without obp."""
    import pyarrow.parquet as pq

    try:
        ope = importlib.import_module("obp.ope")
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
        total = 0.0
        for slot in range(M):  # the item of a hundred can only stand in its own slot
            dist = np.zeros((len(contexts), K, 1))
            dist[np.arange(len(contexts)), lists[:, k, slot], 0] = 1
            total += ope.InverseProbabilityWeighting().estimate_policy_value(
                reward=rewards[:, slot], action=items[:, slot], pscore=chances[:, slot], action_dist=dist
            )
        values.append(float(total))
    return values


class Cluster:
    """A scheduler and workers by command line, and the peak memory of each."""

    def __init__(self, folder: Path, n_workers: int) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / f"scheduler-{time.time_ns()}.json"
        self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(self.file))
        while not self.file.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        self.address = json.loads(self.file.read_text())["address"]
        for _ in range(n_workers):
            options = ("--nthreads", "1", "--memory-limit", MEMORY, "--host", "127.0.0.1", "--no-nanny")
            self._start("worker", self.address, *options, "--local-directory", str(folder))
        from distributed import Client

        with Client(self.address) as client:
            client.wait_for_workers(n_workers, timeout=120)

    def _start(self, *command: str) -> None:
        quiet = subprocess.DEVNULL
        line = [sys.executable, "-m", "dask", *command, "--no-dashboard"]
        self.processes.append(subprocess.Popen(line, stdout=quiet, stderr=quiet, start_new_session=True))

    def stop(self) -> list[float]:
        """End all, and tell the peak memory of the workers (MB)."""
        peaks = [_peak(process.pid) for process in self.processes[1:]]
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return peaks


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def evaluate(folder: Path, factory: str, *options: str) -> tuple[float, float, str]:
    """Seconds and peak memory (MB) of `comband evaluate`, and its document."""
    command = [sys.executable, "-c", _MAIN, "evaluate", str(folder), "-c", factory, "--sparsity", "1", "--json"]
    command += ["--min-propensity", "0.01", "--quiet", *options]
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"comband evaluate failed on {folder}")
        output.seek(0)
        return seconds, usage.ru_maxrss / 1024, output.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="400,000 rounds and up to 100 candidates")
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--candidates", type=int, nargs="*", choices=(10, 100, 1000))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    n_rounds = options.rounds or (400_000 if options.quick else 50_000_000)
    figures: dict[str, Any] = {"rounds": n_rounds, "memory_limit": MEMORY, "runs": []}
    with tempfile.TemporaryDirectory() as name:
        folder, small = Path(name) / "log", Path(name) / "small"
        folder.mkdir()
        small.mkdir()
        print(f"writing {n_rounds:,} rounds …", file=sys.stderr)
        write_log(folder, n_rounds, per_file=min(1_000_000, max(n_rounds // 4, 1)))
        size = sum(path.stat().st_size for path in folder.iterdir())
        figures["file_mb"], figures["in_memory_mb"] = size / 2**20, n_rounds * (16 + 3 * 8 * M) / 2**20
        bare = scan(folder)
        figures["scan_seconds"] = bare
        print(f"log {size / 2**20:,.0f} MB in files, {figures['in_memory_mb']:,.0f} MB as numbers; scan {bare:.1f} s")
        for n_policies in options.candidates or ([10, 100] if options.quick else [10, 100, 1000]):
            factory, seconds, documents = f"benchmarks.cluster:candidates_{n_policies}", {}, set()
            for n_workers in (1, 2):
                cluster = Cluster(Path(name), n_workers)
                seconds[n_workers], peak, document = evaluate(folder, factory, "--cluster", cluster.address)
                peaks = cluster.stop()
                documents.add(document)
                run = {"candidates": n_policies, "workers": n_workers, "seconds": seconds[n_workers]}
                run |= {"ratio_to_scan": seconds[n_workers] / bare, "client_mb": peak, "worker_mb": peaks}
                figures["runs"].append(run)
                told, pace = ", ".join(f"{mb:,.0f}" for mb in peaks), n_rounds / seconds[n_workers]
                print(
                    f"P = {n_policies:5,}, workers {n_workers}: {seconds[n_workers]:8.1f} s ({pace:,.0f} rounds/s), "
                    f"{seconds[n_workers] / bare:6.1f} scans; peak MB: command {peak:,.0f}, workers {told}",
                    flush=True,
                )
            same = len(documents) == 1
            figures.setdefault("scaling", {})[n_policies] = seconds[1] / seconds[2]
            figures.setdefault("same_bytes", {})[n_policies] = same
            print(
                f"           second worker: {seconds[1] / seconds[2]:.2f}x (target 1.7); same bytes: {same}", flush=True
            )
        n_small = min(n_rounds, 1_000_000)
        write_log(small, n_small, per_file=max(n_small // 4, 1))
        factory = "benchmarks.cluster:candidates_100"
        alone, _, document = evaluate(small, factory)
        local, _, other = evaluate(small, factory, "--cluster", "local:2")
        figures["overhead"] = {"rounds": n_small, "in_process_seconds": alone, "local_2_seconds": local}
        figures["overhead"]["same_bytes"] = document == other
        told = f"in process {alone:.1f} s, local:2 {local:.1f} s with its start"
        print(f"{n_small:,} rounds: {told}; same bytes: {document == other}")
        ours = {candidate["name"]: candidate["value"] for candidate in json.loads(document)["candidates"]}
        policies, which = candidates_100(), [0, 50, 99]
        for who, values_of in (("DuckDB SQL", sql_values), ("obp", obp_values)):
            theirs = values_of(small, policies, which)
            if theirs is None:
                print(f"{who}: not installed")
                continue
            worst = max(abs(ours[policies.names[p]] / value - 1) for p, value in zip(which, theirs, strict=True))
            figures[f"difference_to_{who}"] = worst
            print(f"{who}: largest relative difference of three values {worst:.1e} (target 1e-12)")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
