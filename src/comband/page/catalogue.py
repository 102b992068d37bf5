"""What items are called: keys ↔ the numbers 0 … K−1 that lists are made of.

Inside comband an item is its number. A caller with other names (article numbers, words, any hashable) says once
which items there are; policies may then answer in keys, files are read and written in them, and reports name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.frames import is_frame
from comband.page.problem import InputError
from comband.page.text import quoted

Keys = NDArray[Any]
"""Keys as an array: int64 if all are whole numbers, otherwise object."""

# A direct table is used while it has at most this many slots, or a few for each key.
_DIRECT = 1 << 22


class Catalogue:
    """Distinct keys, each with the number that is its position.

    A whole number and the text that spells it in the usual way are one key (7 and "7", not "007"): files cannot tell
    them apart.

    Parameters
    ----------
    keys:
        The keys in order: whole numbers, text, or any hashables (not None, True, False or NaN).

    >>> fruit = Catalogue(["apple", "pear", "plum"])
    >>> fruit.numbers([["plum", "apple"]]).tolist(), fruit[[1, 2]].tolist(), fruit.find(["fig", "pear"]).tolist()
    ([[2, 0]], ['pear', 'plum'], [-1, 1])
    >>> Catalogue([30, 10]).find(["10", 20]).tolist()
    [1, -1]
    """

    def __init__(self, keys: Iterable[Any]) -> None:
        self.keys = _as_keys(keys)
        self.keys.setflags(write=False)
        self._table: dict[Any, int] | None = None
        self._texts = False
        if self.keys.dtype == object:
            self._texts = all(type(key) is str for key in self.keys)
            self._table = {}
            for position, key in enumerate(self.keys):
                if self._table.setdefault(key if self._texts else canonical_key(key), position) != position:
                    raise InputError(f"the keys of a catalogue must differ, but {quoted(key)} is there twice.")
            return
        self._low = int(self.keys.min()) if len(self.keys) else 0
        span = int(self.keys.max()) - self._low + 1 if len(self.keys) else 0
        self._direct: NDArray[np.int64] | None = None
        if span <= max(_DIRECT, 4 * len(self.keys)):
            self._direct = np.full(span, -1, dtype=np.int64)
            self._direct[self.keys - self._low] = np.arange(len(self.keys))
            distinct = int((self._direct >= 0).sum())
        else:
            self._order = np.argsort(self.keys, kind="stable")
            self._sorted = self.keys[self._order]
            distinct = 1 + int((self._sorted[1:] != self._sorted[:-1]).sum())
        if distinct < len(self.keys):
            values, counts = np.unique(self.keys, return_counts=True)
            raise InputError(
                f"the keys of a catalogue must differ, but {values[counts.argmax()]} is there {counts.max()} times."
            )

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys.tolist())

    def __contains__(self, key: Any) -> bool:
        single = np.empty(1, dtype=object)
        single[0] = key
        return bool(self._find(single)[0] >= 0)

    def __getitem__(self, numbers: Any) -> Any:
        """The key of a number, or an array of keys for an array of them."""
        try:
            found = self.keys[numbers]
        except IndexError:
            raise InputError(f"numbers must lie in 0 … {len(self) - 1}, got {quoted(numbers)}.") from None
        return found.item() if isinstance(found, np.generic) else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalogue) and self.keys.tolist() == other.keys.tolist()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Catalogue of {len(self):,}: {quoted(self.keys[:3].tolist())[1:-1]}{', …' if len(self) > 3 else ''}"

    @property
    def numeric(self) -> bool:
        """Whether every key is its own number."""
        return self.keys.dtype != object and bool((self.keys == np.arange(len(self))).all())

    def find(self, keys: Any) -> NDArray[np.int64]:
        """The number of each key, in the shape of `keys`; −1 where it is not known."""
        array = key_array(keys)
        return self._find(array.ravel()).reshape(array.shape)

    def numbers(self, keys: Any) -> NDArray[np.int64]:
        """The number of each key, in the shape of `keys`; an unknown one is refused."""
        array = key_array(keys)
        found = self._find(array.ravel())
        if len(found) and found.min() < 0:
            unknown = array.ravel()[int(found.argmin())]
            raise InputError(f"item {quoted(unknown)} is not in the catalogue of {len(self):,} items.")
        return found.reshape(array.shape)

    def _find(self, keys: Keys) -> NDArray[np.int64]:
        if self._table is None:
            if keys.dtype == object:
                return self._find_numbers(*spelt_numbers(keys))
            return self._find_numbers(keys, None)
        table = self._table
        if self._texts:
            asked: Iterable[Any] = keys if keys.dtype == object else keys.astype(str).astype(object)
            return np.fromiter((_lookup(table, key) for key in asked), dtype=np.int64, count=len(keys))
        asked = map(canonical_key, keys.tolist())
        return np.fromiter((_lookup(table, key) for key in asked), dtype=np.int64, count=len(keys))

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


def check_catalogue(value: Any) -> Catalogue | None:
    """Return `value` if it is a catalogue, or None."""
    if value is None or isinstance(value, Catalogue):
        return value
    raise InputError(f"catalogue must be a Catalogue, got {type(value).__name__}; make one: Catalogue(keys).")


def _lookup(table: dict[Any, int], key: Any) -> int:
    try:
        found = table.get(key, -1)
    except TypeError:  # no hashable, so no key
        return -1
    return table.get(str(key), -1) if found < 0 and type(key) is int else found


def key_array(keys: Any) -> Keys:
    """Keys of any kind as an array, int64 or object; nested lists (n, m) keep their shape, and tuples are keys."""
    if is_frame(keys):
        keys = np.asarray(keys)
    if isinstance(keys, np.ndarray):
        if keys.dtype.kind in "iu":
            return keys.astype(np.int64, copy=False)
        return keys if keys.dtype == object else keys.astype(object)
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        raise InputError(f"keys must be a list or an array of them, got {quoted(keys)}.")
    rows = list(keys)
    nested = bool(rows) and all(isinstance(row, (list, np.ndarray)) for row in rows)
    cells = [list(row) for row in rows] if nested else [rows]
    if len({len(row) for row in cells}) > 1:
        raise InputError("lists must all have one length, got lists of different lengths.")
    result = np.empty((len(cells), len(cells[0])), dtype=object)
    for i, row in enumerate(cells):
        for j, key in enumerate(row):
            result[i, j] = key
    return result if nested else result[0]


def _as_keys(keys: Any) -> Keys:
    array = key_array(keys.keys if isinstance(keys, Catalogue) else keys)
    if array.ndim != 1:
        raise InputError(f"a catalogue needs one key per item, got an array of shape {array.shape}.")
    if array.dtype != object:
        return array.copy()
    result = np.empty(len(array), dtype=object)
    for i, key in enumerate(array.tolist()):
        plain = key.item() if isinstance(key, np.generic) else key
        try:
            hash(plain)
            usable = plain is not None and not isinstance(plain, bool) and plain == plain
        except TypeError:
            usable = False
        if not usable:
            raise InputError(
                f"the keys of a catalogue must be whole numbers, text or other hashables, got {quoted(key)}."
            )
        result[i] = plain
    numbers, known = spelt_numbers(result)
    return numbers if known.all() else result


def canonical_key(key: Any) -> Any:
    """A whole number for the text that spells it; any other key as it is."""
    if isinstance(key, str):
        number = spelt_number(key)
        return key if number is None else number
    return key.item() if isinstance(key, np.generic) else key


def spelt_number(text: str) -> int | None:
    """The whole number that a text spells in the usual way, so that "007" stays text."""
    if len(text) > 20 or not (text.isdecimal() or (text[:1] == "-" and text[1:].isdecimal())):
        return None
    number = int(text)
    return number if str(number) == text and abs(number) < 2**62 else None


def spelt_numbers(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The whole numbers that keys are, or that texts spell in the usual way ("7", not "007"), and which of them do."""
    numbers = np.zeros(len(keys), dtype=np.int64)
    known = np.zeros(len(keys), dtype=bool)
    for i, key in enumerate(keys):
        number = spelt_number(key) if isinstance(key, str) else _whole(key)
        if number is not None:
            numbers[i], known[i] = number, True
    return numbers, known


def _whole(key: Any) -> int | None:
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and abs(int(key)) < 2**62:
        return int(key)
    return None
