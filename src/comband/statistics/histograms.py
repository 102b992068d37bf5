"""Bounds by betting on the means of many bounded variables, from histograms that add.

The wealth of a bet is a product over rounds. Rounds without reward contribute a known factor, and the others enter
through a histogram whose error is on the safe side, so a bound costs a pass over the events and nothing per round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband._kernels.betting import split_histogram, split_shared
from comband.page.problem import InputError, check_count, check_positive
from comband.page.threads import for_each
from comband.statistics.exact import MOST, ExactSums, ExactValueSums
from comband.statistics.grids import crossing, log_mean_exp, stake_grid
from comband.statistics.importance import SharedActions

# Bets .98/2^j of the largest safe one, fixed beforehand: one of them is within √2 of the best for any sample size.
_BETS = stake_grid(16, largest=0.98)
# Grid of values: 0 and ± bound·ratio^−k; log-wealths are concave, so interpolating between grid points never gains.
_POINTS = 320
_RATIO = 2.0 ** (1 / 16)
_STEPS = 32
_BLOCK = 128  # variables that are searched together: with fewer, numpy's calls cost more than their work

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class ValueHistograms:
    """How often variables Z_t(1) … Z_t(P) in [−bound, bound] took which values over `n_rounds` rounds; `a + b` adds.

    A value between two points of the grid is split between them so that the mean is kept. Since log(1 − λ(z − μ)) is
    concave in z, that can only lower the computed wealth: bounds stay valid, and lose little (points are 4% apart).
    Rounds that were never added count as zeros. Shares are whole numbers of 2^−40, so that histograms add exactly: the
    same bits for any order and any parts.
    """

    n_rounds: int
    bound: float
    exact: ExactSums

    @classmethod
    def zero(cls, n_variables: int, *, bound: float, n_rounds: int = 0) -> ValueHistograms:
        """Nothing seen yet, or only zeros in `n_rounds` rounds."""
        check_count("n_rounds", n_rounds, least=0)
        exact = ExactSums.zero(2 * _POINTS + 1, n_variables, digits=2)
        return cls(n_rounds, check_positive("bound", bound), exact)

    @property
    def counts(self) -> Floats:
        """(P, 2·320 + 1), from −bound over 0 to bound."""
        return np.ascontiguousarray(self.exact.values.T)

    def add(self, values: NDArray[np.float64]) -> None:
        """Put in values (rounds, P) of rounds that `n_rounds` counts already."""
        self._check(float(np.abs(values).max(initial=0.0)))
        for start in range(0, len(values), MOST):
            block = np.ascontiguousarray(values[start : start + MOST])
            self.exact.room(len(block))
            split_histogram(block, self.exact.digits[1], self.bound, np.log(_RATIO))

    def add_shared(
        self,
        shared: SharedActions,
        weights: Floats,
        *,
        offsets: Floats | None = None,
        sums: ExactValueSums | None = None,
    ) -> None:
        """As `add` of shared.sums(weights) + offsets[:, None], which also goes into `sums`, without that matrix."""
        if shared.by_chance:
            self._add_probabilities(shared, weights, offsets, sums)
            return
        if sums is None:
            sums = ExactValueSums.zero(0, bound=self.bound)  # not asked for
        offsets = np.zeros(len(shared.rounds)) if offsets is None else offsets
        bits, starts, weights = shared.packed().bits, shared.starts, weights[shared.events]
        for first in range(0, len(offsets), MOST):
            last = min(first + MOST, len(offsets))
            events = slice(starts[first], starts[last])
            for exact in (self.exact, sums.sums, sums.squares):
                exact.room(last - first)
            largest = split_shared(
                bits[events],
                starts[first : last + 1] - starts[first],
                weights[events],
                offsets[first:last],
                self.exact.digits[1],
                sums.sums.digits[1:],
                sums.squares.digits[1:],
                self.bound,
                np.log(_RATIO),
                sums.unit,
            )
            self._check(largest)

    def _add_probabilities(
        self, shared: SharedActions, weights: Floats, offsets: Floats | None, sums: ExactValueSums | None
    ) -> None:
        """`add_shared` for candidates that show items by chance: one after the other, with weights of its own."""
        inside = np.asarray(shared.inside)
        every = shared.for_one()
        for j in range(inside.shape[1]):
            own = weights.copy()
            own[shared.events] *= inside[:, j]
            alone = ValueHistograms.zero(1, bound=self.bound)
            told = None if sums is None else ExactValueSums.zero(1, bound=sums.bound)
            alone.add_shared(every, own, offsets=offsets, sums=told)
            self.exact.add_at(j, alone.exact)
            if sums is not None and told is not None:
                sums.sums.add_at(j, told.sums)
                sums.squares.add_at(j, told.squares)

    def _check(self, largest: float) -> None:
        if not largest <= self.bound * (1 + 1e-9):  # NaN is refused too
            raise InputError(
                f"a round is worth {largest:.4g} to a candidate where at most {self.bound:.4g} can be: "
                "raise max_reward (or the problem's sparsity), or lower min_propensity."
            )

    def __add__(self, other: ValueHistograms) -> ValueHistograms:
        if self.bound != other.bound:
            raise ValueError(f"histograms to add must have one bound, got {self.bound} and {other.bound}.")
        return ValueHistograms(self.n_rounds + other.n_rounds, self.bound, self.exact + other.exact)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Values that nothing fell on, most of them, are not sent."""
        self.exact.carry()
        used = np.flatnonzero(self.exact.digits.any(axis=(0, 2)))
        shape = self.exact.digits.shape
        return _from_rows, (
            self.n_rounds,
            self.bound,
            shape,
            used,
            np.ascontiguousarray(self.exact.digits[:, used]),
        )

    @property
    def grid(self) -> NDArray[np.float64]:
        """The values that are counted."""
        positive = self.bound * _RATIO ** -np.arange(_POINTS - 1, -1, -1.0)
        return np.concatenate([-positive[::-1], [0.0], positive])

    def bounds(self, *, threshold: float, largest: float) -> tuple[Floats, Floats]:
        """Both sides, for variables that are never negative: each end is wrong with probability at most 1/threshold."""
        ends = self.lower_bounds, self.upper_bounds
        low, high = (end(threshold=threshold, largest=largest) for end in ends)
        return low, high

    def upper_bounds(
        self, *, threshold: float, largest: float, powers: tuple[float, int] | None = None
    ) -> NDArray[np.float64]:
        """For each variable a number u in [0, largest]: E[Z] > u with probability at most 1/threshold.

        The wealth K(μ) = (1/J) Σ_j Π_t (1 − λ_j (Z_t − μ)) is a nonnegative martingale or less when E[Z_t] ≥ μ and
        λ_j (Z_t − μ) < 1, which λ_j = .98·2^−j/bound ensures for μ ≥ 0; u is where it reaches `threshold` (Ville). It
        grows with μ, so u is found by `crossing`. Valid at any stopping time, since the bets are fixed beforehand.

        Where the bound was read off the data, `powers` = (c, k) say that Z ≤ c·2^k, and c must have been known before.
        Stakes are then λ_i = .98·2^−i/c for i = k, k + 1, …, with weights 1/((i + 1)(i + 2)) that sum to at most 1 over
        all of them: a larger k leaves terms out of one and the same wealth, so that whichever k the data suggest, the
        bound is right if Z ≤ c·2^k. (The grid of a histogram may depend on the data.)
        """
        bets, weights = _BETS / self.bound, np.zeros(len(_BETS))
        if powers is not None:
            i = powers[1] + np.arange(len(_BETS))
            bets = _BETS * 2.0 ** -powers[1] / powers[0]
            weights = np.log(len(_BETS) / ((i + 1.0) * (i + 2.0)))

        def log_wealth(mu: Floats, counts: Floats, grid: Floats, zeros: Floats) -> Floats:
            gains = bets[None, :, None] * (mu[:, None] - grid)[:, None, :]
            return _mix(gains, counts, zeros[:, None] * np.log1p(bets[None, :] * mu[:, None]) + weights)

        return self._first_reach(log_wealth, threshold, largest)

    def lower_bounds(self, *, threshold: float, largest: float) -> NDArray[np.float64]:
        """For variables that are never negative a number u in [0, largest]: E[Z] < u with probability ≤ 1/threshold.

        K(v) = (1/J) Σ_j Π_t (1 + λ_j (Z_t/v − 1)), λ_j = .98·2^−j: nothing about the largest value is needed.
        """

        def log_wealth(distance: Floats, counts: Floats, grid: Floats, zeros: Floats) -> Floats:
            # The wealth falls with v: reflected, one search serves both. The floor is far below what a search resolves.
            v = np.maximum(largest - distance, largest * 2.0**-60 + self.bound * 2.0**-900)
            gains = _BETS[None, :, None] * (grid / v[:, None] - 1)[:, None, :]
            return _mix(gains, counts, zeros[:, None] * np.log1p(-_BETS)[None, :])

        return np.maximum(largest - self._first_reach(log_wealth, threshold, largest, reflected=True), 0.0)

    def signed_lower_bounds(self, *, threshold: float, largest: float, least: float = 0.0) -> NDArray[np.float64]:
        """The same for variables that may be negative, a number in [least, largest]: K(v) = (1/J) Σ_j Π_t (1 + λ_j (Z_t
        − v)), which stays positive for v ≤ largest with λ_j = .98·2^−j/(bound + largest).
        """
        bets = _BETS / (self.bound + largest)

        def log_wealth(distance: Floats, counts: Floats, grid: Floats, zeros: Floats) -> Floats:
            v = largest - distance
            gains = bets[None, :, None] * (grid - v[:, None])[:, None, :]
            return _mix(gains, counts, zeros[:, None] * np.log1p(-bets[None, :] * v[:, None]))

        span = largest - least
        reach = self._first_reach(log_wealth, threshold, largest, reflected=True, span=span)
        return np.maximum(largest - reach, least)

    def signed_bounds(self, *, threshold: float, largest: float) -> tuple[Floats, Floats]:
        """Both sides in [−largest, largest], for variables that may be negative: each end is wrong with probability at
        most 1/threshold.
        """
        low, most = (
            one.signed_lower_bounds(threshold=threshold, largest=largest, least=-largest)
            for one in (self, self.negated())
        )
        return low, -most

    def negated(self) -> ValueHistograms:
        """Of −Z."""
        self.exact.carry()
        exact = ExactSums.zero(*self.exact.digits.shape[1:], digits=len(self.exact.digits))
        exact.digits[:] = self.exact.digits[:, ::-1]
        return ValueHistograms(self.n_rounds, self.bound, exact)

    def means_and_errors(self) -> tuple[Floats, Floats]:
        """Means, up to the splitting of values, and the standard errors of these."""
        n, counts, grid = max(self.n_rounds, 1), self.counts, self.grid
        means = counts @ grid / n
        return means, np.sqrt(np.maximum(counts @ grid**2 / n - means**2, 0.0) / n)

    def _first_reach(
        self,
        log_wealth: Callable[[Floats, Floats, Floats, Floats], Floats],
        threshold: float,
        largest: float,
        *,
        reflected: bool = False,
        span: float | None = None,
    ) -> Floats:
        """The least x in [0, largest], or up to `span`, where each variable's growing wealth reaches the threshold, or
        that end; over threads, in blocks that do not touch each other.

        x is a candidate for the mean, or if `reflected` its distance from `largest`. At the sample's mean no bet has
        gained (concavity), so the search begins there; the first guess is where a normal variable's would end.
        """
        everything, all_points = self.counts, self.grid
        result, goal = np.empty(len(everything)), np.log(threshold)

        def search(first: int) -> None:
            counts = everything[first : first + _BLOCK]
            used = counts.any(axis=0)
            zeros = self.n_rounds - counts.sum(axis=1)
            counts, grid = np.ascontiguousarray(counts[:, used]), all_points[used]
            n, points = max(self.n_rounds, 1), grid / self.bound
            mean = counts @ points / n
            needed = min(max(goal, 0.0) + np.log(len(_BETS)), 1e3)  # of one stake, that their average reaches the goal
            spread = np.sqrt(2 * needed / n * np.maximum(counts @ points**2 / n - mean**2, 0.0))
            start = largest - self.bound * mean if reflected else self.bound * mean
            result[first : first + _BLOCK] = crossing(
                lambda x: log_wealth(x, counts, grid, zeros) - goal,
                largest if span is None else span,
                start=start,
                guess=start + self.bound * spread,
                steps=_STEPS,
            )

        for_each(search, range(0, len(result), _BLOCK))
        return result


def _from_rows(
    n_rounds: int, bound: float, shape: tuple[int, ...], used: NDArray[np.int64], digits: NDArray[np.int64]
) -> ValueHistograms:
    """The inverse of `ValueHistograms.__reduce__`."""
    exact = ExactSums.zero(*shape[1:], digits=shape[0])
    exact.digits[:, used] = digits
    return ValueHistograms(n_rounds, bound, exact)


def _mix(gains: Floats, counts: Floats, zeros: Floats) -> Floats:
    """log (1/J) Σ_j exp(Σ_z counts(z) log(1 + gains_j(z)) + the part of the zeros), for gains (P, J, z), which become
    these logarithms: a second array of that size would take longer than they do.
    """
    gains += 1
    np.log(gains, out=gains)
    return log_mean_exp(np.matmul(gains, counts[:, :, None])[:, :, 0] + zeros)
