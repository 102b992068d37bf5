"""Candidates of which nothing is known but the lists that a request brings along."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts
from comband.page.problem import InputError, Problem, check_problem, refuse_masked
from comband.policies.base import Policy
from comband.policies.fallback import Fallback, filled
from comband.policies.policy_set import PolicySet


class RequestedList:
    """What one of the candidates would show: a row of the context."""

    def __init__(self, requested: RequestedLists, index: int) -> None:
        self.problem, self._requested, self._index = requested.problem, requested, index

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return np.ascontiguousarray(self._requested.tables(X)[:, self._index])


class RequestedLists(PolicySet):
    """P candidates whose lists come with each request: a context *is* the table (P, m) of lists, a batch (n, P, m).
    Where candidates may join later, give all tables as many rows as there may ever be, −1 in rows without a candidate.

    Any learner takes such a set as it is. Rankers may run wherever they like; which list a candidate would have shown
    in a round is all that the evidence needs to know about it. Numbers of items need a meaning only within one context,
    since candidates are compared on the same rounds: number the items of each request anew, and K = P·m is enough; the
    numbers of a large catalogue, below 2³¹, cost no more.

    Learners that mix in uniform lists (`UniformLists`, more candidates than `AdaptiveComband.max_evaluated`) show items
    that no candidate asked for, which only makes sense where numbers do have a meaning of their own.

    Parameters
    ----------
    names:
        One distinct name for each candidate.
    problem:
        The setting.
    fallback:
        What is shown in places that are empty, −1: of a candidate that did not answer in time, say; as for `PolicySet`.
        A ranker that is late now and then is no function of the user, but it is one of what it proposed.

    >>> requested = RequestedLists(["a", "b"], Problem(n_actions=4, list_size=2))
    >>> requested.predict([[[0, 1], [2, 1]]], [1]).tolist()
    [[[2, 1]]]
    """

    def __init__(self, names: Sequence[str], problem: Problem, *, fallback: Fallback = None) -> None:
        self.problem = check_problem(problem, places=True)
        super().__init__([RequestedList(self, i) for i in range(len(names))], names, fallback=fallback)

    def subset(self, indices: ArrayLike) -> PolicySet:
        """Refused: a context holds the lists of all."""
        raise InputError("candidates whose lists come with the request cannot be taken apart; ask for some by indices.")

    def extended(self, policy: Policy | None, name: str) -> RequestedLists:
        """The same with one candidate more, whose lists come in the next row of the tables."""
        if policy is not None:
            raise InputError("the lists of a further candidate come with the request: give no policy.")
        if self.fallback is None:
            raise InputError("where candidates come later there must be a fallback: older requests are without them.")
        return RequestedLists([*self.names, name], self.problem, fallback=self.fallback)

    def predict(
        self, X: Contexts, indices: ArrayLike | None = None, *, problem: Problem | None = None
    ) -> NDArray[np.int32]:
        """Lists (n, P, m) of all candidates, or (n, len(indices), m) of some."""
        tables = self.tables(X)
        if indices is not None:
            tables = np.ascontiguousarray(tables[:, self._which(indices)])
        elif tables.shape[1] > len(self):
            tables = np.ascontiguousarray(tables[:, : len(self)])
        if problem is not None and tables.size and int(tables.max()) >= problem.n_actions:
            raise InputError(f"a list holds item {int(tables.max())}, but items lie in 0 … {problem.n_actions - 1}.")
        if tables.size and int(tables.min()) < 0:
            chosen = range(len(self)) if indices is None else self._which(indices)
            tables = filled(X, tables, self.fallback, [self.names[i] for i in chosen])
        return tables

    def tables(self, X: Contexts) -> NDArray[np.int32]:
        """The tables (n, P, m) of these contexts."""
        refuse_masked("contexts", X)
        try:
            tables = np.asarray(X)
        except (TypeError, ValueError, OverflowError):
            tables = np.empty(0, dtype=object)
        shape = (len(self), self.problem.list_size)
        fits = tables.ndim == 3 and tables.shape[1] >= shape[0] and tables.shape[2] == shape[1]
        if not fits or tables.dtype.kind not in "iu":
            few = tables.ndim == 3 and tables.shape[1] < shape[0]
            hint = "; where candidates join later, give tables rows for all there may ever be, −1 in those without one"
            raise InputError(
                f"contexts must be tables (n, {shape[0]}, {shape[1]}) of the candidates' lists, got an array of shape "
                f"{tables.shape} and dtype {tables.dtype}{hint if few else ''}."
            )
        if tables.size and (int(tables.min()) < -1 or int(tables.max()) >= self.problem.n_actions):
            raise InputError(
                f"items must lie in 0 … {self.problem.n_actions - 1}, got {int(tables.min())} … {int(tables.max())}."
            )
        return np.asarray(tables, dtype=np.int32, order="C")
