"""Lists of keys in a JSON text, numbered without a Python object for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _ZERO, _NINE = 34, 92, 44, 58, 45, 48, 57
_OPEN, _CLOSE, _OPEN_NAMES, _CLOSE_NAMES = 91, 93, 123, 125
_MOST_PROBES = 64  # keys that were chosen to collide are left to Python's own dictionaries
_TEXT = np.uint64(1 << 63)  # in the code of a text
_MOST_DIGITS = 15  # below 2**53


@njit(cache=True, nogil=True)
def _skip(data: Any, at: int) -> int:
    """The next byte that is no white space."""
    while at < len(data) and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _is(data: Any, at: int, byte: int) -> bool:
    return at < len(data) and data[at] == byte


@njit(cache=True, nogil=True)
def _token(data: Any, at: int) -> tuple[int, Any]:
    """The end of the text or whole number that begins here, and a code by which it is looked up; −1 for whatever
    cannot be compared byte by byte: escapes, numbers in another spelling.
    """
    code = np.uint64(0xCBF29CE484222325)
    n = len(data)
    if at < n and data[at] == _QUOTE:
        at += 1
        while at < n:
            byte = data[at]
            at += 1
            if byte == _QUOTE:
                return at, code | _TEXT
            if byte == _BACKSLASH or byte < 32:
                return -1, code
            code = (code ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        return -1, code
    minus = at < n and data[at] == _MINUS
    first = at + 1 if minus else at
    at, value = first, np.uint64(0)
    while at < n and at - first <= _MOST_DIGITS:
        digit = np.int64(data[at]) - _ZERO
        if digit < 0 or digit > 9:
            break
        value = value * np.uint64(10) + np.uint64(digit)
        at += 1
    digits = at - first
    if digits == 0 or digits > _MOST_DIGITS or (data[first] == _ZERO and (digits > 1 or minus)):
        return -1, code
    return at, value * np.uint64(2) + np.uint64(minus)


@njit(cache=True, nogil=True)
def _slot(data: Any, first: int, last: int, code: Any, known: Any, spans: Any, codes: Any, slots: Any) -> Any:
    """Where the token data[first:last] is among the `known`, or may be put; −1 after too many attempts."""
    mixed = code * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mask = np.uint64(len(slots) - 1)
    for probe in range(_MOST_PROBES):
        slot = np.int64((mixed + np.uint64(probe)) & mask)
        which = slots[slot]
        if which < 0:
            return slot
        if codes[which] == code:
            if code < _TEXT:  # the number itself
                return slot
            start, size = spans[which, 0], last - first
            alike = spans[which, 1] - start == size
            if alike:
                for i in range(size):
                    alike &= known[start + i] == data[first + i]
            if alike:
                return slot
    return -1


@njit(cache=True, nogil=True)
def _n_slots(n: int) -> int:
    size = 64
    while size < 2 * n:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def index_tokens(data: NDArray[np.uint8], spans: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Codes and slots by which `scan_lists` finds the distinct tokens data[spans[i, 0] : spans[i, 1]]; one that cannot
    be compared byte by byte is not found.
    """
    codes = np.zeros(len(spans), dtype=np.uint64)
    slots = np.full(_n_slots(len(spans)), -1, dtype=np.int32)
    for i in range(len(spans)):
        if not 0 <= spans[i, 0] <= spans[i, 1] <= len(data):
            raise IndexError("index_tokens: a token is out of range")
        end, codes[i] = _token(data, spans[i, 0])
        if end == spans[i, 1]:
            slot = _slot(data, spans[i, 0], end, codes[i], data, spans, codes, slots)
            if slot >= 0 and slots[slot] < 0:
                slots[slot] = i
    return codes, slots


