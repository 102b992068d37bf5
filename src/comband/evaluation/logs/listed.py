"""Candidates' lists in other shapes: a row for each item of a list, one list for every context, the context by the
name that it has in the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_keys, list_columns
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import note_bad_keys
from comband.evaluation.logs.registry import rename_columns
from comband.evaluation.logs.runs import is_run
from comband.evaluation.logs.shards import ShardTable, find_files
from comband.evaluation.logs.tables import TableFile, arrow, open_table
from comband.evaluation.logs.usual_names import usual_candidates
from comband.page.catalogue import Catalogue, Keys, spelt_numbers
from comband.page.frames import is_frame


class EveryContext(Catalogue):
    """One context, by whatever key: that of lists which do not depend on it.

    >>> EveryContext().find(["u1", 7]).tolist()
    [0, 0]
    """

    def __init__(self) -> None:
        super().__init__([0])

    def _find(self, keys: Keys) -> NDArray[np.int64]:
        return np.zeros(len(keys), dtype=np.int64)


def lists_table(table: TableFile, columns: Mapping[str, str] | None = None) -> TableFile:
    """The table with its columns under the names that lists have: those that were told, then those that are usual."""
    table = rename_columns(table, columns)
    usual = usual_candidates(table)
    return table.renamed(usual) if usual else table


def with_context(source: Any, columns: Mapping[str, str] | None, context: Sequence[str]) -> Mapping[str, str] | None:
    """`columns` for the candidates of a log whose context is named: where they have no column `context` but the same
    column as the log, that is theirs too.
    """
    if not context or "context" in (columns or {}) or not _is_table(source):
        return columns
    named = source if is_frame(source) else find_files(source)[0]
    names = lists_table(open_table(named), columns).names
    if "context" in names or not set(context) <= set(names):
        return columns
    if len(context) > 1:
        raise LogError(
            f"{named}: several columns make up the context of the log ({', '.join(context)}); give the candidates one "
            f'column context that holds them joined with "|", such as {"|".join(context)}.'
        )
    return {**(columns or {}), "context": context[0]}


def _is_table(source: Any) -> bool:
    if is_frame(source):
        return not is_run(source)
    return isinstance(source, (str, os.PathLike)) and Path(source).exists() and not is_run(source)


def for_every_context(table: TableFile) -> TableFile:
    """A table without contexts, with one for all rows."""
    fields = {name: getattr(table, name) for name in TableFile.__dataclass_fields__}
    return ShardTable(**fields | {"names": (*table.names, "context")}, hive=(("context", "0"),))


def has_items(table: TableFile) -> bool:
    """Whether each row has one item of a list."""
    names = set(table.names)
    return {"candidate", "item"} <= names and list_columns(table.names, "items", "item") is None


def of_items(table: TableFile, faults: Faults) -> TableFile:
    """Rows of items as lists, in the order of `position` where there is one, otherwise of the rows.

    Rows of the new table are lists, in the order of their first items.
    """
    keys = ["context", "candidate", "item", *(["position"] if "position" in table.names else [])]
    lists: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for piece in table.pieces(keys, faults):
        found = {name: as_keys(piece.columns[name]) for name in keys}
        good = np.flatnonzero(~note_bad_keys(piece, found, faults))
        context, candidate, item, *more = (found[name].values[good] for name in keys)
        place = np.zeros(len(good), dtype=np.int64)
        if more:
            place, known = spelt_numbers(more[0]) if more[0].dtype == object else (more[0], np.ones(len(good), bool))
            said = table.called("position")
            wrong = [(int(piece.rows[good[i]]), f"{said} must be a whole number") for i in np.flatnonzero(~known)]
            faults.add("wrong position", wrong)
        for row, who, where, at, what in zip(piece.rows[good], candidate, context, place, item, strict=True):
            lists.setdefault((str(where), str(who)), []).append((int(at), int(row), str(what)))
    faults.settle("refuse")
    columns = {
        "context": [where for where, _ in lists],
        "candidate": [who for _, who in lists],
        "items": [[what for *_, what in sorted(rows)] for rows in lists.values()],
    }
    pa = arrow()
    kinds = {"context": pa.string(), "candidate": pa.string(), "items": pa.list_(pa.string())}
    made = open_table(pa.table({name: pa.array(values, type=kinds[name]) for name, values in columns.items()}))
    return replace(made, path=table.path)
