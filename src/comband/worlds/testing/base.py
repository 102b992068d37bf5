"""What suites share: promises are methods whose names begin with `test_`, as pytest collects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Error = TypeVar("_Error", bound=Exception)


class Suite:
    """Promises of one kind of thing; a subclass says which thing.

    >>> from comband.worlds.testing import PolicySuite, Suite
    >>> issubclass(PolicySuite, Suite), PolicySuite.promises()[0]
    (True, 'test_a_list_depends_on_its_own_context_only')
    """

    @classmethod
    def promises(cls) -> list[str]:
        """The names of its tests."""
        return [name for name in dir(cls) if name.startswith("test_")]


def failures(suite: type[Suite]) -> dict[str, Exception]:
    """The broken promises of a suite, by name, each with the error that says how.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds.testing import PolicySuite, failures
    >>> class Fickle:
    ...     def predict(self, X):  # another list each time
    ...         return np.random.default_rng().permuted(np.tile(np.arange(50), (len(X), 1)), axis=1)[:, :2]
    ...
    >>> class OfMine(PolicySuite):
    ...     problem = cb.Problem(n_actions=50, list_size=2)
    ...     def policy(self):
    ...         return Fickle()
    ...     def contexts(self, n, rng):
    ...         return rng.standard_normal((n, 4))
    ...
    >>> "test_the_same_context_gets_the_same_list" in failures(OfMine)
    True
    """
    broken: dict[str, Exception] = {}
    for name in suite.promises():
        try:
            getattr(suite(), name)()
        except Exception as error:  # whatever an own class may raise
            broken[name] = error
    return broken


def check(suite: type[Suite]) -> None:
    """Put a suite's thing through all promises; an AssertionError names every one that is broken.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds.testing import PolicySuite, check
    >>> class OfMine(PolicySuite):
    ...     problem = cb.Problem(n_actions=5, list_size=2)
    ...     def policy(self):
    ...         return cb.ConstantPolicy([3, 1], self.problem)
    ...     def contexts(self, n, rng):
    ...         return rng.standard_normal((n, 4))
    ...
    >>> check(OfMine)  # says nothing: all promises are kept
    """
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
