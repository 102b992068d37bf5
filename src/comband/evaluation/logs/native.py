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

Positions and placements are read where places bear on rewards (`read_log(places=…)`). With placements a log can be read
in every way: as it is, with pairs (the probability of an item in its place is one of them) and with factors, in
whatever order lists were. Without them propensities must be those of the item in its place for pairs, and for factors
those of the item anywhere in a list in random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.checks import possible_places
from comband.evaluation.logs.columns import as_floats, as_keys, as_rewards, list_columns
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.formats import (
    PLACEMENTS,
    LogFormat,
    RawRounds,
    context_keys,
    matrices,
    need_columns,
    need_lists,
)
from comband.evaluation.logs.keys import without_decimals
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import spelt_numbers

LISTS = {"items": "item", "rewards": "reward", "propensities": "propensity"}


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds."""
    for batch, _, _ in _rounds(table, list_size, context, faults, placed=False):
        yield batch


def placed_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with the place of each item, and propensities of the item in it."""
    for batch, at, known in _rounds(table, list_size, context, faults, placed=True):
        own = batch.propensities if known is None else np.take_along_axis(known, at[:, :, None], axis=2)[:, :, 0]
        yield replace(batch, positions=at, propensities=own)


def examined_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with the probabilities of places; items are in the order of places."""
    for batch, at, known in _rounds(table, list_size, context, faults, placed=True):
        order = np.argsort(at, axis=1)
        columns = {
            name: np.take_along_axis(getattr(batch, name), order, axis=1)
            for name in ("items", "rewards", "propensities")
        }
        assert known is not None
        yield replace(batch, **columns, placements=np.take_along_axis(known, order[:, :, None], axis=1))


def _rounds(
    table: TableFile, list_size: int, context: Sequence[str], faults: Faults, *, placed: bool
) -> Iterator[tuple[RawRounds, NDArray[np.int64], NDArray[np.float64] | None]]:
    """Batches of rounds, where their items were and, if `placed` and the file says so, could have been (n, m, m)."""
    key = list(context) or ["context"]
    need_columns(table, key, "comband's own log")
    items, rewards, propensities = (
        need_lists(table, plural, singular, list_size=list_size) for plural, singular in LISTS.items()
    )
    id_column = ["id"] if "id" in table.names else []
    stated = placed and list_columns(table.names, "positions", "position") is not None
    positions = need_lists(table, "positions", "position", list_size=list_size) if stated else []
    known = placed and list_columns(table.names, *PLACEMENTS) is not None
    likely = need_lists(table, *PLACEMENTS, list_size=list_size**2) if known else []
    for piece in table.pieces([*id_column, *key, *items, *rewards, *propensities, *positions, *likely], faults):
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
        wanted += [(likely, as_floats, "placements")] if known else []
        sizes = {"placements": list_size**2}
        kept, (shown, gained, drawn_with, *more) = matrices(
            piece, wanted, list_size=list_size, faults=faults, sizes=sizes
        )
        fine, at, of_places = good[kept], _in_order(len(kept), list_size), None
        if stated:
            at = _places(more[0], piece.rows[kept], faults)
            fine = fine & (at >= 0).all(axis=1)
        if known:
            of_places = more[-1].reshape(-1, list_size, list_size)
            fine = fine & possible_places(piece.rows[kept], shown, of_places, drawn_with, at, fine, faults)
        if not fine.all():
            kept, shown, gained, drawn_with = kept[fine], shown[fine], gained[fine], drawn_with[fine]
            at, of_places = at[fine], None if of_places is None else of_places[fine]
        batch = RawRounds(
            rows=piece.rows[kept],
            ids=None if ids is None else ids[kept],
            contexts=contexts[kept],
            items=shown,
            rewards=gained,
            propensities=drawn_with,
        )
        yield batch, at, of_places


def _in_order(n: int, list_size: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(list_size), (n, list_size))


def _places(positions: NDArray[Any], rows: NDArray[np.int64], faults: Faults) -> NDArray[np.int64]:
    """Places from 0 on (n, m), −1 where a row does not say each of them once; they may be counted from 0 or from 1."""
    n, m = positions.shape
    numbers = positions
    if numbers.dtype == object:  # some are no numbers; those are no places
        spelt, whole = (part.reshape(n, m) for part in spelt_numbers(without_decimals(positions.ravel())))
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
    examined=replace(
        NATIVE,
        rounds=examined_rounds,
        meaning="placements are the probability of the item in each place, and places count by the stated factors",
    ),
    placed=replace(
        NATIVE,
        rounds=placed_rounds,
        positional=True,
        meaning="propensities are those of the item in its place, and an item counts only where it was shown",
    ),
)
