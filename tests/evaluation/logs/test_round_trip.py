"""Rounds written to files and read back give the same numbers as in memory."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from tests.evaluation.logs.worlds import PROBLEM, small_log, write_both

KINDS = ["parquet", "csv", "jsonl"]


@pytest.mark.parametrize("lists_kind", KINDS)
@pytest.mark.parametrize("log_kind", KINDS)
def test_every_pair_of_formats_reads_back_number_for_number(tmp_path: Path, log_kind: str, lists_kind: str) -> None:
    rounds, policies = small_log()
    log, _ = write_both(tmp_path, log_kind)
    _, lists = write_both(tmp_path, lists_kind)
    candidates = cb.read_candidates(lists, n_actions=20)
    assert candidates.names == policies.names
    reading = cb.read_log(log, candidates, sparsity=1)
    expected = rounds.events()
    assert reading.events.n_rounds == expected.n_rounds
    np.testing.assert_array_equal(reading.events.rewards, expected.rewards)
    np.testing.assert_array_equal(reading.events.propensities, expected.propensities)
    np.testing.assert_array_equal(reading.events.actions, expected.actions)
    np.testing.assert_array_equal(reading.events.contexts, expected.contexts)
    assert reading.smallest_propensity == rounds.decisions.propensities.min()
    assert cb.evaluate_log(reading).evaluation == cb.evaluate(rounds, policies, max_reward=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_what_the_api_computes(tmp_path: Path, kind: str) -> None:
    rounds, policies = small_log()
    log, lists = write_both(tmp_path, kind)
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--sparsity", "1", "--json"])
    assert outcome.exit_code in (0, 3), outcome.stderr
    printed = json.loads(outcome.stdout)
    expected = cb.evaluate(rounds, policies, max_reward=PROBLEM.max_reward)
    assert printed["epsilon"] == expected.epsilon
    assert [c["value"] for c in printed["candidates"]] == [c.value for c in expected.candidates]
    assert [tuple(c["interval"]) for c in printed["candidates"]] == [c.interval for c in expected.candidates]
    assert printed["best"] == expected.best.name


def test_feature_contexts_are_named_by_round_or_as_asked(tmp_path: Path) -> None:
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.3, seed=1)
    policies = world.candidates(4, seed=2)
    rng = np.random.default_rng(3)
    batch = world.sample(300, rng)
    decisions = cb.Mixture(policies, np.full(4, 0.25), problem=PROBLEM, floor=0.5).draw(batch.contexts, rng)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    expected = cb.evaluate(rounds, policies, max_reward=1)
    names = np.array([f"user {i:03}" for i in range(300)])
    for ids in (None, names):
        cb.write_rounds(rounds, tmp_path / "log.parquet", context_ids=ids)
        cb.write_candidates(policies, batch.contexts, tmp_path / "lists.csv", context_ids=ids)
        reading = cb.read_log(tmp_path / "log.parquet", cb.read_candidates(tmp_path / "lists.csv"), sparsity=1)
        assert cb.evaluate_log(reading).evaluation == expected


def test_batches_are_written_as_one_log_and_shards_add(tmp_path: Path) -> None:
    rounds, policies = small_log()
    halves = [cb.Rounds(rounds.decisions[part], rounds.rewards[part]) for part in (slice(0, 150), slice(150, None))]
    cb.write_rounds(iter(halves), tmp_path / "whole.parquet")
    cb.write_candidates(policies, np.arange(30), tmp_path / "lists.parquet")
    candidates = cb.read_candidates(tmp_path / "lists.parquet")
    whole = cb.read_log(tmp_path / "whole.parquet", candidates, sparsity=1)
    parts = []
    for i, half in enumerate(halves):
        cb.write_rounds(half, tmp_path / f"{i}.csv")
        parts.append(cb.read_log(tmp_path / f"{i}.csv", candidates, sparsity=1).events)
    settings: dict[str, Any] = {"max_reward": 1.0, "min_propensity": whole.smallest_propensity}
    apart, together = cb.evaluate(parts[0] + parts[1], policies, **settings), cb.evaluate(rounds, policies, **settings)
    assert (apart.candidates, apart.epsilon) == (together.candidates, together.epsilon)


def test_text_items_and_contexts(tmp_path: Path) -> None:
    log, lists = tmp_path / "log.jsonl", tmp_path / "lists.csv"
    lists.write_text(
        "context,candidate,item_0,item_1\nann,a,tea,rice\nann,b,salt,tea\n007,a,rice,salt\n007,b,tea,rice\n"
    )
    log.write_text(
        '{"id": "r1", "context": "ann", "items": ["tea", "mace"], "rewards": [1, 0], "propensities": [0.5, 0.25]}\n'
        '{"id": "r2", "context": "007", "items": ["salt", "rice"], "rewards": [0, 0.5], "propensities": [0.5, 0.25]}\n'
    )
    reading = cb.read_log(log, cb.read_candidates(lists))
    values = {c.name: c.value for c in cb.evaluate_log(reading).evaluation.candidates}
    # a: tea for ann 1/.5, rice for 007 .5/.25; b the same: (2 + 2) / 2 rounds each
    assert values == {"a": 2.0, "b": 2.0}
    known = cb.read_candidates(lists, catalogue=cb.Catalogue(["tea", "rice", "salt"]))
    with pytest.raises(cb.LogError, match="item mace is not in the catalogue"):
        cb.read_log(log, known)


def test_long_parquet_is_read_too(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    _, wide = write_both(tmp_path, "parquet")
    reference = cb.read_candidates(wide)
    rows = [(c, name, reference.lists[p, c].tolist()) for c in range(30) for p, name in enumerate(reference.names)]
    contexts, names, items = zip(*rows, strict=True)
    pq.write_table(pa.table({"candidate": names, "context": contexts, "items": items}), tmp_path / "long.parquet")
    found = cb.read_candidates(tmp_path / "long.parquet")
    assert found.names == reference.names
    np.testing.assert_array_equal(found.lists, reference.lists)


def test_an_unfinished_write_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> object:
        yield small_log(10)[0]
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        cb.write_rounds(broken(), tmp_path / "log.parquet")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


FORMULAS = [
    "=1+1",
    "+x",
    "-y",
    "@z",
    "\tt",
    "'=1",
    "''-q",
    "it's",
    "'plain",
    "-5",
    "[/]",
    'say "hi"',
    "a,b",
    "\x1b[31m",
]


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_a_spreadsheet_would_run_is_marked_and_read_back(tmp_path: Path, kind: str) -> None:
    rounds, plain = small_log(60)
    lists = np.stack([plain.predict(np.arange(30))[:, p % 5] for p in range(len(FORMULAS))])
    policies = cb.PolicySet.from_lists(lists, PROBLEM, names=FORMULAS)
    names = np.array([f"{text}{i}" for i, text in enumerate(FORMULAS * 3)][:30], dtype=object)
    cb.write_rounds(rounds, tmp_path / f"log.{kind}", context_ids=names[rounds.decisions.contexts])
    cb.write_candidates(policies, np.arange(30), tmp_path / f"lists.{kind}", context_ids=names)
    candidates = cb.read_candidates(tmp_path / f"lists.{kind}")
    assert candidates.names == tuple(FORMULAS)
    assert set(candidates.contexts.keys) == set(names)
    reading = cb.read_log(tmp_path / f"log.{kind}", candidates, sparsity=1)
    assert cb.evaluate_log(reading).evaluation == cb.evaluate(rounds, policies, max_reward=1)
    if kind == "csv":
        cells = [cell for row in csv.reader((tmp_path / "lists.csv").read_text().splitlines()) for cell in row]
        assert [cell for cell in cells if cell[:1] in "=+@\t" and cell] == []
        assert all(cell[1:].isdecimal() for cell in cells if cell[:1] == "-")


def test_text_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    rounds, _ = small_log(10)
    for name in ("two\nlines", "two\rlines", ""):
        with pytest.raises(cb.InputError, match="a CSV file cannot hold"):
            cb.write_rounds(rounds, tmp_path / "log.csv", context_ids=np.array([name] * 10))
        cb.write_rounds(rounds, tmp_path / "log.jsonl", context_ids=np.array([name] * 10))
    lists = np.tile(np.arange(3), (2, 30, 1))
    for kind in KINDS:
        with pytest.raises(cb.InputError, match="must be text that can be written as UTF-8"):
            cb.write_rounds(rounds, tmp_path / f"half.{kind}", context_ids=np.array(["\ud800"] * 10))
        policies = cb.PolicySet.from_lists(lists, PROBLEM, names=["a", "\udcff"])
        with pytest.raises(cb.InputError, match="must be text that can be written as UTF-8"):
            cb.write_candidates(policies, np.arange(30), tmp_path / f"half.{kind}")
    policies = cb.PolicySet.from_lists(lists, PROBLEM, names=["a", "candidate"])
    with pytest.raises(cb.InputError, match="cannot be called 'candidate'"):
        cb.write_candidates(policies, np.arange(30), tmp_path / "lists.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]
