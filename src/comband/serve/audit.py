"""Who changed what and when: an entry for each change, written with it in one transaction, and never changed.

Entries are numbered in the order in which they become durable, so that other processes hear of changes by reading what
is new. They outlive what they speak of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from comband.serve.journal import Journal
from comband.serve.wire import as_json


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something: the id of a token, if there is one, and its name or what else is known."""

    token: str
    name: str


PROCESS = Actor("", "the service itself")
OPEN = Actor("", "open: no token")
COMMAND = Actor("", "the command line")


@dataclass(frozen=True, slots=True)
class Entry:
    """One change; `experiment` is 0 where it concerns none."""

    id: int
    time: int
    experiment: int
    name: str
    token: str
    actor: str
    action: str
    detail: dict[str, Any]


def record(
    journal: Journal, by: Actor, action: str, *, experiment: int = 0, name: str = "", detail: Any = None
) -> None:
    """Write an entry. Inside the transaction that makes the change."""
    run = journal.database.run
    journal.database.lock_schema()  # in the order of commits
    [(number,)] = run("SELECT COALESCE(MAX(id), 0) + 1 FROM audit")
    run(
        "INSERT INTO audit (id, time, environment, experiment, name, token, actor, action, detail) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            number,
            journal.wall(),
            journal.environment,
            experiment,
            name,
            by.token,
            by.name,
            action,
            as_json({} if detail is None else detail),
        ],
    )
    journal.database.notify()


def latest(journal: Journal) -> int:
    """The number of the newest entry of all environments."""
    return int(journal.database.read("SELECT COALESCE(MAX(id), 0) FROM audit")[0][0])


def since(journal: Journal, number: int) -> list[Entry]:
    """Entries of this environment after the one with this number, in their order."""
    return _entries(journal, "WHERE environment = ? AND id > ? ORDER BY id", [journal.environment, number])


def before(journal: Journal, number: int, limit: int, name: str | None = None) -> list[Entry]:
    """So many entries of this environment before the one with this number, the newest first; of experiments of this
    name only, if there is one.
    """
    which, values = ("", []) if name is None else (" AND name = ?", [name])
    return _entries(
        journal,
        f"WHERE environment = ?{which} AND id < ? ORDER BY id DESC LIMIT ?",
        [journal.environment, *values, number, limit],
    )


def _entries(journal: Journal, which: str, values: Sequence[Any]) -> list[Entry]:
    rows = journal.database.read(
        f"SELECT id, time, experiment, name, token, actor, action, detail FROM audit {which}", values
    )
    return [Entry(*(*row[:7], msgspec.json.decode(bytes(row[7])))) for row in rows]
