"""Many requests, one commit: a thread that decides and writes whatever has come up while it was writing.

A request is answered once what it asks for is durable. If a transaction fails its parts are tried one by one, so that
one that cannot be written does not take others along.

Where the store locks rows, an experiment whose row is held elsewhere is put aside: a thread of its own waits for it,
and the others go on. Whatever waits is bounded in number and in time; what was given up is not written any more.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comband.serve.bounds import Bounds
from comband.serve.database import BusyError, CutError, LateError, LockedError, StoreError, UnavailableError
from comband.serve.deciding import Asked, Made, decide_by_periods, draw
from comband.serve.journal import Journal, NewRewards, Receipt

_MOST = 1024  # waiting items in one transaction
_BRIEFLY = 0.2  # seconds that all wait for a row before its experiment is put aside
_ASIDE = 8  # experiments that can be waited for at once
_LINGER = 5.0  # seconds without requests after which one that was put aside is tried with the others again
_Result = TypeVar("_Result")
_log = logging.getLogger("comband.serve")


@dataclass(slots=True)
class _Item:
    """A pending request; `experiment` says for which, if it is for one alone."""

    asked: Asked | None = None
    rewards: Sequence[NewRewards] = ()
    call: Callable[[Journal], Any] | None = None
    experiment: int | None = None
    future: Future[Any] = field(default_factory=Future)
    loop: asyncio.AbstractEventLoop | None = None
    waiter: asyncio.Future[Any] | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether its request waits no more."""
        return self.waiter.done() if self.waiter is not None else self.future.done()


_Done = list[tuple[_Item, Any]]


