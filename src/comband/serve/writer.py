"""Many requests, one commit: a thread that decides and writes whatever has come up while it was writing.

Nobody is answered before what was asked for is durable. If a transaction fails its parts are tried one by one, so that
one that cannot be written does not take others along.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comband.serve.database import CutError
from comband.serve.deciding import Asked, draw
from comband.serve.journal import Journal, NewDecisions, NewRewards, Receipt, Stored

_MOST = 1024  # waiting items in one transaction
_Result = TypeVar("_Result")
_log = logging.getLogger("comband.serve")


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """What was drawn and stored for requests: from position `first` on, together with others."""

    drawn: NewDecisions
    stored: Stored
    first: int


@dataclass(slots=True)
class _Item:
    """What somebody waits for."""

    asked: Asked | None = None
    rewards: Sequence[NewRewards] = ()
    call: Callable[[Journal], Any] | None = None
    future: Future[Any] = field(default_factory=Future)
    loop: asyncio.AbstractEventLoop | None = None
    waiter: asyncio.Future[Any] | None = None


class Writer:
    """The one writer of a process.

    Parameters
    ----------
    journal:
        What it writes to.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="comband-writer", daemon=True)
        self.commits = 0
        self._thread.start()

    async def decide(self, asked: Asked) -> Made:
        """Decisions, durable."""
        return await self._wait(_Item(asked=asked))  # type: ignore[no-any-return]

    async def reward(self, new: Sequence[NewRewards]) -> list[Receipt]:
        """Rewards, durable."""
        return await self._wait(_Item(rewards=new))  # type: ignore[no-any-return]

    async def call_soon(self, call: Callable[[Journal], _Result]) -> _Result:
        """Whatever else is to be written, in a transaction of its own."""
        return await self._wait(_Item(call=call))  # type: ignore[no-any-return]

    def call(self, call: Callable[[Journal], _Result]) -> _Result:
        """The same for threads: waits."""
        item = _Item(call=call)
        self._queue.put(item)
        return item.future.result()  # type: ignore[no-any-return]

    def close(self) -> None:
        """Write what waits, and stop."""
        self._queue.put(None)
        self._thread.join(timeout=30)

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return self._queue.qsize()

    async def _wait(self, item: _Item) -> Any:
        item.loop = asyncio.get_running_loop()
        item.waiter = item.loop.create_future()
        self._queue.put(item)
        return await item.waiter

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            items, stop = [], item is None
            while item is not None:
                items.append(item)
                if len(items) == _MOST or self._queue.empty():
                    break
                item = self._queue.get()
                stop = item is None
            if items:
                self._write(items)
            if stop:
                return

    def _write(self, items: list[_Item]) -> None:
        done: list[tuple[_Item, Any]] = []
        together = [item for item in items if item.call is None]
        if together:
            try:
                done += self._commit(together)
            except Exception as error:
                # After a cut again even if it is one: decisions are known by their request, rewards by their item.
                if len(together) > 1 or isinstance(error, CutError):
                    done += [self._alone(item) for item in together]
                else:
                    done.append((together[0], error))
        done += [self._alone(item) for item in items if item.call is not None]
        self._tell(done)

    def _commit(self, items: list[_Item]) -> list[tuple[_Item, Any]]:
        waiting: dict[tuple[int, int], list[Asked]] = {}  # by experiment and plan
        where: list[tuple[int, int]] = []  # in which of these, and after how many requests of it
        sizes: dict[tuple[int, int], int] = {}
        for item in items:
            if item.asked is not None:
                key = (item.asked.experiment.id, id(item.asked.plan))
                waiting.setdefault(key, []).append(item.asked)
                where.append((list(waiting).index(key), sizes.get(key, 0)))
                sizes[key] = sizes.get(key, 0) + len(item.asked.requests)
        drawn = [draw(asked) for asked in waiting.values()]
        rewards = [one for item in items for one in item.rewards]
        with self._journal.database.transaction():
            stored = self._journal.decide(drawn) if drawn else []
            receipts = iter(self._journal.reward(rewards) if rewards else ())
        self.commits += 1
        made = iter([Made(drawn[which], stored[which], first) for which, first in where])
        return [(item, [next(receipts) for _ in item.rewards] if item.asked is None else next(made)) for item in items]

    def _alone(self, item: _Item) -> tuple[_Item, Any]:
        try:
            if item.call is None:
                return self._commit([item])[0]
            with self._journal.database.transaction():
                result = item.call(self._journal)
            self.commits += 1
            return item, result
        except Exception as error:
            return item, error

    def _tell(self, done: list[tuple[_Item, Any]]) -> None:
        """Wake those who wait, each loop once."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for item, result in done:
            if item.loop is not None and item.waiter is not None:
                by_loop.setdefault(item.loop, []).append((item.waiter, result))
            elif isinstance(result, Exception):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)
        for loop, waiting in by_loop.items():
            try:
                loop.call_soon_threadsafe(_wake, waiting)
            except RuntimeError:  # the loop was closed: nobody waits
                _log.warning("nobody waits for an answer any more")


def _wake(waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for waiter, result in waiting:
        if not waiter.done():
            if isinstance(result, Exception):
                waiter.set_exception(result)
            else:
                waiter.set_result(result)
