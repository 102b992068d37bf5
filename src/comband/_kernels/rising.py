"""Places in rising numbers."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def end_of(values: Any, low: int, high: int, value: Any) -> int:
    """The place in values[low:high], which rise, after the last that is not above this one. numpy's own search takes
    four times as long to compile.
    """
    while low < high:
        middle = (low + high) // 2
        if value < values[middle]:
            high = middle
        else:
            low = middle + 1
    return low
