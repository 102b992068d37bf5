"""Log files of every format, damaged in thousands of ways: the right rounds and faults, or an InputError.

A seeded sample runs in the fast suite, the rest in the slow one; a case that fails names itself by kind and number.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.evaluation.logs.keys import ItemIndex
from comband.page.problem import SMALLEST_PROPENSITY, SMALLEST_REWARD, InputError
from comband.page.totals import TotalRounds

N, K, M = 40, 12, 3
SAMPLE, ALL = 60, 1200

TOKENS = [
    *("", " ", "NaN", "nan", "inf", "-inf", "-1", "1e400", "1e-310", "5e-324", "99999999999999999999", "007", "0x1"),
    *(
        "1_0",
        "0_1",
        "true",
        "null",
        '"',
        "'",
        "''",
        "a,b",
        "\x00",
        "\x1b[31m",
        "٣",
        "1e5",
        "2.0",
        "[1,2,3]",
        "{}",
        "=1+1",
    ),
    *(
        "'=1+1",
        "@x",
        "+1",
        "-",
        "😀",
        "9" * 5000,
        "-0",
        "1.5",
        "[",
        "\\ud800",
        "0.5",
        "1",
        "0",
        "3",
        "11",
        "12",
        "4194303",
    ),
    *("2147483646", "9223372036854775807", "-9223372036854775808", "[/]", "\ufeff", "\u2028", "x" * 200_000),
]
VALUES = [
    *(
        None,
        -1,
        0,
        1,
        0.5,
        1e308,
        1e-310,
        5e-324,
        math.nan,
        math.inf,
        -math.inf,
        10**30,
        10**400,
        2**62,
        2**63,
        -(2**63),
    ),
    *([], {}, True, False, [[1]], [1, 2, 3], {"a": 1}, 2.5, 3.0, [0.1, 0.2, 0.3], "\ud800", "a" * 3000),
]


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES += [_deep(80), _deep(700)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, cb.evaluation.logs.CandidateLists]:
    """One file of each kind, all from the same rounds, and the candidates."""
    folder = tmp_path_factory.mktemp("fuzz")
    rng = np.random.default_rng(0)
    problem = cb.Problem(n_actions=K, list_size=M, sparsity=1)
    lists = rng.permuted(np.tile(np.arange(K), (4, N, 1)), axis=2)[:, :, :M]
    policies = cb.PolicySet.from_lists(lists, problem, names=["a", "b", "=c", "d"])
    decisions = cb.Mixture(policies, np.full(4, 0.25), problem=problem, floor=0.5).draw(np.arange(N), rng)
    rewards = np.zeros((N, M))
    rewards[::3, 1] = 1
    for kind in ("csv", "jsonl", "parquet"):
        cb.write_rounds(cb.Rounds(decisions, rewards), folder / f"log.{kind}")
        cb.write_candidates(policies, np.arange(N), folder / f"lists.{kind}")
        uniform = {"lists": decisions.lists, "first_propensities": np.full((N, M), 1 / K)}
        totals = replace(problem, feedback="total")
        cb.write_rounds(
            TotalRounds.from_log(np.arange(N), totals=rewards.sum(axis=1), problem=totals, **uniform),
            folder / f"totals.{kind}",
        )
    shown = decisions.lists.tolist()
    cascade = [1 / 12, 1 / 132, 1 / 1320]
    tables: dict[str, list[list[Any]]] = {
        "obd.csv": [["item_id", "position", "click", "propensity_score"]]
        + [[shown[i][0], 1 + i % 3, int(i % 4 == 0), 1 / 12] for i in range(N)],
        "obp.csv": [["slate_id", "position", "action", "reward", "pscore_item_position"]]
        + [[i, j, shown[i][j], rewards[i, j], 1 / 12] for i in range(N) for j in range(M)],
        "cascade.csv": [["slate_id", "position", "action", "reward", "pscore_cascade"]]
        + [[i, j, shown[i][j], rewards[i, j], cascade[j]] for i in range(N) for j in range(M)],
    }
    for name, rows in tables.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    with (folder / "vw.dsjson").open("w") as file:
        for i in range(N):
            slots = [
                {"_label_cost": -rewards[i, j], "_a": [shown[i][j]], "_p": [[1 / 12, 1 / 11, 1 / 10][j]]}
                for j in range(M)
            ]
            event = {"EventId": f"e{i}", "_outcomes": slots, "c": {"id": i, "_multi": [{}] * K, "_slots": [{}] * M}}
            file.write(json.dumps(event) + "\n")
    return folder, cb.read_candidates(folder / "lists.csv")


KINDS = [
    *("log.csv", "log.jsonl", "log.parquet", "lists.csv", "lists.jsonl", "lists.parquet"),
    *("obd.csv", "obp.csv", "cascade.csv", "vw.dsjson", "totals.csv", "totals.jsonl", "totals.parquet"),
]


# --- damage ---------------------------------------------------------------------------------------------------------


def damaged(raw: bytes, name: str, rng: np.random.Generator) -> bytes:
    """One file after one random accident."""
    text = not name.endswith("parquet")
    ways: list[Callable[[bytes, np.random.Generator], bytes]] = [_flip, _cut_off, _cut_out, _insert, _encode]
    if name.endswith("csv"):
        ways += [_cell] * 10 + [_line] * 3
    elif text:
        ways += [_entry] * 10 + [_line] * 3
    else:
        ways += [_parquet] * 10
    return ways[rng.integers(len(ways))](raw, rng)


def _flip(raw: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.choice([1, 1, 3, 10])):
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(data)


def _cut_off(raw: bytes, rng: np.random.Generator) -> bytes:
    return raw[: rng.integers(len(raw))]


def _cut_out(raw: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(raw)))
    return raw[:start] + raw[start + int(rng.integers(1, 60)) :]


def _insert(raw: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(raw)))
    what = [b"\x00", b"\xff", b'"', b"\n", b"\r", b",", b"\xed\xa0\x80", b"\xc0\x80", b"[" * 100_000, b"9" * 5000]
    return raw[:at] + what[rng.integers(len(what))] + raw[at:]


def _encode(raw: bytes, rng: np.random.Generator) -> bytes:
    ways = [
        lambda: raw.decode("latin1").encode("utf-16"),
        lambda: b"\xef\xbb\xbf" + raw,
        lambda: raw.replace(b"\n", b"\r"),
        lambda: raw.replace(b"\n", b"\r\n"),
        lambda: raw.replace(b"\n", b"\n\n"),
        lambda: raw.rstrip(b"\n"),
    ]
    return ways[rng.integers(len(ways))]()


def _cell(raw: bytes, rng: np.random.Generator) -> bytes:
    lines = raw.decode().splitlines()
    for _ in range(rng.choice([1, 1, 1, 4])):
        i = int(rng.integers(len(lines)))
        cells = lines[i].split(",")
        cells[rng.integers(len(cells))] = TOKENS[rng.integers(len(TOKENS))]
        lines[i] = ",".join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _line(raw: bytes, rng: np.random.Generator) -> bytes:
    lines = raw.decode().splitlines()
    i, j = (int(k) for k in rng.integers(len(lines), size=2))
    ways: list[Callable[[], Any]] = [
        lambda: lines.insert(j, lines[i]),
        lambda: lines.pop(i),
        lambda: lines.reverse(),
        lambda: lines.__setitem__(i, lines[i] * int(rng.choice([2, 50]))),
        lambda: lines.__setitem__(i, "[" * 100_000),
        lambda: lines.__setitem__(i, '{"a":' * 100_000),
        lambda: lines.__setitem__(i, ""),
        lambda: lines.__setitem__(i, "   "),
        lambda: lines.__setitem__(i, lines[i][: int(rng.integers(len(lines[i])))]),
    ]
    ways[rng.integers(len(ways))]()
    return "\n".join(lines).encode()


def _entry(raw: bytes, rng: np.random.Generator) -> bytes:
    lines = raw.decode().splitlines()
    i = int(rng.integers(len(lines)))
    record = json.loads(lines[i])
    spots: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key, entry in list(value.items() if isinstance(value, dict) else enumerate(value)):
            spots.append((value, key))
            if isinstance(entry, (dict, list)):
                walk(entry)

    walk(record)
    holder, key = spots[rng.integers(len(spots))]
    choice: list[Any] = [*VALUES, *TOKENS]
    new = choice[rng.integers(len(choice))]
    if rng.random() < 0.1:
        del holder[key]
    else:
        holder[key] = new
    lines[i] = json.dumps(record)
    if rng.random() < 0.05:
        lines[i] = re.sub(r"\d+", "1" * 5000, lines[i], count=1)
    return "\n".join(lines).encode()


def _parquet(raw: bytes, rng: np.random.Generator) -> bytes:
    """Well-formed, but with another type, name, order or value than is expected."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(raw))
    at = int(rng.integers(table.num_columns))
    name = table.column_names[at]
    values = table.column(at).to_pylist()
    lists = isinstance(values[0], list)

    row, slot = int(rng.integers(len(values))), int(rng.integers(M))

    def one(new: Any) -> Any:
        changed = [list(value) if lists else value for value in values]
        if lists and rng.random() < 0.7:
            changed[row][slot] = new
        else:
            changed[row] = [new] * M if lists else new
        return pa.array(changed)

    def every(convert: Callable[[Any], Any], kind: Any) -> Any:
        changed = [[convert(v) for v in value] if lists else convert(value) for value in values]
        return pa.array(changed, pa.list_(kind) if lists else kind)

    ways: list[Callable[[], Any]] = [
        *[lambda new=new: one(new) for new in (None, -1, 2**40, 0, 1)],
        *[lambda new=new: one(float(new)) for new in (math.nan, math.inf, 1e-310, 5e-324, 0.5, 1e300)],
        lambda: every(str, pa.string()),
        lambda: every(str, pa.large_string()),
        lambda: every(lambda v: str(v).encode(), pa.binary()),
        lambda: every(bool, pa.bool_()),
        lambda: every(int, pa.uint64()),
        lambda: every(lambda v: 2**64 - 1, pa.uint64()),
        lambda: every(int, pa.int8()),
        lambda: every(np.float16, pa.float16()),
        lambda: every(int, pa.timestamp("ns")),
        lambda: every(lambda v: 2**31 - 1, pa.date32()),
        lambda: every(lambda v: int(v) * 10**15, pa.duration("s")),
        lambda: every(lambda v: {"x": v}, pa.struct([("x", pa.float64())])),
        lambda: every(lambda v: [v], pa.list_(pa.float64())),
        lambda: every(lambda v: None, pa.null()),
        lambda: every(int, pa.decimal128(20, 2)),
        lambda: pa.array([str(v) for v in values]).dictionary_encode(),
        lambda: pa.array(values, pa.list_(pa.float64(), M)) if lists else pa.array(values),
        lambda: pa.array(values, pa.large_list(pa.float64())) if lists else pa.array(values),
        lambda: pa.array([v[:slot] if lists else v for v in values]),
    ]
    sink = io.BytesIO()
    kind = rng.integers(6)
    try:
        if kind == 0:
            table = table.remove_column(at)
        elif kind == 1:
            table = table.rename_columns(
                [*table.column_names[:at], TOKENS[rng.integers(30)], *table.column_names[at + 1 :]]
            )
        elif kind == 2:
            table = table.append_column(table.column_names[rng.integers(table.num_columns)], table.column(at))
        else:
            table = table.set_column(at, name, ways[rng.integers(len(ways))]())
    except (pa.ArrowException, OverflowError, ValueError, TypeError):  # no such table can be made
        return raw[::-1]
    pq.write_table(table, sink)
    return sink.getvalue()


