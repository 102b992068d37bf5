"""Events × policies in memory: packed bits or sparse indices, whichever is smaller.

Both are exact column oracles over a class given in full. The pass over all policies runs where it
is fastest (single precision for bits); the columns that could be the maximum are then evaluated
again in double, so that score, gap and certificate are those of double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from comband._kernels.packed import packed_pass, packed_scores, sparse_scores, transpose_bits
from comband.explore.solvers.columns import Columns
from comband.explore.solvers.potential import Floats
from comband.page.bits import Bools, Words, pack, words_for
from comband.page.threads import cut, for_each

BLOCK_WORDS = 32  # 2048 events: their sums by threes take 22 kB of the first-level cache in a pass
LANES = 16  # columns that lie side by side
# One rounding of c and at most 50 additions before sums fold into double err by less than 52·2⁻²⁴ of the score.
SCREEN = 64 * 2.0**-24
# A bit costs 1/8 byte and an index 4: below a density of 1/32 the indices are smaller.
SPARSE_BELOW = 1 / 32
_PIECE = 100_000  # words of 16 columns, or events: a piece of work that is worth a thread
Bytes = npt.NDArray[np.uint8]
WORTHWHILE = 0.02  # columns beyond the best must exceed the average by this share of the gap


def best_columns(
    rough: Floats,
    columns: Callable[[npt.NDArray[np.intp]], Words],
    gains: Floats,
    n: int,
    average: float,
) -> Columns:
    """Choose by rough scores, evaluate in double everything that could be the maximum."""
    top = float(rough.max())
    chosen = np.flatnonzero(rough >= top * (1.0 - SCREEN))
    if n > len(chosen):
        places = np.argpartition(rough, -n)[-n:] if n < len(rough) else np.arange(len(rough))
        worthwhile = rough[places] > average + WORTHWHILE * (top - average)
        chosen = np.union1d(chosen, places[worthwhile])
    bits = columns(chosen)
    scores = np.empty(len(chosen))
    packed_scores(bits, gains, scores)
    order = np.argsort(-scores, kind="stable")[:n]
    return Columns([int(j) for j in chosen[order]], bits[order], scores[order])


class PackedIncidence:
    """One bit per cell, in blocks of 2048 events and groups of 16 policies: lanes (blocks, groups, words, 16)."""

    exact = True

    def __init__(self, lanes: npt.NDArray[np.uint32], n_policies: int) -> None:
        self.lanes = lanes
        self.n_policies = n_policies
        self.n_words = lanes.shape[0] * lanes.shape[2] // 2

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.lanes.nbytes

    def scores(self, gains: Floats) -> Floats:
        """Σ_e c_e A[e, π] for every policy, within a relative error of `SCREEN`."""
        scale = float(gains.max()) or 1.0
        scores, c = np.empty(LANES * self.lanes.shape[1]), (gains / scale).astype(np.float32)
        groups = cut(self.lanes.shape[1], _PIECE // max(self.n_words, 1))
        for_each(lambda part: packed_pass(self.lanes, c, scores, *part), groups)
        scores *= scale
        return scores[: self.n_policies]

    def columns(self, policies: npt.NDArray[np.intp]) -> Words:
        """The columns of some policies, (k, words)."""
        taken = self.lanes[:, policies // LANES, :, policies % LANES]
        return np.ascontiguousarray(taken).reshape(len(policies), 2 * self.n_words).view("<u8")

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """See `ColumnOracle`."""
        return best_columns(self.scores(gains), self.columns, gains, n, average)

    def thin(self, step: int) -> tuple[PackedIncidence, npt.NDArray[np.intp]]:
        """Every step-th block of events, without a copy, and which events these are."""
        events = np.arange(64 * self.n_words).reshape(len(self.lanes), -1)[::step].ravel()
        return PackedIncidence(self.lanes[::step], self.n_policies), events


class SparseIncidence:
    """The events of every policy as sorted indices (compressed columns)."""

    exact = True

    def __init__(self, starts: npt.NDArray[np.int64], events: npt.NDArray[np.int32], n_events: int) -> None:
        self._starts, self._events, self._n_events = starts, events, n_events
        self.n_policies = len(starts) - 1
        self.n_words = words_for(n_events)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._starts.nbytes + self._events.nbytes

    def scores(self, gains: Floats) -> Floats:
        """Σ_e c_e A[e, π] for every policy, in double precision."""
        scores = np.empty(self.n_policies)

        def add(part: tuple[int, int]) -> None:
            first, last = part
            sparse_scores(self._starts[first : last + 1], self._events, gains, scores[first:last])

        for_each(add, cut(self.n_policies, _PIECE * self.n_policies // max(len(self._events), 1)))
        return scores

    def columns(self, policies: npt.NDArray[np.intp]) -> Words:
        """The columns of some policies, (k, words)."""
        dense = np.zeros((len(policies), self._n_events), dtype=np.bool_)
        for row, j in zip(dense, policies, strict=True):
            row[self._events[self._starts[j] : self._starts[j + 1]]] = True
        return pack(dense, self.n_words)

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """See `ColumnOracle`."""
        return best_columns(self.scores(gains), self.columns, gains, n, average)

    def thin(self, step: int) -> tuple[SparseIncidence, npt.NDArray[np.intp]]:
        """Every step-th event, and which events these are (padding included)."""
        keep = self._events % step == 0
        starts = np.concatenate([[0], np.cumsum(keep)])[self._starts]
        n_kept = -(-self._n_events // step)
        thinned = SparseIncidence(starts, self._events[keep] // step, n_kept)
        events = np.arange(64 * thinned.n_words) * step
        # padding of the thinned problem points at padding (or nothing) of the full one
        return thinned, np.where(events < self._n_events, events, -1)


Incidence = PackedIncidence | SparseIncidence


class RealIncidence:
    """Probabilities (E, P) that policies show the events' actions, instead of bits; columns are rows (k, E) of them."""

    exact = True

    def __init__(self, shares: Floats) -> None:
        self._shares = shares
        self.n_words, self.n_policies = len(shares) // 64, shares.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._shares.nbytes

    def columns(self, policies: npt.NDArray[np.intp]) -> Floats:
        """The columns of some policies, (k, E)."""
        return np.ascontiguousarray(self._shares[:, policies].T)

    def best(self, gains: Floats, *, n: int = 1, average: float = 0.0) -> Columns:
        """See `ColumnOracle`."""
        scores = gains @ self._shares
        order = np.argsort(-scores, kind="stable")[:n]
        order = order[scores[order] > average + WORTHWHILE * (scores[order[0]] - average)] if n > 1 else order
        order = order if len(order) else np.array([int(scores.argmax())])
        return Columns([int(j) for j in order], self.columns(order), scores[order])

    def thin(self, step: int) -> tuple[RealIncidence, npt.NDArray[np.intp]]:
        """Every step-th block of 64 events, and which events these are."""
        events = np.arange(len(self._shares)).reshape(-1, 64)[::step].ravel()
        return RealIncidence(self._shares[events]), events


