"""Each candidate's lists for the contexts of a log, from a file or a data frame.

One row per context and candidate: columns `context`, `candidate`, and `items` (a list) or `item_0`, `item_1`, …
One row per item of a list: `context`, `candidate`, `item`, and `position` (from the top; without it as rows stand).
Without a column `context`, each candidate has one list, which it shows in every context.
Parquet and data frames may instead have one row per context: `context`, and one list column for each candidate, named
after it.
JSON lines may have one object per context: {"context": 7, "lists": {"candidate a": [3, 1], "candidate b": [2, 5]}}.
Columns may go by usual names (`comband.evaluation.logs.usual_names`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.checks import EMPTY, check_candidate_lists
from comband.evaluation.logs.columns import Column, Matrix, as_keys, as_matrix, list_columns, list_lengths, plain
from comband.evaluation.logs.faults import Faults, LogError, OnError, check_on_error
from comband.evaluation.logs.formats import need_lists, note_bad_keys
from comband.evaluation.logs.json_lines import json_records
from comband.evaluation.logs.keys import ItemIndex, unify_keys
from comband.evaluation.logs.listed import EveryContext, for_every_context, has_items, lists_table, of_items
from comband.evaluation.logs.probabilities import Probabilities, from_arrays, from_table, has_probabilities
from comband.evaluation.logs.runs import is_run, run_table
from comband.evaluation.logs.tables import TableFile, arrow, open_table
from comband.page.catalogue import Catalogue, Keys
from comband.page.problem import InputError, Problem
from comband.page.text import quoted
from comband.policies.policy_set import PolicySet


@dataclass(frozen=True, eq=False, slots=True)
class CandidateLists:
    """The lists of P candidates for N contexts, (P, N, m), as codes of `items`.

    Parameters
    ----------
    names:
        (P,) of the candidates.
    sizes:
        (N,) how long the lists of each context are, where that differs: −1 − j stands in a place j that is not there.
        None where all lists have m items.
    probabilities:
        Where candidates draw their lists: their probabilities, in the place of `lists`.
    faults:
        What was wrong with the rows.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"], "item_1": "salt"})
    >>> candidates = cb.read_candidates(lists)
    >>> candidates.policies().names, candidates.problem(sparsity=1).n_actions
    (('old', 'new'), 3)
    >>> candidates.policies().predict([0]).shape
    (1, 2, 2)
    """

    names: tuple[str, ...]
    contexts: Catalogue
    lists: NDArray[np.int32]
    items: ItemIndex
    faults: Faults
    sizes: NDArray[np.int64] | None = None
    probabilities: Probabilities | None = None

    @property
    def list_size(self) -> int:
        """m, the longest there is."""
        return int(self.lists.shape[2])

    @property
    def n_contexts(self) -> int:
        """N."""
        return len(self.contexts)

    def problem(self, *, sparsity: float | None = None) -> Problem:
        """The setting these lists belong to."""
        return Problem(n_actions=max(self.items.size, self.list_size), list_size=self.list_size, sparsity=sparsity)

    def policies(self) -> PolicySet:
        """The candidates as policies of context numbers 0 … N−1 (positions in `contexts`)."""
        if self.probabilities is not None:
            return self.probabilities.policies(self.names, self.problem().n_actions, positional=False)
        if self.sizes is not None:
            raise LogError(
                f"{self.faults.source} has lists of {self.sizes.min()} to {self.sizes.max()} items: such candidates "
                "can be evaluated on a log of rounds of different lengths, but policies show lists of one length."
            )
        return PolicySet.from_lists(self.lists, self.problem(), names=self.names, catalogue=self.items.catalogue)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Lists (C, n, m) of n rows: a row has one candidate's list (C = 1), or with `candidates` None those of all C."""

    rows: NDArray[np.int64]
    contexts: Keys
    candidates: NDArray[np.int64] | None
    codes: NDArray[np.int32]
    good: NDArray[np.bool_]


