"""Candidates' lists in a database: a table with one row for each context, candidate and rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from comband.evaluation.logs.candidates import CandidateLists, _assemble, _batches
from comband.evaluation.logs.faults import Faults, LogError, OnError
from comband.evaluation.logs.keys import ItemIndex
from comband.evaluation.logs.sql.engines import Engine
from comband.evaluation.logs.sql.statements import ListColumns, column_of, translated
from comband.evaluation.logs.sql.table import SqlTable
from comband.evaluation.logs.tables import arrow, open_table
from comband.page.catalogue import Catalogue

_KINDS = {"context": ("whole", "text"), "candidate": ("whole", "text"), "rank": ("whole",), "item": ("whole", "text")}


class OpenLists:
    """A table of lists in an open database: who the candidates are, and their lists for some contexts."""

    def __init__(self, engine: Engine, given: SqlTable, columns: Mapping[str, str] | None) -> None:
        self.given = given
        schema = engine.fetch(translated("SELECT * FROM comband_lists LIMIT 1", engine.dialect, self._tables)).schema
        found = {}
        for name, kinds in _KINDS.items():
            own = dict(columns or {}).get(name, name)
            if own not in schema.names:
                raise LogError(f"{given}: column {own} is missing; a table of lists has {', '.join(_KINDS)}.")
            found[name] = column_of(name, schema.field(own), own)
            if found[name].kind not in kinds or found[name].listed:
                raise LogError(f"{given}: column {own} must hold whole numbers{' or text' if len(kinds) > 1 else ''}.")
        self.columns = ListColumns(given.table, **found)
        who, rank = self.columns.candidate.sql, self.columns.rank.sql
        told = engine.fetch(
            translated(
                f"SELECT {who} AS name, COUNT(DISTINCT {rank}) AS n FROM comband_lists GROUP BY {who}",
                engine.dialect,
                self._tables,
            )
        ).to_pylist()
        if not told or any(row["name"] is None for row in told):
            raise LogError(f"{given} holds no candidate's list, or lists without a candidate's name.")
        self.names = tuple(sorted(str(row["name"]) for row in told))
        self.list_size = max(int(row["n"]) for row in told)

    @property
    def _tables(self) -> dict[str, str]:
        return {"comband_lists": self.given.table}

    def known(self, items: ItemIndex) -> CandidateLists:
        """The candidates, without any list."""
        nothing, nowhere = np.empty((len(self.names), 0, self.list_size), np.int32), Catalogue(np.empty(0, np.int64))
        return CandidateLists(self.names, nowhere, nothing, items, Faults(str(self.given)))

    def read(self, rows: Any, items: ItemIndex, on_error: OnError) -> CandidateLists:
        """The lists in some rows, checked as those of a file are."""
        if rows.num_rows == 0:
            return self.known(items)
        faults = Faults(str(self.given))
        batches = list(_batches(open_table(_nested(rows)), self._numbers(), items, faults, self.list_size))
        return _assemble(batches, self.names, items, faults, on_error)

    def _numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}


def _nested(rows: Any) -> Any:
    """One row for each list, its items by their ranks."""
    pa = arrow()
    rows = rows.sort_by([(name, "ascending") for name in ("context", "candidate", "rank")]).combine_chunks()
    keys = [rows[name].combine_chunks().dictionary_encode() for name in ("context", "candidate")]
    codes = [np.asarray(key.indices.fill_null(-1)) for key in keys]
    new = np.concatenate([[True], np.any([np.diff(code) != 0 for code in codes], axis=0)])
    starts = np.flatnonzero(new)
    offsets = pa.array(np.append(starts, rows.num_rows).astype(np.int32))
    items = pa.ListArray.from_arrays(offsets, rows["item"].combine_chunks())
    first = rows.select(["context", "candidate"]).take(pa.array(starts))
    return first.append_column("items", items)
