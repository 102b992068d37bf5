"""The statements that find in a database what evaluation needs of a log, written once, in DuckDB's SQL.

A round is *quiet* if it is surely good and brought nothing: all its rewards are 0, its propensities lie well inside
their limits, nothing is missing, no item comes twice. What is not surely so comes back and is judged where files are
judged, so that the same faults are found, and counted alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comband.catalogue import Keys, spelt_numbers
from comband.logs.columns import list_columns
from comband.logs.faults import LogError
from comband.logs.formats import LogFormat, need_lists
from comband.logs.impressions import BY_POSITION, IMPRESSIONS
from comband.logs.keys import ItemIndex
from comband.logs.native import LISTS, NATIVE
from comband.logs.sampling import HEX_DIGITS, MULTIPLIER, NUMBERS_BELOW, PRIME, mark_limit
from comband.logs.tables import TableFile, arrow
from comband.problem import InputError
from comband.text import missing_extra

TESTED = ("duckdb", "postgres", "spark")
DIALECTS = (*TESTED, "snowflake", "bigquery")
"""Statements are executed and tested in the first three; for the others they are only translated."""

QUIET, ZERO, LEAST = "comband_quiet", "comband_zero", "comband_least"
_STRICT = ("spark", "bigquery")  # an index beyond the end of a list is an error there
_LEAST = 1e-15  # smaller propensities are looked at one by one
_ITEMS_IN_A_STATEMENT = 100_000
_BITS = 32  # ids that share a group when they are looked through for ones that come twice


@dataclass(frozen=True, slots=True)
class Column:
    """A column: what the format calls it, its expression, and its kind: whole, text, number, truth, date."""

    name: str
    sql: str
    kind: str
    listed: bool = False

    def at(self, i: int) -> str:
        """Its value in slot i, if it holds lists: a column of `Statements._slotted`."""
        return f"comband_{self.name}_{i}" if self.listed else self.sql


def column_of(name: str, field: Any, own: str) -> Column:
    """A column of a table, by its Arrow field."""
    types, kind = arrow().types, field.type
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    kind = kind.value_type if listed else kind
    told = (field.metadata or {}).get(b"kind", b"").decode()
    if told:
        found = {"decimal": "number"}.get(told, told)
    elif types.is_integer(kind) and kind not in (arrow().uint64(),):
        found = "whole"
    elif types.is_floating(kind) or types.is_decimal(kind):
        found = "number"
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        found = "text"
    else:
        found = "truth" if types.is_boolean(kind) else "date" if types.is_date(kind) else "unknown"
    return Column(name, quoted_name(own), found, listed)


def quoted_name(name: str) -> str:
    """The name of a column in a statement."""
    return '"' + name.replace('"', '""') + '"'


class Statements:
    """All statements on one table.

    Parameters
    ----------
    table:
        What the table, or a query in parentheses, is called in the database's own SQL.
    columns:
        Its columns, as the format calls them; with the partition's and policies' features.
    format:
        How rows are read: comband's own (one row per round) or impressions.
    list_size:
        m.
    context:
        The columns that make up the context.
    items:
        Which items there are, as the candidates know them.
    dialect:
        Of the database.
    partition:
        The column that says which partition a row belongs to.
    by_context:
        Whether quiet rounds are counted for each context, since candidates may not know it.
    features:
        Columns that policies are given.
    lists:
        The table of the candidates' lists, if these are in the database too: contexts are looked up there.
    """

    def __init__(
        self,
        table: str,
        columns: dict[str, Column],
        format: LogFormat,
        *,
        list_size: int,
        context: Sequence[str],
        items: ItemIndex,
        dialect: str,
        partition: str | None = None,
        by_context: bool = True,
        features: Sequence[str] = (),
        lists: ListColumns | None = None,
    ) -> None:
        if dialect not in DIALECTS:
            raise InputError(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}.")
        self.table, self.format, self.dialect = table, format, dialect
        self.by_context, self.lists = by_context and lists is None, lists
        self.grouped = format.name in (IMPRESSIONS.name, BY_POSITION.name)
        if not self.grouped and format.name != NATIVE.name:
            raise LogError(
                f"{table} is of the format {format.name}; in a database a log must have comband's own columns "
                "(context, items, rewards, propensities) or be one row per shown item (impressions)."
            )
        self._all, self._items, self.list_size = columns, items, list_size
        self._partition = None if partition is None else self._of(partition, "whole", "text", "date")
        names = TableFile("", "frame", tuple(columns), frozenset(n for n, c in columns.items() if not c.listed))  # type: ignore[arg-type]
        key = list(context) or (["context"] if "context" in columns or not self.grouped else ["round"])
        self.id = self._of("round" if self.grouped else "id", "whole", "text")
        self.context = [self._of(name, "whole", "text") for name in key]
        kinds = {"item": ("whole", "text"), "reward": ("whole", "number", "truth"), "propensity": ("whole", "number")}
        self._slots: dict[str, list[Column]] = {}
        for many, one in LISTS.items():
            own = [one] if self.grouped else need_lists(names, many, one, list_size=list_size)
            self._slots[one] = [self._of(name, *kinds[one]) for name in own]
        placed: list[Column] = []
        if format.positional and self.grouped:
            placed = [self._of("position", "whole")]
        elif format.positional and list_columns(names.names, "positions", "position") is not None:
            own = need_lists(names, "positions", "position", list_size=list_size)
            placed = [self._of(name, "whole") for name in own]
        self._slots["position"] = placed
        self._features = [columns[name] for name in features if name in columns]
        if lists is not None and len(self.context) > 1:
            raise LogError(
                "lists in a database are found by one column of the log, the context; join several in a view."
            )

    def _of(self, name: str, *kinds: str) -> Column:
        found = self._all.get(name)
        if found is None:
            why = " (a round is found by its id, not by its number)" if name == "id" else ""
            raise LogError(
                f"{self.table}: column {name} is missing{why}; the table has: {', '.join(self._all) or 'no columns'} "
                f"(--column {name}=NAME tells another name)."
            )
        if found.kind not in kinds:
            said = {"whole": "whole numbers of at most 64 bits", "text": "text", "number": "numbers"}
            said |= {"truth": "true and false", "date": "dates"}
            raise LogError(
                f"{self.table}: column {name} must hold {' or '.join(said[kind] for kind in kinds)}; cast it in a view "
                "(times to dates or text, saying in which time zone; decimal ids to BIGINT or text)."
            )
        return found

    # The statements

    def sizes(self) -> str:
        """How many rows each partition has."""
        if self._partition is None:
            return self._translated(f"SELECT COUNT(*) AS n FROM {self._from()}")
        part = self._partition.sql
        return self._translated(f'SELECT {part} AS "partition", COUNT(*) AS n FROM {self._from()} GROUP BY {part}')

    def facts(self, partition: Any = None) -> str:
        """Of each context: how many rounds, how many without reward, how many quiet, their smallest propensities."""
        least = [
            f"MIN(CASE WHEN {QUIET} = 1 THEN {column} END) AS least_{i}"
            for i, column in enumerate(self._propensities())
        ]
        keys = [f"comband_key_{i}" for i in range(len(self.context))] if self.by_context else []
        told = [
            *keys,
            "COUNT(*) AS n",
            f"CAST(SUM({ZERO}) AS BIGINT) AS zero",
            f"CAST(SUM({QUIET}) AS BIGINT) AS quiet",
        ]
        inner = f"({self._rounds(self._where(partition))}) AS rounds"
        if self.lists is not None:
            keys = ["CASE WHEN comband_listed IS NULL THEN 0 ELSE 1 END"]
            told = [f"{keys[0]} AS comband_known", *told]
            there = f"SELECT DISTINCT {self.lists.context.sql} AS comband_listed FROM comband_lists"
            inner += f" LEFT JOIN ({there}) AS listed ON comband_key_0 = comband_listed"
        grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
        return self._translated(f"SELECT {', '.join([*told, *least])} FROM {inner}{grouping}")

    def fetch(self, level: int, partition: Any = None, *, faultless: bool = False, repeated: bool = False) -> str:
        """Rounds that are not quiet, those of the sample and, if there are any, those whose id comes `repeated`.

        `faultless`: it is known that all rounds without reward are quiet, so that only rewards are looked at.
        """
        return self._translated(self._fetch(level, partition, faultless, repeated))

    def fetch_lists(self, level: int, partition: Any = None, *, faultless: bool = False, repeated: bool = False) -> str:
        """The lists of the candidates for the contexts of the rounds that `fetch` gives."""
        assert self.lists is not None
        seen = f'SELECT "{self.context[0].name}" FROM ({self._fetch(level, partition, faultless, repeated)}) AS seen'
        context = self.lists.context.sql
        return self._translated(f"SELECT {self.lists.selected} FROM comband_lists WHERE {context} IN ({seen})")

    def _fetch(self, level: int, partition: Any, faultless: bool, repeated: bool) -> str:
        within, key = self._where(partition), self.id.sql
        flag = ZERO if faultless else QUIET
        wanted = [f"{flag} = 0"]
        if self.grouped:
            wanted = [f"{flag} = 0", f"{key} IS NULL"]
        wanted += [self._sampled(key, level)] if level else ["1 = 1"]
        if repeated:
            wanted.append(f"{key} IN ({self._repeated()})")
        if self.grouped:
            select = f"SELECT {self._selected()}, COALESCE({flag}, 0) AS {QUIET}_too FROM {self._from()}"
            rounds = f"LEFT JOIN ({self._rounds(within)}) AS rounds ON {key} = comband_id"
            limits = [f"({' OR '.join(wanted)})", *([within] if within else [])]
            return f"{select} {rounds} WHERE {' AND '.join(limits)}"
        mark = self._zero() if faultless else self._quiet()
        inner = f"SELECT *, {mark} AS {flag} FROM {self._slotted(within)}"
        chosen = f"SELECT {self._selected()}, {flag} AS {QUIET}_too"
        return f"{chosen} FROM ({inner}) AS rounds WHERE {' OR '.join(wanted)}"

    def repeats(self, partition: Any = None) -> str:
        """How many groups of ids hold one that comes twice: 0 if none does."""
        within = self._where(partition)
        if self.grouped or self.id.kind == "text":
            return self._translated(f"SELECT COUNT(*) AS n FROM ({self._repeated(within)}) AS twice")
        key = f"CAST({self.id.sql} AS BIGINT)"
        bit = f"(CAST(1 AS BIGINT) << CAST({key} & {_BITS - 1} AS INT))"
        where = f" WHERE {within}" if within else ""
        # Different powers of two add up to what they are together, bit by bit; one that comes twice adds up to more.
        inner = (
            f"SELECT {key} - ({key} & {_BITS - 1}) AS first FROM {self._from()}{where} "
            f"GROUP BY {key} - ({key} & {_BITS - 1}) HAVING SUM({bit}) <> BIT_OR({bit})"
        )
        return self._translated(f"SELECT COUNT(*) AS n FROM ({inner}) AS twice")

    def shared(self) -> str:
        """How many ids are in several partitions."""
        assert self._partition is not None
        key = self.id.sql
        inner = f"SELECT {key} FROM {self._from()} GROUP BY {key} HAVING COUNT(DISTINCT {self._partition.sql}) > 1"
        return self._translated(f"SELECT COUNT(*) AS n FROM ({inner}) AS twice")

    def repeated_rows(self) -> str:
        """All different rows with an id that comes more than once."""
        if self.grouped:
            raise InputError("rows of impressions are never repeated rounds.")
        return self._translated(
            f"SELECT DISTINCT {self._selected()} FROM {self._from()} WHERE {self.id.sql} IN ({self._repeated()})"
        )

    def digests(self, partitions: Sequence[Any] | None = None) -> str:
        """Of each partition (or some), numbers that change when a row does; in any order of rows they are the same."""
        assert self._partition is not None
        values = []
        for columns in self._slots.values():
            for i in range(self.list_size if columns and not self.grouped else len(columns)):
                column = columns[0] if columns[0].listed else columns[i]
                values.append(self._digits(column, column.at(i)))
        values = [self._digits(self.id, self.id.sql), *(self._digits(c, c.sql) for c in self.context), *values]
        values += [self._digits(c, c.sql) for c in self._features if not c.listed]
        row = "0"
        for k, value in enumerate(values):
            factor = pow(MULTIPLIER, k + 1, PRIME)
            row = f"({row} + {value} * {factor}) % {PRIME}" if k % 2 else f"({row} + {value} * {factor} % {PRIME})"
        part = self._partition
        literals = [_literal(one, part.kind) for one in partitions or ()]
        where = f"{part.sql} IN ({', '.join(literals)})" if literals else ""
        told, sums = [f'{part.sql} AS "partition"', f"({row}) % {PRIME} AS v"], ["COUNT(*) AS n"]
        sums += ["CAST(SUM(v) AS VARCHAR) AS first", "CAST(SUM(v * v % 1000003) AS VARCHAR) AS second"]
        if self.id.kind == "whole":
            told.append(f"{self.id.sql} AS id")
            sums += ["MIN(id) AS least_id", "MAX(id) AS largest_id"]
        inner = f"SELECT {', '.join(told)} FROM {self._slotted(where)}"
        return self._translated(f'SELECT "partition", {", ".join(sums)} FROM ({inner}) AS marked GROUP BY "partition"')

    # Their parts

    def _from(self) -> str:
        return "comband_log"

    def _slotted(self, within: str) -> str:
        """The rows of the table, or those within a condition, with a column for each slot of those that hold lists."""
        where = f" WHERE {within}" if within else ""
        listed = [column for columns in self._slots.values() for column in columns if column.listed]
        if not listed:
            return f"{self._from()}{where}"
        values = []
        for column in listed:
            for i in range(self.list_size):
                value = f"{column.sql}[{i + 1}]"
                if self.dialect in _STRICT:
                    value = f"CASE WHEN ARRAY_LENGTH({column.sql}) > {i} THEN {value} END"
                values.append(f"{value} AS {column.at(i)}")
        return f"(SELECT *, {', '.join(values)} FROM {self._from()}{where}) AS slotted"

    def _where(self, partition: Any) -> str:
        if self._partition is None or partition is None:
            return ""
        literal = _literal(partition, self._partition.kind)
        return f"{self._partition.sql} = {literal}"

    def _selected(self) -> str:
        chosen = [self.id, *self.context, *(c for columns in self._slots.values() for c in columns), *self._features]
        named = {column.name: f'{column.sql} AS "{column.name}"' for column in chosen}
        return ", ".join(named.values())

    def _values(self, one: str) -> list[str]:
        """The expression of each slot."""
        columns = self._slots[one]
        return [
            (columns[0] if columns[0].listed else columns[i]).at(i)
            for i in range(1 if self.grouped else self.list_size)
        ]

    def _propensities(self) -> list[str]:
        return [LEAST] if self.grouped else self._values("propensity")

    def _nothing(self) -> list[str]:
        """That no item brought anything."""
        truth = self._slots["reward"][0].kind == "truth"
        return [f"NOT {value}" if truth else f"{value} = 0" for value in self._values("reward")]

    def _zero(self) -> str:
        return self._guarded(self._nothing(), ("reward",))

    def _guarded(self, conditions: Sequence[str], lists: Sequence[str]) -> str:
        """1 if all hold, 0 if not or if nobody knows; lists of another length are not looked into."""
        told = f"CASE WHEN {' AND '.join(conditions)} THEN 1 ELSE 0 END"
        lengths = [
            f"ARRAY_LENGTH({column.sql}) = {self.list_size}"
            for one in lists
            for column in self._slots[one]
            if column.listed
        ]
        return f"CASE WHEN {' AND '.join(lengths)} THEN {told} ELSE 0 END" if lengths else told

    def _quiet(self) -> str:
        """Whether a row is surely good and brought nothing."""
        conditions = [f"{column.sql} IS NOT NULL" for column in (self.id, *self.context)]
        conditions += self._nothing()
        conditions += [f"{value} >= {_LEAST} AND {value} <= 1" for value in self._values("propensity")]
        items = self._values("item")
        conditions += [self._known(value) for value in items]
        if not self.format.positional:
            conditions += _different(items)
        elif self._slots["position"] and not self.grouped:
            places = self._values("position")
            inside = [" AND ".join(f"{one} BETWEEN {k} AND {self.list_size - 1 + k}" for one in places) for k in (0, 1)]
            conditions += [f"({' OR '.join(inside)})", *_different(places)]
        return self._guarded(conditions, ("item", "reward", "propensity", "position"))

    def _known(self, value: str) -> str:
        """Whether an item surely is one of those there are."""
        text = self._slots["item"][0].kind == "text"
        catalogue, limit = self._items.catalogue, self._items.n_actions or 2**31 - 1
        if self._items.closed and catalogue is not None:
            return f"{value} IN ({', '.join(_item_literals(catalogue.keys, text))})"
        if not self._items.numeric:
            return f"{value} IS NOT NULL"
        if not text:
            return f"{value} >= 0 AND {value} < {limit}"
        spelt = f"REGEXP_MATCHES({value}, '^(0|[1-9][0-9]{{0,8}})$')"
        return f"CASE WHEN {spelt} THEN CAST({value} AS BIGINT) < {limit} ELSE FALSE END"

    def _rounds(self, within: str) -> str:
        """One row per round, with its contexts' keys, `zero` and `quiet`."""
        where = f" WHERE {within}" if within else ""
        keys = [f"{column.sql} AS comband_key_{i}" for i, column in enumerate(self.context)]
        if not self.grouped:
            kept = self._values("propensity")
            marks = f"{self._zero()} AS {ZERO}, {self._quiet()} AS {QUIET}"
            return f"SELECT {', '.join([*keys, *kept, marks])} FROM {self._slotted(within)}"
        same = [f"MIN({column.sql}) = MAX({column.sql})" for column in self.context]
        same.append(f"COUNT(*) = {self.list_size}")
        if self.format.positional:
            place = self._slots["position"][0].sql
            same.append(f"COUNT(DISTINCT {place}) = {self.list_size} AND MIN({place}) >= 0 AND MIN({place}) <= 1")
            same.append(f"MAX({place}) = MIN({place}) + {self.list_size - 1}")
        elif self.list_size > 1:
            same.append(f"COUNT(DISTINCT {self._slots['item'][0].sql}) = {self.list_size}")
        same.append(f"MIN({self._quiet()}) = 1")
        firsts = [f"MIN({column.sql}) AS comband_key_{i}" for i, column in enumerate(self.context)]
        told = [f"{self.id.sql} AS comband_id", *firsts, f"MIN({self._values('propensity')[0]}) AS {LEAST}"]
        told += [f"MIN({self._zero()}) AS {ZERO}", f"CASE WHEN {' AND '.join(same)} THEN 1 ELSE 0 END AS {QUIET}"]
        return f"SELECT {', '.join(told)} FROM {self._from()}{where} GROUP BY {self.id.sql}"

    def _repeated(self, within: str = "") -> str:
        """Ids that come more than once; of impressions, rounds that are in several partitions."""
        key, part = self.id.sql, "1" if self._partition is None else self._partition.sql
        many = f"COUNT(DISTINCT {part}) > 1" if self.grouped else "COUNT(*) > 1"
        where = " AND ".join([f"{key} IS NOT NULL", *([within] if within else [])])
        return f"SELECT {key} FROM {self._from()} WHERE {where} GROUP BY {key} HAVING {many}"

    def _sampled(self, key: str, level: int) -> str:
        """Whether an id is chosen at a level: `comband.logs.sampling.id_marks`, in SQL."""
        limit = mark_limit(level)
        text = key if self.id.kind == "text" else f"CAST({key} AS VARCHAR)"
        by_text = f"SUBSTR(MD5({text}), 1, {HEX_DIGITS}) < '{2 * limit:0{HEX_DIGITS}x}'"
        number = f"CAST({key} AS BIGINT)"
        spread = f"((({number} % {PRIME}) + {PRIME}) % {PRIME} * {MULTIPLIER} % {PRIME})"
        by_number = f"{spread} * {spread} % {PRIME} < {limit}"
        if self.id.kind == "text":
            spelt = f"REGEXP_MATCHES({key}, '^(0|-?[1-9][0-9]{{0,17}})$')"
        else:
            spelt = f"{number} > -{NUMBERS_BELOW} AND {number} < {NUMBERS_BELOW}"
        return f"CASE WHEN {spelt} THEN {by_number} ELSE {by_text} END"

    def _digits(self, column: Column, value: str) -> str:
        """A value as a number below the prime; another one, as a rule, for another value."""
        if column.kind == "whole":
            number = f"(CAST({value} AS BIGINT) % {PRIME} + {PRIME}) % {PRIME}"
        elif column.kind == "truth":
            number = f"CASE WHEN {value} THEN 1 ELSE 0 END"
        else:
            text = value if column.kind == "text" else f"CAST({value} AS VARCHAR)"
            digits = [f"(STRPOS('0123456789abcdef', SUBSTR(MD5({text}), {i + 1}, 1)) - 1) * {16**i}" for i in range(7)]
            number = f"CAST({' + '.join(digits)} AS BIGINT)"
        if column.kind == "number":
            near = f"CAST(ROUND({value} * 1e15) AS BIGINT)"
            near = f"({near} % {PRIME} + {PRIME}) % {PRIME}"
            number = f"CASE WHEN {value} >= -2 AND {value} <= 2 THEN {near} ELSE {number} END"
        listed = f"ARRAY_LENGTH({column.sql}) = {self.list_size} AND " if column.listed else ""
        return f"CASE WHEN {listed}{value} IS NOT NULL THEN {number} ELSE {PRIME - 1} END"

    def _translated(self, statement: str) -> str:
        """The statement in the database's own dialect, on its own table."""
        own = {"comband_log": self.table, "comband_lists": "" if self.lists is None else self.lists.table}
        return translated(statement, self.dialect, own)


