"""Calls that happen as a whole or not at all, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

from comband.page.problem import InputError

Method = TypeVar("Method", bound=Callable[..., Any])


class Atomic:
    """What may be called from several threads, and whose calls leave no trace when they fail.

    A call that may fail halfway keeps a `Checkpoint` to go back to. It holds if what the call changes is *replaced*, or
    is a list that is appended to. What is too large for that (sums over all candidates) is altered in place, when
    nothing can fail any more: `_corrupt` is set for so long, and if such a moment is interrupted after all (from the
    keyboard, or for want of memory) the object refuses to go on.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._corrupt = False

    def _check_whole(self) -> None:
        if self._corrupt:
            raise InputError(
                "this learner was interrupted in the middle of an update, and what it holds can no longer be relied "
                "on; load the last save, or begin anew."
            )

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()


def synchronized(method: Method) -> Method:
    """A method that waits until no other thread is inside one."""

    @wraps(method)
    def call(self: Atomic, *args: Any, **more: Any) -> Any:
        with self._lock:
            self._check_whole()
            return method(self, *args, **more)

    return cast(Method, call)


class Checkpoint:
    """The attributes of some objects, and how long the lists among them are."""

    __slots__ = ("_kept",)

    _kept: list[tuple[dict[str, Any], dict[str, Any], Sequence[tuple[list[Any], int]]]]

    def __init__(self, *parts: object) -> None:
        self._kept = []
        for part in parts:
            now = part.__dict__
            values = now.values()
            lists = [(one, len(one)) for one in values if one.__class__ is list] if list in map(type, values) else ()
            self._kept.append((now, now.copy(), lists))

    def restore(self) -> None:
        """Put everything back."""
        for now, before, lists in self._kept:
            now.update(before)
            for name in now.keys() - before.keys():
                del now[name]
            for value, length in lists:
                del value[length:]
