"""Writing a certificate by `comband simulate`, and checking it by `comband certificate`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from comband.commands.cli import app

SIMULATE = ["--quiet", "simulate", "--items", "20", "--slots", "3", "--candidates", "4", "--rounds", "400"]


def test_a_certificate_is_written_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "certificate.zip"
    made = CliRunner().invoke(app, [*SIMULATE, "--audited", "0.1", "--certificate", str(path)])
    assert made.exit_code == 0, made.output
    checked = CliRunner().invoke(app, ["certificate", str(path)])
    assert checked.exit_code == 0, checked.output
    assert checked.output.rstrip().endswith("VERIFIED")
    assert "without a published head" in checked.output
    refused = CliRunner().invoke(app, ["certificate", str(path), "--head", "0" * 64, "--json"])
    assert refused.exit_code == 1
    found = json.loads(refused.stdout)
    assert (found["verified"], found["reason"][:16]) == (False, "a published head")


def test_what_cannot_be_written_or_checked_is_refused_with_a_sentence(tmp_path: Path) -> None:
    without = CliRunner().invoke(app, [*SIMULATE, "--certificate", str(tmp_path / "certificate.zip")])
    assert without.exit_code == 1
    assert "say --audited 0.01" in without.output
    many = [*SIMULATE, "--audited", "0.1", "--certificate", str(tmp_path / "a.zip"), "--seeds", "2"]
    assert "seeds must be 1" in CliRunner().invoke(app, many).output
    nothing = CliRunner().invoke(app, ["certificate", str(tmp_path / "nothing.zip")])
    assert nothing.exit_code == 1
    assert "there is no file" in nothing.output
