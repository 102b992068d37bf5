"""`comband evaluate` on a log larger than what it keeps, beside a bare DuckDB scan of the same columns.

Run it with `python -m benchmarks.evaluate [--quick] [--json FILE]`. The full size is 10 million rounds of 5 slots with
50 candidates on 100,000 contexts, a click in about one of ten rounds, written to a temporary folder as Parquet. Each
run is a process of its own, so that its peak memory is its own; scans and evaluations take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

import comband as cb

_SCAN = """
import duckdb, sys
print(duckdb.sql(f'''
    SELECT count(*), sum(id), sum(context), sum(list_sum(items)), sum(list_sum(rewards)), min(list_min(propensities))
    FROM read_parquet('{sys.argv[1]}')''').fetchall())
"""


def write_log(folder: Path, n_rounds: int, n_policies: int, n_contexts: int, chunk: int = 250_000) -> None:
    """A log of uniform lists and candidates' lists mixed half and half; each context wants one of its ten items."""
    problem = cb.Problem(n_actions=500, list_size=5, sparsity=1)
    rng = np.random.default_rng(1)
    liked = rng.integers(0, 500, size=(n_contexts, 10))
    lists = np.empty((n_policies, n_contexts, 5), dtype=np.int32)
    for p in range(n_policies):
        # Better candidates hold more of the liked items; the rest of a list is drawn without repetition.
        own = np.take_along_axis(liked, rng.random((n_contexts, 10)).argsort(axis=1)[:, :5], axis=1)
        other = rng.integers(0, 100, size=(n_contexts, 5)) + 100 * np.arange(5)
        lists[p] = np.where(rng.random((n_contexts, 5)) < p / n_policies, own, other)
        repeated = (np.diff(np.sort(lists[p], axis=1), axis=1) == 0).any(axis=1)
        lists[p][repeated] = other[repeated]
    policies = cb.PolicySet.from_lists(lists, problem)
    cb.write_candidates(policies, np.arange(n_contexts), folder / "lists.parquet")
    mixture = cb.Mixture(policies, rng.dirichlet(np.ones(n_policies)), problem=problem, floor=0.5)

    def rounds() -> Iterator[cb.Rounds]:
        for start in range(0, n_rounds, chunk):
            n = min(chunk, n_rounds - start)
            contexts = rng.integers(0, n_contexts, size=n)
            decisions = mixture.draw(contexts, rng, first_id=start)
            wanted = liked[contexts, rng.integers(0, 10, size=n)]
            yield cb.Rounds(decisions, (decisions.lists == wanted[:, None]).astype(float))

    cb.write_rounds(rounds(), folder / "log.parquet")


def timed(command: list[str]) -> tuple[float, float, float, str]:
    """Seconds on the wall and of processors, peak memory (MB) and what was printed, of a process of its own."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 rounds instead of 10 million")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    n_rounds, n_contexts, repeats = (200_000, 2_000, 1) if options.quick else (10_000_000, 100_000, 3)
    n_policies = 50
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"writing {n_rounds:,} rounds and {n_policies} candidates on {n_contexts:,} contexts …", file=sys.stderr)
        write = "from pathlib import Path; from benchmarks.evaluate import write_log; "
        write += f"write_log(Path({name!r}), {n_rounds}, {n_policies}, {n_contexts})"
        subprocess.run([sys.executable, "-c", write], check=True)
        log, lists = folder / "log.parquet", folder / "lists.parquet"
        size = (log.stat().st_size + lists.stat().st_size) / 2**20
        evaluate = [sys.executable, "-c", "from comband.cli import main; main()", "evaluate", str(log)]
        evaluate += ["--candidates", str(lists), "--sparsity", "1", "--json"]
        scans, evaluations = [], []
        for _ in range(repeats):
            scans.append(timed([sys.executable, "-c", _SCAN, str(log)]))
            evaluations.append(timed(evaluate))
    result = json.loads(evaluations[-1][3])
    # Wall time is what a person waits for; processor time hardly depends on what else the machine does.
    scan, evaluation = median(run[0] for run in scans), median(run[0] for run in evaluations)
    scan_cpu, evaluation_cpu = median(run[1] for run in scans), median(run[1] for run in evaluations)
    peak = max(run[2] for run in evaluations)
    figures = {
        "rounds": n_rounds,
        "candidates": n_policies,
        "file_mb": size,
        "scan_seconds": scan,
        "evaluate_seconds": evaluation,
        "ratio": evaluation / scan,
        "scan_cpu_seconds": scan_cpu,
        "evaluate_cpu_seconds": evaluation_cpu,
        "cpu_ratio": evaluation_cpu / scan_cpu,
        "rounds_per_second": n_rounds / evaluation,
        "scan_rounds_per_second": n_rounds / scan,
        "peak_mb": peak,
    }
    print(f"log and lists            {size:10,.0f} MB")
    print(
        f"bare DuckDB scan         {scan:10.2f} s   {n_rounds / scan:14,.0f} rounds/s   {scan_cpu:8.2f} s of processor"
    )
    print(
        f"comband evaluate         {evaluation:10.2f} s   {n_rounds / evaluation:14,.0f} rounds/s   "
        f"{evaluation_cpu:8.2f} s of CPU"
    )
    print(f"ratio                    {evaluation / scan:10.1f} on the wall, {evaluation_cpu / scan_cpu:.1f} of CPU")
    print(f"peak memory of evaluate  {peak:10,.0f} MB  (target: below 2,048; ratio: at most 10)")
    print(f"best: {result['best']}, epsilon {result['epsilon']:.3g}, {result['rewarded_rounds']:,} rewarded rounds")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
