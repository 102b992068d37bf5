"""Results as lines that are only ever added, packages that may be absent, and bands over seeds."""

from __future__ import annotations

import fcntl
import importlib
import json
import platform
import resource
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

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
    >>> key = {"world": "needle", "method": "a", "seed": 1}
    >>> with Ledger(Path(tempfile.mkdtemp()) / "job.jsonl") as ledger:
    ...     ledger.run(key, lambda: {"regret": 0.5})
    ...     ledger.run(key, lambda: {"regret": 9.9})  # there is a line already
    >>> ledger.rows
    [{'world': 'needle', 'method': 'a', 'seed': 1, 'regret': 0.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None
        self.rows: list[Row] = rows_of(path.read_text())[0] if path.exists() else []
        self.left_out: dict[str, str] = {}

    def has(self, key: Row) -> bool:
        """Whether there is a line for it."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def run(self, key: Row, work: Callable[[], Row]) -> None:
        """Do the work, if it has no line yet, and add one."""
        if self.has(key):
            return
        file = self._opened()
        if self.has(key):
            return
        try:
            row = json.loads(json.dumps({**key, **work()}), parse_float=short)
        except PeerMissingError as error:
            if key["method"] not in self.left_out:
                self.left_out[key["method"]] = str(error)
                print(f"  {key['method']}: {error}", flush=True)
            return
        self.rows.append(row)
        file.write(json.dumps(row) + "\n")
        file.flush()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        """Another process may add lines."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> TextIO:
        """For adding lines, by one process at a time: what two run at once would be counted twice."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise SystemExit(
                    f"Another run is adding lines to {self.path}: wait for it, or give another folder (--out)."
                ) from None
            file.seek(0)
            self.rows, whole = rows_of(file.read())  # there may be more by now
            file.truncate(len(whole.encode()))
            self._file = file
        return self._file


def short(number: str) -> float:
    """Six digits: what was measured is not known better, and lines are kept."""
    return float(f"{float(number):.6g}")


def rows_of(text: str) -> tuple[list[Row], str]:
    """The rows, and the text of whole lines: one that was cut off by a kill is no line, and its run is done again."""
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole], "".join(whole)


def best_of(scores: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Who has the highest score; one of them at random where there are several."""
    return int(rng.choice(np.flatnonzero(scores >= scores.max())))


def band(values: Iterable[float]) -> tuple[float, float, float]:
    """Quartiles: (25%, median, 75%)."""
    low, middle, high = np.percentile(np.array(list(values), dtype=np.float64), [25, 50, 75])
    return float(low), float(middle), float(high)


def spread(values: Iterable[float], form: str) -> str:
    """Median and quartiles for people, each in this form; nothing where there are none.

    >>> spread([1, 2, 3, 4, 5], ".1f"), spread([], ".1f")
    ('3.0 (2.0–4.0)', '')
    """
    found = list(values)
    if not found:
        return ""
    low, middle, high = band(found)
    return f"{middle:{form}} ({low:{form}}–{high:{form}})"


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
