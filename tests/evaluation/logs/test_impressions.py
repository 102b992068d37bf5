"""The usual click log: one row per shown item."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import comband as cb
from tests.evaluation.logs.worlds import small_log

STATED = 0.06


def _rows(rounds: cb.Rounds, *, seed: int | None = 3) -> list[dict[str, Any]]:
    """One row per shown item, in an order of their own: rows of a round are apart."""
    decisions = rounds.decisions
    rows = [
        {
            "round": f"r{decisions.ids[t]}",
            "context": int(decisions.contexts[t]),
            "item": int(decisions.lists[t, j]),
            "reward": float(rounds.rewards[t, j]),
            "propensity": float(decisions.propensities[t, j]),
        }
        for t in range(len(rounds))
        for j in range(decisions.lists.shape[1])
    ]
    order = np.arange(len(rows)) if seed is None else np.random.default_rng(seed).permutation(len(rows))
    return [rows[i] for i in order]


def _candidates(folder: Path, policies: cb.PolicySet) -> cb.evaluation.logs.CandidateLists:
    cb.write_candidates(policies, np.arange(30), folder / "lists.parquet")
    return cb.read_candidates(folder / "lists.parquet")


def _expected(rounds: cb.Rounds, policies: cb.PolicySet) -> Any:
    answer = cb.evaluate(rounds, policies, max_reward=1.0, min_propensity=STATED)
    return answer.to_frame("pandas").sort_values("candidate")


def _found(source: Any, lists: Any, **options: Any) -> Any:
    reading = cb.read_log(source, lists, sparsity=1, **options)
    answer = cb.evaluate_log(reading, min_propensity=STATED).evaluation
    return answer.to_frame("pandas").sort_values("candidate")


def _same(one: Any, other: Any) -> None:
    pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True), rtol=1e-9)


def test_rows_are_grouped_into_rounds_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, policies = small_log()
    lists, rows = _candidates(tmp_path, policies), _rows(rounds)
    expected = _expected(rounds, policies)
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows)):
        _same(_found(frame, lists), expected)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr("comband.evaluation.logs.tables.BATCH_ROWS", 37)
    _same(_found(path, lists), expected)


def _write_csv(path: Path, rows: list[dict[str, Any]], *, separator: str = ",", bom: bool = False) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    raw = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("bom", [False, True])
def test_every_usual_way_to_write_csv_is_read(tmp_path: Path, separator: str, name: str, bom: bool) -> None:
    rounds, policies = small_log(60)
    whole = cb.Rounds(rounds.decisions, np.ceil(rounds.rewards))
    rows = [{**row, "reward": row["reward"] > 0} for row in _rows(whole)]  # written as True and False
    _write_csv(tmp_path / name, rows, separator=separator, bom=bom)
    _same(_found(tmp_path / name, _candidates(tmp_path, policies)), _expected(whole, policies))


def test_columns_of_other_names_are_mapped(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    lists = _candidates(tmp_path, policies)
    names = {"round": "request", "context": "user", "item": "sku", "reward": "clicked", "propensity": "p"}
    rows = [{names[name]: value for name, value in row.items()} | {"item": "noise"} for row in _rows(rounds)]
    expected = _expected(rounds, policies)
    _same(_found(pd.DataFrame(rows), lists, columns=names), expected)
    _write_csv(tmp_path / "log.csv", rows)
    _same(_found(tmp_path / "log.csv", lists, columns=names), expected)
    with pytest.raises(cb.LogError, match=r"column skuu is missing \(it was named for item\).*did you mean sku"):
        cb.read_log(tmp_path / "log.csv", lists, columns={**names, "item": "skuu"})
    with pytest.raises(cb.InputError, match=r"no format has a column 'itm'.*did you mean item"):
        cb.read_log(tmp_path / "log.csv", lists, columns={"itm": "sku"})
    with pytest.raises(cb.InputError, match="columns must map names to names"):
        cb.read_log(tmp_path / "log.csv", lists, columns={"item": 3})  # type: ignore[dict-item]


def test_slots_may_count_from_one_and_go_by_another_name(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    lists, decisions = _candidates(tmp_path, policies), rounds.decisions
    columns: dict[str, Any] = {"context": decisions.contexts}
    for name, values in (("sku", decisions.lists), ("reward", rounds.rewards), ("propensity", decisions.propensities)):
        columns |= {f"{name}_{j + 1}": values[:, j] for j in range(3)}
    _same(_found(pd.DataFrame(columns), lists, columns={"item": "sku"}), _expected(rounds, policies))
    wide = {"context": np.arange(30).repeat(5), "candidate": list(policies.names) * 30}
    shown = policies.predict(np.arange(30)).reshape(150, 3)
    wide |= {f"item_{j + 1}": shown[:, j] for j in range(3)}
    again = cb.read_candidates(pd.DataFrame(wide))
    assert np.array_equal(again.lists[[again.names.index(name) for name in lists.names]], lists.lists)


def test_positions_leave_a_doubt_that_auto_does_not_decide(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    lists = _candidates(tmp_path, policies)
    rows = _rows(rounds, seed=None)
    frame = pd.DataFrame([{**row, "position": i % 3 + 1} for i, row in enumerate(rows)])
    with pytest.raises(cb.LogError, match="does not tell what its propensities are: say --format impressions "):
        cb.read_log(frame, lists)
    _same(_found(frame, lists, format="impressions"), _expected(rounds, policies))
    # By hand: an item counts where the candidate has it in the same place.
    shown, decisions = policies.predict(rounds.decisions.contexts), rounds.decisions
    matched = shown == decisions.lists[:, None, :]
    by_hand = (matched * (rounds.rewards / decisions.propensities)[:, None, :]).sum(axis=2).mean(axis=0)
    for shift in (1, 0):
        moved = frame.assign(position=frame["position"] - 1 + shift)
        reading = cb.read_log(moved, lists, format="impressions-by-position", sparsity=1)
        answer = cb.evaluate_log(reading).evaluation
        found = {c.name: c.value for c in answer.candidates}
        assert found == pytest.approx(dict(zip(policies.names, np.minimum(by_hand, 1.0), strict=True)))
    with pytest.raises(cb.LogError, match=r"wrong position .60.: .*the positions of round r\d+ are"):
        cb.read_log(frame.assign(position=frame["position"] % 3 * 2), lists, format="impressions-by-position")


def test_faulty_rounds_are_named(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    lists, rows = _candidates(tmp_path, policies), _rows(rounds, seed=None)
    cases = {
        r"incomplete round \(1\): row 1: round r0 has 2 rows, 3 expected": rows[:2] + rows[3:],
        r"incomplete round \(1\): row 1: round r0 has 1 row, 3 expected": rows[:1] + rows[3:],
        r"duplicate rows \(1\): row 1: round r0 has 4 rows, 3 expected, and some repeat an item: drop": rows + rows[:1],
        r"list length \(1\): row 1: round r0 has 4 rows, 3 expected\.": [*rows, {**rows[0], "item": 77}],
        r"several contexts \(1\): row 1: round r0": [{**rows[0], "context": 29 - rows[0]["context"]}, *rows[1:]],
        r"repeated item \(1\)": [{**rows[0], "item": rows[1]["item"]}, *rows[1:]],
    }
    for words, faulty in cases.items():
        with pytest.raises(cb.LogError, match=words):
            cb.read_log(pd.DataFrame(faulty), lists, sparsity=1)
        reading = cb.read_log(pd.DataFrame(faulty), lists, sparsity=1, on_error="skip")
        assert reading.events.n_rounds == 59
        assert reading.faults.total == 1
    doubled = pd.DataFrame(rows[:3] + rows)
    with pytest.raises(cb.LogError, match=r"duplicate rows .*round r0 has 6 rows, 3 expected"):
        cb.read_log(doubled, lists)


def test_policies_are_asked_with_the_rounds_features() -> None:
    rounds, policies = small_log()
    frame = pd.DataFrame(_rows(rounds)).rename(columns={"context": "user"})

    class Looker:
        def __init__(self, p: int) -> None:
            self.p = p

        def predict(self, X: pd.DataFrame) -> Any:
            return policies[self.p].predict(X["user"].to_numpy())

    mine = cb.PolicySet([Looker(p) for p in range(5)], names=policies.names)
    answer = cb.evaluate(frame, mine, max_reward=1.0, min_propensity=STATED, features=["user"])
    _same(answer.to_frame("pandas").sort_values("candidate"), _expected(rounds, policies))


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    rounds, policies = small_log(60)
    lists = _candidates(tmp_path, policies)
    path = tmp_path / "log.csv.gz"
    _write_csv(path, _rows(rounds))
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-4], b"\x1f\x8b" + b"x" * 50, b"no gzip at all"):
        path.write_bytes(damaged)
        with pytest.raises(cb.LogError, match="not a complete gzip file"):
            cb.read_log(path, lists)
    (tmp_path / "log.parquet.gz").write_bytes(whole)
    with pytest.raises(cb.LogError, match=r"should end in .parquet, .csv, .tsv, .jsonl, .csv.gz or .jsonl.gz"):
        cb.read_log(tmp_path / "log.parquet.gz", lists)


def test_two_formats_that_fit_alike_are_asked_about(tmp_path: Path) -> None:
    rounds, policies = small_log(10)
    lists = _candidates(tmp_path, policies)
    frame = pd.DataFrame(_rows(rounds)).assign(item_id=1, position=1, click=0, propensity_score=0.5)
    with pytest.raises(cb.LogError, match=r"may be of the format .* or obd, by its columns: say which"):
        cb.read_log(frame, lists)
