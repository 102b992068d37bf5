"""Work over threads, in pieces that do not touch each other: the results are the same for every number of threads.

Compiled loops let go of the interpreter while they run. Work that is cut into pieces gains from that only if no number
depends on the cut: a piece writes to cells of its own, and whatever is summed is summed within a piece, in one order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from comband.page.problem import check_count

_ENVIRONMENT = "COMBAND_THREADS"


def n_threads() -> int:
    """How many threads large pieces of work are given to: those set, or the processors this process may use."""
    return _pool.n_threads


def set_threads(n: int | None) -> None:
    """Use so many threads from now on; None: as many as there are processors, or as COMBAND_THREADS says."""
    _pool.resize(_default() if n is None else check_count("n", n))


def for_each(work: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """Call work(part) for each part, in any order and on several threads; the first failure in their order is raised.

    The calling thread works too, so that nothing waits for a thread that others keep busy. Parts that call `for_each`
    in turn do their work on the thread they are on.
    """
    helpers = min(_pool.n_threads, len(parts)) - 1
    if helpers < 1 or not may_share():
        for part in parts:
            work(part)
        return
    queue = iter(range(len(parts)))
    errors: dict[int, BaseException] = {}
    lock = threading.Lock()

    def go_on() -> None:
        with on_this_thread():
            while not errors:
                with lock:
                    k = next(queue, None)
                if k is None:
                    return
                try:
                    work(parts[k])
                except BaseException as error:
                    errors[k] = error

    futures = []
    with suppress(RuntimeError):  # no threads are given any more: the number was just set anew, or Python ends
        for _ in range(helpers):
            futures.append(_pool.executor().submit(go_on))
    go_on()
    for future in futures:
        if not future.cancel():
            future.result()
    if errors:
        raise errors[min(errors)]


def may_share() -> bool:
    """Whether work of this thread may be given to others: there are some, and this one is not itself given a part."""
    return _pool.n_threads > 1 and not getattr(_inside, "busy", False)


@contextmanager
def on_this_thread() -> Iterator[None]:
    """Nothing is given to other threads meanwhile, for one of many that share the processors already."""
    before = getattr(_inside, "busy", False)
    _inside.busy = True
    try:
        yield
    finally:
        _inside.busy = before


def cut(n: int, least: int) -> list[tuple[int, int]]:
    """0 … n − 1 in consecutive (start, stop), of at least `least` each, and not many more than there are threads."""
    pieces = max(1, min(n // max(least, 1), 4 * n_threads()))
    if n_threads() == 1:
        pieces = 1
    edges = [n * k // pieces for k in range(pieces + 1)]
    return list(pairwise(edges))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Many small systems are solved here: threads of BLAS, which would share each of them, only wait for each other.

    The setting is the process's: the first that enters makes it, and the last that leaves takes it back.
    """
    with _blas.lock:
        if _blas.inside == 0:
            _blas.limited = _blas.controller().limit(limits=1, user_api="blas")
        _blas.inside += 1
    try:
        yield
    finally:
        with _blas.lock:
            _blas.inside -= 1
            if _blas.inside == 0:
                _blas.limited.restore_original_limits()


class _Blas:
    """Who is inside `one_blas_thread`, and how to take it back."""

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0
        self.limited: Any = None
        self._controller: Any = None

    def controller(self) -> Any:
        if self._controller is None:  # looks through all libraries: once
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        return self._controller


def _default() -> int:
    given = os.environ.get(_ENVIRONMENT, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """Threads that are made when they are first needed, and anew after a fork, which does not copy them."""

    def __init__(self) -> None:
        self.n_threads = _default()
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max(self.n_threads - 1, 1), thread_name_prefix="comband")
            return self._executor

    def resize(self, n: int) -> None:
        with self._lock:
            self.n_threads, before, self._executor = n, self._executor, None
        if before is not None:
            before.shutdown(wait=False)

    def forget(self) -> None:
        """After a fork, in the child."""
        self._executor, self._lock = None, threading.Lock()


_inside = threading.local()
_pool = _Pool()
_blas = _Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
