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
    assert "better by more than" in printed or "within" in printed
