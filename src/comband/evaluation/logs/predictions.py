"""What a model of rewards predicts, from a file or a data frame: one row per context and item.

| column | content |
|---|---|
| `context` | the context, as the candidates' file calls it |
| `item` | as the log and the candidates' file call it |
| `prediction` | the expected reward of the item there, if it is shown |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists, need_contexts
from comband.evaluation.logs.columns import as_floats, as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import need_columns, note_bad_keys
from comband.evaluation.logs.registry import rename_columns
from comband.evaluation.logs.tables import open_table
from comband.page.problem import InputError
from comband.page.text import quoted

COLUMNS = ("context", "item", "prediction")


class Predictions:
    """A reward model of context numbers (positions in the candidates' table) and items' codes, looked up in a table."""

    def __init__(self, candidates: CandidateLists, cells: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self._candidates, self._cells, self._values = candidates, cells, values

    def __len__(self) -> int:
        return len(self._cells)

    def __call__(self, X: Any, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """The expected rewards of listed items, (n, m); a pair that was not predicted is refused."""
        wanted = (np.asarray(X, dtype=np.int64)[:, None] << 32) + lists
        place = np.minimum(np.searchsorted(self._cells, wanted), len(self._cells) - 1)
        missing = self._cells[place] != wanted
        if missing.any():
            row, slot = np.argwhere(missing)[0]
            context = self._candidates.contexts[int(np.asarray(X)[row])]
            item, named = int(lists[row, slot]), self._candidates.items.catalogue
            raise InputError(
                "predictions must hold every item that was shown and every one that a candidate shows, in its context; "
                f"item {quoted(item if named is None else named[item])} of context {quoted(context)} is missing."
            )
        return np.asarray(self._values[place])


def read_predictions(
    source: Any, candidates: CandidateLists, *, columns: Mapping[str, str] | None = None
) -> Predictions:
    """A reward model for doubly robust estimates, as predictions in a file or a data frame.

    Predictions for contexts that no candidate has a list for are left out; a faulty row is refused.

    Parameters
    ----------
    source:
        A .parquet, .csv or .jsonl file, or a data frame, with the columns `context`, `item` and `prediction`.
    candidates:
        What `read_candidates` gave, and `read_log` was given too.
    columns:
        What the source calls these columns, where it has other names.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"]})
    >>> shown = {"round": [1, 2], "context": 1, "item": ["tea", "rice"], "reward": [1, 0], "propensity": 0.5}
    >>> said = pd.DataFrame({"context": 1, "item": ["tea", "rice"], "prediction": [0.6, 0.1]})
    >>> candidates = cb.read_candidates(lists)
    >>> reading = cb.read_log(pd.DataFrame(shown), candidates, sparsity=1, rounds=True)
    >>> model = cb.evaluation.logs.read_predictions(said, candidates)
    >>> usual = cb.evaluate_log(reading, reward_model=model).evaluation.usual
    >>> usual.estimates["DR"].round(3).tolist()  # of "old": 0.6 + ((1 - 0.6) / 0.5) / 2
    [1.0, 0.0]
    """
    if not isinstance(candidates, CandidateLists):
        raise InputError(f"candidates must be what read_candidates gave, got {type(candidates).__name__}.")
    table = rename_columns(open_table(source), columns)
    need_columns(table, COLUMNS, "predictions of rewards")
    need_contexts(candidates, "predictions")
    faults = Faults(str(table.path))
    cells: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    for piece in table.pieces(COLUMNS, faults):
        keys = {name: as_keys(piece.columns[name]) for name in ("context", "item")}
        good = ~note_bad_keys(piece, keys, faults)
        said = as_floats(piece.columns["prediction"]).values
        wrong = np.flatnonzero(good & ~np.isfinite(said))
        faults.add("no prediction", [(int(piece.rows[i]), "the prediction must be a number") for i in wrong])
        numbers = candidates.contexts.find(keys["context"].values[good])
        codes = candidates.items.codes(keys["item"].values[good])
        known = (numbers >= 0) & (codes >= 0)
        cells.append((numbers[known] << 32) + codes[known])
        values.append(said[good][known])
    faults.settle("refuse")
    whole, order = np.concatenate([np.empty(0, dtype=np.int64), *cells]), np.concatenate([np.empty(0), *values])
    distinct, first = np.unique(whole, return_index=True)
    if len(distinct) == 0:
        raise LogError(f"{table.path} holds no prediction for a context of the candidates.")
    if len(distinct) < len(whole):
        raise LogError(f"{table.path} predicts {len(whole) - len(distinct):,} pairs of context and item again.")
    return Predictions(candidates, distinct, order[first])
