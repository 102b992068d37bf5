"""The usual click log: one row per shown item, several rows per round.

| column | content |
|---|---|
| `round` | the request, or page view, that showed the item: a whole number or text |
| `item` | what was shown |
| `reward` | what it brought, in [0, 1]; true and false are 1 and 0 |
| `propensity` | the probability that the item was shown |
| `context` | the context, as the candidates' file calls it (optional: the round otherwise) |
| `position` | where on the page (optional) |

Rows of a round need not stand together; every round has as many rows as the candidates' lists have items. A propensity
may be that of the item *anywhere* in the list (format "impressions") or that of the item *in its position* (format
"impressions-by-position": positions count from 0 or 1, and an item counts only where it was shown). A file with the
column `position` does not tell which, so "auto" asks.

Where pages show different numbers of items, the format "impressions-uneven" takes rounds with fewer rows too, and cuts
candidates' lists to as many. It must be named, since a round with fewer rows may also be one that lost some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_floats, as_keys, as_rewards
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns
from comband.evaluation.logs.keys import unify_keys, without_decimals
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import spelt_numbers

COLUMNS = ("round", "item", "reward", "propensity")


def _rounds(
    table: TableFile,
    list_size: int,
    context: Sequence[str],
    faults: Faults,
    *,
    positional: bool = False,
    uneven: bool = False,
) -> Iterator[RawRounds]:
    key = list(context) or (["context"] if "context" in table.names else ["round"])
    places = ["position"] if positional else []
    need_columns(table, [*COLUMNS, *places, *key], "a log with one row per impression")
    open_rows = _Rows.none(positional)
    said = {name: table.called(name) for name in (*COLUMNS, *places)}
    for piece in table.pieces(list(dict.fromkeys([*COLUMNS, *places, *key])), faults):
        wanted = [
            (["round"], as_keys, said["round"]),
            (["item"], as_keys, said["item"]),
            (["reward"], as_rewards, said["reward"]),
            (["propensity"], as_floats, said["propensity"]),
            *(([name], as_keys, said[name]) for name in places),
        ]
        kept, columns = matrices(piece, wanted, list_size=1, faults=faults)
        contexts, good = context_keys(piece, key, faults)
        fine = good[kept]
        parts = [column[fine, 0] for column in columns]
        rows = open_rows + _Rows(piece.rows[kept[fine]], contexts[kept[fine]], *parts)
        whole, open_rows = rows.whole_rounds(list_size, faults)
        yield from _batch(whole, list_size, positional, faults)
    if uneven:
        for size in range(1, list_size):
            whole, longer = open_rows.whole_rounds(size)
            yield from (_padded(batch, list_size) for batch in _batch(whole, size, positional, faults))
            open_rows = longer
    elif len(open_rows):
        rounds, first, count = np.unique(open_rows.rounds, return_index=True, return_counts=True)
        described = [
            (int(open_rows.rows[i]), f"round {name} has {k} row{'s' if k > 1 else ''}, {list_size} expected")
            for name, i, k in zip(rounds[:3], first[:3], count[:3], strict=True)
        ]
        if not positional:
            described[0] = (described[0][0], f"{described[0][1]} (if pages differ so: --format {UNEVEN.name})")
        faults.add("incomplete round", described, count=len(rounds))


class _Rows:
    """Rows of the file, column by column: number, context, round, item, reward, propensity, position if it counts."""

    def __init__(self, *columns: NDArray[Any]) -> None:
        self.columns = columns
        self.rows, self.rounds = columns[0], columns[2]

    @classmethod
    def none(cls, positional: bool) -> _Rows:
        whole, floats = np.empty(0, dtype=np.int64), np.empty(0)
        return cls(whole, whole, whole, whole, floats, floats, *([whole] if positional else []))

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: _Rows) -> _Rows:
        pairs = zip(self.columns, other.columns, strict=True)
        return _Rows(*(np.concatenate(p) if p[1].dtype.kind == "f" else unify_keys(p) for p in pairs))

    def take(self, index: NDArray[Any]) -> _Rows:
        return _Rows(*(column[index] for column in self.columns))

    def whole_rounds(self, list_size: int, faults: Faults | None = None) -> tuple[_Rows, _Rows]:
        """The rounds that are complete, row after row in the order of their first rows; and those that wait for more
        rows, or without `faults` those that have more.
        """
        _, first, place, count = np.unique(self.rounds, return_index=True, return_inverse=True, return_counts=True)
        sizes = count[place]
        long = np.flatnonzero(count > list_size)
        if len(long) and faults is not None:
            kinds, item = np.unique(self.columns[3], return_inverse=True)
            different = np.bincount(np.unique(place * len(kinds) + item) // len(kinds), minlength=len(count))
            for kind, some in (
                ("duplicate rows", long[different[long] < count[long]]),
                ("list length", long[different[long] == count[long]]),
            ):
                why = ", and some repeat an item: drop duplicates, or give each request a round of its own"
                text = "round {} has {} rows, {} expected" + why * (kind == "duplicate rows")
                described = [
                    (int(self.rows[first[r]]), text.format(self.rounds[first[r]], count[r], list_size))
                    for r in some[:3]
                ]
                faults.add(kind, described, count=len(some))
        complete = np.flatnonzero(sizes == list_size)
        order = np.argsort(first[place[complete]], kind="stable")  # rows of a round stay in their order
        others = np.flatnonzero(sizes > list_size if faults is None else sizes < list_size)
        return self.take(complete[order]), self.take(others)


def _batch(whole: _Rows, list_size: int, positional: bool, faults: Faults) -> Iterator[RawRounds]:
    if len(whole) == 0:
        return
    rows, contexts, rounds, items, rewards, propensities, *more = (
        column.reshape(-1, list_size) for column in whole.columns
    )
    mixed = (contexts != contexts[:, :1]).any(axis=1)
    faults.add(
        "several contexts",
        [(int(rows[i, 0]), f"round {rounds[i, 0]} has rows of several contexts") for i in np.flatnonzero(mixed)],
    )
    good = ~mixed
    positions = None
    if positional:
        given = more[0]
        numbers = given
        if given.dtype == object:
            numbers = spelt_numbers(without_decimals(given.ravel()))[0].reshape(given.shape)
        slots = np.arange(list_size)
        ranked = np.sort(numbers, axis=1)
        from_one = (ranked == slots + 1).all(axis=1)
        numbered = from_one | (ranked == slots).all(axis=1)
        if list_size == 1:  # one item, wherever on the page its slot is
            numbers, from_one, numbered = np.zeros_like(numbers), np.zeros_like(from_one), ranked[:, 0] >= 0
        wrong = np.flatnonzero(~numbered & good)
        text = "the positions of round {} are {}, 1 … {} expected"
        told = [(int(rows[i, 0]), text.format(rounds[i, 0], given[i].tolist(), list_size)) for i in wrong]
        faults.add("wrong position", told)
        good &= numbered
        positions = (numbers - from_one[:, None])[good]
    # By their numbers, so that sums over a round's items do not depend on the order of its rows.
    order = np.argsort(rewards[good], axis=1, kind="stable")
    by_chance = np.argsort(np.take_along_axis(propensities[good], order, axis=1), axis=1, kind="stable")
    order = np.take_along_axis(order, by_chance, axis=1)
    items, rewards, propensities = (
        np.take_along_axis(column[good], order, axis=1) for column in (items, rewards, propensities)
    )
    if positions is not None:
        positions = np.take_along_axis(positions, order, axis=1)
    yield RawRounds(
        rows=rows[good, 0],
        ids=rounds[good, 0],
        contexts=contexts[good, 0],
        items=items,
        rewards=rewards,
        propensities=propensities,
        positions=positions,
    )


def _padded(batch: RawRounds, list_size: int) -> RawRounds:
    """Rounds with fewer items, in as many columns as others have."""
    n, size = batch.items.shape
    columns = np.minimum(np.arange(list_size), size - 1)
    wide = {name: getattr(batch, name)[:, columns] for name in ("items", "rewards", "propensities")}
    return replace(batch, **wide, lengths=np.full(n, size, dtype=np.int64))


def uneven_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds with up to so many items; memory follows the number of rounds with fewer."""
    yield from _rounds(table, list_size, context, faults, uneven=True)


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds in which an item counts anywhere."""
    yield from _rounds(table, list_size, context, faults, positional=False)


def placed_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of rounds in which an item counts in its position."""
    yield from _rounds(table, list_size, context, faults, positional=True)


