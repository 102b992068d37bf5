"""What the journal needs of a database: statements with `?`, one transaction at a time per connection."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from comband.page.problem import InputError
from comband.serve.bounds import Bounds
from comband.serve.schema import OLDEST, VERSIONS

Row = tuple[Any, ...]
Answer = Callable[[], list[Row]]


class StoreError(Exception):
    """The store cannot be read or written now (disk full, no connection); nothing of the transaction is in it."""


class UnavailableError(StoreError):
    """The store does not answer, or not in time: no use in trying parts of the transaction one by one."""


class CutError(UnavailableError):
    """The connection was cut: what can be done again may work on another one."""


class LockedError(UnavailableError):
    """A lock is held elsewhere for too long."""


class BusyError(UnavailableError):
    """Too much waits for the store already."""


class LateError(UnavailableError):
    """There is no answer in time; what was to be written may still be."""


class Database(ABC):
    """One database. Each thread has a connection of its own.

    A connection that was closed at the other end is replaced before it is used (`_is_stale`); when one turns out to be
    cut, those of all other threads that are as old are replaced too: a cut is felt once, and not by every thread.

    Parameters
    ----------
    bounds:
        How long a lock or a statement is waited for.
    """

    WORDS: ClassVar[Mapping[str, str]]  # what stands for the names in braces of `comband.serve.schema`
    FOR_UPDATE: str
    FOR_SHARE: str
    LOCKS_ROWS: ClassVar[bool]  # or all of it at once

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self._mine = threading.local()
        self._all: list[Any] = []
        self._lock = threading.Lock()
        self.failures: dict[str, int] = {}  # transactions that failed, by kind
        self._cuts = 0  # how often a connection was found to be cut

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[Database]:
        """What happens inside is in the database as a whole, and durable, when the block ends without error."""
        connection = self._connection(fresh=True)
        try:
            self._begin(connection, write)
            yield self
            self._commit(connection)
        except BaseException as error:
            try:
                self._rollback(connection)
            except Exception:
                self._forget(connection)
            if isinstance(error, self.errors()):
                words, kind = f"the store failed: {self._words(error)}", self._kind(error)
                if self._is_broken(connection):
                    self._cuts += 1
                    self._forget(connection)
                    kind = CutError
                with self._lock:
                    name = kind.__name__.removesuffix("Error").lower()
                    self.failures[name] = self.failures.get(name, 0) + 1
                raise kind(words) from error
            raise

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement inside a transaction; the rows that it returns."""
        return self._run(self._connection(), statement, values)

    def ask(self, statement: str, values: Sequence[Any] = ()) -> Answer:
        """The same for rows that are looked at later, by calling what is returned: several questions that are asked
        before the first answer is looked at cost one way to the server and back.
        """
        rows = self.run(statement, values)
        return lambda: rows

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """The same statement for many rows."""
        self._run_many(self._connection(), statement, rows)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one statement, outside of any transaction; asked again if the connection was cut."""
        return self._read(lambda: self.run(statement, values))

    def read_among(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """The same for `among`."""
        return self._read(lambda: self.among(statement, values))

    def _read(self, call: Callable[[], list[Row]]) -> list[Row]:
        try:
            with self.transaction(write=False):
                return call()
        except CutError:
            with self.transaction(write=False):
                return call()

    def among(self, statement: str, values: Sequence[Any]) -> list[Row]:
        """Rows of a statement with `IN (*)`, or with `(VALUES *)`, for as many values as there are."""
        return self.ask_among(statement, values)()

    def ask_among(self, statement: str, values: Sequence[Any]) -> Answer:
        """The same, for rows that are looked at later (`ask`)."""
        found: list[Row] = []
        each = "?" if "IN (*)" in statement else "(?)"
        for start in range(0, len(values), 500):
            part = values[start : start + 500]
            found += self.run(statement.replace("*", ", ".join([each] * len(part))), part)
        return lambda: found

    def migrate(self, versions: Sequence[Sequence[str]] = VERSIONS, oldest: int = OLDEST) -> int:
        """Bring the tables to the newest version; returns the version that was there.

        Raises `InputError`, and changes nothing, if a newer version has made the tables unfit for this one, or if this
        one would do that to processes that learn on the store now.
        """
        with self.transaction():
            self._lift_timeouts()  # migrating, and waiting for that, may take long
            self.lock_schema()  # even IF NOT EXISTS fails for one of two that create a table at once
            self.run("CREATE TABLE IF NOT EXISTS comband_schema (version INTEGER NOT NULL, oldest INTEGER NOT NULL)")
            rows = self.run("SELECT version, oldest FROM comband_schema")
            version, fit_for = map(int, rows[0]) if rows else (0, 0)
            if fit_for > len(versions):
                raise InputError(outdated(fit_for, len(versions)))
            if version < len(versions):
                if 0 < version < oldest and self.run("SELECT holder FROM leases WHERE expires > ?", [self.now()]):
                    raise InputError(
                        f"this comband changes the tables so that version {version}, which learns on the store now, "
                        "could not go on; stop all its processes first, and make a back-up."
                    )
                for statements in versions[version:]:
                    for statement in statements:
                        self.run(statement.format(**self.WORDS))
                self.run("DELETE FROM comband_schema")
                self.run("INSERT INTO comband_schema (version, oldest) VALUES (?, ?)", [len(versions), oldest])
        return version

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for connection in self._all:
                with suppress(Exception):
                    connection.close()
            self._all.clear()
        self._mine = threading.local()

    def wait_for_locks(self, seconds: float) -> None:
        """How long this thread waits for a lock from its next connection on, instead of as long as all do."""
        self._mine.lock_timeout = seconds

    def leave(self) -> None:
        """Close the connection of this thread, which ends."""
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            self._forget(connection)

    def interrupt(self) -> None:
        """Break off whatever runs in any connection."""
        with self._lock:
            connections = list(self._all)
        for connection in connections:
            with suppress(Exception):
                self._interrupt(connection)

    @property
    def _lock_timeout(self) -> float:
        return float(getattr(self._mine, "lock_timeout", self.bounds.lock_timeout))

    def _connection(self, *, fresh: bool = False) -> Any:
        """The connection of this thread; `fresh` where none of its transactions is open, and another one would do."""
        connection = getattr(self._mine, "connection", None)
        if fresh and connection is not None and (self._mine.cuts < self._cuts or self._is_stale(connection)):
            self._forget(connection)
            connection = None
        if connection is None:
            cuts = self._cuts
            try:
                connection = self._mine.connection = self._connect()
            except self.errors() as error:
                raise UnavailableError(f"the store cannot be opened: {self._words(error)}") from error
            self._mine.cuts = cuts
            with self._lock:
                self._all.append(connection)
        return connection

    def _words(self, error: BaseException) -> str:
        """What the driver says; for the log, not for callers: it may name places."""
        return str(error).strip() or type(error).__name__

    def _is_stale(self, connection: Any) -> bool:
        """Whether a connection on which nothing is under way was closed at the other end, as far as is known here."""
        return False

    def _forget(self, connection: Any) -> None:
        self._mine.connection = None
        with self._lock, suppress(ValueError):
            self._all.remove(connection)
        with suppress(Exception):
            connection.close()

    def now(self) -> int:
        """The database's clock in milliseconds, the same for all who use it; inside a transaction."""
        return self.clock()

    def clock(self) -> int:
        """The same, as far as it is known without asking: at any time."""
        return time.time_ns() // 1_000_000

    def lock_schema(self) -> None:  # noqa: B027 (SQLite has one writer anyway)
        """Keep others from changing the tables at the same time."""

    def wait(self, seconds: float) -> bool:
        """Wait for a sign that a plan was published, if the database gives such signs; whether one came."""
        threading.Event().wait(seconds)
        return False

    def notify(self) -> None:  # noqa: B027 (SQLite has no such signs)
        """Give such a sign when the transaction is committed."""

    def _lift_timeouts(self) -> None:  # noqa: B027 (where there are none)
        """Let this transaction take as long as it takes."""

    @abstractmethod
    def _kind(self, error: BaseException) -> type[StoreError]:
        """What such an error means."""

    @abstractmethod
    def _interrupt(self, connection: Any) -> None: ...

    @abstractmethod
    def errors(self) -> tuple[type[BaseException], ...]:
        """What the driver raises."""

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _begin(self, connection: Any, write: bool) -> None: ...

    @abstractmethod
    def _commit(self, connection: Any) -> None: ...

    @abstractmethod
    def _rollback(self, connection: Any) -> None: ...

    @abstractmethod
    def _is_broken(self, connection: Any) -> bool: ...

    @abstractmethod
    def _run(self, connection: Any, statement: str, values: Sequence[Any]) -> list[Row]: ...

    @abstractmethod
    def _run_many(self, connection: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...


def outdated(fit_for: int, known: int) -> str:
    """That the tables are of no use for this version any more."""
    return (
        f"the store needs version {fit_for} of the tables, and this comband knows {known}: it was used by a newer one; "
        "go on with that, or restore the back-up from before."
    )


def hidden(text: str, address: str) -> str:
    """A text without the address of a store, and without the password in it."""
    try:
        password = urlsplit(address).password
    except ValueError:
        password = None
    for secret in sorted({address, password or address, unquote(password or address)}, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text
