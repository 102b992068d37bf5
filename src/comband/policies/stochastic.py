"""Candidates that draw their lists: given by the probability of each item, not by one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_problem
from comband.policies.policy_set import PolicySet, _check_names
from comband.policies.reading import reading_of
from comband.policies.tabulated import check_context_ids

_TOLERANCE = 1e-6  # that probabilities may miss their sums by, once they were written down
_ROUNDING = 1e-14
_ROUNDS_OF_SCALING = 20
_EVENTS = 1 << 22  # events times policies at once


class StochasticPolicies(PolicySet):
    """Candidates that show item y for context x with probability π(y|x), by tables; contexts are row numbers.

    The value of such a candidate is V(π) = E Σ_y π(y|x)·r(x, y), and a log estimates it without drawing a list, by
    Σ_{y∈a_t} π(y|x_t)·r_t(y)/Q_t(y). For a list that is surely shown π(y|x) is 1 or 0, and both are what they are for a
    `PolicySet`. `evaluate`, `evaluate_log` and `usual_estimates` take them; so do certifying learners, mixtures and
    designs, which draw their lists with exactly these probabilities, where places do not matter.

    Parameters
    ----------
    probabilities:
        For each candidate (N, K), an array or a sparse one: the probability that the item is in the list, m in each
        row. Or (N, K, m): of the item in the place, 1 for each place (obp's `action_dist`).
    problem:
        K and m.
    names:
        One distinct name for each.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=3, list_size=1, sparsity=1)
    >>> coin = cb.policies.StochasticPolicies([[[0.5, 0.5, 0.0]]], problem, names=["coin"])
    >>> log = cb.Rounds.from_log(
    ...     np.zeros(300, dtype=int),
    ...     lists=np.arange(300)[:, None] % 3,
    ...     rewards=np.arange(300)[:, None] % 3 == 1,
    ...     propensities=np.full((300, 1), 1 / 3),
    ...     problem=problem,
    ... )
    >>> round(cb.evaluate(log, coin, max_reward=1, min_propensity=1 / 3).best.value, 6)
    0.5
    """

    by_chance = True

    def __init__(self, probabilities: Sequence[Any], problem: Problem, *, names: Sequence[str] | None = None) -> None:
        m, K = check_problem(problem, places=True).list_size, problem.n_actions
        if len(probabilities) == 0:
            raise InputError("a set of candidates needs at least one, got none.")
        found = [_checked(given, K, m, number) for number, given in enumerate(probabilities)]
        if len({(placed, *table.shape) for table, placed in found}) > 1:
            raise InputError("probabilities of all candidates must have one shape: contexts, items, and places if any.")
        self._fill([table for table, _ in found], K, m, found[0][1], _check_names(names, len(found)))

    def _fill(self, tables: list[Any], K: int, m: int, placed: bool, names: tuple[str, ...]) -> None:
        self.tables, self.names, self.list_size, self.placed = tables, names, m, placed
        self.cover, self.catalogue, self.fallback, self._complete = None, None, None, True
        self._n_items, self._n_actions = K, K
        self._pairs = False  # whether rounds are those of pairs
        self._policies: Any = tables
        self._blocks, self._sizes, self._surely = [], {(K, m): 0}, None

    @classmethod
    def of_checked(cls, tables: list[Any], K: int, m: int, placed: bool, names: tuple[str, ...]) -> StochasticPolicies:
        """From tables (N, K), or (N, K·m) if `placed`, that were checked."""
        made = object.__new__(cls)
        made._fill(tables, K, m, placed, names)
        return made

    def in_places(self) -> StochasticPolicies:
        """The same for rounds whose actions are pairs of item and place, y·m + k."""
        if not self.placed:
            raise InputError(
                "where places matter a candidate must say the probability of each item in each place, (N, K, m); these "
                "say it of the list as a whole."
            )
        made = StochasticPolicies.of_checked(self.tables, self._n_items, self.list_size, True, self.names)
        made._pairs, made._n_actions = True, self.tables[0].shape[1]
        return made

    def anywhere(self) -> StochasticPolicies:
        """The same for rounds in which an item counts wherever it stands."""
        if not self.placed or self._pairs:
            return self
        K, m = self._n_items, self.list_size
        gather = sp.csr_array((np.ones(K * m), (np.arange(K * m), np.repeat(np.arange(K), m))), shape=(K * m, K))
        tables = [sp.csr_array(table @ gather) for table in self.tables]
        tables = [table if table.data.max(initial=0.0) > 1 + _TOLERANCE else _exact(table, m) for table in tables]
        return StochasticPolicies.of_checked(tables, K, m, False, self.names)

    @property
    def looked_up(self) -> bool:
        """They stand in tables."""
        return True

    def extended(self, policy: Any, name: str) -> PolicySet:
        """The same with one more at the end, a table like the others."""
        if policy is None or callable(getattr(policy, "predict", None)):
            raise InputError(
                "beside candidates that are given by probabilities a further one must be given so too: an array "
                "(contexts, items)."
            )
        table, placed = _checked(policy, self._n_items, self.list_size, len(self.tables))
        if (placed, *table.shape) != (self.placed, *self.tables[0].shape):
            raise InputError("probabilities of all candidates must have one shape: contexts, items, and places if any.")
        names = _check_names([*self.names, name], len(self.names) + 1)
        return StochasticPolicies.of_checked([*self.tables, table], self._n_items, self.list_size, placed, names)

    def subset(self, indices: ArrayLike) -> PolicySet:
        """The policies at `indices`, under their names."""
        which = self._which(np.asarray(indices))
        tables, names = [self.tables[i] for i in which], tuple(self.names[i] for i in which)
        made = StochasticPolicies.of_checked(tables, self._n_items, self.list_size, self.placed, names)
        return made.in_places() if self._pairs else made

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Refused: there is no one list."""
        raise InputError(NO_LIST)

    def inclusion(self, X: Contexts, rows: NDArray[Any], actions: NDArray[Any]) -> NDArray[np.float64]:
        """π_j(y_e | x) for events of rows of X, (E, P)."""
        if self.placed and not self._pairs:
            return self.anywhere().inclusion(X, rows, actions)
        numbers = check_context_ids(X, self.tables[0].shape[0])[rows]
        inside = np.asarray(actions) < self._n_actions
        found = np.zeros((len(numbers), len(self.tables)))
        at = numbers[inside], np.asarray(actions)[inside]
        for j, table in enumerate(self.tables):
            found[inside, j] = np.asarray(table[at]).ravel()
        return found

    def mixed(
        self, X: Contexts, items: NDArray[np.int32], weights: NDArray[np.float64], which: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Σ_j weights[j]·π_j(y | x) over the policies at `which`, for some items (n, k) of each context."""
        numbers = check_context_ids(X, self.tables[0].shape[0])[:, None]
        total, own = np.zeros(items.shape), self.tables
        for weight, j in zip(weights.tolist(), which.tolist(), strict=True):
            if items.size:
                total += weight * np.asarray(own[j][np.broadcast_to(numbers, items.shape), items].todense())
        return total

    def support_of(self, X: Contexts, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """All items that some of the policies at `which` may show, (n, k), rising, the last repeated."""
        numbers = check_context_ids(X, self.tables[0].shape[0])
        own = self.tables
        total = sp.csr_array((len(numbers), self._n_items))
        for j in which.tolist():
            total = total + own[j][numbers]
        total.sort_indices()
        lengths = np.diff(total.indptr)
        place = np.minimum(np.arange(max(int(lengths.max(initial=1)), 1)), np.maximum(lengths - 1, 0)[:, None])
        return np.asarray(total.indices[total.indptr[:-1, None] + place], dtype=np.int32)

    def drawn(self, X: Contexts, who: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int32]:
        """For each context a list (n, m) of policy who[i], by one number u[i] in [0, 1): systematic sampling, which
        shows y with probability π(y|x) exactly.

        Its probabilities, laid end to end, fill [0, m); the items at u, u + 1, …, u + m − 1 are shown. As none is
        longer than 1, none is met twice.
        """
        numbers, own, m = check_context_ids(X, self.tables[0].shape[0]), self.tables, self.list_size
        lists = np.empty((len(numbers), m), dtype=np.int32)
        for j in np.unique(who).tolist():
            mine = np.flatnonzero(who == j)
            rows = own[j][numbers[mine]]
            lengths = np.diff(rows.indptr)
            place = np.arange(int(lengths.max()))
            inside = place < lengths[:, None]
            at = rows.indptr[:-1, None] + np.minimum(place, lengths[:, None] - 1)
            ends = np.cumsum(np.where(inside, rows.data[at], 0.0), axis=1)
            ends *= m / ends[:, -1:]
            before = np.full(len(mine), -1)
            for k in range(m):
                found = (ends <= u[mine, None] + k).sum(axis=1)
                # Rounding may meet an item of probability 1 twice, or pass the end: not more than m − k stay behind it.
                before = np.minimum(np.maximum(found, before + 1), lengths - (m - k))
                lists[mine, k] = rows.indices[rows.indptr[:-1] + before]
        return lists

    def digest(self, X: Contexts, j: int, before: np.uint64) -> np.uint64:
        """Of the probabilities that policy j has for some contexts, after a digest of others."""
        rows = self.tables[j][check_context_ids(X, self.tables[0].shape[0])]
        rows.sort_indices()
        parts = (before.tobytes(), *(np.ascontiguousarray(one).tobytes() for one in (rows.indptr.astype("<i8"),)))
        whole = b"".join((*parts, rows.indices.astype("<i8").tobytes(), rows.data.astype("<f8").tobytes()))
        return np.uint64(int.from_bytes(blake2b(whole, digest_size=8).digest(), "little"))

    def expected(self, X: Contexts, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_y π(y|x)·score(x, y), (n, P), for scores (n, K) of all items."""
        own, numbers = self.anywhere(), check_context_ids(X, self.tables[0].shape[0])
        parts = [np.asarray(table[numbers].multiply(scores).sum(axis=1)).ravel() for table in own.tables]
        return np.stack(parts, axis=1)

    def incidence(
        self,
        X: Contexts,
        rows: NDArray[np.int64],
        actions: NDArray[np.int32],
        indices: ArrayLike | None = None,
        *,
        once: bool = False,
    ) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Blocks of (numbers of events, probabilities (E, P) that their items are shown)."""
        which = self._which(indices)
        step = max(1, _EVENTS // len(which))
        order = np.argsort(rows, kind="stable")
        for start in range(0, len(order), step):
            events = order[start : start + step]
            yield events, self.inclusion(X, rows[events], actions[events])[:, which]


NO_LIST = (
    "candidates that are given by probabilities show no one list, which is needed here: give lists, such as the most "
    "likely items of each. Such candidates can be evaluated, mixed and designed for, and certifying learners take them."
)


def check_drawable(problem: Problem, policies: PolicySet) -> None:
    """Refuse a page where no list can be drawn by the probabilities of its items, and probabilities by which none can
    be drawn.
    """
    reading = reading_of(problem)
    if reading.TOTAL:
        raise InputError(
            "a total is that of a whole list, and the probabilities of items do not say how likely a list is: give "
            "candidates' lists, or a problem with the rewards of items."
        )
    if not reading.SETS or reading.natural:
        what = "order" if reading.SETS else "places"
        raise InputError(
            "candidates that are given by the probabilities of items draw a set of them, and where each stands is left "
            f"to chance: leave {what} out of the problem, or give candidates' lists; only a log can be evaluated with "
            "probabilities of items in places."
        )
    if isinstance(policies, StochasticPolicies) and policies.placed:
        raise InputError(
            "lists are drawn by the probability that an item is in the list, (contexts, items), and these are of items "
            "in places: give policies.anywhere()."
        )
    for table, name in zip(getattr(policies, "tables", ()), policies.names, strict=True):
        if table.data.max(initial=0.0) > 1:
            raise InputError(
                f"the probabilities of {name!r} over all places sum to more than 1 for some item: a list by them would "
                "hold an item twice."
            )


def _checked(given: Any, K: int, m: int, number: int) -> tuple[Any, bool]:
    """One candidate's table as (N, K) or (N, K·m), and whether it is per place."""
    table = given if sp.issparse(given) else np.asarray(given, dtype=np.float64)
    placed = table.ndim == 3
    if table.ndim not in (2, 3) or table.shape[1:] not in ((K,), (K, m)):
        raise InputError(
            f"probabilities must have shape (contexts, {K}) or (contexts, {K}, {m}), got {table.shape} of candidate "
            f"{number}."
        )
    flat = sp.csr_array(table.reshape(len(table), K * m) if placed else table, dtype=np.float64, copy=True)
    flat.sum_duplicates()
    flat.eliminate_zeros()
    values = flat.data
    if not (np.isfinite(values).all() and (values >= 0).all() and (values <= 1 + _TOLERANCE).all()):
        raise InputError(f"probabilities must lie in [0, 1], got others of candidate {number}.")
    sums = np.asarray(flat.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - m) > _TOLERANCE * max(m, 1))
    if len(wrong):
        raise InputError(
            f"a list of {m} shows {m} items, so its probabilities must sum to {m}; those of candidate {number} for "
            f"context {wrong[0]} sum to {sums[wrong[0]]:.6g}."
        )
    if placed:
        in_place = np.asarray(table).sum(axis=1)
        if (np.abs(in_place - 1) > _TOLERANCE).any():
            raise InputError(f"in each place the probabilities must sum to 1, got others of candidate {number}.")
        return flat, placed
    return _exact(flat, m), placed


def _exact(flat: Any, m: int) -> Any:
    """Rows that sum to m up to rounding, with nothing above 1, where they were written down with fewer digits."""
    for _ in range(_ROUNDS_OF_SCALING):
        np.minimum(flat.data, 1.0, out=flat.data)
        full = flat.data == 1.0
        of_row = np.repeat(np.arange(flat.shape[0]), np.diff(flat.indptr))
        certain = np.bincount(of_row[full], minlength=flat.shape[0])
        rest = np.bincount(of_row[~full], flat.data[~full], minlength=flat.shape[0])
        off = np.abs(certain + rest - m) > _ROUNDING * m
        if not off.any():
            break
        scale = np.where(off & (rest > 0), (m - certain) / np.where(rest > 0, rest, 1.0), 1.0)
        flat.data[~full] *= scale[of_row[~full]]
    return flat
