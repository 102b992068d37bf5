"""A confidence band for factors of places that holds at all numbers of rounds at once.

As in `comband.statistics.place_guard`, given its context and that it was rewarded an item was in place k with
probability p(k) = Q(k)·θ_k/Σ_j Q(j)·θ_j. For factors θ′ that are fitted to the past, and each θ by itself,

    E_t(θ) = Π over rounds of 1 + λ Σ_k R_k (p′(k)/p(k) − 1),    λ = 1/ρ,

has mean one if θ is true, and is never negative, since Σ_k R_k ≤ ρ. So the true factors leave {θ: E_t(θ) < 1/α} ever
with probability α at most (Ville): certifying at the worst factors of that set, with δ − α left for the rest, covers
the error of the fit. p′/p is the exponential of a convex function of log θ, and sums and products of such functions are
of that kind: log E_t is convex in log θ, and the set is convex there. `bounds` are those of single factors in it, found
by bisection; they hold all at once.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from comband.page.problem import InputError, as_floats, check_count, check_fraction, check_places, check_positive
from comband.page.storage import Array, Stored, Whole, require
from comband.statistics.grids import bisect

Floats = NDArray[np.float64]

_LARGEST = np.log(1e3)  # of one place over another, as for `Problem`
_SLACK = 1e-3  # of the log of the evidence, for a minimum that is not quite found: on the safe side


class FactorBand(Stored):
    """Which factors of places the rewards so far leave possible, at a level that holds at all times.

    Parameters
    ----------
    list_size:
        m.
    max_reward:
        ρ, the most that one round can bring.
    level:
        α, the probability that the true factors are ever outside.

    >>> band = FactorBand(list_size=2, max_reward=1, level=0.01)
    >>> band.update(np.eye(2)[[0, 0, 1] * 200])
    >>> low, high = band.bounds()
    >>> bool(low[1] < 0.5 < high[1]), band.contains([1, 0.5]), band.contains([1, 1])
    (True, True, False)
    """

    def __init__(self, *, list_size: int, max_reward: float | None = None, level: float) -> None:
        self.list_size = m = check_count("list_size", list_size)
        self.max_reward = float(m) if max_reward is None else check_positive("max_reward", max_reward)
        self.level = check_fraction("level", level)
        self.n_rounds = 0  # rewarded ones
        self._counts, self._exposures = np.zeros((2, m))
        self._rounds, self._places = np.empty((2, 0), dtype=np.int64)  # of each reward
        self._rewards, self._bets = np.empty((2, 0))  # what it was, and θ′_k/Σ_j Q(j)·θ′_j
        self._rows = np.empty((0, m))  # Q

    def update(self, rewards: ArrayLike, placements: ArrayLike | None = None) -> None:
        """Enter rounds in the order of their decisions; arguments as for `PlaceGuard.update`."""
        m, r = self.list_size, as_floats("rewards", rewards)
        if r.ndim != 2 or r.shape[1] != m or not ((r >= 0) & (r <= 1)).all():
            raise InputError(f"rewards must be those of {m} places, in [0, 1], got shape {r.shape}.")
        if r.size and r.sum(axis=1).max() > self.max_reward * (1 + 1e-9):
            raise InputError(
                f"rewards of a round must sum to {self.max_reward:g} at most, got {r.sum(axis=1).max():g}."
            )
        known = np.full((*r.shape, m), 1 / m) if placements is None else as_floats("placements", placements)
        if known.shape != (*r.shape, m):
            raise InputError(f"placements must have the shape {(*r.shape, m)}, got {known.shape}.")
        i, k = np.nonzero(r)
        rows = known[i, k]
        if not ((rows >= 0).all() and (rows[np.arange(len(k)), k] > 0).all()):
            raise InputError("placements must be probabilities, above 0 in the place where an item was shown.")
        bets = np.empty(len(k))
        counts, exposures = self._counts.copy(), self._exposures.copy()
        for first, last in _groups(i):
            fitted = (counts + 1) / (exposures + 1)
            total = r[i[first]].sum()
            for e in range(first, last):
                due = float(rows[e] @ fitted)
                bets[e] = fitted[k[e]] / due
                counts[k[e]] += r[i[e], k[e]] / total
                exposures += r[i[e], k[e]] / total * rows[e] / due
        numbers = np.unique(i, return_inverse=True)[1] if len(i) else i
        self._rounds = np.concatenate([self._rounds, numbers + self.n_rounds])
        self.n_rounds += int(numbers.max(initial=-1)) + 1
        self._counts, self._exposures = counts, exposures
        self._places, self._rewards = np.concatenate([self._places, k]), np.concatenate([self._rewards, r[i, k]])
        self._bets, self._rows = np.concatenate([self._bets, bets]), np.concatenate([self._rows, rows])

    def log_evidence(self, factors: ArrayLike) -> float:
        """Against these factors, now."""
        theta = check_places(factors, self.list_size)
        return self._evidence(np.log(np.array(theta, dtype=np.float64)))[0]

    def contains(self, factors: ArrayLike) -> bool:
        """Whether the rewards so far leave them possible."""
        return bool(self.log_evidence(factors) < np.log(1 / self.level))

    def bounds(self) -> tuple[Floats, Floats]:
        """The smallest and the largest θ_k/θ_0 of each place (m,) that are possible; all hold at once."""
        m = self.list_size
        low, high = np.ones(m), np.ones(m)
        best = self._least(np.zeros(m), None)
        limit = np.log(1 / self.level) + _SLACK
        for k in range(1, m):
            for side, end in ((-1.0, low), (1.0, high)):
                start, reach = best.copy(), _LARGEST - side * best[k]

                def outside(step: Floats, k: int = k, side: float = side, start: Floats = start) -> NDArray[np.bool_]:
                    fixed = start.copy()
                    fixed[k] = best[k] + side * float(step)
                    start[:] = self._least(fixed, k)
                    return np.array(self._evidence(start)[0] >= limit)

                end[k] = np.exp(best[k] + side * float(bisect(outside, 0.0, max(reach, 0.0), steps=20)[1]))
        return low, high

    def _evidence(self, log_theta: Floats) -> tuple[float, Floats]:
        """The log of E_t, and its gradient."""
        theta = np.exp(log_theta)
        due = self._rows @ theta
        stakes = self._rewards / self.max_reward
        ratio = self._bets * due / theta[self._places]
        bets = 1 + np.bincount(self._rounds, stakes * (ratio - 1), self.n_rounds)
        bets = np.maximum(bets, 1e-12)
        share = stakes * ratio / bets[self._rounds]
        gradient = share @ (self._rows * theta / due[:, None]) - np.bincount(self._places, share, self.list_size)
        return float(np.log(bets).sum()), np.asarray(gradient)

    def _least(self, start: Floats, fixed: int | None) -> Floats:
        """Where the evidence is least, the first factor being 1, and another one as it is."""
        free = np.array([j for j in range(1, self.list_size) if j != fixed], dtype=np.int64)
        if len(free) == 0 or self.n_rounds == 0:
            return start

        def evidence(some: Floats) -> tuple[float, Floats]:
            whole = start.copy()
            whole[free] = some
            value, gradient = self._evidence(whole)
            return value, gradient[free]

        found = minimize(evidence, start[free], jac=True, method="L-BFGS-B", bounds=[(-_LARGEST, _LARGEST)] * len(free))
        whole = start.copy()
        whole[free] = found.x
        return whole

    SCHEMA: ClassVar = {
        "n_rounds": Whole(0),
        "counts": Array("f8", ("m",), 0),
        "exposures": Array("f8", ("m",), 0),
        "rounds": Array("i8", ("E",), 0),
        "places": Array("i8", ("E",), 0),
        "rewards": Array("f8", ("E",), 0, 1),
        "bets": Array("f8", ("E",), 0),
        "rows": Array("f8", ("E", "m"), 0),
    }

    def _sizes(self) -> dict[str, int]:
        return {"m": self.list_size}

    def _agree(self) -> None:
        own = self._rows[np.arange(len(self._rows)), np.minimum(self._places, self.list_size - 1)]
        require(
            int(self._places.max(initial=0)) < self.list_size
            and int(self._rounds.max(initial=self.n_rounds - 1)) == self.n_rounds - 1
            and bool((own > 0).all())
            and abs(float(self._counts.sum()) - self.n_rounds) <= 1e-6 * max(self.n_rounds, 1),
            "rewards by place must be those of its rounds.",
        )


def _groups(rounds: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Where the rewards of each round begin and end."""
    if len(rounds) == 0:
        return []
    starts = np.flatnonzero(np.concatenate([[True], rounds[1:] != rounds[:-1]]))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(rounds)], strict=True))
