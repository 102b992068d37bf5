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

from comband.lists import check_lists
from comband.problem import InputError, Problem
from comband.serve.wire import DecisionRequest, Spec
from comband.text import quoted

_pack = msgspec.msgpack.Encoder().encode


def problem_of(spec: Spec) -> Problem:
    """The setting of an experiment, with items numbered within each request."""
    P, m = len(spec.candidates), spec.list_size
    return Problem(n_actions=P * m, list_size=m, sparsity=spec.sparsity)


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """One request as it was made.

    given:
        (G,) numbers of the candidates that answered, rising.
    rows:
        (G, m) their lists, as numbers of `keys`.
    print:
        By which a repeated request is known to be the same.
    """

    id: str
    given: NDArray[np.int64]
    rows: NDArray[np.int32]
    keys: list[str | int]
    print: bytes

    def keep(self, wanted: NDArray[np.bool_]) -> Request:
        """The same with the lists of `wanted` (P,) candidates only: a plan looks at no others, and no others are
        kept.
        """
        chosen = wanted[self.given]
        if chosen.all():
            return self
        return Request(self.id, self.given[chosen], self.rows[chosen], self.keys, self.print)

    def table(self, n_candidates: int, fallback: int | None) -> NDArray[np.int32]:
        """The lists (P, m) of all candidates; see `filled`."""
        return filled(self.given, self.rows, n_candidates, fallback)


def filled(
    given: NDArray[np.int64], rows: NDArray[np.int32], n_candidates: int, fallback: int | None
) -> NDArray[np.int32]:
    """The table (P, m): who did not answer has the list of the fallback.

    So what a candidate shows is what it would show in service: its own list, or the fallback's where it fails. Its
    value is that of this rule, the table is all that the evidence sees, and the promise holds for it as for any other
    candidate. Without a fallback only candidates that are no longer needed may be missing, and any list does for them:
    the first one.
    """
    if len(given) == n_candidates:
        return rows
    stand_in = 0 if fallback is None else int(np.searchsorted(given, fallback))
    table = np.empty((n_candidates, rows.shape[1]), dtype=np.int32)
    table[:] = rows[stand_in]
    table[given] = rows
    return table


