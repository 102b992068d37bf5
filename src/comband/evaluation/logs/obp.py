"""Slates as obp (the Open Bandit Pipeline) logs them: one row per slot.

Columns `slate_id`, `position`, `action`, `reward`, and propensities.
With `pscore_item_position`, the probability of the item in its slot, an item counts only in that slot (obp's
SlateIndependentIPS). With only `pscore_cascade`, P(a_1 … a_k), the slots' conditional probabilities are its ratios and
an item counts anywhere in the list (see `sequential_propensities`). `pscore`, the probability of the whole slate, is
not enough. The context id is `slate_id` unless columns are named for it.
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
from comband.evaluation.logs.keys import unify_keys
from comband.evaluation.logs.sequential import sequential_propensities
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import Keys

COLUMNS = ("slate_id", "position", "action", "reward")


def rounds(table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
    """Batches of slates."""
    need_columns(table, [*COLUMNS, *context], "a slate log of obp")
    cascade = "pscore_item_position" not in table.names
    column = "pscore_cascade" if cascade else "pscore_item_position"
    if column not in table.names:
        raise table.lacks(
            "pscore_item_position",
            why="and so is pscore_cascade; pscore, of the whole slate, does not tell the probability of its items",
        )
    left: _Slots | None = None
    for piece in table.pieces(list(dict.fromkeys([*COLUMNS, column, *context])), faults):
        kept, (slate, position, action, reward, pscore) = matrices(
            piece,
            [
                (["slate_id"], as_keys, "slate_id"),
                (["position"], as_keys, "position"),
                (["action"], as_keys, "action"),
                (["reward"], as_rewards, "reward"),
                ([column], as_floats, column),
            ],
            list_size=1,
            faults=faults,
        )
        if context:
            keys, good = context_keys(piece, context, faults)
            keys = keys[kept]
            fine = good[kept]
        else:
            keys, fine = slate[:, 0], np.ones(len(kept), dtype=bool)
        rows = piece.rows[kept]
        slots = _Slots(
            rows[fine], slate[fine, 0], keys[fine], position[fine, 0], action[fine, 0], reward[fine, 0], pscore[fine, 0]
        )
        if left is not None:
            slots = left + slots
        whole, left = slots.split()
        yield from _slates(whole, list_size, cascade, faults)
    if left is not None:
        yield from _slates(left, list_size, cascade, faults)


class _Slots:
    """Rows of the file, column by column."""

    def __init__(self, *columns: NDArray[Any]) -> None:
        self.columns = columns

    def __add__(self, other: _Slots) -> _Slots:
        return _Slots(*map(_joined, self.columns, other.columns))

    def take(self, index: Any) -> _Slots:
        return _Slots(*(column[index] for column in self.columns))

    def split(self) -> tuple[_Slots, _Slots]:
        """All slates but the last, which may go on in the next batch; and that one."""
        slate = self.columns[1]
        others = np.flatnonzero(slate != slate[-1]) if len(slate) else np.empty(0, dtype=np.int64)
        cut = int(others[-1]) + 1 if len(others) else 0
        return self.take(slice(0, cut)), self.take(slice(cut, None))


def _joined(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Columns one after the other; keys that are text in one of them are text in both."""
    return unify_keys([one, other]) if object in (one.dtype, other.dtype) else np.concatenate([one, other])


def _slates(slots: _Slots, list_size: int, cascade: bool, faults: Faults) -> Iterator[RawRounds]:
    rows, slate, keys, position, action, reward, pscore = slots.columns
    if len(rows) == 0:
        return
    starts = np.flatnonzero(np.concatenate([[True], slate[1:] != slate[:-1]]))
    lengths = np.diff(np.append(starts, len(rows)))
    good = lengths == list_size
    inside = np.repeat(np.arange(list_size)[None, :], int(good.sum()), axis=0)
    index = starts[good][:, None] + inside
    order = np.argsort(position[index], axis=1, kind="stable")
    index = np.take_along_axis(index, order, axis=1)
    ranked = position[index]
    numbered = (ranked == inside).all(axis=1) | (ranked == inside + 1).all(axis=1)
    for i in np.flatnonzero(~good):
        text = f"slate {slate[starts[i]]} has {lengths[i]} rows together, {list_size} expected"
        faults.add("incomplete slate", [(int(rows[starts[i]]), text)])
    for i in np.flatnonzero(~numbered):
        text = f"the positions of slate {slate[index[i, 0]]} are {ranked[i].tolist()}, 0 … {list_size - 1} expected"
        faults.add("wrong position", [(int(rows[index[i, 0]]), text)])
    index = index[numbered]
    ids: Keys = slate[index[:, 0]]
    propensities = pscore[index]
    if cascade:
        before = np.concatenate([np.ones((len(propensities), 1)), propensities[:, :-1]], axis=1)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            conditional = propensities / before
        possible = ((conditional > 0) & (conditional <= 1 + 1e-6)).all(axis=1)
        for i in np.flatnonzero(~possible):
            text = f"pscore_cascade must fall within (0, 1], got {propensities[i].tolist()}"
            faults.add("wrong propensity", [(int(rows[index[i, 0]]), text)])
        propensities, index, ids = sequential_propensities(conditional[possible]), index[possible], ids[possible]
    yield RawRounds(
        rows=rows[index[:, 0]],
        ids=ids,
        contexts=keys[index[:, 0]],
        items=action[index],
        rewards=reward[index],
        propensities=propensities,
        positions=None if cascade else np.broadcast_to(np.arange(list_size), index.shape),
    )


def variant(table: TableFile) -> LogFormat:
    """By the slot's probability where the file has it."""
    return BY_POSITION if "pscore_item_position" in table.names else BY_CASCADE


BY_CASCADE = LogFormat(
    name="obp",
    title="its slates",
    rounds=rounds,
    columns=COLUMNS,
    largest=np.inf,
    meaning="propensities come from the slots' conditional probabilities, and an item counts anywhere in the list",
)
BY_POSITION = replace(
    BY_CASCADE,
    positional=True,
    largest=1.0,
    meaning="propensities are those of the item in its slot, and an item counts only in the slot where it was shown",
)
SLATES = replace(BY_CASCADE, variant=variant)
