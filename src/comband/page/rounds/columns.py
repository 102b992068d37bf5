"""What the records share: read-only columns, how they are filled, picked and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from comband.page.catalogue import Catalogue, check_catalogue
from comband.page.problem import InputError, as_column


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view of the array, which is closed to writing for good: records hold it without a copy.

    Only for arrays that the caller alone holds. An array can be opened again by its owner, a view of a closed one that
    owns its numbers cannot; those of compiled loops do not own theirs, and are copied.

    >>> import numpy as np
    >>> from comband.page.rounds import read_only
    >>> read_only(np.arange(3)).flags.writeable
    False
    """
    if array.base is not None:
        array = array.copy()
    array.setflags(write=False)
    return array[...]


def all_covered(n: int) -> NDArray[np.bool_]:
    """True for each of n rounds.

    >>> from comband.page.rounds import all_covered
    >>> all_covered(2).tolist()
    [True, True]
    """
    return _COVERED[:n] if n <= SMALL else read_only(np.ones(n, dtype=np.bool_))


def no_arms(n: int) -> NDArray[np.int64]:
    """−1 for each of n rounds.

    >>> from comband.page.rounds import no_arms
    >>> no_arms(2).tolist()
    [-1, -1]
    """
    return _NO_ARMS[:n] if n <= SMALL else read_only(np.full(n, -1))


EMPTY: NDArray[np.int64] = read_only(np.empty(0, dtype=np.int64))

ALL: NDArray[np.bool_] = read_only(np.empty(0, dtype=np.bool_))

# What almost all records hold, made once.
SMALL = 4096

_COVERED: NDArray[np.bool_] = read_only(np.ones(SMALL, dtype=np.bool_))

_NO_ARMS: NDArray[np.int64] = read_only(np.full(SMALL, -1))

_Record = TypeVar("_Record")

_DTYPES = {
    "ids": np.int64,
    "epochs": np.int64,
    "covered": np.bool_,
    "arms": np.int64,
    "makers": np.int64,
    "rows": np.int64,
    "lists": np.int32,
    "actions": np.int32,
    "rewards": np.float64,
    "propensities": np.float64,
    "placements": np.float64,
}


_OPTIONAL = ("placements",)  # None in records that do not have them


@cache
def _columns(kind: type) -> tuple[tuple[str, np.dtype[Any]], ...]:
    return tuple((field.name, np.dtype(_DTYPES[field.name])) for field in fields(kind) if field.name in _DTYPES)


def freeze(record: Any) -> None:
    """Store every column as a read-only array of its own type, never a view that can still be written to."""
    for name, dtype in _columns(record.__class__):
        given = getattr(record, name)
        if given is None and name in _OPTIONAL:
            continue
        if type(given) is np.ndarray and given.dtype == dtype:
            if given.flags.writeable:
                object.__setattr__(record, name, read_only(given.copy()))
            continue
        column = as_column(name, given, dtype)
        if column.flags.writeable:
            column = read_only(column.copy() if column is given else column)
        object.__setattr__(record, name, column)


def fill(record: Any, n: int) -> None:
    """Put in what was left out because it is the same in all rounds."""
    if record.covered is ALL:
        object.__setattr__(record, "covered", all_covered(n))
    if record.arms is EMPTY:
        object.__setattr__(record, "arms", no_arms(n))


def without_checks(kind: type[_Record], **columns: Any) -> _Record:
    """A record of columns that come out of checked records, of the right types; those still open are closed as they
    are, so the caller alone may hold them.
    """
    record, put = object.__new__(kind), object.__setattr__
    for name, value in columns.items():
        is_open = name in _DTYPES and value is not None and value.flags.writeable
        put(record, name, read_only(value) if is_open else value)
    return record


def joined_placements(parts: Sequence[Any]) -> NDArray[np.float64] | None:
    """Those of all records, one after the other; None if no one has any. Records without any are of lists in random
    order, where each place is as likely as another.
    """
    if all(part.placements is None for part in parts):
        return None
    sizes = {part.placements.shape[-1] for part in parts if part.placements is not None}
    if len(sizes) > 1:
        raise InputError(f"records to join must be of lists of one length, got {sorted(sizes)}.")
    m = sizes.pop()
    return np.concatenate(
        [
            np.repeat(part.propensities[..., None] / m, m, axis=-1) if part.placements is None else part.placements
            for part in parts
        ]
    )


def rows_of(index: Any, n: int) -> Any:
    """An index that keeps the row axis: slices and arrays as they are, a whole number as a batch of one."""
    if isinstance(index, (int, np.integer)):
        if not -n <= index < n:
            raise IndexError(f"row {index} is out of range: there are {n}.")
        return np.array([index])
    if isinstance(index, slice):
        return index
    which = np.asarray(index)
    if which.ndim != 1 or (which.dtype.kind not in "biu" and which.size):
        raise IndexError(f"rows must be picked by a number, a slice, numbers (k,) or a mask ({n},), got {index!r}.")
    return which if which.size else np.zeros(0, dtype=np.int64)


def with_keys(columns: dict[str, Any], catalogue: Catalogue | None) -> dict[str, Any]:
    """The columns of a frame with items called as the catalogue calls them."""
    named = check_catalogue(catalogue)
    return columns if named is None else {**columns, "item": named[columns["item"]]}
