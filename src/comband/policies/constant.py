"""One list, the same for every context."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.contexts import Contexts, n_contexts
from comband.page.lists import check_lists
from comband.page.problem import InputError, Problem, check_problem, refuse_masked


class ConstantPolicy:
    """Show the same list whatever the context.

    Parameters
    ----------
    actions:
        (m,) what it shows.
    problem:
        K and m.

    >>> ConstantPolicy([2, 0], Problem(n_actions=3, list_size=2)).predict(["any", "context"]).tolist()
    [[2, 0], [2, 0]]
    """

    def __init__(self, actions: ArrayLike, problem: Problem) -> None:
        self.problem = check_problem(problem, places=True)
        refuse_masked("actions", actions)
        try:
            row = np.asarray(actions)[None]
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"actions must be one list of whole numbers, got {type(actions).__name__}.") from None
        self.list: NDArray[np.int32] = check_lists(row, problem)[0]

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return np.tile(self.list, (n_contexts(X), 1))
