"""`comband evaluate` on a log larger than what it keeps, beside a bare DuckDB scan of the same log and lists.

python -m benchmarks.evaluate [--quick] [--candidates P …] [--contexts N] [--rounds N] [--formats NAME …] [--json FILE]

The full size is 10 million rounds of 5 slots on 20,000 contexts with 10, 100 and 1,000 candidates, a click in about one
of ten rounds, written to a temporary folder as Parquet; CSV and JSON lines get a tenth of the rounds. Each run is a
process of its own, so that its peak memory is its own; scans and evaluations take turns.
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
from typing import Any

import numpy as np

import comband as cb

_SCAN = """
import duckdb, sys
log, lists, reader = sys.argv[1:]
names = [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM {reader}('{log}')").fetchall()]
kinds = [row[1] for row in duckdb.sql(f"DESCRIBE SELECT * FROM {reader}('{log}')").fetchall()]
sums = [f'sum(list_sum("{n}"))' if k.endswith("[]") else f'max("{n}")' for n, k in zip(names, kinds)]
print(duckdb.sql(f"SELECT count(*), {', '.join(sums)} FROM {reader}('{log}')").fetchall())
print(duckdb.sql(f"SELECT count(*), min(columns(*)) FROM read_parquet('{lists}')").fetchall()[0][0])
"""
_READERS = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}


def write_log(
    folder: Path, n_rounds: int, n_policies: int, n_contexts: int, kind: str = "parquet", chunk: int = 250_000
) -> None:
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

    cb.write_rounds(rounds(), folder / f"log.{kind}")


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


def measure(kind: str, n_rounds: int, n_policies: int, n_contexts: int, repeats: int) -> dict[str, Any]:
    """Scans and evaluations of one log, in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"writing {n_rounds:,} rounds and {n_policies:,} candidates as {kind} …", file=sys.stderr)
        write = "from pathlib import Path; from benchmarks.evaluate import write_log; "
        write += f"write_log(Path({name!r}), {n_rounds}, {n_policies}, {n_contexts}, {kind!r})"
        subprocess.run([sys.executable, "-c", write], check=True)
        log, lists = folder / f"log.{kind}", folder / "lists.parquet"
        size = (log.stat().st_size + lists.stat().st_size) / 2**20
        evaluate = [
            sys.executable,
            "-c",
            "from comband.commands.cli import main; main()",
            "evaluate",
            str(log),
            "--quiet",
        ]
        evaluate += ["--candidates", str(lists), "--sparsity", "1", "--json", "--exit-zero"]
        scans, evaluations = [], []
        for _ in range(repeats):
            scans.append(timed([sys.executable, "-c", _SCAN, str(log), str(lists), _READERS[kind]]))
            evaluations.append(timed(evaluate))
    result = json.loads(evaluations[-1][3])
    # Wall time is what a person waits for; processor time hardly depends on what else the machine does.
    scan, evaluation = median(run[0] for run in scans), median(run[0] for run in evaluations)
    scan_cpu, evaluation_cpu = median(run[1] for run in scans), median(run[1] for run in evaluations)
    return {
        "format": kind,
        "rounds": n_rounds,
        "candidates": n_policies,
        "contexts": n_contexts,
        "file_mb": size,
        "scan_seconds": scan,
        "evaluate_seconds": evaluation,
        "ratio": evaluation / scan,
        "scan_cpu_seconds": scan_cpu,
        "evaluate_cpu_seconds": evaluation_cpu,
        "cpu_ratio": evaluation_cpu / scan_cpu,
        "peak_mb": max(run[2] for run in evaluations),
        "best": result["best"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rounds, two sizes, one repetition")
    parser.add_argument("--candidates", nargs="*", type=int, help="how many (10 100 1000)")
    parser.add_argument("--contexts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=10_000_000)
    parser.add_argument("--formats", nargs="*", choices=list(_READERS), default=list(_READERS))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    n_rounds, repeats = (options.rounds // 50, 1) if options.quick else (options.rounds, 3)
    figures = []
    print(
        f"{'format':8} {'candidates':>10} {'rounds':>11} {'MB':>6} {'scan s (CPU)':>15} {'evaluate s (CPU)':>18} ",
        end="",
    )
    print(f"{'ratio (CPU)':>13} {'target':>7} {'peak MB':>8}")
    for kind in options.formats:
        rounds = n_rounds if kind == "parquet" else n_rounds // 10
        for P in options.candidates or ([10, 100] if options.quick else [10, 100, 1000]):
            row = measure(kind, rounds, P, options.contexts // (10 if options.quick else 1), repeats)
            scan = f"{row['scan_seconds']:.2f} ({row['scan_cpu_seconds']:.2f})"
            evaluation = f"{row['evaluate_seconds']:.2f} ({row['evaluate_cpu_seconds']:.2f})"
            ratio = f"{row['ratio']:.1f} ({row['cpu_ratio']:.1f})"
            print(
                f"{kind:8} {P:10,} {rounds:11,} {row['file_mb']:6,.0f} {scan:>15} {evaluation:>18} {ratio:>13} "
                f"{4 if kind == 'parquet' else 3:7} {row['peak_mb']:8,.0f}",
                flush=True,
            )
            figures.append(row)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