class Writer:
    """The one writer of a process.

    Parameters
    ----------
    journal:
        What it writes to.
    bounds:
        How many may wait for it, and how long.
    """

    def __init__(self, journal: Journal, bounds: Bounds | None = None) -> None:
        self._journal, self._bounds = journal, bounds or Bounds()
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._aside: dict[int, _Aside] = {}
        self._lock = threading.Lock()
        self._deadlines: dict[asyncio.AbstractEventLoop, Deadlines] = {}
        self._thread = threading.Thread(target=self._run, name="comband-writer", daemon=True)
        self.commits = 0
        self._thread.start()

    async def decide(self, asked: Asked) -> list[Made]:
        """Decisions, durable; in parts where a period ends among them."""
        return await self._wait(_Item(asked=asked, experiment=asked.experiment.id))  # type: ignore[no-any-return]

    async def reward(self, new: Sequence[NewRewards]) -> list[Receipt]:
        """Rewards of one experiment, durable."""
        return await self._wait(_Item(rewards=new, experiment=new[0].experiment if new else None))  # type: ignore[no-any-return]

    async def call_soon(self, call: Callable[[Journal], _Result], experiment: int | None = None) -> _Result:
        """Whatever else is to be written, maybe for one experiment alone, in a transaction of its own."""
        return await self._wait(_Item(call=call, experiment=experiment))  # type: ignore[no-any-return]

    def call(self, call: Callable[[Journal], _Result]) -> _Result:
        """The same for threads: waits, but for no row that another process holds."""
        item = _Item(call=call)
        self._queue.put(item)
        try:
            return item.future.result(timeout=self._bounds.answer_timeout)  # type: ignore[no-any-return]
        except TimeoutError:
            item.future.cancel()
            raise LateError(f"nothing was written within {self._bounds.answer_timeout:g} s") from None

    def close(self, within: float = 30.0) -> None:
        """Write what waits, and stop; what takes longer is broken off."""
        end = time.monotonic() + within
        with self._lock:
            threads = [self._thread, *(one.thread for one in self._aside.values())]
            for waiting in (self._queue, *(one.queue for one in self._aside.values())):
                waiting.put(None)
        for thread in threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            _log.warning("what was being written is broken off")
            self._journal.database.interrupt()

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return self._queue.qsize() + sum(one.queue.qsize() for one in tuple(self._aside.values()))

    async def _wait(self, item: _Item) -> Any:
        waiting = self.waiting
        if waiting >= self._bounds.max_waiting:
            raise BusyError(f"{waiting} requests wait already")
        item.loop = asyncio.get_running_loop()
        item.waiter = item.loop.create_future()
        self._deadlines_of(item.loop).watch(item.waiter)
        self._put(item)
        return await item.waiter

    def _deadlines_of(self, loop: asyncio.AbstractEventLoop) -> Deadlines:
        found = self._deadlines.get(loop)
        if found is None:
            seconds, open_ = self._bounds.answer_timeout, [one for one in self._deadlines if not one.is_closed()]
            found = Deadlines(loop, seconds, f"nothing was written within {seconds:g} s")
            self._deadlines = {**{one: self._deadlines[one] for one in open_}, loop: found}
        return found

    def _put(self, item: _Item) -> None:
        if self._aside:
            with self._lock:
                aside = None if item.experiment is None else self._aside.get(item.experiment)
                if aside is not None:
                    aside.queue.put(item)
                    return
        self._queue.put(item)

    def _run(self) -> None:
        database = self._journal.database
        if database.LOCKS_ROWS:
            database.wait_for_locks(_BRIEFLY)
        stop, several = False, False
        while not stop:
            items, stop = _waiting(self._queue)
            if several and not stop:  # under load: fewer and larger commits, and the loop reads requests meanwhile
                time.sleep(self._bounds.commit_delay)
                more, stop = _waiting(self._queue, 0.0)
                items += more
            several = len(items) > 2
            self._tell(self._written(items, self._put_aside if database.LOCKS_ROWS else None))

    def _written(self, items: Sequence[_Item], locked: Callable[[int, list[_Item]], _Done] | None) -> _Done:
        """Write them; with `locked`, what waits for a row of an experiment is handed over to it."""
        done: _Done = []
        together: dict[int | None, list[_Item]] = {}
        for item in items:
            if item.call is None and not item.is_given_up:
                together.setdefault(item.experiment, []).append(item)
        if together:
            done += self._commit_together(together, locked)
        for item in items:
            if item.call is not None and not item.is_given_up:
                made = self._alone(item)
                if locked is not None and item.experiment is not None and isinstance(made[1], LockedError):
                    done += locked(item.experiment, [item])
                else:
                    done.append(made)
        return done

    def _commit_together(
        self,
        groups: dict[int | None, list[_Item]],
        locked: Callable[[int, list[_Item]], _Done] | None,
    ) -> _Done:
        items = [item for group in groups.values() for item in group]
        try:
            try:
                return self._commit(items)
            except CutError:  # again, even if it is in: decisions are known by their request, rewards by their item
                return self._commit(items)
        except UnavailableError as error:
            if locked is None or not isinstance(error, LockedError):
                return _failed(items, error)
            if len(groups) > 1:  # whose row it is
                return [
                    one
                    for experiment, group in groups.items()
                    for one in self._commit_together({experiment: group}, locked)
                ]
            experiment = items[0].experiment
            return _failed(items, error) if experiment is None else locked(experiment, items)
        except Exception as error:
            return _failed(items, error) if len(items) == 1 else [self._alone(item) for item in items]

    def _commit(self, items: Sequence[_Item]) -> _Done:
        waiting: dict[tuple[int, int], list[Asked]] = {}  # by experiment and plan
        where: list[tuple[int, int]] = []  # in which of these, and after how many requests of it
        sizes: dict[tuple[int, int], int] = {}
        for item in items:
            if item.asked is not None and item.asked.experiment.spec.period == 1:
                key = (item.asked.experiment.id, id(item.asked.plan))
                waiting.setdefault(key, []).append(item.asked)
                where.append((list(waiting).index(key), sizes.get(key, 0)))
                sizes[key] = sizes.get(key, 0) + len(item.asked.requests)
        drawn = [draw(asked) for asked in waiting.values()]
        rewards = [one for item in items for one in item.rewards]
        with self._journal.database.transaction():
            stored = self._journal.decide(drawn) if drawn else []
            by_periods = {
                id(item): decide_by_periods(item.asked, self._journal)
                for item in items
                if item.asked is not None and item.asked.experiment.spec.period > 1
            }
            receipts = iter(self._journal.reward(rewards) if rewards else ())
        self.commits += 1
        made: _Done = []
        places = iter(where)
        for item in items:
            if item.asked is None:
                made.append((item, [next(receipts) for _ in item.rewards]))
            elif id(item) in by_periods:
                made.append((item, by_periods[id(item)]))
            else:
                which, first = next(places)
                n = len(item.asked.requests)
                made.append((item, [Made(item.asked.plan, drawn[which], stored[which], first, n)]))
        return made

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

    # ---- experiments that are put aside ------------------------------------------------------------------------------

    def _put_aside(self, experiment: int, items: list[_Item]) -> _Done:
        """Let a thread of its own wait for an experiment's row; what cannot be waited for has failed."""
        with self._lock:
            aside = self._aside.get(experiment)
            if aside is None:
                if len(self._aside) >= _ASIDE:
                    return _failed(items, LockedError("a row of this experiment is locked, as are those of others"))
                thread = threading.Thread(
                    target=self._run_aside, args=(experiment,), name="comband-writer-aside", daemon=True
                )
                aside = self._aside[experiment] = _Aside(thread)
                thread.start()
            for item in items:
                aside.queue.put(item)
        _log.warning("a row is locked: the experiment is put aside", extra={"facts": {"experiment": experiment}})
        return []

    def _run_aside(self, experiment: int) -> None:
        aside, stop, is_well = self._aside[experiment], False, False
        try:
            while not stop:
                items, stop = _waiting(aside.queue, 0.0 if is_well else _LINGER)
                if not items:
                    with self._lock:
                        if aside.queue.empty():
                            break
                    continue
                done = self._written(items, None)
                is_well = not any(isinstance(result, UnavailableError) for _, result in done)
                self._tell(done)
        finally:
            with self._lock:
                self._aside.pop(experiment, None)
                left = _all_waiting(aside.queue)
            self._journal.database.leave()
            for item in left:
                self._queue.put(item)

    def _tell(self, done: _Done) -> None:
        """Wake those who wait, each loop once."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for item, result in done:
            if item.loop is not None and item.waiter is not None:
                by_loop.setdefault(item.loop, []).append((item.waiter, result))
            elif item.future.set_running_or_notify_cancel():
                if isinstance(result, Exception):
                    item.future.set_exception(result)
                else:
                    item.future.set_result(result)
        for loop, waiting in by_loop.items():
            try:
                loop.call_soon_threadsafe(_wake, waiting)
            except RuntimeError:  # the loop was closed: no request waits
                _log.warning("an answer came after its request had ended")


class Deadlines:
    """Gives up futures that wait for too long, by one timer for all: each costs an entry in a dictionary.

    Parameters
    ----------
    loop:
        Whose futures.
    seconds:
        How long is too long.
    words:
        What is said then, as a `LateError`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, words: str) -> None:
        self._loop, self._seconds, self._words = loop, seconds, words
        self._due: dict[asyncio.Future[Any], float] = {}  # in the order in which they came, which is that of their ends
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, waiter: asyncio.Future[Any]) -> None:
        """Give it up when its time has come; on the loop that it belongs to."""
        self._due[waiter] = self._loop.time() + self._seconds
        waiter.add_done_callback(self._forget)
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def _forget(self, waiter: asyncio.Future[Any]) -> None:
        self._due.pop(waiter, None)

    def _look(self) -> None:
        now = self._loop.time()
        for waiter, due in list(self._due.items()):
            if due > now:
                self._timer = self._loop.call_later(due - now, self._look)
                return
            if not waiter.done():
                waiter.set_exception(LateError(self._words))
        self._timer = None


