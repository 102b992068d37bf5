"""How much more one list collects than another, from visitors who were assigned to either at random, and nothing else.

A unit (a round, or a user with all rounds that count) is assigned to the candidate (Z = 1) with probability κ and to
production (Z = 0) otherwise, and collects T ∈ [0, τ]. For every f that was fixed before the unit came,

    D = (T − f)·(Z/κ − (1 − Z)/(1 − κ)),    E D = V − V_p = v,

whatever places do, however items of a list take each other's clicks: only the assignment must be random. Where both
would have shown the same lists in the same order both are worth the same, and D = 0 has the same mean with no variance.

Evidence that v exceeds w is Π(1 + λ(D − w)), that it is below w Π(1 − λ(D − w)), averaged over three stakes λ. f and λ
are those of the unit's *block*, fixed from units that were complete before it was assigned, so that each is a
supermartingale for the true v, and passes 1/α ever with probability α at most (Ville). The numbers w that are not
refuted hold v at all times. Log-wealths fall (rise) in w, so these numbers are an interval.

Of the *relative* lift θ, V = (1 + θ)V_p, the same is said by

    G = (T − f)·(Z/κ − (1 + θ)(1 − Z)/(1 − κ)) − θf,    −θT where the lists are the same,

which has mean V − (1 + θ)V_p = 0. Log-wealths are concave in θ, not monotone: for each stake the refuted θ are one
interval, which is found by its maximum; the numbers that no stake alone refutes, at a third of its wealth, hold θ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import InputError, check_count, check_fraction, check_number, check_positive
from comband.page.storage import Array, State, Whole, check, require
from comband.statistics.grids import bisect, log_mean_exp

Floats = NDArray[np.float64]

STAKES = np.array([0.5, 1.0, 2.0])  # times what looks best
SAFETY = 0.9  # of the largest stake that cannot lose everything
LARGEST_LIFT = 1.0  # relative lifts are looked for up to twice production's value
_NOT_BELOW, _STEPS = -1.0, 60


class LiftBets:
    """Evidence about V − V_p.

    Parameters
    ----------
    share:
        κ, the probability of the candidate.
    largest:
        τ, the most that a unit collects.

    >>> bets = LiftBets(share=0.5, largest=1.0)
    >>> block = bets.begin(baseline=0.25, stake=0.1)
    >>> rng = np.random.default_rng(1)
    >>> mine = rng.random(4000) < 0.5
    >>> totals = (rng.random(4000) < np.where(mine, 0.35, 0.25)) * 1.0
    >>> bets.add(np.full(4000, block), mine, totals, np.zeros(4000, dtype=bool))
    >>> low, high = bets.bounds(alpha_low=0.025, alpha_high=0.025)
    >>> bool(0 < low < 0.1 < high < 0.2)
    True
    """

    def __init__(self, *, share: float, largest: float) -> None:
        self.share = check_fraction("share", share)
        self.largest = check_positive("largest", largest)
        self.baselines, self.stakes = np.zeros(0), np.zeros(0)  # of blocks
        # Units that are alike, and how many of them there are.
        self.blocks, self.mine = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8)
        self.totals, self.counts = np.zeros(0), np.zeros(0, dtype=np.int64)

    def begin(self, *, baseline: float, stake: float) -> int:
        """The number of a new block with this f and λ."""
        f, most = check_number("baseline", baseline), self.largest
        if not 0 <= f <= most:
            raise InputError(f"baseline must lie between 0 and {most:g}, the most that a unit collects, got {f:g}.")
        self.baselines, self.stakes = np.r_[self.baselines, f], np.r_[self.stakes, check_positive("stake", stake)]
        return len(self.stakes) - 1

    def add(
        self,
        blocks: NDArray[np.int64],
        mine: NDArray[np.bool_],
        totals: Floats,
        same: NDArray[np.bool_],
    ) -> None:
        """Enter units: of which block each is, whether the candidate was shown, what it collected, and whether both
        would have shown the same.
        """
        if len(blocks) and not (blocks.min() >= 0 and blocks.max() < len(self.stakes)):
            raise InputError(f"blocks must be among the {len(self.stakes)} that have begun.")
        kind = np.where(same, 2, mine.astype(np.int8)).astype(np.int8)
        columns = (
            np.r_[self.blocks, blocks],
            np.r_[self.mine, kind],
            np.r_[self.totals, np.asarray(totals, dtype=np.float64)],
        )
        counts = np.r_[self.counts, np.ones(len(blocks), dtype=np.int64)]
        order = np.lexsort(columns[::-1])
        columns, counts = (tuple(column[order] for column in columns), counts[order])
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        self.blocks, self.mine, self.totals = (column[first] for column in columns)
        self.counts = np.add.reduceat(counts, np.flatnonzero(first)) if len(order) else counts

    # ---- estimates ---------------------------------------------------------------------------------------------------

    @property
    def units(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    def assigned(self) -> tuple[int, int]:
        """How many units were shown the candidate, and how many production, where the lists differ."""
        return int(self.counts[self.mine == 1].sum()), int(self.counts[self.mine == 0].sum())

    def differences(self, baseline: float | None = None) -> Floats:
        """D of each kind of unit, with another baseline than its block's if one is given."""
        f = self.baselines[self.blocks] if baseline is None else baseline
        signs = np.select([self.mine == 1, self.mine == 0], [1 / self.share, -1 / (1 - self.share)], 0.0)
        return np.asarray((self.totals - f) * signs)

    def estimate(self, baseline: float | None = None) -> tuple[float, float]:
        """The mean of D and its standard error (infinite before there are two units)."""
        n, D = self.units, self.differences(baseline)
        if n < 2:
            return 0.0, np.inf
        mean = float(self.counts @ D) / n
        return mean, float(np.sqrt(float(self.counts @ (D - mean) ** 2) / n / (n - 1)))

    def means(self) -> tuple[float, float]:
        """What the candidate and production collect per unit, estimated; 0 where nothing was shown."""
        n, same = max(self.units, 1), self.mine == 2
        both = float(self.counts[same] @ self.totals[same])
        found = []
        for arm, share in ((1, self.share), (0, 1 - self.share)):
            where = self.mine == arm
            shown, differing = int(self.counts[where].sum()), n - int(self.counts[same].sum())
            own = float(self.counts[where] @ self.totals[where])
            found.append((both + (own / shown * differing if shown else own / share)) / n)
        return found[0], found[1]

    def best_baseline(self) -> float:
        """The f with the least variance of D: what each side collects, weighted by how seldom it is shown."""
        where = [self.mine == arm for arm in (0, 1)]
        n = [int(self.counts[one].sum()) for one in where]
        if min(n) == 0:
            return 0.0
        p, w = (float(self.counts[where[i]] @ self.totals[where[i]]) / n[i] for i in range(2))
        return float(np.clip((1 - self.share) * w + self.share * p, 0.0, self.largest))

    # ---- bounds ------------------------------------------------------------------------------------------------------

    def _reach(self) -> Floats:
        """The largest |D| of each block."""
        far = np.maximum(self.baselines, self.largest - self.baselines)
        return np.asarray(far / min(self.share, 1 - self.share))

    def _capped(self, reach: Floats) -> Floats:
        """Stakes (units' kinds, 3) that lose no more than `SAFETY` of all."""
        stakes = np.minimum(self.stakes[:, None] * STAKES, (SAFETY / reach)[:, None])
        return np.asarray(stakes[self.blocks])

    def evidence(self, w: float, *, above: bool) -> float:
        """log-wealth of the bets that v lies above w, or below."""
        stakes = self._capped(self._reach() + self.largest)
        sign = 1.0 if above else -1.0
        gains = np.log1p(sign * stakes * (self.differences()[:, None] - w))
        return (
            float(log_mean_exp(np.asarray(self.counts @ gains, dtype=np.float64)[None])[0]) if len(self.counts) else 0.0
        )

    def bounds(self, *, alpha_low: float, alpha_high: float) -> tuple[float, float]:
        """Ends of an interval for v = V − V_p, at all times: each is ever passed with its probability at most."""
        low_at, high_at = (np.log(1 / check_fraction("alpha", alpha)) for alpha in (alpha_low, alpha_high))
        most = self.largest
        low, _ = bisect(lambda w: np.array(self.evidence(float(w), above=True) < low_at), -most, most)
        _, high = bisect(lambda w: np.array(self.evidence(float(w), above=False) >= high_at), -most, most)
        return float(low), float(high)

    def relative_bounds(self, *, alpha_low: float, alpha_high: float) -> tuple[float, float]:
        """Ends of an interval for θ in V = (1 + θ)·V_p, at all times; −1, or infinity, where nothing is known."""
        f, most = self.baselines, self.largest
        reach = (1 + LARGEST_LIFT) * self._reach() + LARGEST_LIFT * f
        stakes, f = self._capped(reach), f[self.blocks]
        same, centred = self.mine == 2, self.totals - f
        # G = a − θ·b, each kind of unit by itself.
        a = np.select([self.mine == 1, self.mine == 0], [centred / self.share, -centred / (1 - self.share)], 0.0)
        b = np.where(same, self.totals, f + np.where(self.mine == 0, centred / (1 - self.share), 0.0))
        require(bool(most > 0), "units must be able to collect something.")

        def wealth(j: int, sign: float) -> Callable[[float], float]:
            return lambda theta: float(self.counts @ np.log1p(sign * stakes[:, j] * (a - theta * b)))

        def refuted(sign: float, alpha: float) -> list[tuple[float, float]]:
            at = float(np.log(len(STAKES) / check_fraction("alpha", alpha)))
            parts = (_above(wealth(j, sign), at, _NOT_BELOW, LARGEST_LIFT) for j in range(len(STAKES)))
            return [part for part in parts if part is not None]

        if not len(self.counts):
            return _NOT_BELOW, np.inf
        low, high = _NOT_BELOW, LARGEST_LIFT
        for start, stop in sorted(refuted(1.0, alpha_low)):
            if start <= low:
                low = max(low, stop)
        for start, stop in sorted(refuted(-1.0, alpha_high), key=lambda part: -part[1]):
            if stop >= high:
                high = min(high, start)
        return low, np.inf if high >= LARGEST_LIFT else high

    # ---- saving ------------------------------------------------------------------------------------------------------

    SCHEMA: ClassVar = {
        "baselines": Array("f8", ("B",), 0),
        "stakes": Array("f8", ("B",), 0),
        "blocks": Array("i8", ("C",), 0, "B-1"),
        "mine": Array("i1", ("C",), 0, 2),
        "totals": Array("f8", ("C",), 0),
        "counts": Array("i8", ("C",), 1),
        "n_blocks": Whole(0),
    }

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        names = ("baselines", "stakes", "blocks", "mine", "totals", "counts")
        return {**{name: getattr(self, name) for name in names}, "n_blocks": len(self.stakes)}

    @classmethod
    def from_state(cls, state: State, *, share: float, largest: float) -> LiftBets:
        """The inverse of `state`, checked."""
        n_blocks = check_count("n_blocks", state["n_blocks"], least=0) if "n_blocks" in state else 0
        check(state, cls.SCHEMA, B=n_blocks)
        bets = cls(share=share, largest=largest)
        require(
            bool((state["baselines"] <= largest).all() and (state["totals"] <= largest * (1 + 1e-9)).all()),
            "no unit can collect so much.",
        )
        for name in ("baselines", "stakes", "blocks", "mine", "totals", "counts"):
            setattr(bets, name, state[name])
        return bets


def _above(height: Callable[[float], float], level: float, low: float, high: float) -> tuple[float, float] | None:
    """Where a concave function on [low, high] is at least `level`: one interval, cut to what is sure; None if nowhere.

    >>> low, high = _above(lambda x: 1 - x**2, 0.75, -1.0, 1.0)
    >>> round(low, 6), round(high, 6)
    (-0.5, 0.5)
    """
    ends = low, high
    golden = (np.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = height(left), height(right)
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = height(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = height(right)
    peak = max((left, right, *ends), key=height)
    if height(peak) < level:
        return None
    start, stop = ends
    if height(start) < level:
        start = float(bisect(lambda x: np.array(height(float(x)) >= level), start, peak)[1])
    if height(stop) < level:
        stop = float(bisect(lambda x: np.array(height(float(x)) < level), peak, stop)[0])
    return start, stop
