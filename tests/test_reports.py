"""Reports are pages that stand alone."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from comband.cli import app
from comband.reports import nice_ticks
from tests.logs.worlds import write_both


@pytest.mark.parametrize("end", [1e-6, 0.003, 0.2, 0.25, 1, 7, 1234.5])
def test_ticks_are_few_even_and_cover(end: float) -> None:
    ticks = nice_ticks(end)
    assert ticks[0] == 0
    assert ticks[-2] < end <= ticks[-1] * (1 + 1e-9)
    assert 3 <= len(ticks) <= 8


def test_evaluation_report(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "parquet")
    report = tmp_path / "report.html"
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--html", str(report)])
    assert outcome.exit_code == 0, outcome.stderr
    assert "report written" in outcome.stderr
    text = report.read_text(encoding="utf-8")
    assert "ünïcode" in text
    assert not re.search(r"(src|href)=|https?://|<script", text)
    plot = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    assert plot is not None
    picture = ElementTree.fromstring(plot.group())
    assert len(picture.findall("circle")) == 5
