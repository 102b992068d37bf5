"""Values with intervals: at any time for sparse rewards (betting) and dense ones (empirical Bernstein), and at a fixed
time.

All bets are written as in `comband.statistics.betting`: (1 + λX)/(1 + λv) against V ≤ v and (1 − λX)/(1 − λv) against V
≥ v, so that the sums over events do not depend on v. The first needs no bound on X at all, the second X < 1/λ.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaln

from comband._kernels.betting import add_value_log_wealth
from comband.page.problem import InputError, check_fraction, check_positive, refuse_masked
from comband.page.storage import Array, State, check, require
from comband.statistics.betting import SAFETY
from comband.statistics.grids import between, bisect, by_round, grown, log_mean_exp, one_by_one, stake_grid

# Stakes for values: two octaves apart over the whole range that can matter.
VALUE_STAKES: NDArray[np.float64] = stake_grid(10, per_octave=0.5)

NOWHERE: NDArray[np.int64] = np.empty(0, dtype=np.int64)
NOWHERE.flags.writeable = False


class ValueBets:
    """Evidence about the value of each of P policies, for intervals that hold at all times; blocks of rounds add.

    Rounds under different bounds on X are kept apart, since stakes must stay below 1/bound and be fixed before the
    round. `unit` is that of the stakes, as for `comband.statistics.betting.Bets`.

    Parameters
    ----------
    sums:
        (P,) Σ X.
    low:
        (P, stakes) log-wealths of bets that the value is larger.
    high:
        (P, stakes) the same that it is smaller.

    >>> import numpy as np
    >>> from comband.statistics import ValueBets
    >>> bets = ValueBets.zero(1)
    >>> inside = np.ones((200, 1), dtype=bool)  # 200 rewards of 1 among 1000 rounds, each shown with probability 1/2
    >>> bets.add(np.array([0]), inside, np.arange(200), np.full(200, 2.0), bound=2.0, n_rounds=1000)
    >>> bets.means.tolist()
    [0.4]
    >>> (low,), (high,) = bets.bounds(delta=0.05, max_reward=1)
    >>> bool(0.3 < low < 0.4 < high < 0.52)
    True
    """

    def __init__(
        self,
        sums: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        rounds: dict[float, NDArray[np.int64]],
        *,
        unit: float = 1.0,
    ) -> None:
        self.sums, self.low, self.high, self.rounds = sums, low, high, rounds
        self.n_first: int | None = None  # how many were there at the start, if others may come; None if none will
        self.unit = check_positive("unit", unit)

    @classmethod
    def zero(cls, n_policies: int, *, unit: float = 1.0) -> ValueBets:
        """No rounds yet."""
        shape = (n_policies, len(VALUE_STAKES))
        return cls(np.zeros(n_policies), np.zeros(shape), np.zeros(shape), {}, unit=unit)

    def add(
        self,
        candidates: NDArray[np.int64],
        inside: NDArray[np.bool_] | NDArray[np.float64],
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        bound: float,
        n_rounds: int,
        uncovered: NDArray[np.int64] = NOWHERE,
        max_reward: float = 1.0,
    ) -> None:
        """Enter rounds for some policies; columns of `inside` (E, S) are `candidates`, `weights` are r/Q. They are
        added one after the other: to the last bit it does not matter into which blocks rounds are cut.

        There may be rounds in which X may pass the bound; it counts as 0 below and as ρ = `max_reward` above. Of each,
        `uncovered` (U,) says after how many of the events it comes. Where `inside` are numbers X
        may be negative, and −X must not pass the bound either.
        """
        if len(rows) or len(uncovered):
            stakes = self._stakes(bound)
            all_of_them = len(candidates) == len(self.sums)  # then the sums are added to in place, which is far cheaper
            sums, low, high = self.sums, self.low, self.high
            if not all_of_them:
                sums, low, high = sums[candidates], low[candidates], high[candidates]
            rows = np.asarray(rows, dtype=np.int64)
            for k, part in enumerate(between(uncovered, len(rows))):
                if k:
                    high += np.log1p(-stakes * max_reward)
                if part.start == part.stop:
                    continue
                if inside.dtype == np.bool_:
                    block = np.ascontiguousarray(inside[part], dtype=np.bool_)
                    add_value_log_wealth(block, rows[part], weights[part], stakes, low, high, sums)
                    continue
                worth = by_round(weights[part, None] * inside[part], rows[part])
                sums[:] = one_by_one(sums, worth)
                for j, stake in enumerate(stakes):
                    low[:, j] = one_by_one(low[:, j], np.log1p(stake * worth))
                    high[:, j] = one_by_one(high[:, j], np.log1p(-stake * worth))
            if not all_of_them:
                self.sums[candidates], self.low[candidates], self.high[candidates] = sums, low, high
        elif bound not in self.rounds:
            check_positive("bound", bound)
        counts = self.rounds.setdefault(float(bound), np.zeros(len(self.sums), dtype=np.int64))
        counts[candidates] += n_rounds

    SCHEMA: ClassVar = {
        "sums": Array("f8", ("P",)),
        "low": Array("f8", ("P", len(VALUE_STAKES))),
        "high": Array("f8", ("P", len(VALUE_STAKES))),
        "bounds": Array("f8", ("B",), 0),
        "rounds": Array("i8", ("B", "P"), 0),
    }

    def state(self) -> State:
        """The sums by name, for a file; see `comband.page.storage`."""
        rounds = np.array(list(self.rounds.values()), dtype=np.int64).reshape(-1, len(self.sums))
        return {
            "sums": self.sums,
            "low": self.low,
            "high": self.high,
            "bounds": np.array(list(self.rounds), dtype=np.float64),
            "rounds": rounds,
        }

    @classmethod
    def from_state(cls, state: State, n_policies: int, *, unit: float = 1.0, signed: bool = False) -> ValueBets:
        """The inverse of `state`, checked; `unit` is that of the stakes, `signed` whether X may be negative."""
        check(state, cls.SCHEMA, P=n_policies)
        bounds = state["bounds"].tolist()
        require(len(set(bounds)) == len(bounds) and 0 not in bounds, "bounds must differ, and lie above 0.")
        rounds = dict(zip(bounds, state["rounds"], strict=True))
        with np.errstate(over="ignore"):  # log(1 + λX) ≤ λX
            most = VALUE_STAKES / unit * state["sums"][:, None] * (1 + 1e-9) + 1e-9
        possible = bool(
            (state["sums"] >= 0).all()
            and (state["low"] >= 0).all()
            and (state["low"] <= most).all()
            and (state["high"] <= 0).all()
        )
        if signed:  # |λX| ≤ .9
            most = sum(rounds.values(), np.zeros(n_policies, dtype=np.int64))[:, None] * np.log1p(SAFETY) + 1e-9
            possible = bool((state["low"] <= most).all() and (state["high"] <= most).all())
        require(possible, "evidence about values must not exceed what the sums allow.")
        return cls(state["sums"], state["low"], state["high"], rounds, unit=unit)

    def __add__(self, other: ValueBets) -> ValueBets:
        rounds = {bound: counts.copy() for bound, counts in self.rounds.items()}
        for bound, counts in other.rounds.items():
            rounds[bound] = rounds[bound] + counts if bound in rounds else counts.copy()
        if self.unit != other.unit:
            raise InputError(f"evidence to add must have one unit, got {self.unit} and {other.unit}.")
        total = ValueBets(self.sums + other.sums, self.low + other.low, self.high + other.high, rounds, unit=self.unit)
        total.n_first = self.n_first
        return total

    def grown(self, n: int) -> ValueBets:
        """The same with n further policies, of which nothing is known; for them `n_first` must have been said."""
        if self.n_first is None:
            raise InputError("all of delta is spent on the policies of the start: say n_first before others come.")
        rounds = {bound: grown(counts, n) for bound, counts in self.rounds.items()}
        more = ValueBets(grown(self.sums, n), grown(self.low, n), grown(self.high, n), rounds, unit=self.unit)
        more.n_first = self.n_first
        return more

    def _stakes(self, bound: float) -> NDArray[np.float64]:
        return np.minimum(VALUE_STAKES / self.unit, SAFETY / check_positive("bound", bound))

    @property
    def n_rounds(self) -> NDArray[np.int64]:
        """How many rounds count for each policy."""
        return sum(self.rounds.values(), np.zeros(len(self.sums), dtype=np.int64))

    @property
    def means(self) -> NDArray[np.float64]:
        """Estimated values (P,); 0 where nothing was seen."""
        return np.asarray(self.sums / np.maximum(self.n_rounds, 1))

    def _shares(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """1 over the share of δ that some policies have."""
        if self.n_first is None:
            return np.full(len(which), len(self.sums))
        later = np.maximum(which - self.n_first + 1, 1)
        return np.where(which < self.n_first, 1, later * (later + 1)) * (self.n_first + 1)

    def bounds(
        self, *, delta: float, max_reward: float, indices: ArrayLike | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of intervals for the policies at `indices`: those of all policies, whenever they came, hold together, at
        all times, with probability 1 − δ.

        Each of P policies has δ/P. Where others may come, each of the n = `n_first` that were there at the start has
        δ/(n + 1), and the i-th that comes later, from its arrival on, δ/((n + 1)·i(i + 1)): these sum to one more
        share.
        """
        check_fraction("delta", delta)
        which = np.arange(len(self.sums)) if indices is None else np.asarray(indices, dtype=np.int64)
        threshold = np.log(2 * self._shares(which) / delta)

        def not_below(v: NDArray[np.float64]) -> NDArray[np.bool_]:
            """Whether V ≤ v is not refuted."""
            total = self.low[which].copy()
            for bound, counts in self.rounds.items():
                total -= counts[which, None] * np.log1p(self._stakes(bound) * v[:, None])
            return np.asarray(log_mean_exp(total) < threshold)

        def above(v: NDArray[np.float64]) -> NDArray[np.bool_]:
            """Whether V ≥ v is refuted."""
            total = self.high[which].copy()
            for bound, counts in self.rounds.items():
                total -= counts[which, None] * np.log1p(-self._stakes(bound) * v[:, None])
            return np.asarray(log_mean_exp(total) >= threshold)

        none = np.zeros(len(which))
        return bisect(not_below, none, max_reward)[0], bisect(above, none, max_reward)[1]


