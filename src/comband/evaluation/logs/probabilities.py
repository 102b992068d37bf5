"""Candidates that draw their lists, from a file or a data frame, or as obp has them.

One row per context, candidate and item that it may show: columns `context`, `candidate`, `item`, `probability`, and
`position` where the probability is that of the item in a place (counted from 0 or from 1). Items without a row have
probability 0. Or {name: action_dist}, arrays (n, K, m) of the probability of each item in each place (obp); contexts
are then the rows 0 … n − 1 of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.evaluation.logs.columns import as_floats, as_keys
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import note_bad_keys
from comband.evaluation.logs.keys import ItemIndex, unify_keys
from comband.evaluation.logs.tables import TableFile
from comband.page.catalogue import Catalogue
from comband.page.problem import InputError, Problem
from comband.policies.stochastic import StochasticPolicies

COLUMNS = ("context", "candidate", "item", "probability")


def has_probabilities(source: Any) -> bool:
    """Whether a source is {name: action_dist}."""
    return isinstance(source, Mapping) and len(source) > 0 and all(isinstance(v, np.ndarray) for v in source.values())


class Probabilities:
    """Probabilities of P candidates for N contexts, by codes of items; `tables` are (N, K) or, `placed`, (N, K·m)."""

    def __init__(self, tables: list[Any], K: int, m: int, *, placed: bool) -> None:
        self.tables, self.n_items, self.list_size, self.placed = tables, K, m, placed

    def policies(self, names: tuple[str, ...], n_items: int, *, positional: bool) -> StochasticPolicies:
        """Candidates among so many items, for rounds whose actions are items, or pairs of item and place."""
        m, wide = self.list_size, max(n_items, self.n_items)
        grown = [
            sp.csr_array((t.data, t.indices, t.indptr), shape=(t.shape[0], wide * m if self.placed else wide))
            for t in self.tables
        ]
        made = StochasticPolicies.of_checked(grown, wide, m, self.placed, names)
        return made.in_places() if positional else made.anywhere()


def from_arrays(given: Mapping[Any, Any]) -> tuple[tuple[str, ...], Catalogue, Probabilities]:
    """obp's `action_dist` of each candidate."""
    arrays = [np.asarray(one, dtype=np.float64) for one in given.values()]
    if any(one.ndim != 3 or one.shape != arrays[0].shape for one in arrays):
        raise InputError(
            f"action_dist must have shape (rounds, items, places), the same for all candidates, got "
            f"{', '.join(str(one.shape) for one in arrays[:3])}."
        )
    n, K, m = arrays[0].shape
    checked = StochasticPolicies(arrays, Problem(K, m), names=list(map(str, given)))
    return checked.names, Catalogue(range(n)), Probabilities(checked.tables, K, m, placed=True)


def from_table(
    table: TableFile, names: dict[str, int], items: ItemIndex, faults: Faults
) -> tuple[Catalogue, Probabilities]:
    """Rows of a file; a context whose probabilities do not sum to one number of items is refused."""
    placed = "position" in table.names
    parts: dict[str, list[Any]] = {name: [] for name in ("context", "who", "item", "probability", "position")}
    for piece in table.pieces([*COLUMNS, *(["position"] if placed else [])], faults):
        keys = {name: as_keys(piece.columns[name]) for name in COLUMNS[:3]}
        if placed:
            keys["position"] = as_keys(piece.columns["position"])
        good = ~note_bad_keys(piece, keys, faults)
        chance = as_floats(piece.columns["probability"]).values
        wrong = np.flatnonzero(good & ~((chance >= 0) & (chance <= 1 + 1e-6)))
        faults.add("wrong probability", [(int(piece.rows[i]), f"{chance[i]:g} is outside [0, 1]") for i in wrong])
        good[wrong] = False
        parts["context"].append(keys["context"].values[good])
        called = [str(name) for name in keys["candidate"].values[good]]
        parts["who"].append(np.array([names.setdefault(name, len(names)) for name in called], dtype=np.int64))
        parts["item"].append(items.learn(keys["item"].values[good]))
        parts["probability"].append(chance[good])
        if placed:
            parts["position"].append(keys["position"].values[good])
    faults.settle("refuse")
    if not names:
        raise LogError(f"{table.path} holds no candidate's probabilities.")
    contexts, where = np.unique(unify_keys(parts["context"]), return_inverse=True)
    who, item, chance = (np.concatenate(parts[name]) for name in ("who", "item", "probability"))
    place = _places(table, parts["position"]) if placed else np.zeros(len(who), dtype=np.int64)
    P, N, K = len(names), len(contexts), max(items.size, int(item.max(initial=-1)) + 1)
    sums = np.zeros((P, N))
    np.add.at(sums, (who, where), chance)
    m = round(float(sums.max()))
    off = np.argwhere(np.abs(sums - m) > 1e-6 * max(m, 1))
    if m < 1 or len(off):
        p, n = off[0] if len(off) else (0, 0)
        raise LogError(
            f"{table.path}: the probabilities of a list of {max(m, 1)} must sum to {max(m, 1)} for every context; "
            f"those of {list(names)[p]!r} for context {contexts[n]} sum to {sums[p, n]:.6g}."
        )
    twice = len(who) - len(np.unique(np.stack([who, where, item, place]), axis=1).T)
    if twice:
        raise LogError(f"{table.path} has {twice:,} rows with the same context, candidate, item and place as another.")
    if placed and int(place.max()) >= m:
        raise LogError(f"{table.path}: lists have {m} places, got position {int(place.max())} counted from 0.")
    column = item * m + place if placed else item
    wide = K * m if placed else K
    tables = [sp.csr_array((chance[who == p], (where[who == p], column[who == p])), shape=(N, wide)) for p in range(P)]
    return Catalogue(contexts), Probabilities(tables, K, m, placed=placed)


def _places(table: TableFile, parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    given = unify_keys(parts)
    if given.dtype == object or int(given.min()) not in (0, 1):
        raise LogError(f"{table.path}: column {table.called('position')} must count places from 0 or from 1.")
    return np.asarray(given - given.min(), dtype=np.int64)
