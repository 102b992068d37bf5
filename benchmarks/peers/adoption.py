"""Job 5: what it costs to begin: size on disk, time to import, time per decision, and the smallest working program.

Sizes are of a package and everything it needs, as installed in this environment. Import times are of the processor, in
a fresh process, less that of Python itself. The programs in `benchmarks/peers/smallest/` each do the same with the
package they are named after, as far as it can: show one of three candidates' lists to visitors until it is known, or
seems to be, which is best; their lines are counted without blank ones, comments and the visitors that all of them
share. Time per decision is of that work, one visitor at a time.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evaluate import timed
from benchmarks.peers.results import Ledger, PeerMissingError, Row, band, grouped, markdown

SMALLEST = Path(__file__).parent / "smallest"
IMPORTS = {
    "comband": "import comband as cb; cb.AdaptiveComband",
    "obp": "import obp.ope",
    "vowpalwabbit": "import vowpalwabbit",
    "vw-estimators": "import estimators.bandits.ips",
    "ville": "import ville",
    "coba": "import coba",
    "contextualbandits": "import contextualbandits.online",
    "mabwiser": "import mabwiser.mab",
    "mab2rec": "import mab2rec",
    "river": "import river.bandit",
}
CORE = ("numpy", "scipy", "scikit-learn", "numba", "rich", "typer", "threadpoolctl")  # what comband itself needs


def lines_of(path: Path) -> int:
    """Lines of a program that say something."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in lines)


def measure(package: str) -> Row:
    """Size, import time, and the smallest program: its lines, what it says and its time per decision."""
    sizes: Any = importlib.import_module("tools.licences")
    found = sizes.needed(CORE if package == "comband" else (package,))
    if not found:
        raise PeerMissingError(f"{package} is left out: it is not installed (`make peers` installs it)")
    size = sum(sizes.megabytes(there) for there in found.values())
    if package == "comband":
        import comband

        size += sum(path.stat().st_size for path in Path(comband.__file__).parent.rglob("*.py*")) / 1e6
    nothing = [timed([sys.executable, "-c", "pass"])[1] for _ in range(3)]
    imported = [timed([sys.executable, "-W", "ignore", "-c", IMPORTS[package]])[1] for _ in range(3)]
    row: Row = {"megabytes": size, "packages": len(found), "import_seconds": min(imported) - min(nothing)}
    program = SMALLEST / f"{package.replace('-', '_')}.py"
    if program.exists():
        said = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", f"benchmarks.peers.smallest.{program.stem}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        row |= {"lines": lines_of(program), "said": said.strip()}
        row["microseconds"] = float(said.rsplit("µs", 1)[0].split()[-1])
    return row


def run(ledger: Ledger, options: argparse.Namespace) -> None:
    """Every package once per seed (times vary, sizes do not)."""
    for seed in range(options.first_seed, options.first_seed + min(options.seeds, 3)):
        for package in IMPORTS:
            ledger.run({"method": package, "seed": seed}, lambda package=package: measure(package))  # type: ignore[misc]
    print("adoption: done", flush=True)


def tables(rows: list[Row]) -> str:
    """One line per package."""
    lines = []
    for (package,), runs in grouped(rows, "method").items():
        low, middle, high = band(row["import_seconds"] for row in runs)
        sized = [f"{runs[0]['megabytes']:,.0f}", str(runs[0]["packages"]), f"{middle:.2f} ({low:.2f}–{high:.2f})"]
        if "lines" in runs[0]:
            each = float(np.median([row["microseconds"] for row in runs]))
            sized += [str(runs[0]["lines"]), f"{each:,.0f}", runs[0]["said"].splitlines()[0]]
        else:
            sized += ["", "", ""]
        lines.append([package, *sized])
    header = [
        "package",
        "MB with all it needs",
        "packages",
        "import, s of CPU",
        "lines",
        "µs per decision",
        "what it says",
    ]
    return markdown(header, lines) + "\n"
