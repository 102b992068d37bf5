"""Random numbers that can be recomputed: a keyed hash of a secret seed and the number of the decision.

Word j of decision i is the j-th 64-bit word (little-endian) of BLAKE2b-512 digests with the secret as key, the decimal
digits of i as message, "comband numbers" as personalisation and ⌊j/8⌋, in eight bytes, as salt; a number in [0, 1) is
its upper 53 bits over 2^53. Word 0 says whether the decision is audited, words 1, 2, … are what its list is drawn with.
So a list depends on the secret, the plan and the candidates alone, however decisions are cut into batches; and the hash
of the secret, published beforehand, fixes all of them.
"""

from __future__ import annotations

from hashlib import blake2b, sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

SECRET_BYTES = 32
_PERSON = b"comband numbers"
_WORDS = 8  # of a digest


def seed_hash(secret: bytes) -> str:
    """What is published of a secret seed before it is used."""
    return sha256(b"comband seed" + secret).hexdigest()


def keyed_numbers(secret: bytes, ids: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) of some decisions, (n, 1 + width) at least: the first says whether it is audited.

    >>> numbers = keyed_numbers(b"secret", np.array([7, 8]), 2)
    >>> numbers.shape, bool((numbers[1] == keyed_numbers(b"secret", np.array([8]), 2)).all())
    ((2, 8), True)
    """
    salts = [block.to_bytes(8, "little") for block in range(-(-(1 + width) // _WORDS))]
    raw = b"".join(
        [
            blake2b(b"%d" % i, key=secret, digest_size=64, salt=salt, person=_PERSON).digest()
            for i in ids.tolist()
            for salt in salts
        ]
    )
    words = np.frombuffer(raw, dtype="<u8").reshape(len(ids), _WORDS * len(salts))
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


class KeyedNumbers(np.random.Generator):
    """A generator whose uniform numbers, asked for in rows or one each, are those of decisions from `first_id` on.

    An explorer that asks for anything else gets numbers of a stream that the secret and the first decision fix.

    >>> rows = KeyedNumbers(b"secret", 7).random((2, 3))
    >>> bool((rows[1] == KeyedNumbers(b"secret", 8).random((1, 3))).all())
    True
    """

    def __init__(self, secret: bytes, first_id: int) -> None:
        other = blake2b(b"%d" % first_id, key=secret, digest_size=16, person=b"comband others").digest()
        super().__init__(np.random.Philox(key=int.from_bytes(other, "little")))
        self._secret, self._next = secret, first_id

    def random(self, size: Any = None, *args: Any, **more: Any) -> Any:
        """Numbers (n, width) or (n,) of the next n decisions."""
        rows = size if isinstance(size, tuple) else (size,)
        if args or more or len(rows) > 2 or rows[0] is None:
            return super().random(size, *args, **more)
        n, width = rows[0], rows[1] if len(rows) == 2 else 1
        numbers = keyed_numbers(self._secret, np.arange(self._next, self._next + n), width)[:, 1 : 1 + width]
        self._next += n
        return numbers.copy() if len(rows) == 2 else numbers[:, 0].copy()
