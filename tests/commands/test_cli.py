"""The command line: answers on standard output, progress on standard error."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import COMMANDS, app
from comband.commands.common import print_json, stoppable
from comband.commands.simulate import LEARNERS
from comband.page.progress import progress_bar
from comband.paper.runner import run_tasks
from tests.evaluation.logs.worlds import PROBLEM, small_log, write_both
from tests.paper.toy import toy


def test_demo_ends_with_a_readable_answer_and_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    small = ["--items", "40", "--slots", "3", "--candidates", "12", "--click-rate", "0.3", "--epsilon", "0.1"]
    outcome = CliRunner().invoke(app, ["demo", *small, "--cap", "1500", "--report", str(report)])
    assert outcome.exit_code == 0, outcome.stderr
    assert "of the best candidate with probability 0.95" in outcome.stdout
    assert "A/B/n test" in outcome.stdout
    assert outcome.stdout.startswith("Decided: candidate ")
    assert "rounds" in outcome.stderr
    page = report.read_text()
    assert page.count('<div class="chart"') == 6
    assert "more than 1,500" in page  # twelve arms cannot be told apart so soon
    assert page.count("<details>") == 4
    assert "does not beat" in page
    assert "ranker" not in page


def test_evaluate_prints_a_table_and_keeps_data_and_talk_apart(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "csv")
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--top", "2"])
    assert outcome.exit_code == 3, outcome.stderr
    assert "better than the first by at most" in outcome.stdout
    assert "… and 3 more" in outcome.stdout
    assert outcome.stdout.startswith("Cannot tell. Some candidate may be better by")
    assert CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--exit-zero"]).exit_code == 0
    options = ["--sparsity", "1", "--min-propensity", "0.06"]
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), *options, "--epsilon", "0.26"])
    assert outcome.exit_code == 0, outcome.stdout
    assert outcome.stdout.startswith("Decided: ")
    fine = ["--epsilon", "1e-9", "--rounds-a-day", "1000"]
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), *options, *fine])
    assert outcome.exit_code == 3, outcome.stdout
    assert outcome.stdout.startswith("Leading: ")
    assert "days, at this rate (an estimate)" in outcome.stdout


def test_wrong_propensities_are_shouted(tmp_path: Path) -> None:
    rounds, policies = small_log(6000)
    decisions = rounds.decisions
    wrong = cb.Decisions(
        ids=decisions.ids,
        lists=decisions.lists,
        propensities=decisions.propensities / 3,
        epochs=decisions.epochs,
        contexts=decisions.contexts,
    )
    cb.write_rounds(cb.Rounds(wrong, rounds.rewards), tmp_path / "log.parquet")
    cb.write_candidates(policies, np.arange(30), tmp_path / "lists.parquet")
    arguments = ["evaluate", str(tmp_path / "log.parquet"), "-c", str(tmp_path / "lists.parquet")]
    report = tmp_path / "report.html"
    shown = CliRunner().invoke(app, [*arguments, "--html", str(report)])
    assert shown.exit_code == 1
    assert shown.stdout.startswith("Not valid. THE PROPENSITIES DO NOT FIT")
    page = report.read_text()
    assert '<span class="verdict not-valid">Not valid</span></p>\n<p>THE PROPENSITIES DO NOT FIT' in page
    for text in (shown.stdout, page):
        assert not re.search(
            r"\bbest\b|winner|class=best", re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
        )
    plain = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert plain["verdict"]["kind"] == "not valid"
    assert plain["verdict"]["sentences"][0].startswith("THE PROPENSITIES DO NOT FIT")
    assert CliRunner().invoke(app, [*arguments, "--exit-zero"]).exit_code == 1  # it is for what is undecided


def test_table_page_and_json_have_the_same_notes(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "jsonl")
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:5], "broken", *lines[5:]]))
    report = tmp_path / "report.html"
    arguments = ["evaluate", str(log), "-c", str(lists), "--on-error", "skip", "--html", str(report), "--explain"]
    table = " ".join(CliRunner().invoke(app, arguments).stdout.split())
    plain = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    page = html.unescape(report.read_text())
    (note,) = plain["notes"]
    assert note.startswith("faulty rows skipped: 1")
    for shown in (table, page):
        assert f"Note: {note}." in shown
        assert "Intervals may overlap though the certificate holds" in shown
    begins = (
        "epsilon and intervals assume nothing",
        "if you know from elsewhere",
        "if you know from elsewhere",
        "the propensities fit",
    )
    for text, begin in zip(plain["explained"], begins, strict=True):
        assert text.startswith(begin)
        for shown in (table, page):
            assert f"{text[:1].upper()}{text[1:]}." in shown
    arguments.remove("--explain")
    brief = " ".join(CliRunner().invoke(app, arguments).stdout.split())
    assert f"Note: {note}." in brief
    assert "though the certificate holds" not in brief
    assert "propensities fit" not in brief
    assert [sentence in brief for sentence in plain["verdict"]["sentences"]] == [True] * len(
        plain["verdict"]["sentences"]
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate"], 2, "Missing argument"),
        (["evaluate", "log.csv"], 2, "Missing option"),
        (["nonsense"], 2, "No such command"),
        (["evaluate", "absent.csv", "-c", "absent.csv"], 1, "comband: there is no file absent.csv."),
        (["evaluate", "{log}", "-c", "{lists}", "--format", "xml"], 1, "format must be one of"),
        (["evaluate", "{log}", "-c", "{lists}", "--on-error", "maybe"], 1, "--on-error must be 'refuse' or 'skip'"),
        (["evaluate", "{log}", "-c", "{lists}", "--delta", "2"], 1, "delta must lie strictly between 0 and 1"),
        (["evaluate", "{log}", "-c", "{lists}", "--sparsity", "0"], 1, "sparsity must be above 0"),
        (["evaluate", "{log}", "-c", "{lists}", "--html", "{folder}/no/r.html"], 1, "No such file or directory"),
        (["simulate", "--learner", "oracle of Delphi"], 1, "learner must be one of"),
        (["simulate", "--slots", "200"], 1, "--slots must not exceed --items, got --slots=200 with --items=100"),
        (["simulate", "--html", "{folder}/no/r.html"], 1, "No such file or directory"),
        (["simulate", "--log", "{folder}"], 1, "Is a directory"),
        (["demo", "--report", "{folder}/no/r.html"], 1, "No such file or directory"),
        (["design", "{log}", "-c", "{lists}", "--n-actions", "9", "-o", "{folder}/no/m.npz"], 1, "No such file"),
        (["bench", "nonsense"], 1, "there is no benchmark 'nonsense'"),
    ],
)
def test_exit_codes_and_one_sentence(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    log, lists = write_both(tmp_path, "csv", n=40)
    filled = [part.format(log=log, lists=lists, folder=tmp_path) for part in arguments]
    outcome = CliRunner().invoke(app, filled)
    assert outcome.exit_code == code
    assert outcome.stdout == ""
    assert message in " ".join(outcome.stderr.split())
    assert "Traceback" not in outcome.stderr
    assert outcome.stderr.count("\n") == 1 or code == 2  # nothing was done before


def test_every_command_helps_with_an_example() -> None:
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0
    for name, summary in COMMANDS.items():
        assert f"{name} {summary}" in " ".join(listed.stdout.replace("│", "").split())
        outcome = CliRunner().invoke(app, [name, "--help"])
        assert outcome.exit_code == 0
        assert f"Example: comband {name}" in " ".join(outcome.stdout.split())


def test_simulate_evaluate_design_and_serve(tmp_path: Path) -> None:
    log, lists, mixture = (str(tmp_path / name) for name in ("log.parquet", "lists.parquet", "mixture.npz"))
    sizes = ["--learner", "uniform", "--rounds", "3000", "--candidates", "6"]
    made = CliRunner().invoke(app, ["simulate", *sizes, "--log", log, "--lists", lists, "--json"])
    assert made.exit_code == 0, made.stderr
    simulated = json.loads(made.stdout)
    judged = json.loads(CliRunner().invoke(app, ["evaluate", log, "-c", lists, "--sparsity", "1", "--json"]).stdout)
    assert judged["rounds"] == simulated["rounds"] == 3000
    assert max(c["value"] for c in judged["candidates"]) == pytest.approx(simulated["value"])
    options = ["--n-actions", "100", "--sparsity", "1", "--out", mixture]
    designed = CliRunner().invoke(app, ["design", log, "-c", lists, *options, "--json"])
    assert designed.exit_code == 0, designed.stderr
    answer = json.loads(designed.stdout)
    world = cb.SyntheticRecommender(cb.Problem(100, 5, sparsity=1), click_rate=0.1, seed=7)
    policies = world.candidates(6, seed=8)
    served = cb.Mixture.load(mixture, policies)
    assert {policies.names[i]: served.weights[i] for i in served.support} == pytest.approx(answer["weights"])
    rng = np.random.default_rng(1)
    batch = world.sample(10, rng)
    decisions = served.draw(batch.contexts, rng)
    np.testing.assert_array_equal(served.propensities(batch.contexts, decisions.lists), decisions.propensities)
    table = CliRunner().invoke(app, ["design", log, "-c", lists, *options])
    assert "Show a uniform list in 50% of rounds" in table.stdout


def test_design_with_text_items_writes_their_names(tmp_path: Path) -> None:
    rounds, policies = small_log(300)
    goods = [f"sku-{i:02d}" for i in range(20)]
    log, lists, catalogue, mixture = (tmp_path / n for n in ("log.csv", "lists.csv", "items.txt", "mixture.npz"))
    cb.write_rounds(rounds, log)
    cb.write_candidates(policies, np.arange(30), lists)
    by_number = ["design", str(log), "-c", str(lists), "--n-actions", "20", "--out", str(tmp_path / "plain.npz")]
    expected = json.loads(CliRunner().invoke(app, [*by_number, "--json"]).stdout)["weights"]
    for path in (log, lists):
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        columns = [j for j, name in enumerate(rows[0]) if name.startswith("item_")]
        for row in rows[1:]:
            row[:] = [goods[int(cell)] if j in columns else cell for j, cell in enumerate(row)]
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    catalogue.write_text("\n".join(goods))
    design = ["design", str(log), "-c", str(lists), "--out", str(mixture)]
    made = CliRunner().invoke(app, [*design, "--items", str(catalogue), "--json"])
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["weights"] == pytest.approx(expected)
    known = cb.read_candidates(lists, catalogue=cb.Catalogue(goods))
    served = cb.Mixture.load(mixture, known.policies())
    assert served.items is not None
    decisions = served.draw(np.arange(30), np.random.default_rng(1))
    assert set(served.items[decisions.lists].ravel()) <= set(goods)
    plain = cb.Mixture.load(tmp_path / "plain.npz", policies)
    assert plain.items is None
    np.testing.assert_allclose(served.propensities(np.arange(30)), plain.propensities(np.arange(30)))

    refused = CliRunner().invoke(app, design)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "give --n-actions N" in refused.stderr
    refused = CliRunner().invoke(app, [*design, "--n-actions", "20"])
    assert refused.exit_code == 1
    assert "the items are text, such as 'sku-" in refused.stderr
    assert "--items" in refused.stderr
    catalogue.write_text("\n".join([*goods, "sku-03"]))
    refused = CliRunner().invoke(app, [*design, "--items", str(catalogue)])
    assert "the keys of a catalogue must differ, but 'sku-03' is there twice" in refused.stderr


@pytest.mark.parametrize("learner", sorted(LEARNERS))
def test_simulate_runs_every_learner(learner: str) -> None:
    small = ["--rounds", "1200", "--candidates", "4", "--click-rate", "0.3", "--items", "30", "--json"]
    outcome = CliRunner().invoke(app, ["simulate", "--learner", learner, *small])
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout)["rounds"] <= 1200


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "csv", n=40)
    command = [
        sys.executable,
        "-c",
        "from comband.commands.cli import main; main()",
        "evaluate",
        str(log),
        "-c",
        str(lists),
    ]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*command, "--json"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert "comband:" not in done.stderr
    assert "Traceback" not in done.stderr


def test_bench_needs_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["bench"])
    assert outcome.exit_code == 1
    assert "run this in a clone" in outcome.stderr


@pytest.mark.parametrize("first", [True, False])
def test_quiet_stands_before_or_after_a_command_and_shows_no_progress(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Watched:
        def status(self, *_: object) -> object:
            shown.append("status")
            return nullcontext(SimpleNamespace(update=lambda _text: None))

        def print(self, *_: object, **__: object) -> None:
            pass

    def bar() -> Progress:
        shown.append("bar")
        return progress_bar()

    monkeypatch.setattr("comband.commands.common.remarks", Watched)
    monkeypatch.setattr("comband.worlds.running.progress_bar", bar)
    log, lists, mixture = (str(tmp_path / name) for name in ("log.parquet", "lists.parquet", "mixture.npz"))
    sizes = ["--learner", "uniform", "--rounds", "3000", "--candidates", "6", "--log", log, "--lists", lists]
    options = ["--n-actions", "100", "--sparsity", "1", "--out", mixture]
    commands = [["simulate", *sizes], ["evaluate", log, "-c", lists], ["design", log, "-c", lists, *options]]
    for command in commands:
        loud = CliRunner().invoke(app, command)
        assert loud.exit_code in (0, 3), loud.output
        assert shown
        shown.clear()
        quiet = CliRunner().invoke(app, ["--quiet", *command] if first else [*command, "--quiet"])
        assert quiet.exit_code in (0, 3), quiet.output
        assert shown == []
        assert quiet.stdout == loud.stdout
        assert quiet.stderr == ""


def interrupt_at(batch: int, monkeypatch: pytest.MonkeyPatch) -> list[cb.Batch]:
    """Ctrl-C while this batch is drawn; all that are drawn."""
    drawn, sample = list[cb.Batch](), cb.SyntheticRecommender.sample

    def interrupted(*given: Any) -> cb.Batch:
        drawn.append(sample(*given))
        if len(drawn) == batch:
            signal.raise_signal(signal.SIGINT)
        return drawn[-1]

    monkeypatch.setattr(cb.SyntheticRecommender, "sample", interrupted)
    return drawn


@pytest.mark.parametrize("command", ["demo", "simulate"])
def test_ctrl_c_keeps_what_was_found(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, batches = tmp_path / "report.html", interrupt_at(2, monkeypatch)
    before = signal.getsignal(signal.SIGINT)
    option = ["--report"] if command == "demo" else ["--html"]
    outcome = CliRunner().invoke(app, [command, "--candidates", "12", "--epsilon", "0.001", *option, str(report)])
    assert outcome.exit_code == 0, outcome.stderr
    assert len(batches) == 2  # the batch at hand, and no more
    assert signal.getsignal(signal.SIGINT) is before
    assert "Stopping" in outcome.stderr
    assert "Stopped early" in report.read_text(encoding="utf-8")
    assert "candidate" in outcome.stdout or "policy" in outcome.stdout


def test_a_second_ctrl_c_ends_at_once() -> None:
    with stoppable("nothing is kept") as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_columns_are_named_on_the_command_line_and_in_a_file(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "csv", n=60)
    expected = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--sparsity", "1", "--json"])
    for path, names in (
        (log, {"context": "user", "item_": "sku_"}),
        (lists, {"context": "who", "candidate": "ranker"}),
    ):
        header, rest = path.read_text().split("\n", 1)
        for ours, theirs in names.items():
            header = header.replace(ours, theirs)
        path.write_text(f"{header}\n{rest}")
    toml = tmp_path / "names.toml"
    toml.write_text('[log]\ncontext = "user"\nitem = "wrong"\n[candidates]\ncontext = "who"\n')
    command = ["evaluate", str(log), "-c", str(lists), "--sparsity", "1", "--json", "--columns", str(toml)]
    found = CliRunner().invoke(app, [*command, "--column", "item=sku, candidates.candidate=ranker"])
    assert found.exit_code == expected.exit_code == 3, found.stderr
    assert json.loads(found.stdout) == json.loads(expected.stdout)
    for wrong, words in (
        ("item", "--column takes pairs like item=sku"),
        ("lists.item=sku", "candidates as in candidates.item"),
        ("candidates.itme=sku", "did you mean item"),
    ):
        refused = CliRunner().invoke(app, [*command, "--column", wrong])
        assert refused.exit_code == 1
        assert words in refused.stderr
    for text, words in (
        ("[log", "is no TOML file"),
        ("item = 'sku'", "must hold tables"),
        ("[log]\nitem=3", "must hold"),
    ):
        toml.write_text(text)
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 1
        assert words in refused.stderr


def test_width_is_what_columns_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lists = write_both(tmp_path, "jsonl", n=60)
    command = ["evaluate", str(log), "-c", str(lists), "--sparsity", "1"]
    for columns, most in (("60", 60), ("100", 100), ("", 120), ("junk", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        shown = CliRunner().invoke(app, command)
        assert max(map(len, shown.stdout.splitlines())) <= most
    assert max(map(len, shown.stdout.splitlines())) > 100


@pytest.mark.parametrize("columns", ["30", "50", "70", "90"])
def test_no_number_is_cut_however_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    log, lists = write_both(tmp_path, "jsonl", n=60)
    command = ["evaluate", str(log), "-c", str(lists), "--sparsity", "1"]
    answer = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    monkeypatch.setenv("COLUMNS", columns)
    shown = CliRunner().invoke(app, command).stdout
    assert max(map(len, shown.splitlines())) <= int(columns)
    assert "…" not in shown
    for one in answer["candidates"]:
        bounds = [one["gap_bound"]] if one is not answer["candidates"][0] else []
        for number in (one["value"], *one["interval"], *bounds):
            assert f"{number:.5g}" in shown.split()


def test_a_log_without_clicks_has_no_column_for_what_is_better(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    cb.write_rounds(cb.Rounds(rounds.decisions, np.zeros_like(rounds.rewards)), tmp_path / "log.parquet")
    cb.write_candidates(policies, np.arange(30), tmp_path / "lists.parquet")
    command = ["evaluate", str(tmp_path / "log.parquet"), "-c", str(tmp_path / "lists.parquet")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 3
    assert shown.stdout.startswith("Cannot tell. No round brought a reward.")
    assert "better" not in shown.stdout
    assert "epsilon" not in shown.stdout


def test_the_package_is_the_command_too() -> None:
    shown = subprocess.run([sys.executable, "-m", "comband", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("comband ")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["simulate", "--rounds", "0"], "--rounds must be"),
        (["simulate", "--delta", "2"], "--delta must"),
        (["simulate", "--items", "3", "--slots", "5"], "--slots must"),
        (["simulate", "--learner", "x"], "--learner must be one of"),
        (["simulate", "--click-rate", "-1"], "--click-rate must"),
        (["plan", "--rounds-a-day", "0"], "--rounds-a-day must"),
        (["plan", "--candidates", "0"], "--candidates must"),
        (["demo", "--cap", "-1"], "--cap must"),
        (["reproduce", "--only", "nothing"], "--only must name claims"),
    ],
)
def test_errors_name_the_option(command: list[str], option: str) -> None:
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert f"comband: {option}" in refused.stderr


def test_json_is_strict_whatever_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    print_json({"a": float("nan"), "b": [1.5, float("inf"), {"c": -float("inf")}], "d": (1, None)})
    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document == {"a": None, "b": [1.5, None, {"c": None}], "d": [1, None]}


def test_every_command_that_answers_has_json(tmp_path: Path) -> None:
    for name in COMMANDS:
        if name != "serve":  # which answers over HTTP
            shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
            assert "--json" in shown.stdout, name
    report = str(tmp_path / "report.html")
    sizes = ["--items", "20", "--slots", "2", "--candidates", "3", "--cap", "0", "--epsilon", "0.1"]
    shown = CliRunner().invoke(app, ["demo", *sizes, "--report", report, "--json", "--quiet"])
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["report"] == report


def test_a_stopped_plan_shows_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(1, monkeypatch)
    sizes = ["--items", "20", "--slots", "2", "--candidates", "3", "--max-rounds", "1000", "--runs", "2"]
    shown = CliRunner().invoke(app, ["plan", *sizes, "--json"])
    assert shown.exit_code == 0, shown.stderr
    bases = {forecast["basis"] for forecast in json.loads(shown.stdout)["forecasts"]}
    assert bases == {"theorem"}  # the first method was not done
    assert "Stopping" in shown.stderr


def test_an_interrupted_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lists = write_both(tmp_path, "jsonl", n=20)

    def interrupted(*given: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("comband.commands.log_options.read_candidates", interrupted)
    shown = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists)])
    assert shown.exit_code == 130
    assert "comband: stopped." in shown.stderr


def test_reproduce_says_beforehand_what_figures_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comband.paper.figures.find_spec", lambda name: None)
    monkeypatch.setattr(import_module("comband.paper.reproducing"), "run_tasks", None)  # is not reached
    refused = CliRunner().invoke(app, ["reproduce", "--quick", "--out", str(tmp_path)])
    assert refused.exit_code == 1
    assert "needs matplotlib, which is not installed: pip install 'comband[plots]', or '.[plots]'" in refused.stderr


def strict(text: str) -> dict[str, Any]:
    """One JSON document without NaN and Infinity, which JSON does not have."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    document = json.loads(text, parse_constant=refuse)
    assert isinstance(document, dict)
    return document


