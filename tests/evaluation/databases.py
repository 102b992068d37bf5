"""Databases to put a log into: DuckDB, PostgreSQL and Spark, each skipped with a reason where it cannot run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from comband.evaluation.logs.sql import SqlTable
from tests.serve.postgres import binaries, server

_NUMBERS = count()


class Database:
    """One that an Arrow table can be put into, to be found there as a `SqlTable`."""

    def __init__(self, connection: Any, folder: Path) -> None:
        self.connection, self.folder = connection, folder

    def put(self, table: pa.Table, name: str | None = None) -> SqlTable:
        """The table under a name of its own, or this one."""
        name = name or f"log_{next(_NUMBERS)}"
        self.write(name, table)
        return SqlTable(self.connection, name)

    def write(self, name: str, table: pa.Table) -> None:
        raise NotImplementedError


class Duck(Database):
    def write(self, name: str, table: pa.Table) -> None:
        self.connection.register("arrived", table)
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arrived")
        self.connection.unregister("arrived")


class Elephant(Database):
    def write(self, name: str, table: pa.Table) -> None:
        columns = ", ".join(f'"{field.name}" {_postgres_type(field.type)}' for field in table.schema)
        with self.connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in table.to_pylist():
                    copy.write_row(tuple(row.values()))
        self.connection.commit()


class Spark(Database):
    def write(self, name: str, table: pa.Table) -> None:
        path = self.folder / f"{name}-{next(_NUMBERS)}.parquet"
        pq.write_table(table, path)
        self.connection.read.parquet(str(path)).createOrReplaceTempView(name)


def _postgres_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_postgres_type(kind.value_type)}[]"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    names = {"int64": "bigint", "int32": "integer", "double": "double precision", "float": "real", "string": "text"}
    names |= {"bool": "boolean", "date32[day]": "date", "timestamp[us, tz=UTC]": "timestamptz"}
    return names[str(kind)]


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    """An empty database of a kind."""
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            yield Duck(connection, folder)
    elif kind == "postgres":
        psycopg = pytest.importorskip("psycopg")
        if binaries() is None:
            pytest.skip("there is no PostgreSQL on this machine")
        with server() as running, psycopg.connect(running.address) as connection:
            yield Elephant(connection, folder)
    else:
        pytest.importorskip("pyspark")
        if shutil.which("java") is None:
            pytest.skip("there is no Java runtime on this machine")
        from comband.cluster.spark import session_of

        with session_of("spark:local[2]") as session:
            yield Spark(session, folder)
