"""Choose and confirm by one command."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from comband.commands.cli import app

SIMULATE = ["--quiet", "simulate", "--items", "20", "--slots", "3", "--candidates", "5", "--click-rate", "0.4"]
CHOOSE = [*SIMULATE, "--epsilon", "0.15", "--rounds", "20000"]


def found(*more: str) -> dict[str, object]:
    outcome = CliRunner().invoke(app, [*CHOOSE, "--json", *more])
    assert outcome.exit_code == 0, outcome.output
    answer: dict[str, object] = json.loads(outcome.stdout)
    return answer


def test_the_winner_is_compared_with_production_in_whole_lists(tmp_path: Path) -> None:
    chosen = found()
    winner = chosen["best"]
    other = next(f"policy {i}" for i in range(5) if f"policy {i}" != winner)
    page = tmp_path / "report.html"
    answer = found("--production", other, "--confirm", "4000", "--html", str(page))
    confirmed = answer["confirmation"]
    assert isinstance(confirmed, dict)
    assert answer["best"] == confirmed["candidate"]
    assert confirmed["production"] == other
    assert 0 < confirmed["rounds"] <= 4000
    assert confirmed["low"] <= confirmed["lift"] <= confirmed["high"]
    text = page.read_text(encoding="utf-8")
    assert "Confirmed in whole lists?" in text
    assert f"{confirmed['units']:,} units" in text


def test_where_there_is_nothing_to_confirm_it_says_so() -> None:
    winner = str(found()["best"])
    assert "is in production" in str(found("--production", winner, "--confirm", "1000")["confirmation"])
    undecided = CliRunner().invoke(app, [*SIMULATE, "--rounds", "300", "--production", "policy 1", "--confirm", "1000"])
    assert "not confirmed: no winner is decided on" in undecided.output


def test_what_cannot_be_confirmed_is_refused_with_a_sentence() -> None:
    assert "say --production NAME" in CliRunner().invoke(app, [*CHOOSE, "--confirm", "1000"]).output
    many = [*CHOOSE, "--production", "policy 1", "--confirm", "1000", "--seeds", "2"]
    assert "seeds must be 1" in CliRunner().invoke(app, many).output
    assert "confirm must be" in CliRunner().invoke(app, [*CHOOSE, "--production", "policy 1", "--confirm", "0"]).output
