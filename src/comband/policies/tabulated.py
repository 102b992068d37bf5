"""Lists that were computed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.inputs import as_input
from comband._kernels.records import all_below
from comband.page.contexts import Contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, check_problem


class TabulatedPolicy:
    """Show the list stored for a context; contexts are the row numbers of the table. −1 stands for a place without an
    action: see `PolicySet` for what is shown there.

    Parameters
    ----------
    lists:
        (N, m) the list of each context.
    problem:
        K and m.

    >>> policy = TabulatedPolicy([[0, 1], [2, 0]], Problem(n_actions=3, list_size=2))
    >>> policy.predict([1, 1, 0]).tolist()
    [[2, 0], [2, 0], [0, 1]]
    """

    def __init__(self, lists: ArrayLike, problem: Problem) -> None:
        self.problem = check_problem(problem, places=True)
        self.lists = check_lists(lists, problem, gaps=True)

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return self.lists[check_context_ids(X, len(self.lists))]


class Tables(Sequence[TabulatedPolicy]):
    """Policies of one table (P, N, m), checked as a whole; each is made when it is first looked at."""

    def __init__(self, lists: NDArray[Any], problem: Problem) -> None:
        self.problem = check_problem(problem, places=True)
        self._made: dict[int, TabulatedPolicy] = {}  # a policy is the same object whenever it is looked at
        P, N, m = lists.shape
        try:
            self.lists = check_lists(lists.reshape(P * N, m), problem, gaps=True).reshape(P, N, m)
        except InputError:
            for rows in lists:  # says which row of its policy's table is at fault
                TabulatedPolicy(rows, problem)
            raise

    def __len__(self) -> int:
        return len(self.lists)

    @overload
    def __getitem__(self, index: int) -> TabulatedPolicy: ...
    @overload
    def __getitem__(self, index: slice) -> list[TabulatedPolicy]: ...
    def __getitem__(self, index: int | slice) -> TabulatedPolicy | list[TabulatedPolicy]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[index]
        if i not in self._made:
            policy = object.__new__(TabulatedPolicy)
            policy.problem, policy.lists = self.problem, self.lists[i]
            self._made.setdefault(i, policy)
        return self._made[i]


def check_context_ids(X: Contexts, n_known: int) -> NDArray[np.int64]:
    """Contexts as row numbers of a table of `n_known` rows."""
    try:
        ids = np.asarray(X)
    except (TypeError, ValueError, OverflowError):
        ids = np.empty((), dtype=object)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InputError(
            "the contexts of tabulated policies must be whole numbers (row numbers of the table), "
            f"got an array of shape {ids.shape} and dtype {ids.dtype}."
        )
    if ids.dtype == np.int64 and all_below(as_input(ids), n_known):
        return ids
    if len(ids) and (ids.min() < 0 or ids.max() >= n_known):
        wrong = ids[(ids < 0) | (ids >= n_known)][0]
        raise InputError(f"context {wrong} is not in the table, which has rows 0 … {n_known - 1}.")
    return ids.astype(np.int64, copy=False)
