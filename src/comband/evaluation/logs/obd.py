"""Logs of single slots: each row is a round that showed one item in one slot.

The Open Bandit dataset's CSV ("obd") has `item_id`, `position` (1, 2, 3), `click` and `propensity_score`: the
probability of the item in that slot. A usual click log without a column that says which rows were shown together
("one-slot") has `item`, `position`, `reward` and `propensity`, or what these are usually called.

Rows of one impression are not linked, so each row is a round of one slot: a candidate earns the click, over the
propensity, when its list has that item in that slot; where candidates' lists have one item, in whichever slot. The
value is therefore clicks a *slot*, over the slots as the log shows them. The context id is the column `context` of a
usual click log, otherwise the row's place in the file (0, 1, …), unless columns are named for it. Positions count from
1, or from 0 if there is a position 0 among the first rows of the file.

Saito, Aihara, Matsutani, Narita (2021), Open Bandit Dataset and Pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from comband.evaluation.logs.columns import as_floats, as_keys, as_rewards
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns
from comband.evaluation.logs.keys import without_decimals
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import spelt_numbers

COLUMNS = ("item_id", "position", "click", "propensity_score")
USUAL = ("item", "position", "reward", "propensity")


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of one-slot rounds of the Open Bandit dataset."""
    return _rounds(table, list_size, context, faults, COLUMNS, "an Open Bandit log")


def rounds_from_zero(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """The same where positions count from 0."""
    return _rounds(table, list_size, context, faults, COLUMNS, "an Open Bandit log", first=0)


def usual_rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of one-slot rounds of any other click log."""
    key = list(context) or (["context"] if "context" in table.names else [])
    return _rounds(table, list_size, key, faults, USUAL, "a log with one slot per row")


def usual_rounds_from_zero(
    table: TableFile, list_size: int, context: Sequence[str], faults: Faults
) -> Iterator[RawRounds]:
    """The same where positions count from 0."""
    key = list(context) or (["context"] if "context" in table.names else [])
    return _rounds(table, list_size, key, faults, USUAL, "a log with one slot per row", first=0)


def _rounds(
    table: TableFile,
    list_size: int,
    context: Sequence[str],
    faults: Faults,
    columns: Sequence[str],
    what: str,
    first: int = 1,
) -> Iterator[RawRounds]:
    need_columns(table, [*columns, *context], what)
    for piece in table.pieces([*columns, *context], faults):
        own = [table.called(name) for name in columns]
        converters = (as_keys, as_keys, as_rewards, as_floats)
        wanted = [([name], convert, said) for name, convert, said in zip(columns, converters, own, strict=True)]
        kept, (items, positions, clicks, propensities) = matrices(piece, wanted, list_size=1, faults=faults)
        if context:
            contexts, good = context_keys(piece, context, faults)
        else:
            contexts, good = piece.rows - 1, np.ones(len(piece), dtype=bool)
        slots = positions[:, 0]
        if slots.dtype == object:  # some are no numbers; those are in no slot
            slots = spelt_numbers(without_decimals(slots))[0]
        slots = slots - first
        outside = (slots < 0) | (slots >= list_size)
        if list_size == 1:  # a candidate has one item, for whichever slot
            outside, slots = slots < -first, np.zeros_like(slots)
        faults.add(
            "wrong position",
            [
                (int(piece.rows[kept[i]]), f"{own[1]} {positions[i, 0]} is not among {first} … {list_size - 1 + first}")
                for i in outside.nonzero()[0]
            ],
        )
        fine = good[kept] & ~outside
        kept = kept[fine]
        yield RawRounds(
            rows=piece.rows[kept],
            ids=None,
            contexts=contexts[kept],
            items=items[fine],
            rewards=clicks[fine],
            propensities=propensities[fine],
            positions=slots[fine, None],
        )


_OPEN_BANDIT = LogFormat(
    name="obd",
    title="Open Bandit dataset",
    rounds=rounds,
    columns=COLUMNS,
    slots=1,
    positional=True,
    row_by_row=True,
    meaning="each row is one slot; its propensity is that of the item in that slot, and values are clicks per slot",
)
_ONE_SLOT = replace(
    _OPEN_BANDIT,
    name="one-slot",
    title="each row a slot by itself",
    rounds=usual_rounds,
    columns=USUAL,
    meaning="each row is taken for a round of one slot, since no column says which rows were shown together; its "
    "propensity is that of the item in that slot, and values are rewards per slot",
)


def _from_zero(kind: LogFormat, rounds: Callable[..., Iterator[RawRounds]]) -> LogFormat:
    """The format, read from 0 where the first rows of a file have a position 0."""
    other = replace(kind, rounds=rounds, meaning=f"{kind.meaning}; positions count from 0")

    def variant(table: TableFile) -> LogFormat:
        if table.names.count("position") != 1:
            return kind
        first = next(iter(table.pieces(["position"], Faults(""))), None)
        if first is None:
            return kind
        found = as_keys(first.columns["position"])
        return other if found.values.dtype != object and (found.values[~found.bad] == 0).any() else kind

    return replace(kind, variant=variant)


OPEN_BANDIT = _from_zero(_OPEN_BANDIT, rounds_from_zero)
ONE_SLOT = _from_zero(_ONE_SLOT, usual_rounds_from_zero)
