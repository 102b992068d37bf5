"""A table of a database as a log: its columns and format, its partitions, and the rounds that are to be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_floats
from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.keys import ItemIndex
from comband.evaluation.logs.registry import find_format, rename_columns
from comband.evaluation.logs.shards import Shard, ShardTable, partition_keys
from comband.evaluation.logs.sql.engines import Engine
from comband.evaluation.logs.sql.statements import LOWEST, QUIET, ListColumns, Statements, column_of, quoted_name
from comband.evaluation.logs.tables import arrow, open_table
from comband.page.problem import InputError

_FEW = 1000  # rows that tell what columns hold


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A log in a database, for `evaluate_log`.

    Parameters
    ----------
    where:
        Its address, or a connection (`comband.evaluation.logs.sql.open_engine`).
    table:
        The table, or a query in parentheses, in the database's own SQL: ``shop.clicks``,
        ``read_parquet('log/*.parquet')``.

    >>> from comband.evaluation.logs.sql import SqlTable
    >>> str(SqlTable("duckdb:///shop.db", "clicks"))
    'clicks'
    """

    where: Any
    table: str

    def __post_init__(self) -> None:
        if not isinstance(self.table, str) or not self.table.strip():
            raise InputError(f"table must be the name of a table, or a query in parentheses, got {self.table!r}.")

    def __str__(self) -> str:
        return self.table


