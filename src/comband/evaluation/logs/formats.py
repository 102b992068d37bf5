"""What a log format is: one file with one `LogFormat`, which says all that distinguishes it.

A format of one's own needs nothing else. Given to `read_log`, or to a command as `--format module:NAME`, it is used;
registered with `comband.evaluation.logs.register`, it has a name and is found by its columns too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.columns import Converted, Converter, as_keys, as_matrix, bad_keys, list_columns
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.tables import Piece, TableFile, closest
from comband.page.catalogue import Keys
from comband.page.problem import InputError

PLACEMENTS = ("placements", "placement")  # the columns that say how likely each place of an item was
_MISSPELT = 0.8  # so alike are columns of which one is surely meant to be the other


@dataclass(frozen=True, eq=False, slots=True)
class RawRounds:
    """Rounds as a file has them: types are right, values are not checked yet.

    Parameters
    ----------
    rows:
        (n,) where each round stands in the file, from 1.
    ids:
        (n,) what the file calls the rounds; None where it does not.
    contexts:
        (n,) keys.
    items:
        (n, m) keys.
    rewards:
        (n, m).
    propensities:
        (n, m).
    positions:
        (n, m) the slots, from 0, where an item counts only there.
    lengths:
        (n,) how many items each round shows, where that differs; what stands behind them in a row is not looked at. A
        candidate's list is cut to as many. Not with positions.
    placements:
        (n, m, m) of each item, in the order of places, how likely each place was, where the log says so and factors of
        places are asked for. Not with lengths.

    >>> import numpy as np
    >>> from comband.evaluation.logs import RawRounds
    >>> one = RawRounds(
    ...     rows=np.array([1]),
    ...     ids=None,
    ...     contexts=np.array(["u1"]),
    ...     items=np.array([["tea", "rice"]]),
    ...     rewards=np.array([[1.0, 0.0]]),
    ...     propensities=np.array([[0.5, 0.5]]),
    ... )
    >>> one.items.shape
    (1, 2)
    """

    rows: NDArray[np.int64]
    ids: Keys | None
    contexts: Keys
    items: NDArray[Any]
    rewards: NDArray[np.float64]
    propensities: NDArray[np.float64]
    positions: NDArray[np.int64] | None = None
    lengths: NDArray[np.int64] | None = None
    placements: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A kind of log.

    name:
        What `--format` calls it.
    rounds:
        (file, size of the candidates' lists, columns that make up the context id, faults) -> batches of rounds.
    columns:
        What a file needs to be such a log: names of columns, or a function of the names that there are. The format
        that lacks the smallest share of them is the one that is found.
    meaning:
        How the propensities are read, in a sentence for the report.
    title:
        A word or two for the help text.
    marker:
        A column that no other format has, or several: a file with one is such a log, whatever else it holds.
    slots:
        How many items a round shows; None where it shows whole lists.
    positional:
        Whether an item counts only in the slot where it was shown, because the propensities are per slot; batches of
        rounds then have `positions`.
    largest:
        The largest propensity that can be right: 1, or more where it is the inverse of an estimated weight.
    variant:
        For a format that is read in several ways, the one that a file calls for.
    row_by_row:
        Whether each row is a round by itself, so that the groups of rows of a Parquet file can be read apart.
    doubt:
        Empty, or what must be said before a file that fits by its columns is read so ("auto" then asks for it).
    feedback:
        "items", or "total" for one number per list: batches then have rewards (n, 1), and as propensities those of
        whole lists (n, 1), of each item to be the one that was drawn first (n, m), or none (n, 0).
    placed:
        How such a log is read where rewards depend on item and place, if it can be: its propensities are then those of
        the item in its place. Only a format that has this can be in random order, as factors of places need it.
    examined:
        How it is read with factors of places where the file has `PLACEMENTS`: batches then have `placements`.
    asked_for:
        Whether a file is read so only where the format is named, whatever its columns.
    unit:
        What rewards are counted in: those of a file are divided by it.

    >>> from comband.evaluation.logs import LogFormat, RawRounds
    >>> from comband.evaluation.logs.columns import as_floats, as_keys
    >>> COLUMNS = ("user", "ad", "click", "chance")
    >>> def one_ad_per_row(table, list_size, context, faults):
    ...     for piece in table.pieces(COLUMNS, faults):
    ...         user, ad = (as_keys(piece.columns[name]).values for name in ("user", "ad"))
    ...         click, chance = (as_floats(piece.columns[name]).values for name in ("click", "chance"))
    ...         yield RawRounds(piece.rows, None, user, ad[:, None], click[:, None], chance[:, None])
    ...
    >>> ads = LogFormat("ads", one_ad_per_row, COLUMNS, "propensities are the probability that the ad was shown")
    >>> ads.needed(["user", "ad", "price"]) == set(COLUMNS)
    True
    """

    name: str
    rounds: Callable[[TableFile, int, Sequence[str], Faults], Iterator[RawRounds]]
    columns: Sequence[str] | Callable[[Sequence[str]], Sequence[str]]
    meaning: str
    title: str = ""
    marker: str | tuple[str, ...] | None = None
    slots: int | None = None
    positional: bool = False
    largest: float = 1.0
    variant: Callable[[TableFile], LogFormat] | None = None
    row_by_row: bool = False
    doubt: Callable[[TableFile], str] | None = None
    feedback: Literal["items", "total"] = "items"
    placed: LogFormat | None = None
    examined: LogFormat | None = None
    asked_for: bool = False
    unit: float = 1.0

    @property
    def markers(self) -> frozenset[str]:
        """The columns of which one is enough."""
        return frozenset({self.marker} if isinstance(self.marker, str) else self.marker or ())

    def needed(self, names: Sequence[str]) -> frozenset[str]:
        """The columns that a file with these should have."""
        return frozenset(self.columns(names) if callable(self.columns) else self.columns)

    def in_units(self, unit: float) -> LogFormat:
        """The same with rewards that are divided by this."""
        return replace(self, unit=unit)

    def for_file(self, table: TableFile) -> LogFormat:
        """How this file is read."""
        return self if self.variant is None else self.variant(table)

    def batches(self, table: TableFile, list_size: int, context: Sequence[str], faults: Faults) -> Iterator[RawRounds]:
        """What `rounds` yields, if it is of the right form."""
        slots = self.slots or list_size
        for batch in self.rounds(table, list_size, context, faults):
            self._check(batch, slots)
            yield batch

    def _check(self, batch: RawRounds, slots: int) -> None:
        if not isinstance(batch, RawRounds):
            raise InputError(f"format {self.name!r} must yield RawRounds, got {type(batch).__name__}.")
        n = len(batch)
        matrices = {"items": batch.items, "rewards": batch.rewards, "propensities": batch.propensities}
        if self.positional:
            matrices["positions"] = np.asarray(batch.positions)
        elif batch.positions is not None:
            raise InputError(f"format {self.name!r} gives positions, so it must be positional.")
        vectors: dict[str, Any] = {"contexts": batch.contexts} | ({} if batch.ids is None else {"ids": batch.ids})
        if batch.lengths is not None:
            if self.positional or self.feedback == "total":
                raise InputError(f"format {self.name!r} gives lengths, so it must show items that count anywhere.")
            vectors["lengths"] = batch.lengths
        known = batch.placements
        if known is not None and (self.positional or batch.lengths is not None or known.shape != (n, slots, slots)):
            raise InputError(
                f"format {self.name!r} must give placements of shape {(n, slots, slots)}, of items that count "
                f"anywhere in lists of one length, got {known.shape}."
            )
        totals = self.feedback == "total"
        for name, array in (matrices | vectors).items():
            wide = slots if not totals or name == "items" else 1
            expected = (n, wide) if name in matrices else (n,)
            if totals and name == "propensities" and array.shape in ((n, 0), (n, slots)):
                continue
            if array.shape != expected:
                raise InputError(f"format {self.name!r} must give {name} of shape {expected}, got {array.shape}.")


