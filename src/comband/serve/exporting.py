"""All settled rounds as Parquet that `comband evaluate` reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.background import BackgroundTask

from comband.policies.fallback import NOTHING
from comband.serve.journal import StoredDecision
from comband.serve.problems import RefusedError
from comband.serve.requests import Body, filled, unpack_body
from comband.serve.service import Service

_STEP = 2000


def export(service: Service, name: str, what: str) -> tuple[str, BackgroundTask]:
    """A file of the rounds, or of the candidates' lists in them, and a task that removes it.

    Items are text, whole numbers spelt out. Rounds after the winner was known are left out, in which only its list
    could be shown; so are candidates that were dropped or withdrawn, those whose lists need not have been sent all the
    time, and those that joined later. Where decisions were removed by age the file begins after them.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    handle, path = tempfile.mkstemp(suffix=".parquet")
    os.close(handle)
    writer = None
    try:
        for columns in _columns(service, name, what):
            table = pa.table(columns)
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is None:
            raise RefusedError(409, "No decision is complete yet: there is nothing to export.")
        writer.close()
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    return path, BackgroundTask(os.unlink, path)


def _columns(service: Service, name: str, what: str) -> Iterator[dict[str, Any]]:
    running, journal = service.experiments.find(name), service.journal
    experiment, spec = running.experiment, running.experiment.spec
    plan = running.plan or service.experiments.take_plan(running)
    m, front = spec.list_size, journal.counts(experiment.id)[1]
    begin = journal.retained(experiment.id)[0]  # of earlier ones only those with rewards may be left
    if running.reader.fallback == NOTHING:
        raise RefusedError(409, "Lists with empty places cannot be exported: a file of rounds has full ones.")
    status = service.queries.status(name)
    gone = {one["name"] for one in status.get("dropped", ())} | set(status.get("withdrawn", ()))
    chosen = [i for i, one in enumerate(spec.candidates) if one not in gone]

    def blocks() -> Iterator[tuple[int, int, list[StoredDecision], list[Body]]]:
        for start in range(begin, front, _STEP):
            stop = min(front, start + _STEP)
            every = journal.decisions(experiment.id, start, stop)
            rows = [row for row in every if plan is None or plan.winner is None or row.epoch < plan.epoch]
            if rows:
                yield start, stop, rows, [unpack_body(row.body) for row in rows]

    if what != "rounds" and running.reader.fallback is None:
        for _, _, _, bodies in blocks():
            for given, lists in {(body.given, len(body.table) // body.width // m) for body in bodies}:
                there = range(lists) if given is None else np.frombuffer(given, np.uint16).tolist()
                chosen = [i for i in chosen if i in there]
    stated: bool | None = None  # whether the first rounds, and so all, say where items could have been
    for start, stop, rows, bodies in blocks():
        keys = [np.array([str(key) for key in body.all_keys()], dtype=object) for body in bodies]
        numbers = np.array([row.number for row in rows])
        if what == "rounds":
            told = {name: np.zeros((stop - start, m)) for name in ("rewards", *(one.name for one in spec.metrics))}
            for part, values in enumerate(told.values()):
                for number, place, value in journal.rewards(experiment.id, start, stop, part):
                    values[number - start, place] = value
            columns = {
                "id": numbers,
                "epoch": np.array([row.epoch for row in rows]),
                "context": numbers,
                "items": [
                    mine[np.frombuffer(body.shown, np.int32)].tolist() for body, mine in zip(bodies, keys, strict=True)
                ],
                **{name: list(values[numbers - start]) for name, values in told.items()},
                "propensities": [np.frombuffer(body.propensities, np.float64) for body in bodies],
            }
            stated = any(body.placements for body in bodies) if stated is None else stated
            yield {**columns, **(_placements(bodies) if stated else {})}
        else:
            tables = [
                mine[filled(*body.rows(m), len(running.reader.names), running.reader.fallback)[chosen]]
                for body, mine in zip(bodies, keys, strict=True)
            ]
            yield _wide(numbers, [spec.candidates[i] for i in chosen], tables)


def _placements(bodies: list[Body]) -> dict[str, Any]:
    """Of each shown item, one after the other, the probability of each place."""
    found = []
    for body in bodies:
        q = np.frombuffer(body.propensities, np.float64)
        found.append(body.of_places().ravel() if body.placements else np.repeat(q / len(q), len(q)))
    return {"placements": found}


def _wide(numbers: NDArray[np.int64], names: list[str], tables: list[NDArray[Any]]) -> dict[str, Any]:
    """One row per context; where a candidate is called like a column, one per context and candidate."""
    if {"context", "candidate"} & set(names):
        return {
            "context": np.repeat(numbers, len(names)),
            "candidate": names * len(numbers),
            "items": [row.tolist() for table in tables for row in table],
        }
    return {"context": numbers, **{name: [table[p].tolist() for table in tables] for p, name in enumerate(names)}}
