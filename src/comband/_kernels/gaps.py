"""Lists with places that are empty: −1 stands for no action."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def fill_gaps(lists: NDArray[np.int32], rows: NDArray[np.int64], spare: NDArray[np.int32]) -> None:
    """Put the actions of `spare` (len(rows), m), in their order, into the empty places of lists[rows] (n, P, m), each
    unless the list has it already.
    """
    n, n_policies, m = lists.shape
    if spare.shape != (len(rows), m):
        raise IndexError("fill_gaps: a list of the same length for each row")
    for i in range(len(rows)):
        if not 0 <= rows[i] < n:
            raise IndexError("fill_gaps: a row is out of range")
        for p in range(n_policies):
            mine = lists[rows[i], p]
            following = 0
            for k in range(m):
                while mine[k] < 0 and following < m:
                    taken = False
                    for j in range(m):
                        taken |= mine[j] == spare[i, following]
                    if not taken:
                        mine[k] = spare[i, following]
                    following += 1