# --- what must come out ---------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def good_rows(path: Path, candidates: cb.evaluation.logs.CandidateLists) -> tuple[int, int]:
    """(rows, good rounds) of comband's own log as CSV or JSON lines, by the plainest reading of what a round is."""
    data = path.read_bytes().decode("utf-8-sig", "surrogateescape")
    lines = [line for line in re.split(r"\r\n|\r|\n", data) if line and (path.suffix == ".csv" or not line.isspace())]
    records: list[dict[str, Any] | None] = []
    if path.suffix == ".csv":
        csv.field_size_limit(10**7)
        header = next(csv.reader(lines[:1]))
        for line in lines[1:]:
            cells = next(csv.reader([line]), [])
            records.append(_row(header, cells) if len(cells) == len(header) and _is_text(line) else None)
    else:
        for line in lines:
            try:
                record = json.loads(line)
                fine = isinstance(record, dict) and _is_text(line) and _is_text(json.dumps(record, ensure_ascii=False))
            except (ValueError, RecursionError):
                fine = False
            records.append(record if fine else None)
    seen: set[str] = set()
    known = {str(key) for key in candidates.contexts.keys.tolist()}
    named = any(record is not None and "id" in record for record in records)
    good = 0
    for number, record in enumerate(records):
        if record is None or not _is_good(record, known):
            continue
        key = _key(record.get("id")) if named else f"row {number}"
        if key is not None and key not in seen:
            seen.add(key)
            good += 1
    return len(records), good


