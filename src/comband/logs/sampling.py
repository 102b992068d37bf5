"""Which rounds of a log are kept, rewarded or not, to see what could be shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# All of the first rounds are kept, and from then on a share that falls like 1/t.
FIRST = 10_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def in_sample(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether rounds number `rows` (from 0) belong to the sample: the first 10,000, and then a share 10,000/t.

    That depends on the number alone: not on what was shown or answered, not on how the log is cut into batches, and not
    on its length. The sample of a longer log begins with that of a shorter one, so that bounds which hold at all
    numbers of rounds at once keep doing so on the sample. Of n rounds 10,000·(1 + log(n/10,000)) are kept, spread
    evenly by Fibonacci hashing.

    >>> round(float(in_sample(np.arange(1_000_000)).sum()), -3)
    56000.0
    """
    numbers = np.asarray(rows).astype(np.uint64)
    spread = (numbers * _GOLDEN) >> np.uint64(11)  # 53 bits, exact as a double
    return np.asarray(spread.astype(np.float64) * 2.0**-53 * (numbers + np.uint64(1)) < FIRST)
