"""PostgreSQL, by psycopg 3."""

from __future__ import annotations

import re
import select
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, ClassVar

from comband.page.problem import InputError
from comband.page.text import missing_extra
from comband.serve.bounds import Bounds
from comband.serve.database import Answer, Database, LockedError, Row, StoreError, UnavailableError, hidden

try:
    import psycopg
except ImportError as error:
    raise InputError(f"{missing_extra('PostgreSQL', 'psycopg', 'postgres')} ({error}).") from None

_INSERT = re.compile(r"INSERT INTO (\w+ \([\w, ]+\)) VALUES \([?, ]+\)")
_ARRAYS = {int: "bigint[]", float: "float8[]", str: "text[]", bytes: "bytea[]"}
_WITH_ROWS = ("SELECT", "WITH", "SHOW")
_CHANNEL = "comband_plans"
_ASK_CLOCK = 10.0  # seconds
_SCHEMA_LOCK = 0x636F6D62616E64  # a number of our own, held while the tables are changed


class Postgres(Database):
    """A PostgreSQL database; what is committed is durable as far as its `synchronous_commit` says (on, by default).

    The statements of a transaction that writes are pipelined: the server is waited for where rows are looked at, and at
    the end. One that fails is reported then, and nothing after it is done.

    Parameters
    ----------
    address:
        `postgresql://user@host/database`.
    bounds:
        How long a lock or a statement is waited for.
    """

    WORDS: ClassVar[Mapping[str, str]] = {"bytes": "BYTEA", "real": "DOUBLE PRECISION", "key": "BIGINT", "sorted": ""}
    FOR_UPDATE, FOR_SHARE = " FOR UPDATE OF c", " FOR SHARE OF c"
    LOCKS_ROWS = True

    def __init__(self, address: str, bounds: Bounds | None = None) -> None:
        super().__init__(bounds)
        self._address = address
        self._ahead: float | None = None  # how much the server's clock is ahead of this process' monotonic one, in s
        self._asked = 0.0  # when
        self._ears: Any = None
        self._ears_lock = threading.Lock()

    def errors(self) -> tuple[type[BaseException], ...]:
        """What the driver raises."""
        return (psycopg.Error,)

    def now(self) -> int:
        """The server's clock in milliseconds."""
        return int(self.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")[0][0])

    def clock(self) -> int:
        """The server's clock, as it was asked last (every ten seconds) and has gone on since: what is done to this
        machine's changes nothing.
        """
        if self._ahead is None:
            self._connection()  # which asks
        return int(1000 * (time.monotonic() + (self._ahead or 0.0)))

    def _ask_clock(self, connection: Any) -> None:
        before = time.monotonic()
        [seconds] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        self._asked = time.monotonic()
        self._ahead = seconds - (before + self._asked) / 2

    def notify(self) -> None:
        """Tell all deciders, when the transaction is committed."""
        self.run(f"NOTIFY {_CHANNEL}")

    def wait(self, seconds: float) -> bool:
        """Wait for a notification, or so long."""
        try:
            if self._ears is None:
                ears = psycopg.connect(self._address, autocommit=True, connect_timeout=5)
                ears.execute(f"LISTEN {_CHANNEL}")
                self._ears = ears
            if time.monotonic() - self._asked > _ASK_CLOCK:
                self._ask_clock(self._ears)
            return any(True for _ in self._ears.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error:
            self._deaf()
            time.sleep(seconds)
            return False

    def close(self) -> None:
        """Close every connection."""
        self._deaf()
        super().close()

    def _deaf(self) -> None:
        with self._ears_lock:
            ears, self._ears = self._ears, None
        if ears is not None:
            ears.close()

    def lock_schema(self) -> None:
        """Keep others from changing the tables at the same time."""
        self.run("SELECT pg_advisory_xact_lock(?)", [_SCHEMA_LOCK])

    def _connect(self) -> Any:
        statement = _milliseconds(self.bounds.statement_timeout)
        connection = psycopg.connect(self._address, autocommit=True, connect_timeout=5, tcp_user_timeout=int(statement))
        # A process that stands still in a transaction holds its locks no longer than others wait for a statement. How
        # rows are found is chosen each time: the tables grow from nothing while the first choices are remembered.
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', %s, false), "
            "set_config('plan_cache_mode', 'force_custom_plan', false)",
            [_milliseconds(self._lock_timeout), statement, statement],
        )
        self._ask_clock(connection)
        return connection

    def _lift_timeouts(self) -> None:
        self.run("SET LOCAL lock_timeout = 0")
        self.run("SET LOCAL statement_timeout = 0")
        self.run("SET LOCAL idle_in_transaction_session_timeout = 0")

    def _interrupt(self, connection: Any) -> None:
        connection.cancel_safe(timeout=1.0)

    def _kind(self, error: BaseException) -> type[StoreError]:
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return LockedError
        gone = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)
        return UnavailableError if isinstance(error, gone) else StoreError

    def _is_stale(self, connection: Any) -> bool:
        """The server says nothing unasked but that it goes."""
        if connection.closed or connection.broken:
            return True
        if not hasattr(select, "poll"):  # Windows
            return bool(select.select([connection.fileno()], [], [], 0)[0])
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _words(self, error: BaseException) -> str:
        return hidden(super()._words(error), self._address)

    def _begin(self, connection: Any, write: bool) -> None:
        """What only reads sees what is committed at each statement, in a transaction or not."""
        if write:
            self._mine.leave = ExitStack()
            self._mine.pipeline = self._mine.leave.enter_context(connection.pipeline())
            connection.execute("BEGIN")

    def _commit(self, connection: Any) -> None:
        if self._pipeline is not None:
            done = connection.execute("COMMIT")
            self._leave_pipeline()
            if done.statusmessage != "COMMIT":
                raise psycopg.OperationalError(f"COMMIT was answered with {done.statusmessage}")

    def _rollback(self, connection: Any) -> None:
        if self._pipeline is not None:
            with suppress(psycopg.Error):  # what failed is known
                self._leave_pipeline()
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")

    @property
    def _pipeline(self) -> Any:
        """That of the transaction that is open in this thread, if it writes."""
        return getattr(self._mine, "pipeline", None)

    def _leave_pipeline(self) -> None:
        self._mine.pipeline = None
        self._mine.leave.close()

    def _is_broken(self, connection: Any) -> bool:
        return bool(connection.closed or connection.broken)

    def ask(self, statement: str, values: Sequence[Any] = ()) -> Answer:
        """Rows that are looked at later."""
        cursor = self._connection().execute(statement.replace("?", "%s"), values, binary=True)
        pipeline = self._pipeline

        def rows() -> list[Row]:
            if pipeline is not None and cursor.pgresult is None:
                pipeline.sync()  # the server knows that we are at it: see `idle_in_transaction_session_timeout`
            return cursor.fetchall()  # type: ignore[no-any-return]

        return rows

    def ask_among(self, statement: str, values: Sequence[Any]) -> Answer:
        """The same for as many values as there are, by one statement for any number."""
        any_of = statement.replace("IN (*)", "= ANY(?)")
        return self.ask(any_of.replace("(VALUES *) AS keys", "unnest(?::bigint[]) AS keys(column1)"), [list(values)])

    def _run(self, connection: Any, statement: str, values: Sequence[Any]) -> list[Row]:
        if statement.startswith(_WITH_ROWS):
            return self.ask(statement, values)()
        connection.execute(statement.replace("?", "%s"), values)
        return []

    def _run_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        listed = list(rows)
        plain = _INSERT.fullmatch(statement)
        if plain is None or not listed:
            with connection.cursor() as cursor:
                cursor.executemany(statement.replace("?", "%s"), listed)
            return
        # Whole columns: one statement for any number of rows.
        columns = [list(column) for column in zip(*listed, strict=True)]
        arrays = ", ".join(f"%s::{_ARRAYS[type(column[0])]}" for column in columns)
        connection.execute(f"INSERT INTO {plain[1]} SELECT * FROM unnest({arrays})", columns)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(1000 * seconds)))
