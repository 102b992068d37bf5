"""Change one place at a time and see whether the tests that are named for it notice: python -m tests.mutants [word …].

Without words all mutants are run, with words those whose place or description holds one of them; `--find` only looks
for their patterns. The named tests must pass on the source as it is, and one of them must fail on each mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.mutating import PACKAGE, mutate

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = int(os.environ.get("WORKERS", "2"))
SECONDS = 900  # of one run of pytest


def run_tests(package: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of this repository with the package at `package`."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)


def copy(package: Path, folder: Path, *, kernels: bool) -> Path:
    """The package in another folder, with what numba compiled for it unless kernels are to change: a compiled kernel
    holds those that it calls, so none may be kept then.
    """
    target = folder / "src" / package.name
    shutil.copytree(package, target, ignore=shutil.ignore_patterns("*.nbi", "*.nbc") if kernels else None)
    return target


def try_mutant(mutant: Mutant, package: Path) -> tuple[str, float, str]:
    """Verdict, seconds, and the test that noticed."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        file = mutant.place.partition("::")[0]
        mutated = copy(package, Path(folder), kernels=file.startswith("_kernels"))
        (mutated / file).write_text(mutate(mutant, package), encoding="utf-8")
        try:
            run = run_tests(mutated, mutant.tests)
        except subprocess.TimeoutExpired:
            return "TIMED OUT", time.perf_counter() - began, ""
    seconds = time.perf_counter() - began
    if run.returncode == 1:
        noticed = re.search(r"^FAILED (\S+)", run.stdout, flags=re.MULTILINE)
        return "caught", seconds, noticed[1] if noticed else ""
    if run.returncode == 0:
        return "SURVIVED", seconds, ", ".join(mutant.tests)
    return "BROKEN", seconds, run.stdout[-2000:] + run.stderr[-2000:]


def main(words: list[str], *, only_find: bool = False) -> int:
    chosen = [m for m in MUTANTS if not words or any(word in f"{m.place} {m.why}" for word in words)]
    faults = []
    for mutant in chosen:
        try:
            mutate(mutant)
        except LookupError as fault:
            faults.append(str(fault))
    print(*faults, sep="\n")
    if faults or only_find:
        print(f"{len(chosen) - len(faults)} of {len(chosen)} patterns were found")
        return bool(faults)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(PROCESSES) as pool:
        package = copy(PACKAGE, Path(folder), kernels=False)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        first = run_tests(package, tests[:1])  # alone: it compiles what is missing
        halves = [tests[i::PROCESSES] for i in range(PROCESSES)]
        for run in (first, *pool.map(lambda half: run_tests(package, half), [half for half in halves if half])):
            if run.returncode:
                print(
                    run.stdout[-5000:], run.stderr[-2000:], "The tests must pass before anything is broken.", sep="\n"
                )
                return 1
        survived = 0
        jobs = {pool.submit(try_mutant, mutant, package): mutant for mutant in chosen}
        for job in as_completed(jobs):
            verdict, seconds, noticed = job.result()
            survived += verdict != "caught"
            print(f"{verdict:9} {seconds:4.0f} s  {jobs[job].place}: {jobs[job].why}  [{noticed}]", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants were caught")
    return int(survived > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("word", nargs="*", help="in the place or the description of those to run")
    parser.add_argument("--find", action="store_true", help="only look for their patterns")
    given = parser.parse_args()
    sys.exit(main(given.word, only_find=given.find))
