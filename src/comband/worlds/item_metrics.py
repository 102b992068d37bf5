"""Further metrics of simulated clicks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comband.page.metrics import Metric
from comband.page.problem import Problem


class ItemMetrics:
    """A click on an item is worth what the item carries of each metric: its largest value, or nothing, as often.

    Parameters
    ----------
    metrics, problem:
        What was declared, and the setting.
    seed:
        Decides which items carry something.

    >>> carried = ItemMetrics([Metric(name="purchases", margin=0.1)], Problem(n_actions=9, list_size=3), seed=1)
    >>> lists = np.arange(9, dtype=np.int32).reshape(3, 3)
    >>> carried(lists, np.ones((3, 3)))["purchases"].sum(axis=1).tolist()
    [2.0, 2.0, 1.0]
    """

    def __init__(self, metrics: Sequence[Metric], problem: Problem, *, seed: int = 0) -> None:
        rng = np.random.default_rng([seed, 31])
        self.worth = {one.name: one.largest * rng.integers(2, size=problem.n_actions) for one in metrics}

    def __call__(self, lists: NDArray[np.int32], rewards: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """(n, m) of each metric by name."""
        return {name: rewards * np.where(lists >= 0, of[lists], 0.0) for name, of in self.worth.items()}