def real_incidence(blocks: Iterable[tuple[npt.NDArray[Any], Floats]]) -> tuple[RealIncidence, Floats]:
    """`build_incidence` for probabilities; no events are merged."""
    rows, weights = zip(*blocks, strict=True)
    shares, given = np.concatenate(rows), np.concatenate(weights)
    padded = np.zeros((64 * words_for(len(shares)), shares.shape[1]))
    padded[: len(shares)] = shares
    of_events = np.zeros(len(padded))
    of_events[: len(given)] = given
    return RealIncidence(padded), of_events


def build_incidence(blocks: Iterable[tuple[Bools, Floats]], *, merge: bool = True) -> tuple[Incidence, Floats]:
    """Events × policies from blocks of rows, and the weights of its events (padded with zeros).

    Parameters
    ----------
    blocks : iterable of (rows (n, P) bool, weights (n,))
        Membership of events in policies' lists and the events' weights.
    merge : bool
        Events that the same policies cover are one event with the sum of their weights. Rows are
        compared by a 128-bit cryptographic digest.
    """
    queue = iter(blocks)
    first = next(queue, None)
    if first is None:
        raise ValueError("an incidence needs at least one event; without events there is no design")
    n_policies, weights = first[0].shape[1], list[float]()
    chunks = _chunks(_distinct(chain([first], queue), weights, merge=merge))
    head = next(chunks)
    density = np.count_nonzero(np.unpackbits(head)) / (len(head) * n_policies)
    gather = _gather_indices if density < SPARSE_BELOW else _gather_bits
    incidence = gather(chain([head], chunks), n_policies)
    padded = np.zeros(64 * incidence.n_words)
    padded[: len(weights)] = weights
    return incidence, padded