class Reader:
    """Reads the requests of one experiment.

    Parameters
    ----------
    spec:
        The experiment.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec, self.problem = spec, problem_of(spec)
        self._numbers = {name: i for i, name in enumerate(spec.candidates)}
        self.fallback = None if spec.fallback is None else self._numbers[spec.fallback]
        self._everyone = np.arange(len(spec.candidates))

    def read(self, asked: DecisionRequest, request_id: str, needed: NDArray[np.bool_]) -> Request:
        """The request, checked; `needed` (P,) says whose lists must be there, unless a fallback stands in."""
        given, lists = self._given(asked)
        m, P = self.spec.list_size, len(self.spec.candidates)
        if {*map(len, lists)} != {m}:
            self._refuse_lengths(given, lists)
        keys = list(dict.fromkeys(chain.from_iterable(lists)))
        numbers = dict(zip(keys, range(len(keys)), strict=True))
        flat = np.fromiter(map(numbers.__getitem__, chain.from_iterable(lists)), np.int32, len(lists) * m)
        rows = self._distinct(flat.reshape(len(lists), m), given)
        self._check_there(given, needed)
        print_ = blake2b(_pack(keys), digest_size=16)
        print_.update(rows.data)
        if len(given) < P:
            print_.update(given.data)
        return Request(request_id, given, rows, keys, print_.digest())

    def _given(self, asked: DecisionRequest) -> tuple[NDArray[np.int64], Sequence[list[str | int]]]:
        """Who answered, and with what."""
        lists, names = asked.lists, self.spec.candidates
        if lists is None:
            raise InputError('"lists" must hold what each candidate would show.')
        if isinstance(lists, dict):
            if len(lists) == len(names) and list(lists) == names:
                return self._everyone, list(lists.values())
            unknown = [name for name in lists if name not in self._numbers]
            if unknown:
                raise InputError(
                    f"{quoted(unknown[0])} is no candidate of this experiment ({len(unknown)} such names); the names "
                    "are those with which it was created."
                )
            order = sorted((self._numbers[name], name) for name in lists)
            given = np.fromiter((i for i, _ in order), np.int64, len(order))
            found = [lists[name] for _, name in order]
        else:
            if len(lists) != len(names):
                raise InputError(
                    f'"lists" without names must have one entry for each of the {len(names)} candidates (null for '
                    f"those that did not answer), got {len(lists)}."
                )
            found = [one for one in lists if one is not None]
            if len(found) == len(names):
                return self._everyone, found
            given = np.flatnonzero([one is not None for one in lists])
        if not found:
            raise InputError("no candidate has a list in this request; show a list of your own, and send nothing.")
        return given, found

    def _refuse_lengths(self, given: NDArray[np.int64], lists: Sequence[list[str | int]]) -> None:
        at = next(i for i, one in enumerate(lists) if len(one) != self.spec.list_size)
        raise InputError(
            f"every list must have {self.spec.list_size} items, but {quoted(self.spec.candidates[given[at]])} has "
            f"{len(lists[at])}; leave out a candidate that has no full list."
        )

    def _distinct(self, rows: NDArray[np.int32], given: NDArray[np.int64]) -> NDArray[np.int32]:
        try:
            return check_lists(rows, self.problem)
        except InputError:
            twice = next(i for i, row in enumerate(rows.tolist()) if len(set(row)) < len(row))
            name = quoted(self.spec.candidates[given[twice]])
            raise InputError(f"the items of a list must differ, but {name} has one twice.") from None

    def _check_there(self, given: NDArray[np.int64], needed: NDArray[np.bool_]) -> None:
        if self.fallback is not None:
            place = int(np.searchsorted(given, self.fallback))
            if place == len(given) or given[place] != self.fallback:
                raise InputError(
                    f"the list of the fallback {quoted(self.spec.candidates[self.fallback])} must be in every request; "
                    "without it show a list of your own, and send nothing."
                )
            return
        if len(given) < len(needed):
            missing = needed.copy()
            missing[given] = False
            if missing.any():
                first = int(np.flatnonzero(missing)[0])
                raise InputError(
                    f"{int(missing.sum())} candidates that are still compared have no list, the first of them "
                    f"{quoted(self.spec.candidates[first])}; send all of them, or create the experiment with a "
                    "fallback, whose list then counts for those that do not answer."
                )


class Body(msgspec.Struct, array_like=True):
    """What the journal keeps of a decision besides number, request, time and epoch."""

    print: bytes
    shown: bytes  # (m,) int32, numbers of keys
    propensities: bytes  # (m,) float64
    covered: bool
    keys: list[str | int]
    given: bytes | None  # (G,) uint16 of the candidates whose lists follow; None: all
    wide: bool  # whether numbers of keys take two bytes (or else one)
    table: bytes  # (G, m)


_body = msgspec.msgpack.Decoder(Body).decode


def pack_body(
    request: Request,
    shown: NDArray[np.int32],
    propensities: NDArray[np.float64],
    covered: bool,
    n_candidates: int,
) -> bytes:
    """What is kept of a decision."""
    given, rows = request.given, request.rows
    wide = len(request.keys) > 256
    return _pack(
        Body(
            request.print,
            shown.astype(np.int32).tobytes(),
            propensities.tobytes(),
            covered,
            request.keys,
            None if len(given) == n_candidates else given.astype(np.uint16).tobytes(),
            wide,
            rows.astype(np.uint16 if wide else np.uint8).tobytes(),
        )
    )


def unpack_body(data: bytes) -> Body:
    """The inverse of `pack_body`."""
    return _body(data)


def table_of(body: Body, n_candidates: int, list_size: int, fallback: int | None) -> NDArray[np.int32]:
    """The table (P, m) with which the decision was drawn, as far as its plan looked at it."""
    rows = np.frombuffer(body.table, np.uint16 if body.wide else np.uint8).reshape(-1, list_size).astype(np.int32)
    given = np.arange(n_candidates) if body.given is None else np.frombuffer(body.given, np.uint16).astype(np.int64)
    return filled(given, rows, n_candidates, fallback)
