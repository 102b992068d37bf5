"""Parts on the workers of a Dask cluster."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker, as_completed, wait

from comband.cluster.work import Progress, Tally
from comband.page.problem import InputError
from comband.page.threads import on_this_thread

_WIDTH = 8  # so many are added up at a time
_CHAINS = 4  # for each worker: small enough that its threads share them, and to do again
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # what glibc's mallopt calls them
_BYTES = 64 << 20  # a list of parts that are looked at together; a worker may have put most of its parts on disk


class OnDask:
    """Parts are tasks, and stay on the workers that made them; a part that is lost with its worker is made again.

    Tasks are pure: they get paths and numbers, and what they return depends on nothing else. So it does not matter
    which worker runs them, in which order, how often, or how parts are grouped when they are added up.
    """

    def __init__(self, client: Client, progress: Progress | None = None) -> None:
        self.client = client
        self.tallies: dict[str, Tally] = {}
        self._progress = progress

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Future]:
        """See `Work`."""
        with _readable(self.client):
            futures = [self._submit(function, _then_give_back, function, item, *shared) for item in items]
            return self._finished(what, futures)

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        """See `Work`."""
        with _readable(self.client):
            sums: list[Any] = []
            for chain in self._chains(handles):
                so_far = None  # of the lists before, so that a worker need not keep a sum of each
                for group in chain:
                    parts = [handles[i] for i in group]
                    so_far = self._submit(function, _then_give_back, _and_add, function, parts, so_far, *shared)
                sums.append(so_far)
            self._finished(what, sums)
            while len(sums) > 1:
                sums = [self._submit(_add_up, _add_up, sums[i : i + _WIDTH]) for i in range(0, len(sums), _WIDTH)]
            return sums[0].result()

    def gather(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> list[Any]:
        """See `Work`."""
        with _readable(self.client):
            groups = [group for chain in self._chains(handles) for group in chain]
            futures = [
                self._submit(function, _list_of, function, [handles[i] for i in group], *shared) for group in groups
            ]
            found: list[Any] = [None] * len(handles)
            for group, answers in zip(groups, self.client.gather(self._finished(what, futures)), strict=True):
                for i, answer in zip(group, answers, strict=True):
                    found[i] = answer
            return found

    def ask(
        self, what: str, function: Callable[..., Any], handles: Sequence[Any], questions: Sequence[Any]
    ) -> list[Any]:
        """See `Work`."""
        with _readable(self.client):
            futures = [
                self._submit(function, function, handle, question)
                for handle, question in zip(handles, questions, strict=True)
            ]
            return list(self.client.gather(self._finished(what, futures)))

    def share(self, value: Any) -> Future:
        """See `Work`: it goes to the scheduler, which gives it again to a worker that takes another's place."""
        with _readable(self.client):
            return self._submit(_same, _same, value)

    def _submit(self, named: Callable[..., Any], function: Callable[..., Any], *given: Any) -> Future:
        """A task called after a function, and by itself: what was computed is never taken for what is asked now."""
        name = getattr(named, "__name__", "task").strip("_<>")
        return self.client.submit(_on_one_thread, function, *given, key=f"{name}-{uuid4().hex}")

    def _finished(self, what: str, futures: list[Future]) -> list[Future]:
        """Wait for all; if some fail, wait for those before the first of them, so that the error is always the same."""
        place = {future.key: i for i, future in enumerate(futures)}
        self._tell(what, 0, len(futures))
        first = len(futures)
        for done, future in enumerate(as_completed(futures), start=1):
            self._tell(what, done, len(futures))
            if future.status != "finished":
                first = min(first, place[future.key])
                break
        if first < len(futures):
            self.client.cancel(futures[first + 1 :])
            wait(futures[:first])
            failed = next(future for future in futures[: first + 1] if future.status != "finished")
            failed.result()
        return futures

    def _chains(self, handles: Sequence[Any]) -> list[list[list[int]]]:
        """The numbers of the parts in some chains for each worker, each of lists that can be in memory at once."""
        where = self.client.who_has(list(handles))
        sizes = self.client.nbytes([handle.key for handle in handles], summary=False)
        by_worker: dict[str, list[int]] = {}
        for i, handle in enumerate(handles):
            by_worker.setdefault(min(where.get(handle.key) or ("",)), []).append(i)
        chains = []
        for held in by_worker.values():
            for chain in _cut(held, _CHAINS):
                heavy = sum(sizes.get(handles[i].key, 0) for i in chain)
                chains.append(_cut(chain, -(-heavy // _BYTES)))
        return chains

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def _on_one_thread(function: Callable[..., Any], *given: Any) -> Any:
    """A worker has as many threads as it was given, and each of them one task."""
    _keep_memory_within_a_task()
    with on_this_thread():
        return function(*given)


def _then_give_back(function: Callable[..., Any], *given: Any) -> Any:
    """Memory that is free again goes back to the system: a worker that seems full puts parts on disk, and stops."""
    try:
        return function(*given)
    finally:
        arrow = sys.modules.get("pyarrow")
        if arrow is not None:
            arrow.default_memory_pool().release_unused()
        trim = _trim()
        if trim is not None:
            trim(0)


@functools.cache
def _trim() -> Any:
    """glibc's malloc_trim, where there is one."""
    return _libc("malloc_trim")


@functools.cache
def _keep_memory_within_a_task() -> None:
    """Dask's nannies have glibc give back each array when it is freed, so that the next one is zeroed page by page:
    up to half of a worker's time. Memory is given back when a task is done; within it, it stays.
    """
    mallopt = _libc("mallopt") if "MALLOC_TRIM_THRESHOLD_" in os.environ else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 1 << 28)
        mallopt(_MMAP_THRESHOLD, 1 << 25)  # the largest there can be


def _libc(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL("libc.so.6"), name)
    except (OSError, AttributeError):
        return None


def _cut(numbers: list[int], n: int) -> list[list[int]]:
    """At most n lists of about one length."""
    size = -(-len(numbers) // max(n, 1))
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


def _and_add(function: Callable[..., Any], parts: list[Any], before: Any, *shared: Any) -> Any:
    own = function(parts, *shared)
    return own if before is None else before + own


def _add_up(parts: list[Any]) -> Any:
    return functools.reduce(operator.add, parts)


def _list_of(function: Callable[..., Any], parts: list[Any], *shared: Any) -> list[Any]:
    return [function(part, *shared) for part in parts]


def _same(value: Any) -> Any:
    return value


@contextmanager
def _readable(client: Client) -> Iterator[None]:
    """What a cluster raises when parts of it are gone, as a sentence."""
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError

    try:
        yield
    except InputError:
        raise
    except KilledWorker as error:
        raise InputError(
            f"workers died again and again over one part of the work ({error.task}); look at their logs, and give them "
            "more memory (dask worker --memory-limit) if that was the reason. Nothing was written."
        ) from None
    except (CancelledError, CommClosedError, TimeoutError, OSError) as error:
        raise InputError(
            f"the scheduler of the cluster no longer answers ({type(error).__name__}); nothing was written. Start it "
            "again and repeat the command."
        ) from None
