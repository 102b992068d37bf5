"""Candidates that draw their lists: given by the probability of each item, not by one list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_problem
from comband.policies.policy_set import PolicySet, _check_names
from comband.policies.tabulated import check_context_ids

_TOLERANCE = 1e-6  # that probabilities may miss their sums by, once they were written down
_EVENTS = 1 << 22  # events times policies at once


class StochasticPolicies(PolicySet):
    """Candidates that show item y for context x with probability π(y|x), by tables; contexts are row numbers.

    The value of such a candidate is V(π) = E Σ_y π(y|x)·r(x, y), and a log estimates it without drawing a list, by
    Σ_{y∈a_t} π(y|x_t)·r_t(y)/Q_t(y). For a list that is surely shown π(y|x) is 1 or 0, and both are what they are for a
    `PolicySet`. `evaluate`, `evaluate_log` and `usual_estimates` take them; learners, mixtures and designs need lists.

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
        self._blocks, self._sizes, self._surely = [], {}, None

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
        return StochasticPolicies.of_checked(tables, K, m, False, self.names)

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
    "candidates that are given by probabilities show no one list, so they can be evaluated, but not learnt with, mixed "
    "or designed for: give a learner lists, such as the most likely items of each, or some that were drawn."
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
    flat = sp.csr_array(table.reshape(len(table), K * m) if placed else table)
    flat.sum_duplicates()
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
