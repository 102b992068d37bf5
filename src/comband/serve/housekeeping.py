"""What is removed from a store: experiments that were deleted, and by age decisions that brought nothing.

Retention by age removes decisions that are settled, learnt from and without a reward above 0, with their requests and
their zeros; those that brought something stay, for the learner looks at them again, and so do the first ones and the
sample that a certificate holds. Of the others the hash stays, which the chain has (`comband.serve.chain`). The
evidence stays whole: it is in the snapshots, plans and views. What can then no longer be recomputed is said with the
experiment (`retention_text`): its state from the journal alone, and estimates over rounds of which only the rewarded
ones are left, which would be wrong; so exports begin after them.

Both go in small steps, each a transaction of its own that any process may make.
"""

from __future__ import annotations

import logging
import threading
from functools import partial

import msgspec
import numpy as np

from comband.serve.certificates import is_audited
from comband.serve.database import StoreError
from comband.serve.digests import digests_of, index_of
from comband.serve.journal import INSERT_RUN, STRIDE, Journal
from comband.serve.progress import Progress
from comband.serve.requests import unpack_body
from comband.serve.schema import OF_EXPERIMENTS
from comband.serve.wire import spec_of
from comband.serve.writer import Writer

LOOKED_BACK_ON = 4096  # decisions before a snapshot whose lists the learner may still ask for
FIRST_KEPT = 64  # decisions by which a snapshot knows its candidates again
_RUNS = 32  # at a time
_DAY = 86_400_000  # milliseconds
_pack, _texts = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[str]).decode
_bodies, _lists = msgspec.msgpack.Decoder(list[bytes]).decode, msgspec.json.Decoder(list[list[str | int]]).decode
_log = logging.getLogger("comband.serve")


