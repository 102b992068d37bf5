"""The lists of one request as a table of numbers, and back.

Items are numbered within a request, in the order in which they first occur: candidates are compared on the same
rounds, so a number need mean the same only there, K = P·m is always enough, and no catalogue grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from comband._kernels.gaps import fill_gaps
from comband._kernels.requests import index_tokens, scan_lists
from comband.lists import check_lists
from comband.policies.fallback import NOTHING
from comband.problem import InputError, Problem
from comband.serve.wire import MAX_CANDIDATES, DecisionRequest, Key, RawRequest, Spec, as_json, lists_of
from comband.text import quoted

_JOINING = 100  # how many may join an experiment, unless they are too many in all
_FIRST = np.zeros(1, dtype=np.int64)
_pack = msgspec.msgpack.Encoder().encode
_keys = msgspec.json.Decoder(list[Key]).decode


def most_candidates(spec: Spec) -> int:
    """How many there may be, with those that join later."""
    return min(len(spec.candidates) + _JOINING, MAX_CANDIDATES)


def problem_of(spec: Spec) -> Problem:
    """The setting of an experiment, with items numbered within each request."""
    return Problem(n_actions=most_candidates(spec) * spec.list_size, list_size=spec.list_size, sparsity=spec.sparsity)


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """One request as it was made.

    given:
        (G,) numbers of the candidates that answered, rising.
    rows:
        (G, m) their lists, as numbers of `keys`; −1 where a list ends early.
    text:
        The keys as JSON.
    print:
        By which a repeated request is known to be the same.
    """

    id: str
    given: NDArray[np.int64]
    rows: NDArray[np.int32]
    keys: list[str | int]
    text: bytes
    print: bytes

    def keep(self, wanted: NDArray[np.bool_]) -> Request:
        """The same with the lists of `wanted` (P,) candidates only: a plan looks at no others, and no others are
        kept. Who joined after the plan was made is not among the P.
        """
        chosen = wanted[self.given[: int(np.searchsorted(self.given, len(wanted)))]]
        if len(chosen) == len(self.given) and chosen.all():
            return self
        here = np.flatnonzero(chosen)
        return Request(self.id, self.given[here], self.rows[here], self.keys, self.text, self.print)


def filled(
    given: NDArray[np.int64] | None, rows: NDArray[np.int32], n_candidates: int, fallback: int | str | None
) -> NDArray[np.int32]:
    """The table (P, m): who did not answer, or not in full, has the list of the fallback there, or nothing (−1).

    So what a candidate shows is what it would show in service. Its value is that of this rule, the table is all that
    the evidence sees, and the promise holds for it as for any other candidate. Without a fallback only candidates that
    are no longer needed may be missing, and any list does for them: the first one.
    """
    full = len(rows) == n_candidates
    if full and (fallback is None or fallback == NOTHING or int(rows.min(initial=0)) >= 0):
        return rows
    table = np.full((n_candidates, rows.shape[1]), -1, dtype=np.int32)
    if fallback is None:
        table[:] = rows[0]
    table[np.arange(len(rows)) if given is None else given] = rows
    if isinstance(fallback, int):
        fill_gaps(table[None], _FIRST, table[None, fallback].copy())
    return table


class Reader:
    """Reads the requests of one experiment.

    Parameters
    ----------
    spec:
        The experiment.
    names:
        All candidates that it has ever had, in the order in which they came.
    """

    def __init__(self, spec: Spec, names: Sequence[str]) -> None:
        self.spec, self.names, self.problem = spec, list(names), problem_of(spec)
        self._numbers = {name: i for i, name in enumerate(names)}
        self.fallback: int | str | None = fallback_of(spec, self.names)
        self._everyone = np.arange(len(names))
        tokens = [as_json(name) for name in names]
        edges = np.cumsum([0, *map(len, tokens)])
        spans = np.stack([edges[:-1], edges[1:]], axis=1)
        text = np.frombuffer(b"".join(tokens), dtype=np.uint8)
        self._index = (text, spans, *index_tokens(text, spans))

    def read(self, asked: DecisionRequest | RawRequest, request_id: str, needed: NDArray[np.bool_]) -> Request:
        """The request, checked; `needed` (P,) says whose lists must be there, unless a fallback stands in."""
        found = self._scanned(asked.lists) if isinstance(asked.lists, msgspec.Raw) else None
        given, rows, keys, text = self._numbered(asked) if found is None else found
        self._check_there(given, rows, needed)
        print_ = blake2b(text, digest_size=16)
        print_.update(rows.data)
        if len(given) < len(self.names):
            print_.update(given.data)
        return Request(request_id, given, rows, keys, text, print_.digest())

    def _scanned(
        self, lists: msgspec.Raw
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], list[str | int], bytes] | None:
        """The lists straight from their text, if that is as simple as it mostly is."""
        done, given, rows, text = scan_lists(np.frombuffer(lists, dtype=np.uint8), *self._index, self.spec.list_size)
        if not done or not len(given) or (self.fallback is None and int(rows.min()) < 0):
            return None
        plain = text.tobytes()
        try:
            return given, rows, _keys(plain), plain
        except msgspec.MsgspecError:  # said better with the place where it is
            return None

    def _numbered(
        self, asked: DecisionRequest | RawRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], list[str | int], bytes]:
        """The lists from Python's own, with a word on what is wrong."""
        given, lists = self._given(asked)
        m = self.spec.list_size
        lengths = {*map(len, lists)}
        if max(lengths) > m or (self.fallback is None and lengths != {m}):
            self._refuse_lengths(given, lists)
        keys = list(dict.fromkeys(chain.from_iterable(lists)))
        numbers = dict(zip(keys, range(len(keys)), strict=True))
        rows = np.full((len(lists), m), -1, dtype=np.int32)
        for row, one in zip(rows, lists, strict=True):
            row[: len(one)] = [numbers[key] for key in one]
        return given, self._distinct(rows, given), keys, as_json(keys)

    def _given(self, asked: DecisionRequest | RawRequest) -> tuple[NDArray[np.int64], Sequence[list[str | int]]]:
        """Who answered, and with what."""
        lists, names = asked.lists, self.names
        if isinstance(lists, msgspec.Raw):
            lists = lists_of(lists)
        if lists is None:
            raise InputError('"lists" must hold what each candidate would show.')
        if isinstance(lists, dict):
            unknown = [name for name in lists if name not in self._numbers]
            if unknown:
                raise InputError(
                    f"{quoted(unknown[0])} is no candidate of this experiment ({len(unknown)} such names); the names "
                    "are those with which it was created, and of those that joined."
                )
            order = sorted((self._numbers[name], name) for name in lists)
            given = np.fromiter((i for i, _ in order), np.int64, len(order))
            found = [lists[name] for _, name in order]
        else:
            if not len(self.spec.candidates) <= len(lists) <= len(names):
                raise InputError(
                    f'"lists" without names must have one entry for each of the {len(names)} candidates (null for '
                    f"those that did not answer), got {len(lists)}."
                )
            found = [one for one in lists if one is not None]
            given = np.flatnonzero([one is not None for one in lists])
        if not found:
            raise InputError("no candidate has a list in this request; show a list of your own, and send nothing.")
        return given, found

    def _refuse_lengths(self, given: NDArray[np.int64], lists: Sequence[list[str | int]]) -> None:
        at = next(i for i, one in enumerate(lists) if len(one) != self.spec.list_size)
        if self.fallback is not None:
            at = next(i for i, one in enumerate(lists) if len(one) > self.spec.list_size)
        raise InputError(
            f"every list must have {self.spec.list_size} items, but {quoted(self.names[given[at]])} has "
            f"{len(lists[at])}; lists may be shorter, or missing, in experiments with a fallback."
        )

    def _distinct(self, rows: NDArray[np.int32], given: NDArray[np.int64]) -> NDArray[np.int32]:
        try:
            return check_lists(rows, self.problem, gaps=True)
        except InputError:
            twice = next(i for i, row in enumerate(rows.tolist()) if len(set(row) - {-1}) < len(row) - row.count(-1))
            name = quoted(self.names[given[twice]])
            raise InputError(f"the items of a list must differ, but {name} has one twice.") from None

    def _check_there(self, given: NDArray[np.int64], rows: NDArray[np.int32], needed: NDArray[np.bool_]) -> None:
        if isinstance(self.fallback, int):
            place = int(np.searchsorted(given, self.fallback))
            if place == len(given) or given[place] != self.fallback or rows[place, -1] < 0:
                raise InputError(
                    f"the full list of the fallback {quoted(self.names[self.fallback])} must be in every request; "
                    "without it show a list of your own, and send nothing."
                )
        elif self.fallback == NOTHING:
            if int(rows.max(initial=-1)) < 0:
                raise InputError("no list of this request has an item; show a list of your own, and send nothing.")
        elif len(given) < len(needed):
            missing = needed.copy()
            missing[given[given < len(needed)]] = False
            if missing.any():
                first = int(np.flatnonzero(missing)[0])
                raise InputError(
                    f"{int(missing.sum())} candidates that are still compared have no list, the first of them "
                    f"{quoted(self.names[first])}; send all of them, or create the experiment with a fallback, whose "
                    "list then counts for those that do not answer."
                )