def read_candidates(
    source: Any,
    *,
    n_actions: int | None = None,
    catalogue: Catalogue | None = None,
    columns: Mapping[str, str] | None = None,
    list_size: int | None = None,
    on_error: str = "refuse",
) -> CandidateLists:
    """Read candidates' lists from a file or a data frame; they are held in memory, 4 bytes per item.

    Every context must have a list of every candidate. With on_error="skip" contexts that do not, or whose lists are
    faulty, are left out as a whole, so that all candidates are compared on the same contexts. `columns` as for
    `read_log`: what the source calls the columns `context`, `candidate` and `items`.

    Parameters
    ----------
    source:
        A .parquet, .csv or .jsonl file, or a data frame (pandas, polars, pyarrow). Or runs of retrieval systems: TREC
        run files, PyTerrier's and ranx's frames and runs (`comband.evaluation.logs.runs`). Or candidates that draw
        their lists, by probabilities of items (`comband.evaluation.logs.probabilities`); {name: action_dist} of obp.
    columns:
        What the source calls `context`, `candidate` and `items`, where it has other names.
    list_size:
        For runs: how many of the ranked documents are shown.
    on_error:
        "refuse" lists with faulty rows, after reading and counting all, or "skip" their contexts.
    n_actions:
        Items are the numbers 0 … n_actions − 1, and any other is a fault; by default whatever the source names.
    catalogue:
        The items there are, in the order of their numbers; not with n_actions.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"], "item_1": "salt"})
    >>> candidates = cb.read_candidates(lists)
    >>> candidates.names, candidates.list_size
    (('old', 'new'), 2)
    """
    how = check_on_error(on_error)
    if has_probabilities(source):
        if n_actions is not None or catalogue is not None or list_size is not None or columns is not None:
            raise InputError("arrays of probabilities say how many items and places there are: give nothing else.")
        called, rows, probabilities = from_arrays(source)
        known, told = ItemIndex(n_actions=probabilities.n_items), Faults("the arrays")
        return CandidateLists(
            called, rows, _no_lists(probabilities.list_size), known, told, probabilities=probabilities
        )
    if is_run(source):
        source = run_table(source, list_size)
    elif list_size is not None:
        raise InputError("list_size is for runs, which rank more than is shown; lists are as long as they are.")
    table = lists_table(open_table(source), columns)
    faults = Faults(str(table.path))
    names: dict[str, int] = {}
    items = ItemIndex(n_actions=n_actions, catalogue=catalogue)
    if {"probability", "item", "candidate", "context"} <= set(table.names):
        found, probabilities = from_table(table, names, items, faults)
        return CandidateLists(
            tuple(names), found, _no_lists(probabilities.list_size), items, faults, probabilities=probabilities
        )
    given, everywhere = table, "candidate" in table.names and "context" not in table.names
    if everywhere:
        expected = {"candidate", "item", "position", "score", *(list_columns(table.names, "items", "item") or ())}
        if not set(table.names) <= expected:  # one of the other columns may be the context by another name
            raise table.lacks("context", part="candidates.")
        table = for_every_context(table)
    if has_items(table):
        table = of_items(table, faults)
    batches = list(_batches(table, names, items, faults))
    if everywhere and sum(len(batch.rows) for batch in batches) > len(names):  # several lists of a candidate
        raise given.lacks("context", part="candidates.")
    if faults.counts.get("list length") and (longest := _longest(table)):
        others: dict[str, int] = {}
        more, kept = ItemIndex(n_actions=n_actions, catalogue=catalogue), Faults(str(table.path))
        ragged = list(_batches(table, others, more, kept, longest, ragged=True))
        if _alike(ragged):  # lists are as long as their contexts ask for; otherwise some are faulty
            batches, names, items, faults = ragged, others, more, kept
    if not names or not batches:
        faults.settle("refuse")
        raise LogError(f"{table.path} holds no candidate's list.")
    made = _assemble(batches, tuple(names), items, faults, how)
    return replace(made, contexts=EveryContext()) if everywhere else made


def need_contexts(candidates: CandidateLists, what: str) -> None:
    """Refuse lists that do not depend on the context where `what` does."""
    if isinstance(candidates.contexts, EveryContext):
        raise LogError(f"{what} are for contexts, but the candidates' lists do not depend on the context: name it.")


