"""Factors of places, fitted as rounds come."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.page.places import Factors, fit_rewards
from comband.page.problem import InputError, check_count, check_places
from comband.page.storage import Array, Stored, Whole, require

_LEAST = 10  # rewards that every place must have
_CLEAR = 0.2  # the largest standard error of a factor, as a share of it, with which bets begin


class FactorFit(Stored):
    """All rewards so far with the probabilities of their places, and the factors that fit them; see `fit_examination`.

    Parameters
    ----------
    list_size:
        m.

    >>> fit = FactorFit(list_size=2)
    >>> fit.factors
    >>> fit.update(np.eye(2)[[0, 0, 1] * 40], np.full((120, 2, 2), 0.5))
    >>> [round(one, 3) for one in fit.factors], fit.clear
    ([1.0, 0.5], True)
    """

    def __init__(self, *, list_size: int) -> None:
        self.list_size = check_count("list_size", list_size)
        self.n_rounds = 0  # rewarded ones
        self._rounds, self._places = np.empty((2, 0), dtype=np.int64)  # of each reward
        self._rewards = np.empty(0)
        self._rows = np.empty((0, list_size))  # Q
        self._found: tuple[int, Factors | None] = 0, None  # after how many rounds, and what

    def update(self, rewards: NDArray[np.float64], placements: NDArray[np.float64]) -> None:
        """Enter rewarded rounds: rewards (n, m) by place, and placements (n, m, m) as for `PlaceGuard.update`."""
        i, k = np.nonzero(rewards)
        self._rounds = np.concatenate([self._rounds, i + self.n_rounds])
        self._places = np.concatenate([self._places, k])
        self._rewards = np.concatenate([self._rewards, rewards[i, k]])
        self._rows = np.concatenate([self._rows, placements[i, k]])
        self.n_rounds += len(rewards)

    @property
    def factors(self) -> Factors | None:
        """θ/θ_0 (m,) with standard errors; None while rewards do not tell them."""
        if self._found[0] != self.n_rounds:
            self._found = self.n_rounds, self._fit()
        return self._found[1]

    @property
    def clear(self) -> bool:
        """Whether bets can begin: no factor has a standard error above a fifth of it."""
        found = self.factors
        return found is not None and all(
            error <= _CLEAR * one for one, error in zip(found, found.standard_errors, strict=True)
        )

    def _fit(self) -> Factors | None:
        m = self.list_size
        if m == 1:
            return Factors((1.0,), (0.0,))
        if np.bincount(self._places, minlength=m).min() < _LEAST:
            return None
        try:
            fitted = fit_rewards(self._rounds, self._places, self._rewards, self._rows)
            check_places(fitted, m)
        except InputError:  # rewards do not tell places apart
            return None
        return fitted

    SCHEMA: ClassVar = {
        "n_rounds": Whole(0),
        "rounds": Array("i8", ("E",), 0),
        "places": Array("i8", ("E",), 0),
        "rewards": Array("f8", ("E",), 0, 1),
        "rows": Array("f8", ("E", "m"), 0),
    }

    def _sizes(self) -> dict[str, int]:
        return {"m": self.list_size}

    def _agree(self) -> None:
        own = self._rows[np.arange(len(self._rows)), np.minimum(self._places, self.list_size - 1)]
        require(
            int(self._places.max(initial=0)) < self.list_size
            and int(self._rounds.max(initial=self.n_rounds - 1)) < self.n_rounds
            and bool((np.diff(self._rounds) >= 0).all())
            and bool((own > 0).all()),
            "rewards that factors are fitted to must be those of its rounds.",
        )
