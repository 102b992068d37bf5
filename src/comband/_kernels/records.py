"""Loops of the ledger: digests of decisions and rewards, and which of them are admitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from comband._kernels.rising import end_of


@njit(cache=True, nogil=True)
def reward_digests(rewards: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit print of the positive rewards of each row and their places; 0 for a row without any, and only for it."""
    bits = rewards.view(np.uint64)
    digests = np.zeros(len(rewards), dtype=np.uint64)
    for i in range(len(rewards)):
        for j in range(rewards.shape[1]):
            if rewards[i, j] > 0:
                digests[i] = _stir(_stir(digests[i], np.uint64(j)), bits[i, j]) | np.uint64(1)
    return digests


@njit(cache=True, nogil=True)
def all_below(numbers: Any, limit: int) -> bool:
    """Whether all whole numbers (n,) lie in 0 … limit − 1."""
    for i in range(len(numbers)):  # noqa: SIM110 - a generator is no loop to the compiler
        if not 0 <= numbers[i] < limit:
            return False
    return True


@njit(cache=True, nogil=True)
def any_open(propensities: NDArray[np.float64]) -> bool:
    """Whether some row (n, m) is not known, that is NaN."""
    for i in range(propensities.shape[0]):
        for j in range(propensities.shape[1]):
            if np.isnan(propensities[i, j]):
                return True
    return False


