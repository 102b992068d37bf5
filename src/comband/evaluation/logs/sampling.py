"""Which rounds of a log are kept, rewarded or not, to see what could be shown.

Rounds without ids are chosen by their number in the log. Rounds with ids are chosen by a hash of the id alone, so that
wherever rounds are held, in whatever order and however they are cut, the same are found: a file, a cluster or a
database. How many are chosen follows how many there are, up to the end of the round's *partition* (a day, say; the
whole log if it has none): at *level* k about one of 2^k.
"""

from __future__ import annotations

from hashlib import md5

import numpy as np
from numpy.typing import NDArray

from comband._kernels.logs import number_marks
from comband.page.catalogue import Keys, spelt_numbers

# All of the first rounds are kept, and from then on a share that falls like 1/t.
FIRST = 10_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# A mark is a number below 2^31, by arithmetic that every database does alike: products stay below 2^62.
PRIME = 2**31 - 1
MULTIPLIER = 1_327_217_885  # the golden section of the prime
NUMBERS_BELOW = 10**18  # larger numbers are marked as the text that spells them
HEX_DIGITS = 8  # of the MD5 of a text; the mark is half of the number that they spell


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


def sample_level(n_rounds: int) -> int:
    """At which level rounds are chosen by their ids, if there are `n_rounds` up to the end of their partition.

    Of n rounds between 10,000 and 20,000 are chosen, or all. A partition that comes later leaves the levels of those
    before it as they are: then, too, the sample of a longer log holds that of a shorter one.

    >>> [sample_level(n) for n in (0, 19_999, 20_000, 10**10)]
    [0, 0, 1, 19]
    """
    return max((n_rounds // FIRST).bit_length() - 1, 0)


def id_marks(ids: Keys) -> NDArray[np.int64]:
    """The hash of each id, from 0 to 2^31 − 1: the same for a number and for the text that spells it.

    >>> id_marks(np.array([7, 8])).tolist() == id_marks(np.array(["7", "8"], dtype=object)).tolist()
    True
    """
    if ids.dtype != object:
        marks = number_marks(np.ascontiguousarray(ids, dtype=np.int64), PRIME, MULTIPLIER)
        far = np.flatnonzero((ids >= NUMBERS_BELOW) | (ids <= -NUMBERS_BELOW))
        marks[far] = [_text_mark(str(one)) for one in ids[far]]
        return np.asarray(marks)
    numbers, spelt = spelt_numbers(ids)
    spelt &= np.abs(numbers) < NUMBERS_BELOW
    marks = number_marks(numbers, PRIME, MULTIPLIER)
    marks[~spelt] = [_text_mark(str(one)) for one in ids[~spelt]]
    return np.asarray(marks)


def mark_limit(level: int) -> int:
    """Rounds with marks below this are chosen at a level; at level 0 all are, whatever their mark."""
    return 2**31 if level == 0 else PRIME >> level


def _text_mark(text: str) -> int:
    return int(md5(text.encode(), usedforsecurity=False).hexdigest()[:HEX_DIGITS], 16) >> 1
