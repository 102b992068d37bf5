"""What every log format is turned into, and what distinguishes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.logs.columns import Converter, Keys, as_keys, as_matrix, list_columns
from comband.logs.faults import Faults, LogError
from comband.logs.tables import Piece, TableFile, closest

_MISSPELT = 0.8  # so alike are columns of which one is surely meant to be the other


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
    for name in columns:
        if name not in table.names:
            raise table.lacks(name, why=f"it is read as {what}")


def need_lists(table: TableFile, plural: str, singular: str, *, list_size: int | None = None) -> list[str]:
    """The column or columns that hold lists; a file where they are missing, too few or too many is refused."""
    columns = list_columns(table.names, plural, singular)
    if columns is None:
        raise table.lacks(plural, why=f"and so are {singular}_0, {singular}_1, …")
    if columns == [plural]:
        if plural in table.scalars and list_size != 1:
            raise LogError(
                f"{table.path}: column {plural} holds no lists; give a list column (Parquet, JSON lines) or one column "
                f"a slot: {singular}_0, {singular}_1, …"
            )
        return columns
    expected = f"{singular}_{len(columns)}"
    used = [name for name in table.names if re.fullmatch(rf"{singular}_\d+", name)]
    misspelt = closest(expected, [name for name in table.names if name not in used], cutoff=_MISSPELT) is not None
    if len(used) > len(columns) or len(columns) < (list_size or 0) or (list_size is None and misspelt):
        raise table.lacks(expected, used=used)
    if list_size is not None and len(columns) > list_size:
        raise LogError(
            f"{table.path} has {len(columns)} columns {columns[0]} … {columns[-1]}, but the candidates' lists have "
            f"{list_size} item{'s' if list_size > 1 else ''}."
        )
    return columns
