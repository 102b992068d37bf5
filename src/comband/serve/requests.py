"""The lists of requests as tables of numbers, and back.

Items are numbered within a request, in the order in which they first occur: candidates are compared on the same
rounds, so a number need mean the same only there, K = P·m is always enough, and no catalogue grows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from comband._kernels.gaps import fill_gaps
from comband._kernels.requests import PADDING, index_tokens, longest_lists, scan_requests
from comband.page.declaring import declared
from comband.page.lists import check_lists
from comband.page.metrics import Metric, check_metrics
from comband.page.problem import InputError, Problem
from comband.page.text import quoted
from comband.policies.fallback import NOTHING
from comband.serve.journal import Limits
from comband.serve.wire import LONGEST_KEY, MAX_BATCH, MAX_CANDIDATES, SETTINGS, DecisionRequest, Key, Spec, as_json

_JOINING = 100  # how many may join an experiment, unless they are too many in all
_PADDING = bytes(PADDING)
_SHORT = 64 * 1024  # bytes
_DEEPEST = 8
_pack = msgspec.msgpack.Encoder().encode
keys_of = msgspec.json.Decoder(list[Key]).decode


def most_candidates(spec: Spec) -> int:
    """How many there may be, with those that join later."""
    return min(len(spec.candidates) + _JOINING, MAX_CANDIDATES)


def new_ids(n: int) -> list[str]:
    """Ids for requests that have none."""
    first = uuid.uuid4().int
    return [f"{(first + i) % (1 << 128):032x}" for i in range(n)]


def problem_of(spec: Spec) -> Problem:
    """The setting of an experiment, with items numbered within each request."""
    K = most_candidates(spec) * spec.list_size
    return Problem(n_actions=K, **{name: getattr(spec, name) for name in SETTINGS if name in declared(Problem)})


def metrics_of(spec: Spec) -> tuple[Metric, ...]:
    """Further metrics as the learner has them: what waits for their values is the journal."""
    return tuple(replace(one, patience=None) for one in check_metrics("metrics", spec.metrics))


def limits_of(spec: Spec) -> tuple[Limits, ...]:
    """What holds for rewards, and for the values of each further metric."""
    problem = problem_of(spec)
    limits = [Limits(int(spec.window_seconds * 1000), problem.max_reward, spec.patience)]
    for one in check_metrics("metrics", spec.metrics):
        seconds = spec.metric_windows.get(one.name, spec.window_seconds)
        patience = spec.patience if one.patience is None else one.patience
        limits.append(Limits(int(seconds * 1000), one.largest * one.problem(problem).max_reward, patience))
    return tuple(limits)


@dataclass(frozen=True, eq=False, slots=True)
class Requests:
    """Some requests of one experiment, in their order, as they were made.

    ids:
        By which each is known if it comes again.
    edges:
        (n+1, 3) where each begins in what follows: among rows, keys, and bytes of text.
    given:
        (G,) numbers of the candidates that answered, rising in each request.
    rows:
        (G, m) their lists, as numbers of keys in the order in which these first occur; −1 where a list ends early.
    spans:
        (N, 2) where the keys are in the text.
    text:
        The keys of each as JSON.
    """

    ids: list[str]
    edges: NDArray[np.int64]
    given: NDArray[np.int64]
    rows: NDArray[np.int32]
    spans: NDArray[np.int64]
    text: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def joined(cls, parts: Sequence[Requests]) -> Requests:
        """All of them."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([np.zeros(3, dtype=np.int64), *(one.edges[-1] for one in parts)], axis=0)
        return cls(
            [request for one in parts for request in one.ids],
            np.concatenate([*(one.edges[:-1] + end for one, end in zip(parts, ends, strict=False)), ends[-1:]]),
            np.concatenate([one.given for one in parts]),
            np.concatenate([one.rows for one in parts]),
            np.concatenate([one.spans + end[2] for one, end in zip(parts, ends, strict=False)]),
            np.concatenate([one.text for one in parts]),
        )

    def some(self, first: int, last: int) -> Requests:
        """Those from `first` up to, not including, `last`."""
        edges = self.edges[first : last + 1]
        (row, key, begin), (next_row, next_key, end) = edges[0].tolist(), edges[-1].tolist()
        return Requests(
            self.ids[first:last],
            edges - edges[0],
            self.given[row:next_row],
            self.rows[row:next_row],
            self.spans[key:next_key] - begin,
            self.text[begin:end],
        )

    def keys(self) -> list[bytes]:
        """What numbers stand for in each, as JSON."""
        text = self.text.tobytes()
        return [text[begin:end] for begin, end in pairwise(self.edges[:, 2].tolist())]

    def print(self, i: int, *, given: bool = True) -> bytes:
        """By which a request of which not all lists are kept is known to be the same when it comes again; earlier
        versions left out who had answered where all had.
        """
        part = slice(self.edges[i, 0], self.edges[i + 1, 0])
        made = blake2b(self.text[self.edges[i, 2] : self.edges[i + 1, 2]].tobytes(), digest_size=16)
        made.update(self.rows[part].tobytes())
        if given:
            made.update(self.given[part].tobytes())
        return made.digest()

    def is_same(self, i: int, body: Body) -> bool:
        """Whether this is the request of a decision that was made."""
        if body.print:
            return body.print in (self.print(i), self.print(i, given=False))
        (row, _, begin), (next_row, _, end) = self.edges[i : i + 2].tolist()
        given, rows = body.rows(self.rows.shape[1])
        return (
            body.keys == self.text[begin:end].tobytes()
            and np.array_equal(np.arange(len(rows)) if given is None else given, self.given[row:next_row])
            and np.array_equal(rows, self.rows[row:next_row])
        )

    def kept(self, wanted: NDArray[np.bool_]) -> Requests:
        """The same with the lists of `wanted` (P,) candidates only: a plan looks at no others, and no others are
        kept. Who joined after the plan was made is not among the P.
        """
        chosen = np.append(wanted, np.False_)[np.minimum(self.given, len(wanted))]
        if chosen.all():
            return self
        edges = self.edges.copy()
        edges[:, 0] = np.append(0, np.cumsum(chosen))[edges[:, 0]]
        return replace(self, edges=edges, given=self.given[chosen], rows=self.rows[chosen])

    def tables(self, n_candidates: int, fallback: int | str | None) -> NDArray[np.int32]:
        """All lists (n, P, m); see `filled`."""
        return _filled(self.given, self.rows, self.edges[:, 0], n_candidates, fallback)