def _no_lists(m: int) -> NDArray[np.int32]:
    return np.empty((0, 0, m), dtype=np.int32)


def _alike(batches: list[_Batch]) -> bool:
    """Whether all lists of a context have one length."""
    if not batches:
        return False
    _, place = np.unique(unify_keys([batch.contexts for batch in batches]), return_inverse=True)
    shortest, longest = np.full(len(place), np.iinfo(np.int64).max), np.zeros(len(place), dtype=np.int64)
    start = 0
    for batch in batches:
        where = place[start : start + len(batch.rows)]
        start += len(batch.rows)
        for codes, good in zip(batch.codes, batch.good, strict=True):
            lengths = (codes >= 0).sum(axis=1)
            np.minimum.at(shortest, where[good], lengths[good])
            np.maximum.at(longest, where[good], lengths[good])
    return bool((shortest == longest)[longest > 0].all())


def _longest(table: TableFile) -> int:
    """How long the longest list is, where lists stand in one column and so may differ in length; 0 elsewhere."""
    if table.kind == "jsonl" and "lists" in table.names:
        entries = (record.get("lists") for _, records in json_records(table.path, Faults("")) for record in records)
        lists = (one for entry in entries if isinstance(entry, dict) for one in entry.values())
        return max((len(one) for one in lists if isinstance(one, list)), default=0)
    columns = ["items"] if "items" in table.names else [name for name in table.names if name != "context"]
    if "items" not in table.names and "candidate" in table.names:
        return 0
    longest = 0
    for piece in table.pieces(columns, Faults("")):
        for name in columns:
            longest = max(longest, int(list_lengths(piece.columns[name]).max(initial=0)))
    return longest


def _batches(
    table: TableFile,
    names: dict[str, int],
    items: ItemIndex,
    faults: Faults,
    size: int | None = None,
    *,
    ragged: bool = False,
) -> Iterator[_Batch]:
    """`names` are the candidates that are known already, with their numbers; others are added to them. Lists that are
    `ragged` may be shorter than `size`.
    """
    if table.kind == "jsonl" and "lists" in table.names:
        yield from _nested(table, names, items, faults, size, ragged)
        return
    if "context" not in table.names:
        raise table.lacks("context", part="candidates.")
    if "candidate" in table.names:
        yield from _long(table, names, items, faults, size, ragged)
    elif table.kind in ("parquet", "frame"):
        yield from _wide(table, names, items, faults, size, ragged)
    else:
        raise table.lacks("candidate", why="and so is lists" if table.kind == "jsonl" else "", part="candidates.")


def _long(
    table: TableFile, names: dict[str, int], items: ItemIndex, faults: Faults, size: int | None, ragged: bool
) -> Iterator[_Batch]:
    columns = need_lists(table, "items", "item", part="candidates.")
    size = size or _list_size(table, columns)
    for piece in table.pieces(["context", "candidate", *columns], faults):
        contexts = as_keys(piece.columns["context"])
        who = as_keys(piece.columns["candidate"])
        good = ~note_bad_keys(piece, {"context": contexts, "candidate": who}, faults)
        picked = _pick([piece.columns[name] for name in columns], good)
        matrix = as_matrix(picked, as_keys, list_size=size, what="items", ragged=ragged)
        rows = piece.rows[good]
        for i, kind, text in matrix.dropped:
            faults.add(kind, [(int(rows[i]), text)])
        codes, fine = _learnt(items, matrix, rows[matrix.kept], faults)
        kept = matrix.kept[fine]
        called = [str(name) for name in who.values[good]]
        numbers = np.array([names.setdefault(name, len(names)) for name in called], dtype=np.int64)
        yield _single(rows[kept], contexts.values[good][kept], numbers[kept], codes[fine])


