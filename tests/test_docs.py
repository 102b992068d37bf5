"""Examples in the documentation and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import comband
from tests.documents import ROOT, blocks, run_document

PAGES = sorted(path for path in (ROOT / "docs").glob("*.md") if blocks(path))
MODULES = sorted(module.name for module in pkgutil.walk_packages(comband.__path__, "comband."))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_document(page)


def test_the_pages_that_teach_have_examples() -> None:
    assert {"start", "howto_ranker", "howto_late_rewards", "howto_sklearn"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Classes of an example are the reader's, not comband's.
    failed, _ = doctest.testmod(importlib.import_module(name), extraglobs={"__name__": "__main__"})
    assert failed == 0


def public_names() -> dict[str, Any]:
    """What `comband` and its packages offer, and what the API pages add to that, by its full name."""
    # For comband's own use are:
    inside = ("_kernels", "serve", "commands", "paper.catalogue", "certify.fixed_time", "evaluation.logs.sql")
    own = tuple(f"comband.{name}" for name in inside)
    packages = [module.name for module in pkgutil.walk_packages(comband.__path__, "comband.") if module.ispkg]
    packages = ["comband", *(name for name in packages if not name.startswith(own))]
    modules = {name: importlib.import_module(name) for name in packages}
    found = {f"{where}.{name}" for where, module in modules.items() for name in getattr(module, "__all__", ())}
    for path in (ROOT / "docs").rglob("*.md"):
        found |= set(re.findall(r"auto(?:class|function):: (comband\.\S+)", path.read_text(encoding="utf-8")))
    names = {}
    for full in sorted(found):
        module, _, name = full.rpartition(".")
        what = getattr(importlib.import_module(module), name)
        if inspect.isclass(what) or inspect.isfunction(what):
            names[full] = what
    return names


PUBLIC = public_names()


def parameters(what: Any) -> list[str]:
    """What a function or class is called with, by name."""
    if inspect.isclass(what) and (issubclass(what, Exception) or getattr(what, "_is_protocol", False)):
        return []
    every = inspect.signature(what).parameters.values()
    return [one.name for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def test_every_public_name_has_an_example() -> None:
    assert len(PUBLIC) > 250
    assert [name for name, what in PUBLIC.items() if ">>>" not in (what.__doc__ or "")] == []


def test_every_parameter_is_spelt_out() -> None:
    """By its name, before the example, and not by pointing at others."""
    missing = []
    for name, what in PUBLIC.items():
        text = (what.__doc__ or "").split(">>>")[0]
        assert "As for every" not in text, name
        missing += [(name, one) for one in parameters(what) if not re.search(rf"(?<!\w){one}(?!\w)", text)]
    assert missing == []


def test_hints_at_extras_are_right_for_a_clone_and_for_an_index() -> None:
    hints = []
    for path in MENTIONING:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"comband\[([a-z]+)\]", text):
            hints.append(match[1])
            assert f".[{match[1]}]' in a clone" in text[match.end() : match.end() + 60].replace("`", ""), (
                path,
                match[0],
            )
    assert len(hints) >= 5


def _exists(name: str) -> bool:
    """Whether a dotted name below comband can be reached, modules included."""
    found: object = comband
    path = "comband"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        else:
            found = getattr(found, part)
    return True


FOLDERS = [
    ROOT,
    ROOT / "src",
    ROOT / "src" / "comband",
    ROOT / "docs",
    ROOT / "tests",
    ROOT / "benchmarks",
    ROOT / "examples",
]
MENTIONING = sorted(
    path
    for pattern in ("docs/*.md", "*.md", "src/comband/**/*.py", "benchmarks/*.py")
    for path in ROOT.glob(pattern)
    if path.name not in ("cli.md", "settings.md", "CHANGELOG.md")
)


def test_names_and_files_that_are_mentioned_exist() -> None:
    """In backticks: comband.some.name, cb.Name, some/file.py."""
    names, files = set[tuple[str, str]](), set[tuple[str, str]]()
    for path in MENTIONING:
        text, where = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        found = re.findall(r"`(?:cb|comband)((?:\.[A-Za-z]\w*)+)(?:\([^`]*)?`", text)
        names |= {(where, name) for name in found if "NAME" not in name}
        found = re.findall(r"`([\w/]+\.(?:py|pyi|md))`", text)
        files |= {(where, name) for name in found if "NAME" not in name}
    assert len(names) > 20
    assert len(files) > 20
    assert [each for each in sorted(names) if not _exists(f"comband{each[1]}")] == []
    missing = [
        (where, name)
        for where, name in sorted(files)
        if not any((folder / name).exists() for folder in (*FOLDERS, (ROOT / where).parent))
    ]
    assert missing == []
