"""How much each token may ask for: requests per second, requests at once, and bytes of bodies for all together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from comband.serve.bounds import Bounds
from comband.serve.problems import RefusedError


class Admission:
    """Lets requests in, within bounds; used by one event loop.

    Parameters
    ----------
    bounds:
        How many, and how large.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._due: dict[str, float] = {}  # when the next request of a token would come at an even pace
        self._at_once: dict[str, int] = {}
        self._bytes = 0

    @contextmanager
    def request(self, token: str) -> Iterator[None]:
        """A request of a token, as long as the block lasts; `RefusedError` if there are too many."""
        self.enter(token)
        try:
            yield
        finally:
            self.leave(token)

    def enter(self, token: str) -> None:
        """A request of a token begins; `RefusedError` if there are too many."""
        now, rate, most = time.monotonic(), self._bounds.max_rate_per_token, self._bounds.max_requests_per_token
        due = max(self._due.get(token, 0.0), now)
        if due - now > max(0.0, 1.0 - 0.5 / rate):  # half a step aside: sums of steps are rounded
            raise RefusedError(
                429,
                f"A token may make {rate:g} requests per second; send batches.",
                retry_after=str(max(1, math.ceil(due - now - 1.0))),
            )
        if self._at_once.get(token, 0) >= most:
            raise RefusedError(429, f"A token may have {most:,} requests under way at once.", retry_after="1")
        self._due[token] = due + 1 / rate
        self._at_once[token] = self._at_once.get(token, 0) + 1

    def leave(self, token: str) -> None:
        """It is answered."""
        self._at_once[token] -= 1
        if not self._at_once[token]:
            del self._at_once[token]

    def take(self, size: int) -> None:
        """So many bytes of a body came; `RefusedError` if there are too many of all requests."""
        if self._bytes + size > self._bounds.max_bodies:
            raise RefusedError(503, "Too much is being received at once; try again.", retry_after="1")
        self._bytes += size

    def give_back(self, size: int) -> None:
        """So many bytes are used up."""
        self._bytes -= size
