"""The Open Bandit dataset's CSV: one row a shown item, with its slot (`position` 1, 2, 3) and its propensity there.

Rows of one impression are not linked in that data, so each row is a round of one slot: a candidate earns the click,
over the propensity, when its list has that item in that slot. The value is therefore clicks a *slot*, over the slots
as the log shows them. The context id is the row's place in the file (0, 1, …) unless columns are named for it.

Saito, Aihara, Matsutani, Narita (2021), Open Bandit Dataset and Pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from comband.catalogue import spelt_numbers
from comband.logs.columns import as_floats, as_keys, as_rewards
from comband.logs.faults import Faults
from comband.logs.formats import LogFormat, RawRounds, context_keys, matrices, need_columns
from comband.logs.tables import TableFile

COLUMNS = ("item_id", "position", "click", "propensity_score")


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of one-slot rounds."""
    need_columns(table, [*COLUMNS, *context], "an Open Bandit log")
    for piece in table.pieces([*COLUMNS, *context], faults):
        kept, (items, positions, clicks, propensities) = matrices(
            piece,
            [
                (["item_id"], as_keys, "item_id"),
                (["position"], as_keys, "position"),
                (["click"], as_rewards, "click"),
                (["propensity_score"], as_floats, "propensity_score"),
            ],
            list_size=1,
            faults=faults,
        )
        if context:
            contexts, good = context_keys(piece, context, faults)
        else:
            contexts, good = piece.rows - 1, np.ones(len(piece), dtype=bool)
        slots = positions[:, 0]
        if slots.dtype == object:  # some are no numbers; those are in no slot
            slots = spelt_numbers(slots)[0]
        outside = (slots < 1) | (slots > list_size)
        faults.add(
            "wrong position",
            [
                (int(piece.rows[kept[i]]), f"position {positions[i, 0]} is not among 1 … {list_size}")
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
            positions=slots[fine, None] - 1,
        )


OPEN_BANDIT = LogFormat(
    name="obd",
    title="Open Bandit dataset",
    rounds=rounds,
    columns=COLUMNS,
    slots=1,
    positional=True,
    row_by_row=True,
    meaning="each row is one slot; its propensity is that of the item in that slot, and values are clicks per slot",
)
