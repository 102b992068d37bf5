"""Names, ids and paths from outside are shown as text, wherever they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.commands.common import console, print_table, working
from comband.page.progress import progress_bar
from comband.page.text import shorten, visible
from comband.show import evaluation_page
from comband.statistics.results import Candidate
from tests.evaluation.logs.worlds import PROBLEM, small_log

HOSTILE = [
    "[/]",
    "[red]x",
    "\x1b[31mesc",
    "two\nlines",
    "<script>alert(1)</script>",
    ":smile: \u202eltr",
    "\x9b2J\x07&amp;",
]


def _files(folder: Path, kind: str = "jsonl") -> tuple[Path, Path]:
    rounds, plain = small_log()
    lists = np.stack([plain.predict(np.arange(30))[:, p % len(plain)] for p in range(len(HOSTILE))])
    policies = cb.PolicySet.from_lists(lists, PROBLEM, names=HOSTILE)
    log, candidates = folder / f"[red]log.{kind}", folder / f"[b]lists.{kind}"
    cb.write_rounds(rounds, log)
    cb.write_candidates(policies, np.arange(30), candidates)
    return log, candidates


def _obeyed(text: str) -> list[str]:
    """Characters that a terminal would obey."""
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_visible_spells_out_what_would_be_obeyed() -> None:
    assert visible("a\x1b[0m\r\n\x7f\x9b\u202e\u2028\ud800é😀[/]") == r"a\x1b[0m\r\n\x7f\x9b\u202e\u2028\ud800é😀[/]"
    assert visible("a\nb\tc", keep="\n") == "a\nb\\tc"
    assert visible(visible("\x1b\n")) == visible("\x1b\n")
    assert shorten("x" * 301).count("x") == 299
    assert len(shorten("x" * 1000)) == 300


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_evaluate_shows_names_as_they_are(tmp_path: Path, kind: str) -> None:
    log, lists = _files(tmp_path, kind)
    report = tmp_path / "[i]report.html"
    arguments = ["evaluate", str(log), "-c", str(lists)]
    shown = CliRunner().invoke(app, [*arguments, "--html", str(report)])
    assert shown.exit_code in (0, 3), shown.stderr
    assert _obeyed(shown.stdout + shown.stderr) == []
    for name in HOSTILE:
        assert visible(name) in shown.stdout
    assert "[i]report.html" in shown.stderr.replace("\n", "")
    printed = CliRunner().invoke(app, [*arguments, "--json"]).stdout
    assert _obeyed(printed) == []
    assert {candidate["name"] for candidate in json.loads(printed)["candidates"]} == set(HOSTILE)
    page = report.read_text(encoding="utf-8")
    assert _obeyed(page) == []
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "&amp;amp;" in page


def test_design_shows_names_as_they_are(tmp_path: Path) -> None:
    log, lists = _files(tmp_path)
    shown = CliRunner().invoke(
        app, ["design", str(log), "-c", str(lists), "--n-actions", "20", "--out", str(tmp_path / "[u]m.npz")]
    )
    assert shown.exit_code in (0, 3), shown.stderr
    assert _obeyed(shown.stdout + shown.stderr) == []
    assert sum(visible(name) in shown.stdout for name in HOSTILE) >= 2
    assert "[u]m.npz" in shown.stderr.replace("\n", "")


def test_faults_and_refusals_are_shown_as_text(tmp_path: Path) -> None:
    log, lists = _files(tmp_path)
    lines = log.read_text().splitlines()
    record = json.loads(lines[4])
    record["context"] = "\x1b[2J\n[/]"
    lines[4] = json.dumps(record)
    record["context"], record["items"] = 3, ["[/]", "\x1b]0;title\x07", "x"]
    lines[5] = json.dumps({**record, "id": 5})
    log.write_text("\n".join(lines))
    arguments = ["evaluate", str(log), "-c", str(lists)]
    for more in ([], ["--on-error", "skip"]):
        outcome = CliRunner().invoke(app, [*arguments, *more])
        assert outcome.exit_code in ((0, 3) if more else (1,))
        assert _obeyed(outcome.stdout + outcome.stderr) == []
        assert r"context \x1b[2J\n[/]" in outcome.stderr.replace("\n", " ")
    absent = CliRunner().invoke(app, ["evaluate", "[/]\x1b[31m\n.csv", "-c", "x"])
    assert absent.stderr == "comband: no file is like [/]\\x1b[31m\\n.csv.\n"
    absent = CliRunner().invoke(app, ["evaluate", str(log), "-c", "[/]\x1b[31m\n\udcff.csv"])
    assert absent.stderr == "comband: no file is like [/]\\x1b[31m\\n\\udcff.csv.\n"
    for wrong in (
        ["\x1b[31m[/]"],
        ["evaluate", "--\x1b[31m[/]"],
        ["bench", "a", "\x1b[31m[/]"],
        ["plan", "--items", "[/]\x1b"],
    ):
        outcome = CliRunner().invoke(app, wrong)
        assert outcome.exit_code == 2
        assert _obeyed(outcome.stderr) == []


def test_progress_and_results_are_shown_as_text() -> None:
    for name in HOSTILE:
        assert str(Candidate(0, name, 0.5, (0.4, 0.6))).startswith(f"{visible(name)}: 0.5 in")
        bar = progress_bar()
        bar.add_task(f"{visible(name)} leads", total=10)
        with bar.console.capture() as capture:
            bar.console.print(bar.get_renderable())
        assert visible(name) in capture.get()
    with working() as step:
        step("[/] \x1b[2J")  # must not be parsed
    out = console()
    with out.capture() as capture:
        print_table(out, ("[bold]name", "n"), [("[/]\n\x1b", "[red]1")])
        out.print("[/] \x1b", Text("plain"))
    assert "[bold]name" in capture.get()
    assert "[/]\\n\\x1b" in capture.get()
    assert "[red]1" in capture.get()
    assert _obeyed(capture.get()) == []


def test_a_report_names_its_source_as_text(tmp_path: Path) -> None:
    log, lists = _files(tmp_path)
    answer = cb.evaluate_log(cb.read_log(log, cb.read_candidates(lists)))
    assert "&lt;b&gt;\\x1b" in evaluation_page(answer, source="<b>\x1b")
