"""What is known of a log's partitions between looks: in a file, or in three tables of a database."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comband.evaluation.keeping import from_bytes, to_bytes
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.sql.engines import Run, open_writable
from comband.evaluation.logs.sql.table import SqlTable
from comband.evaluation.parts import Part
from comband.page.problem import InputError

_TABLES = {
    "settings": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "partitions": "key TEXT PRIMARY KEY, digest TEXT NOT NULL, level INTEGER NOT NULL, n_rows BIGINT NOT NULL, "
    "rounds BIGINT NOT NULL, ids TEXT NOT NULL, faults TEXT NOT NULL, part BLOB",
    "answers": "question TEXT PRIMARY KEY, parts TEXT NOT NULL, total BLOB NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """A partition that is known, but for its part."""

    key: str
    digest: str
    level: int
    rows: int
    rounds: int
    ids: tuple[int, int] | None
    faults: Faults

    @property
    def name(self) -> str:
        """What it is called in lists of the parts that a sum holds: another one if anything of it is another."""
        return f"{self.key} {self.digest} {self.level}"


class State:
    """What is known; all of a look is written at once, or nothing.

    Parameters
    ----------
    run:
        Executes a statement with values for its question marks, and gives the rows of the answer.
    name:
        What messages call it.
    prefix:
        What the names of its tables begin with.
    """

    def __init__(self, run: Run, name: str, prefix: str = "") -> None:
        self._run, self.name, self._prefix = run, name, prefix

    def create(self, blob: str = "BLOB") -> None:
        """Make the tables that are not there."""
        for table, columns in _TABLES.items():
            self._run(f"CREATE TABLE IF NOT EXISTS {self._prefix}{table} ({columns.replace('BLOB', blob)})", ())

    def check_settings(self, settings: Mapping[str, str]) -> None:
        """Refuse a state of other candidates, another table or other options."""
        known = dict(self._all("settings", "name, value"))
        for name, value in settings.items():
            if known.get(name, value) != value:
                raise InputError(
                    f"{self.name} was made with another {name}; give another one, or remove it to begin anew."
                )
        for name, value in settings.items():
            self._put("settings", "name", (name, value))

    def partitions(self) -> dict[str, Kept]:
        """All that are known."""
        known = {}
        for key, digest, level, rows, rounds, ids, faults in self._all(
            "partitions", "key, digest, level, n_rows, rounds, ids, faults"
        ):
            ends = json.loads(ids)
            found = Faults("", *json.loads(faults))
            known[key] = Kept(key, digest, level, rows, rounds, None if ends is None else tuple(ends), found)
        return known

    def keep(self, known: Kept, part: Part | None) -> None:
        """Put a partition in the place of what was known of it."""
        faults = json.dumps([known.faults.counts, known.faults.examples])
        data = None if part is None else to_bytes(part)
        row = (known.key, known.digest, known.level, known.rows, known.rounds, json.dumps(known.ids), faults, data)
        self._put("partitions", "key", row)

    def forget(self, key: str) -> None:
        """A partition is no longer there."""
        self._run(f"DELETE FROM {self._prefix}partitions WHERE key = ?", (key,))

    def part(self, known: Kept) -> Part:
        """What is kept of a partition with rounds."""
        ((data,),) = self._run(f"SELECT part FROM {self._prefix}partitions WHERE key = ?", (known.key,))
        part: Part = from_bytes(bytes(data))
        return part

    def answer(self, question: str) -> tuple[set[str], Any] | None:
        """Of which parts a sum is known, and the sum."""
        rows = self._run(f"SELECT parts, total FROM {self._prefix}answers WHERE question = ?", (question,))
        return None if not rows else (set(json.loads(rows[0][0])), from_bytes(bytes(rows[0][1])))

    def answers(self, told: Mapping[str, tuple[Sequence[str], Any]]) -> None:
        """The sums of this look, in the place of those of the last one."""
        self._run(f"DELETE FROM {self._prefix}answers", ())
        for question, (parts, total) in told.items():
            self._put("answers", "question", (question, json.dumps(list(parts)), to_bytes(total)))

    def _all(self, table: str, columns: str) -> list[Any]:
        return self._run(f"SELECT {columns} FROM {self._prefix}{table}", ())

    def _put(self, table: str, key: str, row: Sequence[Any]) -> None:
        self._run(f"DELETE FROM {self._prefix}{table} WHERE {key} = ?", row[:1])
        self._run(f"INSERT INTO {self._prefix}{table} VALUES ({', '.join('?' * len(row))})", row)


@contextmanager
def open_state(where: str | os.PathLike[str] | SqlTable) -> Iterator[State]:
    """The state in a file or in tables, made if they are not there; what was written counts if all went well."""
    if isinstance(where, SqlTable):
        if not re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*", where.table):
            raise InputError(f"the name of a state's tables must be a plain one, such as comband_state, got {where}.")
        with open_writable(where.where, where.table) as (run, blob):
            state = State(run, where.table, f"{where.table}_")
            state.create(blob)
            yield state
        return
    if Path(where).is_dir() or not Path(where).absolute().parent.is_dir():
        raise InputError(f"state must be a file in a folder that is there, or tables of a database, got {where}.")
    connection = sqlite3.connect(where, isolation_level=None)
    try:
        state = State(lambda statement, values: connection.execute(statement, values).fetchall(), str(where))
        try:
            connection.execute("BEGIN IMMEDIATE")
            state.create()
        except sqlite3.Error as error:
            raise InputError(f"{where} is no state that can be written ({error}).") from None
        yield state
        connection.execute("COMMIT")
    finally:
        connection.close()  # what was not committed is as if it had not been
