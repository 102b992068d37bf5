"""`python -m benchmarks.peers`: see the package."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import benchmarks.peers
from benchmarks.peers.report import report
from benchmarks.peers.results import Ledger, versions

JOBS = ("choosing", "estimating", "adoption", "adversarial", "learning")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options of all jobs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=benchmarks.peers.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("jobs", nargs="*", choices=[*JOBS, []], help="by default all")
    parser.add_argument("--quick", action="store_true", help="small sizes and two seeds: seven minutes on one core")
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz; without it, sets that ship")
    parser.add_argument("--out", type=Path, default=Path("results/peers"), help="where lines are added")
    parser.add_argument("--seeds", type=int, help="how many (default: 10; 2 with --quick)")
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--sets", nargs="*", help="names of worlds or sets")
    parser.add_argument("--candidates", type=int, nargs="*", help="how many, in choosing and estimating")
    parser.add_argument("--methods", nargs="*", help="only those whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=64_000, help="the longest horizon of choosing")
    parser.add_argument("--install", action="store_true", help="adoption: also install every package, by pip")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write tables and figures there, and run nothing")
    options = parser.parse_args(arguments)
    options.seeds = options.seeds or (2 if options.quick else 10)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run what has no line yet, then print the tables."""
    options = parsed(arguments)
    jobs = tuple(options.jobs or JOBS)
    if options.report is None:
        print("versions: " + ", ".join(f"{name} {version}" for name, version in versions().items()), flush=True)
        for job in jobs:
            with Ledger(options.out / f"{job}.jsonl") as ledger:
                importlib.import_module(f"benchmarks.peers.{job}").run(ledger, options)
    found = {job: Ledger(options.out / f"{job}.jsonl").rows for job in jobs}
    print(report({job: rows for job, rows in found.items() if rows}, options.report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
