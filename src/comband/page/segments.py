"""Segments: kinds of visitors, told by the context, in each of which another candidate may be the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.contexts import Contexts, n_contexts
from comband.page.problem import InputError
from comband.page.text import quoted


class Segments:
    """Which segments there are, and to which a context belongs. Both are said beforehand: a promise about all of them
    counts how many there are, and one about a segment is about the contexts in it, whatever was shown or answered.

    Parameters
    ----------
    names:
        What they are called, two at least.
    of:
        The segment of each context: a function of a batch of contexts that gives one name for each; a column of
        contexts, its name or number; or names by context, where contexts are keys or numbers.

    >>> by_device = Segments(["phone", "desktop"], lambda X: np.where(X[:, 0] > 0, "phone", "desktop"))
    >>> by_device.codes(np.array([[1.0], [-1.0]])).tolist()
    [0, 1]
    >>> Segments(["new", "old"], {"u1": "old", "u2": "new"}).codes(["u2", "u1"]).tolist()
    [0, 1]
    """

    def __init__(self, names: Sequence[str], of: Callable[[Contexts], Any] | Mapping[Any, str] | str | int) -> None:
        if isinstance(names, (str, bytes)) or not all(isinstance(name, str) and name for name in names):
            raise InputError(f"the names of segments must be texts, such as ['phone', 'desktop'], got {names!r}.")
        self.names = tuple(names)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise InputError(f"there must be at least two segments with different names, got {list(self.names)}.")
        if not callable(of) and not isinstance(of, (Mapping, str, int)):
            raise InputError(
                f"the segment of a context must be a function, a column or names by context, got {type(of).__name__}."
            )
        self.of = of
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def codes(self, X: Contexts) -> NDArray[np.int64]:
        """The number of each context's segment (n,); a context that belongs to none is refused."""
        told = self._told(X)
        if len(told) != n_contexts(X):
            raise InputError(f"segments must be told for each of {n_contexts(X):,} contexts, got {len(told):,}.")
        values, places = np.unique(np.asarray(told, dtype=object).astype(str), return_inverse=True)
        numbers = np.empty(len(values), dtype=np.int64)
        for i, value in enumerate(values.tolist()):
            if value not in self._numbers:
                raise InputError(
                    f"{quoted(value)} is none of the segments that were declared: {', '.join(self.names)}."
                )
            numbers[i] = self._numbers[value]
        return numbers[places.ravel()]

    def _told(self, X: Contexts) -> Sequence[Any]:
        if isinstance(self.of, Mapping):
            return self._looked_up(self.of, X)
        if callable(self.of):
            return list(self.of(X))
        if isinstance(X, np.ndarray):
            if X.ndim != 2 or not isinstance(self.of, int):
                raise InputError(f"contexts in an array have columns by number, shape (n, d), got {X.shape}.")
            return list(X[:, self.of])
        return list(X[self.of])

    def _looked_up(self, of: Mapping[Any, str], X: Contexts) -> Sequence[Any]:
        found = []
        for key in X.tolist() if isinstance(X, np.ndarray) else X:
            name = of.get(key, of.get(str(key)))
            if name is None:
                raise InputError(f"context {quoted(key)} belongs to no segment: say to which.")
            found.append(name)
        return found
