"""A shop with 3 candidates for lists of 4 of 40 items, and visitors who click one item at most."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

import comband as cb

PROBLEM = cb.Problem(n_actions=40, list_size=4, sparsity=1)
SHOP = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, seed=1)
POLICIES = SHOP.candidates(3, seed=2)
MOST, WARM_UP = 3000, 100
_batch = SHOP.sample(MOST, np.random.default_rng(3))
LISTS = POLICIES.predict(_batch.contexts)  # (visitors, candidates, places)


def context(t: int) -> NDArray[np.float64]:
    """Features of visitor t, as one row."""
    return np.asarray(_batch.contexts[t : t + 1])


def clicks(t: int, items: NDArray[np.int32]) -> NDArray[np.float64]:
    """What visitor t clicks of these items (4,)."""
    return np.asarray(_batch.rewards[[t], :].toarray()[0, items])


class Clock:
    """Time per decision: of choosing and learning, not of the shop."""

    def __init__(self) -> None:
        self.spent, self.n = 0.0, 0

    def __enter__(self) -> Clock:
        self._start = time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.n += 1
        if self.n > WARM_UP:
            self.spent += time.process_time() - self._start

    def say(self, text: str, decisions: int) -> None:
        """The answer, and microseconds per decision; the first ones, in which much is compiled, do not count."""
        print(f"{text}\n{1e6 * self.spent / (self.n - WARM_UP) * self.n / decisions:.0f} µs per decision")
