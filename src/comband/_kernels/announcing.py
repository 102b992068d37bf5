"""Says on a terminal that loops are being compiled, if that takes long: with an empty cache it takes seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

from numba.core import event

_PATIENCE = 1.0  # seconds of compiling before it is said
TEXT = (
    "comband: compiling loops for this machine; this happens once and takes some seconds "
    "(comband.warm_up() does it beforehand)"
)


class Announcer(event.Listener):
    """Told by numba when it begins and ends to compile; what it finds in its cache it does not compile."""

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._spent = 0.0
        self._said = False

    def on_start(self, event: Any) -> None:
        """Say so before the next loop, once enough time has gone into those before it."""
        if not self._begun and self._spent > _PATIENCE and not self._said and _is_own(event):
            self._said = True
            if sys.stderr is not None and sys.stderr.isatty():
                print(TEXT, file=sys.stderr, flush=True)
        self._begun.append(time.perf_counter())

    def on_end(self, event: Any) -> None:
        """Loops that others call are compiled within these, and count once."""
        begun = self._begun.pop()
        if not self._begun and _is_own(event):
            self._spent += time.perf_counter() - begun


def _is_own(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("comband.")


event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