@dataclass(eq=False, slots=True)
class _Aside:
    """An experiment that is waited for: its thread, and what came meanwhile."""

    thread: threading.Thread
    queue: queue.SimpleQueue[_Item | None] = field(default_factory=queue.SimpleQueue)


def _waiting(waiting: queue.SimpleQueue[_Item | None], timeout: float | None = None) -> tuple[list[_Item], bool]:
    """What waits by now, if need be after a while, and whether nothing comes any more."""
    items: list[_Item] = []
    try:
        item = waiting.get(timeout=timeout) if timeout != 0.0 else waiting.get_nowait()
        while item is not None:
            items.append(item)
            if len(items) == _MOST:
                return items, False
            item = waiting.get_nowait()
        return items, True
    except queue.Empty:
        return items, False


def _all_waiting(waiting: queue.SimpleQueue[_Item | None]) -> list[_Item]:
    found: list[_Item] = []
    while not waiting.empty():
        item = waiting.get_nowait()
        if item is not None:
            found.append(item)
    return found


def _failed(items: Sequence[_Item], error: Exception) -> _Done:
    if isinstance(error, StoreError):
        _log.error("the store failed", extra={"facts": {"error": str(error)}})
    return [(item, error) for item in items]


def _wake(waiting: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for waiter, result in waiting:
        if not waiter.done():
            if isinstance(result, Exception):
                waiter.set_exception(result)
            else:
                waiter.set_result(result)