def matrices(
    piece: Piece,
    wanted: Sequence[tuple[Sequence[str], Converter, str]],
    *,
    list_size: int,
    faults: Faults,
    sizes: Mapping[str, int] | None = None,
) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
    """Several list columns of one piece as matrices over the rows where all are good (positions in the piece); `sizes`
    are those of columns that are not of the list's.
    """
    own = sizes or {}
    parts = [
        as_matrix([piece.columns[name] for name in names], convert, list_size=own.get(what, list_size), what=what)
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
    bad = note_bad_keys(piece, dict(zip(columns, parts, strict=True)), faults)
    if len(parts) == 1:
        return parts[0].values, ~bad
    joined = np.empty(len(piece), dtype=object)
    joined[:] = ["|".join(str(part.values[i]) for part in parts) for i in range(len(piece))]
    return joined, ~bad


def note_bad_keys(piece: Piece, columns: Mapping[str, Converted], faults: Faults) -> NDArray[np.bool_]:
    """Which rows lack a key in one of these columns, or have something else there: each is noted once."""
    bad = np.zeros(len(piece), dtype=bool)
    for name, found in columns.items():
        for i, kind, text in bad_keys(piece.columns[name], found, name):
            if not bad[i]:  # a row is one fault
                faults.add(kind, [(int(piece.rows[i]), text)])
        bad |= found.bad
    return bad


def need_columns(table: TableFile, columns: Sequence[str], what: str) -> None:
    """Refuse a file that lacks columns."""
    for name in columns:
        if name not in table.names:
            raise table.lacks(name, why=f"it is read as {what}", part="")


def need_lists(
    table: TableFile, plural: str, singular: str, *, list_size: int | None = None, part: str = ""
) -> list[str]:
    """The column or columns that hold lists; a file where they are missing, too few or too many is refused.

    `part` as for `TableFile.lacks`.
    """
    columns = list_columns(table.names, plural, singular)
    if columns is None:
        raise table.lacks(plural, why=f"and so are {singular}_0, {singular}_1, …", part=part)
    if columns == [plural]:
        if plural in table.scalars and list_size != 1 and table.kind != "csv":
            raise LogError(
                f"{table.path}: column {plural} holds no lists; give a list column (Parquet, JSON lines) or one column "
                f"a slot: {singular}_0, {singular}_1, …"
            )
        return columns
    first = int(columns[0].rsplit("_", 1)[1])
    expected = f"{singular}_{first + len(columns)}"
    used = [name for name in table.names if re.fullmatch(rf"{singular}_\d+", name)]
    others = [name for name in table.names if name not in used]
    if first == 1 and closest(f"{singular}_0", others, cutoff=_MISSPELT) is not None:
        raise table.lacks(f"{singular}_0", used=used)  # not counted from 1: the first is misspelt
    misspelt = closest(expected, others, cutoff=_MISSPELT) is not None
    if len(used) > len(columns) or len(columns) < (list_size or 0) or (list_size is None and misspelt):
        raise table.lacks(expected, used=used)
    if list_size is not None and len(columns) > list_size:
        raise LogError(
            f"{table.path} has {len(columns)} columns {columns[0]} … {columns[-1]}, but the candidates' lists have "
            f"{list_size} item{'s' if list_size > 1 else ''}."
        )
    return columns
