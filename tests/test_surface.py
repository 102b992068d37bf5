"""What `comband` offers at the top: names that load when they are first used, and little else with them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from benchmarks.imports import SKLEARN

import comband
from tests.documents import ROOT

SOURCE = ROOT / "src" / "comband"
STUBS = sorted(SOURCE.rglob("*.pyi"))
HEAVY = ("sklearn", "rich", "typer", "scipy.stats", "pandas", "pyarrow", "duckdb", "matplotlib", "skops", "lightgbm")


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], check=True, capture_output=True, text=True
    )
    return set(shown.stdout.splitlines()[-1].split())


def test_some_fifty_names_and_pictures() -> None:
    assert 40 <= len([name for name in comband.__all__ if not name.startswith("plot_")]) <= 60
    assert comband.__all__ == sorted(set(comband.__all__))
    for name in comband.__all__:
        assert getattr(comband, name) is not None
    assert set(comband.__all__) <= set(dir(comband))


def test_a_bare_import_loads_nothing_of_others() -> None:
    assert not loaded("import comband") & {"numpy", "scipy", "numba", *HEAVY}


def test_names_load_no_more_than_they_need() -> None:
    names = [name for name in comband.__all__ if name not in SKLEARN]
    there = loaded(f"from comband import {', '.join(names)}")
    assert "comband.certify.adaptive" in there
    assert not there & set(HEAVY)


def test_help_needs_no_numbers() -> None:
    there = loaded("from comband.commands.cli import app\napp(['--help'], standalone_mode=False)")
    assert "typer" in there
    assert not there & {"numpy", "scipy", "numba", "sklearn", "comband.commands.demo"}


@pytest.mark.parametrize("stub", STUBS, ids=[str(path.parent.relative_to(SOURCE.parent)) for path in STUBS])
def test_stubs_say_what_packages_offer(stub: object) -> None:
    path = next(path for path in STUBS if path == stub)
    package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
    module = __import__(package, fromlist=["x"])
    lines = path.read_text(encoding="utf-8").split('"""', 2)[2].split("\n")
    found = [re.fullmatch(r"from (\S+) import (\w+) as (\w+)", line) for line in lines if line.startswith("from")]
    assert all(found)
    assert len(found) == len([line for line in lines if line and not line.startswith("__")])
    for match in found:
        assert match is not None
        assert match[2] == match[3]
        assert getattr(module, match[2]) is getattr(__import__(match[1], fromlist=[match[2]]), match[2])
    assert set(module.__all__) == {match[2] for match in found if match and match[1] != package}


def test_a_wrong_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'comband' has no attribute 'AdaptivComband'") as refused:
        comband.AdaptivComband  # type: ignore[attr-defined]  # noqa: B018
    assert refused.value.name == "AdaptivComband"
    assert refused.value.obj is comband
    with pytest.raises(ImportError, match="cannot import name 'AdaptivComband'"):
        exec("from comband import AdaptivComband")


def test_a_name_is_looked_up_once() -> None:
    assert loaded("import comband\ncomband.Problem\nassert 'Problem' in vars(comband)") >= {"comband.page.problem"}
