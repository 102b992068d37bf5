"""Job 5: what it costs to begin: time to install, size on disk, time to import and per decision, the smallest program.

Sizes are of a package and everything it needs, as installed in this environment. With `--install`, each is also
installed into an empty environment by pip, downloads included: by the clock, and as fast as the network is. Import
times are of the processor, in a fresh process, less that of Python itself. The programs in `benchmarks/peers/smallest/`
each do the same with the package they are named after, as far as it can: show one of three candidates' lists to
visitors until it is known, or seems to be, which is best; their lines are counted without blank ones, comments and the
visitors that all of them share. Time per decision is of that work, one visitor at a time.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evaluate import timed
from benchmarks.peers.results import Ledger, PeerMissingError, Row, grouped, markdown, spread, versions

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


def install_seconds(package: str) -> float:
    """By the clock: pip's `install` into an empty environment, with its usual cache, of the version found here."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder, with_pip=True)
        wanted = str(root) if package == "comband" else f"{package}=={versions()[package]}"
        start = time.perf_counter()
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wanted], check=True, capture_output=True)
        return time.perf_counter() - start


def measure(package: str, install: bool = False) -> Row:
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
    if install:
        row["install_seconds"] = install_seconds(package)
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
    for seed in range(options.first_seed, options.first_seed + min(options.seeds, 1 if options.quick else 3)):
        for package in IMPORTS:
            install = options.install and seed == options.first_seed
            key = {"method": package, "seed": seed, "installed": install}
            ledger.run(key, lambda package=package, install=install: measure(package, install))  # type: ignore[misc]
    print("adoption: done", flush=True)


def tables(rows: list[Row]) -> str:
    """One line per package."""
    lines = []
    for (package,), runs in grouped(rows, "method").items():
        installed = "".join(f"{row['install_seconds']:,.0f}" for row in runs if row["installed"])
        sized = [f"{runs[0]['megabytes']:,.0f}", str(runs[0]["packages"]), installed]
        sized.append(spread((row["import_seconds"] for row in runs), ".2f"))
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
        "installation, s",
        "import, s of CPU",
        "lines",
        "µs per decision",
        "what it says",
    ]
    return markdown(header, lines) + "\n"
