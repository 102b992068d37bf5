"""A guard against candidates that change places while the run goes on.

Let D_t = X_t(a) − X_t(b) be the importance-weighted difference of two candidates in round t. How lists are drawn
changes from epoch to epoch, and with it the distribution of D_t; but while the world is at rest its mean given the past
is V(a) − V(b) = g in every round. That is all that is assumed here: no two rounds need be alike.

*One pair, g known.* Let stakes λ, λ' be fixed before the round, with λ·(−D_t) ≤ .9 and λ'·D_t ≤ .9 for certain. Then

    (1 + λD_t)/(1 + λg)  and  (1 − λ'D_t)/(1 − λ'g)

are nonnegative with mean one: bets that D_t is above, and below, what g says. For a moment τ let one player bet "above"
in all rounds before τ and "below" in all from τ on, another one the other way round, each with an average over stakes
before τ times one after it. Averaged over both players and a fixed set of moments τ, this is a nonnegative martingale
W_t(g) from 1. It grows when the mean of D was above g and is below it now, or the reverse.

*g unknown.* E_t = min over g of W_t(g) is at most W_t at the true g, so it reaches 1/α with probability α at most
(Ville), however often it is looked at. If the mean changes, every g is on the wrong side of it before or after: E_t
grows. Since −log(1 + λg) and −log(1 − λ'g) are convex, W_t is a sum of log-convex functions of g, so log W_t is convex,
and its minimum is found by bisection of its slope; no bound is lost by it.

*Several pairs.* The s-th pair to be watched, chosen from the past, has the weight v_s = (s + 2)^(−3/2)/(ζ(3/2) − 1),
and these sum to one: Σ_s v_s E^(s) is at most a supermartingale that begins with 1 at most.

*Rhythms.* If rounds enter by whole periods, moments lie between periods and stakes stay the same within one, then "the
world is at rest" may be said of averages over periods: the expected wealth of a period is Π_t (1 + λ g_t)/(1 + λ g) ≤ 1
when g is the average of the g_t, by the inequality of the arithmetic and the geometric mean.

*What cannot be noticed.* D must be seen: of a candidate that is dropped it is not. And a swap turns g into −g: if n
rounds brought evidence of about n·g²/(2 E D²) for the order before, then no later rounds, however many, can bring more
than four times that against "the same g before and after". A swap that comes before the order was known by a good deal
more than log(1/α)/4 passes for chance, and must, at that level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, zeta

from comband.page.problem import check_count, check_fraction, check_positive
from comband.page.storage import Array, Held, Maybe, Real, Record, Whole, require
from comband.page.text import visible
from comband.statistics.alarm import LEVEL, Alarm
from comband.statistics.betting import SAFETY
from comband.statistics.grids import log_mean_exp, stake_grid

Floats = NDArray[np.float64]

_STAKES = stake_grid(8)
_MOMENTS = np.unique((100 * 1.12 ** np.arange(82)).astype(np.int64))  # rounds of a pair before a change: up to 10⁶
_STEPS = 50  # of the bisection for the minimum: to 2^−50 of the range


@dataclass(frozen=True, slots=True)
class Change(Record):
    """Two candidates, from about which decision on their difference is another one, and what it was and is."""

    one: int
    other: int
    moment: int
    before: float
    after: float

    SCHEMA: ClassVar = {
        "one": Whole(0, "P-1"),
        "other": Whole(0, "P-1"),
        "moment": Whole(0),
        "before": Real(),
        "after": Real(),
    }


ADVICE = "so certify again on rounds since then"


class OrderGuard(Alarm):
    """Watches whether the differences of pairs of candidates stay the same over time; see the module.

    Parameters
    ----------
    max_reward:
        ρ, the most that a round can bring.
    period:
        How many rounds enter together; moments of change lie between them.
    level:
        The probability of a false alarm, ever.

    >>> guard, rng = OrderGuard(), np.random.default_rng(0)
    >>> guard.begin(0, 1, first=0)
    >>> rounds = np.arange(4000)
    >>> d = np.where(rng.random(4000) < .05, np.where(rounds < 2000, 1.0, -1.0), 0.0)
    >>> guard.update(
    ...     np.array([0]), d[:, None], rounds, rounds=rounds, uncovered=rounds[:0], bounds=np.array([[2.0, 2.0]])
    ... )
    >>> guard.look()
    >>> guard.alarm, guard.change.before > 0 > guard.change.after
    (True, True)
    """

    def __init__(self, *, max_reward: float = 1.0, period: int = 1, level: float = LEVEL) -> None:
        self.level = check_fraction("level", level)
        self.max_reward, self.period = check_positive("max_reward", max_reward), check_count("period", period)
        self._stakes = _STAKES / min(1.0, self.max_reward)
        self._moments = -(-_MOMENTS // self.period) * self.period
        self._peak = 0.0
        self.begun = 0  # how many pairs were ever watched
        self.change: Change | None = None  # what the alarm is about
        # Of each pair that is watched now: who, the first decision, which number; and of its rounds between two moments
        # Σ D, Σ log(1 + λD) and Σ log(1 − λD), and how many there are by the bounds on D that hold in them.
        bins = len(_MOMENTS) + 1
        self.pairs = np.empty((0, 2), dtype=np.int64)
        self._first = self._numbers = np.empty(0, dtype=np.int64)
        self._sums = np.empty((0, bins))
        self._logs = np.empty((0, 2, bins, len(_STAKES)))
        self._bounds = np.empty((0, 2))  # −D and D are at most so much
        self._counts = np.empty((0, bins, 0), dtype=np.int64)

    def begin(self, one: int, other: int, first: int) -> None:
        """Watch a pair from a decision on that is still to come."""
        self.pairs = np.concatenate([self.pairs, [[one, other]]])
        self._first, self._numbers = np.append(self._first, first), np.append(self._numbers, self.begun)
        self._sums, self._logs, self._counts = (
            np.concatenate([old, np.zeros((1, *old.shape[1:]), dtype=old.dtype)])
            for old in (self._sums, self._logs, self._counts)
        )
        self.begun += 1

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Watch only these of the pairs any longer: what was seen of the others is given up."""
        if not which.all():
            self.pairs, self._first, self._numbers = self.pairs[which], self._first[which], self._numbers[which]
            self._sums, self._logs, self._counts = self._sums[which], self._logs[which], self._counts[which]

    def update(
        self,
        which: NDArray[np.int64],
        differences: Floats,
        ids: NDArray[np.int64],
        *,
        rounds: NDArray[np.int64],
        uncovered: NDArray[np.int64],
        bounds: Floats,
    ) -> None:
        """Enter rounds; their order does not matter.

        Parameters
        ----------
        which:
            (p,) the pairs of which both were candidates in them.
        differences, ids:
            (R, p) D, and (R,) the decisions of the rounds in which it may not be 0.
        rounds, uncovered:
            All their decisions, and those among them (of no D here) in which the bounds do not hold.
        bounds:
            (p, 2) the most that −D and D can be.
        """
        self._know(bounds)
        sums, logs, counts = self._sums.copy(), self._logs.copy(), self._counts.copy()
        for i, of_pair, limits in zip(which, differences.T, bounds, strict=True):
            known = int(np.flatnonzero((self._bounds == limits).all(axis=1))[0])
            np.add.at(counts[i, :, known], self._bins(i, rounds), 1)
            mine = (ids >= self._first[i]) & (of_pair != 0)
            d, bins, lost = of_pair[mine], self._bins(i, ids[mine]), self._bins(i, uncovered)
            np.add.at(sums[i], bins, d)
            for k, stakes in enumerate(self._capped(limits)):
                bets = (d if k == 0 else -d)[:, None] * stakes
                np.add.at(logs[i, k], bins, np.log1p(np.maximum(bets, 1e-12 - 1)))
                # Where the bounds do not hold D counts as the worst that its mean can be.
                np.add.at(logs[i, k], lost, np.log1p(-stakes * self.max_reward))
        self._sums, self._logs, self._counts = sums, logs, counts

    def _bins(self, i: int, decisions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Between which of its moments the decisions since a pair was first watched lie."""
        since = decisions[decisions >= self._first[i]] - self._first[i]
        return np.asarray(np.searchsorted(self._moments, since, side="right"))

    def _know(self, bounds: Floats) -> None:
        """Make columns for bounds that are new."""
        for one in bounds:
            if not (self._bounds == one).all(axis=1).any():
                self._bounds = np.concatenate([self._bounds, [one]])
                column = np.zeros((*self._counts.shape[:2], 1), dtype=np.int64)
                self._counts = np.concatenate([self._counts, column], axis=2)

    def _capped(self, bounds: Floats) -> Floats:
        """The stakes (…, 2, J) upwards and downwards where −D and D are at most `bounds` (…, 2)."""
        return np.minimum(self._stakes, SAFETY / bounds[..., None])

    def look(self) -> None:
        """See whether there is a change, only as exactly as an alarm needs it: W(g) is never below its minimum."""
        if self.alarm or len(self.pairs) == 0:
            return
        wealths = [_Wealth(self, i) for i in range(len(self.pairs))]
        weights = np.log([_weight(int(s)) for s in self._numbers])
        at_means = [wealth.at(self._sums[i].sum() / max(wealth.n_rounds, 1))[0] for i, wealth in enumerate(wealths)]
        if logsumexp(weights + at_means) < np.log(1 / self.level):
            return
        found = [wealth.minimum(self.max_reward) for wealth in wealths]
        least = weights + [wealth.at(g)[0] for wealth, g in zip(wealths, found, strict=True)]
        self._peak = max(self._peak, float(logsumexp(least)))
        if self._peak >= np.log(1 / self.level):
            worst = int(np.argmax(least))
            self.change = self._described(worst, wealths[worst].moment(found[worst]))

    def _described(self, i: int, tau: int) -> Change:
        counts, sums = self._counts[i].sum(axis=1), self._sums[i]
        before, after = (
            float(sums[part].sum() / max(int(counts[part].sum()), 1)) for part in (slice(tau + 1), slice(tau + 1, None))
        )
        one, other = self.pairs[i].tolist()
        return Change(one, other, int(self._first[i] + self._moments[tau]), before, after)

    def message(self, names: Sequence[str]) -> str:
        """What changed; empty while there is no alarm."""
        if self.change is None:
            return ""
        one, other = names[self.change.one], names[self.change.other]
        before, after = self.change.before, self.change.after
        return (
            f"the order of candidates is not what it was: {visible(one)} less {visible(other)} was {before:+.3g} per "
            f"round and is {after:+.3g} from about decision {self.change.moment:,} on; what is certified is about the "
            f"rounds as a whole, {ADVICE}"
        )

    SCHEMA: ClassVar = {
        "peak": Real(0),
        "begun": Whole(0),
        "pairs": Array("i8", ("pairs", 2), 0, "P-1"),
        "first": Array("i8", ("pairs",), 0),
        "numbers": Array("i8", ("pairs",), 0, rising=True),
        "sums": Array("f8", ("pairs", len(_MOMENTS) + 1)),
        "logs": Array("f8", ("pairs", 2, len(_MOMENTS) + 1, len(_STAKES))),
        "bounds": Array("f8", ("bounds", 2), 0),
        "counts": Array("i8", ("pairs", len(_MOMENTS) + 1, "bounds"), 0),
        "change": Maybe(Held(Change)),
    }

    def _agree(self) -> None:
        bounds = self._bounds
        require(
            bool((self.pairs[:, 0] != self.pairs[:, 1]).all())
            and bool((self._numbers < self.begun).all())
            and bool((bounds >= self.max_reward * (1 - 1e-9)).all()),
            "pairs that are watched must be of two candidates, with bounds that hold.",
        )
        largest = np.log1p(self._capped(bounds) * bounds[:, ::-1, None])  # what one round can bring
        most = np.einsum("pnb,bkj->pknj", self._counts, largest)
        require(
            bool((self._logs <= most + 1e-9).all()) and (self.change is None) == (self._peak < np.log(1 / self.level)),
            "evidence about pairs must not exceed what their rounds allow, and an alarm must have a reason.",
        )


class _Wealth:
    """W of one pair as a function of g."""

    def __init__(self, guard: OrderGuard, i: int) -> None:
        counts, logs = np.cumsum(guard._counts[i], axis=0), np.cumsum(guard._logs[i], axis=1)
        used = np.flatnonzero(counts[-1])
        self.n_rounds = int(counts[-1].sum())
        self._n_early, self._early = counts[:-1, used], logs[:, :-1]
        self._n_late, self._late = counts[-1, used] - self._n_early, logs[:, -1:] - self._early
        stakes = guard._capped(guard._bounds[used])
        self._up, self._down = stakes[:, 0], stakes[:, 1]

    def _parts(self, g: float) -> tuple[Floats, Floats]:
        """log of what each player has for each moment (2, T), and its slope in g."""
        rates = (np.log1p(self._up * g), np.log1p(-self._down * g))
        slopes = (self._up / (1 + self._up * g), -self._down / (1 - self._down * g))
        parts, steps = np.empty((2, len(self._n_early))), np.empty((2, len(self._n_early)))
        for k in (0, 1):  # above before and below after, and the reverse
            before, after = self._early[k] - self._n_early @ rates[k], self._late[1 - k] - self._n_late @ rates[1 - k]
            parts[k] = log_mean_exp(before) + log_mean_exp(after)
            steps[k] = -_tilted(before, self._n_early @ slopes[k]) - _tilted(after, self._n_late @ slopes[1 - k])
        return parts, steps

    def at(self, g: float) -> tuple[float, float]:
        """log W(g) and its slope."""
        parts, steps = self._parts(g)
        return float(log_mean_exp(parts.ravel())), float(_tilted(parts.ravel(), steps.ravel()))

    def minimum(self, max_reward: float) -> float:
        """The g in [−ρ, ρ] at which W is smallest: log W is convex."""
        low, high = -max_reward, max_reward
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle)[1] < 0 else (low, middle)
        return (low + high) / 2

    def moment(self, g: float) -> int:
        """Which moment has the largest part in W(g)."""
        return int(np.argmax(self._parts(g)[0].max(axis=0)))


def _tilted(logs: Floats, values: Floats) -> Floats:
    """The average over the last axis of values, weighted by exp(logs)."""
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray((shares * values).sum(axis=-1) / shares.sum(axis=-1))


def _weight(s: int) -> float:
    """v_s."""
    return float((s + 2) ** -1.5 / (zeta(1.5) - 1))
