"""Noticing ids that come twice in a stream."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from comband.page.catalogue import Keys, spelt_numbers


class IdMemory:
    """Tells which ids were seen before.

    While ids only rise nothing needs remembering but the last; to be able to go on after the first that does not, they
    are kept as ranges of consecutive numbers (a log numbered 0, 1, 2, … is one range). Ids in any other order cost up
    to 16 bytes each, in sorted runs that are merged as they grow. Text is remembered by 63 bits of its hash, beyond all
    numbers that text can spell: two of 10⁷ texts collide with probability 5·10⁻⁶.

    >>> memory = IdMemory()
    >>> memory.repeated(np.array([1, 2, 5])).tolist(), memory.repeated(np.array([5, 9, 9])).tolist()
    ([False, False, False], [True, False, True])
    """

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # first and last of disjoint ranges, sorted

    def repeated(self, ids: Keys) -> NDArray[np.bool_]:
        """Which of these ids were seen before, here or in an earlier batch."""
        if ids.dtype == object:
            numbers, spelt = spelt_numbers(ids)  # so are they known where an earlier batch had numbers only
            hashes = np.fromiter(map(_print, ids), dtype=np.int64, count=len(ids))
            beyond = (hashes & (2**62 - 1)) + np.where(hashes < 0, -(2**63), 2**62)
            numbers = np.where(spelt, numbers, beyond)
        else:
            numbers = ids.astype(np.int64, copy=False)
        again = np.zeros(len(numbers), dtype=bool)
        if len(numbers) == 0:
            return again
        if (numbers[1:] > numbers[:-1]).all():
            ranked = numbers
        else:
            order = np.argsort(numbers, kind="stable")
            ranked = numbers[order]
            again[order[1:][ranked[1:] == ranked[:-1]]] = True
        for first, last in self._runs:
            if ranked[0] > last[-1] or ranked[-1] < first[0]:
                continue
            place = np.searchsorted(first, numbers, side="right") - 1
            again |= (place >= 0) & (numbers <= last[place])
        self._remember(*_ranges(ranked, ranked))
        return again

    @property
    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last of the ranges of all ids, ascending."""
        none = np.empty(0, dtype=np.int64)
        starts, ends = (
            (np.concatenate([none, *parts]) for parts in zip(*self._runs, strict=True)) if self._runs else (none, none)
        )
        order = np.argsort(starts, kind="stable")
        return _ranges(starts[order], ends[order]) if len(order) else (none, none)

    def _remember(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> None:
        self._runs.append((first, last))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            newer, older = self._runs.pop(), self._runs.pop()
            starts, ends = (np.concatenate(pair) for pair in zip(older, newer, strict=True))
            order = np.argsort(starts, kind="stable")
            self._runs.append(_ranges(starts[order], ends[order]))


class NoMemory(IdMemory):
    """For ids of which it is known that none comes twice.

    >>> NoMemory().repeated(np.array([5, 5])).tolist()
    [False, False]
    """

    def repeated(self, ids: Keys) -> NDArray[np.bool_]:
        """None of them."""
        return np.zeros(len(ids), dtype=bool)


def _print(text: str) -> int:
    """64 bits of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted ranges with those that touch or overlap joined."""
    reach = np.maximum.accumulate(last)
    new = np.concatenate([[True], first[1:] - 1 > reach[:-1]])
    starts = np.flatnonzero(new)
    return first[starts], reach[np.append(starts[1:] - 1, len(first) - 1)]
