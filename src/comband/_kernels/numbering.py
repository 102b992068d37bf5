"""Items of a request numbered anew, so that what a loop needs room for is what was named, not all there are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.inputs import as_input

FEW_ITEMS = 1 << 12  # up to so many, room for all of them costs less than new numbers
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_NAMES = np.empty((0, 0), dtype=np.int32)


class Numbered:
    """Lists (n, S, m) and `asked` (n, k) of at most `n_actions` items, which stand for those of `lists` given here.

    Loops over lists keep an entry for each of `n_actions` items. Where more than `FEW_ITEMS` exist, and more than are
    named, each context's items get the numbers 0, 1, … in the order in which its lists name them, and asked items that
    are in none of them share the last number. Otherwise everything stays as it was. −1 is no item. The loops look at
    items in the order of the lists alone, so that their answers are the same, bit for bit. With `places` asked are
    pairs y·places + k of an item and a place.
    """

    __slots__ = ("_items", "asked", "lists", "n_actions")

    def __init__(self, lists: NDArray[np.int32], asked: NDArray[np.int32], n_actions: int, *, places: int = 1) -> None:
        self.lists, self.asked, self.n_actions = lists, asked, n_actions
        self._items: NDArray[np.int32] | None = None
        if n_actions > FEW_ITEMS and n_actions > lists.size + asked.size:
            given = as_input(np.ascontiguousarray(lists)), as_input(np.ascontiguousarray(asked))
            self.lists, numbers, self._items = number_items(*given, n_actions, places)
            self.asked, self.n_actions = as_input(numbers), lists.shape[1] * lists.shape[2] + 1

    @property
    def names(self) -> NDArray[np.int32]:
        """(n, n_actions − 1) which item each number of a context stands for; (0, 0) where numbers are items."""
        return _NO_NAMES if self._items is None else self._items

    def items_of(self, numbers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Lists (n, m) of numbers as lists of items; the first dimension may be empty."""
        if self._items is None or len(numbers) == 0:
            return numbers
        items = np.take_along_axis(self._items, np.maximum(numbers, 0), axis=1)
        return np.where(numbers < 0, np.int32(-1), items)


@njit(cache=True, nogil=True)
def number_items(
    lists: NDArray[np.int32], asked: NDArray[np.int32], n_actions: int, places: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Lists (n, S, m) with the items of each context numbered from 0 on as they come, `asked` (n, k) in the same
    numbers, S·m for what the lists do not hold, and the items (n, S·m) that have the numbers; −1 is no item. What is
    asked for is y·places + k for an item y and k below `places`, and stays so.
    """
    n, n_policies, m = lists.shape
    if len(asked) != n or places < 1:
        raise IndexError("number_items: a row of asked items for each context, and one place at least")
    most: Any = np.int64(n_policies * m)
    size, shift = 4, 62
    while size < 2 * most:
        size *= 2
        shift -= 1
    mask, bits = np.int64(size - 1), np.uint64(shift)
    keys, numbers = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    stamp = np.empty(size, dtype=np.int64)  # which context last wrote the slot: no clearing between contexts
    stamp[:] = -1
    numbered, items = np.empty(lists.shape, dtype=np.int32), np.empty((n, most), dtype=np.int32)
    of_asked = np.empty(asked.shape, dtype=np.int32)
    for i in range(n):
        count: Any = np.int64(0)
        for p in range(n_policies):
            for k in range(m):
                y = lists[i, p, k]
                if not -1 <= y < n_actions:
                    raise IndexError("number_items: an item is out of range")
                if y < 0:
                    numbered[i, p, k] = -1
                    continue
                slot = np.int64((np.uint64(y) * _MIX) >> bits)
                while stamp[slot] == i and keys[slot] != y:
                    slot = (slot + 1) & mask
                if stamp[slot] != i:
                    stamp[slot], keys[slot], numbers[slot] = i, y, count
                    items[i, count] = y
                    count += 1
                numbered[i, p, k] = numbers[slot]
        for a in range(count, most):
            items[i, a] = -1
        for k in range(asked.shape[1]):
            if not -1 <= asked[i, k] < n_actions * places:
                raise IndexError("number_items: an item that was asked for is out of range")
            of_asked[i, k] = -1
            if asked[i, k] >= 0:
                y = asked[i, k] // places
                slot = np.int64((np.uint64(y) * _MIX) >> bits)
                while stamp[slot] == i and keys[slot] != y:
                    slot = (slot + 1) & mask
                number = np.int64(numbers[slot]) if stamp[slot] == i else most
                of_asked[i, k] = number * places + asked[i, k] % places
    return numbered, of_asked, items
