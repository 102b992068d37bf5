"""A log that grows in a database: each look costs what changed, and says what reading everything says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import comband as cb
from comband.evaluation import LogEvaluation, evaluate_log
from comband.evaluation.increments import Remembering
from comband.evaluation.keeping import from_bytes, to_bytes
from comband.evaluation.logs import LogError, sampling
from comband.evaluation.logs.sql import SqlTable
from comband.evaluation.pushed import PushedDown
from tests.evaluation.databases import Database, database
from tests.evaluation.test_pushed import as_bytes, days, listed, long, wide, world

DAYS = 6


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST", 100)


@pytest.fixture(scope="module", params=["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture
def duck(tmp_path: Path) -> Iterator[Database]:
    with database("duckdb", tmp_path) as made:
        yield made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions that were read, as they are."""
    found: list[str] = []
    plain = PushedDown.__call__

    def counted(self: PushedDown, order: Any, *rest: Any) -> Any:
        found.append(str(order.shard.partition))
        return plain(self, order, *rest)

    monkeypatch.setattr(PushedDown, "__call__", counted)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many parts each question was asked."""
    found: list[int] = []
    plain = Remembering.total

    def counted(self: Remembering, *given: Any) -> Any:
        before = self.asked
        answer = plain(self, *given)
        found.append(self.asked - before)
        return answer

    monkeypatch.setattr(Remembering, "total", counted)
    return found


class Log:
    """A table of days, and what it is compared with."""

    def __init__(self, base: Database, folder: Path, lists: Path) -> None:
        self.base, self.lists = base, lists
        self.state: Any = folder / "state.db"
        self.days: dict[dt.date, pa.Table] = {}

    def put(self) -> Any:
        return self.base.put(pa.concat_tables(self.days.values()), "growing")

    def look(self, **options: Any) -> LogEvaluation:
        return evaluate_log(self.put(), self.lists, partition="day", state=self.state, **options)

    def rescan(self, **options: Any) -> LogEvaluation:
        return evaluate_log(self.put(), self.lists, partition="day", **options)


def by_day(table: pa.Table) -> dict[dt.date, pa.Table]:
    table = days(table, DAYS)
    return {day: table.filter(pc.equal(table["day"], day)) for day in sorted(set(table["day"].to_pylist()))}


def changed(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """As many rows, some rewards gone or one propensity another; or fewer rows."""
    kind = rng.integers(3)
    if kind == 0:
        return table.slice(0, max(len(table) // 2, 1))
    name = "reward_1" if kind == 1 else "propensity_2"
    values = table[name].to_numpy().copy()
    if kind == 1:
        values[rng.random(len(values)) < 0.5] = 0
    else:
        values[0] = values[0] * 0.999
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    "seed", [seed if seed < 8 else pytest.param(seed, marks=pytest.mark.slow) for seed in range(30)]
)
def test_any_order_with_late_and_replaced_partitions(tmp_path: Path, duck: Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    log = Log(duck, tmp_path, lists)
    stated = None if seed % 2 else 0.06
    for day in [list(parts)[i] for i in rng.permutation(len(parts))]:
        log.days[day] = parts[day]
        if rng.random() < 0.5:
            other = list(log.days)[rng.integers(len(log.days))]
            log.days[other] = changed(log.days[other], rng)
        if len(log.days) > 2 and rng.random() < 0.2:
            del log.days[list(log.days)[rng.integers(len(log.days))]]
        if rng.random() < 0.7:
            options = {} if stated is None else {"min_propensity": stated * 0.5}
            assert as_bytes(log.look(**options)) == as_bytes(log.rescan(**options))
    assert as_bytes(log.look()) == as_bytes(log.rescan())


@pytest.mark.parametrize("layout", ["wide", "long"])
def test_every_database_adds_replaces_and_drops_partitions(tmp_path: Path, base: Database, layout: str) -> None:
    table, lists = world(tmp_path)
    table = table.slice(0, 900)
    parts = by_day(wide(table)) if layout == "wide" else {}
    for day, part in by_day(table).items() if layout == "long" else ():
        rows = long(part)
        parts[day] = rows.append_column("day", pa.array([day] * len(rows)))
    log = Log(base, tmp_path, lists)
    first, *others = parts
    log.days = {day: parts[day] for day in others}
    log.look()
    log.days[first] = parts[first]  # late
    name = "reward_1" if layout == "wide" else "reward"
    old = log.days[others[1]]
    values = old[name].to_numpy() * 0.5
    log.days[others[1]] = old.set_column(old.column_names.index(name), name, pa.array(values))
    assert as_bytes(log.look()) == as_bytes(log.rescan())


def test_a_look_reads_and_asks_only_what_changed(
    tmp_path: Path, duck: Database, read: list[str], asked: list[int]
) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    log = Log(duck, tmp_path, lists)
    *before, last = parts
    log.days = {day: parts[day] for day in before}
    log.look(min_propensity=0.03)
    assert sorted(set(read)) == [str(day) for day in before]
    read.clear()
    asked.clear()
    log.look(min_propensity=0.03)
    assert (read, set(asked)) == ([], {0})
    log.days[last] = parts[last]
    asked.clear()
    log.look(min_propensity=0.03)
    assert read == [str(last)]
    assert set(asked) <= {1, len(parts)}  # all again where the best candidate is another one
    assert asked[:2] == [1, 1]  # facts and values do not depend on it


def test_partitions_before_since_are_trusted_while_they_have_as_many_rows(
    tmp_path: Path, duck: Database, read: list[str]
) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    log = Log(duck, tmp_path, lists)
    log.days = dict(parts)
    log.look()
    read.clear()
    second, last = list(parts)[1], list(parts)[-1]
    rewards = pa.array(np.zeros(len(parts[second])))
    log.days[second] = parts[second].set_column(parts[second].column_names.index("reward_0"), "reward_0", rewards)
    log.look(since=str(last))
    assert read == []
    log.look()
    assert read == [str(second)]
    read.clear()
    log.days[second] = parts[second].slice(0, len(parts[second]) - 1)
    assert as_bytes(log.look(since=str(last))) == as_bytes(log.rescan())
    assert str(second) in read


def test_faults_are_kept_with_their_partition(tmp_path: Path, duck: Database) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    log = Log(duck, tmp_path, lists)
    log.days = dict(parts)
    day = list(parts)[2]
    chances = parts[day]["propensity_0"].to_numpy().copy()
    chances[0] = 1.5
    place = parts[day].column_names.index("propensity_0")
    log.days[day] = parts[day].set_column(place, "propensity_0", pa.array(chances))
    with pytest.raises(LogError, match="wrong propensity"):
        log.look()
    for _ in range(2):
        found = log.look(on_error="skip")
        assert as_bytes(found) == as_bytes(log.rescan(on_error="skip"))
    log.days[day] = parts[day]
    assert as_bytes(log.look(on_error="skip")) == as_bytes(log.rescan(on_error="skip"))


def test_an_id_in_two_partitions_is_refused(tmp_path: Path, duck: Database) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    first, second, *_ = parts
    ids = parts[second]["id"].to_numpy().copy()
    ids[0] = parts[first]["id"][0].as_py()
    log = Log(duck, tmp_path, lists)
    log.days = {**parts, second: parts[second].set_column(0, "id", pa.array(ids))}
    with pytest.raises(LogError, match="ids that are in several partitions"):
        log.look()
    log.days = {day: part.set_column(0, "id", pc.cast(part["id"], pa.string())) for day, part in log.days.items()}
    with pytest.raises(LogError, match="ids that are in several partitions"):
        log.look()


def test_a_state_of_something_else_is_refused(tmp_path: Path, duck: Database) -> None:
    table, lists = world(tmp_path)
    log = Log(duck, tmp_path, lists)
    log.days = by_day(wide(table))
    log.look()
    with pytest.raises(cb.InputError, match="was made with another sparsity"):
        log.look(sparsity=2)
    with pytest.raises(cb.InputError, match="was made with another set of candidates"):
        evaluate_log(log.put(), "tests.evaluation.worlds:make_policies", partition="day", state=log.state)
    with pytest.raises(cb.InputError, match="state keeps what is known of each partition"):
        evaluate_log(log.put(), lists, state=log.state)
    (tmp_path / "text").write_text("x" * 2000)
    with pytest.raises(cb.InputError, match="is no state that can be written"):
        evaluate_log(log.put(), lists, partition="day", state=tmp_path / "text")
    with pytest.raises(cb.InputError, match="must be a file in a folder"):
        evaluate_log(log.put(), lists, partition="day", state=tmp_path / "no" / "s")
    with pytest.raises(cb.InputError, match="state and since are for a log in a database"):
        evaluate_log(tmp_path / "one.parquet", lists, state=log.state)


def test_a_look_that_fails_leaves_the_state_as_it_was(
    tmp_path: Path, duck: Database, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    log = Log(duck, tmp_path, lists)
    log.days = dict(list(parts.items())[:3])
    log.look()
    before = log.state.read_bytes()
    log.days = dict(parts)
    with monkeypatch.context() as broken:
        broken.setattr(Remembering, "total", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            log.look()
    assert log.state.read_bytes() == before
    assert as_bytes(log.look()) == as_bytes(log.rescan())


def test_only_parts_and_statistics_are_kept_and_come_back() -> None:
    with pytest.raises(cb.InputError, match="dict cannot be kept"):
        to_bytes({"a": 1})
    assert from_bytes(to_bytes([1, None, np.float64(0.5), np.int64(3)])) == [1, None, 0.5, 3]


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_state_in_tables_is_that_of_a_file(tmp_path: Path, duck: Database, kind: str, read: list[str]) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table))
    with database(kind, tmp_path) as where:
        log = Log(duck, tmp_path, lists)
        log.state = SqlTable(where.connection, "main.known" if kind == "duckdb" else "known")
        rng = np.random.default_rng(5)
        for day in [list(parts)[i] for i in rng.permutation(len(parts))]:
            log.days[day] = parts[day]
            other = list(log.days)[rng.integers(len(log.days))]
            log.days[other] = changed(log.days[other], rng)
            assert as_bytes(log.look()) == as_bytes(log.rescan())
        read.clear()
        before = as_bytes(log.look())
        assert read == []
        with pytest.raises(cb.InputError, match=r"known was made with another sparsity; give another one"):
            log.look(sparsity=2)
        kept = tables_of(where)
        del log.days[next(iter(log.days))]
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(Remembering, "total", lambda *given: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                log.look()
        assert tables_of(where) == kept
        assert as_bytes(log.look()) == as_bytes(log.rescan()) != before


def tables_of(where: Database) -> list[Any]:
    """All that the tables of a state hold."""
    found = []
    for name in ("settings", "partitions", "answers"):
        cursor = where.connection.cursor()
        cursor.execute(f"SELECT * FROM known_{name} ORDER BY 1")
        found += [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in cursor.fetchall()]
    if hasattr(where.connection, "rollback") and hasattr(where.connection, "info"):
        where.connection.rollback()
    return found


def test_tables_of_a_state_that_cannot_be(tmp_path: Path, duck: Database) -> None:
    table, lists = world(tmp_path)
    log = Log(duck, tmp_path, lists)
    log.days = by_day(wide(table))
    for where, name, message in (
        (duck.connection, "known; DROP TABLE growing", "must be a plain one"),
        ("spark:local[2]", "known", "must be in DuckDB or PostgreSQL"),
        ("postgresql://me:secret@127.0.0.1:1/x", "known", r"no PostgreSQL answers at postgresql://me:…@"),
        (f"duckdb:///{tmp_path}/no/folder.db", "known", "cannot be opened"),
    ):
        log.state = SqlTable(where, name)
        with pytest.raises(cb.InputError, match=message):
            log.look()


def test_a_state_in_a_file_of_duckdb_by_its_address(tmp_path: Path, duck: Database, read: list[str]) -> None:
    table, lists = world(tmp_path)
    log = Log(duck, tmp_path, lists)
    log.days = by_day(wide(table))
    log.state = SqlTable(f"duckdb:///{tmp_path}/known.duckdb", "comband_state")
    expected = as_bytes(log.look())
    read.clear()
    assert as_bytes(log.look()) == expected
    assert read == []


def test_lists_that_change_in_the_database_are_noticed(tmp_path: Path, base: Database, read: list[str]) -> None:
    table, lists = world(tmp_path)
    parts = by_day(wide(table.slice(0, 900)))
    log = Log(base, tmp_path, lists)
    log.days = dict(parts)

    def look(rows: pa.Table, *, state: Any) -> str:
        there = base.put(rows, "ranked")
        return as_bytes(evaluate_log(log.put(), there, partition="day", state=state))

    rows = listed(lists)
    first = look(rows, state=log.state)
    read.clear()
    assert look(rows, state=log.state) == first
    assert read == []
    items = rows["item"].to_numpy().copy()
    name = rows["candidate"][0].as_py()
    chosen = np.array(rows["candidate"].to_pylist()) == name
    items[chosen] = (items[chosen] + 7) % 20
    other = rows.set_column(rows.column_names.index("item"), "item", pa.array(items))
    assert look(other, state=log.state) == look(other, state=None) != first
    assert read
    with pytest.raises(cb.InputError, match="was made with another choice of candidates"):
        look(rows.filter(pc.not_equal(rows["candidate"], name)), state=log.state)
