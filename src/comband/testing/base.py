"""What suites share: promises are methods whose names begin with `test_`, as pytest collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Error = TypeVar("_Error", bound=Exception)


class Suite:
    """Promises of one kind of thing; a subclass says which thing."""

    @classmethod
    def promises(cls) -> list[str]:
        """The names of its tests."""
        return [name for name in dir(cls) if name.startswith("test_")]


def failures(suite: type[Suite]) -> dict[str, Exception]:
    """The broken promises of a suite, by name, each with the error that says how."""
    broken: dict[str, Exception] = {}
    for name in suite.promises():
        try:
            getattr(suite(), name)()
        except Exception as error:  # whatever an own class may raise
            broken[name] = error
    return broken


def check(suite: type[Suite]) -> None:
    """Put a suite's thing through all promises; an AssertionError names every one that is broken."""
    broken = failures(suite)
    if broken:
        lines = [f"{name}: {type(error).__name__}: {error}" for name, error in broken.items()]
        first = next(iter(broken.values()))
        total = len(suite.promises())
        raise AssertionError(f"{len(broken)} of {total} promises are broken.\n" + "\n".join(lines)) from first


def expect(kept: object, otherwise: str) -> None:
    """An AssertionError that says what is wrong, unless `kept`."""
    if not kept:
        raise AssertionError(otherwise)


def refusal(kind: type[_Error], otherwise: str, call: Callable[..., object], *arguments: Any) -> _Error:
    """The error of this kind by which `call` refuses its arguments."""
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(otherwise)
