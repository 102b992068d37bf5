"""HTTP connections that cost little until a whole request is there.

A head may be only so large and take only so long, a whole request likewise; when there are too many connections the one
that has waited longest without a request makes room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from comband.serve.bounds import Bounds
from comband.serve.problems import problem


def bounded(bounds: Bounds) -> type[asyncio.Protocol]:
    """The class of connections within these bounds; those of one class make room for one another."""
    silent: dict[BoundedProtocol, None] = {}  # in the order in which they began to wait
    return type("Bounded", (BoundedProtocol,), {"bounds": bounds, "silent": silent})


class BoundedProtocol(HttpToolsProtocol):
    """A connection; see `bounded`."""

    bounds: Bounds
    silent: dict[BoundedProtocol, None]

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._in_head, self._head_bytes, self._is_refused = True, 0, False
        self._timer: asyncio.TimerHandle | None = None

    # ---- the connection ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it if there is room, or can be."""
        if len(self.connections) >= self.bounds.max_connections:
            oldest = next(iter(self.silent), None)
            if oldest is not None:
                oldest.give_up()
        super().connection_made(transport)
        if len(self.connections) > self.bounds.max_connections:
            self._refuse(503, "There are too many connections; use fewer, and keep them.", {"retry-after": "1"})
            return
        self.silent[self] = None
        self._set_timer(self.bounds.head_timeout, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.silent.pop(self, None)
        self._set_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came, not too many before the end of a head."""
        if self._is_refused:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.bounds.max_head:
            self._head_is_large()

    def give_up(self) -> None:
        """Make room for another connection."""
        self.silent.pop(self, None)
        self.connections.discard(self)
        self._is_refused = True
        self.transport.abort()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A head begins."""
        if self._timer is None:
            self._set_timer(self.bounds.head_timeout, self._head_is_late)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self._is_refused:
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > self.bounds.max_head:
            self._head_is_large()
            return
        self._in_head = False
        self.silent.pop(self, None)
        self._set_timer(self.bounds.receive_timeout, self._body_is_late)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request is there, and another one may follow."""
        if self._is_refused:
            return
        self._set_timer()
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered."""
        super().on_response_complete()
        if self._in_head and not self.transport.is_closing():
            self.silent[self] = None

    # ---- what is too much --------------------------------------------------------------------------------------------

    def _set_timer(self, seconds: float = 0.0, call: Callable[[], None] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if call is None else self.loop.call_later(seconds, call)

    def _head_is_late(self) -> None:
        self._refuse(408, f"The head of a request must be there within {self.bounds.head_timeout:g} s.")

    def _head_is_large(self) -> None:
        self._refuse(431, f"The head of a request may have at most {self.bounds.max_head:,} bytes.")

    def _body_is_late(self) -> None:
        """Tell the request's handler that the connection is gone."""
        self._is_refused = True
        self.transport.close()

    def _refuse(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._set_timer()
        self.silent.pop(self, None)
        if self.cycle is None or self.cycle.response_complete:  # else an answer is under way
            response = problem(status, detail, {**(headers or {}), "connection": "close"})
            head = [f"HTTP/1.1 {status} Refused".encode(), *(b": ".join(pair) for pair in response.raw_headers)]
            self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()
