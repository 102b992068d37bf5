"""comband's own log: one row per round.

| column | content |
|---|---|
| `id` | the round, unique: a whole number or text (optional: the row number otherwise) |
| `context` | the context, as the candidates' file calls it |
| `items` | the shown list; or columns `item_0`, `item_1`, …, counted from 0 or from 1 |
| `rewards` | what each shown item brought, in [0, 1] (true and false are 1 and 0); or `reward_0`, … |
| `propensities` | the probability, given the context, that the item is anywhere in the list; or `propensity_0`, … |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from comband.logs.columns import as_floats, as_keys, as_rewards, list_columns
from comband.logs.faults import Faults
from comband.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns, need_lists
from comband.logs.tables import TableFile

LISTS = {"items": "item", "rewards": "reward", "propensities": "propensity"}


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds."""
    key = list(context) or ["context"]
    need_columns(table, key, "comband's own log")
    items, rewards, propensities = (
        need_lists(table, plural, singular, list_size=list_size) for plural, singular in LISTS.items()
    )
    id_column = ["id"] if "id" in table.names else []
    for piece in table.pieces([*id_column, *key, *items, *rewards, *propensities], faults):
        contexts, good = context_keys(piece, key, faults)
        ids = None
        if id_column:
            converted = as_keys(piece.columns["id"])
            unnamed = np.flatnonzero(converted.bad & good)
            faults.add("missing value", [(int(piece.rows[i]), "no id") for i in unnamed])
            ids, good = converted.values, good & ~converted.bad
        kept, (shown, gained, drawn_with) = matrices(
            piece,
            [(items, as_keys, "items"), (rewards, as_rewards, "rewards"), (propensities, as_floats, "propensities")],
            list_size=list_size,
            faults=faults,
        )
        fine = good[kept]
        if not fine.all():
            kept, shown, gained, drawn_with = kept[fine], shown[fine], gained[fine], drawn_with[fine]
        yield RawRounds(
            rows=piece.rows[kept],
            ids=None if ids is None else ids[kept],
            contexts=contexts[kept],
            items=shown,
            rewards=gained,
            propensities=drawn_with,
        )


def columns(names: Sequence[str]) -> list[str]:
    """What a file needs: lists are one column each, or one for each slot."""
    return ["context", *((list_columns(names, many, one) or [many])[0] for many, one in LISTS.items())]


NATIVE = LogFormat(
    name="comband",
    rounds=rounds,
    columns=columns,
    meaning="propensities are the probability that the item is anywhere in the list",
    row_by_row=True,
)
