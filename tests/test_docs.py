"""Examples in the documentation and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

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


def test_docstrings_run() -> None:
    examples = 0
    for name in MODULES:
        failed, attempted = doctest.testmod(importlib.import_module(name))
        assert failed == 0, name
        examples += attempted
    assert examples > 10


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
    if path.name not in ("cli.md", "CHANGELOG.md")
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
