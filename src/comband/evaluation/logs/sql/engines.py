"""Databases that a log can be in: each runs a statement and gives Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.tables import _first_line, arrow
from comband.page.problem import InputError
from comband.page.text import missing_extra

_ROWS = 100_000  # that PostgreSQL sends at a time

Run = Callable[[str, Sequence[Any]], list[Any]]
"""Executes a statement with values for its question marks, and gives the rows of the answer."""


class Engine(Protocol):
    """What is needed of a database: the dialect of its SQL, answers as Arrow, and a view that does not change."""

    dialect: str

    def fetch(self, statement: str) -> Any:
        """The answer, as a pyarrow Table."""
        ...

    def frozen(self) -> Any:
        """A context in which all statements see the same rows, if the database can do that."""
        ...


@contextmanager
def open_engine(where: Any) -> Iterator[Engine]:
    """A database by its address, or by a connection that is there already.

    "duckdb:" is an empty DuckDB, for files (``read_parquet('log/*.parquet')``), "duckdb:///shop.db" one with tables,
    "postgresql://user@host/base" a PostgreSQL, "spark:local[2]" and "spark://host:7077" Spark SQL.
    """
    if not isinstance(where, str):
        yield _engine_of(where)
        return
    opened = {"duckdb": _duckdb, "postgresql": _postgres, "postgres": _postgres, "spark": _spark}.get(_kind(where))
    if opened is None:
        raise InputError(
            f"sql must be an address such as duckdb:///shop.db, postgresql://user@host/base or spark:local[2], got "
            f"{where!r}."
        )
    with opened(where) as engine:
        yield engine


def _kind(where: str) -> str:
    return where.partition(":")[0] if ":" in where else ""


def is_address(where: str) -> bool:
    """Whether text is the address of a database that can be written to, and not that of a file."""
    return _kind(where) in ("duckdb", "postgresql", "postgres")


def _engine_of(given: Any) -> Engine:
    """The engine of a connection that is opened and closed elsewhere."""
    if all(hasattr(given, name) for name in ("dialect", "fetch", "frozen")):
        engine: Engine = given
        return engine
    module = type(given).__module__
    if "duckdb" in module:
        return DuckDb(given)
    if module.startswith("psycopg"):
        return Postgres(given)
    if module.startswith("pyspark"):
        return SparkSql(given)
    raise InputError(
        f"sql must be an address, or a connection of DuckDB, psycopg or Spark, got {type(given).__name__}."
    )


class DuckDb:
    """DuckDB: a transaction sees one state of the tables, though not of files."""

    dialect = "duckdb"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def fetch(self, statement: str) -> Any:
        """See `Engine`."""
        with _readable("DuckDB", statement):
            return self._connection.sql(statement).to_arrow_table()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """See `Engine`."""
        self._connection.execute("BEGIN TRANSACTION")
        try:
            yield
        finally:
            with suppress(Exception):
                self._connection.execute("ROLLBACK")


@contextmanager
def _duckdb(where: str) -> Iterator[Engine]:
    with _duckdb_connection(where, read_only=True) as connection:
        yield DuckDb(connection)


@contextmanager
def _duckdb_connection(where: str, *, read_only: bool) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError:
        raise InputError(missing_extra("a log in DuckDB", "duckdb", "sql")) from None
    path = where.removeprefix("duckdb:").removeprefix("//")
    try:
        connection = duckdb.connect(path, read_only=read_only) if path.strip("/") else duckdb.connect()
    except duckdb.Error as error:
        raise LogError(f"{where} cannot be opened ({_first_line(error)}).") from None
    with connection:
        yield connection


class Postgres:
    """PostgreSQL: one read-only transaction that sees one state of the tables."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def fetch(self, statement: str) -> Any:
        """See `Engine`."""
        pa = arrow()
        with _readable("PostgreSQL", statement), self._connection.cursor() as cursor:
            cursor.execute(statement)
            fields = [_postgres_field(column.name, column.type_code) for column in cursor.description]
            schema = pa.schema(fields)
            parts = []
            while rows := cursor.fetchmany(_ROWS):
                columns = [list(column) for column in zip(*rows, strict=True)]
                arrays = [_as_array(column, field.type) for column, field in zip(columns, fields, strict=True)]
                parts.append(pa.table(arrays, schema=schema))
            return pa.concat_tables(parts) if parts else schema.empty_table()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """See `Engine`."""
        self._connection.rollback()
        with self._connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(Exception):
                self._connection.rollback()


