"""Parts on the workers of a Dask cluster."""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker, as_completed, wait

from comband.cluster.work import Progress, Tally
from comband.problem import InputError
from comband.threads import on_this_thread

_WIDTH = 8  # so many are added up at a time
_GROUPS = 4  # lists of parts for each worker, at least: small enough that its threads share them, and to do again
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
            futures = [self._submit(_then_give_back, function, item, *shared) for item in items]
            return self._finished(what, futures)

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        """See `Work`."""
        with _readable(self.client):
            groups = self._groups(handles)
            sums = [self._submit(_then_give_back, function, [handles[i] for i in group], *shared) for group in groups]
            self._finished(what, sums)
            while len(sums) > 1:
                sums = [self._submit(_add_up, sums[i : i + _WIDTH]) for i in range(0, len(sums), _WIDTH)]
            return sums[0].result()

    def gather(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> list[Any]:
        """See `Work`."""
        with _readable(self.client):
            groups = self._groups(handles)
            futures = [self._submit(_list_of, function, [handles[i] for i in group], *shared) for group in groups]
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
                self._submit(function, handle, question) for handle, question in zip(handles, questions, strict=True)
            ]
            return list(self.client.gather(self._finished(what, futures)))

    def share(self, value: Any) -> Future:
        """See `Work`: it goes to the scheduler, which gives it again to a worker that takes another's place."""
        with _readable(self.client):
            return self._submit(_same, value)

    def _submit(self, function: Callable[..., Any], *given: Any) -> Future:
        """A task with a name of its own: what was computed is never taken for what is asked now."""
        named = given[0] if function is _then_give_back else function
        name = f"{named.__name__.strip('_')}-{uuid4().hex}"
        return self.client.submit(_on_one_thread, function, *given, key=name)

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

    def _groups(self, handles: Sequence[Any]) -> list[list[int]]:
        """The numbers of the parts, those of one worker together, and not more than can be in memory at once."""
        where = self.client.who_has(list(handles))
        sizes = self.client.nbytes([handle.key for handle in handles], summary=False)
        by_worker: dict[str, list[int]] = {}
        for i, handle in enumerate(handles):
            by_worker.setdefault(min(where.get(handle.key) or ("",)), []).append(i)
        groups = []
        for held in by_worker.values():
            heavy = sum(sizes.get(handles[i].key, 0) for i in held)
            size = -(-len(held) // max(_GROUPS, -(-heavy // _BYTES)))
            groups += [held[i : i + size] for i in range(0, len(held), size)]
        return groups

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def _on_one_thread(function: Callable[..., Any], *given: Any) -> Any:
    """A worker has as many threads as it was given, and each of them one task."""
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
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):
        return None


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
