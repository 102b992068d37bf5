"""Examples in the documentation and in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
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