def test_reproduce_answers_in_strict_json_and_an_interrupted_one_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comband.commands.reproduce.all_claims", lambda data: [toy()])
    command = ["reproduce", "--quick", "--workers", "1", "--out", str(tmp_path)]
    module = import_module("comband.paper.reproducing")

    def interrupted(tasks: Any, *given: Any, **options: Any) -> Any:
        run_tasks(tasks[:3], *given, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as only:
        only.setattr(module, "run_tasks", interrupted)
        shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 130
    assert "the same command goes on from there" in " ".join(shown.stderr.split())
    kept = (tmp_path / "results" / "toy.jsonl").read_text().splitlines()
    assert len(kept) == 3
    shown = CliRunner().invoke(app, [*command, "--json"])
    assert shown.exit_code == 0, shown.stderr
    assert strict(shown.stdout)["verdicts"] == {"toy": "supported"}
    assert (tmp_path / "results" / "toy.jsonl").read_text().splitlines()[:3] == kept


def test_bench_design_and_demo_answer_in_strict_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, lists = write_both(tmp_path, "parquet", n=300)
    options = ["--n-actions", str(PROBLEM.n_actions), "--sparsity", "1", "--out", str(tmp_path / "mixture.npz")]
    shown = CliRunner().invoke(app, ["design", str(log), "-c", str(lists), *options, "--json"])
    assert shown.exit_code == 0, shown.stderr
    assert sum(strict(shown.stdout)["weights"].values()) == pytest.approx(1)
    sizes = ["--items", "20", "--slots", "2", "--candidates", "3", "--cap", "0", "--epsilon", "0.1"]
    shown = CliRunner().invoke(app, ["demo", *sizes, "--report", str(tmp_path / "report.html"), "--json"])
    assert strict(shown.stdout)["epsilon"] <= 0.1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    for name in ("__init__", "__main__", "quickest"):
        (tmp_path / "benchmarks" / f"{name}.py").write_text("print(float('nan'))" if name == "quickest" else "")
    done = subprocess.run(
        [sys.executable, "-m", "comband", "bench", "quickest", "--json"], capture_output=True, text=True
    )
    assert strict(done.stdout) == {"benchmark": "quickest", "exit_code": 0, "lines": ["nan"]}


def test_simulate_looks_at_its_files_before_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any, **options: Any) -> Any:
        raise AssertionError("it ran")

    monkeypatch.setattr("comband.commands.simulate.run", never)
    log, text = tmp_path / "log.csv", tmp_path / "log.txt"
    for options, message in (
        (["--log", str(text)], "log.txt should end in .parquet, .csv or .jsonl"),
        (["--lists", str(text)], "log.txt should end in .parquet, .csv or .jsonl"),
        (["--log", str(log), "--lists", str(log)], "--log and --lists must name different files"),
        (["--log", str(log), "--lists", f"{tmp_path}/./log.csv"], "--log and --lists must name different files"),
        (["--lists", str(log), "--html", str(log)], "--lists and --html must name different files"),
    ):
        refused = CliRunner().invoke(app, ["simulate", *options])
        assert refused.exit_code == 1, refused.exception
        assert message in " ".join(refused.stderr.split())
    assert list(tmp_path.iterdir()) == []
