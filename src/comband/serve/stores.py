"""SQLite, and which database an address names."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from comband.page.problem import InputError
from comband.serve.bounds import Bounds
from comband.serve.database import Database, LockedError, Row, StoreError, UnavailableError

_STEPS = 50_000  # of SQLite's machine, after which the clock is looked at


class Sqlite(Database):
    """One file, in WAL mode; a transaction is on disk (fsync) when it is committed.

    Parameters
    ----------
    path:
        The file; its folder must be there.
    bounds:
        How long the lock or a statement is waited for.
    """

    WORDS: ClassVar[Mapping[str, str]] = {"bytes": "BLOB", "real": "REAL", "key": "INTEGER", "sorted": "WITHOUT ROWID"}
    FOR_UPDATE, FOR_SHARE = "", ""
    LOCKS_ROWS = False

    def __init__(self, path: str | Path, bounds: Bounds | None = None) -> None:
        super().__init__(bounds)
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise InputError(f"the folder of the store {str(self.path)!r} does not exist; make it first.")

    def errors(self) -> tuple[type[BaseException], ...]:
        """What the driver raises."""
        return (sqlite3.Error,)

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():  # as private as a file can be; those that are there stay as they are
            with suppress(OSError):  # SQLite says it better
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self.path, isolation_level=None, timeout=self._lock_timeout, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cache_size=-16000")
        connection.set_progress_handler(self._is_late, _STEPS)
        return connection

    def _is_late(self) -> bool:
        """Whether the statement of this thread has taken too long."""
        return time.monotonic() > getattr(self._mine, "until", math.inf)

    def _begins(self) -> None:
        if not getattr(self._mine, "takes_long", False):
            self._mine.until = time.monotonic() + self.bounds.statement_timeout

    def _lift_timeouts(self) -> None:
        self._mine.until, self._mine.takes_long = math.inf, True

    def _interrupt(self, connection: sqlite3.Connection) -> None:
        connection.interrupt()

    def _kind(self, error: BaseException) -> type[StoreError]:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return LockedError
        return UnavailableError if code == sqlite3.SQLITE_INTERRUPT else StoreError

    def _begin(self, connection: sqlite3.Connection, write: bool) -> None:
        self._mine.takes_long = False
        self._begins()
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def _commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def _rollback(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _is_broken(self, connection: sqlite3.Connection) -> bool:
        return False

    def _run(self, connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> list[Row]:
        self._begins()
        return connection.execute(statement, values).fetchall()

    def _run_many(self, connection: sqlite3.Connection, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._begins()
        connection.executemany(statement, rows)


def open_database(address: str, bounds: Bounds | None = None) -> Database:
    """The database at `sqlite:///file` or `postgresql://…`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise InputError("the address of the store is none: write sqlite:///FILE or postgresql://….") from None
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        # sqlite:///relative/file, sqlite:////absolute/file
        return Sqlite(unquote(parts.path[1:]), bounds)
    if parts.scheme in ("postgresql", "postgres"):
        from comband.serve.postgres import Postgres

        return Postgres(address, bounds)
    # What stands behind the scheme may be a password.
    raise InputError(
        "a store must be sqlite:///FILE (with four slashes for an absolute path) or postgresql://…, got "
        f"{parts.scheme[:20] + ':…' if parts.scheme else 'another text'}."
    )
