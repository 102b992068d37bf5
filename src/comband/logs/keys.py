"""From the ids that files use (whole numbers or text) to positions and codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.logs.columns import Keys, spelt_number
from comband.logs.faults import LogError
from comband.logs.tables import check_file
from comband.problem import check_count

# A direct table is used while it has at most this many slots, or a few for each key.
_DIRECT = 1 << 22


class KeyIndex:
    """Positions of known keys; −1 for others. Whole numbers and text that spells them are the same key.

    >>> KeyIndex(np.array([30, 10])).find(np.array([10, 20, 30])).tolist()
    [1, -1, 0]
    >>> KeyIndex(np.array(["a", "7"], dtype=object)).find(np.array([7, 8])).tolist()
    [1, -1]
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._table: dict[str, int] | None = None
        if keys.dtype == object:
            self._table = {text: position for position, text in enumerate(keys)}
            return
        self._low = int(keys.min()) if len(keys) else 0
        span = int(keys.max()) - self._low + 1 if len(keys) else 0
        self._direct: NDArray[np.int64] | None = None
        if span <= max(_DIRECT, 4 * len(keys)):
            self._direct = np.full(span, -1, dtype=np.int64)
            self._direct[keys - self._low] = np.arange(len(keys))
        else:
            self._order = np.argsort(keys, kind="stable")
            self._sorted = keys[self._order]

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The position of each key, −1 where it is not known."""
        if self._table is not None:
            table = self._table
            texts = keys if keys.dtype == object else keys.astype(str).astype(object)
            return np.fromiter((table.get(text, -1) for text in texts), dtype=np.int64, count=len(texts))
        if keys.dtype == object:
            return self._find_numbers(*spelt_numbers(keys))
        return self._find_numbers(keys, None)

    def _find_numbers(self, numbers: NDArray[np.int64], known: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        if len(self.keys) == 0:
            return np.full(len(numbers), -1, dtype=np.int64)
        if self._direct is not None:
            slots = numbers - self._low
            inside = (slots >= 0) & (slots < len(self._direct))
            found = np.where(inside, self._direct[np.where(inside, slots, 0)], -1)
        else:
            place = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
            found = np.where(self._sorted[place] == numbers, self._order[place], -1)
        return found if known is None else np.where(known, found, -1)


class ItemIndex:
    """Items as codes: whole numbers are their own codes, texts are numbered as they come.

    Parameters
    ----------
    n_actions:
        If given, items are the whole numbers 0 … n_actions − 1 and anything else is unknown.
    catalogue:
        If given, the items there are; anything else is unknown. Codes are positions in it.
    """

    def __init__(self, *, n_actions: int | None = None, catalogue: Keys | None = None) -> None:
        if n_actions is not None and catalogue is not None:
            raise LogError("give either the number of items or a catalogue of them, not both.")
        self.n_actions = None if n_actions is None else check_count("n_actions", n_actions)
        known = isinstance(catalogue, np.ndarray) and catalogue.ndim == 1 and catalogue.dtype in (object, np.int64)
        if catalogue is not None and not known:
            raise LogError(f"a catalogue must be what read_catalogue gave, got {type(catalogue).__name__}.")
        self._catalogue = None if catalogue is None else KeyIndex(catalogue)
        self._texts: dict[str, int] | None = None
        self._largest = -1

    @property
    def numeric(self) -> bool:
        """Whether codes are the items themselves."""
        return self._texts is None and self._catalogue is None

    @property
    def size(self) -> int:
        """How many codes there are, at least: enough for all that candidates show."""
        if self._catalogue is not None:
            return len(self._catalogue)
        if self.n_actions is not None:
            return self.n_actions
        return len(self._texts) if self._texts is not None else self._largest + 1

    @property
    def names(self) -> Keys | None:
        """The items by code, from the catalogue; None without one."""
        return None if self._catalogue is None else self._catalogue.keys

    def learn(self, keys: Keys) -> NDArray[np.int64]:
        """Codes of items that candidates show; the first batch settles whether items are numbers or texts."""
        if self.n_actions is not None and keys.dtype == object and len(keys) and not spelt_numbers(keys)[1].any():
            raise LogError(
                f"the items are text, such as {keys[0]!r}, but n_actions says that they are the whole numbers "
                f"0 … {self.n_actions - 1}; give a file with all items, one per line, instead (--items, catalogue)."
            )
        if self.numeric and self.n_actions is None and keys.dtype == object:
            if self._largest >= 0:
                raise LogError("items must all be whole numbers or all be text, got some of both.")
            self._texts = {}
        codes = self.codes(keys)
        if self.numeric and len(codes):
            self._largest = max(self._largest, int(codes.max()))
        return codes

    def codes(self, keys: Keys) -> NDArray[np.int64]:
        """Codes of items; −1 for unknown ones."""
        if self._catalogue is not None:
            return self._catalogue.find(keys)
        if self._texts is not None:
            table = self._texts
            texts = keys if keys.dtype == object else keys.astype(str).astype(object)
            return np.fromiter((table.setdefault(text, len(table)) for text in texts), np.int64, count=len(texts))
        if keys.dtype == object:
            numbers, known = spelt_numbers(keys)
            keys = np.where(known, numbers, -1)
        limit = 2**31 - 1 if self.n_actions is None else self.n_actions
        if len(keys) and (keys.min() < 0 or keys.max() >= limit):
            return np.where((keys >= 0) & (keys < limit), keys, -1)
        return np.asarray(keys, dtype=np.int64)


def read_catalogue(path: str | Path) -> Keys:
    """Items from a text file, one per line."""
    path = check_file(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start:,}).") from None
    keys = unify_keys([np.array([line for line in lines if line], dtype=object)])
    if len(keys) == 0:
        raise LogError(f"{path} names no item; all items are needed, one per line.")
    distinct, counts = np.unique(keys, return_counts=True)
    if len(distinct) < len(keys):
        raise LogError(f"{path} names item {distinct[counts.argmax()]} {counts.max()} times; each counts once.")
    return keys


def unify_keys(parts: Sequence[Keys]) -> Keys:
    """Batches of keys as one array: numbers if all are, otherwise text."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return np.empty(0, dtype=np.int64)
    if all(part.dtype != object for part in parts):
        return np.concatenate(parts)
    joined = np.concatenate([part if part.dtype == object else part.astype(str).astype(object) for part in parts])
    numbers, known = spelt_numbers(joined)
    return numbers if known.all() else joined


def spelt_numbers(texts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The whole numbers that texts spell in the usual way ("7", not "007"), and which of them do."""
    numbers = np.zeros(len(texts), dtype=np.int64)
    known = np.zeros(len(texts), dtype=bool)
    for i, text in enumerate(texts):
        number = spelt_number(text)
        if number is not None:
            numbers[i], known[i] = number, True
    return numbers, known