def _as_array(column: list[Any], kind: Any) -> Any:
    pa = arrow()
    if kind == pa.string():
        column = [None if value is None else str(value) for value in column]
    elif kind == pa.list_(pa.string()):
        column = [None if row is None else [None if v is None else str(v) for v in row] for row in column]
    return pa.array(column, kind)


def _postgres_field(name: str, code: int) -> Any:
    """The Arrow field of a column: decimals come as text, which is read as the closest number, and say so."""
    from psycopg.postgres import types

    pa = arrow()
    plain = {
        **dict.fromkeys(("int2", "int4", "int8"), pa.int64()),
        "float4": pa.float32(),
        "float8": pa.float64(),
        "bool": pa.bool_(),
        "date": pa.date32(),
        "timestamptz": pa.timestamp("us", "UTC"),
        "timestamp": pa.timestamp("us"),
        **dict.fromkeys(("text", "varchar", "bpchar", "name", "numeric"), pa.string()),
    }
    found = types.get(code)
    if found is None or found.name not in plain:
        return pa.field(name, pa.string(), metadata={"kind": "unknown"})
    kind = plain[found.name]
    told = {"kind": "decimal"} if found.name == "numeric" else None
    return pa.field(name, pa.list_(kind) if code == found.array_oid else kind, metadata=told)


@contextmanager
def _postgres(where: str) -> Iterator[Engine]:
    with _postgres_connection(where) as connection:
        yield Postgres(connection)


@contextmanager
def _postgres_connection(where: str) -> Iterator[Any]:
    try:
        import psycopg
    except ImportError:
        raise InputError(missing_extra("a log in PostgreSQL", "psycopg", "postgres")) from None
    try:
        connection = psycopg.connect(where)
    except psycopg.Error as error:
        raise LogError(f"no PostgreSQL answers at {_without_password(where)} ({_first_line(error)}).") from None
    try:
        yield connection
    finally:
        connection.close()


def _without_password(where: str) -> str:
    return re.sub(r"//([^:@/]*):[^@/]*@", r"//\1:…@", where)


class SparkSql:
    """Spark SQL. Files may change between statements: counts are compared at the end."""

    dialect = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    def fetch(self, statement: str) -> Any:
        """See `Engine`."""
        with _readable("Spark", statement):
            return self._session.sql(statement).toArrow()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """See `Engine`."""
        yield


@contextmanager
def _spark(where: str) -> Iterator[Engine]:
    from comband.cluster.spark import session_of

    with session_of(where) as session:
        yield SparkSql(session)


@contextmanager
def open_writable(where: Any, table: str) -> Iterator[tuple[Run, str]]:
    """A database that can be written to, and its type of bytes: what is run counts once all went well.

    `where` is an address or a connection of DuckDB or PostgreSQL. Of DuckDB's a second one is opened; one of psycopg
    must not be that of the log, whose transaction reads only.
    """
    kind = _kind(where) if isinstance(where, str) else type(where).__module__.partition(".")[0]
    if kind in ("duckdb", "_duckdb"):
        opened = _duckdb_connection(where, read_only=False) if isinstance(where, str) else where.cursor()
        name, mark, blob, begin = "DuckDB", "?", "BLOB", "BEGIN TRANSACTION"
    elif kind in ("postgresql", "postgres", "psycopg"):
        opened = _postgres_connection(where) if isinstance(where, str) else nullcontext(where)
        # Another look at the same state waits until this one has ended.
        name, mark, blob, begin = "PostgreSQL", "%s", "BYTEA", f"SELECT pg_advisory_xact_lock(hashtext('{table}'))"
    else:
        raise InputError(
            "the tables of a state must be in DuckDB or PostgreSQL (an address, or a connection); for other databases "
            "keep the state in a file."
        )
    with opened as connection:

        def run(statement: str, values: Sequence[Any]) -> list[Any]:
            with _readable(name, statement):
                told = connection.execute(statement.replace("?", mark), values)
                return list(told.fetchall()) if told.description else []

        try:
            run(begin, ())
            yield run, blob
            with _readable(name, "COMMIT"):
                connection.commit()
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise


@contextmanager
def _readable(name: str, statement: str) -> Iterator[None]:
    """What a database raises, as a sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each database has its own
        raise LogError(f"{name} refuses a statement ({_first_line(error)}): {statement[:300]}") from error