class Housekeeping:
    """A thread that removes what is to go.

    Parameters
    ----------
    journal, writer:
        From where, and by whom is written.
    every:
        Seconds from one look to the next.
    retention_days:
        After how many days decisions that brought nothing go; 0: never.
    """

    def __init__(self, journal: Journal, writer: Writer, *, every: float, retention_days: float) -> None:
        self._journal, self._writer, self._every, self._days = journal, writer, every, retention_days
        self._stop, self._news = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="comband-housekeeping", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There may be something to remove."""
        self._news.set()

    def close(self, within: float) -> None:
        """Stop after the step that is under way."""
        self._stop.set()
        self._news.set()
        self._thread.join(timeout=within)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for experiment in deleted(self._journal):
                    while not self._stop.is_set() and self._writer.call(partial(remove, experiment=experiment)):
                        pass
                if self._days:
                    self._retain()
            except StoreError as error:
                _log.warning("housekeeping waits for the store", extra={"facts": {"error": str(error)}})
            self._news.wait(self._every)
            self._news.clear()

    def _retain(self) -> None:
        before = self._journal.wall() - int(self._days * _DAY)
        for experiment, upto in removable(self._journal).items():
            removed = 0
            while not self._stop.is_set():
                step = self._writer.call(partial(remove_old, experiment=experiment, bound=upto, before=before))
                if step is None:
                    break
                removed += step
            if removed:
                _log.info("old decisions are removed", extra={"facts": {"experiment": experiment, "removed": removed}})


def deleted(journal: Journal) -> list[int]:
    """Experiments of all environments that were deleted and of which something is left."""
    return [row[0] for row in journal.database.read("SELECT id FROM experiments WHERE state = 'deleted'")]


def remove(journal: Journal, experiment: int) -> bool:
    """Remove a part of an experiment that was deleted; whether there may be more. Inside a transaction."""
    run, base = journal.database.run, experiment * STRIDE
    seed = _locked_seed(journal, experiment, "deleted")
    if seed is None:
        return False
    rows = run(
        f"SELECT first, items, requests FROM runs WHERE first >= ? AND first < ? ORDER BY first LIMIT {_RUNS}",
        [base, base + STRIDE],
    )
    if not rows:
        for table in OF_EXPERIMENTS:
            run(f"DELETE FROM {table} WHERE experiment = ?", [experiment])
        run("DELETE FROM experiments WHERE id = ?", [experiment])
        return False
    for first, _, requests in rows:
        _forget_requests(journal, seed, [(first + i, name) for i, name in enumerate(_texts(bytes(requests)))])
    end = rows[-1][0] + len(bytes(rows[-1][1]))
    run("DELETE FROM rewards WHERE decision >= ? AND decision < ?", [base, end])
    run("DELETE FROM runs WHERE first >= ? AND first < ?", [base, end])
    return True


def removable(journal: Journal) -> dict[int, int]:
    """Experiments of this environment, and below which decision each has learnt and need not look back."""
    rows = journal.database.read(
        "SELECT e.id, r.upto, MIN(s.position) FROM experiments e JOIN retained r ON r.experiment = e.id "
        "JOIN snapshots s ON s.experiment = e.id WHERE e.environment = ? AND e.state <> 'deleted' "
        "GROUP BY e.id, r.upto",
        [journal.environment],
    )
    finished = Progress(journal).finished()
    bounds = {row[0]: (row[1], row[2] if row[0] in finished else row[2] - LOOKED_BACK_ON) for row in rows}
    return {experiment: bound for experiment, (upto, bound) in bounds.items() if bound > upto}


def remove_old(journal: Journal, experiment: int, bound: int, before: int) -> int | None:
    """Remove some decisions numbered below `bound` and made before a time that brought nothing; how many went, None
    when there are no more to look at. Inside a transaction.
    """
    run, base = journal.database.run, experiment * STRIDE
    seed = _locked_seed(journal, experiment)
    if seed is None:
        return None
    audited = _audited(journal, experiment)
    [(upto, removed)] = run("SELECT upto, removed FROM retained WHERE experiment = ?", [experiment])
    rows = run(
        "SELECT first, time, epoch, items, shown, requests, bodies FROM runs "
        f"WHERE first >= ? AND first < ? ORDER BY first LIMIT {_RUNS}",
        [base + upto, base + bound],
    )
    rows = [row for row in rows if row[1] < before and row[0] + len(bytes(row[3])) <= base + bound]
    if not rows:
        return None
    end = rows[-1][0] + len(bytes(rows[-1][3]))
    keys = [rows[0][0], end]
    paid = {
        row[0]
        for row in run(
            "SELECT DISTINCT decision FROM rewards WHERE decision >= ? AND decision < ? AND counted = 1 AND value > 0",
            keys,
        )
    }
    kept, gone, leaves = [], [], []
    for first, time, epoch, items, shown, requests, bodies in rows:
        names, parts, lists = _texts(bytes(requests)), _bodies(bytes(bodies)), _lists(bytes(shown))
        sample = is_audited(bytes.fromhex(seed), np.arange(first - base, first - base + len(names)), audited)
        for i, name in enumerate(names):
            if first + i in paid or first + i < base + FIRST_KEPT or sample[i]:
                one = (bytes(items)[i : i + 1], msgspec.json.encode([lists[i]]), _pack([name]), _pack([parts[i]]))
                kept.append((first + i, time, epoch, *one))
            else:
                gone.append((first + i, name))
                leaf = unpack_body(parts[i]).leaf
                if leaf:
                    leaves.append((experiment, first + i - base, leaf))
    _forget_requests(journal, seed, gone)
    journal.database.run_many("DELETE FROM rewards WHERE decision = ?", [(key,) for key, _ in gone])
    run("DELETE FROM runs WHERE first >= ? AND first < ?", keys)
    journal.database.run_many("INSERT INTO leaves (experiment, decision, leaf) VALUES (?, ?, ?)", leaves)
    journal.database.run_many(INSERT_RUN, kept)
    run("UPDATE retained SET upto = ?, removed = ? WHERE experiment = ?", [end - base, removed + len(gone), experiment])
    return len(gone)


def retention_text(upto: int, removed: int) -> str:
    """What went by age, and what can no longer be recomputed."""
    return (
        f"Of the first {upto:,} decisions {removed:,} are removed, which brought no reward and had been learnt from; "
        "what they say is in the evidence. What can no longer be recomputed: this evidence from the decisions "
        "themselves (snapshots hold it), and estimates over these decisions, which exports leave out. A request "
        "from then that comes again is a new one. A certificate holds these decisions by their hashes only, and "
        "whether floors held: their lists and probabilities can no longer be looked up."
    )


def _locked_seed(journal: Journal, experiment: int, state: str | None = None) -> str | None:
    """The seed of an experiment, of which no other process removes anything meanwhile; None if it is gone."""
    run = journal.database.run
    run(f"SELECT upto FROM retained c WHERE experiment = ?{journal.database.FOR_UPDATE}", [experiment])
    rows = run("SELECT seed, state FROM experiments WHERE id = ?", [experiment])
    return rows[0][0] if rows and state in (None, rows[0][1]) else None


def _audited(journal: Journal, experiment: int) -> float:
    """The share of decisions that a certificate must hold in full; 0 without a chain."""
    [(spec,)] = journal.database.run("SELECT spec FROM experiments WHERE id = ?", [experiment])
    found = spec_of(bytes(spec))
    return float(found.audited) if found.is_recorded else 0.0  # type: ignore[arg-type]


def _forget_requests(journal: Journal, seed: str, decisions: list[tuple[int, str]]) -> None:
    digests = index_of(digests_of(seed, [name for _, name in decisions]))
    journal.database.run_many(
        "DELETE FROM requests WHERE digest = ? AND decision = ?",
        [(digest, key) for digest, (key, _) in zip(digests, decisions, strict=True)],
    )
