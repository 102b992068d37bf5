"""Arrays as kernels take them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def as_input(array: NDArray[_Scalar]) -> NDArray[Any]:
    """The same numbers, closed to writing: a kernel is compiled for one kind of array then, not once for records, which
    are closed, and once more for others.
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
