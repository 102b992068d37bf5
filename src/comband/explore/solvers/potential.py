"""The log-barrier potential of the exploration design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LogBarrier:
    """F̂(p) = −Σ_e w_e log Q_e with Q_e = (1−γ)(Ap)_e + γ·u, over the simplex.

    From totals a list has one Q, that of its average action: rows of `group` consecutive events share the average of
    their coverages, A is then |π∩a|/m, and each carries an equal part of the list's weight.

    The paper's empirical objective (its eq. (1)–(3)) on the events with positive reward: w_e is the
    importance-weighted reward r_e / (n q_e), u = m/K the probability that a uniform list shows the
    action. Everything is a function of the coverage Ap, so a column of A is needed only where
    it carries weight.

    Parameters
    ----------
    weights : (E,) floats >= 0
        w_e; zeros are allowed (padding).
    floor : float in (0, 1]
        γ, the share of uniform lists.
    uniform : float in (0, 1]
        u = m/K.
    group : int
        How many consecutive rows are one list: 1 for rewards of single actions, m for totals.
    """

    weights: Floats
    floor: float
    uniform: float
    group: int = 1

    @property
    def mass(self) -> float:
        """Σ_e w_e, an unbiased estimate of the expected total reward of a round (at most s)."""
        return float(self.weights.sum())

    def mix(self, coverage: Floats) -> Floats:
        """Q^γ from the coverage Ap."""
        return self.change(coverage) + self.floor * self.uniform

    def change(self, coverage: Floats) -> Floats:
        """By how much Q^γ changes when the coverage does."""
        return (1.0 - self.floor) * self._averaged(coverage)

    def value(self, coverage: Floats) -> float:
        """F̂(p)."""
        return -float(self.weights @ np.log(self.mix(coverage)))

    def gains(self, coverage: Floats) -> Floats:
        """c_e = w_e / Q_e; the gradient of F̂ along policy π is −(1−γ) Σ_e c_e A[e, π]."""
        return self.weights / self.mix(coverage)

    def _averaged(self, coverage: Floats) -> Floats:
        """The average of each group, at each of its rows; what is left at the end is padding."""
        if self.group == 1:
            return coverage
        result = coverage.copy()
        whole = len(coverage) - len(coverage) % self.group
        result[:whole] = np.repeat(coverage[:whole].reshape(-1, self.group).mean(axis=1), self.group)
        return result