def gamma_exponential_bernstein(
    deviations: ArrayLike, intrinsic_time: ArrayLike, *, alpha: float, bound: float, best_at: float
) -> NDArray[np.float64]:
    """log-evidence against "the mean is no larger than claimed", at any time, for *dense* rewards.

    For X_i ≤ m_i + b with predictable guesses m̂_i, and S = Σ(X_i − μ), V = Σ(X_i − m̂_i)², the process
    ∫ exp(λS − ψ(λ)V) dF(λ), ψ(λ) = (−log(1 − bλ) − bλ)/b², is a supermartingale under mean μ; F is a gamma-like
    density on [0, 1/b), for which the integral is closed. Sums of S and V over blocks add when each block's guess is
    fixed before it.

    Parameters
    ----------
    deviations, intrinsic_time:
        S and V.
    alpha:
        The level for which the mixture is tuned.
    bound:
        b, the range of X.
    best_at:
        The V at which the resulting boundary should be tightest.

    Reference: Howard, Ramdas, McAuliffe & Sekhon (2021), Proposition 9 and Theorem 4.

    >>> import numpy as np
    >>> from comband.statistics import gamma_exponential_bernstein
    >>> evidence = gamma_exponential_bernstein([5, 80], [240, 240], alpha=0.05, bound=1, best_at=240)
    >>> (evidence > np.log(1 / 0.05)).tolist()  # a deviation of 5 is nothing, one of 80 refutes the claim
    [False, True]
    """
    check_fraction("alpha", alpha)
    b = check_positive("bound", bound)
    s = np.asarray(deviations, dtype=np.float64) / b
    v = np.asarray(intrinsic_time, dtype=np.float64) / b**2
    rho = check_positive("best_at", best_at) / b**2 / (2 * np.log(1 / alpha) + np.log1p(2 * np.log(1 / alpha)))
    constant = rho * np.log(rho) - gammaln(rho) - np.log(gammainc(rho, rho))
    total = np.maximum(s + v + rho, 1e-300)
    inner = gammainc(v + rho, total)
    with np.errstate(divide="ignore"):
        value = constant + gammaln(v + rho) + np.log(inner) - (v + rho) * np.log(total) + s + v
    return np.asarray(value)