def _wide(
    table: TableFile, names: dict[str, int], items: ItemIndex, faults: Faults, size: int | None, ragged: bool
) -> Iterator[_Batch]:
    for name in table.names:
        if name != "context":
            names.setdefault(name, len(names))
    if not names:
        raise LogError(f"{table.path} needs one list column for each candidate beside `context`.")
    who = list(names)  # in this order, whatever the file's
    size = size or _list_size(table, who[:1])
    for piece in table.pieces(["context", *who], faults):
        contexts = as_keys(piece.columns["context"])
        good = ~note_bad_keys(piece, {"context": contexts}, faults)
        rows = piece.rows[good]
        lists = np.zeros((len(who), len(rows), size), dtype=np.int32)
        usable = np.zeros((len(who), len(rows)), dtype=bool)
        for p, name in enumerate(who):
            picked = _pick([piece.columns[name]], good)
            matrix = as_matrix(picked, as_keys, list_size=size, what="items", ragged=ragged)
            for i, kind, text in matrix.dropped:
                faults.add(kind, [(int(rows[i]), f"{text} (candidate {name!r})")])
            codes, fine = _learnt(items, matrix, rows[matrix.kept], faults, of=f" (candidate {name!r})")
            if len(matrix.kept) == len(rows) and fine.all():
                lists[p], usable[p] = codes, True
            else:
                lists[p, matrix.kept[fine]] = codes[fine]
                usable[p, matrix.kept[fine]] = True
        yield _Batch(rows, contexts.values[good], None, lists, usable)


