"""`comband evaluate --cluster` on a log larger than its workers' memory, beside a bare DuckDB scan of the same files.

Run it with `python -m benchmarks.cluster [--quick] [--parts …] [--rounds N] [--candidates 10 …] [--workers 1 2]`. A
scheduler and workers of one thread and 1 GB each are started by command line. The parts:

- `runs`: 50 million rounds of 5 slots on disk with 10, 100 and 1,000 candidates that are Python policies: wall time,
  CPU-seconds and peak memory of each process, the ratio to a scan made just before, the gain from a second worker.
  Documents of all runs on one log must be the same bytes.
- `small`: what a cluster costs on a log of a million rounds, and processes against threads for `--cluster local`.
- `values`: the values of three candidates by DuckDB's SQL (and by obp's estimator where obp is there).
- `lists`: lists in a folder by context, more and more of them: memory follows the largest file, not all.
- `design`: a design with its incidence on the workers: how long a pass takes.

With `--folder` everything stays there, and what was measured before is not measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._cluster_world import (
    CONTEXTS,
    FLOOR,
    Cluster,
    M,
    candidates_100,
    cpu_seconds,
    evaluate,
    factory,
    obp_values,
    peak_mb,
    scan,
    sql_values,
    write_lists,
    write_log,
)

MEMORY = "1GB"
PARTS = ("runs", "small", "values", "lists", "design")


class Figures:
    """What was measured, by name, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def measured(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What is known under this name, or is now."""
        if name not in self.all:
            load = os.getloadavg()[0]
            self.all[name] = {**measure(), "load_before": load}
            self._path.write_text(json.dumps(self.all, indent=2))
        found: dict[str, Any] = self.all[name]
        return found


def runs(figures: Figures, folder: Path, n_rounds: int, candidates: list[int], workers: list[int]) -> None:
    """Evaluations by size of the class and number of workers."""
    log = folder / "log"
    print(f"writing {n_rounds:,} rounds …", file=sys.stderr)
    size = write_log(log, n_rounds, per_file=min(1_000_000, max(n_rounds // 4, 1)))
    numbers = n_rounds * (16 + 3 * 8 * M)
    print(f"{n_rounds:,} rounds: {size / 1e9:.2f} GB in files, {numbers / 1e9:.2f} GB as numbers; workers of {MEMORY}")
    for n_policies in candidates:
        documents = set()
        for n_workers in workers:

            def measure(n_policies: int = n_policies, n_workers: int = n_workers) -> dict[str, Any]:
                seconds, used = scan(log)
                if n_workers:
                    cluster = Cluster(folder, n_workers, MEMORY)
                    run, document = evaluate(log, factory(n_policies), ["--cluster", cluster.address])
                    run |= cluster.stop()
                else:
                    run, document = evaluate(log, factory(n_policies))
                    run |= {"scheduler_mb": 0.0, "worker_mb": [], "worker_cpu": []}
                digest = hashlib.sha256(document.encode()).hexdigest()
                return {"scan_seconds": seconds, "scan_cpu": used, **run, "document": digest}

            run = figures.measured(f"runs/{n_rounds}/{n_policies}/{n_workers}", measure)
            documents.add(run["document"])
            total = run["command_cpu"] + sum(run["worker_cpu"])
            print(
                f"P = {n_policies:5,}, workers {n_workers}: {run['seconds']:7.1f} s, "
                f"{n_rounds / run['seconds']:,.0f} rounds/s, {run['seconds'] / run['scan_seconds']:5.1f} scans; "
                f"CPU {total:7.1f} s, {total / run['scan_cpu']:4.1f} scans; peak MB: command {run['command_mb']:,.0f}, "
                f"scheduler {run['scheduler_mb']:,.0f}, workers {', '.join(f'{mb:,.0f}' for mb in run['worker_mb'])}; "
                f"load {run['load_before']:.1f}",
                flush=True,
            )
        if {1, 2} <= set(workers):
            one, two = (figures.all[f"runs/{n_rounds}/{n_policies}/{n}"] for n in (1, 2))
            paths = [run["command_cpu"] + max(run["worker_cpu"]) for run in (one, two)]
            print(
                f"           second worker: {one['seconds'] / two['seconds']:.2f}x by the clock, "
                f"{paths[0] / paths[1]:.2f}x by CPU-seconds of command and busiest worker (target 1.7)"
            )
        print(f"           same bytes: {len(documents) == 1}", flush=True)


def small(figures: Figures, folder: Path, n_rounds: int, candidates: list[int]) -> None:
    """The cost of a cluster where none is needed; threads or processes."""
    log = folder / f"log-{n_rounds}"
    write_log(log, n_rounds, per_file=max(n_rounds // 4, 1))
    for n_policies in candidates:
        ways = {"in process": [], "local:1": ["--cluster", "local:1"], "local:2": ["--cluster", "local:2"]}
        documents = set()
        for name, options in ways.items():

            def measure(options: list[str] = options, n_policies: int = n_policies) -> dict[str, Any]:
                run, document = evaluate(log, factory(n_policies), options)
                return {**run, "document": hashlib.sha256(document.encode()).hexdigest()}

            run = figures.measured(f"small/{n_rounds}/{n_policies}/{name}", measure)
            documents.add(run["document"])
            used = f"CPU {run['command_cpu']:.1f} s with its children" if options else f"CPU {run['command_cpu']:.1f} s"
            print(f"{n_rounds:,} rounds, P = {n_policies:,}, {name}: {run['seconds']:.1f} s, {used}", flush=True)
        print(f"           same bytes: {len(documents) == 1}")
        for kind in ("processes", "threads"):

            def measure_local(kind: str = kind, n_policies: int = n_policies) -> dict[str, Any]:
                return _local(log, n_policies, kind == "processes")

            run = figures.measured(f"local/{n_rounds}/{n_policies}/{kind}", measure_local)
            print(
                f"{n_rounds:,} rounds, P = {n_policies:,}, two {kind}: start {run['start']:.1f} s, first evaluation "
                f"{run['first']:.1f} s, second {run['second']:.1f} s ({run['second_cpu']:.1f} CPU-seconds)",
                flush=True,
            )


def _local(log: Path, n_policies: int, processes: bool) -> dict[str, Any]:
    """Two processes of one thread, or one worker with two threads in this process."""
    from distributed import Client, LocalCluster

    from comband.evaluation import evaluate_log

    sizes = {"n_workers": 2, "threads_per_worker": 1} if processes else {"n_workers": 1, "threads_per_worker": 2}
    began = time.perf_counter()
    found: dict[str, Any] = {}
    with LocalCluster(processes=processes, dashboard_address=None, **sizes) as cluster, Client(cluster) as client:
        found["start"] = time.perf_counter() - began
        pids = {os.getpid(), *client.run(os.getpid).values()}
        for name in ("first", "second"):
            began, before = time.perf_counter(), sum(map(cpu_seconds, pids))
            evaluate_log(log, factory(n_policies), sparsity=1, min_propensity=FLOOR / 100, client=client)
            found[name], found[f"{name}_cpu"] = time.perf_counter() - began, sum(map(cpu_seconds, pids)) - before
    return found


def values(figures: Figures, folder: Path, n_rounds: int) -> None:
    """Three candidates' values as others compute them."""
    log, policies, which = folder / f"log-{n_rounds}", candidates_100(), [0, 50, 99]
    write_log(log, n_rounds, per_file=max(n_rounds // 4, 1))

    def measure() -> dict[str, Any]:
        _, document = evaluate(log, factory(100))
        ours = {candidate["name"]: candidate["value"] for candidate in json.loads(document)["candidates"]}
        found: dict[str, Any] = {}
        for who, values_of in (("DuckDB's SQL", sql_values), ("obp's SlateIndependentIPS", obp_values)):
            theirs = values_of(log, policies, which)
            pairs = zip(which, theirs or (), strict=theirs is not None)
            found[who] = None if theirs is None else max(abs(ours[policies.names[p]] / value - 1) for p, value in pairs)
        return found

    for who, worst in figures.measured(f"values/{n_rounds}", measure).items():
        if who != "load_before":
            told = "is not installed" if worst is None else f"largest relative difference of three values {worst:.1e}"
            print(f"{who}: {told} (target 1e-12, {n_rounds:,} rounds)")


def lists(figures: Figures, folder: Path, per_part: int, n_policies: int) -> None:
    """Lists in more and more files, then in larger ones: one worker's peak memory."""
    for parts, size in ((1, 1), (8, 1), (32, 1), (8, 4)):
        contexts = per_part * parts * size

        def measure(parts: int = parts, size: int = size, contexts: int = contexts) -> dict[str, Any]:
            with tempfile.TemporaryDirectory(dir=folder) as name:
                log, files = Path(name) / "log", Path(name) / "lists"
                write_log(log, 100_000 * parts, per_file=100_000, contexts=contexts, by="context")
                total = write_lists(files, n_policies, contexts, parts)
                cluster = Cluster(folder, 1, MEMORY)
                run, _ = evaluate(log, str(files), ["--cluster", cluster.address])
                return {**run, **cluster.stop(), "mb": total / 2**20, "largest_mb": total / parts / 2**20}

        run = figures.measured(f"lists/{n_policies}/{per_part}/{parts}x{size}", measure)
        print(
            f"lists {run['mb']:7,.0f} MB in {parts:3} files of {run['largest_mb']:5,.0f} MB: {run['seconds']:6.1f} s, "
            f"peak MB: command {run['command_mb']:,.0f}, worker {run['worker_mb'][0]:,.0f}",
            flush=True,
        )


def design(figures: Figures, folder: Path, n_rounds: int, n_policies: int, workers: list[int]) -> None:
    """A design on workers: columns, passes, and what comes of them."""
    from distributed import Client

    from comband.evaluation import design_log
    from comband.explore.solvers import sharded

    log = folder / f"log-{n_rounds}"
    write_log(log, n_rounds, per_file=max(n_rounds // 4, 1))
    found = set()
    for n_workers in sorted({0, *workers}):

        def measure(n_workers: int = n_workers) -> dict[str, Any]:
            passes: list[float] = []
            scores = sharded.ShardedIncidence.scores

            def timed(self: Any, gains: Any) -> Any:
                began = time.perf_counter()
                answer = scores(self, gains)
                passes.append(time.perf_counter() - began)
                return answer

            cluster = Cluster(folder, n_workers, MEMORY) if n_workers else None
            client = None if cluster is None else Client(cluster.address)
            sharded.ShardedIncidence.scores = timed  # type: ignore[method-assign]
            try:
                began = time.perf_counter()
                made, _ = design_log(log, factory(n_policies), sparsity=1, client=client)
                seconds = time.perf_counter() - began
            finally:
                sharded.ShardedIncidence.scores = scores  # type: ignore[method-assign]
                if client is not None:
                    client.close()
            run = {"seconds": seconds, "passes": passes, "command_mb": peak_mb(os.getpid())}
            run |= {"value": made.value, "events": made.n_events, "calls": made.oracle_calls}
            run["weights"] = hashlib.sha256(made.mixture.weights.tobytes()).hexdigest()
            return run | ({} if cluster is None else cluster.stop())

        run = figures.measured(f"design/{n_rounds}/{n_policies}/{n_workers}", measure)
        found.add((run["weights"], run["value"]))
        middle = float(np.median(run["passes"])) if run["passes"] else float("nan")
        cells = run["events"] * n_policies
        print(
            f"design of {run['events']:,} events x {n_policies:,}, "
            f"{f'{n_workers} workers' if n_workers else 'in process'}: {run['seconds']:.1f} s, {run['calls']} oracle "
            f"calls, median pass {middle * 1e3:.1f} ms ({cells / middle:.2g} cells/s)",
            flush=True,
        )
    print(f"           same design: {len(found) == 1}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="400,000 rounds and up to 100 candidates")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, help="another number of rounds of the large log")
    parser.add_argument("--candidates", type=int, nargs="*", choices=(10, 100, 1000))
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="0 stands for no cluster")
    parser.add_argument("--folder", type=Path, help="where logs and figures stay; a temporary one otherwise")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    quick = options.quick
    n_rounds = options.rounds or (400_000 if quick else 50_000_000)
    candidates = options.candidates or ([10, 100] if quick else [10, 100, 1000])
    modest = min(n_rounds, 1_000_000)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        figures = Figures(folder / "figures.json")
        if "runs" in options.parts:
            runs(figures, folder, n_rounds, candidates, options.workers)
        if "small" in options.parts:
            small(figures, folder, modest, candidates)
        if "values" in options.parts:
            values(figures, folder, modest)
        if "lists" in options.parts:
            lists(figures, folder, 500 if quick else 2 * CONTEXTS, 10 if quick else 100)
        if "design" in options.parts:
            design(figures, folder, modest, 100 if quick else 1000, options.workers)
        if options.json:
            options.json.write_text(json.dumps(figures.all, indent=2))


if __name__ == "__main__":
    main()
