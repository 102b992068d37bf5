"""What the candidates show on contexts where a reward was seen: the next plans need it again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import Problem

_ROUNDS = 2000  # rewarded rounds whose lists are kept: as many as a plan looks back on
_CELLS = 20_000_000  # of lists that are kept, two bytes each up to 65,536 actions, otherwise four


class EventLists:
    """Lists of the candidates that are left, for the latest rewarded rounds, by the number of the decision.

    Only a memory: a candidate always answers a context with the same list, so that whatever is not here can be asked
    for. Candidates that are dropped are forgotten when those that are left are put in next.
    """

    def __init__(self, problem: Problem, *, gaps: bool = False) -> None:
        self._problem, self._gaps = problem, gaps
        self._candidates = np.empty(0, dtype=np.int64)
        self._ids = np.empty(0, dtype=np.int64)
        self._lists = np.empty((0, 0, problem.list_size), dtype=self._dtype)
        self._next = 0

    def __len__(self) -> int:
        return int((self._ids >= 0).sum())

    def lists(
        self,
        ids: NDArray[np.int64],
        candidates: NDArray[np.int64],
        ask: Callable[[NDArray[np.int64]], NDArray[np.int32]],
        *,
        keep: bool = False,
    ) -> NDArray[np.int32]:
        """Lists (n, S, m) of the candidates for decisions `ids` (n,), no number twice; `ask` gives those that are not
        here, for positions in `ids`, and they are put in if they are to be kept.
        """
        places = self._places(ids) if self._has(candidates) else np.full(len(ids), -1)
        unknown = np.flatnonzero(places < 0)
        if len(unknown) == len(ids):
            found = ask(unknown)
        else:
            found = np.empty((len(ids), len(candidates), self._problem.list_size), dtype=np.int32)
            known, columns = np.flatnonzero(places >= 0), np.searchsorted(self._candidates, candidates)
            found[known] = self._lists[places[known, None], columns[None, :]]
            if len(unknown):
                found[unknown] = ask(unknown)
        if keep and len(unknown):
            whole = len(unknown) == len(ids)
            self._put(ids if whole else ids[unknown], found if whole else found[unknown], candidates)
        return found

    def _put(self, ids: NDArray[np.int64], lists: NDArray[np.int32], candidates: NDArray[np.int64]) -> None:
        same = self._candidates is candidates
        if not same and (len(self._candidates) == 0 or not np.isin(self._candidates, candidates).all()):
            self._narrow(candidates)
            same = True
        room = len(self._ids)
        ids, lists = ids[-room:] if room else ids[:0], lists[-room:] if room else lists[:0]
        places = (self._next + np.arange(len(ids))) % max(room, 1)
        self._ids[places] = -1  # whatever fails between: a place without a number is free
        self._lists[places] = lists if same else lists[:, np.searchsorted(candidates, self._candidates)]
        self._ids[places] = ids
        self._next = (self._next + len(ids)) % max(room, 1)

    def _narrow(self, candidates: NDArray[np.int64]) -> None:
        """Make room for the lists of these, with what is known about them."""
        n, m = min(_ROUNDS, _CELLS // (len(candidates) * self._problem.list_size)), self._problem.list_size
        ids, lists = np.full(n, -1), np.empty((n, len(candidates), m), dtype=self._dtype)
        if self._has(candidates) and len(self._ids):
            order = (self._next + np.arange(len(self._ids))) % len(self._ids)  # the oldest first
            order = order[self._ids[order] >= 0][-n:] if n else order[:0]
            columns = np.searchsorted(self._candidates, candidates)
            ids[: len(order)], lists[: len(order)] = self._ids[order], self._lists[order[:, None], columns[None, :]]
            self._next = len(order) % max(n, 1)
        else:
            self._next = 0
        self._candidates, self._ids, self._lists = candidates, ids, lists

    def _has(self, candidates: NDArray[np.int64]) -> bool:
        same = self._candidates is candidates  # as in most calls: those of the epoch
        return len(self._candidates) > 0 and (same or bool(np.isin(candidates, self._candidates).all()))

    def _places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each decision's lists are, −1 if nowhere."""
        if len(self._ids) == 0:
            return np.full(len(ids), -1)
        order = np.argsort(self._ids, kind="stable")
        found = order[np.searchsorted(self._ids[order], ids).clip(max=len(order) - 1)]
        return np.where(self._ids[found] == ids, found, -1)

    @property
    def _dtype(self) -> type[np.uint16] | type[np.int32]:
        return np.uint16 if self._problem.n_actions <= 1 << 16 and not self._gaps else np.int32
