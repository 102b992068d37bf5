"""The most recent contexts, and what the candidates show there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.event_lists import EventLists
from comband.page.contexts import (
    Contexts,
    alike,
    concat_contexts,
    n_contexts,
    pack_contexts,
    take_contexts,
    unpack_contexts,
)
from comband.page.problem import Problem
from comband.page.storage import State
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK

_CONTEXTS = 1000  # kept to see how much the candidates disagree
_CELLS = 1 << 23  # of lists that are kept beside them


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """Some contexts, and the lists (n, S, m) of `candidates` there, if they are known."""

    contexts: Contexts
    lists: NDArray[np.int32] | None = None
    candidates: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return n_contexts(self.contexts)

    def last(self, n: int) -> _Part:
        """The last n contexts."""
        if n >= len(self):
            return self
        rows = slice(len(self) - n, len(self))
        lists = None if self.lists is None else self.lists[rows]
        return _Part(take_contexts(self.contexts, rows), lists, self.candidates)


class RecentContexts:
    """The last thousand contexts. Lists that candidates gave there when decisions were drawn are kept beside them, as
    far as they have room: to see how much candidates disagree there, only the others are asked. `events` holds those
    of rewarded rounds. Lists that candidates look up are not kept at all.

    Parameters
    ----------
    policies:
        All candidates.
    problem:
        The setting.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import RecentContexts
    >>> recent = RecentContexts(policies, problem)
    >>> recent.add(shop.sample(5, np.random.default_rng(3)).contexts, None, np.arange(4))
    >>> len(recent.contexts)
    5
    >>> recent.counts(np.arange(4), lambda lists: np.array([len(np.unique(each)) for each in lists], dtype=float)).shape
    (5,)
    """

    def __init__(self, policies: PolicySet, problem: Problem) -> None:
        self._policies, self._problem = policies, problem
        self._parts: list[_Part] = []
        self._size = 0
        self.events = None if policies.looked_up else EventLists(problem, gaps=policies.has_gaps)

    def of(self, policies: PolicySet) -> RecentContexts:
        """The same contexts for another set, in which the policies so far have kept their numbers."""
        recent = RecentContexts(policies, self._problem)
        recent._parts, recent._size = list(self._parts), self._size
        return recent

    def __len__(self) -> int:
        return min(self._size, _CONTEXTS)

    def room(self, n_candidates: int) -> int:
        """On how many contexts the lists of so many candidates are worth keeping."""
        if self.events is None:
            return 0
        return min(_CONTEXTS, _CELLS // (n_candidates * self._problem.list_size))

    def add(self, X: Contexts, lists: NDArray[np.int32] | None, candidates: NDArray[np.int64]) -> None:
        """Further contexts; `lists` (k, S, m) are those of the candidates on the last k of them."""
        n, known = n_contexts(X), 0 if lists is None else len(lists)
        if n and self._parts and not _same_kind(self._parts[0].contexts, X):
            concat_contexts([self._parts[0].contexts, X])  # says what is wrong, if they cannot be joined
        unknown, seen = slice(max(0, n - _CONTEXTS), n - known), slice(n - known, n)
        for rows, there in ((unknown, None), (seen, lists)):
            size = rows.stop - rows.start
            if size > 0:
                part = X if size == n else take_contexts(X, rows)
                self._parts.append(_Part(part, there, None if there is None else candidates))
                self._size += size
        if self._size > 2 * _CONTEXTS:
            self._parts, self._size = _last(self._parts, _CONTEXTS), _CONTEXTS

    @property
    def contexts(self) -> Contexts:
        """All of them; an empty list before the first."""
        parts = _last(self._parts, _CONTEXTS)
        return concat_contexts([part.contexts for part in parts]) if parts else []

    def counts(
        self, candidates: NDArray[np.int64], count: Callable[[NDArray[np.int32]], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """What `count` says of the candidates' lists (n, S, m), for each context, (n,)."""
        counts = [np.empty(0)]
        for part in self._joined():
            known = (
                part.lists is not None and part.candidates is not None and np.isin(candidates, part.candidates).all()
            )
            for rows in _blocks(len(part), len(candidates) * self._problem.list_size):
                if known and part.lists is not None and part.candidates is not None:
                    lists = part.lists[rows]
                    if len(candidates) < len(part.candidates):  # and these are among them
                        lists = lists[:, np.searchsorted(part.candidates, candidates)]
                else:
                    lists = self._policies.predict(
                        take_contexts(part.contexts, rows), candidates, problem=self._problem
                    )
                counts.append(count(np.ascontiguousarray(lists)))
        return np.concatenate(counts)

    def _joined(self) -> list[_Part]:
        """The parts, with neighbours that know the lists of the same candidates put together."""
        groups: list[list[_Part]] = []
        for part in _last(self._parts, _CONTEXTS):
            if groups and groups[-1][0].candidates is part.candidates:
                groups[-1].append(part)
            else:
                groups.append([part])
        joined = []
        for group in groups:
            lists = [part.lists for part in group if part.lists is not None]
            contexts = group[0].contexts if len(group) == 1 else concat_contexts([part.contexts for part in group])
            joined.append(_Part(contexts, np.concatenate(lists) if lists else None, group[0].candidates))
        self._parts, self._size = joined, sum(len(part) for part in joined)
        return joined

    def is_last_of(self, n: int) -> bool:
        """Whether these may be the last of n contexts that were asked for."""
        return self._size == min(n, _CONTEXTS)

    def state(self) -> State | None:
        """The contexts, for a file; lists are not kept there, for the candidates can be asked."""
        return pack_contexts(self.contexts) if self._parts else None

    @classmethod
    def from_state(cls, state: State | None, policies: PolicySet, problem: Problem) -> RecentContexts:
        """The inverse of `state`."""
        recent = cls(policies, problem)
        if state is not None:
            contexts = unpack_contexts(state)
            recent._parts, recent._size = [_Part(contexts)], n_contexts(contexts)
        return recent


def _same_kind(first: Contexts, second: Contexts) -> bool:
    if type(first) is np.ndarray and type(second) is np.ndarray and first.dtype == second.dtype:
        return bool(first.shape[1:] == second.shape[1:])
    return alike(first, second)


def _blocks(n: int, cells: int) -> list[slice]:
    step = max(1, BLOCK // cells)
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def _last(parts: list[_Part], n: int) -> list[_Part]:
    """Those that hold the last n contexts."""
    kept: list[_Part] = []
    for part in reversed(parts):
        if n <= 0:
            break
        kept.append(part.last(n))
        n -= len(kept[-1])
    return kept[::-1]
