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

from comband.evaluation.logs.columns import list_columns
from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.formats import LogFormat, need_lists
from comband.evaluation.logs.impressions import BY_POSITION, IMPRESSIONS
from comband.evaluation.logs.keys import ItemIndex
from comband.evaluation.logs.native import LISTS, NATIVE
from comband.evaluation.logs.sampling import HEX_DIGITS, MULTIPLIER, NUMBERS_BELOW, PRIME, mark_limit
from comband.evaluation.logs.tables import TableFile, arrow
from comband.page.catalogue import Keys, spelt_numbers
from comband.page.problem import InputError
from comband.page.text import missing_extra

TESTED = ("duckdb", "postgres", "spark")
DIALECTS = (*TESTED, "snowflake", "bigquery")
"""Statements are executed and tested in the first three; for the others they are only translated."""

QUIET, LEAST, SPREAD = "comband_quiet", "comband_least", "comband_spread"
_STRICT = ("spark", "bigquery")  # an index beyond the end of a list is an error there
LOWEST = 1e-15  # smaller propensities are looked at one by one
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

    def facts(self, partition: Any = None, *, quiet: bool = False, limits: bool = True) -> str:
        """Of each context: how many rounds there are and, if asked for, the `limits` of their propensities.

        Of `quiet` rounds alone it tells how many there are beside all. Without that a propensity that is good is not
        looked for row by row, which costs more than all the rest.
        """
        quiet = quiet or self.grouped
        keys = [f"comband_key_{i}" for i in range(len(self.context))] if self.by_context else []
        told = [*keys, "COUNT(*) AS n", *([f"CAST(SUM({QUIET}) AS BIGINT) AS quiet"] if quiet else [])]
        for i, column in enumerate(self._propensities() if limits else ()):
            value = f"CASE WHEN {QUIET} = 1 THEN {column} END" if quiet else column
            told += [f"MIN({value}) AS least_{i}", f"MAX({value}) AS most_{i}", f"COUNT({value}) AS there_{i}"]
        inner = f"({self._rounds(self._where(partition), quiet=quiet)}) AS rounds"
        if self.lists is not None:
            keys = ["CASE WHEN comband_listed IS NULL THEN 0 ELSE 1 END"]
            told = [f"{keys[0]} AS comband_known", *told]
            there = f"SELECT DISTINCT {self.lists.context.sql} AS comband_listed FROM comband_lists"
            inner += f" LEFT JOIN ({there}) AS listed ON comband_key_0 = comband_listed"
        grouping = f" GROUP BY {', '.join(keys)}" if keys else ""
        return self._translated(f"SELECT {', '.join(told)} FROM {inner}{grouping}")

    def fetch(self, level: int, partition: Any = None, *, sound: bool = False, repeated: bool = False) -> str:
        """Rounds that are not quiet, those of the sample and, if there are any, those whose id comes `repeated`.

        `sound`: it is known that all propensities are within their limits.
        """
        return self._translated(self._fetch(level, partition, sound, repeated))

    def fetch_lists(self, level: int, partition: Any = None, *, sound: bool = False, repeated: bool = False) -> str:
        """The lists of the candidates for the contexts of the rounds that `fetch` gives."""
        assert self.lists is not None
        seen = f'SELECT "{self.context[0].name}" FROM ({self._fetch(level, partition, sound, repeated)}) AS seen'
        context = self.lists.context.sql
        return self._translated(f"SELECT {self.lists.selected} FROM comband_lists WHERE {context} IN ({seen})")

    def _fetch(self, level: int, partition: Any, sound: bool, repeated: bool) -> str:
        within, key = self._where(partition), self.id.sql
        wanted = [self._sampled(key, level)] if level else ["1 = 1"]
        if repeated:
            wanted.append(f"{key} IN ({self._repeated()})")
        if self.grouped:
            select = f"SELECT {self._selected()}, COALESCE({QUIET}, 0) AS {QUIET}_too FROM {self._from()}"
            rounds = f"LEFT JOIN ({self._rounds(within)}) AS rounds ON {key} = comband_id"
            limits = [f"({' OR '.join([f'{QUIET} = 0', f'{key} IS NULL', *wanted])})", *([within] if within else [])]
            return f"{select} {rounds} WHERE {' AND '.join(limits)}"
        wanted = [f"NOT COALESCE({self._kept(sound=sound)}, FALSE)", *wanted]
        return f"SELECT {self._selected()} FROM {self._slotted(within)} WHERE {' OR '.join(wanted)}"

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
        """Of each partition (or some), numbers that change when a row does; in any order of rows they are the same.

        They are sums of the database's own hash of a row: another version of it may have another one.
        """
        assert self._partition is not None
        told = [self.id, *self.context, *(c for columns in self._slots.values() for c in columns), *self._features]
        part, source = self._partition, self._from()
        if self.lists is not None:
            lists = self.lists
            key, hashed = lists.context.sql, self._hashed(lists.columns)
            own = (
                f"SELECT {key} AS comband_listed, SUM({hashed}) AS comband_lists_hash FROM comband_lists GROUP BY {key}"
            )
            source += f" LEFT JOIN ({own}) AS listed ON {self.context[0].sql} = comband_listed"
            told.append(Column("lists", "comband_lists_hash", "number"))
        literals = [_literal(one, part.kind) for one in partitions or ()]
        where = f" WHERE {part.sql} IN ({', '.join(literals)})" if literals else ""
        sums = ["COUNT(*) AS n", f"CAST(SUM({self._hashed(told)}) AS VARCHAR) AS total"]
        if self.id.kind == "whole":
            sums += [f"MIN({self.id.sql}) AS least_id", f"MAX({self.id.sql}) AS largest_id"]
        head = f'SELECT {part.sql} AS "partition", {", ".join(sums)}'
        return self._translated(f"{head} FROM {source}{where} GROUP BY {part.sql}")

    # Their parts

    def _from(self) -> str:
        return "comband_log"

    def _slotted(self, within: str) -> str:
        """The rows of the table, or those within a condition, with a column for each slot of those that hold lists."""
        where = f" WHERE {within}" if within else ""
        listed = [column for columns in self._slots.values() for column in columns if column.listed]
        values = [f"{self._spread(self.id.sql)} AS {SPREAD}"] if self.id.kind == "whole" else []
        for column in listed:
            for i in range(self.list_size):
                value = f"{column.sql}[{i + 1}]"
                if self.dialect in _STRICT:
                    value = f"CASE WHEN ARRAY_LENGTH({column.sql}) > {i} THEN {value} END"
                values.append(f"{value} AS {column.at(i)}")
        if not values:
            return f"{self._from()}{where}"
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

    def _quiet(self) -> str:
        """Whether a row is surely good and brought nothing: 1, or 0 if not or if that is not known."""
        return f"CASE WHEN {self._kept()} THEN 1 ELSE 0 END"

    def _kept(self, *, sound: bool = False) -> str:
        """That a row keeps the rules of one that is good and brought nothing; NULL where something is missing."""
        lists = [column for columns in self._slots.values() for column in columns if column.listed]
        items = self._values("item")
        rules = [f"{column.sql} IS NOT NULL" for column in (self.id, *self.context)]
        rules += [f"ARRAY_LENGTH({column.sql}) = {self.list_size}" for column in lists] + self._nothing()
        if not sound:
            rules += [f"{value} >= {LOWEST} AND {value} <= 1" for value in self._values("propensity")]
        rules += [self._known(value) for value in items]
        if not self.format.positional:
            rules += _different(items)
        elif self._slots["position"] and not self.grouped:
            places = self._values("position")
            inside = [" AND ".join(f"{one} BETWEEN {k} AND {self.list_size - 1 + k}" for one in places) for k in (0, 1)]
            rules += [f"({' OR '.join(inside)})", *_different(places)]
        return f"({' AND '.join(rules)})"

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

    def _rounds(self, within: str, *, quiet: bool = True) -> str:
        """One row per round, with its contexts' keys, its propensities and, if asked for, whether it is `quiet`."""
        where = f" WHERE {within}" if within else ""
        keys = [f"{column.sql} AS comband_key_{i}" for i, column in enumerate(self.context)]
        if not self.grouped:
            told = [*keys, *self._values("propensity"), *([f"{self._quiet()} AS {QUIET}"] if quiet else [])]
            return f"SELECT {', '.join(told)} FROM {self._slotted(within)}"
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
        told.append(f"CASE WHEN {' AND '.join(same)} THEN 1 ELSE 0 END AS {QUIET}")
        return f"SELECT {', '.join(told)} FROM {self._from()}{where} GROUP BY {self.id.sql}"

    def _repeated(self, within: str = "") -> str:
        """Ids that come more than once; of impressions, rounds that are in several partitions."""
        key, part = self.id.sql, "1" if self._partition is None else self._partition.sql
        many = f"COUNT(DISTINCT {part}) > 1" if self.grouped else "COUNT(*) > 1"
        where = " AND ".join([f"{key} IS NOT NULL", *([within] if within else [])])
        return f"SELECT {key} FROM {self._from()} WHERE {where} GROUP BY {key} HAVING {many}"

    def _sampled(self, key: str, level: int) -> str:
        """Whether an id is chosen at a level: `comband.evaluation.logs.sampling.id_marks`, in SQL."""
        limit = mark_limit(level)
        text = key if self.id.kind == "text" else f"CAST({key} AS VARCHAR)"
        by_text = f"SUBSTR(MD5({text}), 1, {HEX_DIGITS}) < '{2 * limit:0{HEX_DIGITS}x}'"
        number = f"CAST({key} AS BIGINT)"
        spread = SPREAD if self.id.kind == "whole" and not self.grouped else f"({self._spread(key)})"
        by_number = f"{spread} * {spread} % {PRIME} < {limit}"
        if self.id.kind == "text":
            spelt = f"REGEXP_MATCHES({key}, '^(0|-?[1-9][0-9]{{0,17}})$')"
        else:
            spelt = f"{number} > -{NUMBERS_BELOW} AND {number} < {NUMBERS_BELOW}"
        return f"CASE WHEN {spelt} THEN {by_number} ELSE {by_text} END"

    def _spread(self, key: str) -> str:
        """What is squared to mark an id: for −id it is negative, and its square the same."""
        return f"CAST({key} AS BIGINT) % {PRIME} * {MULTIPLIER} % {PRIME}"

    def _hashed(self, columns: Sequence[Column]) -> str:
        """A number for a row, of 64 bits; another one, as a rule, for another row."""
        names = [column.sql for column in columns]
        told = ", ".join(names)
        if self.dialect == "postgres":
            return f"HASH_RECORD_EXTENDED(ROW({told}), 0)"
        if self.dialect == "spark":  # what is NULL leaves its hash as it was
            plain = [f"CAST({c.sql} AS VARCHAR)" if c.listed else f"{c.sql}, {c.sql} IS NULL" for c in columns]
            return f"CAST(XXHASH64({', '.join(plain)}) AS DECIMAL(38, 0))"
        if self.dialect == "bigquery":
            return f"CAST(FARM_FINGERPRINT(TO_JSON_STRING(STRUCT({told}))) AS DECIMAL(38, 0))"
        return f"HASH({told})"

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
        return ", ".join(f'{column.sql} AS "{column.name}"' for column in self.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """What a row says."""
        return self.context, self.candidate, self.rank, self.item


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