def filled(
    given: NDArray[np.int64] | None, rows: NDArray[np.int32], n_candidates: int, fallback: int | str | None
) -> NDArray[np.int32]:
    """The table (P, m): who did not answer, or not in full, has the list of the fallback there, or nothing (−1).

    So what a candidate shows is what it would show in service. Its value is that of this rule, the table is all that
    the evidence sees, and the promise holds for it as for any other candidate. Without a fallback only candidates that
    are no longer needed may be missing, and any list does for them: the first one.
    """
    candidates = np.arange(len(rows)) if given is None else given
    result: NDArray[np.int32] = _filled(candidates, rows, np.array([0, len(rows)]), n_candidates, fallback)[0]
    return result


def _filled(
    given: NDArray[np.int64],
    rows: NDArray[np.int32],
    edges: NDArray[np.int64],
    n_candidates: int,
    fallback: int | str | None,
) -> NDArray[np.int32]:
    n, m = len(edges) - 1, rows.shape[1]
    complete = len(rows) == n * n_candidates
    if complete and (not isinstance(fallback, int) or int(rows.min(initial=0)) >= 0):
        return rows.reshape(n, n_candidates, m)
    tables = np.full((n, n_candidates, m), -1, dtype=np.int32)
    if fallback is None:
        tables[:] = rows[edges[:-1], None]
    tables[np.repeat(np.arange(n), np.diff(edges)), given] = rows
    if isinstance(fallback, int):
        fill_gaps(tables, np.arange(n), tables[:, fallback].copy())
    return tables


