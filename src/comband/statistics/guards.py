"""Guards: e-processes that watch whether what the promise rests on still holds.

All guarantees assume that lists were drawn with the propensities that are recorded, that answers are not lost
selectively, and that the world does not change. Each guard below is an e-process under "all is well": it ever reaches
1/level with probability at most `level`, however often it is looked at.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln, xlogy, zeta

from comband._kernels.exposure import exposure_bets
from comband.page.problem import InputError, check_count, check_fraction, refuse_masked
from comband.page.storage import Array, Flag, Real, Whole, require
from comband.policies.sparse import SparsePropensities
from comband.statistics.alarm import LEVEL, Alarm
from comband.statistics.grids import log_mean_exp, stake_grid

_STAKES = stake_grid(5, largest=0.5, per_octave=0.6)
_EDGES = np.array([0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
_SINGLE = 5000  # up to so many actions each is watched alone
_BUCKETS = 1021  # above, actions y with the same y mod this prime are watched together
_TOLERANCE = 1e-6


class ExposureGuard(Alarm):
    """Watches whether actions are shown as often as their propensities say.

    For a group g of actions and one round, Z_g = Σ_{y∈g} (1[y shown] − Q(x, y)) has mean zero whatever the context,
    and so does W = Σ_{y shown} 1/Q(x, y) − #{y: Q(x, y) > 0}. Bets 1 ± λZ_g (and on W), scaled by the most they can
    lose, are averaged over both signs, several stakes and all groups. Groups are bins of the propensity and single
    actions (with more than 5,000 of them 1,021 classes of actions, so that memory does not grow with K): overridden
    lists and stale or rounded propensities show there. Given only the decisions that were never answered
    (`unanswered`), it finds answers that are lost when certain actions are shown.

    Why it is an e-process: given the past and the context, groups, their Σ Q, scales and stakes are fixed, every bet
    has mean one and none is below zero; so each product of bets is a martingale from 1, and so is their average. The
    stakes may depend on the round's context here, unlike in the evidence about values: Z has mean zero given the
    context. Which rounds are entered must not depend on the lists that were shown in them.

    Parameters
    ----------
    n_actions:
        K.
    unanswered:
        Whether the rounds to be entered are those without answer; only the message changes.
    level:
        The probability of a false alarm, ever.

    >>> import numpy as np
    >>> from comband.statistics import ExposureGuard
    >>> guard, rng = ExposureGuard(4), np.random.default_rng(1)
    >>> Q = np.full((2000, 4), 0.5)  # two of four items, all alike
    >>> guard.update(rng.permuted(np.tile(np.arange(4), (2000, 1)), axis=1)[:, :2], Q)
    >>> guard.alarm
    False
    >>> guard.update(np.tile([0, 1], (2000, 1)), Q)  # two of them are pinned
    >>> guard.alarm
    True
    """

    def __init__(self, n_actions: int, *, unanswered: bool = False, level: float = LEVEL) -> None:
        self.level = check_fraction("level", level)
        self.unanswered = unanswered
        self.n_actions = n_actions
        self.n_rounds = 0
        self.n_compared = 0
        # How many single actions, or classes of them, are watched: what one round costs.
        self.n_classes = n_actions if n_actions <= _SINGLE else _BUCKETS
        # One more group for the sum of inverse propensities; signs and stakes on the last two axes.
        self._log_wealth = np.zeros((len(_EDGES) + 1 + self.n_classes + 1, 2, len(_STAKES)))
        self._peak = 0.0
        self._mismatches = 0

    def update(
        self, lists: ArrayLike, propensities: ArrayLike | SparsePropensities, recorded: ArrayLike | None = None
    ) -> None:
        """Enter rounds: the lists (n, m) that were shown (−1 in empty places), and the propensities of *all* actions,
        (n, K) or sparse.

        If the latter are computed anew from the design, give also those that were `recorded` (n, m) with the lists: a
        difference is certain proof of a fault.
        """
        for name, given in (("lists", lists), ("propensities", propensities), ("recorded", recorded)):
            refuse_masked(name, given)
        shown = np.ascontiguousarray(lists, dtype=np.int64)
        q = propensities
        if not isinstance(q, SparsePropensities):
            q = np.asarray(q, dtype=np.float64)
        shape = (len(q), q.n_actions) if isinstance(q, SparsePropensities) else q.shape
        if shape != (len(shown), self.n_actions):
            raise InputError(
                f"propensities must be those of all actions, shape ({len(shown)}, {self.n_actions}), got {shape}."
            )
        if len(shown) == 0:
            return
        q = q if isinstance(q, SparsePropensities) else _sparse(q)
        starts = np.searchsorted(q.rows, np.arange(len(shown) + 1))
        bets, of_shown = exposure_bets(
            shown, starts, q.actions, q.values, q.rest, self.n_actions, self.n_classes, _EDGES, _STAKES
        )
        if recorded is not None:
            self.compare(recorded, of_shown)
        self._log_wealth = self._log_wealth + np.log(bets).sum(axis=0)
        self._peak = max(self._peak, float(log_mean_exp(self._log_wealth.ravel())))
        self.n_rounds += len(shown)

    def compare(self, recorded: ArrayLike, computed: ArrayLike) -> None:
        """Compare propensities as they were recorded with those that the design gives now; any rounds will do."""
        kept, anew = np.asarray(recorded, dtype=np.float64), np.asarray(computed, dtype=np.float64)
        self._mismatches += int((~(np.abs(kept - anew) <= _TOLERANCE)).sum())
        self.n_compared += len(kept)

    SCHEMA: ClassVar = {
        "log_wealth": Array("f8", ("groups", 2, len(_STAKES))),
        "peak": Real(0),
        "n_rounds": Whole(0),
        "n_compared": Whole(0),
        "mismatches": Whole(0),
    }

    def _sizes(self) -> dict[str, int]:
        return {"groups": len(self._log_wealth)}

    def _agree(self) -> None:
        require(
            float(log_mean_exp(self._log_wealth.ravel())) <= self._peak + 1e-9
            and (self.n_rounds > 0 or not self._log_wealth.any())
            and (self.n_compared > 0 or self._mismatches == 0),
            "evidence of a guard must not exceed its peak, nor come from no rounds.",
        )

    @property
    def alarm(self) -> bool:
        """Whether something is wrong, at the guard's level; a mismatch is certain proof."""
        return self._mismatches > 0 or super().alarm

    @property
    def message(self) -> str:
        """What to look at; empty while there is no alarm."""
        if not self.alarm:
            return ""
        if self._mismatches:
            return (
                f"{self._mismatches:,} recorded propensities are not those of the design; look for stale or rounded "
                "propensities, for contexts that were changed, and for policies that do not always answer a context "
                "with the same list"
            )
        worst = int(np.argmax(self._log_wealth.reshape(len(self._log_wealth), -1).max(axis=1)))
        n_bins = len(_EDGES) + 1
        one = worst - n_bins
        if worst < n_bins:
            low, high = np.r_[0, _EDGES, 1][[worst, worst + 1]]
            where = f"actions with propensities from {low:g} to {high:g} are not shown that often"
        elif one >= self.n_classes:
            where = "inverse propensities do not add up"
        elif self.n_classes == self.n_actions:
            where = f"action {one} is not shown as often as its propensities say"
        else:
            where = (
                f"some of the actions {one}, {one + _BUCKETS}, {one + 2 * _BUCKETS} … are not shown as often as their "
                "propensities say"
            )
        if self.unanswered:
            return (
                f"among the {self.n_rounds:,} decisions looked at that were never answered, {where}: their answers are "
                "lost more often, or less, when certain actions are shown; look at how answers are collected"
            )
        return f"{where}; look for overridden lists, and for stale or rounded propensities"