@dataclass(frozen=True, eq=False, slots=True)
class SqlShard(Shard):
    """A partition of a table, or all of it; its own `table` holds but a few rows, `key` is the partition's value."""

    key: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class Quiet:
    """Quiet rounds of a partition, for each context, or for all, with one count and no keys.

    Where lists are in the database too, for contexts that are listed (True) and those that are not.
    """

    keys: list[Any] | None
    counts: NDArray[np.int64]
    smallest: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Seen:
    """The rounds of a partition that came back, and how many did not; with the lists for their contexts."""

    table: ShardTable
    quiet: Quiet
    lists: Any = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A digest of the rows of a partition, and its smallest and largest ids, if they are numbers."""

    digest: str
    ids: tuple[int, int] | None


@dataclass(eq=False, slots=True)
class OpenTable:
    """A table of an open database; statements are made once it is known what the candidates' lists look like."""

    engine: Engine
    given: SqlTable
    plain: ShardTable
    columns: dict[str, Any]
    format: LogFormat
    partition: str | None
    statements: Statements | None = field(default=None)
    bytes_moved: int = 0

    @classmethod
    def open(
        cls,
        engine: Engine,
        given: SqlTable,
        *,
        format: str | LogFormat,
        columns: Mapping[str, str] | None,
        partition: str | None,
    ) -> OpenTable:
        """Look at its columns."""
        alias = " AS log" if given.table.lstrip().startswith("(") and given.table.rstrip().endswith(")") else ""
        few = engine.fetch(f"SELECT * FROM {given.table}{alias} LIMIT {_FEW}")
        return cls.of_rows(engine, given, few, format=format, columns=columns, partition=partition)

    @classmethod
    def of_rows(
        cls,
        engine: Any,
        given: SqlTable,
        few: Any,
        *,
        format: str | LogFormat,
        columns: Mapping[str, str] | None,
        partition: str | None,
    ) -> OpenTable:
        """The same, by some rows of it."""
        kind, plain = find_format(format, rename_columns(_as_log(few, given), columns))
        own, schema = dict(plain.own), few.schema
        found = {name: column_of(name, schema.field(own.get(name, name)), own.get(name, name)) for name in plain.names}
        if partition is not None and partition not in found:
            raise plain.lacks(partition, why="it was named as the partition")
        return cls(engine, given, plain, found, kind, partition)

    def prepare(
        self,
        kind: LogFormat,
        *,
        list_size: int,
        context: Sequence[str],
        items: ItemIndex,
        by_context: bool,
        features: Sequence[str],
        lists: ListColumns | None = None,
    ) -> Statements:
        """The statements for candidates with such lists."""
        self.format = kind
        self.statements = Statements(
            self.given.table,
            self.columns,
            kind,
            list_size=list_size,
            context=context,
            items=items,
            dialect=self.engine.dialect,
            partition=self.partition,
            by_context=by_context,
            features=features,
            lists=lists,
        )
        return self.statements

    def rename(self, columns: Mapping[str, str]) -> None:
        """Tell what the table calls some columns, without reading them."""
        for name, own in columns.items():
            if name not in self.columns:
                raise InputError(f"the table has no column {name!r}: {', '.join(self.columns)}.")
            self.columns[name] = replace(self.columns[name], sql=quoted_name(own))

    def whole_contexts(self, context: Sequence[str]) -> bool:
        """Whether contexts are whole numbers, by the type of their one column."""
        key = list(context) or ["context" if "context" in self.columns else "round"]
        return len(key) == 1 and key[0] in self.columns and self.columns[key[0]].kind == "whole"

    def shards(self) -> list[Shard]:
        """Its partitions in their order, or all of it as one."""
        assert self.statements is not None
        sizes = self._ask(self.statements.sizes())
        rows = [int(n) for n in sizes["n"].to_pylist()]
        values = [None] if self.partition is None else sizes["partition"].to_pylist()
        if self.partition is not None and any(value is None for value in values):
            raise LogError(f"{self.given}: {self.partition} is missing in some rows, so that they are in no partition.")
        if not rows:
            raise LogError(f"{self.given} holds no usable round.")
        keys = [0] if self.partition is None else partition_keys(values)
        per_round = self.statements.list_size if self.statements.grouped else 1
        order = sorted(range(len(rows)), key=lambda i: keys[i])
        return [
            SqlShard(place, self.plain, self.format, rows[i] // per_round, keys[i], values[i])
            for place, i in enumerate(order)
        ]

    def repeated(self, key: Any = None) -> bool:
        """Whether some id comes twice, in a partition or anywhere."""
        assert self.statements is not None
        return bool(self._ask(self.statements.repeats(key))["n"][0].as_py())

    def shared(self) -> bool:
        """Whether some id is in several partitions."""
        assert self.statements is not None
        return bool(self._ask(self.statements.shared())["n"][0].as_py())

    def marks(self, keys: Sequence[Any] | None = None) -> dict[str, Mark]:
        """The digest of each partition, or of some of them, by their keys as text."""
        assert self.statements is not None
        if keys is not None and not keys:
            return {}
        found = self._ask(self.statements.digests(keys)).to_pylist()
        names = partition_keys([row["partition"] for row in found])
        return {
            str(name): Mark(
                f"{row['n']} {row['total']}",
                None if row.get("least_id") is None else (int(row["least_id"]), int(row["largest_id"])),
            )
            for name, row in zip(names, found, strict=True)
        }

    def versions(self) -> ShardTable:
        """All different rows whose id comes more than once."""
        assert self.statements is not None
        return _as_log(self._ask(self.statements.repeated_rows()), self.given)

    def see(self, shard: SqlShard, level: int, *, repeated: bool, smallest: bool) -> Seen:
        """The rounds of a partition that are to be seen at a level of the sample.

        With `smallest` it is told how small propensities are, of all rounds for each context, good or not; without it
        they are only known to be within their limits.
        """
        told = self.statements
        assert told is not None
        grouping = told.grouped or told.by_context or told.lists is not None
        facts = self._ask(told.facts(shard.key, limits=smallest)) if grouping or smallest else None
        how = {"sound": facts is not None and smallest and not told.grouped and _sound(facts), "repeated": repeated}
        rows = came = self._ask(told.fetch(level, shard.key, **how))
        if told.grouped:
            flags = arrow().array(rows[f"{QUIET}_too"].to_numpy() == 1)
            came, rows = rows.filter(flags), rows.drop_columns([f"{QUIET}_too"])
        lists = None if told.lists is None else self._ask(told.fetch_lists(level, shard.key, **how))
        keys = None if facts is None else self._keys(facts)
        counts = [shard.rows] if facts is None else facts["quiet" if told.grouped else "n"].to_pylist()
        left = np.array([int(n or 0) for n in counts])
        places = np.zeros(came.num_rows, dtype=np.int64)
        if keys is not None:
            numbers = {key: i for i, key in enumerate(keys)}
            places = np.array([numbers.get(key, -1) for key in self._keys_of(came, lists)], dtype=np.int64)
        if (places < 0).any():
            raise _changed(self.given)
        left -= np.bincount(places, minlength=len(left)) // (told.list_size if told.grouped else 1)
        lost = (
            facts is not None
            and told.grouped
            and sum(facts["n"].to_pylist()) != int(left.sum()) + _rounds_in(rows, told)
        )
        if lost or (left < 0).any():
            raise _changed(self.given)
        least = _smallest(facts) if facts is not None and smallest else np.zeros(len(left))
        return Seen(_as_log(rows, self.given), Quiet(keys, left, least), lists)

    def smallest(self, shard: SqlShard, keys: list[Any] | None) -> NDArray[np.float64]:
        """The smallest propensity of quiet rounds, for each of the contexts' keys that `see` gave."""
        assert self.statements is not None
        facts = self._ask(self.statements.facts(shard.key, quiet=True))
        least = _smallest(facts)
        if keys is None:
            return least
        found = dict(zip(self._keys(facts) or [], least.tolist(), strict=True))
        return np.array([found.get(key, np.inf) for key in keys])

    def _keys(self, facts: Any) -> list[Any] | None:
        """The key of each group of rounds: a context or, with lists in the database, whether it is listed."""
        assert self.statements is not None
        if self.statements.lists is not None:
            return [bool(one) for one in facts["comband_known"].to_pylist()]
        names = [f"comband_key_{i}" for i in range(len(self.statements.context))]
        return _joined(facts, names) if self.statements.by_context else None

    def _keys_of(self, rows: Any, lists: Any) -> list[Any]:
        """The same of rounds that came back, with the lists for their contexts."""
        assert self.statements is not None
        contexts = _joined(rows, [column.name for column in self.statements.context])
        if self.statements.lists is None:
            return contexts
        listed = set(lists[self.statements.lists.context.name].to_pylist())
        return [one in listed for one in contexts]

    def check_unchanged(self, shards: Sequence[Shard]) -> None:
        """Refuse a table that has other rows now than when it was read."""
        now = {shard.partition: shard.rows for shard in self.shards()}
        if now != {shard.partition: shard.rows for shard in shards}:
            raise _changed(self.given)

    def _ask(self, statement: str) -> Any:
        found = self.engine.fetch(statement)
        self.bytes_moved += int(found.nbytes)
        return found

    def first(self) -> Shard:
        """Some rows of it, to see what contexts look like."""
        return SqlShard(0, self.plain, self.format, None)


def _as_log(frame: Any, given: SqlTable) -> ShardTable:
    """Rows that came back, as a log."""
    known = open_table(frame)
    return ShardTable(Path(given.table), "frame", known.names, known.scalars, known.frame)


def _sound(facts: Any) -> bool:
    """Whether all propensities are there and within their limits, by what is known of each slot."""
    n, slots = facts["n"].to_pylist(), range(sum(name.startswith("there_") for name in facts.column_names))
    lowest, largest = (np.array([_floats(facts, f"{one}_{i}") for i in slots]) for one in ("least", "most"))
    there = all(facts[f"there_{i}"].to_pylist() == n for i in slots)
    return there and bool((lowest >= LOWEST).all() and (largest <= 1).all())


def _floats(facts: Any, name: str) -> NDArray[np.float64]:
    return as_floats(facts[name].combine_chunks()).values


def _smallest(facts: Any) -> NDArray[np.float64]:
    """The smallest propensity of each group; infinity where there is none."""
    names = [name for name in facts.column_names if name.startswith("least_")]
    return np.asarray(np.nan_to_num(np.fmin.reduce([_floats(facts, name) for name in names]), nan=np.inf))


def _rounds_in(rows: Any, statements: Statements) -> int:
    """How many rounds came back."""
    if not statements.grouped:
        return int(rows.num_rows)
    import pyarrow.compute as pc

    return int(pc.count_distinct(rows[statements.id.name], mode="all").as_py())


def _joined(table: Any, names: Sequence[str]) -> list[Any]:
    """The key of each row's context as files have it: one column, or several joined with "|"."""
    columns = [table[name].to_pylist() for name in names]
    return columns[0] if len(columns) == 1 else ["|".join(map(str, row)) for row in zip(*columns, strict=True)]


def _changed(table: SqlTable) -> LogError:
    return LogError(
        f"{table} changed while it was read; repeat it, on a table or a copy that stays as it is meanwhile."
    )


def synthetic_rows(format: str, *, list_size: int, text: Sequence[str], slots: bool, partition: str | None) -> Any:
    """A table without rows that has the columns of a format: lists, or one column for each slot."""
    pa = arrow()
    key = {name: pa.string() if name in text else pa.int64() for name in ("id", "round", "context", "item")}
    more = {} if partition is None else {partition: pa.string()}
    if format != "comband":
        columns = {"round": key["round"], "context": key["context"], "item": key["item"], "reward": pa.float64()}
        more |= {"position": pa.int64()} if format.endswith("position") else {}
        return pa.schema({**columns, "propensity": pa.float64(), **more}).empty_table()
    lists = {"item": key["item"], "reward": pa.float64(), "propensity": pa.float64()}
    names = {"item": "items", "reward": "rewards", "propensity": "propensities"}
    if slots:
        wide = {f"{one}_{i}": kind for one, kind in lists.items() for i in range(list_size)}
    else:
        wide = {names[one]: pa.list_(kind) for one, kind in lists.items()}
    return pa.schema({"id": key["id"], "context": key["context"], **wide, **more}).empty_table()