def _learnt(
    items: ItemIndex, matrix: Matrix, rows: NDArray[np.int64], faults: Faults, *, of: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Codes of lists, −1 − j in a place j that a short list does not have; and which lists are good."""
    if matrix.lengths is None:
        codes = items.learn(matrix.values.ravel()).reshape(matrix.values.shape)
        return codes, check_candidate_lists(rows, codes, matrix.values, faults, of=of)
    there = np.arange(matrix.values.shape[1]) < matrix.lengths[:, None]
    codes = np.broadcast_to(EMPTY + np.arange(there.shape[1]), there.shape).copy()
    codes[there] = items.learn(matrix.values[there])
    fine = check_candidate_lists(rows, codes, matrix.values, faults, of=of)
    return np.where(codes >= EMPTY, EMPTY - 1 - codes, codes), fine


def _single(rows: NDArray[np.int64], contexts: Keys, candidates: NDArray[np.int64], codes: NDArray[np.int64]) -> _Batch:
    return _Batch(rows, contexts, candidates, codes.astype(np.int32)[None], np.ones((1, len(rows)), dtype=bool))


def _nested(
    table: TableFile, names: dict[str, int], items: ItemIndex, faults: Faults, size: int | None, ragged: bool
) -> Iterator[_Batch]:
    for rows, records in json_records(table.path, faults):
        numbers: list[int] = []
        contexts: list[object] = []
        who: list[int] = []
        lists: list[object] = []
        for row, record in zip(rows, records, strict=True):
            entry = record.get("lists")
            if not isinstance(record.get("context"), (int, float, str)) or not isinstance(entry, dict):
                faults.add("missing value", [(int(row), "`context` and `lists` (an object) are needed")])
                continue
            for name, shown in entry.items():
                numbers.append(int(row))
                contexts.append(record["context"])
                who.append(names.setdefault(name, len(names)))
                lists.append(shown)
                if size is None and isinstance(shown, list) and shown:
                    size = len(shown)
        if not lists:
            continue
        if size is None:
            faults.add("wrong type", [(row, "lists of items are needed") for row in numbers])
            continue
        keys = as_keys(contexts)
        matrix = as_matrix([lists], as_keys, list_size=size, what="items", ragged=ragged)
        at = np.array(numbers, dtype=np.int64)
        for i, kind, text in matrix.dropped:
            faults.add(kind, [(int(at[i]), text)])
        codes, fine = _learnt(items, matrix, at[matrix.kept], faults)
        kept = matrix.kept[fine]
        unnamed = keys.bad[kept]
        faults.add(
            "missing value", [(int(row), "the context must be a whole number or text") for row in at[kept[unnamed]]]
        )
        kept, codes = kept[~unnamed], codes[fine][~unnamed]
        yield _single(at[kept], keys.values[kept], np.array(who)[kept], codes)


def _assemble(
    batches: list[_Batch], names: tuple[str, ...], items: ItemIndex, faults: Faults, how: OnError
) -> CandidateLists:
    keys = unify_keys([batch.contexts for batch in batches])
    if len(keys) == 0:
        faults.settle("refuse")
        raise LogError(f"{faults.source} holds no usable list.")
    distinct, place = np.unique(keys, return_inverse=True)
    size = batches[0].codes.shape[2]
    lists = np.zeros((len(names), len(distinct), size), dtype=np.int32)
    seen = np.zeros((len(names), len(distinct)), dtype=bool)
    start = 0
    while batches:
        batch = batches.pop(0)  # what is put in its place need not be held twice
        where = place[start : start + len(batch.rows)]
        start += len(batch.rows)
        steps = np.diff(where)
        ascending = batch.candidates is None and bool((steps > 0).all())
        places = slice(where[0], where[-1] + 1) if len(where) and bool((steps == 1).all()) else where
        for c in range(len(batch.codes)):
            if ascending and batch.good[c].all() and not seen[c, places].any():
                lists[c, places] = batch.codes[c]  # all of them for the first time
                seen[c, places] = True
                continue
            who = np.full(len(where), c) if batch.candidates is None else batch.candidates
            good = batch.good[c]
            again = _repeated(who, where, seen) & good
            some = np.flatnonzero(again)
            described = [
                (int(batch.rows[i]), f"context {distinct[where[i]]} has a second list of {names[who[i]]!r}")
                for i in some[:3]
            ]
            faults.add("repeated context", described, count=len(some))
            new = good & ~again
            lists[who[new], where[new]] = batch.codes[c, new]
            seen[who[new], where[new]] = True
    complete = seen.all(axis=0)
    if not complete.all():
        absences = []
        for position in np.flatnonzero(~complete)[:3]:
            absent = [repr(names[p]) for p in np.flatnonzero(~seen[:, position])]
            listed = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
            absences.append(f"context {distinct[position]} has no good list of {listed}")
        faults.note("incomplete context", absences, count=int((~complete).sum()))
    faults.settle(how)
    if not complete.any():
        raise LogError(f"{faults.source} has no context with a list of every candidate.")
    if not complete.all():
        distinct, lists = distinct[complete], lists[:, complete]
    sizes = (lists[0] >= 0).sum(axis=1)
    return CandidateLists(
        names, Catalogue(distinct), lists, items, faults, None if (sizes == size).all() else sizes.astype(np.int64)
    )


def _repeated(who: NDArray[np.int64], where: NDArray[np.int64], seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which (candidate, context) pairs came before, in earlier batches or in this one."""
    again = seen[who, where]
    pairs = where * len(seen) + who
    if (pairs[1:] > pairs[:-1]).all():
        return again
    _, first = np.unique(pairs, return_index=True)
    repeated = np.ones(len(pairs), dtype=bool)
    repeated[first] = False
    return np.asarray(again | repeated)


def _list_size(table: TableFile, columns: list[str]) -> int:
    if len(columns) > 1 or columns in (["item_0"], ["item_1"]):
        return len(columns)
    for piece in table.pieces(columns, Faults(str(table.path))):
        for entry in piece.columns[columns[0]]:
            value = plain(entry)
            if isinstance(value, list) and value:
                return len(value)
            if value is not None and not isinstance(value, list):
                raise LogError(
                    f"{table.path}: column {columns[0]} must hold lists of items, got {quoted(value)} (without a "
                    "column candidate, every column beside context is taken for a candidate's lists)."
                )
    raise LogError(f"{table.path} holds no candidate's list.")


def _pick(columns: list[Column], good: NDArray[np.bool_]) -> list[Column]:
    if good.all():
        return columns
    if isinstance(columns[0], list):
        return [[value for value, keep in zip(column, good, strict=True) if keep] for column in columns]
    mask = arrow().array(good)
    return [column.filter(mask) for column in columns]
