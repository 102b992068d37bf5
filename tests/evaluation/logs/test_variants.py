"""One small click log, written as different programs and people write it: the same values, or a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation.logs import read_predictions
from comband.evaluation.logs.listed import EveryContext
from tests.documents import ROOT

CLICKS = pd.read_csv(ROOT / "examples" / "data" / "clicks.csv").head(600)
LISTS = pd.read_csv(ROOT / "examples" / "data" / "lists.csv")
SLOTS = [name for name in LISTS.columns if name.startswith("item_")]
Frame = Any


def _values(log: Any, lists: Any, **how: Any) -> dict[str, float]:
    reading = cb.read_log(log, lists, context=["segment"], sparsity=1, **how)
    return {one.name: one.value for one in cb.evaluate_log(reading).evaluation.candidates}


EXPECTED = _values(CLICKS, LISTS)


def _by_hand() -> dict[str, float]:
    own = LISTS.set_index(["candidate", "context"])[SLOTS]
    rows = CLICKS[CLICKS.click > 0]
    n = CLICKS.request_id.nunique()
    return {
        name: sum((row.item_id in set(own.loc[name, row.segment])) / row.propensity for row in rows.itertuples()) / n
        for name in LISTS.candidate.unique()
    }


def test_the_values_are_those_by_hand() -> None:
    assert pytest.approx(_by_hand(), rel=1e-12) == EXPECTED
    assert len(set(EXPECTED.values())) == 3


def _csv(**how: Any) -> Callable[[Frame, Path], Any]:
    return lambda frame, path: frame.to_csv(path, index=False, **how)


def _said(words: dict[int, str]) -> Callable[[Frame, Path], Any]:
    return lambda frame, path: frame.assign(click=frame.click.map(words)).to_csv(path, index=False)


def _called(names: dict[str, str]) -> Callable[[Frame, Path], Any]:
    return lambda frame, path: frame.rename(columns=names).to_csv(path, index=False)


def _timed(spelt: str) -> Callable[[Frame, Path], Any]:
    def write(frame: Frame, path: Path) -> None:
        seconds = pd.to_timedelta(7 * frame.groupby("request_id", sort=False).ngroup(), unit="s")
        times = (pd.Timestamp("2024-02-03") + seconds).dt.strftime(spelt)
        frame.assign(request_id=times).to_csv(path, index=False)

    return write


def _wide(name: str = "{}_{}", first: int = 1) -> Callable[[Frame, Path], Any]:
    def write(frame: Frame, path: Path) -> None:
        rows = []
        for request, part in frame.groupby("request_id", sort=False):
            row = {"request_id": request, "segment": part.segment.iloc[0]}
            for k, shown in enumerate(part.itertuples(), first):
                row |= {name.format("sku", k): shown.item_id, name.format("click", k): shown.click}
                row |= {name.format("propensity", k): shown.propensity}
            rows.append(row)
        pd.DataFrame(rows).to_csv(path, index=False)

    return write


def _listed(spell: Callable[[list[Any]], str]) -> Callable[[Frame, Path], Any]:
    def write(frame: Frame, path: Path) -> None:
        rows = []
        for request, part in frame.groupby("request_id", sort=False):
            lists = {"items": part.item_id, "clicks": part.click, "propensities": part.propensity}
            spelt = {key: spell(column.tolist()) for key, column in lists.items()}
            rows.append({"request_id": request, "segment": part.segment.iloc[0], **spelt})
        pd.DataFrame(rows).to_csv(path, index=False)

    return write


def _nested(frame: Frame, path: Path) -> None:
    lines = []
    for request, part in frame.groupby("request_id", sort=False):
        lists = {"item_ids": part.item_id.tolist(), "clicks": part.click.tolist(), "pscores": part.propensity.tolist()}
        lines.append(json.dumps({"request_id": request, "segment": part.segment.iloc[0], **lists}))
    path.write_text("\n".join(lines))


LOGS: dict[str, tuple[str, Callable[[Frame, Path], Any]]] = {
    "tabs": ("log.tsv", _csv(sep="\t")),
    "tabs in text": ("log.txt", _csv(sep="\t")),
    "tabs, packed": ("log.tsv.gz", _csv(sep="\t")),
    "bars": ("log.csv", _csv(sep="|")),
    "semicolons": ("log.csv", _csv(sep=";")),
    "a byte order mark": ("log.csv", _csv(encoding="utf-8-sig")),
    "all quoted": ("log.csv", _csv(quoting=1)),
    "lines of Windows": ("log.csv", _csv(lineterminator="\r\n")),
    "an index": ("log.csv", lambda frame, path: frame.to_csv(path)),
    "in any order": ("log.csv", lambda frame, path: frame.sample(frac=1, random_state=1).to_csv(path, index=False)),
    "true and false": ("log.csv", _said({0: "False", 1: "True"})),
    "t and f": ("log.csv", _said({0: "f", 1: "t"})),
    "yes and no": ("log.csv", _said({0: "no", 1: "Yes"})),
    "names with spaces": ("log.csv", _called({"request_id": "Request ID", "item_id": "Item ID", "click": "Clicked"})),
    "names in camel case": ("log.csv", _called({"request_id": "requestId", "propensity": "propensityScore"})),
    "times as ids": ("log.csv", _timed("%Y-%m-%d %H:%M:%S")),
    "times of a zone": ("log.csv", _timed("%Y-%m-%dT%H:%M:%S.000Z")),
    "a column for each slot": ("log.csv", _wide()),
    "slots from 0": ("log.csv", _wide(first=0)),
    "slots without underscore": ("log.csv", _wide("{}{}")),
    "lists as Python prints them": ("log.csv", _listed(str)),
    "lists as JSON": ("log.csv", _listed(json.dumps)),
    "lists as numpy prints them": ("log.csv", _listed(lambda row: f"[{' '.join(map(str, row))}]")),
    "lists with bars": ("log.csv", _listed(lambda row: "|".join(map(str, row)))),
    "lists in JSON lines": ("log.json", _nested),
}


@pytest.mark.parametrize("variant", LOGS)
def test_a_log_however_it_is_written_has_the_same_values(variant: str, tmp_path: Path) -> None:
    name, write = LOGS[variant]
    write(CLICKS, tmp_path / name)
    assert _values(tmp_path / name, LISTS) == pytest.approx(EXPECTED, rel=1e-12)


def _by_item(frame: Frame) -> Frame:
    rows = frame.melt(id_vars=["context", "candidate"], value_vars=SLOTS, var_name="rank", value_name="item_id")
    rows["rank"] = rows["rank"].str.removeprefix("item_").astype(int) + 1
    return rows.sample(frac=1, random_state=2)


CANDIDATES: dict[str, Callable[[Frame], Frame]] = {
    "another word for candidates": lambda frame: frame.rename(columns={"candidate": "policy"}),
    "another word for items": lambda frame: frame.rename(columns={old: f"sku_{old[-1]}" for old in SLOTS}),
    "the log's context": lambda frame: frame.rename(columns={"context": "segment"}),
    "a row for each item": _by_item,
    "lists as text": lambda frame: frame.assign(items=frame[SLOTS].values.tolist()).drop(columns=SLOTS),
}


@pytest.mark.parametrize("variant", CANDIDATES)
def test_candidates_however_they_are_written_have_the_same_values(variant: str, tmp_path: Path) -> None:
    path = tmp_path / "lists.csv"
    CANDIDATES[variant](LISTS).to_csv(path, index=False)
    assert _values(CLICKS, path) == pytest.approx(EXPECTED, rel=1e-12)
    CLICKS.to_csv(tmp_path / "log.csv", index=False)
    options = ["--context", "segment", "--sparsity", "1", "--json", "--exit-zero"]
    files = [[str(tmp_path / "log.csv")], [str(tmp_path / "log.csv"), str(tmp_path / "more.csv")]]
    CLICKS.assign(request_id=CLICKS.request_id + "b").to_csv(tmp_path / "more.csv", index=False)
    for logs in files:  # one file, and shards, which read the lists in another way
        made = CliRunner().invoke(app, ["evaluate", *logs, "-c", str(path), *options])
        assert made.exit_code == 0, made.stderr
        told = json.loads(made.stdout)["candidates"]
        assert {one["name"]: one["value"] for one in told} == pytest.approx(EXPECTED, rel=1e-12)


def test_the_ranks_of_a_list_count_where_propensities_are_per_position(tmp_path: Path) -> None:
    placed = CLICKS.assign(position=CLICKS.groupby("request_id").cumcount() + 1)
    rows = _by_item(LISTS)
    by_rank = _values(placed, rows, format="impressions-by-position")
    assert by_rank == pytest.approx(_values(placed, LISTS, format="impressions-by-position"), rel=1e-12)
    upside_down = rows.assign(rank=4 - rows["rank"])
    assert _values(placed, upside_down, format="impressions-by-position") != pytest.approx(by_rank, rel=1e-6)


def test_lists_without_a_context_are_for_every_context() -> None:
    same = LISTS[LISTS.context == "s0"].drop(columns="context")
    candidates = cb.read_candidates(same)
    assert isinstance(candidates.contexts, EveryContext)
    everywhere = pd.concat([same.assign(context=name) for name in LISTS.context.unique()])
    assert _values(CLICKS, candidates) == pytest.approx(_values(CLICKS, everywhere), rel=1e-12)
    with pytest.raises(cb.LogError, match="column context is missing; it tells what the list is for"):
        cb.read_candidates(LISTS.drop(columns="context"))
    said = pd.DataFrame({"context": ["s0", "s1"], "item": "sku-1", "prediction": 0.1})
    with pytest.raises(cb.LogError, match="lists do not depend on the context"):
        read_predictions(said, candidates)


def test_several_columns_of_a_context_are_joined_by_the_user(tmp_path: Path) -> None:
    lists = LISTS.rename(columns={"context": "segment"}).assign(device="phone")
    log = CLICKS.assign(device="phone")
    with pytest.raises(cb.LogError, match=r"column context that holds them joined with \"|\""):
        cb.read_log(log, lists, context=["segment", "device"])
    joined = LISTS.assign(context=LISTS.context + "|phone")
    reading = cb.read_log(log, joined, context=["segment", "device"], sparsity=1)
    assert {one.name: one.value for one in cb.evaluate_log(reading).evaluation.candidates} == EXPECTED


# ---- pages of different lengths --------------------------------------------------------------------------------------


def test_pages_of_different_lengths_cut_the_lists(tmp_path: Path) -> None:
    """Every other request loses its last row: of a list of three, a page with two places shows the first two."""
    number = CLICKS.groupby("request_id", sort=False).ngroup()
    place = CLICKS.groupby("request_id").cumcount()
    log = CLICKS[(number % 2 == 0) | (place < 2)].sample(frac=1, random_state=3)
    two = set(log.groupby("request_id").size().pipe(lambda size: size[size == 2]).index)
    own = LISTS.set_index(["candidate", "context"])[SLOTS]
    n, rows = log.request_id.nunique(), log[log.click > 0]
    expected = {
        name: sum(
            (row.item_id in set(own.loc[name, row.segment][: 2 if row.request_id in two else 3])) / row.propensity
            for row in rows.itertuples()
        )
        / n
        for name in LISTS.candidate.unique()
    }
    assert _values(log, LISTS, format="impressions-uneven") == pytest.approx(expected, rel=1e-12)
    log.to_csv(tmp_path / "log.csv", index=False)
    LISTS.to_csv(tmp_path / "lists.csv", index=False)
    shards = cb.evaluate_log(
        [tmp_path / "log.csv"],
        tmp_path / "lists.csv",
        context=["segment"],
        sparsity=1,
        format="impressions-uneven",
    )
    assert {one.name: one.value for one in shards.evaluation.candidates} == pytest.approx(expected, rel=1e-12)
    with pytest.raises(cb.LogError, match=r"has 2 rows, 3 expected \(if pages differ so: --format impressions-uneven"):
        _values(log, LISTS)
    more = pd.concat([log, log.assign(item_id=log.item_id + "x")])  # up to six rows where lists have three items
    with pytest.raises(cb.LogError, match="6 rows, 3 expected"):
        _values(more, LISTS, format="impressions-uneven")


def test_a_uneven_log_is_read_so_only_where_that_is_said() -> None:
    reading = cb.read_log(CLICKS, LISTS, context=["segment"])
    assert reading.format.name == "impressions"


# ---- slots that count from 0 -----------------------------------------------------------------------------------------


def _one_slot(first: int) -> Frame:
    rng = np.random.default_rng(4)
    items, positions = rng.integers(0, 4, size=400), rng.integers(0, 3, size=400)
    clicks = (rng.random(400) < 0.2 + 0.1 * items).astype(int)
    return pd.DataFrame({"item": items, "position": positions + first, "click": clicks, "propensity": 0.25})


def test_slots_of_single_rows_count_from_0_or_from_1(tmp_path: Path) -> None:
    lists = pd.DataFrame({"candidate": ["a", "b"], "item_0": [0, 3], "item_1": [1, 2], "item_2": [2, 1]})
    found = {}
    for first in (0, 1):
        log = _one_slot(first)
        for names in ({}, {"item": "item_id", "propensity": "propensity_score"}):  # any click log; Open Bandit's
            values = cb.evaluate_log(cb.read_log(log.rename(columns=names), lists)).evaluation.candidates
            found[first, len(names)] = {one.name: one.value for one in values}
    assert len({json.dumps(one, sort_keys=True) for one in found.values()}) == 1
    mixed = pd.concat([_one_slot(0), _one_slot(1)])
    with pytest.raises(cb.LogError, match=r"wrong position .*position 3 is not among 0 … 2"):
        cb.read_log(mixed, lists)
    for first in (0, 1):
        _one_slot(first).to_csv(tmp_path / f"{first}.csv", index=False)
    lists.to_csv(tmp_path / "lists.csv", index=False)
    with pytest.raises(cb.LogError, match="all files of a log must count positions alike"):
        cb.evaluate_log([tmp_path / "0.csv", tmp_path / "1.csv"], tmp_path / "lists.csv")


# ---- what is refused, in words that help -----------------------------------------------------------------------------


def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    def refused(log: Frame, words: str) -> None:
        with pytest.raises(cb.LogError, match=words):
            _values(log, LISTS)

    refused(
        CLICKS.drop(columns="click"), "column reward is missing .*tells what an item brought; .*request_id, item_id"
    )
    refused(CLICKS.drop(columns="request_id"), "column round is missing .*tells which rows were shown together")
    refused(CLICKS.rename(columns={"propensity": "p"}), "docs/howto_no_propensities.md")
    CLICKS.to_csv(tmp_path / "comma.csv", sep=";", decimal=",", index=False)
    refused(tmp_path / "comma.csv", "propensity must be numbers, got '0,.*; write numbers with a decimal point")
    CLICKS.to_json(tmp_path / "array.json", orient="records")
    refused(tmp_path / "array.json", "is one JSON array; write one object per line")
    (tmp_path / "array.json.gz").write_bytes(gzip.compress((tmp_path / "array.json").read_bytes()))
    refused(tmp_path / "array.json.gz", "is one JSON array; write one object per line")
    CLICKS.to_csv(tmp_path / "log.csv.bz2", index=False)
    refused(tmp_path / "log.csv.bz2", "so that its kind is known; unpack it first")
    refused(CLICKS.assign(click=CLICKS.click.where(CLICKS.click > 0)), r"has no reward \(write 0 for none\)")
    refused(CLICKS.assign(click=5 * CLICKS.click), "reward 5 of item .* divide by the largest there can be")
    with pytest.raises(cb.LogError, match=r"\(lists are for s0, s1, s10, …; --context names the log's column"):
        cb.read_log(CLICKS, LISTS)