def _distinct(blocks: Iterable[tuple[Bools, Floats]], weights: list[float], *, merge: bool) -> Iterator[Bytes]:
    """Rows packed over policies, each once; `weights` grows with them and gathers those of repeated rows."""
    seen: dict[bytes, int] = {}
    for rows, row_weights in blocks:
        packed = np.packbits(rows, axis=1, bitorder="little")
        if not merge:
            weights.extend(row_weights.tolist())
            yield packed
            continue
        fresh = []
        for i, row in enumerate(packed):
            place = seen.setdefault(blake2b(row, digest_size=16).digest(), len(weights))
            if place == len(weights):
                weights.append(0.0)
                fresh.append(i)
            weights[place] += float(row_weights[i])
        yield packed[fresh]


def _chunks(parts: Iterable[Bytes]) -> Iterator[Bytes]:
    """The same rows, one block of events at a time (the last may be shorter)."""
    size, waiting, n_waiting = 64 * BLOCK_WORDS, list[Bytes](), 0
    for part in parts:
        waiting.append(part)
        n_waiting += len(part)
        if n_waiting >= size:
            rows = np.concatenate(waiting)
            full = n_waiting - n_waiting % size
            yield from rows[:full].reshape(-1, size, rows.shape[1])
            waiting, n_waiting = [rows[full:]], n_waiting - full
    if n_waiting:
        yield np.concatenate(waiting)


def _gather_bits(chunks: Iterable[Bytes], n_policies: int) -> PackedIncidence:
    blocks: list[npt.NDArray[np.uint32]] = []
    for rows in chunks:
        words = BLOCK_WORDS if blocks else min(BLOCK_WORDS, words_for(len(rows)))
        n_groups = -(-n_policies // LANES)
        padded = np.zeros((64 * words, 2 * n_groups), dtype=np.uint8)
        padded[: len(rows), : rows.shape[1]] = rows
        columns = np.empty((LANES * n_groups, 8 * words), dtype=np.uint8)
        transpose_bits(padded, columns)
        blocks.append(columns.view("<u4").reshape(n_groups, LANES, 2 * words).transpose(0, 2, 1))
    lanes = np.empty((len(blocks), *blocks[0].shape), dtype=np.uint32)
    for i in range(len(lanes)):
        lanes[i] = blocks[i]
        blocks[i] = lanes[i]  # lets go of the block: the peak stays near one incidence
    return PackedIncidence(lanes, n_policies)


def _gather_indices(chunks: Iterable[Bytes], n_policies: int) -> SparseIncidence:
    parts = [sparse.csr_array(np.unpackbits(rows, axis=1, count=n_policies, bitorder="little")) for rows in chunks]
    matrix = sparse.vstack(parts).tocsc()
    matrix.sort_indices()
    starts, events = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return SparseIncidence(starts, events, matrix.shape[0])