@njit(cache=True, nogil=True)
def scan_lists(
    data: NDArray[np.uint8],
    names: NDArray[np.uint8],
    name_spans: NDArray[np.int64],
    name_codes: NDArray[np.uint64],
    name_slots: NDArray[np.int32],
    list_size: int,
) -> tuple[bool, NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """Read `[[key, …], null, …]`, one list for each candidate, or `{"name": [key, …], …}`.

    Returns whether that was possible, the candidates that have a list (G,), rising, their lists (G, m) as numbers of
    keys in the order in which they first occur there (−1 where a list is shorter than m), and the distinct keys as the
    JSON text of one list. Not possible is whatever takes more than comparing bytes: escapes, numbers in another
    spelling, anything that is not as it should be, and then nothing of the answer means anything.
    """
    n, P, m = len(data), len(name_spans), list_size
    most = min(P * m, n // 2 + 1)  # a key takes two bytes at least
    given, rows = np.full(P, -1, dtype=np.int64), np.full((P, m), -1, dtype=np.int32)
    spans, last_list = np.empty((most, 2), dtype=np.int64), np.full(most, -1, dtype=np.int64)
    codes = np.empty(most, dtype=np.uint64)
    slots, taken = np.full(_n_slots(most), -1, dtype=np.int32), np.zeros(P, dtype=np.bool_)
    nothing = (False, given[:0], rows[:0], data[:0].copy())
    at = _skip(data, 0)
    named = _is(data, at, _OPEN_NAMES)
    if not (named or _is(data, at, _OPEN)):
        return nothing
    closing = _CLOSE_NAMES if named else _CLOSE
    at = _skip(data, at + 1)
    n_lists, n_keys, candidate, largest, rising = 0, 0, -1, -1, True
    while True:
        if named:
            end, code = _token(data, at)
            if end < 0:
                return nothing
            slot = _slot(data, at, end, code, names, name_spans, name_codes, name_slots)
            if slot < 0 or name_slots[slot] < 0:
                return nothing
            candidate = name_slots[slot]
            at = _skip(data, end)
            if not _is(data, at, _COLON):
                return nothing
            at = _skip(data, at + 1)
        else:
            candidate += 1
        if not 0 <= candidate < P or taken[candidate]:
            return nothing
        taken[candidate] = True
        if _is(data, at, _OPEN):
            given[n_lists] = candidate
            rising &= candidate > largest
            largest = candidate
            at, k, more = _skip(data, at + 1), 0, True
            if _is(data, at, _CLOSE):
                more = False
            while more:
                end, code = _token(data, at)
                if end < 0 or k == m:
                    return nothing
                slot = _slot(data, at, end, code, data, spans, codes, slots)
                if slot < 0:
                    return nothing
                key = slots[slot]
                if key < 0:
                    if n_keys == most:
                        return nothing
                    key = n_keys
                    slots[slot], codes[key], spans[key, 0], spans[key, 1] = key, code, at, end
                    n_keys += 1
                if last_list[key] == n_lists:
                    return nothing
                last_list[key] = n_lists
                rows[n_lists, k] = key
                k += 1
                at = end
                if at < n and data[at] <= 32:
                    at = _skip(data, at)
                if at >= n:
                    return nothing
                byte = data[at]
                if byte == _COMMA:
                    at += 1
                    if at < n and data[at] <= 32:
                        at = _skip(data, at)
                elif byte == _CLOSE:
                    more = False
                else:
                    return nothing
            at = _skip(data, at + 1)
            n_lists += 1
        elif not named and at + 4 <= len(data) and _is_null(data, at):
            at = _skip(data, at + 4)
        else:
            return nothing
        if _is(data, at, _COMMA):
            at = _skip(data, at + 1)
        elif _is(data, at, closing):
            break
        else:
            return nothing
    if _skip(data, at + 1) != len(data) or not (named or candidate + 1 == P):
        return nothing
    kept = np.arange(n_keys)
    if not rising:
        order = np.argsort(given[:n_lists])
        given[:n_lists], rows[:n_lists] = given[:n_lists][order], rows[:n_lists][order]
        kept = _renumbered(rows[:n_lists], n_keys)
    length = 2
    for j in range(n_keys):
        length += spans[j, 1] - spans[j, 0] + 1
    text = np.empty(max(length - 1, 2), dtype=np.uint8)
    text[0], place = _OPEN, 1
    for j in range(n_keys):
        for i in range(spans[kept[j], 0], spans[kept[j], 1]):
            text[place] = data[i]
            place += 1
        text[place] = _COMMA
        place += 1
    text[len(text) - 1] = _CLOSE
    return True, given[:n_lists], rows[:n_lists], text


@njit(cache=True, nogil=True)
def _renumbered(rows: Any, n_keys: int) -> Any:
    """Number the keys in `rows` by where they first occur; the old number of each."""
    new, kept, found = np.full(n_keys, -1, dtype=np.int32), np.empty(n_keys, dtype=np.int64), 0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            key = rows[i, k]
            if key >= 0:
                if new[key] < 0:
                    new[key], kept[found] = found, key
                    found += 1
                rows[i, k] = new[key]
    return kept


@njit(cache=True, nogil=True)
def _is_null(data: Any, at: int) -> bool:
    return bool(data[at] == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108)