def bernstein_sequence(
    sums: ArrayLike,
    n_rounds: ArrayLike,
    intrinsic_time: ArrayLike,
    *,
    alpha: float,
    bound: float,
    best_at: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval for a mean of values in [0, b], valid at any time with probability 1 − α (α/2 a side).

    `intrinsic_time` is Σ(X_i − m̂_i)² with guesses m̂_i ∈ [0, b] made before X_i.

    Parameters
    ----------
    intrinsic_time:
        Σ(X_i − m̂_i)².
    sums:
        Σ X_i.
    n_rounds:
        How many values there are.
    alpha:
        The probability that the interval ever misses.
    bound:
        b.
    best_at:
        The intrinsic time at which the interval should be tightest.

    >>> from comband.statistics import bernstein_sequence
    >>> low, high = bernstein_sequence(400, 1000, 240, alpha=0.05, bound=1, best_at=240)  # of 1000 rounds
    >>> bool(0.3 < low < 0.4 < high < 0.5)
    True
    """
    total, n, v = (np.asarray(a, dtype=np.float64) for a in (sums, n_rounds, intrinsic_time))
    threshold = np.log(2 / alpha)
    size = np.broadcast(total, n, v).shape

    def refuted(deviation: NDArray[np.float64]) -> NDArray[np.bool_]:
        evidence = gamma_exponential_bernstein(deviation, v, alpha=alpha / 2, bound=bound, best_at=best_at)
        return np.asarray(evidence >= threshold)

    most = np.sqrt(v + 1) * 40 * threshold + 40 * bound * threshold
    mean, radius = total / np.maximum(n, 1), bisect(refuted, np.zeros(size), most)[1] / np.maximum(n, 1)
    return np.clip(mean - radius, 0, bound), np.clip(mean + radius, 0, bound)


def fixed_n_betting_bound(values: ArrayLike, *, alpha: float, bound: float = 1.0) -> tuple[float, float]:
    """Interval for the mean of n i.i.d. values in [0, b] at an n fixed beforehand, with probability 1 − α.

    Stakes √(2 log(2/α)/(n σ̂²_{t−1})) from the past only (the predictable plug-in of Waudby-Smith & Ramdas, 2024,
    §4.3), tested where the wealth is largest over all times, which Ville's inequality allows.

    Parameters
    ----------
    values:
        (n,) in [0, b].
    alpha:
        The probability that the interval misses.
    bound:
        b.

    >>> import numpy as np
    >>> from comband.statistics import fixed_n_betting_bound
    >>> low, high = fixed_n_betting_bound(np.tile([0.0, 1.0], 500), alpha=0.05)
    >>> bool(0.44 < low < 0.5 < high < 0.56)
    True
    """
    check_fraction("alpha", alpha)
    b = check_positive("bound", bound)
    refuse_masked("values", values)
    x = np.asarray(values, dtype=np.float64) / b
    if x.ndim != 1 or len(x) == 0 or not ((x >= 0) & (x <= 1 + 1e-9)).all():
        raise InputError(f"values must be numbers in [0, bound] = [0, {b:g}], at least one.")
    n = len(x)
    count = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.r_[0.25, variance[:-1]]
    stakes = np.minimum(np.sqrt(2 * np.log(2 / alpha) / (n * before)), 0.75)
    threshold = np.log(2 / alpha)

    def refuted(v: float, sign: int) -> bool:
        wealth = np.cumsum(np.log1p(sign * stakes * (x - v)))
        return bool(wealth.max() >= threshold)

    low, _ = bisect(lambda v: np.array(not refuted(float(v), 1)), 0.0, 1.0)
    _, high = bisect(lambda v: np.array(refuted(float(v), -1)), 0.0, 1.0)
    return float(low * b), float(high * b)
