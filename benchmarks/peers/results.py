"""Results as lines that are only ever added, packages that may be absent, and bands over seeds."""

from __future__ import annotations

import importlib
import json
import platform
import resource
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "obp",
    "vowpalwabbit",
    "vw-estimators",
    "ville",
    "duckdb",
    "coba",
    "contextualbandits",
    "mabwiser",
    "mab2rec",
    "river",
)
Row = dict[str, Any]


class PeerMissingError(ImportError):
    """A package that a run compares with is not installed; the run is left out, and says so."""


def peer(module: str) -> ModuleType:
    """A module of a peer, imported when it is first needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerMissingError(f"{module.partition('.')[0]} is left out: {error} (`make peers` installs it)") from error


def versions() -> dict[str, str]:
    """Of everything that takes part; those absent are missing here too."""
    found = {"Python": platform.python_version(), "comband": comband.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def peak_megabytes() -> float:
    """The most memory this process has held since it was started.

    Not `ru_maxrss`, where the system tells better: that one survives exec, so a child of a large process begins with
    its parent's peak.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 ** (2 if sys.platform == "darwin" else 1)


class Ledger:
    """One line per (world, method, seed, …) in a JSON-lines file; what has a line is not run again.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "job.jsonl")
    >>> key = {"world": "needle", "method": "a", "seed": 1}
    >>> ledger.run(key, lambda: {"regret": 0.5})
    >>> ledger.run(key, lambda: {"regret": 9.9})  # there is a line already
    >>> ledger.rows
    [{'world': 'needle', 'method': 'a', 'seed': 1, 'regret': 0.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):  # a line that was cut off by a kill is no line: its run is done again
            path.write_text("".join(whole))
        self.rows: list[Row] = [json.loads(line) for line in whole]
        self.left_out: dict[str, str] = {}

    def has(self, key: Row) -> bool:
        """Whether there is a line for it."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def run(self, key: Row, work: Callable[[], Row]) -> None:
        """Do the work, if it has no line yet, and add one."""
        if self.has(key):
            return
        try:
            row = json.loads(json.dumps({**key, **work()}))
        except PeerMissingError as error:
            if key["method"] not in self.left_out:
                self.left_out[key["method"]] = str(error)
                print(f"  {key['method']}: {error}", flush=True)
            return
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def best_of(scores: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Who has the highest score; one of them at random where there are several."""
    return int(rng.choice(np.flatnonzero(scores >= scores.max())))


def band(values: Iterable[float]) -> tuple[float, float, float]:
    """Quartiles: (25%, median, 75%)."""
    low, middle, high = np.percentile(np.array(list(values), dtype=np.float64), [25, 50, 75])
    return float(low), float(middle), float(high)


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of these keys, in the order in which they first come."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return found


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    """A table; the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
