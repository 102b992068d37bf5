"""Random design problems with their dense incidence, shared by the solver tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband.explore.solvers.incidence import Incidence, build_incidence
from comband.explore.solvers.potential import LogBarrier


@dataclass(frozen=True)
class Dense:
    A: NDArray[np.bool_]
    w: NDArray[np.float64]
    floor: float
    uniform: float
    incidence: Incidence
    potential: LogBarrier

    def value(self, p: NDArray[np.float64]) -> float:
        """F̂ straight from its definition."""
        return -float(self.w @ np.log(self.Q(p)))

    def Q(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        mixed: NDArray[np.float64] = (1 - self.floor) * (self.A @ p) + self.floor * self.uniform
        return mixed

    def proxies(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_e w_e A[e, π] / Q_e of every policy."""
        result: NDArray[np.float64] = (self.w / self.Q(p)) @ self.A
        return result

    def full(self, keys: list[object], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        p = np.zeros(self.A.shape[1])
        p[np.array(keys, dtype=int)] = weights
        return p


def dense(
    A: NDArray[np.bool_], w: NDArray[np.float64], *, floor: float = 0.5, uniform: float = 0.1, block: int = 700
) -> Dense:
    parts = [(A[i : i + block], w[i : i + block]) for i in range(0, len(A), block)]
    incidence, padded = build_incidence(parts)
    return Dense(A, w, floor, uniform, incidence, LogBarrier(padded, floor, uniform))


def random_problem(
    seed: int, *, n_events: int, n_policies: int, density: float = 0.3, floor: float = 0.5, uniform: float = 0.1
) -> Dense:
    rng = np.random.default_rng(seed)
    A = rng.random((n_events, n_policies)) < density * rng.uniform(0.2, 1.8, n_policies)
    return dense(A, rng.exponential(size=n_events) / n_events, floor=floor, uniform=uniform)
