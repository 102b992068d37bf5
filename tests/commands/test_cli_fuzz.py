"""Every command with options that nobody should give: one sentence and an exit code, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from comband.commands.cli import app
from tests.evaluation.logs.worlds import write_both

EVALUATE = ["evaluate", "{log}", "-c", "{lists}"]
DESIGN = ["design", "{log}", "-c", "{lists}", "--n-actions", "20", "--out", "{folder}/m.npz"]
SIMULATE = ["simulate", "--rounds", "50", "--candidates", "3", "--items", "20", "--slots", "3"]
PLAN = ["plan", "--runs", "0"]
DEMO = ["demo", "--cap", "0", "--report", "{folder}/r.html"]

CASES = [
    *([*EVALUATE, "--delta", value] for value in ("nan", "inf", "-1", "0", "1", "1e-320", "x")),
    *([*EVALUATE, "--sparsity", value] for value in ("nan", "inf", "-inf", "0", "1e-320", "1e308", "0.5")),
    *([*EVALUATE, "--min-propensity", value] for value in ("nan", "inf", "0", "-1", "1e-320", "2", "1")),
    *([*EVALUATE, "--n-actions", value] for value in ("0", "-1", "1", "9" * 30, "1.5", "2147483647", "2147483648")),
    *([*EVALUATE, "--top", value] for value in ("-1", "0", "9" * 30)),
    *([*EVALUATE, "--context", value] for value in ("", "[/]", "id", "\x1b", "item_0", "x" * 5000)),
    *([*EVALUATE, "--format", value] for value in ("", "obd", "obp", "vw", "[/]")),
    *([*EVALUATE, "--items", value] for value in ("{folder}", "{log}", "{folder}/absent", "{blank}", "{bytes}", "")),
    *([*EVALUATE, "--html", value] for value in ("{folder}", "{folder}/no/x.html", "", "a\x00b", "x" * 5000)),
    *(
        ["evaluate", value, "-c", "{lists}"]
        for value in ("{folder}", "{blank}", "{bytes}", "", "a\x00b.csv", "{lists}", "/dev/null")
    ),
    ["evaluate", "{log}", "-c", "{log}"],
    ["evaluate", "{bytes}.csv", "-c", "{bytes}.csv"],
    *([*DESIGN, "--floor", value] for value in ("nan", "0", "-1", "2", "1e-320", "1")),
    *([*DESIGN, "--out", value] for value in ("{folder}", "{folder}/no/x.npz", "", "a\x00b")),
    *([*DESIGN, "--sparsity", value] for value in ("nan", "0", "1e308", "1e-320")),
    *(
        [*SIMULATE, *more]
        for more in (["--rounds", "0"], ["--rounds", "-5"], ["--candidates", "0"], ["--candidates", "-1"])
    ),
    *([*SIMULATE, *more] for more in (["--items", "0"], ["--items", "9" * 12], ["--slots", "0"], ["--slots", "21"])),
    *([*SIMULATE, "--click-rate", value] for value in ("nan", "0", "-1", "2", "inf")),
    *([*SIMULATE, "--epsilon", value] for value in ("nan", "0", "-1", "5", "1e-320", "inf")),
    *([*SIMULATE, *more] for more in (["--delta", "0"], ["--delta", "nan"], ["--seed", "-1"], ["--seed", "9" * 40])),
    *(
        [*SIMULATE, *more]
        for more in (["--log", "{folder}/x.txt"], ["--log", "{folder}"], ["--lists", "{folder}/no/x.csv"])
    ),
    *([*PLAN, *more] for more in (["--items", "0"], ["--slots", "0"], ["--sparsity", "0"], ["--candidates", "0"])),
    *([*PLAN, "--click-rate", value] for value in ("nan", "0", "-1", "5", "1e-320", "inf")),
    *([*PLAN, "--epsilon", value] for value in ("nan", "0", "-1", "5", "1e-320", "inf", "1e-200")),
    *([*PLAN, *more] for more in (["--delta", "1"], ["--delta", "1e-320"], ["--rounds-a-day", "0"], ["--runs", "-1"])),
    *(
        [*PLAN, *more]
        for more in (["--rounds-a-day", "nan"], ["--seed", "-1"], ["--items", "9" * 30], ["--candidates", "9" * 30])
    ),
    *(
        [*DEMO, *more]
        for more in (["--items", "0"], ["--candidates", "0"], ["--epsilon", "0"], ["--delta", "nan"], ["--cap", "-1"])
    ),
    *([*DEMO, *more] for more in (["--epsilon", "9"], ["--click-rate", "nan"], ["--seed", "-1"], ["--slots", "-3"])),
    ["reproduce", "--only", "[/]\x1b"],
    ["reproduce", "--only", "errata", "--workers", "0", "--out", "{folder}/out"],
    ["reproduce", "--quick", "--data", "{folder}/absent", "--only", "nothing"],
    ["bench", "../etc/passwd"],
    ["bench", "[/]\x1b[31m"],
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cli")
    log, lists = write_both(folder, "csv", n=40)
    blank, odd = folder / "blank.csv", folder / "odd"
    blank.write_text("")
    for path in (odd, folder / "odd.csv"):
        path.write_bytes(b"\xff\x00\x1b[31m\n\n")
    return {"folder": folder, "log": log, "lists": lists, "blank": blank, "bytes": odd}


def _name(case: list[str]) -> str:
    return "-".join(part[:20] for part in case if "{" not in part)


@pytest.mark.parametrize("case", CASES[::2], ids=_name)
def test_any_option_ends_in_an_answer_or_a_sentence(files: dict[str, Path], case: list[str]) -> None:
    _check(files, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[1::2], ids=_name)
def test_any_other_option_does_too(files: dict[str, Path], case: list[str]) -> None:
    _check(files, case)


def _check(files: dict[str, Path], case: list[str]) -> None:
    outcome = CliRunner().invoke(app, [part.format(**files) for part in case])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), repr(outcome.exception)
    assert outcome.exit_code in (0, 1, 2, 3)
    assert "Traceback" not in outcome.stderr
    assert "\x1b" not in outcome.stdout + outcome.stderr
    if outcome.exit_code == 1 and "THE PROPENSITIES" not in outcome.stdout:
        said = [line for line in outcome.stderr.splitlines() if line.strip()]
        assert said[-1].startswith("comband: "), outcome.stderr
        assert len(said[-1]) < 6000