@dataclass(frozen=True, slots=True)
class ListColumns:
    """A table of lists: one row for each context, candidate and rank."""

    table: str
    context: Column
    candidate: Column
    rank: Column
    item: Column

    @property
    def selected(self) -> str:
        """All of them, by the names they have here."""
        columns = (self.context, self.candidate, self.rank, self.item)
        return ", ".join(f'{column.sql} AS "{column.name}"' for column in columns)


def translated(statement: str, dialect: str, tables: Mapping[str, str]) -> str:
    """A statement in DuckDB's SQL in another dialect, with tables of the database in the place of names."""
    sqlglot = _sqlglot()
    tree = sqlglot.parse_one(statement, read="duckdb")
    for found in list(tree.find_all(sqlglot.exp.Table)):
        if found.name in tables:
            own, name = _source(tables[found.name], dialect), found.name.removeprefix("comband_")
            found.replace(own if own.alias else sqlglot.exp.alias_(own, name, table=True))
    if dialect == "snowflake":  # quoted names would have to be spelt in capitals
        for name in tree.find_all(sqlglot.exp.Identifier):
            if re.fullmatch(r"[a-z_][a-z0-9_]*", name.name):
                name.set("quoted", False)
    return str(tree.sql(dialect=dialect))


def _source(table: str, dialect: str) -> Any:
    sqlglot = _sqlglot()
    try:
        return sqlglot.parse_one(f"SELECT * FROM {table}", read=dialect).find(sqlglot.exp.From).this.copy()
    except sqlglot.errors.SqlglotError as error:
        why = str(error).splitlines()[0]
        raise LogError(f"{table!r} is no table, nor a query in parentheses ({why}).") from None


def _different(values: Sequence[str]) -> list[str]:
    return [f"{values[i]} <> {values[j]}" for i in range(len(values)) for j in range(i)]


def _sqlglot() -> Any:
    try:
        import sqlglot
    except ImportError:
        raise InputError(missing_extra("a log in a database", "sqlglot", "sql")) from None
    return sqlglot


def _literal(value: Any, kind: str) -> str:
    if kind == "whole":
        return str(int(value))
    text = "'" + str(value).replace("'", "''") + "'"
    return f"CAST({text} AS DATE)" if kind == "date" else text


def _item_literals(keys: Keys, text: bool) -> list[str]:
    if len(keys) > _ITEMS_IN_A_STATEMENT:
        raise LogError(
            f"{len(keys):,} items are too many to be named in a statement; leave --items out, or use --n-actions."
        )
    if text:
        return [_literal(key, "text") for key in keys]
    return [str(number) for number, spelt in zip(*spelt_numbers(keys), strict=True) if spelt] or ["NULL"]
