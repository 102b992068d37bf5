"""Ports of this machine for servers that are stopped and started again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that the system gives to no other program as long as the block lasts.

    A socket that is bound and does not listen keeps it: a server that reuses addresses, as all of ours do, may listen
    there all the same, and while none does connections are refused.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
