"""A log of totals: one row per round, which tells one number for the whole list.

| column | content |
|---|---|
| `id` | the round, unique: a whole number or text (optional: the row number otherwise) |
| `context` | the context, as the candidates' file calls it |
| `items` | the shown list; or columns `item_0`, `item_1`, …, counted from 0 or from 1 |
| `total` | what the list brought, one number of at most min(sparsity, list size) (true and false are 1 and 0) |
| `list_propensity` | the probability, given the context, of the shown list as a set; or instead |
| `first_propensities` | of lists that were begun with one drawn item and filled up uniformly: the probability of each \
shown item to be the one drawn; or `first_propensity_0`, … |

A log that a known mixture drew needs neither (`read_log(law=…)`). Otherwise one of them must be there: propensities of
single items do not tell what a total is worth. How many items there are must be known, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_floats, as_keys, as_rewards, list_columns, plain
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns, need_lists
from comband.evaluation.logs.tables import Piece, TableFile, arrow
from comband.page.text import quoted

TOTAL, LIST, FIRST = "total", "list_propensity", ("first_propensities", "first_propensity")
NO_LAW = (
    "a log of totals needs the law of whole lists: a column list_propensity, the probability of the shown list as a "
    "set; or first_propensities, for lists that were begun with one drawn item and filled up uniformly; or the mixture "
    "that drew the lists (--law). Propensities of single items are not enough"
)


def _rounds(
    table: TableFile, list_size: int, context: Sequence[str], faults: Faults, *, law: str
) -> Iterator[RawRounds]:
    key = list(context) or ["context"]
    need_columns(table, key, "a log of totals")
    items = need_lists(table, "items", "item", list_size=list_size)
    if (several := _total(table.names)) != TOTAL:
        raise LogError(f"{table.path} has columns {several}, … where one column total is needed: {_ONE}.")
    need_columns(table, [TOTAL], "a log of totals")
    stated: list[str] = []
    if law == "list":
        stated = [LIST]
    elif law == "first":
        stated = need_lists(table, *FIRST, list_size=list_size)
    id_column = ["id"] if "id" in table.names else []
    for piece in table.pieces([*id_column, *key, *items, TOTAL, *stated], faults):
        contexts, good = context_keys(piece, key, faults)
        ids = None
        if id_column:
            converted = as_keys(piece.columns["id"])
            faults.add("missing value", [(int(piece.rows[i]), "no id") for i in np.flatnonzero(converted.bad & good)])
            ids, good = converted.values, good & ~converted.bad
        totals, single = _numbers(table, piece, faults, good)
        good &= single
        wanted: list[Any] = [(items, as_keys, "items")]
        if law == "first":
            wanted.append((stated, as_floats, "first propensities"))
        kept, (shown, *first) = matrices(piece, wanted, list_size=list_size, faults=faults)
        drawn_with = first[0] if first else np.empty((len(kept), 0))
        if law == "list":
            found = as_floats(piece.columns[LIST])
            wrong = np.flatnonzero(found.wrong & good)
            told = [(int(piece.rows[i]), f"{LIST} must be a number, got {_cell(piece, LIST, i)}") for i in wrong]
            faults.add("wrong type", told)
            good &= ~found.wrong
            drawn_with = found.values[kept][:, None]
        fine = good[kept]
        kept = kept[fine]
        yield RawRounds(
            rows=piece.rows[kept],
            ids=None if ids is None else ids[kept],
            contexts=contexts[kept],
            items=shown[fine],
            rewards=totals[kept][:, None],
            propensities=drawn_with[fine],
        )


_ONE = "a total is one number per round; a log of what each item brought has rewards and propensities instead"


def _numbers(
    table: TableFile, piece: Piece, faults: Faults, good: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The totals, and where there is not more than one number (or something else) in place of one."""
    column = piece.columns[TOTAL]
    if not isinstance(column, list):
        types = arrow().types
        if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
            raise LogError(f"{table.path}: column {TOTAL} holds lists: {_ONE}.")
        several = np.zeros(len(piece), dtype=np.bool_)
    else:
        several = np.fromiter((isinstance(entry, list) for entry in column), dtype=np.bool_, count=len(column))
        column = [None if isinstance(entry, list) else entry for entry in column]
    found = as_rewards(column)
    for bad, text in ((several, _ONE), (found.wrong, f"{TOTAL} must be a number")):
        rows = np.flatnonzero(bad & good)
        faults.add("wrong type", [(int(piece.rows[i]), f"{text}, got {_cell(piece, TOTAL, i)}") for i in rows])
    return found.values, ~(several | found.wrong)


def _cell(piece: Piece, name: str, i: int | np.int64) -> str:
    return quoted(plain(piece.columns[name][int(i)]))


def _total(names: Sequence[str]) -> str:
    """The column of totals; where there is none, the first of several that were meant to be."""
    numbered = [name for name in names if re.fullmatch(rf"{TOTAL}_\d+", name)]
    return TOTAL if TOTAL in names or not numbered else numbered[0]


def stated_law(names: Sequence[str]) -> str:
    """What a file says of the law of its lists: "list", "first", or "" for nothing."""
    if LIST in names:
        return "list"
    return "first" if list_columns(names, *FIRST) is not None else ""


def columns(names: Sequence[str]) -> list[str]:
    """What a file needs. One that has totals and no rewards is a log of totals, whatever else is missing."""
    law = stated_law(names)
    lists = (list_columns(names, "items", "item") or ["items"])[0]
    total = _total(names)
    needed = ["context", lists, total]
    if law == "first":
        return [*needed, (list_columns(names, *FIRST) or [FIRST[0]])[0]]
    bare = not law and total in names and list_columns(names, "rewards", "reward") is None
    return needed if bare else [*needed, LIST]


def list_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with the probability of each list."""
    return _rounds(table, list_size, context, faults, law="list")


def first_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with the probability of each item to be the first."""
    return _rounds(table, list_size, context, faults, law="first")


def bare_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds without the law of their lists."""
    return _rounds(table, list_size, context, faults, law="")


def _variant(table: TableFile) -> LogFormat:
    return {"list": BY_LIST, "first": BY_FIRST, "": BARE}[stated_law(table.names)]


TOTALS = LogFormat(
    name="totals",
    title="one number per list",
    rounds=bare_rounds,
    columns=columns,
    meaning="one total per list; a candidate is credited by how many items it shares with the list",
    feedback="total",
    variant=_variant,
)
BARE = replace(TOTALS, variant=None)
BY_LIST = replace(
    TOTALS, rounds=list_rounds, variant=None, meaning=f"{TOTALS.meaning}, propensities are those of whole lists"
)
BY_FIRST = replace(
    TOTALS,
    rounds=first_rounds,
    variant=None,
    meaning=f"{TOTALS.meaning}, propensities are those of the item that was drawn first, the others were uniform",
)


def format_for_law(kind: LogFormat, law: bool, table: TableFile) -> LogFormat:
    """The format as it is read where the mixture that drew the lists is known, or is not."""
    if not law:
        if kind is BARE:
            raise table.lacks(LIST, why=NO_LAW)
        return kind
    if kind.feedback != "total":
        raise LogError(
            f"{table.path} is a log of the kind {kind.name!r}, which tells what each item brought: a law is used only "
            "where a log tells one total per list. Leave it out."
        )
    return OF_LAW


OF_LAW = replace(BARE, meaning="one total per list; values by the pseudo-inverse of the mixture that drew the lists")
