"""A log in a database: the same bytes as from files, by any engine and layout, and a word on whatever is wrong."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import comband as cb
from comband.evaluation import LogEvaluation, evaluate_log
from comband.evaluation.logs import LogError, sampling
from comband.evaluation.logs.sql import SqlTable, open_engine
from comband.evaluation.logs.sql.table import SqlShard
from comband.evaluation.pushed import pushed_down
from tests.evaluation.databases import Database, Duck, Elephant, Spark, database
from tests.evaluation.logs.worlds import small_log
from tests.evaluation.worlds import write_log

M = 3
POLICIES = "tests.evaluation.worlds:make_policies"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark", "ignore::ResourceWarning")


@pytest.fixture(scope="module", params=["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.slow)])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with database(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST", 100)  # about one of 16 rounds is sampled


def as_bytes(answer: LogEvaluation) -> str:
    return json.dumps(answer.as_dict())


def world(folder: Path) -> tuple[pa.Table, Path]:
    """3,000 rounds with lists in columns, and the candidates' file."""
    whole, _, lists = write_log(folder)
    return pq.read_table(whole), lists


def wide(table: pa.Table) -> pa.Table:
    """One column for each slot."""
    plain = {"id": table["id"], "context": table["context"]}
    for many, one in (("items", "item"), ("rewards", "reward"), ("propensities", "propensity")):
        values = np.array(table[many].to_pylist())
        plain |= {f"{one}_{i}": pa.array(values[:, i]) for i in range(M)}
    return pa.table(plain)


def long(table: pa.Table, *, rewards: Any = float) -> pa.Table:
    """One row for each shown item, in an order that splits the rows of a round."""
    rows = [
        {"round": row["id"], "context": row["context"], "item": item, "reward": rewards(reward), "propensity": chance}
        for row in table.to_pylist()
        for item, reward, chance in zip(row["items"], row["rewards"], row["propensities"], strict=True)
    ]
    order = np.argsort(np.arange(len(rows)) % 7, kind="stable")
    return pa.Table.from_pylist([rows[i] for i in order])


def both(table: pa.Table, base: Database, folder: Path, candidates: Any, **options: Any) -> tuple[str, str]:
    """What the file says, and what the database does."""
    path = folder / "as.parquet"
    pq.write_table(table, path)
    return (
        as_bytes(evaluate_log(path, candidates, **options)),
        as_bytes(evaluate_log(base.put(table), candidates, **options)),
    )


@pytest.mark.parametrize("stated", [None, 0.06])
@pytest.mark.parametrize("layout", ["lists", "wide", "long"])
def test_the_same_bytes_for_every_layout(tmp_path: Path, base: Database, layout: str, stated: float | None) -> None:
    table, lists = world(tmp_path)
    table = {"lists": lambda t: t, "wide": wide, "long": long}[layout](table)
    ours, theirs = both(table, base, tmp_path, lists, min_propensity=stated)
    assert ours == theirs


def test_the_same_bytes_for_policies_catalogues_and_named_columns(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    for candidates, options in ((POLICIES, {}), (lists, {"n_actions": 20}), (lists, {"items": tmp_path / "items"})):
        (tmp_path / "items").write_text("\n".join(map(str, range(20))))
        ours, theirs = both(table, base, tmp_path, candidates, **options)
        assert ours == theirs
    named = wide(table)
    named = named.rename_columns(
        [name.replace("item", "sku").replace("context", "User id") for name in named.column_names]
    )
    ours, theirs = both(named, base, tmp_path, lists, columns={"item": "sku"}, context=("User id",))
    assert ours == theirs


@pytest.mark.parametrize("kind", ["text", "spelt", "far", "negative", "decimal", "single", "truth"])
def test_the_same_bytes_for_every_type(tmp_path: Path, base: Database, kind: str) -> None:
    table, lists = world(tmp_path)
    table = wide(table)
    ids = table["id"].to_numpy()

    def changed(name: str, values: Any) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, pa.array(values))

    if kind == "text":
        table = changed("id", [f"r-{i}" if i % 3 else str(i) for i in ids])
    elif kind == "spelt":
        table = changed("id", [str(i) for i in ids])
    elif kind == "far":
        table = changed("id", ids * 3_000_000_000_000_000 - 5)  # up to 9.0e18, of 64 bits
    elif kind == "negative":
        table = changed("id", -ids)
    for i in range(M):
        chances = table[f"propensity_{i}"].to_numpy()
        rewards = table[f"reward_{i}"].to_numpy()
        if kind == "decimal":
            table = changed(f"propensity_{i}", [Decimal(repr(round(float(p), 12))) for p in chances])
        if kind == "single":
            table = changed(f"propensity_{i}", chances.astype(np.float32))
        if kind == "truth":
            table = changed(f"reward_{i}", rewards > 0)
    ours, theirs = both(table, base, tmp_path, lists)
    assert ours == theirs


