"""comband's own log: one row per round.

| column | content |
|---|---|
| `id` | the round, unique: a whole number or text (optional: the row number otherwise) |
| `context` | the context, as the candidates' file calls it |
| `items` | the shown list; or columns `item_0`, `item_1`, …, counted from 0 or from 1 |
| `rewards` | what each shown item brought, in [0, 1] (true and false are 1 and 0); or `reward_0`, … |
| `propensities` | the probability, given the context, that the item is anywhere in the list; or `propensity_0`, … |
| `placements` | of each item in turn, the probability of each place, m·m (optional: all alike); or `placement_0`, … |
| `positions` | the place of each item, counted from 0 or 1 (optional: its place in the list); or `position_0`, … |

Positions are read where rewards depend on item and place (`read_log(places="pairs")`); propensities are then those of
the item in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_floats, as_keys, as_rewards, list_columns
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns, need_lists
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import spelt_numbers

LISTS = {"items": "item", "rewards": "reward", "propensities": "propensity"}


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds."""
    return _rounds(table, list_size, context, faults, placed=False)


def placed_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with the place of each item."""
    return _rounds(table, list_size, context, faults, placed=True)


def _rounds(
    table: TableFile, list_size: int, context: Sequence[str], faults: Faults, *, placed: bool
) -> Iterator[RawRounds]:
    key = list(context) or ["context"]
    need_columns(table, key, "comband's own log")
    items, rewards, propensities = (
        need_lists(table, plural, singular, list_size=list_size) for plural, singular in LISTS.items()
    )
    id_column = ["id"] if "id" in table.names else []
    stated = placed and list_columns(table.names, "positions", "position") is not None
    positions = need_lists(table, "positions", "position", list_size=list_size) if stated else []
    for piece in table.pieces([*id_column, *key, *items, *rewards, *propensities, *positions], faults):
        contexts, good = context_keys(piece, key, faults)
        ids = None
        if id_column:
            converted = as_keys(piece.columns["id"])
            unnamed = np.flatnonzero(converted.bad & good)
            faults.add("missing value", [(int(piece.rows[i]), "no id") for i in unnamed])
            ids, good = converted.values, good & ~converted.bad
        wanted: list[Any] = [
            (items, as_keys, "items"),
            (rewards, as_rewards, "rewards"),
            (propensities, as_floats, "propensities"),
        ]
        wanted += [(positions, as_keys, "positions")] if stated else []
        kept, (shown, gained, drawn_with, *where) = matrices(piece, wanted, list_size=list_size, faults=faults)
        fine, at = good[kept], None
        if placed:
            at = _places(where[0], piece.rows[kept], faults) if where else _in_order(len(kept), list_size)
            fine = fine & (at >= 0).all(axis=1)
        if not fine.all():
            kept, shown, gained, drawn_with = kept[fine], shown[fine], gained[fine], drawn_with[fine]
            at = None if at is None else at[fine]
        yield RawRounds(
            rows=piece.rows[kept],
            ids=None if ids is None else ids[kept],
            contexts=contexts[kept],
            items=shown,
            rewards=gained,
            propensities=drawn_with,
            positions=at,
        )


def _in_order(n: int, list_size: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(list_size), (n, list_size))


def _places(positions: NDArray[Any], rows: NDArray[np.int64], faults: Faults) -> NDArray[np.int64]:
    """Places from 0 on (n, m), −1 where a row does not say each of them once; they may be counted from 0 or from 1."""
    n, m = positions.shape
    numbers = positions
    if numbers.dtype == object:  # some are no numbers; those are no places
        spelt, whole = (part.reshape(n, m) for part in spelt_numbers(positions.ravel()))
        numbers = np.where(whole, spelt, -1)
    at = numbers - numbers.min(axis=1, keepdims=True, initial=m)
    fits = (np.sort(at, axis=1) == np.arange(m)).all(axis=1) & np.isin(numbers.min(axis=1, initial=m), (0, 1))
    text = f"places must be 0 … {m - 1} or 1 … {m}, each once, got"
    wrong = np.flatnonzero(~fits)
    faults.add(
        "wrong position", [(int(rows[i]), f"{text} {positions[i].tolist()}") for i in wrong[:3]], count=len(wrong)
    )
    return np.where(fits[:, None], at, -1)


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
NATIVE = replace(
    NATIVE,
    placed=replace(
        NATIVE,
        rounds=placed_rounds,
        positional=True,
        meaning="propensities are those of the item in its place, and an item counts only where it was shown",
    ),
)
