"""The command line: answers on standard output, progress on standard error."""

from __future__ import annotations

from typer.testing import CliRunner

from comband.cli import app


def test_demo_ends_with_a_readable_answer() -> None:
    outcome = CliRunner().invoke(app, ["demo", "--rounds", "2000"])
    assert outcome.exit_code == 0
    assert "of the best candidate with probability 0.95" in outcome.stdout
    assert "rounds" in outcome.stderr
