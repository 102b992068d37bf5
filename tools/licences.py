"""The licences and sizes of all that comband needs, as a page: `python tools/licences.py > docs/licences.md`.

Names come from pyproject.toml, and from there as far as packages say what they need; licences and sizes from what is
installed in this environment.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
# Not needed to use comband.
_OURS = ("test", "docs", "dev", "vw")

_INTRODUCTION = """\
Made by `python tools/licences.py`, of the versions in `requirements.lock`. comband itself is BSD-3-Clause.
Packages under the LGPL (psycopg) are used as they are, through their public interface.

What takes the space, and what was decided:

- llvmlite and numba: leaving them out would save two fifths of the core, and make passes over candidates 4 to 5 times
  and the steps of Exp4 5 to 8 times slower (measured against scipy.sparse and numpy); they stay.
- scipy and scikit-learn: scikit-learn needs scipy, and both are what users of rankers have already; they stay.
- pyarrow: with the extras `logs`, `serve`, `cluster`, `sql` and `spark`; it reads Parquet and CSV, and takes in frames.
- duckdb: with the extra `sql`, where it is the database that is always there; `logs` and `cluster` do without.
- pyspark: half a gigabyte, with the extra `spark` alone.
- pandas and polars: never needed; `to_frame` uses whichever is there.
"""


def normal(name: str) -> str:
    """As indices write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(lines: Iterable[str]) -> dict[str, Distribution]:
    """What these requirements need, with all that is needed by it, as far as it is installed."""
    found: dict[str, Distribution] = {}
    pending = [(Requirement(line), "") for line in lines]
    while pending:
        requirement, extra = pending.pop()
        name = normal(requirement.name)
        if name == "comband" or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        try:
            there = distribution(name)
        except PackageNotFoundError:
            continue
        if name in found and not requirement.extras:
            continue
        found[name] = there
        for line in there.requires or ():
            pending += [(Requirement(line), wanted) for wanted in ("", *requirement.extras)]
    return found


def licence(there: Distribution) -> str:
    """In a word or two: the expression, the classifier, or the first line of what it says."""
    metadata = there.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [
        line.rsplit(" :: ", 1)[1] for line in metadata.get_all("Classifier", []) if line.startswith("License :: ")
    ]
    said = metadata["License"].strip().splitlines() if "License" in metadata else []
    return ", ".join(classified) or (said[0][:60] if said else "not stated")


def megabytes(there: Distribution) -> float:
    """What its files take."""
    paths = (Path(str(file.locate())) for file in there.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    """Print the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = needed(project["dependencies"])
    print("# Licences and sizes of what comband needs\n")
    print(_INTRODUCTION)
    print("| for | package | licence | MB |\n|---|---|---|---|")
    totals = {"comband": sum(map(megabytes, core.values()))}
    for name in sorted(core):
        print(f"| comband | {name} | {licence(core[name])} | {megabytes(core[name]):.1f} |")
    listed = set(core)
    for extra, lines in project["optional-dependencies"].items():
        if extra in _OURS:
            continue
        more = {name: there for name, there in needed(lines).items() if name not in core}
        totals[extra] = sum(map(megabytes, more.values()))
        for name in sorted(set(more) - listed):
            print(f"| {extra} | {name} | {licence(more[name])} | {megabytes(more[name]):.1f} |")
        listed |= set(more)
    print("\n| installed | MB beyond comband's own |\n|---|---|")
    for name, total in totals.items():
        print(f"| {name} | {total:.0f} |")


if __name__ == "__main__":
    main()
