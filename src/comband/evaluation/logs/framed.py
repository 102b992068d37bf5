"""A log in a data frame whose candidates are policies: they are asked once per round, and read as a table of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comband.evaluation.logs.candidates import CandidateLists
from comband.evaluation.logs.columns import as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat, need_columns
from comband.evaluation.logs.keys import ItemIndex, unify_keys
from comband.evaluation.logs.reading import LogReading, read_log
from comband.evaluation.logs.registry import find_format, rename_columns
from comband.evaluation.logs.tables import TableFile, open_table
from comband.page.catalogue import Catalogue
from comband.page.frames import pick_columns, row_count, take_rows
from comband.policies.policy_set import PolicySet

_ROUND = "round"


def read_frame(
    frame: Any,
    policies: PolicySet,
    features: Sequence[str],
    *,
    format: str | LogFormat = "auto",
    sparsity: float | None = None,
    columns: Mapping[str, str] | None = None,
    on_error: str = "refuse",
) -> LogReading:
    """As `read_log`, with policies for candidates: they get the columns `features` of each round's (first) row.

    Policies are given a frame of the kind that came in. What they answer is kept, 4 bytes per item.
    """
    kind, table = find_format(format, rename_columns(open_table(frame), columns))
    needed = kind.needed(table.names)
    need_columns(table, sorted(needed - {"context"}), f"a log of the format {kind.name}")
    grouped = _ROUND in needed
    if grouped:
        keys, first = _rounds(table)
    else:
        keys = first = np.arange(row_count(frame))
        table = _numbered(table)
    lists = policies.predict(take_rows(pick_columns(frame, features, "features"), first))
    known = policies.catalogue
    items = ItemIndex(catalogue=known) if known is not None else ItemIndex(n_actions=policies.n_actions)
    if known is None and policies.n_actions is None:
        items.learn(np.unique(lists).astype(np.int64))
    candidates = CandidateLists(
        policies.names, Catalogue(keys), np.ascontiguousarray(lists.transpose(1, 0, 2)), items, Faults(str(table.path))
    )
    context = [_ROUND] if grouped else ["context"]
    return read_log(table, candidates, format=kind, sparsity=sparsity, context=context, on_error=on_error)


def _rounds(table: TableFile) -> tuple[Any, Any]:
    """The rounds there are, and the first row of each."""
    parts, rows = [], []
    for piece in table.pieces([_ROUND], Faults(str(table.path))):
        found = as_keys(piece.columns[_ROUND])
        parts.append(found.values[~found.bad])
        rows.append(piece.rows[~found.bad] - 1)
    if not parts or not sum(map(len, parts)):
        raise LogError(f"{table.path} holds no usable round.")
    keys, first = np.unique(unify_keys(parts), return_index=True)
    return keys, np.concatenate(rows)[first]


def _numbered(table: TableFile) -> TableFile:
    """The table with the number of its row for each context."""
    import pyarrow as pa

    names = [*table.names, "context"]
    own = dict(table.own)
    frame = table.frame.select([own.get(name, name) for name in table.names if name != "context"])
    frame = frame.rename_columns([name for name in table.names if name != "context"])
    frame = frame.append_column("context", pa.array(np.arange(table.frame.num_rows)))
    return TableFile(table.path, table.kind, tuple(dict.fromkeys(names)), table.scalars | {"context"}, frame)