def check_elements(body: bytes, outermost: int, within: int) -> None:
    """Raises `InputError` if a JSON text has a list of more elements than this, before anything is made of it.

    Texts that are short cost little whatever they hold, and are not looked at.
    """
    if len(body) <= _SHORT:
        return
    most = np.full(_DEEPEST, within, dtype=np.int64)
    most[1] = max(outermost, 1)
    level = longest_lists(np.frombuffer(body, dtype=np.uint8), most)
    if level == 1:
        raise InputError(f"a list of at most {outermost:,} is taken at once; send several.")
    if level:
        raise InputError(f"lists within a request may have {within:,} elements, on at most {_DEEPEST - 1} levels.")


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

    @cached_property
    def _index(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64], NDArray[np.int32]]:
        """By which names are found in the text of requests."""
        tokens = [as_json(name) for name in self.names]
        edges = np.cumsum([0, *map(len, tokens)])
        spans = np.stack([edges[:-1], edges[1:]], axis=1)
        text = np.frombuffer(b"".join(tokens) + _PADDING, dtype=np.uint8)
        codes, slots = index_tokens(text, spans)
        return text, spans, codes, slots

    def scan(self, body: bytes, needed: NDArray[np.bool_]) -> Requests | None:
        """The requests straight from their text, if that is as simple as it mostly is; `needed` (P,) says whose lists
        must be there, unless a fallback stands in.
        """
        data = np.frombuffer(body + _PADDING, dtype=np.uint8)
        n, plain, edges, ids, given, rows, spans, text = scan_requests(
            data, *self._index, self.spec.list_size, MAX_BATCH, LONGEST_KEY
        )
        if not n or (self.fallback is None and int(rows.min(initial=0)) < 0):
            return None
        try:
            names = [body[first:last].decode() for first, last in ids.tolist()]
            if not plain:
                text.tobytes().decode()
        except UnicodeDecodeError:  # said better with the place where it is
            return None
        if not all(names):
            names = [name or made for name, made in zip(names, new_ids(n), strict=True)]
        return self._checked(names, edges, given, rows, spans, text, needed)

    def read(self, asked: Sequence[DecisionRequest], needed: NDArray[np.bool_]) -> Requests:
        """Requests from Python's own lists, with a word on what is wrong."""
        parts, edges, spans = [self._numbered(one) for one in asked], [(0, 0, 0)], []
        for given, _, tokens in parts:
            n_rows, n_keys, place = edges[-1]
            ends = place + np.cumsum([1, *(len(token) + 1 for token in tokens)])
            spans.append(np.stack([ends[:-1], ends[1:] - 1], axis=1))
            edges.append((n_rows + len(given), n_keys + len(tokens), int(ends[-1]) + (not tokens)))
        text = b"".join(b"[" + b",".join(tokens) + b"]" for _, _, tokens in parts)
        return self._checked(
            [one.request or made for one, made in zip(asked, new_ids(len(asked)), strict=True)],
            np.array(edges),
            np.concatenate([given for given, _, _ in parts]),
            np.concatenate([rows for _, rows, _ in parts]),
            np.concatenate(spans),
            np.frombuffer(bytearray(text), dtype=np.uint8),
            needed,
        )

    def _checked(
        self,
        ids: list[str],
        edges: NDArray[np.int64],
        given: NDArray[np.int64],
        rows: NDArray[np.int32],
        spans: NDArray[np.int64],
        text: NDArray[np.uint8],
        needed: NDArray[np.bool_],
    ) -> Requests:
        """The requests, if all lists are there that must be."""
        requests = Requests(ids, edges, given, rows, spans, text)
        self.check(requests, needed)
        return requests

    def check(self, requests: Requests, needed: NDArray[np.bool_]) -> None:
        """Raises `InputError` unless all lists are there that must be."""
        n, P, rows = len(requests), len(self.names), requests.rows
        complete = len(rows) == n * P
        if not (complete and self._is_there(rows.reshape(n, P, -1), needed)):
            for first, last in pairwise(requests.edges[:, 0].tolist()):
                self._check_there(requests.given[first:last], rows[first:last], needed)

    def _is_there(self, tables: NDArray[np.int32], needed: NDArray[np.bool_]) -> bool:
        """Whether nothing is missing from tables (n, P, m) of what the candidates sent."""
        if isinstance(self.fallback, int):
            return bool((tables[:, self.fallback, -1] >= 0).all())
        return self.fallback is None or bool((tables[:, np.flatnonzero(needed), 0] >= 0).any(axis=1).all())

    def _numbered(self, asked: DecisionRequest) -> tuple[NDArray[np.int64], NDArray[np.int32], list[bytes]]:
        """Who answered, with what, and the keys as JSON."""
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
        return given, self._distinct(rows, given), [as_json(key) for key in keys]

    def _given(self, asked: DecisionRequest) -> tuple[NDArray[np.int64], Sequence[list[str | int]]]:
        """Who answered, and with what."""
        lists, names = asked.lists, self.names
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
            looked_at = given < len(needed)
            looked_at[looked_at] = needed[given[looked_at]]
            if int(rows[looked_at].max(initial=-1)) < 0:
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

    print: bytes  # of all that was sent; empty if all of it is here
    shown: bytes  # (m,) int32, numbers of keys, −1 at the end where there are fewer
    propensities: bytes  # (m,) float64
    covered: bool
    keys: bytes  # as JSON
    given: bytes | None  # (G,) uint16 of the candidates whose lists follow; None: the first G
    width: int  # bytes for the number of a key
    table: bytes  # (G, m)
    placements: bytes = b""  # (m, m) float64, of each shown item in each place; empty: in random order
    leaf: bytes = b""  # what the chain holds of it, if there is one

    def all_keys(self) -> list[str | int]:
        """What the numbers stand for."""
        return keys_of(self.keys)

    def items(self) -> list[str | int]:
        """What was shown."""
        keys = self.all_keys()
        return [keys[i] for i in np.frombuffer(self.shown, np.int32).tolist() if i >= 0]

    def of_places(self, n: int | None = None) -> NDArray[np.float64]:
        """Of the first n shown items (all of them), the probability of each place, (n, m); (0, 0) if none is stated."""
        m = len(self.propensities) // 8
        if not self.placements:
            return np.empty((0, 0))
        return np.frombuffer(self.placements, np.float64).reshape(m, m)[:n]

    def rows(self, list_size: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int32]]:
        """Candidates (None: the first ones) and their lists, as far as the plan looked at them."""
        flat = np.frombuffer(self.table, _WIDTHS[self.width])
        rows = flat.astype(np.int32).reshape(-1, list_size)
        rows[rows == np.iinfo(flat.dtype).max] = -1
        return None if self.given is None else np.frombuffer(self.given, np.uint16).astype(np.int64), rows


