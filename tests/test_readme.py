"""Someone who follows only the README gets from clone to their own candidates on their own data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents import ROOT, run_document


def test_readme_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_document(ROOT / "README.md") >= 3
    assert (tmp_path / "report.html").is_file()


def test_readme_links_and_make_targets_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
