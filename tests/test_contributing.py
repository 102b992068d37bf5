"""The guide for contributors names files that are there."""

from __future__ import annotations

import re

from tests.documents import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "comband"


def test_files_that_are_named_exist() -> None:
    named = set(re.findall(r"`([\w./]+?(?:\.pyi?|\.md|/))`", TEXT))
    assert len(named) > 20
    places = (SOURCE, ROOT, ROOT / "src", ROOT / "tests")
    # NAME stands for a file that a change adds: its folder must be there.
    missing = [
        name
        for name in sorted(named)
        if not any((place / (name.rpartition("NAME")[0] if "NAME" in name else name)).exists() for place in places)
    ]
    assert missing == []


def test_ten_changes_touch_one_or_two_files() -> None:
    table = TEXT.split("## Where a change goes", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith(("| a", "| evidence"))]
    assert len(rows) == 10
    for _, files, _ in rows:
        assert 1 <= len(re.findall(r"`[^`]+`", files)) <= 2