_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.int32}
_body = msgspec.msgpack.Decoder(Body).decode


def pack_bodies(
    sent: Requests,
    requests: Requests,
    shown: NDArray[np.int32],
    propensities: NDArray[np.float64],
    covered: Sequence[bool],
    placements: NDArray[np.float64] | None = None,
    leaves: Sequence[bytes] = (),
) -> list[bytes]:
    """What is kept of each decision, with shown (n, m), propensities (n, m) and, if they are stated, those of all
    places (n, m, m): of the requests that were sent, those lists that the plan looked at.
    """
    m = requests.rows.shape[1]
    lists, weights = shown.tobytes(), propensities.tobytes()
    square, of_places = 8 * m * m, b"" if placements is None else placements.tobytes()
    text, edges = requests.text.tobytes(), requests.edges.tolist()
    narrow: dict[int, bytes] = {}  # rows in so many bytes for each number
    given, bodies = requests.given, []
    for i, ((row, key, begin), (next_row, next_key, end)) in enumerate(pairwise(edges)):
        width = 1 if next_key - key < 255 else 2 if next_key - key < 65535 else 4
        if width not in narrow:
            narrow[width] = requests.rows.astype(_WIDTHS[width]).tobytes()  # −1 becomes the largest, or stays −1
        first = next_row == row or given[next_row - 1] == next_row - row - 1
        numbers = None if first else given[row:next_row].astype(np.uint16).tobytes()
        table = narrow[width][width * m * row : width * m * next_row]
        mine = (lists[4 * m * i : 4 * m * (i + 1)], weights[8 * m * i : 8 * m * (i + 1)])
        print_ = b"" if requests is sent else sent.print(i)
        where = of_places[square * i : square * (i + 1)]
        leaf = leaves[i] if leaves else b""
        bodies.append(_pack(Body(print_, *mine, covered[i], text[begin:end], numbers, width, table, where, leaf)))
    return bodies


def unpack_body(data: bytes) -> Body:
    """The inverse of `pack_body`."""
    return _body(data)