@njit(cache=True, nogil=True)
def event_rows(
    rewards: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows and places of the positive rewards (n, m), the rows that have any, and of each reward which of these."""
    n, m = rewards.shape
    n_events = n_rewarded = 0
    for i in range(n):
        before = n_events
        for j in range(m):
            n_events += rewards[i, j] > 0
        n_rewarded += n_events > before
    where, place, rows = np.empty(n_events, np.int64), np.empty(n_events, np.int64), np.empty(n_events, np.int64)
    rewarded = np.empty(n_rewarded, np.int64)
    e = c = 0
    for i in range(n):
        before = e
        for j in range(m):
            if rewards[i, j] > 0:
                where[e], place[e], rows[e] = i, j, c
                e += 1
        if e > before:
            rewarded[c] = i
            c += 1
    return where, place, rewarded, rows


@njit(cache=True, nogil=True)
def _stir(state: np.uint64, word: np.uint64) -> np.uint64:
    state = (state ^ word) * np.uint64(0xBF58476D1CE4E5B9)
    return np.uint64(state ^ (state >> np.uint64(29)))


@njit(cache=True, nogil=True, inline="always")
def _shown_print(i: int, ids: NDArray[np.int64], lists: NDArray[np.int32], bits: NDArray[np.uint64]) -> np.uint64:
    state = _stir(np.uint64(0x9E3779B97F4A7C15), np.uint64(ids[i]))
    for j in range(lists.shape[1]):
        state = _stir(_stir(state, np.uint64(lists[i, j])), bits[i, j])
    for j in range(lists.shape[1], bits.shape[1]):  # probabilities of places, where they are stated
        state = _stir(state, bits[i, j])
    return state


@njit(cache=True, nogil=True)
def _plan_digest(i: int, epochs: NDArray[np.int64], covered: NDArray[np.bool_], arms: NDArray[np.int64]) -> np.uint64:
    """A print of what drew the list of row i."""
    state = _stir(np.uint64(0x3C6EF372FE94F82B), np.uint64(epochs[i]))
    return _stir(_stir(state, np.uint64(arms[i])), np.uint64(covered[i]))


@njit(cache=True, nogil=True)
def issue_rows(
    ids: NDArray[np.int64],
    lists: NDArray[np.int32],
    propensity_bits: NDArray[np.uint64],
    epochs: NDArray[np.int64],
    covered: NDArray[np.bool_],
    arms: NDArray[np.int64],
    contexts: NDArray[np.uint64],
    known: NDArray[np.uint64],
    done: NDArray[np.bool_],
    tail: int,
) -> None:
    """Write the rows of new decisions from `tail` on: a print of list and propensities, one of epoch, cover and arm,
    and one of the context.
    """
    n = len(ids)
    if len(lists) != n or len(propensity_bits) != n or len(contexts) != n:
        raise IndexError("issue_rows: shapes do not fit together")
    if propensity_bits.shape[1] < lists.shape[1]:
        raise IndexError("issue_rows: shapes do not fit together")
    if len(epochs) != n or len(covered) != n or len(arms) != n:
        raise IndexError("issue_rows: every decision has an epoch")
    if not 0 <= tail <= min(len(known), len(done)) - n or known.shape[1] != 3:
        raise IndexError("issue_rows: there is no room")
    for i in range(len(ids)):
        known[tail + i, 0] = _shown_print(i, ids, lists, propensity_bits)
        known[tail + i, 1] = _plan_digest(i, epochs, covered, arms)
        known[tail + i, 2] = contexts[i]
        done[tail + i] = False


@njit(cache=True, nogil=True)
def compare_rows(
    ids: NDArray[np.int64],
    lists: NDArray[np.int32],
    propensity_bits: NDArray[np.uint64],
    epochs: NDArray[np.int64],
    covered: NDArray[np.bool_],
    arms: NDArray[np.int64],
    contexts: NDArray[np.uint64],
    makers: NDArray[np.int64],
    known: NDArray[np.uint64],
    done: NDArray[np.bool_],
    head: int,
    low: int,
    issued: int,
    starts: NDArray[np.int64],
    signatures: NDArray[np.int64],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], int, int]:
    """What of each told row differs from the record (1 the id, 2 list or propensities, 4 epoch, covered or arm,
    8 context, 16 maker), which rows are answered for the first time, and how many there are of both.

    Every id below `low` is answered and has no row; that of `low` has its row at `head`. Decisions from `starts[k]` on
    were made by `signatures[k]`. Nothing is changed.
    """
    n = len(ids)
    if len(lists) != n or len(propensity_bits) != n or len(contexts) != n:
        raise IndexError("compare_rows: shapes do not fit together")
    if propensity_bits.shape[1] < lists.shape[1]:
        raise IndexError("compare_rows: shapes do not fit together")
    if len(epochs) != n or len(covered) != n or len(arms) != n:
        raise IndexError("compare_rows: every decision has an epoch")
    if len(makers) != n or len(starts) == 0 or len(signatures) != len(starts) or starts[0] > 0:
        raise IndexError("compare_rows: every decision has a maker")
    if head < 0 or head + issued - low > min(len(known), len(done)) or known.shape[1] != 3:
        raise IndexError("compare_rows: the record is shorter than it should be")
    differs, new = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.bool_)
    n_faults, n_new = 0, 0
    for i in range(n):
        if ids[i] < 0 or ids[i] >= issued:
            differs[i] = 1
            n_faults += 1
            continue
        k = len(starts) - 1
        if ids[i] < starts[k]:
            k = end_of(starts, 0, k, ids[i]) - 1
        fault = 0 if makers[i] == signatures[k] else 16
        if ids[i] >= low:
            place = head + ids[i] - low
            if known[place, 0] != _shown_print(i, ids, lists, propensity_bits):
                fault |= 2
            if known[place, 1] != _plan_digest(i, epochs, covered, arms):
                fault |= 4
            if known[place, 2] != contexts[i]:
                fault |= 8
        differs[i] = fault
        n_faults += fault != 0
    if n_faults == 0:
        for i in range(n):  # marked for the moment, so that a row that comes twice is new only once
            place = head + ids[i] - low
            if ids[i] >= low and not done[place]:
                done[place] = new[i] = True
                n_new += 1
        for i in range(n):
            if new[i]:
                done[head + ids[i] - low] = False
    return differs, new, n_faults, n_new


@njit(cache=True, nogil=True)
def settle_rows(
    ids: NDArray[np.int64], new: NDArray[np.bool_], done: NDArray[np.bool_], head: int, low: int, issued: int
) -> int:
    """Mark the new rows as answered; how many from `head` on are answered by now."""
    if head < 0 or head + issued - low > len(done) or len(new) != len(ids):
        raise IndexError("settle_rows: the record is shorter than it should be")
    for i in range(len(ids)):
        if new[i]:
            if not low <= ids[i] < issued:
                raise IndexError("settle_rows: a decision is out of range")
            done[head + ids[i] - low] = True
    settled = 0
    while low + settled < issued and done[head + settled]:
        settled += 1
    return settled


_CONTEXT = np.uint64(0x6A09E667F3BCC909)

_LARGE = np.uint64(0xBB67AE8584CAA73B)

_NAN = np.float64(np.nan)


@njit(cache=True, nogil=True)
def float_digests(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit print of each row of numbers; −0 is 0, and all NaN are one."""
    n, d = rows.shape
    digests = np.empty(n, dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    for i in range(n):
        state = _CONTEXT
        for j in range(d):
            value = rows[i, j]
            cell[0] = _NAN if value != value else value + 0.0
            state = _stir(state, bits[0])
        digests[i] = state
    return digests


@njit(cache=True, nogil=True)
def int_digests(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same of whole numbers: that of the equal floats, where there are any."""
    n, d = rows.shape
    digests = np.empty(n, dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    for i in range(n):
        state = _CONTEXT
        for j in range(d):
            value = rows[i, j]
            if -9007199254740992 <= value <= 9007199254740992:
                cell[0] = value
                state = _stir(state, bits[0])
            else:
                state = _stir(_stir(state, _LARGE), np.uint64(value))
        digests[i] = state
    return digests


@njit(cache=True, nogil=True)
def word_digests(words: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same of words that stand for values: row i holds those before `ends[i]`."""
    digests = np.empty(len(ends), dtype=np.uint64)
    k = 0
    for i in range(len(ends)):
        state = _CONTEXT
        if ends[i] > len(words):
            raise IndexError("word_digests: a row ends beyond the words")
        while k < ends[i]:
            state = _stir(state, words[k])
            k += 1
        digests[i] = state
    return digests


@njit(cache=True, nogil=True)
def csr_digests(ends: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The same of the entries of a sparse matrix that are not zero; row i holds those before `ends[i]`."""
    digests = np.empty(len(ends), dtype=np.uint64)
    cell = np.empty(1)
    bits = cell.view(np.uint64)
    k = 0
    for i in range(len(ends)):
        state = _CONTEXT
        if ends[i] > min(len(columns), len(values)):
            raise IndexError("csr_digests: a row ends beyond the entries")
        while k < ends[i]:
            if values[k] != 0:
                cell[0] = _NAN if values[k] != values[k] else values[k]
                state = _stir(_stir(state, np.uint64(columns[k])), bits[0])
            k += 1
        digests[i] = state
    return digests
