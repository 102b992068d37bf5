"""Threads that read from the store for requests: so many at once, so many that wait, and for so long.

They are no threads of the event loop's own, which a process would wait for when it stops.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from comband.serve.database import BusyError, LateError

_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(eq=False, slots=True)
class _Call:
    """A call, and where its result is awaited."""

    run: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    waiter: asyncio.Future[Any]


class Readers:
    """A pool of threads.

    Parameters
    ----------
    name:
        What they do, for their names and for those who wait in vain.
    threads:
        How many calls run at once.
    waiting:
        How many wait beside these; more are refused with `BusyError`.
    timeout:
        How long a call may take with its waiting before `LateError`, in seconds; None: as long as it takes.
    """

    def __init__(self, name: str, *, threads: int, waiting: int, timeout: float | None) -> None:
        self._name, self._most, self._waiting, self._timeout = name, threads, waiting, timeout
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0  # calls that run or wait; only the event loop changes it

    async def run(
        self, call: Callable[_Arguments, _Result], *args: _Arguments.args, **more: _Arguments.kwargs
    ) -> _Result:
        """The result of a call that is made in one of the threads."""
        if self._busy >= self._most + self._waiting:
            raise BusyError(f"{self._busy} calls wait or are under way for {self._name}")
        loop = asyncio.get_running_loop()
        made = _Call(lambda: call(*args, **more), loop, loop.create_future())
        if len(self._threads) < min(self._most, self._busy + 1):
            self._threads.append(threading.Thread(target=self._work, name=f"comband-{self._name}", daemon=True))
            self._threads[-1].start()
        self._busy += 1
        made.waiter.add_done_callback(self._note_done)
        self._calls.put(made)
        try:
            async with asyncio.timeout(self._timeout):
                return await made.waiter  # type: ignore[no-any-return]
        except TimeoutError:
            raise LateError(f"{self._name}: no answer within {self._timeout:g} s") from None

    @property
    def busy(self) -> int:
        """Calls that run or wait."""
        return self._busy

    def close(self) -> None:
        """Let the threads end when their calls are done; waits for none of them."""
        for _ in self._threads:
            self._calls.put(None)

    def _note_done(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if call.waiter.done():  # given up meanwhile
                continue
            try:
                result, error = call.run(), None
            except BaseException as raised:
                result, error = None, raised
            try:
                call.loop.call_soon_threadsafe(_settle, call.waiter, result, error)
            except RuntimeError:  # the loop was closed: no request waits
                return


def _settle(waiter: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if not waiter.done():
        if error is None:
            waiter.set_result(result)
        else:
            waiter.set_exception(error)