def _sparse(q: NDArray[np.float64]) -> SparsePropensities:
    rows, actions = np.nonzero(q)
    return SparsePropensities(q.shape[1], rows, actions, q[rows, actions], np.zeros(len(q)))


_PLACED_CLASSES = 61  # items y with the same y mod this prime are watched together


class DrawnPlaceGuard(Alarm):
    """Watches whether shown items stand in each place as often as their decisions say.

    Given the context and that y is shown, y is in place k with probability p(y, k) = Q(x, y, k)/Σ_j Q(x, y, j). With
    any c(y) in [−1, 1] that is fixed given the context, Z = Σ_{y shown} c(y)·(Σ_k k·p(y, k) − place of y) has mean
    zero, for each term has, whenever its item is shown. Bets 1 ± λZ/(m(m − 1)) are averaged over both signs, several
    stakes and choices of c: how far down y is expected, from −1 in the first place to 1 in the last, which shows lists
    that are shuffled or turned around; and for each class of items, 1 for these and 0 for others, which shows items
    that are pinned. An e-process for the reasons of `ExposureGuard`.

    Parameters
    ----------
    list_size:
        m.
    level:
        The probability of a false alarm, ever.

    >>> import numpy as np
    >>> guard = DrawnPlaceGuard(2)
    >>> places = np.tile([[0.9, 0.1], [0.1, 0.9]], (400, 1, 1))  # of items 0 and 1
    >>> turned = (np.arange(400) % 10 == 0)[:, None]  # one time in ten, as it should be
    >>> guard.update(np.where(turned, [1, 0], [0, 1]), np.where(turned[:, :, None], places[:, ::-1], places))
    >>> guard.alarm
    False
    >>> guard.update(np.tile([1, 0], (100, 1)), places[:100, ::-1])  # the page turns its lists around
    >>> guard.alarm
    True
    """

    def __init__(self, list_size: int, *, level: float = LEVEL) -> None:
        self.level, self.list_size = check_fraction("level", level), check_count("list_size", list_size)
        self.n_rounds = 0
        self._log_wealth = np.zeros((1 + _PLACED_CLASSES, 2, len(_STAKES)))
        self._peak = 0.0

    def update(self, lists: NDArray[np.int32], placements: NDArray[np.float64]) -> None:
        """Enter rounds: lists (n, m) as shown (−1: an empty place), and of each item the probability of each place."""
        m, n = self.list_size, len(lists)
        if n == 0 or m == 1:
            return
        there = lists >= 0
        expected = placements @ np.arange(m) / np.maximum(placements.sum(axis=2), 1e-300)
        off = np.where(there, expected - np.arange(m), 0.0) / (m * (m - 1))
        Z = np.zeros((n, 1 + _PLACED_CLASSES))
        Z[:, 0] = (np.clip(2 * expected / (m - 1) - 1, -1, 1) * off).sum(axis=1)
        np.add.at(Z, (np.arange(n)[:, None], 1 + lists % _PLACED_CLASSES), off)
        bets = np.log1p(Z[:, :, None, None] * np.array([1.0, -1.0])[:, None] * _STAKES)
        self._log_wealth = self._log_wealth + bets.sum(axis=0)
        self._peak = max(self._peak, float(log_mean_exp(self._log_wealth.ravel())))
        self.n_rounds += n

    SCHEMA: ClassVar = {
        "log_wealth": Array("f8", (1 + _PLACED_CLASSES, 2, len(_STAKES))),
        "peak": Real(0),
        "n_rounds": Whole(0),
    }

    def _agree(self) -> None:
        require(
            float(log_mean_exp(self._log_wealth.ravel())) <= self._peak + 1e-9
            and (self.n_rounds > 0 or not self._log_wealth.any()),
            "evidence of a guard must not exceed its peak, nor come from no rounds.",
        )

    @property
    def message(self) -> str:
        """What to look at; empty while there is no alarm."""
        if not self.alarm:
            return ""
        worst = int(np.argmax(self._log_wealth.reshape(len(self._log_wealth), -1).max(axis=1)))
        which = (
            "items do not stand"
            if worst == 0
            else f"some items y with y mod {_PLACED_CLASSES} = {worst - 1} do not stand"
        )
        return (
            f"{which} in their places as often as decisions say (placements); look for lists that are put into another "
            "order before they are shown, and for candidates that do not always answer alike"
        )