_WORDS = {"true": "1", "false": "0"}  # of rewards


def _row(header: list[str], cells: list[str]) -> dict[str, Any]:
    row = {name: _unmarked(cell) if cell else None for name, cell in zip(header, cells, strict=True)}
    record: dict[str, Any] = {name: row[name] for name in ("id", "context") if name in row}
    record["items"] = [row[f"item_{j}"] for j in range(M)]
    for plural, singular in (("rewards", "reward"), ("propensities", "propensity")):
        cells = [row[f"{singular}_{j}"] or "" for j in range(M)]
        if plural == "rewards":
            cells = [_WORDS.get(cell.lower(), cell) for cell in cells]
        record[plural] = [float(cell) if _NUMBER.fullmatch(cell) else None for cell in cells]
    return record


def _unmarked(text: str) -> str:
    return text[1:] if re.match(r"'+[=+\-@\t]", text) else text


def _is_text(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is None


def _key(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _is_good(record: dict[str, Any], contexts: set[str]) -> bool:
    lists = [record.get(name) for name in ("items", "rewards", "propensities")]
    if _key(record.get("context")) not in contexts or any(not isinstance(x, list) or len(x) != M for x in lists):
        return False
    items, rewards, propensities = lists
    assert items is not None
    assert rewards is not None
    assert propensities is not None
    if any(not isinstance(x, (int, float)) for x in rewards + propensities):
        return False
    if any(isinstance(x, bool) for x in propensities):  # rewards may be true and false
        return False
    if not all(r == 0 or SMALLEST_REWARD <= r <= 1 for r in rewards) or not all(
        SMALLEST_PROPENSITY <= q <= 1 + 1e-9 for q in propensities
    ):
        return False
    keys = [_key(item) for item in items]
    # Whole numbers are their own codes when the candidates' items are numbers and no catalogue is given.
    codes = [k for k in keys if k is not None and re.fullmatch(r"(0|[1-9]\d{0,9})(\.0+)?", k, re.ASCII)]
    numbers = {number for number in (int(float(k)) for k in codes) if number < 2**31 - 1}
    return len(numbers) == M and sum(rewards) <= M + 1e-9


def check(name: str, path: Path, candidates: cb.evaluation.logs.CandidateLists) -> str:
    """Read a damaged file; what came of it."""
    if name.startswith("lists"):
        try:
            lists = cb.read_candidates(path, on_error="skip")
        except InputError as error:
            return _told(error)
        if lists.faults.total:
            with pytest.raises(cb.LogError):
                cb.read_candidates(path)
        assert lists.lists.shape == (len(lists.names), len(lists.contexts), lists.list_size)
        return "read"
    options: dict[str, Any] = {"format": "vw", "context": ["c.id"]} if name.startswith("vw") else {}
    if name.startswith("totals"):
        candidates = replace(candidates, items=ItemIndex(n_actions=K))
    try:
        reading = cb.read_log(path, candidates, on_error="skip", **options)
    except InputError as error:
        return _told(error)
    rounds, faults = reading.events.n_rounds, reading.faults.total
    assert rounds > 0
    assert (reading.events.propensities >= SMALLEST_PROPENSITY).all()
    assert ((reading.events.rewards > 0) & (reading.events.rewards <= 1)).all()
    if faults:
        with pytest.raises(cb.LogError):
            cb.read_log(path, candidates, **options)
    if name in ("log.csv", "log.jsonl"):
        rows, good = good_rows(path, candidates)
        assert rounds == good
        assert rows - rounds <= faults <= 2 * (rows - rounds)
    try:
        answer = cb.evaluate_log(reading)
    except InputError as error:
        return _told(error)
    assert all(math.isfinite(candidate.value) for candidate in answer.evaluation.candidates)
    assert 0 <= answer.evaluation.epsilon <= reading.max_reward
    json.dumps(answer.as_dict(), allow_nan=False)
    return "read"


def _told(error: InputError) -> str:
    message = str(error)
    assert 20 < len(message) < 3000
    assert message.endswith((".", "?", ")", "…"))
    return "refused"


def _run(name: str, world: tuple[Path, cb.evaluation.logs.CandidateLists], numbers: range, folder: Path) -> None:
    source, candidates = world
    raw = (source / name).read_bytes()
    outcomes = set()
    for number in numbers:
        rng = np.random.default_rng([KINDS.index(name), number])
        path = folder / name
        path.write_bytes(damaged(raw, name, rng))
        try:
            outcomes.add(check(name, path, candidates))
        except BaseException as error:
            error.add_note(f"{name}, case {number}")
            raise
    assert "read" in outcomes  # the accidents are not all so bad


@pytest.mark.parametrize("name", KINDS)
def test_a_sample_of_damaged_files(
    tmp_path: Path, name: str, world: tuple[Path, cb.evaluation.logs.CandidateLists]
) -> None:
    _run(name, world, range(SAMPLE), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(tmp_path: Path, name: str, world: tuple[Path, cb.evaluation.logs.CandidateLists]) -> None:
    _run(name, world, range(SAMPLE, ALL), tmp_path)