def test_contexts_and_items_of_64_bits_and_rewards_in_decimals(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    table, own = wide(table), pq.read_table(lists)

    def far(column: Any) -> pa.Array:
        """Numbers that no double tells apart, or lists of them."""
        told = [
            [2**62 + one for one in value] if isinstance(value, list) else 2**62 + value for value in column.to_pylist()
        ]
        return pa.array(told, pa.list_(pa.int64()) if isinstance(told[0], list) else pa.int64())

    for i, name in enumerate(table.column_names):
        if name == "context" or name.startswith("item_"):
            table = table.set_column(i, name, far(table[name]))
        elif name.startswith("reward_"):
            cents = [Decimal(str(round(float(reward), 6))) for reward in table[name].to_numpy()]
            table = table.set_column(i, name, pa.array(cents, pa.decimal128(18, 6)))
    pq.write_table(pa.table({name: far(own[name]) for name in own.column_names}), lists)
    items = tmp_path / "items"
    items.write_text("\n".join(str(2**62 + item) for item in range(20)))
    ours, theirs = both(table, base, tmp_path, lists, items=items)
    assert ours == theirs
    with pytest.raises(LogError, match=r"unknown item .*item 46116860184273879\d\d is not in the catalogue"):
        evaluate_log(base.put(table), lists)  # numbers beyond 2³¹ are no positions: they are named


def test_only_rounds_that_matter_are_moved(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    given = base.put(wide(table))
    options: dict[str, Any] = dict.fromkeys(("format",), "auto") | dict.fromkeys(("features", "context"), ())
    options |= dict.fromkeys(("partition", "columns", "places", "sparsity", "n_actions", "items", "list_columns"))
    from comband.cluster import InProcess

    with pushed_down(given, lists, InProcess(), on_error="refuse", **options) as (joined, read):
        shard = joined.shards[0]
        assert isinstance(shard, SqlShard)
        seen = read.table.see(shard, sampling.sample_level(3000), repeated=False, smallest=True)
        rewarded = (np.array(table["rewards"].to_pylist()) > 0).any(axis=1)
        sampled = sampling.id_marks(table["id"].to_numpy()) < sampling.mark_limit(sampling.sample_level(3000))
        assert seen.table.frame.num_rows == (rewarded | sampled).sum()
        assert int(seen.quiet.counts.sum()) == (~rewarded & ~sampled).sum()
        assert len(joined.shards) == 1


def spoilt(table: pa.Table) -> pa.Table:
    """One fault of each kind that a table can have, in rows with and without reward."""
    rows = table.to_pylist()
    rows[3]["propensity_1"] = 1.5
    rows[10]["propensity_0"] = None
    rows[11]["propensity_2"] = float("nan")
    rows[20]["reward_0"] = None
    rows[21]["reward_0"] = -0.5
    rows[22]["reward_0"] = float("nan")
    rows[30]["context"] = 77
    rows[31]["context"] = 77
    rows[40]["context"] = None
    rows[41]["item_0"] = rows[41]["item_1"]
    rows[50]["id"] = None
    rows[60]["item_2"] = None
    rows[70]["propensity_0"] = 0.0
    rows[71]["item_0"] = -5
    rows[80] = dict(rows[90])  # logged twice
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_faulty_rows_are_counted_as_in_files(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    table = spoilt(wide(table))
    path = tmp_path / "spoilt.parquet"
    pq.write_table(table, path)
    expected = evaluate_log(path, lists, on_error="skip")
    assert expected.skipped["duplicate id"] == 1
    assert len(expected.skipped) >= 8
    given = base.put(table)
    found = evaluate_log(given, lists, on_error="skip")
    assert found.evaluation == expected.evaluation
    assert found.skipped == expected.skipped
    assert any(text.startswith("unknown context (2): ") for text in found.skipped_examples)
    with pytest.raises(LogError, match=r"has 15 faults: .*id 3: propensity 1\.5"):
        evaluate_log(given, lists)


@pytest.mark.parametrize("stated", [None, 0.0005])
def test_a_faulty_round_does_not_tell_the_smallest_propensity(
    tmp_path: Path, base: Database, stated: float | None
) -> None:
    table, lists = world(tmp_path)
    rows = wide(table).to_pylist()
    good = next(i for i, row in enumerate(rows) if not any(row[f"reward_{k}"] for k in range(M)))
    rows[good]["propensity_1"] = 0.002
    rows[41] |= {"item_0": rows[41]["item_1"], "propensity_0": 0.001}
    rows[42] |= {"context": 77, "propensity_0": 0.0005}
    spoilt = pa.Table.from_pylist(rows)
    ours, theirs = both(spoilt, base, tmp_path, lists, on_error="skip", min_propensity=stated)
    assert json.loads(ours)["skipped"] == {"repeated item": 1, "unknown context": 1}
    for name in (name for name in json.loads(ours) if name != "skipped_examples"):  # rows are named by their ids
        assert json.loads(ours)[name] == json.loads(theirs)[name], name
    mended = pa.Table.from_pylist([row for i, row in enumerate(rows) if i not in (41, 42)])
    ours, theirs = both(mended, base, tmp_path, lists, min_propensity=stated)
    assert ours == theirs


def test_rounds_of_impressions_that_are_not_whole(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    rows = [row for row in long(table).to_pylist() if not (row["round"] == 5 and row["item"] % 2)]
    rows += [dict(row) for row in rows if row["round"] == 9]  # all logged twice
    next(row for row in rows if row["round"] == 12)["context"] = 1
    next(row for row in rows if row["round"] == 12)["context"] = 2
    rows[100]["round"] = None
    spoilt = pa.Table.from_pylist(rows)
    path = tmp_path / "long.parquet"
    pq.write_table(spoilt, path)
    expected = evaluate_log(path, lists, on_error="skip")
    found = evaluate_log(base.put(spoilt), lists, on_error="skip")
    assert found.evaluation == expected.evaluation
    assert found.skipped == expected.skipped
    assert {"incomplete round", "duplicate rows", "missing value"} <= set(found.skipped)


def test_one_id_for_rounds_that_differ_is_refused_since_rows_have_no_order(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    rows = wide(table).to_pylist()
    rows[80]["id"] = rows[90]["id"]
    rows[3]["propensity_0"], rows[3]["id"] = 2.0, rows[4]["id"]  # a faulty round does not use up its id
    given = base.put(pa.Table.from_pylist(rows))
    with pytest.raises(LogError, match="has 2 faults"):
        evaluate_log(given, lists)
    with pytest.raises(LogError, match="has 1 ids that stand for several rounds that differ"):
        evaluate_log(given, lists, on_error="skip")
    rows[80]["id"] = 3000
    path = tmp_path / "mended.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    found = evaluate_log(base.put(pa.Table.from_pylist(rows)), lists, on_error="skip")
    assert as_bytes(found).replace("id 4", "row 4") == as_bytes(evaluate_log(path, lists, on_error="skip"))


def test_columns_of_other_types_are_refused_by_name(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    table = wide(table)
    when = pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * len(table), pa.timestamp("us", "UTC"))
    ids = pa.array([Decimal(int(i)) for i in table["id"].to_numpy()], pa.decimal128(20, 0))
    for name, values, message in (
        ("id", when, "column id must hold whole numbers of at most 64 bits or text; cast it .* in which time zone"),
        ("id", ids, "column id must hold whole numbers .*decimal ids to BIGINT or text"),
        ("context", when, "column context must hold"),
        ("reward_0", when, "column reward_0 must hold"),
    ):
        other = table.set_column(table.column_names.index(name), name, values)
        with pytest.raises(LogError, match=message):
            evaluate_log(base.put(other), lists)
    with pytest.raises(LogError, match=r"column day must hold .*time zone"):
        evaluate_log(base.put(table.append_column("day", when)), lists, partition="day")
    with pytest.raises(LogError, match=r"column id is missing \(a round is found by its id"):
        evaluate_log(base.put(table.drop_columns("id")), lists)
    with pytest.raises(LogError, match=r"column propensit.* is missing"):
        evaluate_log(base.put(table.drop_columns("propensity_2")), lists)


def days(table: pa.Table, n: int = 5) -> pa.Table:
    """The rows with a date, in days of different length."""
    edges = np.sort(np.random.default_rng(4).integers(0, len(table), size=n - 1))
    day = np.searchsorted(edges, np.arange(len(table)), side="right")
    return table.append_column("day", pa.array([dt.date(2026, 1, 1) + dt.timedelta(int(d)) for d in day]))


def test_partitions_are_those_of_folders(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    table = days(table)
    for day in set(table["day"].to_pylist()):
        chosen = table.filter(pa.compute.equal(table["day"], day)).drop_columns("day")
        folder = tmp_path / "by_day" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(chosen, folder / "part.parquet")
    expected = as_bytes(evaluate_log(tmp_path / "by_day", lists, partition="day"))
    assert expected != as_bytes(evaluate_log(tmp_path / "by_day", lists))  # the sample is another one
    assert as_bytes(evaluate_log(base.put(table), lists, partition="day")) == expected
    text = table.set_column(
        table.column_names.index("day"), "day", pa.array([str(d) for d in table["day"].to_pylist()])
    )
    assert as_bytes(evaluate_log(base.put(text), lists, partition="day")) == expected
    nobody = pa.array([None, *table["day"].to_pylist()[1:]])
    spoilt = base.put(table.set_column(table.column_names.index("day"), "day", nobody))
    with pytest.raises(LogError, match="missing in some rows"):
        evaluate_log(spoilt, lists, partition="day")


class Changing:
    """An engine whose table gets another row while it is read, if it cannot hold it still."""

    def __init__(self, inner: Any, change: Any) -> None:
        self._inner, self._change, self.dialect = inner, change, inner.dialect

    def fetch(self, statement: str) -> Any:
        found = self._inner.fetch(statement)
        if "least_0" in statement:  # the facts are there, the rounds are not
            self._change()
        return found

    def frozen(self) -> Any:
        return self._inner.frozen()


def test_a_table_that_changes_meanwhile(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    from comband.evaluation.logs.sql.engines import DuckDb

    table, lists = world(tmp_path)
    path = tmp_path / "shop.db"
    with duckdb.connect(str(path)) as connection:
        base = Database(connection, tmp_path)
        connection.register("arrived", wide(table))
        connection.execute("CREATE TABLE log AS SELECT * FROM arrived")
        expected = as_bytes(evaluate_log(SqlTable(connection, "log"), lists))
        other = connection.cursor()

        def change() -> None:
            other.execute("INSERT INTO log SELECT * REPLACE (id + 100000 AS id) FROM log LIMIT 10")

        # One transaction sees one state.
        assert as_bytes(evaluate_log(SqlTable(Changing(DuckDb(connection), change), "log"), lists)) == expected
        assert base.connection is connection

    def rewrite() -> None:
        pq.write_table(wide(table).slice(0, 2900), tmp_path / "moving.parquet")

    pq.write_table(wide(table), tmp_path / "moving.parquet")
    with duckdb.connect() as connection:
        given = SqlTable(Changing(DuckDb(connection), rewrite), f"read_parquet('{tmp_path}/moving.parquet')")
        with pytest.raises(LogError, match="changed while it was read"):
            evaluate_log(given, lists)


def test_every_database_says_what_it_saw_of_a_table_that_changes(tmp_path: Path, base: Database) -> None:
    table, lists = world(tmp_path)
    table = wide(table)
    given = base.put(table.slice(0, 2000), "moving")
    expected = as_bytes(evaluate_log(given, lists))

    others = ", ".join(name for name in table.column_names if name != "id")
    more = f"INSERT INTO moving SELECT id + 100000, {others} FROM moving LIMIT 10"

    def change() -> None:
        if isinstance(base, Elephant):
            with type(base.connection).connect(base.connection.info.dsn) as other:
                other.execute(more)
        elif isinstance(base, Duck):
            base.connection.cursor().execute(more)
        else:
            base.write("moving", table)

    with open_engine(given.where) as engine:
        changing = SqlTable(Changing(engine, change), "moving")
        if isinstance(base, Spark):  # it holds nothing still
            with pytest.raises(LogError, match="changed while it was read"):
                evaluate_log(changing, lists)
        else:
            assert as_bytes(evaluate_log(changing, lists)) == expected
    assert as_bytes(evaluate_log(given, lists)) != expected


def test_addresses_and_tables_that_are_none(tmp_path: Path) -> None:
    _, lists = world(tmp_path)
    for where, message in (
        ("oracle://x", "sql must be an address"),
        ("shop.db", "sql must be an address"),
        (3, "or a connection"),
    ):
        with pytest.raises(cb.InputError, match=message):
            evaluate_log(SqlTable(where, "log"), lists)
    with pytest.raises(LogError, match="cannot be opened"):
        evaluate_log(SqlTable(f"duckdb:///{tmp_path}/nothing.db", "log"), lists)
    with pytest.raises(LogError, match="DuckDB refuses a statement"):
        evaluate_log(SqlTable("duckdb:", "log"), lists)
    with pytest.raises(LogError, match=r"no PostgreSQL answers at postgresql://me:…@127\.0\.0\.1:1/x"):
        evaluate_log(SqlTable("postgresql://me:secret@127.0.0.1:1/x", "log"), lists)
    with pytest.raises(cb.InputError, match="must be the name of a table"):
        SqlTable("duckdb:", "")
    totals = pa.table({"context": [1], "items": [[1, 2, 3]], "total": [1.0], "list_propensity": [0.1]})
    pq.write_table(totals, tmp_path / "totals.parquet")
    with pytest.raises(LogError, match="in a database a log must have"):
        evaluate_log(SqlTable("duckdb:", f"read_parquet('{tmp_path}/totals.parquet')"), lists)


def test_places_of_items(tmp_path: Path, base: Database) -> None:
    rounds, policies = small_log(3000)
    placed = cb.Rounds(rounds.decisions, rounds.rewards)
    path, lists = tmp_path / "log.parquet", tmp_path / "lists.parquet"
    cb.write_rounds(placed, path)
    cb.write_candidates(policies, np.arange(30), lists)
    table = pq.read_table(path)
    for positions in ([1, 2, 3], [2, 0, 1]):
        more = table.append_column("positions", pa.array([positions] * len(table)))
        ours, theirs = both(more, base, tmp_path, lists, places="pairs")
        assert ours == theirs
    ours, theirs = both(table, base, tmp_path, lists, places="pairs")
    assert ours == theirs
    rows = long(table)
    where = dict.fromkeys(range(3000), 0)
    position = []
    for number in rows["round"].to_pylist():
        where[number] += 1
        position.append(where[number])
    rows = rows.append_column("position", pa.array(position))
    ours, theirs = both(rows, base, tmp_path, lists, format="impressions-by-position")
    assert ours == theirs


def listed(lists: Path) -> pa.Table:
    """The candidates' lists as a database has them: one row for each context, candidate and rank, in any order."""
    rows = [
        {"context": row["context"], "candidate": name, "rank": rank, "item": item}
        for row in pq.read_table(lists).to_pylist()
        for name, items in row.items()
        if name != "context"
        for rank, item in enumerate(items)
    ]
    return pa.Table.from_pylist([rows[i] for i in np.random.default_rng(1).permutation(len(rows))])


@pytest.mark.parametrize("layout", ["lists", "long"])
def test_lists_in_the_database_are_joined_there(tmp_path: Path, base: Database, layout: str) -> None:
    table, lists = world(tmp_path)
    wide_lists = pq.read_table(lists)
    in_order = wide_lists.select(["context", *sorted(name for name in wide_lists.column_names if name != "context")])
    pq.write_table(in_order, lists)  # a table has no order of candidates but that of their names
    table = days(table if layout == "lists" else long(table))
    there = base.put(listed(lists))
    for partition in (None, "day") if layout == "lists" else (None,):
        expected = as_bytes(evaluate_log(base.put(table), lists, partition=partition))
        assert as_bytes(evaluate_log(base.put(table), there, partition=partition)) == expected
    few = listed(lists).filter(pa.compute.less(listed(lists)["context"], 25))
    pq.write_table(in_order.filter(pa.compute.less(in_order["context"], 25)), lists)
    expected_answer = evaluate_log(base.put(table), lists, on_error="skip")
    found = evaluate_log(base.put(table), base.put(few), on_error="skip")
    assert found.evaluation == expected_answer.evaluation
    assert found.skipped == expected_answer.skipped
    assert set(found.skipped) == {"unknown context"}
    broken = few.slice(1)
    with pytest.raises(LogError, match="list length"):
        evaluate_log(base.put(table), base.put(broken), on_error="refuse")
    with pytest.raises(LogError, match="column rank is missing; a table of lists has"):
        evaluate_log(base.put(table), base.put(few.drop_columns("rank")))
