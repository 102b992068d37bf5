"""Damaged inputs: each is refused with a sentence that names the row, or skipped and counted; never just dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation.logs.keys import read_catalogue
from tests.evaluation.logs.worlds import write_both

Record = dict[str, Any]


def _set(row: int, **values: Any) -> Callable[[list[Record]], None]:
    def damage(records: list[Record]) -> None:
        records[row - 1].update(values)

    return damage


def _entry(row: int, column: str, position: int, value: Any) -> Callable[[list[Record]], None]:
    def damage(records: list[Record]) -> None:
        records[row - 1][column][position] = value

    return damage


def _drop(row: int, column: str) -> Callable[[list[Record]], None]:
    def damage(records: list[Record]) -> None:
        del records[row - 1][column]

    return damage


ROWS = [
    (
        "propensity 0",
        _set(7, items=[7, 8, 9], propensities=[0.5, 0.0, 0.5]),
        "wrong propensity",
        "row 7: propensity 0 of item 8 is outside (0, 1]",
    ),
    ("propensity above 1", _entry(3, "propensities", 0, 1.5), "wrong propensity", "row 3: propensity 1.5 of item"),
    ("negative propensity", _entry(3, "propensities", 0, -0.1), "wrong propensity", "row 3: propensity -0.1 of item"),
    (
        "propensity of 1e-310",
        _entry(3, "propensities", 0, 1e-310),
        "wrong propensity",
        "row 3: propensity 1e-310 of item",
    ),
    ("infinite propensity", _entry(3, "propensities", 0, 1e999), "wrong propensity", "row 3: propensity inf of item"),
    (
        "missing propensity",
        _set(5, items=[2, 3, 4], propensities=[0.5, 0.5, None]),
        "missing propensity",
        "row 5: item 4 has no propensity",
    ),
    ("no propensities", _set(9, propensities=None), "missing propensities", "row 9: no propensities"),
    ("column left out", _drop(9, "propensities"), "missing propensities", "row 9: no propensities"),
    ("unknown item", _entry(2, "items", 0, 99), "unknown item", "row 2: item 99 is not in the catalogue"),
    ("negative item", _entry(2, "items", 0, -1), "unknown item", "row 2: item -1 is not in the catalogue"),
    ("item of another kind", _entry(2, "items", 0, "tea"), "unknown item", "row 2: item tea is not in the catalogue"),
    (
        "fractional item",
        _entry(2, "items", 0, 1.5),
        "wrong type",
        "row 2: items must be whole numbers or text, got [1.5",
    ),
    ("repeated item", _set(4, items=[5, 6, 5]), "repeated item", "row 4: the list [5, 6, 5] repeats an item"),
    ("short list", _set(4, items=[5, 6]), "list length", "row 4: 2 items, 3 expected"),
    ("reward above 1", _entry(8, "rewards", 0, 2), "wrong reward", "row 8: reward 2 of item"),
    ("negative reward", _entry(8, "rewards", 0, -0.5), "wrong reward", "row 8: reward -0.5 of item"),
    ("missing reward", _entry(8, "rewards", 0, None), "missing reward", "row 8: item"),
    (
        "true as propensity",
        _entry(3, "propensities", 1, True),
        "wrong type",
        "row 3: propensities must be numbers, got [",
    ),
    (
        "true as item",
        _entry(2, "items", 0, True),
        "wrong type",
        "row 2: items must be whole numbers or text, got [True",
    ),
    ("text as reward", _entry(8, "rewards", 0, "aye"), "wrong type", "row 8: rewards must be numbers, got ['aye'"),
    (
        "too much reward",
        _set(8, rewards=[1, 1, 0]),
        "too much reward",
        "row 8: the rewards sum to 2, more than the sparsity 1",
    ),
    ("duplicate id", _set(11, id=3), "duplicate id", "row 11: id 3 came before"),
    ("no id", _set(11, id=None), "missing value", "row 11: no id"),
    ("no context", _set(12, context=None), "missing value", "row 12: no context"),
    ("unknown context", _set(12, context=777), "unknown context", "row 12: no candidate has a list for context 777"),
    ("list as context", _set(12, context=[1]), "wrong type", "row 12: context must be whole numbers or text, got [1]"),
    ("rewards not a list", _set(6, rewards=1), "wrong type", "row 6: rewards must be a list, got 1"),
]


@pytest.mark.parametrize(("damage", "kind", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_faulty_rows_are_named_and_refused_or_skipped(
    tmp_path: Path, damage: Callable[[list[Record]], None], kind: str, message: str
) -> None:
    log, lists = write_both(tmp_path, n=40)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    damage(records)
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    candidates = cb.read_candidates(lists, n_actions=20)
    with pytest.raises(cb.LogError) as refusal:
        cb.read_log(log, candidates, sparsity=1)
    assert f"log.jsonl has 1 fault: {kind} (1): {message}" in str(refusal.value)
    assert "--on-error skip" in str(refusal.value)
    reading = cb.read_log(log, candidates, sparsity=1, on_error="skip")
    assert reading.faults.counts == {kind: 1}
    assert reading.events.n_rounds == 39


CSV_ROWS = [
    ("text as propensity", 5, "propensity_1", "often", "wrong type", "propensities must be numbers, got ['"),
    ("nothing as propensity", 5, "propensity_1", "", "missing propensity", "has no propensity"),
    ("nan as propensity", 5, "propensity_1", "nan", "missing propensity", "has no propensity"),
    ("zero propensity", 5, "propensity_1", "0", "wrong propensity", "propensity 0 of item"),
    ("nothing as item", 5, "item_0", "", "missing value", "one of the items is missing"),
    ("unknown item", 5, "item_0", "20", "unknown item", "item 20 is not in the catalogue"),
    ("decimal item", 5, "item_0", "1.5", "unknown item", "item 1.5 is not in the catalogue"),
    ("nothing as context", 5, "context", "", "missing value", "no context"),
    ("duplicate id", 5, "id", "0", "duplicate id", "id 0 came before"),
]


@pytest.mark.parametrize(
    ("row", "column", "value", "kind", "message"), [r[1:] for r in CSV_ROWS], ids=[r[0] for r in CSV_ROWS]
)
def test_faulty_csv_values(tmp_path: Path, row: int, column: str, value: str, kind: str, message: str) -> None:
    log, lists = write_both(tmp_path, "csv", n=40)
    lines = log.read_text().splitlines()
    cells = lines[row].split(",")
    cells[lines[0].split(",").index(column)] = value
    lines[row] = ",".join(cells)
    log.write_text("\n".join(lines) + "\n")
    candidates = cb.read_candidates(lists, n_actions=20)
    with pytest.raises(cb.LogError) as refusal:
        cb.read_log(log, candidates)
    assert f"{kind} (1): row {row}: " in str(refusal.value)
    assert message in str(refusal.value)
    assert cb.read_log(log, candidates, on_error="skip").events.n_rounds == 39


def test_rows_after_an_unreadable_one_keep_their_numbers(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "csv", n=40)
    lines = log.read_text().splitlines()
    lines[3] = lines[3][:20]
    lines[10] += ",extra"
    cells = lines[20].split(",")
    cells[lines[0].split(",").index("propensity_0")] = "2"
    lines[20] = ",".join(cells)
    log.write_text("\n".join(lines))
    reading = cb.read_log(log, cb.read_candidates(lists), on_error="skip")
    assert reading.faults.counts == {"unreadable row": 2, "wrong propensity": 1}
    text = " ".join(reading.faults.describe())
    assert "row 3: " in text
    assert "row 10: 13 values where the header has 12" in text
    assert "row 20: propensity 2" in text
    assert reading.events.n_rounds == 37


def test_a_truncated_last_line(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl"):
        log, lists = write_both(tmp_path, kind, n=40)
        text = log.read_text().rstrip("\n")
        log.write_text(text[: (text.rindex("\n") + len(text)) // 2])
        with pytest.raises(cb.LogError, match=r"1 fault: unreadable row \(1\): row 40: "):
            cb.read_log(log, cb.read_candidates(lists))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def _scramble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40:400] = b"\xa5" * 360
    path.write_bytes(bytes(content))


def _header_only(path: Path) -> None:
    path.write_text(path.read_text().splitlines()[0] + "\n")


def _rename(old: str, new: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(path.read_text().replace(old, new, 1))

    return damage


def _rename_all(old: str, new: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(path.read_text().replace(f'"{old}"', f'"{new}"'))

    return damage


def _rename_column(old: str, new: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        kept = [name for name in table.column_names if name != new]
        table = table.select(kept)
        pq.write_table(table.rename_columns([new if name == old else name for name in kept]), path)

    return damage


FILES: list[tuple[Any, ...]] = [
    ("truncated parquet log", "parquet", "log", _cut, "log.parquet is not a complete Parquet file"),
    ("truncated parquet lists", "parquet", "lists", _cut, "lists.parquet is not a complete Parquet file"),
    ("damaged parquet log", "parquet", "log", _scramble, "log.parquet breaks off after row 0"),
    ("text called parquet", "parquet", "log", lambda p: p.write_text("hello, world"), "is not a complete Parquet file"),
    ("empty file", "csv", "log", lambda p: p.write_text(""), "log.csv is empty"),
    ("empty log", "csv", "log", _header_only, "log.csv holds no usable round"),
    ("empty lists", "csv", "lists", _header_only, "lists.csv holds no candidate's list"),
    ("no such file", "csv", "log", lambda p: p.unlink(), "there is no file"),
    (
        "no propensities",
        "csv",
        "log",
        _rename("propensity_0", "pscore"),
        "column propensities is missing (and so are propensity_0, propensity_1, …); the file has: id, epoch, context",
    ),
    ("no items", "csv", "log", _rename("item_0", "sku"), "column items is missing (and so are item_0, item_1, …)"),
    (
        "misspelt propensity",
        "csv",
        "log",
        _rename("propensity_1", "propensty_1"),
        "column propensity_1 is missing; the file has: id, epoch, context, item_0, item_1, item_2, reward_0, "
        "reward_1, reward_2, propensity_0, propensty_1, propensity_2; did you mean propensty_1?",
    ),
    ("misspelt last slot", "csv", "log", _rename("item_2", "Item_2"), "column item_2 is missing", "mean Item_2?"),
    ("left out", "csv", "log", _rename("reward_1", "x"), "column reward_1 is missing", "propensity_1, propensity_2."),
    ("too many", "csv", "log", _rename("epoch", "item_3"), "log.csv has 4 columns item_0 … item_3, but"),
    ("lists as text", "csv", "log", _rename("epoch", "items"), "log.csv"),
    ("no context", "csv", "log", _rename("context", "user"), "column context is missing (it is read as comband's own"),
    ("misspelt context", "csv", "log", _rename("context", "contxt"), "did you mean contxt?"),
    ("misspelt parquet", "parquet", "log", _rename_column("rewards", "reward"), "column rewards is missing", "reward?"),
    ("plain parquet", "parquet", "log", _rename_column("epoch", "items"), "column items holds no lists"),
    ("misspelt json", "jsonl", "log", _rename_all("propensities", "propensity"), "column propensities is missing"),
    ("lists without context", "csv", "lists", _rename("context", "user"), "column context is missing"),
    ("lists without candidate", "csv", "lists", _rename("candidate", "who"), "column candidate is missing"),
    ("lists with a gap", "csv", "lists", _rename("item_1", "sku"), "column item_1 is missing"),
    ("lists cut short", "csv", "lists", _rename("item_2", "itm_2"), "column item_2 is missing", "did you mean itm_2?"),
    ("lists without a first", "csv", "lists", _rename("item_0", "itm_0"), "column item_0 is missing", "mean itm_0?"),
    ("lists too short", "csv", "lists", _rename("item_0", "sku"), "but the candidates' lists have 2 items"),
    ("misspelt lists", "jsonl", "lists", _rename_all("lists", "list"), "column candidate is missing (and so is lists)"),
    ("parquet lists", "parquet", "lists", _rename_column("context", "Contxt"), "did you mean Contxt?"),
    ("not JSON at all", "jsonl", "log", lambda p: p.write_text("a,b\n1,2\n"), "the file has: no columns."),
]


@pytest.mark.parametrize("on_error", ["refuse", "skip"])
@pytest.mark.parametrize(
    ("kind", "which", "damage", "messages"), [(*f[1:4], f[4:]) for f in FILES], ids=[f[0] for f in FILES]
)
def test_files_that_cannot_be_used_at_all(
    tmp_path: Path, kind: str, which: str, damage: Callable[[Path], Any], messages: tuple[str, ...], on_error: str
) -> None:
    log, lists = write_both(tmp_path, kind, n=40)
    damage({"log": log, "lists": lists}[which])
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--on-error", on_error])
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    for message in messages:
        assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


CANDIDATES = [
    (
        "missing list",
        lambda r: r[4]["lists"].pop("plain"),
        "incomplete context (1): context 4 has no good list of 'plain'",
    ),
    (
        "repeated item",
        lambda r: r[4]["lists"].update(plain=[1, 1, 2]),
        "repeated item (1): row 5: the list [1, 1, 2] repeats",
    ),
    (
        "unknown item",
        lambda r: r[4]["lists"].update(plain=[1, 50, 2]),
        "unknown item (1): row 5: item 50 is not in the",
    ),
    ("short list", lambda r: r[4]["lists"].update(plain=[1, 2]), "list length (1): row 5: 2 items, 3 expected"),
    ("second list", lambda r: r.append(r[4]), "repeated context (5): row 31: context 4 has a second list of 'plain'"),
]


@pytest.mark.parametrize(("damage", "message"), [c[1:] for c in CANDIDATES], ids=[c[0] for c in CANDIDATES])
def test_faulty_candidates(tmp_path: Path, damage: Callable[[list[Record]], None], message: str) -> None:
    log, lists = write_both(tmp_path)
    records = [json.loads(line) for line in lists.read_text().splitlines()]
    damage(records)
    lists.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(cb.LogError) as refusal:
        cb.read_candidates(lists, n_actions=20)
    assert message in str(refusal.value)
    candidates = cb.read_candidates(lists, n_actions=20, on_error="skip")
    if message.startswith("repeated context"):
        assert len(candidates.contexts) == 30
        return
    assert len(candidates.contexts) == 29
    # Rounds of the context that was left out go too, rewarded or not, and are counted.
    logged = [json.loads(line)["context"] for line in log.read_text().splitlines()]
    reading = cb.read_log(log, candidates, on_error="skip")
    assert reading.faults.counts == {"unknown context": logged.count(4)}
    assert reading.events.n_rounds == 400 - logged.count(4)


def test_a_candidate_file_that_misses_contexts(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path)
    lists.write_text("".join(lists.read_text().splitlines(keepends=True)[:29]))
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists)])
    assert outcome.exit_code == 1
    logged = [json.loads(line)["context"] for line in log.read_text().splitlines()]
    assert f"unknown context ({logged.count(29)}): row {logged.index(29) + 1}: " in outcome.stderr
    skipped = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--on-error", "skip", "--json"])
    assert skipped.exit_code in (0, 3)
    assert json.loads(skipped.stdout)["skipped"] == {"unknown context": logged.count(29)}
    assert "skipped in" in skipped.stderr


def _read(
    tmp_path: Path, kind: str, change: Callable[[bytes], bytes], on_error: str = "skip"
) -> cb.evaluation.logs.LogReading:
    log, lists = write_both(tmp_path, kind, n=40)
    log.write_bytes(change(log.read_bytes()))
    return cb.read_log(log, cb.read_candidates(lists, n_actions=20), on_error=on_error)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n"])
def test_a_byte_order_mark_and_any_line_end_are_simply_read(tmp_path: Path, kind: str, end: bytes) -> None:
    reading = _read(tmp_path, kind, lambda raw: b"\xef\xbb\xbf" + raw.replace(b"\r", b"").replace(b"\n", end), "refuse")
    assert reading.events.n_rounds == 40
    lists = tmp_path / f"lists.{kind}"
    before = cb.read_candidates(lists)
    lists.write_bytes(b"\xef\xbb\xbf" + lists.read_bytes())
    assert cb.read_candidates(lists).names == before.names
    items = tmp_path / "items.txt"
    items.write_bytes(b"\xef\xbb\xbftea\nrice")
    assert list(read_catalogue(items)) == ["tea", "rice"]


LINES = [
    ("brackets", b"[" * 100_000, "it is nested too deeply"),
    ("objects", b'{"a":' * 100_000, "it is nested too deeply"),
    ("digits", b'{"id": ' + b"9" * 5000 + b"}", "a whole number has too many digits"),
    ("bytes", b'{"id": "\xff"}', "it is not UTF-8"),
    ("surrogate", b'{"id": "\\ud800"}', "half of a surrogate pair"),
    ("nul", b"\x00", "not JSON"),
    ("list", b"[1]", "a JSON object is needed, got list"),
]


@pytest.mark.parametrize(("line", "message"), [line[1:] for line in LINES], ids=[line[0] for line in LINES])
def test_json_lines_that_cannot_be_read(tmp_path: Path, line: bytes, message: str) -> None:
    reading = _read(tmp_path, "jsonl", lambda raw: raw.replace(b"\n", b"\n" + line + b"\n", 1))
    assert reading.events.n_rounds == 40
    assert reading.faults.counts == {"unreadable row": 1}
    assert f"row 2: {message}" in reading.faults.describe()[0]
    assert len(reading.faults.describe()[0]) < 400


CELLS = [
    ("underscore", "propensity_1", b"0_1", "wrong type"),
    ("hexadecimal", "propensity_1", b"0x1", "wrong type"),
    ("space", "propensity_1", b" 0.5", "wrong type"),
    ("other digits", "propensity_1", "٣".encode(), "wrong type"),
    ("infinity", "propensity_1", b"Infinity", "wrong propensity"),
    ("digits as reward", "reward_1", b"9" * 5000, "wrong reward"),
    ("digits as item", "item_1", b"9" * 5000, "unknown item"),
    ("digits as context", "context", b"9" * 5000, "unknown context"),
    ("bytes", "context", b"\xff\xfe", "unreadable row"),
    ("nul", "item_1", b"1\x00", "unknown item"),
]


@pytest.mark.parametrize(("column", "cell", "kind"), [cell[1:] for cell in CELLS], ids=[cell[0] for cell in CELLS])
def test_one_odd_cell_is_one_faulty_row(tmp_path: Path, column: str, cell: bytes, kind: str) -> None:
    def change(raw: bytes) -> bytes:
        lines = raw.splitlines()
        cells = lines[7].split(b",")
        cells[lines[0].split(b",").index(column.encode())] = cell
        return b"\n".join([*lines[:7], b",".join(cells), *lines[8:]])

    reading = _read(tmp_path, "csv", change)
    assert reading.events.n_rounds == 39
    assert reading.faults.counts == {kind: 1}
    assert f"{kind} (1): row 7: " in reading.faults.describe()[0]
    assert len(reading.faults.describe()[0]) < 400


def test_a_quotation_mark_cannot_swallow_rows(tmp_path: Path) -> None:
    def change(raw: bytes) -> bytes:
        lines = raw.splitlines()
        epoch = lines[0].split(b",").index(b"epoch")  # a column that nothing reads
        cells = lines[7].split(b",")
        cells[epoch] = b'"0'
        return b"\n".join([*lines[:7], b",".join(cells), *lines[8:]])

    with pytest.raises(cb.LogError, match=r"has 41 lines but \d+ rows: a quotation mark is never closed"):
        _read(tmp_path, "csv", change)


def test_other_encodings_folders_and_repeated_columns(tmp_path: Path) -> None:
    with pytest.raises(cb.LogError, match="is text in UTF-16; save it as UTF-8"):
        _read(tmp_path, "csv", lambda raw: raw.decode().encode("utf-16"))
    with pytest.raises(cb.LogError, match="has 2 columns context; each name must be there once"):
        _read(tmp_path, "csv", lambda raw: raw.replace(b"epoch", b"context", 1))
    with pytest.raises(cb.LogError, match="is a folder"):
        cb.read_candidates(tmp_path)
    items = tmp_path / "items.txt"
    items.write_bytes(b"tea\n\xff")
    with pytest.raises(cb.LogError, match="is not UTF-8 text"):
        read_catalogue(items)


def test_a_flipped_bit_in_parquet_is_noticed(tmp_path: Path) -> None:
    """Pages carry checksums: of all files with one byte changed, none gives other rounds than the file had."""
    log, lists = write_both(tmp_path, "parquet", n=40)
    candidates = cb.read_candidates(lists)
    raw = log.read_bytes()
    expected = cb.read_log(log, candidates)
    refused = 0
    for at in range(0, len(raw), 97):
        log.write_bytes(raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :])
        try:
            reading = cb.read_log(log, candidates)
        except cb.LogError:
            refused += 1
            continue
        np.testing.assert_array_equal(reading.events.rewards, expected.events.rewards)
        np.testing.assert_array_equal(reading.events.propensities, expected.events.propensities)
    assert refused > len(raw) / 97 / 3