def _doubt(table: TableFile) -> str:
    if "position" not in table.names:
        return ""
    return (
        f"a log with one row per impression and a column {table.called('position')} does not tell what its "
        "propensities are: say --format impressions (format='impressions') if they are those of the item anywhere in "
        "the list, --format "
        "impressions-by-position if they are those of the item in that position."
    )


IMPRESSIONS = LogFormat(
    name="impressions",
    title="one row per shown item",
    rounds=rounds,
    columns=COLUMNS,
    meaning="rows are grouped into rounds; propensities are the probability that the item is anywhere in the list",
    doubt=_doubt,
)
BY_POSITION = replace(
    IMPRESSIONS,
    name="impressions-by-position",
    title="the same, propensities per position",
    rounds=placed_rounds,
    columns=(*COLUMNS, "position"),
    positional=True,
    meaning="rows are grouped into rounds; propensities are those of the item in its position, where alone it counts",
    doubt=_doubt,
)
UNEVEN = replace(
    IMPRESSIONS,
    name="impressions-uneven",
    title="the same, pages of different lengths",
    rounds=uneven_rounds,
    meaning="rows are grouped into rounds of different lengths, to which candidates' lists are cut; propensities are "
    "the probability that the item is anywhere in the list",
    doubt=None,
    asked_for=True,
)
