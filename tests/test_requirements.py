"""What is declared is what is tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_minimum_environment_has_the_lowest_declared_versions() -> None:
    """`make lock` renews requirements-minimum.txt when a declaration changes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [
        *project["dependencies"],
        *(line for name in ("plots", "logs", "ranking", "models") for line in extras[name]),
    ]
    pins = (ROOT / "requirements-minimum.txt").read_text().split()
    pinned = dict(pin.split("==") for pin in pins)
    assert len(declared) >= 10
    for line in declared:
        name, lowest = re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups()  # type: ignore[union-attr]
        found = pinned[name]
        assert re.sub(r"(\.0)+$", "", found) == re.sub(r"(\.0)+$", "", lowest), (
            f"{name}: {found} where {lowest} is declared"
        )
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", pin) for pin in pins)  # no address, no hash


def test_the_peers_are_pinned_and_no_dependencies_of_comband() -> None:
    """Versions alone, no addresses; and nothing that only the comparison needs is declared by the package."""
    pins = (ROOT / "benchmarks" / "peers" / "requirements.txt").read_text().split()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", pin) for pin in pins)
    pinned = {pin.partition("==")[0] for pin in pins}
    peers = {"obp", "ville", "vw-estimators", "coba", "contextualbandits", "mabwiser", "mab2rec", "river", "torch"}
    assert peers <= pinned
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        re.split(r"[^\w-]", line)[0]
        for lines in (project["dependencies"], *project["optional-dependencies"].values())
        for line in lines
    }
    assert declared & peers == set()
