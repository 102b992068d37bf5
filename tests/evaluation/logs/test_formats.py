"""A log format is one object: a toy one, defined here alone, is read through every public entry."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation.logs import Faults, LogFormat, RawRounds, register
from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.registry import FORMATS, find_format
from comband.evaluation.logs.tables import TableFile
from tests.evaluation.logs.worlds import write_both

COLUMNS = ("visitor", "shown", "gained", "odds")


def _rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Lists as text with bars between, and odds of "one in so many"."""
    for piece in table.pieces(COLUMNS, faults):
        texts = {name: as_keys(piece.columns[name]).values.astype(str) for name in COLUMNS}
        shown, gained, odds = ([text.split("|") for text in texts[name]] for name in COLUMNS[1:])
        yield RawRounds(
            rows=piece.rows,
            ids=None,
            contexts=texts["visitor"].astype(np.int64),
            items=np.array(shown, dtype=np.int64),
            rewards=np.array(gained, dtype=np.float64),
            propensities=1 / np.array(odds, dtype=np.float64),
        )


TOY = LogFormat(
    name="bars", title="a toy", rounds=_rounds, columns=COLUMNS, meaning="propensities are one over the odds"
)


@pytest.fixture
def toy() -> Iterator[LogFormat]:
    yield register(TOY)
    del FORMATS["bars"]


def _files(folder: Path) -> tuple[Path, Path, Path]:
    """comband's own log and lists of a small world, and the same log as the toy has it."""
    native, lists = write_both(folder, "csv", 400)
    path = folder / "toy.csv"
    with path.open("w", newline="") as file, native.open() as own:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in csv.DictReader(own):
            items, rewards, odds = ([row[f"{name}_{k}"] for k in range(3)] for name in ("item", "reward", "propensity"))
            odds = [repr(1 / float(q)) for q in odds]
            writer.writerow([row["context"], *("|".join(part) for part in (items, rewards, odds))])
    return path, native, lists


def _same(reading: cb.evaluation.logs.LogReading, other: cb.evaluation.logs.LogReading) -> None:
    for name in ("ids", "contexts", "rows", "actions"):
        assert (getattr(reading.events, name) == getattr(other.events, name)).all()
    np.testing.assert_allclose(reading.events.propensities, other.events.propensities, rtol=1e-12)
    assert reading.events.n_rounds == other.events.n_rounds


def test_a_format_is_read_when_it_is_given_registered_or_found(tmp_path: Path, toy: LogFormat) -> None:
    log, native, lists = _files(tmp_path)
    candidates = cb.read_candidates(lists)
    own = cb.read_log(native, candidates, sparsity=1)
    assert own.format.name == "comband"
    for format in (toy, "bars", "auto"):
        reading = cb.read_log(log, candidates, format=format, sparsity=1)
        assert reading.format is toy
        _same(reading, own)
    values = [c.value for c in cb.evaluate_log(own).evaluation.candidates]
    assert [c.value for c in cb.evaluate_log(reading).evaluation.candidates] == pytest.approx(values, rel=1e-12)


def test_commands_read_a_registered_format_and_one_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: LogFormat
) -> None:
    log, native, lists = _files(tmp_path)
    (tmp_path / "bars_format.py").write_text("from tests.evaluation.logs.test_formats import TOY as BARS\n")
    monkeypatch.syspath_prepend(tmp_path)
    answers = {}
    for path, format in ((native, "auto"), (log, "bars"), (log, "auto"), (log, "bars_format:BARS")):
        outcome = CliRunner().invoke(
            app, ["evaluate", str(path), "-c", str(lists), "--sparsity", "1", "--format", format, "--json"]
        )
        assert outcome.exit_code in (0, 3), outcome.stderr
        answers[path.name, format] = json.loads(outcome.stdout)
    own = answers.pop((native.name, "auto"))
    for answer in answers.values():
        assert answer["format"] == "bars"
        assert answer["propensity_meaning"] == "propensities are one over the odds"
        assert answer["best"] == own["best"]
        assert answer["epsilon"] == pytest.approx(own["epsilon"], rel=1e-9)


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("bars", "format must be one of auto, comband, impressions.*, obd, obp, vw.*, got 'bars'"),
        (7, "format must be one of"),
    ],
)
def test_a_format_that_is_not_registered_is_refused(tmp_path: Path, format: str, words: str) -> None:
    log, _, lists = _files(tmp_path)
    with pytest.raises(cb.InputError, match=words):
        cb.read_log(log, cb.read_candidates(lists), format=format)


@pytest.mark.parametrize("name", ["nowhere:BARS", "comband:nothing", ":", ".x:y", "comband.evaluation.logs:read_log"])
def test_commands_refuse_a_format_that_cannot_be_imported(tmp_path: Path, name: str) -> None:
    log, _, lists = _files(tmp_path)
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--format", name])
    assert outcome.exit_code == 1
    assert f"--format {name}" in outcome.stderr


def test_names_are_taken_once(toy: LogFormat) -> None:
    another = replace(toy, title="another")
    assert register(another) is FORMATS["bars"] is another
    for taken in (replace(toy, name="auto"), replace(toy, name="vw")):
        with pytest.raises(cb.InputError, match="which is taken"):
            register(taken)
    with pytest.raises(cb.InputError, match="must be a LogFormat"):
        register("bars")  # type: ignore[arg-type]


def test_the_format_that_lacks_the_smallest_share_is_found(tmp_path: Path, toy: LogFormat) -> None:
    def found(*names: str) -> str:
        (tmp_path / "log.jsonl").write_text(json.dumps(dict.fromkeys(names, 1)))
        return find_format("auto", TableFile(tmp_path / "log.jsonl", "jsonl", names))[0].name

    assert found(*COLUMNS) == found(*COLUMNS[:3], "context") == "bars"
    assert found("nothing", "of", "all") == "comband"
    assert found("item_id", "position", "click", "propensty_score") == "obd"
    assert found("slate_id", "position", "action", "reward") == "obp"
    assert found(*COLUMNS, "_outcomes") == "vw"
    assert found("context", "item_0", "reward_0", "propensity_0", "position") == "comband"
    more = LogFormat(
        "versioned", _rounds, columns=("context", "items", "rewards", "propensities", "version"), meaning=""
    )
    register(more)
    try:
        assert found("context", "items", "rewards", "propensities") == "comband"
        assert found("context", "items", "rewards", "propensities", "version") == "versioned"
    finally:
        del FORMATS["versioned"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda batch: None, "must yield RawRounds"),
        (lambda batch: replace(batch, rewards=batch.rewards[:, :1]), r"rewards of shape \(400, "),
        (lambda batch: replace(batch, contexts=batch.contexts[1:]), r"contexts of shape \(400,\), got \(399,\)"),
        (lambda batch: replace(batch, positions=batch.items), "must be positional"),
    ],
)
def test_batches_of_the_wrong_form_are_refused(tmp_path: Path, change: Callable[[RawRounds], Any], words: str) -> None:
    log, _, lists = _files(tmp_path)
    broken = replace(TOY, rounds=lambda *given: map(change, _rounds(*given)))
    with pytest.raises(cb.InputError, match=words):
        cb.read_log(log, cb.read_candidates(lists), format=broken, sparsity=1)
