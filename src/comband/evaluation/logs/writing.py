"""Rounds and candidates' lists to files that `read_log` and `read_candidates` read back number for number."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.tables import arrow, marked
from comband.page.catalogue import Catalogue, check_catalogue
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, check_path
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import whole_file
from comband.page.totals import TotalRounds, log_lists_with
from comband.policies.policy_set import PolicySet

_STEP = 1 << 16
_GROUP = 1 << 24  # items
_PARQUET = (".parquet", ".pq")
_SINGULAR = {"items": "item", "rewards": "reward", "propensities": "propensity", "placements": "placement"}

Block = dict[str, NDArray[Any]]


def write_rounds(
    rounds: Rounds | TotalRounds | Iterable[Rounds | TotalRounds],
    path: str | Path,
    *,
    context_ids: ArrayLike | None = None,
    catalogue: Catalogue | None = None,
) -> None:
    """Write rounds, or batches of them, as comband's own log: .parquet, .csv or .jsonl.

    Its columns are in `comband.evaluation.logs.native`. Of `TotalRounds` it is a log of totals
    (`comband.evaluation.logs.totals`), with the probabilities of whole lists.
    `context_ids` name the contexts of all rounds, one each; by default contexts that are ids already (a 1-D array of
    whole numbers or text) are taken as they are, and others are called after their round's id.

    Parameters
    ----------
    rounds:
        All of them, or batches.
    context_ids:
        One for each round.
    catalogue:
        What the items are called: their keys, whole numbers or text, are written in place of their numbers.
    path:
        A .parquet, .csv or .jsonl file.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> cb.write_rounds(rounds, path)
    >>> print(path.read_text().splitlines()[0])
    id,epoch,context,item_0,item_1,reward_0,reward_1,propensity_0,propensity_1
    """
    given = None if context_ids is None else np.asarray(context_ids)

    def blocks() -> Iterator[Block]:
        start, stated = 0, None
        for part in [rounds] if isinstance(rounds, (Rounds, TotalRounds)) else rounds:
            decisions = part.decisions
            own = None if given is None else given[start : start + len(decisions)]
            keys = _context_ids(decisions.contexts, own, default=decisions.ids)
            start += len(decisions)
            stated = decisions.placements is not None if stated is None else stated
            if decisions.placements is not None and not stated:
                raise InputError(
                    "all batches must state probabilities of places, or none, got one that does after one that does "
                    "not: write them to files of their own, or join them with +, which completes them."
                )
            for rows in _slices(len(decisions)):
                yield {
                    "id": decisions.ids[rows],
                    "epoch": decisions.epochs[rows],
                    "context": keys[rows],
                    "items": _keys_of(decisions.lists[rows], catalogue),
                    **_answers(part, rows),
                    **(_placements(decisions[rows]) if stated else {}),
                }

    _write(path, blocks())


def _answers(part: Rounds | TotalRounds, rows: slice) -> Block:
    """What came of some rounds, and how likely their lists were."""
    if isinstance(part, Rounds):
        return {"rewards": part.rewards[rows], "propensities": part.decisions.propensities[rows]}
    likely = np.minimum(np.exp(np.log(part.shares[rows]) - log_lists_with(part.problem)), 1.0)
    if not (likely >= np.finfo(np.float64).tiny).all():
        raise InputError(
            f"lists of {part.problem.list_size} of {part.problem.n_actions:,} items have probabilities that are too "
            "small for a number; write a log with first_propensities (comband.evaluation.logs.totals)."
        )
    return {"total": part.totals[rows], "list_propensity": likely}


def _placements(decisions: Decisions) -> Block:
    """Of each shown item, one after the other, the probability of each place (n, m·m)."""
    n, m = decisions.lists.shape
    known = decisions.placements
    if known is None:  # in random order
        known = np.repeat(decisions.propensities[:, :, None] / m, m, axis=2)
    return {"placements": known.reshape(n, m * m)}


def write_candidates(
    policies: PolicySet,
    contexts: Contexts,
    path: str | Path,
    *,
    context_ids: ArrayLike | None = None,
    catalogue: Catalogue | None = None,
) -> None:
    """Write every candidate's list for every context (see `comband.evaluation.logs.candidates`).

    Parquet gets one row per context with a list column for each candidate, JSON lines one object per context, CSV one
    row per context and candidate.
    `context_ids` as in `write_rounds`, with 0, 1, … by default for contexts that are not ids.

    Parameters
    ----------
    contexts:
        For which they are asked.
    context_ids:
        One for each context.
    catalogue:
        As for `write_rounds`; give both the same.
    policies:
        The candidates.
    path:
        A .parquet, .csv or .jsonl file.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "lists.csv"
    >>> cb.write_candidates(policies, np.array([0]), path)
    >>> print(path.read_text().strip())
    context,candidate,item_0,item_1
    0,old,0,1
    0,new,2,3
    """
    n = n_contexts(contexts)
    keys = _context_ids(contexts, context_ids, default=np.arange(n))
    if n == 0:
        raise InputError("there must be at least one context to write lists for, got none.")
    m = policies.predict(take_contexts(contexts, slice(0, 1))).shape[2]
    suffix = Path(check_path(path)).suffix.lower()
    for name in ("context", "candidate"):
        if suffix in _PARQUET and name in policies.names:
            raise InputError(f"a candidate cannot be called {name!r} in a Parquet file; rename it or write .csv.")
    _check_texts(policies.names, "a candidate's name")

    def blocks() -> Iterator[Block]:
        # A group of rows has its own header for each column of a Parquet file: many candidates want long groups.
        step = _GROUP // (len(policies) * m) if suffix in _PARQUET else _STEP // len(policies)
        for rows in _slices(n, max(1, step)):
            lists = _keys_of(policies.predict(take_contexts(contexts, rows)), catalogue)
            some = keys[rows]
            if suffix in _PARQUET:
                yield {"context": some, **{name: lists[:, p] for p, name in enumerate(policies.names)}}
            elif suffix == ".jsonl":
                nested = np.empty(len(some), dtype=object)
                nested[:] = [dict(zip(policies.names, shown, strict=True)) for shown in lists.tolist()]
                yield {"context": some, "lists": nested}
            else:
                yield {
                    "context": np.repeat(some, len(policies)),
                    "candidate": np.tile(np.array(policies.names, dtype=object), len(some)),
                    "items": lists.reshape(-1, m),
                }

    _write(path, blocks())


def _keys_of(lists: NDArray[Any], catalogue: Catalogue | None) -> NDArray[Any]:
    """What stands in a file for item numbers."""
    known = check_catalogue(catalogue)
    if known is None:
        return lists
    if (lists < 0).any():
        raise InputError("empty places (−1) have no key: write item numbers, without a catalogue.")
    keys = np.asarray(known[lists])
    if keys.dtype.kind not in "iuU" and not all(isinstance(key, (str, int)) for key in keys.ravel().tolist()):
        raise InputError("files hold whole numbers and text; a catalogue with other keys cannot be written.")
    keys = keys.astype(object) if keys.dtype.kind == "U" else keys
    _check_texts(keys.ravel().tolist() if keys.dtype == object else (), "an item")
    return keys


def _context_ids(contexts: Contexts, given: ArrayLike | None, *, default: NDArray[Any]) -> NDArray[Any]:
    if given is not None:
        keys = np.asarray(given)
        if keys.shape != (n_contexts(contexts),):
            raise InputError(f"context_ids must hold one id per context, {n_contexts(contexts)}, got {keys.shape}.")
    elif isinstance(contexts, np.ndarray) and contexts.ndim == 1 and contexts.dtype.kind in "iuUO":
        keys = contexts
    else:
        keys = default
    keys = keys.astype(object) if keys.dtype.kind == "U" else keys
    _check_texts(keys.tolist() if keys.dtype == object else (), "the id of a context")
    return keys


def _check_texts(texts: Iterable[Any], what: str) -> None:
    """Refuse what is no Unicode text."""
    for text in texts:
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError(f"{what} must be text that can be written as UTF-8, got {text!r}.") from None


def _slices(n: int, step: int = 1 << 16) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def _write(path: str | Path, blocks: Iterator[Block]) -> None:
    """Write a log as a whole or not at all."""
    suffix = check_ending(path)
    writers = {**dict.fromkeys(_PARQUET, _write_parquet), ".csv": _write_csv, ".jsonl": _write_jsonl}
    with whole_file(path) as part:
        writers[suffix](part, blocks)


def check_ending(path: str | Path) -> str:
    """Return the ending of a file, by which its format is known, if it is one that can be written."""
    suffix = Path(check_path(path)).suffix.lower()
    if suffix not in (*_PARQUET, ".csv", ".jsonl"):
        raise LogError(f"{path} should end in .parquet, .csv or .jsonl, so that its format is known.")
    return suffix


def _write_parquet(path: Path, blocks: Iterator[Block]) -> None:
    pa = arrow()
    import pyarrow.parquet as pq

    writer = None
    try:
        for block in blocks:
            columns = {}
            for name, values in block.items():
                if values.ndim == 2:
                    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
                    columns[name] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))
                else:
                    columns[name] = pa.array(values)
            batch = pa.table(columns)
            writer = writer or pq.ParquetWriter(path, batch.schema, write_page_checksum=True)
            writer.write_table(batch)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InputError("there must be at least one round to write to a Parquet file, got none.")


def _write_csv(path: Path, blocks: Iterator[Block]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        header: list[str] | None = None
        for block in blocks:
            names, columns = _flat_columns(block)
            if header is None:
                header = names
                writer.writerow(header)
            writer.writerows(zip(*columns, strict=True))


def _flat_columns(block: Block) -> tuple[list[str], list[Sequence[Any]]]:
    names: list[str] = []
    columns: list[Sequence[Any]] = []
    for name, values in block.items():
        if values.ndim == 2:
            names += [f"{_SINGULAR[name]}_{j}" for j in range(values.shape[1])]
            columns += [_csv_column(values[:, j]) for j in range(values.shape[1])]
        else:
            names.append(name)
            columns.append(_csv_column(values))
    return names, columns


def _csv_column(values: NDArray[Any]) -> list[Any]:
    return [_csv_cell(value) for value in values] if values.dtype == object else list(values.tolist())


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value or "\n" in value or "\r" in value:
        raise InputError(f"a CSV file cannot hold {value!r} (nothing, or a line break); write .parquet or .jsonl.")
    return marked(value)


def _write_jsonl(path: Path, blocks: Iterator[Block]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for block in blocks:
            names = list(block)
            for row in zip(*(values.tolist() for values in block.values()), strict=True):
                file.write(json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) + "\n")