_FIRST_LOOK = 64  # rounds of a stretch
_LOOK_AGAIN = 1.05  # when a stretch has become so much longer
_CHANGES = np.unique((16 * 1.4 ** np.arange(28)).astype(np.int64))  # when a change may have happened, in trials
_SWAP_STAKES = (1.0, 2.0, 4.0)  # c, of bets on periods that may change places
_KINDS = ("the rate of rewards", "the balance of rewards for and against the leader")


class DriftGuard(Alarm):
    """Watches whether the rewards for and against the leader change within stretches of rounds that should be alike.

    While leader, candidates and propensities stay the same (an epoch), rounds are independent and alike given the past:
    "a reward, for the leader or against it" and, among rounds with just one of the two, "for" are sequences of
    Bernoulli trials with unknown, constant probabilities: the rate, and the balance. A common factor on all rewards
    (night and day) moves the first and leaves the second alone. Two e-processes look at both, and are averaged.

    *A change, as soon as it shows.* With k successes in n trials of a stretch,

        E_n = Σ_τ w_τ KT(trials up to τ)·KT(trials after τ) / max_θ θ^k (1 − θ)^(n−k),

    where KT(…) = B(k + ½, n − k + ½)/B(½, ½) is the probability that the Krichevsky-Trofimov forecaster gives to
    trials, and τ runs over a fixed grid (w_τ equal). The numerator is a probability of the trials so far, consistent
    over n; divided by that under the true θ it is a martingale from 1, and the denominator is no smaller. So E_n is an
    e-process, whenever one looks and for whatever reason the stretch ends. Stretches are averaged, with weights v_k.

    *A slow drift, over many stretches.* Given k, the successes in the first half of the trials of a stretch's planned
    rounds are hypergeometric. A two-sided p-value p becomes a bet 1/(2√p), whose mean is at most one; an average over
    the two kinds multiplies the wealth. If a stretch ends before its plan, for reasons that may lie in its data, ½ is
    taken, which no bet is below. The product may begin with any stretch k: Σ_k v_k Π_{j≥k} bet_j.

    *A rhythm that is stated.* With a `period` the two probabilities may be anything within a period, if only the same
    in each: whole periods are compared, and a stretch begins with one. *A change*: τ is moved to the end of its period,
    and looks are taken there. That is enough. With two fixed probabilities q before τ and q' after it in place of
    the forecasters, of which E_n's are mixtures, a round multiplies the ratio to the trials' probability under θ by a
    factor whose mean is 1 + b(θ_t − θ), where θ_t is the chance in its phase and b depends on q and θ alone; over a
    period these means multiply to 1 at most when θ is the average of the θ_t, by the inequality of the arithmetic and
    the geometric mean. (For the balance read u_t(θ_t − θ), where u_t is the chance that a round is a trial.) *A slow
    drift*: given the phases' own rates, periods are independent and alike, so the first half of them and the second may
    change places, one by one. Let d_i be the i-th period's number of successes less that of the i-th of the second half
    (for the balance: of successes less their share of all trials). Given |d_i| the signs are fair coins, and

        ½ + ½·mean_c cosh(c·Σd_i/σ) / Π_i cosh(c·d_i/σ),   σ² = Σ d_i²,   c = 1, 2, 4,

    is a bet of mean one, and ½ at least.

    Parameters
    ----------
    period:
        The length of a rhythm, in rounds; 1: none.
    level:
        The probability of a false alarm, ever.

    >>> import numpy as np
    >>> from comband.statistics import DriftGuard
    >>> guard = DriftGuard()
    >>> guard.begin(4000)
    >>> early, late = np.arange(0, 2000, 4), np.arange(2000, 4000, 4)
    >>> guard.update(early, late, 4000)  # rewards for the leader in the first half only, against it in the second
    >>> bool(guard.message)
    True
    """

    def __init__(self, *, period: int = 1, level: float = LEVEL) -> None:
        self.period, self.level = check_count("period", period), check_fraction("level", level)
        self.n_rounds = 0
        self._peak = 0.0
        self._stretch, self._planned, self._looked, self._worst = -1, 0, 0, 0
        self._halved = True
        self._past = 0.0  # Σ v_k E^(k) of the stretches that are over
        self._now = 0.0  # v_k E^(k) of the current one at the last look
        self._slow = 0.0  # Σ_k v_k Π_{j≥k} bet_j

    def begin(self, planned: int) -> None:
        """Begin a stretch that is meant to last `planned` rounds; the one before is over."""
        planned = self.whole(planned)
        if not self._halved:
            self._slow /= 2
        self._past += self._now
        # A plan of no length cannot be tested: known beforehand, that is a bet of nothing.
        self._stretch, self._planned, self._looked, self._halved = (
            self._stretch + 1,
            planned,
            0,
            planned < 2 * self.period,
        )
        self._now = _weight(self._stretch)
        self._slow += self._now

    def whole(self, n_rounds: int) -> int:
        """Those of so many rounds that make whole periods."""
        return n_rounds - n_rounds % self.period

    def is_due(self, n_rounds: int) -> bool:
        """Whether it is time to look, when the stretch has so many rounds."""
        n_rounds = self.whole(n_rounds)
        again = n_rounds >= max(_FIRST_LOOK, _LOOK_AGAIN * self._looked)
        return again or (not self._halved and n_rounds >= self._planned)

    def update(self, in_favour: ArrayLike, against: ArrayLike, n_rounds: int) -> None:
        """The stretch so far: which of its rounds 0 … n_rounds − 1 had a reward for the leader, and which against.
        Rounds of a period that is not over do not count yet.
        """
        n_rounds = self.whole(n_rounds)
        if not self.is_due(n_rounds):
            return
        trials = _trials(in_favour, against, n_rounds, self.period)
        changes = np.array([_log_change(*one) for one in trials])
        self._now = _weight(self._stretch) * float(np.exp(min(float(log_mean_exp(changes)), 600.0)))
        if not self._halved and n_rounds >= self._planned:
            halves = self._log_halves(in_favour, against)
            self._slow *= float(np.exp(min(float(log_mean_exp(halves)), 600.0)))
            self._halved = True
            changes = np.maximum(changes, halves)
        self.n_rounds += n_rounds - self._looked
        self._looked = n_rounds
        total = (self._past + self._now + self._slow) / 2
        if np.log(total) > self._peak:
            self._peak, self._worst = float(np.log(total)), int(np.argmax(changes))

    def _log_halves(self, in_favour: ArrayLike, against: ArrayLike) -> NDArray[np.float64]:
        """The bets on a slow drift, of both kinds, in the planned rounds."""
        if self.period == 1:
            return np.array([_log_halves(k, n) for k, n, _ in _trials(in_favour, against, self._planned)])
        return np.array([_log_swaps(scores) for scores in _scores(in_favour, against, self._planned, self.period)])

    SCHEMA: ClassVar = {
        "peak": Real(0),
        "past": Real(0),
        "now": Real(0),
        "slow": Real(0),
        "stretch": Whole(-1),
        "planned": Whole(),
        "looked": Whole(0),
        "halved": Flag(),
        "worst": Whole(0, len(_KINDS) - 1),
        "n_rounds": Whole(0),
    }

    def _agree(self) -> None:
        # The peak is that of the last look; what stretches began with since is at most 1 in all.
        total = (self._past + self._now + self._slow) / 2
        require(
            np.log(max(total - 1, 1e-300)) <= self._peak + 1e-9 and self._looked <= self.n_rounds,
            "evidence of a guard must not exceed its peak, nor come from no rounds.",
        )

    @property
    def message(self) -> str:
        """What to look at; empty while there is no alarm."""
        if not self.alarm:
            return ""
        return (
            f"the world is not at rest ({_KINDS[self._worst]} changed over time): values and gaps are averages over "
            "it, and another candidate may be the best by now"
        )


