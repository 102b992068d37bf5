"""Requests for decisions read from their JSON text, without a Python object for each key; and lists of keys as text.

Texts are read eight bytes at a time: the caller puts `PADDING` bytes of anything behind one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

PADDING = 16
# Of one type from the start: what is given to a loop as a mere number would be compiled for this very number.
_START: Any = np.int64(0)
_QUOTE, _COMMA, _COLON, _MINUS, _ZERO = (_START + byte for byte in b'",:-0')
_OPEN, _CLOSE, _OPEN_NAMES, _CLOSE_NAMES = (_START + byte for byte in b"[]{}")
_BACKSLASH = _START + ord("\\")
_MOST_PROBES = 64  # keys that were chosen to collide are left to Python's own dictionaries
_MOST_DIGITS = 15  # below 2**53
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_BLANKS, _ZEROS, _TENS = np.uint64(0x2020202020202020), np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_SEVEN, _UPPER, _BYTES = np.uint64(7), np.uint64(40), np.uint64(56)
_HASHED = np.uint64(0x80)  # in the code of tokens that are longer than a code
_LISTS, _REQUEST, _CONTEXT = 0, 1, 2


@njit(cache=True, nogil=True)
def _word(data: Any, at: int) -> Any:
    """Eight bytes from there on as a number, the first one lowest; compiled, one load. An index without a sign is not
    counted from the end.
    """
    first, word = np.uint64(at), np.uint64(0)
    for i in range(np.uint64(8)):
        word |= np.uint64(data[first + i]) << np.uint64(8 * i)
    return word


@njit(cache=True, nogil=True)
def _skip(data: Any, n: int, at: int) -> int:
    """The next byte that is no white space."""
    while at < n and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _is(data: Any, n: int, at: int, byte: int) -> bool:
    return at < n and data[at] == byte


@njit(cache=True, nogil=True)
def _token(data: Any, n: int, at: int) -> tuple[int, Any, Any]:
    """The end of the text or whole number that begins here, a code by which it is looked up, and the high bits of its
    bytes; an end of −1 for whatever cannot be compared byte by byte: escapes, numbers in another spelling. The code of
    a number of up to eight digits is these digits, and that of no other token.

    A byte of w is marked in its highest bit if it is one that ends the token; what lies above the first mark may be
    wrong, and is not looked at.
    """
    code, high = np.uint64(0), np.uint64(0)
    if at < n and data[at] == _QUOTE:
        start = at = at + 1
        while at < n:
            w = _word(data, at)
            quotes, slashes = w ^ _QUOTES, w ^ _BACKSLASHES
            marks = (quotes - _ONES) & ~quotes | (slashes - _ONES) & ~slashes | (w - _BLANKS) & ~w
            marks &= _HIGH
            if marks == 0:
                code = (code ^ w) * _MIX
                code ^= code >> np.uint64(29)
                high |= w
                at += 8
                continue
            before = ((marks & (~marks + np.uint64(1))) >> _SEVEN) - np.uint64(1)
            w &= before
            at += int(((before & _ONES) * _ONES) >> _BYTES)
            if at >= n or data[at] != _QUOTE:
                break
            return at + 1, ((code ^ w) * _MIX + np.uint64(at - start)) | _HASHED, high | w
        return -1, code, high
    minus = at < n and data[at] == _MINUS
    first = at + 1 if minus else at
    at = first
    for _ in range(2):
        if at >= n:
            break
        w = _word(data, at)
        digits = w ^ _ZEROS
        marks = ((digits + _TENS) | digits) & _HIGH
        if marks == 0:
            code = (w * _MIX) | _HASHED
            at += 8
            continue
        before = ((marks & (~marks + np.uint64(1))) >> _SEVEN) - np.uint64(1)
        code = w & before if code == 0 else ((code ^ (w & before)) * _MIX) | _HASHED
        at += int(((before & _ONES) * _ONES) >> _BYTES)
        break
    size = at - first
    if size == 0 or size > _MOST_DIGITS or at > n or (data[first] == _ZERO and (size > 1 or minus)):
        return -1, code, high
    return at, code ^ (np.uint64(minus) << np.uint64(63)), high


@njit(cache=True, nogil=True)
def _alike(data: Any, first: int, last: int, known: Any, start: int, end: int) -> bool:
    """Whether the tokens data[first:last] and known[start:end] are the same."""
    if end - start != last - first:
        return False
    while first + 8 <= last:
        if _word(data, first) != _word(known, start):
            return False
        first, start = first + 8, start + 8
    rest = np.uint64(8 * (last - first))
    return bool((_word(data, first) ^ _word(known, start)) & ((np.uint64(1) << rest) - np.uint64(1)) == 0)


@njit(cache=True, nogil=True)
def _slot(data: Any, first: int, last: int, code: Any, known: Any, spans: Any, codes: Any, slots: Any) -> Any:
    """Where the token data[first:last] is among the `known`, or may be put; −1 after too many attempts."""
    mixed = (code * _MIX) >> _UPPER
    mask = np.uint64(len(slots) - 1)
    for probe in range(_MOST_PROBES):
        slot = np.int64((mixed + np.uint64(probe)) & mask)
        which = slots[slot]
        if which < 0:
            return slot
        if codes[which] == code and (
            code & _HASHED == 0 or _alike(data, first, last, known, spans[which, 0], spans[which, 1])
        ):
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
    """Codes and slots by which `scan_requests` finds the distinct tokens data[spans[i, 0] : spans[i, 1]]; one that
    cannot be compared byte by byte is not found. The data end with `PADDING`.
    """
    n = len(data) - PADDING
    codes = np.zeros(len(spans), dtype=np.uint64)
    slots = np.full(_n_slots(len(spans)), -1, dtype=np.int32)
    for i in range(len(spans)):
        if not 0 <= spans[i, 0] <= spans[i, 1] <= n:
            raise IndexError("index_tokens: a token is out of range")
        end, codes[i], _ = _token(data, n, spans[i, 0])
        if end == spans[i, 1]:
            slot = _slot(data, spans[i, 0], end, codes[i], data, spans, codes, slots)
            if slot >= 0 and slots[slot] < 0:
                slots[slot] = i
    return codes, slots


@njit(cache=True, nogil=True)
def _field(data: Any, n: int, at: int) -> tuple[int, int]:
    """Which field's name begins here, `"lists":`, `"request":` or `"context":`, and where its value does; −1 for any
    other.
    """
    which, size = -1, 0
    if at + 9 < n and data[at] == _QUOTE:
        w = _word(data, at + 1)
        if w & np.uint64(0xFFFFFFFFFFFF) == np.uint64(0x22737473696C):
            which, size = _LISTS, 7
        elif w == np.uint64(0x2274736575716572):
            which, size = _REQUEST, 9
        elif w == np.uint64(0x22747865746E6F63):
            which, size = _CONTEXT, 9
    if which < 0:
        return -1, at
    at = _skip(data, n, at + size)
    if not _is(data, n, at, _COLON):
        return -1, at
    return which, _skip(data, n, at + 1)


@njit(cache=True, nogil=True)
def _one_list(
    data: Any,
    n: int,
    at: int,
    row: Any,
    number: int,
    found: Any,
    codes: Any,
    slots: Any,
    last_list: Any,
    n_keys: int,
    longest: int,
) -> tuple[int, int, Any]:
    """Read `key, …]` into `row` as numbers of keys; the place behind it, −1 if there is none, how many keys there are
    by now, and the high bits of their bytes.
    """
    m, k, high = len(row), 0, np.uint64(0)
    if at < n and data[at] <= 32:
        at = _skip(data, n, at)
    more = not _is(data, n, at, _CLOSE)
    while more:
        end, code, bits = _token(data, n, at)
        if end < 0 or k == m or end - at > longest + 2:
            return -1, n_keys, high
        high |= bits
        slot = _slot(data, at, end, code, data, found, codes, slots)
        if slot < 0:
            return -1, n_keys, high
        key: Any = np.int64(slots[slot])
        if key < 0:
            if n_keys == len(codes):
                return -1, n_keys, high
            key = n_keys
            slots[slot], codes[key], found[key, 0], found[key, 1] = key, code, at, end
            n_keys += 1
        elif last_list[key] == number:
            return -1, n_keys, high
        last_list[key] = number
        row[k] = key
        k += 1
        at = end
        if at < n and data[at] <= 32:
            at = _skip(data, n, at)
        if at >= n:
            return -1, n_keys, high
        if data[at] == _COMMA:
            at += 1
            if at < n and data[at] <= 32:
                at = _skip(data, n, at)
        elif data[at] == _CLOSE:
            more = False
        else:
            return -1, n_keys, high
    row[k:] = -1
    return at + 1, n_keys, high


@njit(cache=True, nogil=True)
def _all_lists(
    data: Any,
    n: int,
    at: int,
    name_index: Any,
    taken: Any,
    request: int,
    given: Any,
    rows: Any,
    n_rows: int,
    found: Any,
    codes: Any,
    slots: Any,
    last_list: Any,
    longest: int,
) -> tuple[int, int, int, bool, Any]:
    """Read the lists of one request from row `n_rows` on; the place behind them, −1 if they are not as they should be,
    how many rows and keys there are by now, whether candidates rise, and the high bits of keys' bytes.
    """
    names, name_spans, name_codes, name_slots = name_index
    P, n_keys, candidate, largest, rising = len(name_spans), _START, -1, -1, True
    high: Any = np.uint64(0)
    named = _is(data, n, at, _OPEN_NAMES)
    good = named or _is(data, n, at, _OPEN)
    closing = _CLOSE_NAMES if named else _CLOSE
    at = _skip(data, n, at + 1)
    while good:
        if named:
            end, code, _ = _token(data, n, at)
            slot = -1 if end < 0 else _slot(data, at, end, code, names, name_spans, name_codes, name_slots)
            candidate = -1 if slot < 0 else int(name_slots[slot])
            at = _skip(data, n, end)
            good = candidate >= 0 and _is(data, n, at, _COLON)
            at = _skip(data, n, at + 1)
        else:
            candidate += 1
        if not good or candidate >= P or taken[candidate] == request:
            break
        taken[candidate] = request
        if _is(data, n, at, _OPEN):
            given[n_rows] = candidate
            rising &= candidate > largest
            largest = candidate
            at, n_keys, bits = _one_list(
                data, n, at + 1, rows[n_rows], n_rows, found, codes, slots, last_list, n_keys, longest
            )
            if at < 0:
                break
            high |= bits
            n_rows += 1
        elif not named and at + 4 <= n and _is_null(data, at):
            at += 4
        else:
            break
        if at < n and data[at] <= 32:
            at = _skip(data, n, at)
        if _is(data, n, at, _COMMA):
            at = _skip(data, n, at + 1)
        elif _is(data, n, at, closing) and (named or candidate + 1 == P):
            return _skip(data, n, at + 1), n_rows, n_keys, rising, high
        else:
            break
    return -1, n_rows, n_keys, rising, high


@njit(cache=True, nogil=True)
def _copy_keys(data: Any, found: Any, kept: Any, n_keys: int, keys: Any, n_all: int, text: Any, place: int) -> int:
    """The keys as one list, from this place of the text on; its end."""
    text[place] = _OPEN
    place += 1
    for j in range(n_keys):
        start, size = found[kept[j], 0], found[kept[j], 1] - found[kept[j], 0]
        keys[n_all + j, 0], keys[n_all + j, 1] = place, place + size
        for i in range(size):
            text[place + i] = data[start + i]
        text[place + size] = _COMMA
        place += size + 1
    place -= n_keys > 0
    text[place] = _CLOSE
    return place + 1


@njit(cache=True, nogil=True)
def _all_requests(
    data: Any,
    n: int,
    name_index: Any,
    most: int,
    longest: int,
    edges: Any,
    ids: Any,
    given: Any,
    rows: Any,
    keys: Any,
    text: Any,
) -> tuple[int, Any]:
    """Fill what `scan_requests` returns; how many requests there are, and the high bits of bytes."""
    P, m = len(name_index[1]), rows.shape[1]
    room = min(P * m, n // 2 + 1)  # for the keys of one request: each takes two bytes at least
    found, last_list = np.empty((room, 2), dtype=np.int64), np.empty(room, dtype=np.int64)
    codes, slots = np.empty(room, dtype=np.uint64), np.empty(_n_slots(room), dtype=np.int32)
    taken, kept, high = np.empty(P, dtype=np.int64), np.empty(room, dtype=np.int64), np.uint64(0)
    slots[:], taken[:] = -1, -1
    at, request, n_rows, n_all, place = _skip(data, n, _START), _START, _START, _START, _START
    many = _is(data, n, at, _OPEN)
    if many:
        at = _skip(data, n, at + 1)
    while True:
        if not _is(data, n, at, _OPEN_NAMES) or request == most:
            return 0, high
        ids[request] = 0
        at = _skip(data, n, at + 1)
        seen_lists, more = False, True
        while more:
            which, at = _field(data, n, at)
            if which in (_REQUEST, _CONTEXT) and at + 4 <= n and _is_null(data, at):
                at = _skip(data, n, at + 4)  # as if it were not there; twice is no harm
            elif which == _REQUEST:
                end, _, bits = _token(data, n, at)
                if end < 0 or data[at] != _QUOTE or not 3 <= end - at <= longest + 2 or ids[request, 1] > 0:
                    return 0, high
                ids[request, 0], ids[request, 1] = at + 1, end - 1
                high |= bits
                at = _skip(data, n, end)
            elif which == _LISTS and not seen_lists:
                seen_lists, first_row = True, n_rows
                at, n_rows, n_keys, rising, bits = _all_lists(
                    data,
                    n,
                    at,
                    name_index,
                    taken,
                    request,
                    given,
                    rows,
                    n_rows,
                    found,
                    codes,
                    slots,
                    last_list,
                    longest,
                )
                if at < 0:
                    return 0, high
                high |= bits
                for j in range(n_keys):
                    kept[j] = j
                if not rising:
                    _sort_rows(given, rows, first_row, n_rows, P, kept, n_keys)
                place = _copy_keys(data, found, kept, n_keys, keys, n_all, text, place)
                n_all += n_keys
                _empty(slots, codes, n_keys)
            else:
                return 0, high
            more = _is(data, n, at, _COMMA)
            if not (more or _is(data, n, at, _CLOSE_NAMES)):
                return 0, high
            at = _skip(data, n, at + 1)
        if not seen_lists:
            return 0, high
        request += 1
        edges[request, 0], edges[request, 1], edges[request, 2] = n_rows, n_all, place
        if not many:
            break
        again = _is(data, n, at, _COMMA)
        if not (again or _is(data, n, at, _CLOSE)):
            return 0, high
        at = _skip(data, n, at + 1)
        if not again:
            break
    return request if at == n else 0, high


@njit(cache=True, nogil=True)
def scan_requests(
    data: NDArray[np.uint8],
    names: NDArray[np.uint8],
    name_spans: NDArray[np.int64],
    name_codes: NDArray[np.uint64],
    name_slots: NDArray[np.int32],
    list_size: int,
    most: int,
    longest: int,
) -> tuple[
    int,
    bool,
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.uint8],
]:
    """Read `{"lists": …, "request": "id"}`, or a list `[{…}, …]` of at most so many; the lists of a request are
    `[[key, …], null, …]`, one for each candidate, or `{"name": [key, …], …}`. Texts have up to `longest` bytes; an id
    may be null, and so may "context".

    Returns how many requests there are, whether all bytes of keys and ids are below 128, `edges` (n+1, 3) of each among
    rows, spans and text; `ids` (n, 2) where the ids of requests are in the data, (0, 0) where there is none; `given`
    (G,) the candidates that have a list, rising in each request; `rows` (G, m) their lists as numbers of keys in the
    order in which these first occur in the request (−1 where a list is shorter than m); `spans` (N, 2) of the distinct
    keys in `text`, which holds them as the JSON text of one list for each request.

    No requests at all come of whatever takes more than comparing bytes: escapes, numbers in another spelling, other
    fields, anything that is not as it should be.
    """
    n, n_lists, n_requests, n_commas = len(data) - PADDING, 0, 0, 0
    for i in range(n):
        n_lists += data[i] == _OPEN
        n_requests += data[i] == _OPEN_NAMES
        n_commas += data[i] == _COMMA
    edges, ids = np.zeros((n_requests + 2, 3), dtype=np.int64), np.empty((n_requests + 1, 2), dtype=np.int64)
    given, rows = np.empty(n_lists + 1, dtype=np.int64), np.empty((n_lists + 1, list_size), dtype=np.int32)
    keys, text = np.empty((n_commas + n_lists + 1, 2), dtype=np.int64), np.empty(n + 2, dtype=np.uint8)
    index = (names, name_spans, name_codes, name_slots)
    found, high = _all_requests(data, n, index, most, longest, edges, ids, given, rows, keys, text)
    n_rows, n_keys, place = edges[found, 0], edges[found, 1], edges[found, 2]
    plain = bool(high & _HIGH == 0)
    return found, plain, edges[: found + 1], ids[:found], given[:n_rows], rows[:n_rows], keys[:n_keys], text[:place]


@njit(cache=True, nogil=True)
def _empty(slots: Any, codes: Any, n_keys: int) -> None:
    """Take all keys out again."""
    mask = np.int64(len(slots) - 1)
    for i in range(n_keys):
        slot = np.int64((codes[i] * _MIX) >> _UPPER) & mask
        while slots[slot] != -1:  # a run of slots ends with one that is free
            slots[slot] = -1
            slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def _sort_rows(given: Any, rows: Any, first: int, last: int, n_candidates: int, kept: Any, n_keys: int) -> None:
    """Rows by candidate, their keys numbered by where they first occur, and the old number of each."""
    before, where = rows[first:last].copy(), np.full(n_candidates, -1, dtype=np.int64)
    for i in range(first, last):
        where[given[i]] = i - first
    at = first
    for candidate in range(n_candidates):
        if where[candidate] >= 0:
            given[at] = candidate
            for k in range(rows.shape[1]):
                rows[at, k] = before[where[candidate], k]
            at += 1
    new, found = np.full(n_keys, -1, dtype=np.int32), 0
    for i in range(first, last):
        for k in range(rows.shape[1]):
            key = rows[i, k]
            if key >= 0:
                if new[key] < 0:
                    new[key], kept[found] = found, key
                    found += 1
                rows[i, k] = new[key]


@njit(cache=True, nogil=True)
def _is_null(data: Any, at: int) -> bool:
    return bool(data[at] == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108)


@njit(cache=True, nogil=True)
def lists_text(
    lists: NDArray[np.int32], edges: NDArray[np.int64], spans: NDArray[np.int64], text: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Lists (n, m) of numbers of keys as JSON, `[key, …],` for each, and where each begins, (n+1,).

    The keys of the i-th are text[spans[j, 0] : spans[j, 1]], j from edges[i] on below edges[i+1]; −1 is left out.
    """
    n, m = lists.shape
    if len(edges) != n + 1:
        raise IndexError("lists_text: one edge more than lists")
    size = 3 * n
    for i in range(n):
        if not 0 <= edges[i] <= edges[i + 1] <= len(spans):
            raise IndexError("lists_text: an edge is out of range")
        for k in range(m):
            if lists[i, k] >= 0:
                key = edges[i] + lists[i, k]
                if key >= edges[i + 1] or not 0 <= spans[key, 0] <= spans[key, 1] <= len(text):
                    raise IndexError("lists_text: a key is out of range")
                size += spans[key, 1] - spans[key, 0] + 1
    made, begins, place = np.empty(size, dtype=np.uint8), np.zeros(n + 1, dtype=np.int64), 0
    for i in range(n):
        made[place] = _OPEN
        place += 1
        empty = True
        for k in range(m):
            if lists[i, k] >= 0:
                key = edges[i] + lists[i, k]
                length = spans[key, 1] - spans[key, 0]
                for j in range(length):
                    made[place + j] = text[spans[key, 0] + j]
                made[place + length] = _COMMA
                place += length + 1
                empty = False
        place -= not empty
        made[place], made[place + 1] = _CLOSE, _COMMA
        place += 2
        begins[i + 1] = place
    return begins, made[:place]


@njit(cache=True, nogil=True)
def longest_lists(data: NDArray[np.uint8], most: NDArray[np.int64]) -> int:
    """The first level (1: outermost) on which a list or an object of a JSON text has more than `most[level]` elements,
    for levels below len(most); len(most) if it is nested deeper; 0 if neither. Looks at no more than it must.
    """
    level, at, n, counts = 0, 0, len(data), np.zeros(len(most), dtype=np.int64)
    while at < n:
        byte = data[at]
        if byte == _QUOTE:
            at += 1
            while at < n and data[at] != _QUOTE:
                at += 2 if data[at] == _BACKSLASH else 1
        elif byte in (_OPEN, _OPEN_NAMES):
            level += 1
            if level >= len(most):
                return len(most)
            counts[level] = 1
        elif byte in (_CLOSE, _CLOSE_NAMES):
            level -= 1
            if level < 0:
                return 0  # no JSON: its reader says so
        elif byte == _COMMA:
            counts[level] += 1
            if level > 0 and counts[level] > most[level]:
                return level
        at += 1
    return 0
