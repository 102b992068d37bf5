"""Propensities for lists that were drawn slot by slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.problem import InputError, as_floats


def sequential_propensities(conditional: ArrayLike) -> NDArray[np.float64]:
    """What to divide rewards by when only p_k = P(a_k | x, a_1 … a_{k−1}) was logged, for (n, m) shown actions.

    The probability that an action is *anywhere* in such a list would need the distributions of all the lists that were
    not drawn. An unbiased weight needs only what was logged: an action shown in slot k of m gets

        w = 1/(m p_k) + (m − k)/m.

    Given what came before, slot j shows a still unused action y with probability p_j, so y's 1/(m p_j) there is worth
    1/m in expectation; if y was used up before slot j, the second term has paid that 1/m already. Over the m slots
    E[w(y) 1[y shown]] = 1, for every y that each slot could show. The result is 1/w, which may exceed 1.

    Parameters
    ----------
    conditional:
        (n, m) the probability of each shown item in its slot, given those in the slots above.

    >>> sequential_propensities([[0.5, 0.25]]).tolist()
    [[0.6666666666666666, 0.5]]
    """
    p = as_floats("conditional", conditional)
    if p.ndim != 2:
        raise InputError(f"conditional propensities must have shape (n, m), got {p.shape}.")
    m = p.shape[1]
    with np.errstate(
        divide="ignore", over="ignore", invalid="ignore"
    ):  # zeros and NaN are refused by the caller, row by row
        weights = 1 / (m * p) + (m - 1 - np.arange(m)) / m
        return np.asarray(1 / weights, dtype=np.float64)