def _weight(k: int) -> float:
    """v_k = (k + 2)^(−3/2)/(ζ(3/2) − 1): they sum to one."""
    return float((k + 2) ** -1.5 / (zeta(1.5) - 1))


def _trials(
    in_favour: ArrayLike, against: ArrayLike, n_rounds: int, period: int = 1
) -> list[tuple[NDArray[np.int64], int, NDArray[np.int64]]]:
    """The two sequences of trials among the first rounds: the positions of successes, how many trials, and after which
    of them a change may have happened.
    """
    first, second, one_sided = _rewarded(in_favour, against, n_rounds)
    successes, n = np.flatnonzero(np.isin(one_sided, first)), len(one_sided)
    changes, change_in_balance = np.minimum(_CHANGES, n_rounds), np.minimum(_CHANGES, n)
    if period > 1:
        changes = -(-changes // period) * period
        if n:
            ends = (one_sided[change_in_balance - 1] // period + 1) * period
            change_in_balance = np.searchsorted(one_sided, ends)
    return [(np.union1d(first, second), n_rounds, changes), (successes, n, change_in_balance)]


def _rewarded(
    in_favour: ArrayLike, against: ArrayLike, n_rounds: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Which of the first rounds had a reward for the leader, which against it, and which had just one of the two."""
    first, second = (np.unique(np.asarray(positions, dtype=np.int64)) for positions in (in_favour, against))
    first, second = first[first < n_rounds], second[second < n_rounds]
    return first, second, np.setxor1d(first, second, assume_unique=True)


def _log_change(successes: NDArray[np.int64], n: int, changes: NDArray[np.int64]) -> float:
    """log E_n."""
    if n == 0:
        return 0.0
    k, before = len(successes), np.searchsorted(successes, changes)
    most = xlogy(k, k / n) + xlogy(n - k, 1 - k / n)
    return float(log_mean_exp(_log_kt(before, changes) + _log_kt(k - before, n - changes)) - most)


def _scores(
    in_favour: ArrayLike, against: ArrayLike, n_rounds: int, period: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each period in the two halves of the rounds, the first half's first: its number of rewarded rounds; and among
    rounds with just one of the two its rewards for the leader, less their share of all.
    """
    first, second, one_sided = _rewarded(in_favour, against, n_rounds)
    n = n_rounds // period
    rewarded, trials, successes = (
        np.bincount(rounds // period, minlength=n)[np.r_[: n // 2, n - n // 2 : n]].astype(np.float64)
        for rounds in (np.union1d(first, second), one_sided, np.intersect1d(one_sided, first, assume_unique=True))
    )
    return rewarded, successes - successes.sum() / max(trials.sum(), 1.0) * trials


def _log_swaps(scores: NDArray[np.float64]) -> float:
    """log of the bet that the periods of one half score more than those of the other."""
    first, second = np.split(scores, 2)
    d = first - second
    sigma = float(np.sqrt((d**2).sum()))
    if sigma == 0:
        return 0.0
    bets = [_log_cosh(c * d.sum() / sigma) - _log_cosh(c * d / sigma).sum() for c in _SWAP_STAKES]
    return float(np.logaddexp(0.0, log_mean_exp(np.array(bets))) - np.log(2))


def _log_cosh(x: ArrayLike) -> NDArray[np.float64]:
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2 * size)) - np.log(2))


def _log_halves(successes: NDArray[np.int64], n: int) -> float:
    """log 1/(2√p) of the hypergeometric test of the first half against the second."""
    k, half = len(successes), n // 2
    early = int(np.searchsorted(successes, half))
    possible = np.arange(max(0, k - (n - half)), min(k, half) + 1)
    probabilities = np.exp(_log_choose(half, possible) + _log_choose(n - half, k - possible) - _log_choose(n, k))
    tail = min(probabilities[possible <= early].sum(), probabilities[possible >= early].sum())
    return float(-np.log(2) - 0.5 * np.log(np.clip(2 * tail, 1e-300, 1.0)))


def _log_choose(n: int, k: ArrayLike) -> NDArray[np.float64]:
    taken = np.asarray(k, dtype=np.float64)
    return np.asarray(gammaln(n + 1.0) - gammaln(taken + 1) - gammaln(n - taken + 1))


def _log_kt(k: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
