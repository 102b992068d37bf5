"""One list for everybody."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.contexts import Contexts, n_contexts
from comband.problem import Problem, check_lists


class ConstantPolicy:
    """Show the same list whatever the context.

    >>> ConstantPolicy([2, 0], Problem(n_actions=3, list_size=2)).predict(["any", "context"]).tolist()
    [[2, 0], [2, 0]]
    """

    def __init__(self, actions: ArrayLike, problem: Problem) -> None:
        self.problem = problem
        self.list: NDArray[np.int32] = check_lists(np.asarray(actions)[None], problem)[0]

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return np.tile(self.list, (n_contexts(X), 1))
