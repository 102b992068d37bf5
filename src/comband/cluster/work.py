"""What can be asked of many parts, and the simplest way to do it: one after the other, here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many parts of it are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What one worker did: how many parts it made, of how many rows, in how many seconds of its threads.

    >>> from comband.cluster import Tally
    >>> Tally(parts=3, rows=30_000, seconds=0.4).rows
    30000
    """

    parts: int = 0
    rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.parts + other.parts, self.rows + other.rows, self.seconds + other.seconds)


class Work(Protocol):
    """Where parts are made and kept. Handles stand for parts; functions get the parts themselves.

    >>> from comband.cluster import InProcess, Work
    >>> work: Work = InProcess()  # a Dask cluster does the same: comband.cluster.connect
    >>> work.gather("numbers", lambda part, more: part + more, work.each("numbers", int, ["1", "2"]), 10)
    [11, 12]
    """

    tallies: dict[str, Tally]

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """A handle of `function(item, *shared)` for each item, in their order; all are there when it returns.

        If some fail, what the first of them in that order raised is raised.
        """
        ...

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        """Σ `function(parts, *shared)` over lists that hold every part once; the sum must not depend on the lists."""
        ...

    def gather(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> list[Any]:
        """`function(part, *shared)` of each, here, in the order of the handles."""
        ...

    def ask(
        self, what: str, function: Callable[..., Any], handles: Sequence[Any], questions: Sequence[Any]
    ) -> list[Any]:
        """function(part, question) of each part with a question of its own, here, in the order of the handles."""
        ...

    def share(self, value: Any) -> Any:
        """A handle of something that many parts need, to be given among `shared`."""
        ...


class InProcess:
    """One part after the other, in this process.

    Parameters
    ----------
    progress:
        Called with what is being done, how many parts of it are done and of how many.

    >>> from comband.cluster import InProcess
    >>> work = InProcess()
    >>> handles = work.each("squares", lambda n: n * n, [1, 2, 3])
    >>> work.gather("numbers", lambda part: part, handles)
    [1, 4, 9]
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.tallies: dict[str, Tally] = {}
        self._progress = progress

    def each(self, what: str, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """See `Work`."""
        made: list[Any] = []
        for item in items:
            self._tell(what, len(made), len(items))
            made.append(function(item, *shared))
        self._tell(what, len(items), len(items))
        return made

    def total(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> Any:
        """See `Work`."""
        self._tell(what, 0, 1)
        return function(list(handles), *shared)

    def gather(self, what: str, function: Callable[..., Any], handles: Sequence[Any], *shared: Any) -> list[Any]:
        """See `Work`."""
        return [function(part, *shared) for part in handles]

    def ask(
        self, what: str, function: Callable[..., Any], handles: Sequence[Any], questions: Sequence[Any]
    ) -> list[Any]:
        """See `Work`."""
        return [function(part, question) for part, question in zip(handles, questions, strict=True)]

    def share(self, value: Any) -> Any:
        """See `Work`."""
        return value

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def here() -> str:
    """The name of the worker that asks, or of this process."""
    distributed = sys.modules.get("distributed")  # a worker has loaded it
    if distributed is not None:
        try:
            return str(distributed.get_worker().address)
        except ValueError:
            pass
    return f"process {os.getpid()}"
