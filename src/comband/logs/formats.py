"""What every log format is turned into, and what distinguishes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.logs.columns import Column, Converter, Keys, as_keys, as_matrix
from comband.logs.faults import Faults, LogError
from comband.logs.tables import Piece, TableFile


@dataclass(frozen=True, eq=False, slots=True)
class RawRounds:
    """Rounds as a file has them: types are right, values are not checked yet."""

    rows: NDArray[np.int64]
    ids: Keys | None
    contexts: Keys
    items: NDArray[Any]
    rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    positions: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A kind of log.

    name:
        What `--format` calls it.
    rounds:
        (file, size of the candidates' lists, columns that make up the context id, faults) -> batches of rounds.
    positional:
        Whether an item counts only in the slot where it was shown, because the propensities are per slot.
    largest:
        The largest propensity that can be right: 1, or more where it is the inverse of an estimated weight.
    meaning:
        How the propensities are read, in a sentence for the report.
    """

    name: str
    rounds: Callable[[TableFile, int, Sequence[str], Faults], Iterator[RawRounds]]
    positional: bool
    largest: float
    meaning: str


def matrices(
    piece: Piece, wanted: Sequence[tuple[Sequence[str], Converter, str]], *, list_size: int, faults: Faults
) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
    """Several list columns of one piece as matrices over the rows where all are good (positions in the piece)."""
    parts = [
        as_matrix([piece.columns[name] for name in names], convert, list_size=list_size, what=what)
        for names, convert, what in wanted
    ]
    told: set[int] = set()
    for part in parts:
        for i, kind, text in part.dropped:
            if i not in told:  # a row is one fault, however many columns it spoils
                told.add(i)
                faults.add(kind, [(int(piece.rows[i]), text)])
    if not told:
        return parts[0].kept, [part.values for part in parts]
    kept = parts[0].kept
    for part in parts[1:]:
        kept = np.intersect1d(kept, part.kept, assume_unique=True)
    return kept, [part.values[np.isin(part.kept, kept)] for part in parts]


def context_keys(piece: Piece, columns: Sequence[str], faults: Faults) -> tuple[Keys, NDArray[np.bool_]]:
    """The id of each row's context, from one column or several joined with "|"; and which rows have one."""
    parts = [as_keys(piece.columns[name]) for name in columns]
    bad = np.zeros(len(piece), dtype=bool)
    for part in parts:
        bad |= part.bad
    faults.add("missing value", [(int(piece.rows[i]), f"no {' or '.join(columns)}") for i in np.flatnonzero(bad)])
    if len(parts) == 1:
        return parts[0].values, ~bad
    joined = np.empty(len(piece), dtype=object)
    joined[:] = ["|".join(str(part.values[i]) for part in parts) for i in range(len(piece))]
    return joined, ~bad


def need_columns(table: TableFile, columns: Sequence[str], what: str) -> None:
    """Refuse a file that lacks columns."""
    absent = [name for name in columns if name not in table.names]
    if absent:
        raise LogError(
            f"{table.path} is read as {what}, which needs the column{'s' if len(absent) > 1 else ''} "
            f"{', '.join(absent)}; it has {', '.join(name or '(unnamed)' for name in table.names[:12])}."
        )


def take(column: Column, index: NDArray[np.int64]) -> Column:
    """Some entries of a column."""
    if isinstance(column, list):
        return [column[i] for i in index]
    return column.take(index)
