"""The guide for contributors: ten changes, one or two files each."""

from __future__ import annotations

import re

from tests.documents import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_ten_changes_touch_one_or_two_files() -> None:
    table = TEXT.split("## Where a change goes", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith(("| a", "| evidence"))]
    assert len(rows) >= 10
    for _, files, _ in rows:
        assert 1 <= len(re.findall(r"`[^`]+`", files)) <= 2
