"""Sums that add exactly: the same to the last digit in any order, cut into any parts and put together in any way.

Floating-point addition depends on its order. Here every number is rounded once, by itself, to a whole number of 2^−40
(or 2^−80) of a unit that all of them share, and whole numbers add without rounding. So what shards, workers and retries
contribute can be added as it comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband._kernels.betting import ONE
from comband.statistics.importance import ValueSums

# So many numbers of at most 4 units each fit beside one another before what exceeds 1 is carried.
MOST = 1 << 20
_DIGIT = 40
_HALF = np.int64(1) << (_DIGIT - 1)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class ExactSums:
    """Many sums, each as digits to the base 2^40: whole units, then parts of 2^−40, then of 2^−80; `a + b` adds.

    Digits after the first lie in [−2^39, 2^39) once they are carried, so that equal sums have equal digits.

    >>> half = ExactSums.zero(2, digits=2)
    >>> half.room(1)
    >>> half.digits[1] += [1 << 39, -1]
    >>> (half + half + half).values.tolist()
    [1.5, -2.7284841053187847e-12]
    """

    digits: NDArray[np.int64]
    _pending: NDArray[np.int64]

    @classmethod
    def zero(cls, *shape: int, digits: int) -> ExactSums:
        """Nothing added yet."""
        return cls(np.zeros((digits, *shape), dtype=np.int64), np.zeros(1, dtype=np.int64))

    def room(self, n: int) -> None:
        """To be called before up to n ≤ MOST numbers are added to each sum, in place, by a kernel."""
        if self._pending[0] + n > MOST:
            self.carry()
        self._pending[0] += n

    def carry(self) -> None:
        """Move what exceeds a digit into the one before it."""
        for k in range(len(self.digits) - 1, 0, -1):
            over = (self.digits[k] + _HALF) >> _DIGIT
            self.digits[k] -= over << _DIGIT
            self.digits[k - 1] += over
        self._pending[0] = 0

    def add_at(self, j: int, other: ExactSums) -> None:
        """Add the sums of one variable, (…, 1), to those of variable j, in place."""
        self.carry()
        other.carry()
        self.digits[..., j] += other.digits[..., 0]
        self.carry()

    def __add__(self, other: ExactSums) -> ExactSums:
        self.carry()
        other.carry()
        total = ExactSums(self.digits + other.digits, np.zeros(1, dtype=np.int64))
        total.carry()
        return total

    @property
    def values(self) -> Floats:
        """The sums as floating-point numbers, in units."""
        self.carry()
        total = self.digits[-1] / ONE
        for k in range(len(self.digits) - 2, 0, -1):
            total = (total + self.digits[k]) / ONE
        return np.asarray(total + self.digits[0])


@dataclass(frozen=True, eq=False, slots=True)
class ExactValueSums:
    """`ValueSums` of values in [−bound, bound], exactly; `a + b` has seen both."""

    n_rounds: int
    bound: float
    sums: ExactSums
    squares: ExactSums

    @classmethod
    def zero(cls, n_policies: int, *, bound: float, n_rounds: int = 0) -> ExactValueSums:
        """Nothing seen yet, or only rounds without reward."""
        sums, squares = (ExactSums.zero(n_policies, digits=3) for _ in range(2))
        return cls(n_rounds, bound, sums, squares)

    @property
    def unit(self) -> float:
        """The power of two that values are counted in."""
        return float(2.0 ** min(np.ceil(np.log2(self.bound)), 1023.0))

    def rounded(self) -> ValueSums:
        """As floating-point numbers."""
        return ValueSums(self.n_rounds, self.sums.values * self.unit, self.squares.values * self.unit * self.unit)

    def __add__(self, other: ExactValueSums) -> ExactValueSums:
        if self.bound != other.bound:
            raise ValueError(f"sums to add must have one bound, got {self.bound} and {other.bound}.")
        return ExactValueSums(
            self.n_rounds + other.n_rounds, self.bound, self.sums + other.sums, self.squares + other.squares
        )
