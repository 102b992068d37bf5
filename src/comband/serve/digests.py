"""Keyed hashes: of requests' ids, where their random numbers come from, and by which they are found again; and of
decisions' numbers, which show that their holder was given them.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def digests_of(seed: str, requests: Sequence[str]) -> NDArray[np.uint64]:
    """Two whole numbers for each request, (n, 2), by the experiment's secret seed."""
    key = bytes.fromhex(seed)
    raw = b"".join([blake2b(request.encode(), key=key, digest_size=16).digest() for request in requests])
    return np.frombuffer(raw, dtype="<u8").reshape(-1, 2)


def uniform_numbers(seed: str, requests: Sequence[str]) -> NDArray[np.float64]:
    """Two numbers in [0, 1) for each request, (n, 2)."""
    return uniform(digests_of(seed, requests))


def uniform(digests: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The numbers in [0, 1) of such digests."""
    return np.asarray((digests >> np.uint64(11)) * 2.0**-53)


def index_of(digests: NDArray[np.uint64]) -> list[int]:
    """By which the journal looks for requests: 63 bits of each, so that it is a number in any database."""
    return (digests[:, 0] >> np.uint64(1)).tolist()  # type: ignore[no-any-return]


_TICKET = re.compile(r"(0|[1-9][0-9]{0,12})\.([A-Za-z0-9_-]{22})")


def tickets_of(seed: str, numbers: Sequence[int]) -> list[str]:
    """For each decision a text that names it and that only the service can make, by the experiment's secret seed."""
    key = bytes.fromhex(seed)
    return [f"{number}.{_mark(key, str(number))}" for number in numbers]


def number_of(seed: str, ticket: str) -> int | None:
    """The decision that a ticket names; None if the service did not make it for this experiment."""
    parts = _TICKET.fullmatch(ticket)
    if parts is None or not hmac.compare_digest(_mark(bytes.fromhex(seed), parts[1]), parts[2]):
        return None
    return int(parts[1])


def _mark(key: bytes, number: str) -> str:
    mark = blake2b(number.encode(), key=key, digest_size=16, person=b"comband ticket")
    return urlsafe_b64encode(mark.digest())[:22].decode()
