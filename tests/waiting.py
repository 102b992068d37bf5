"""Waiting for something to happen, with one generous limit: no test depends on how fast a machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LIMIT = 600.0  # seconds: only a program that hangs reaches it
_STEP = 0.01


def wait_for(happened: Callable[[], Found | None], what: str) -> Found:
    """Ask again and again until the answer is true, and return it."""
    end = time.monotonic() + LIMIT
    while not (found := happened()):
        assert time.monotonic() < end, f"{what}: not within {LIMIT:g} s"
        time.sleep(_STEP)
    return found
