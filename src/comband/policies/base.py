"""What a policy is: a fixed function from contexts to lists."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from comband.page.contexts import Contexts


@runtime_checkable
class Policy(Protocol):
    """Shows m distinct actions for each context; −1 in a place says that it has none to show there (see `PolicySet`).

    It must be a function: the same context always gets the same list (break ties by a fixed rule, not by
    fresh random numbers), since propensities are computed by asking it again.

    >>> import numpy as np
    >>> import comband as cb
    >>> class Popular:
    ...     def predict(self, X):  # m distinct items for each context
    ...         return np.tile([3, 1], (len(X), 1))
    ...
    >>> isinstance(Popular(), cb.Policy)
    True
    >>> cb.PolicySet([Popular()]).predict(np.zeros((2, 5))).tolist()
    [[[3, 1]], [[3, 1]]]
    """

    def predict(self, X: Contexts, /) -> NDArray[np.integer[Any]]:
        """Lists (n, m) for n contexts."""
        ...
