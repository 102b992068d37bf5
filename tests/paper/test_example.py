"""The documented example: short, and it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "harness" / "own_experiment.py"


@pytest.mark.parametrize("part", ["learner", "environment", "claim", "drawing"])
def test_each_part_is_under_thirty_lines_and_shown_in_the_docs(part: str) -> None:
    begin, end = f"# begin {part}", f"# end {part}"
    lines = EXAMPLE.read_text().split(begin)[1].split(end)[0].strip().splitlines()
    assert 0 < len(lines) < 30
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert f'"{begin}"' in page
    assert f'"{end}"' in page


@pytest.mark.slow
def test_the_example_writes_its_report(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "Following the leader half of the time finds a better candidate" in done.stdout
    assert "half-greedy" in (tmp_path / "report.html").read_text()
