"""The examples run as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.documents import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_three() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_prints_an_answer(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert " in [" in printed
    assert any(words in printed for words in ("better by more than", "within", "no promise"))


def test_from_a_pandas_log_to_a_report_in_under_twenty_lines() -> None:
    """Statements that are not the made-up log: what a person has to write."""
    text = (ROOT / "examples" / "clicks_to_report.py").read_text(encoding="utf-8")
    made_up, own = text.split("class ByAge:")
    lines = [line for line in ("class ByAge:" + own).splitlines() if line.strip() and not line.strip().startswith('"')]
    assert len(lines) + made_up.count("\nimport") + made_up.count("\nfrom") < 20


def test_the_report_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    answers = runpy.run_path(str(ROOT / "examples" / "clicks_to_report.py"))
    assert answers["answer"].best.name in ("now", "next")
    assert "<h1>What clicks says about 3 candidates</h1>" in answers["report"].read_text(encoding="utf-8")
    assert str(answers["report"]) in capsys.readouterr().out