def fallback_of(spec: Spec, names: Sequence[str]) -> int | str | None:
    """Its number, NOTHING, or None."""
    return spec.fallback if spec.fallback is None or spec.fallback == NOTHING else names.index(spec.fallback)


class Body(msgspec.Struct, array_like=True):
    """What the journal keeps of a decision besides number, request, time and epoch."""

    print: bytes
    shown: bytes  # (m,) int32, numbers of keys, −1 at the end where there are fewer
    propensities: bytes  # (m,) float64
    covered: bool
    keys: bytes  # as JSON
    given: bytes | None  # (G,) uint16 of the candidates whose lists follow; None: the first G
    width: int  # bytes for the number of a key
    table: bytes  # (G, m)

    def all_keys(self) -> list[str | int]:
        """What the numbers stand for."""
        return _keys(self.keys)

    def items(self) -> list[str | int]:
        """What was shown."""
        keys = self.all_keys()
        return [keys[i] for i in np.frombuffer(self.shown, np.int32).tolist() if i >= 0]

    def rows(self, list_size: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int32]]:
        """Candidates (None: the first ones) and their lists, as far as the plan looked at them."""
        flat = np.frombuffer(self.table, _WIDTHS[self.width])
        rows = flat.astype(np.int32).reshape(-1, list_size)
        rows[rows == np.iinfo(flat.dtype).max] = -1
        return None if self.given is None else np.frombuffer(self.given, np.uint16).astype(np.int64), rows


_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.int32}
_body = msgspec.msgpack.Decoder(Body).decode


def pack_body(request: Request, shown: bytes, propensities: bytes, covered: bool) -> bytes:
    """What is kept of a decision."""
    given, n = request.given, len(request.keys)
    width = 1 if n < 255 else 2 if n < 65535 else 4
    rows = request.rows.astype(_WIDTHS[width])  # −1 becomes the largest, or stays −1
    first = not len(given) or int(given[-1]) == len(given) - 1
    numbers = None if first else given.astype(np.uint16).tobytes()
    return _pack(Body(request.print, shown, propensities, covered, request.text, numbers, width, rows.tobytes()))


def unpack_body(data: bytes) -> Body:
    """The inverse of `pack_body`."""
    return _body(data)
