"""The hash chain of an experiment: what was declared, every plan before its first decision, every decision as it was
made, every reward as it was settled. Each record is a line of JSON with the hash of the line before it, so that the
hash of the last one (`head`), published elsewhere, shows that nothing before it was changed.

Records are appended in the transaction that makes their fact durable, under the lock that numbers decisions: so their
order is that of the facts, whichever processes decide, and whichever learns. What a learner says again after another
one has failed, or from an older snapshot, stands there already and is left out. docs/certificate_format.md has the
records.

Of a decision the chain holds a *leaf*, the hash of its list, propensities, the candidates' lists, its items and its
request: what is not shown to an auditor is fixed all the same, and what is removed by age leaves its leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from comband.serve.database import Database

LEAF = 32  # bytes
INSERT_LINE = "INSERT INTO chain (experiment, number, kind, line) VALUES (?, ?, ?, ?)"
_FACTS = "('decisions', 'rounds')"  # of which there are many
_json = msgspec.json.Encoder(enc_hook=lambda value: value.tolist()).encode
_read = msgspec.json.decode
Record = dict[str, Any]


class Links:
    """Further records for one chain, inside the transaction that has the lock of its counters.

    Parameters
    ----------
    experiment:
        Whose chain.
    head, number:
        The hash of its last record, and how many there are.
    """

    def __init__(self, experiment: int, head: str, number: int) -> None:
        self.experiment, self.head, self.number = experiment, head, number
        self.rows: list[tuple[int, int, str, bytes]] = []  # for `INSERT_LINE`

    def add(self, record: Record) -> None:
        """One more."""
        line = _json({**record, "before": self.head})
        self.rows.append((self.experiment, self.number, record["kind"], line))
        self.head, self.number = sha256(line).hexdigest(), self.number + 1


def leaves_of(
    shown: NDArray[np.int32],
    propensities: NDArray[np.float64],
    tables: NDArray[np.int32],
    keys: Sequence[bytes],
    requests: Sequence[str],
) -> list[bytes]:
    """The leaves of decisions: lists (n, m), propensities (n, m), the candidates' lists (n, A, m), what the numbers of
    items stand for as JSON, and ids of requests.
    """
    n = len(requests)
    texts, wide = tables.astype("<i4", copy=False).tobytes(), tables[0].size * 4 if n else 0
    lists, weights = shown.astype("<i4", copy=False).tobytes(), propensities.astype("<f8", copy=False).tobytes()
    four, eight = shown.shape[1] * 4, shown.shape[1] * 8
    return [
        sha256(
            b"".join(
                (
                    lists[i * four : (i + 1) * four],
                    weights[i * eight : (i + 1) * eight],
                    texts[i * wide : (i + 1) * wide],
                    sha256(keys[i]).digest(),
                    requests[i].encode(),
                )
            )
        ).digest()
        for i in range(n)
    ]


def decisions_record(epoch: int, leaves: bytes, uncovered: Sequence[int]) -> Record:
    """Decisions of one epoch that became durable together; `uncovered` are the positions of those without floors."""
    digest = sha256(leaves).hexdigest()
    return {
        "kind": "decisions",
        "n": len(leaves) // LEAF,
        "epoch": epoch,
        "uncovered": list(uncovered),
        "leaves": digest,
    }


def rewards_record(rewards: Sequence[tuple[int, int, float]], front: int, upto: int, told: int, m: int) -> Record:
    """The record of what came for decisions from the front on, now that all below `upto` are settled, and so many were
    made; `unanswered` has a bit for each of them.
    """
    columns = answers_of(rewards, told, m)
    n, unanswered = len(columns["answers.ids"]), np.ones(upto - front, dtype=np.bool_)
    unanswered[[number - front for number, _, _ in rewards]] = False
    digests = {name: sha256(column.tobytes()).hexdigest() for name, column in columns.items()}
    return {
        "kind": "rounds",
        "rows": {"answers": n} if n else {},
        "columns": digests if n else {},
        "settled": upto,
        "unanswered": np.packbits(unanswered).tobytes().hex(),
        "told": told,
    }


def answers_of(rewards: Iterable[tuple[int, int, float]], told: int, m: int) -> dict[str, NDArray[Any]]:
    """Columns of the answers to some decisions, from (number, place, value) in order: of those with a reward."""
    found: dict[int, dict[int, float]] = {}
    for number, place, value in rewards:
        if value:
            found.setdefault(number, {})[place] = value
    values = np.zeros((len(found), m))
    for row, places in zip(values, found.values(), strict=True):
        for place, value in places.items():
            row[place] = value
    return {
        "answers.ids": np.array(list(found), dtype="<i8"),
        "answers.told": np.full(len(found), told, dtype="<i8"),
        "answers.rewards": values.astype("<f8", copy=False),
    }


# ---- inside a transaction --------------------------------------------------------------------------------------------


def begin(database: Database, experiment: int, record: Record) -> None:
    """The first record of a new experiment, which has a chain from then on."""
    links = Links(experiment, "0" * 64, 0)
    links.add({"kind": "begin", **record})
    _write(database, links)


def settle(
    database: Database, experiment: int, rewards: Sequence[tuple[int, int, float]], front: int, upto: int, m: int
) -> None:
    """Decisions from the front on, below `upto`, are settled, with these rewards."""
    next_, links = _locked(database, experiment)
    if links is not None:
        links.add(rewards_record(rewards, front, upto, next_, m))
        _write(database, links)


def tell(database: Database, experiment: int, news: Iterable[Record]) -> None:
    """What a learner says, but for what stands there already."""
    next_, links = _locked(database, experiment)
    if links is None:
        return
    known = _Known(told(database, experiment))
    if known.ended:
        return
    for record in news:
        if known.is_new(record):
            if record["kind"] == "plan":
                record = {**record, "first_id": next_}
            if "rounds" in record:
                record = {**record, "rounds": max(record["rounds"], known.rounds)}
            known.take(record)
            links.add(record)
    _write(database, links)


def told(database: Database, experiment: int) -> list[Record]:
    """All records but those of decisions and rewards, in order."""
    rows = database.run(
        f"SELECT line FROM chain WHERE experiment = ? AND kind NOT IN {_FACTS} ORDER BY number", [experiment]
    )
    return [_read(bytes(row[0])) for row in rows]


def lines(database: Database, experiment: int) -> Iterator[bytes]:
    """All records, as they stand."""
    first, step = 0, 5000
    while True:
        rows = database.read(
            "SELECT line FROM chain WHERE experiment = ? AND number >= ? AND number < ? ORDER BY number",
            [experiment, first, first + step],
        )
        yield from (bytes(row[0]) for row in rows)
        if len(rows) < step:
            return
        first += step


def head_of(database: Database, experiment: int) -> tuple[str, int, int, bool]:
    """The head, how many records and how many decisions stand before it, and whether the chain has ended; an empty head
    where an experiment has no chain.
    """
    rows = database.read(
        "SELECT c.head, c.records, c.next, (SELECT COUNT(*) FROM chain h WHERE h.experiment = c.experiment "
        f"AND h.kind = 'end' AND h.kind NOT IN {_FACTS}) FROM counters c WHERE c.experiment = ?",
        [experiment],
    )
    return (rows[0][0], int(rows[0][1]), int(rows[0][2]), bool(rows[0][3])) if rows else ("", 0, 0, False)


def _locked(database: Database, experiment: int) -> tuple[int, Links | None]:
    """How many decisions there are, and the chain to be added to, if there is one."""
    [(next_, head, records)] = database.run(
        f"SELECT next, head, records FROM counters c WHERE experiment = ?{database.FOR_UPDATE}", [experiment]
    )
    return int(next_), Links(experiment, head, int(records)) if head else None


def _write(database: Database, links: Links) -> None:
    database.run_many(INSERT_LINE, links.rows)
    database.run(
        "UPDATE counters SET head = ?, records = ? WHERE experiment = ?", [links.head, links.number, links.experiment]
    )


class _Known:
    """What stands in a chain that a learner may say again."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.plans, self.changes, self.rounds, self.ended = 0, 0, 0, False
        self.out: set[int] = set()
        self.claims: set[tuple[int, float]] = set()
        self.warnings: list[str] = []
        for record in records:
            self.take(record)

    def is_new(self, record: Mapping[str, Any]) -> bool:
        """Whether it has to be said."""
        kind = record["kind"]
        if kind == "plan":
            return bool(record["epoch"] >= self.plans)
        if kind == "change":
            return bool(record["number"] >= self.changes)
        if kind == "dropped":
            return record["candidate"] not in self.out
        if kind == "claim":
            return (record["leader"], record["epsilon"]) not in self.claims
        return bool(kind != "guards" or record["warnings"] != self.warnings)

    def take(self, record: Mapping[str, Any]) -> None:
        """It is said."""
        kind, self.rounds = record["kind"], max(self.rounds, record.get("rounds", 0))
        if kind == "plan":
            self.plans = record["epoch"] + 1
        if kind == "change":
            self.changes += 1
        if kind == "change" or (kind == "plan" and record.get("restart")):
            self.out, self.claims = set(), set()
        if kind == "dropped":
            self.out.add(record["candidate"])
        if kind == "claim":
            self.claims.add((record["leader"], record["epsilon"]))
        if kind == "guards":
            self.warnings = list(record["warnings"])
        self.ended = self.ended or kind == "end"
