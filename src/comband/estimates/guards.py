"""Guards: e-processes that watch whether what the promise rests on still holds.

All guarantees assume that lists were drawn with the propensities that are recorded, that answers are not lost
selectively, and that the world does not change. Each guard below is an e-process under "all is well": it ever reaches
1/level with probability at most `level`, however often it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from comband.problem import InputError, check_fraction

_STAKES = np.array([0.5, 0.15, 0.05, 0.015, 0.005])
_LEVEL = 0.001
_TOLERANCE = 1e-6


class ExposureGuard:
    """Watches whether actions are shown as often as their propensities say.

    For a group g of actions and one round, Z_g = Σ_{y∈g} (1[y shown] − Q(x, y)) has mean zero whatever the context,
    and so does W = Σ_{y shown} 1/Q(x, y) − #{y: Q(x, y) > 0}. Bets 1 ± λZ_g (and on W), scaled by the most they can
    lose, are averaged over both signs, several stakes and all groups. Groups are bins of the propensity and single
    actions: overridden lists and stale or rounded propensities show there. Given only the decisions that were never
    answered (`unanswered`), it finds answers that are lost when certain actions are shown.

    The stakes may depend on the round's context here, unlike in the evidence about values: Z has mean zero given the
    context.

    Parameters
    ----------
    n_actions:
        K.
    unanswered:
        Whether the rounds to be entered are those without answer; only the message changes.
    level:
        The probability of a false alarm, ever.
    """

    def __init__(self, n_actions: int, *, unanswered: bool = False, level: float = _LEVEL) -> None:
        self.level = check_fraction("level", level)
        self.unanswered = unanswered
        self.n_actions = n_actions
        self.n_rounds = 0
        # One more group for the sum of inverse propensities; signs and stakes on the last two axes.
        self._log_wealth = np.zeros((len(_EDGES) + 1 + n_actions + 1, 2, len(_STAKES)))
        self._peak = 0.0
        self._mismatches = 0

    def update(self, lists: ArrayLike, propensities: ArrayLike, recorded: ArrayLike | None = None) -> None:
        """Enter rounds: the lists (n, m) that were shown, and the propensities (n, K) of *all* actions.

        If the latter are computed anew from the design, give also those that were `recorded` (n, m) with the lists: a
        difference is certain proof of a fault.
        """
        shown = np.asarray(lists, dtype=np.int64)
        q = np.asarray(propensities, dtype=np.float64)
        if q.ndim != 2 or q.shape != (len(shown), self.n_actions):
            raise InputError(
                f"propensities must be those of all actions, shape ({len(shown)}, {self.n_actions}), got {q.shape}."
            )
        n, m = shown.shape
        if n == 0:
            return
        hit = np.zeros(q.shape)
        np.put_along_axis(hit, shown, 1.0, axis=1)
        bins = np.digitize(q, _EDGES)
        came, due, most = (np.zeros((n, len(_EDGES) + 1)) for _ in range(3))
        for total, part in ((came, hit), (due, q), (most, (q > 0).astype(np.float64))):
            np.add.at(total, (np.arange(n)[:, None], bins), part)
        came, due = np.column_stack([came, hit]), np.column_stack([due, q])
        most = np.column_stack([most, np.ones(q.shape)])
        positive = q > 0
        with np.errstate(divide="ignore"):
            inverse = np.where(positive, 1 / q, 0.0)
        W_came = np.take_along_axis(inverse, shown, axis=1).sum(axis=1)
        came = np.column_stack([came, W_came])
        due = np.column_stack([due, positive.sum(axis=1)])
        most = np.column_stack([np.minimum(most, m), m * inverse.max(axis=1)])
        # Each direction is scaled by the most that it can lose in this context, so that no bet can lose everything.
        scales = np.stack([due, np.maximum(most - due, 0.0)], axis=2)
        ways = (came - due)[:, :, None] * np.array([1.0, -1.0])
        scaled = np.divide(ways, scales, out=np.zeros_like(ways), where=scales > 1e-9)
        bets = np.maximum(scaled, -1.0)[:, :, :, None] * _STAKES
        if recorded is not None:
            kept = np.asarray(recorded, dtype=np.float64)
            self._mismatches += int((np.abs(kept - np.take_along_axis(q, shown, axis=1)) > _TOLERANCE).sum())
        impossible = (~np.take_along_axis(positive, shown, axis=1)).any(axis=1)
        steps = np.log1p(bets)
        steps[impossible] += np.log(2.0)  # an action of probability zero was shown
        self._log_wealth = self._log_wealth + steps.sum(axis=0)
        self._peak = max(self._peak, float(_log_mean(self._log_wealth.reshape(1, -1))[0]))
        self.n_rounds += n

    def pack(self) -> NDArray[np.float64]:
        """The state as one array."""
        return np.concatenate([[self._peak, self.n_rounds, self._mismatches], self._log_wealth.ravel()])

    def unpack(self, array: NDArray[np.float64]) -> None:
        """Take back what `pack` gave."""
        self._peak, self.n_rounds, self._mismatches = float(array[0]), int(array[1]), int(array[2])
        self._log_wealth = array[3:].reshape(self._log_wealth.shape)

    @property
    def log_evidence(self) -> float:
        """The largest log-evidence so far that something is wrong."""
        return self._peak

    @property
    def alarm(self) -> bool:
        """Whether something is wrong, at the guard's level."""
        return self._mismatches > 0 or bool(self._peak >= np.log(1 / self.level))

    @property
    def message(self) -> str:
        """What to look at; empty while there is no alarm."""
        if not self.alarm:
            return ""
        if self._mismatches:
            return (
                f"{self._mismatches:,} recorded propensities are not those of the design; look for stale or rounded "
                "propensities, and for policies that do not always answer a context with the same list"
            )
        worst = int(np.argmax(self._log_wealth.reshape(len(self._log_wealth), -1).max(axis=1)))
        n_bins = len(_EDGES) + 1
        if worst < n_bins:
            low, high = np.r_[0, _EDGES, 1][[worst, worst + 1]]
            where = f"actions with propensities from {low:g} to {high:g} are not shown that often"
        elif worst < n_bins + self.n_actions:
            where = f"action {worst - n_bins} is not shown as often as its propensities say"
        else:
            where = "inverse propensities do not add up"
        if self.unanswered:
            return (
                f"among the {self.n_rounds:,} decisions looked at that were never answered, {where}: their answers are "
                "lost more often, or less, when certain actions are shown; look at how answers are collected"
            )
        return f"{where}; look for overridden lists, and for stale or rounded propensities"


class DriftGuard:
    """Watches whether rates of certain rounds change within a stretch of rounds that should be alike.

    Rounds of one epoch are exchangeable, so that of k rounds of a kind the number in the first half is hypergeometric.
    Each two-sided p-value becomes a bet 1/(2√p); bets of one stretch are averaged, those of stretches multiply.
    """

    def __init__(self, *, level: float = _LEVEL) -> None:
        self.level = check_fraction("level", level)
        self._log_wealth = self._peak = 0.0

    def update(self, kinds: Sequence[ArrayLike], n_rounds: int) -> None:
        """Enter a stretch of `n_rounds` rounds; each kind is told by its rounds' positions in 0 … n_rounds − 1."""
        half = n_rounds // 2
        if half == 0:
            return
        bets = []
        for positions in kinds:
            at = np.asarray(positions, dtype=np.int64)
            law, early = (n_rounds, len(at), half), int((at < half).sum())
            tail = min(hypergeom.cdf(early, *law), hypergeom.sf(early - 1, *law))
            p = min(1.0, 2 * float(tail)) if len(at) else 1.0
            bets.append(-np.log(2) - 0.5 * np.log(max(p, 1e-300)))
        self._log_wealth += float(_log_mean(np.array([bets]))[0])
        self._peak = max(self._peak, self._log_wealth)

    def pack(self) -> NDArray[np.float64]:
        """The state as one array."""
        return np.array([self._peak, self._log_wealth])

    def unpack(self, array: NDArray[np.float64]) -> None:
        """Take back what `pack` gave."""
        self._peak, self._log_wealth = float(array[0]), float(array[1])

    @property
    def log_evidence(self) -> float:
        """The largest log-evidence so far that the world changes."""
        return self._peak

    @property
    def alarm(self) -> bool:
        """Whether the world changes, at the guard's level."""
        return bool(self._peak >= np.log(1 / self.level))

    @property
    def message(self) -> str:
        """What to look at; empty while there is no alarm."""
        if not self.alarm:
            return ""
        return (
            "the rate of rewards for or against the leader changes over time; values and gaps are averages over a "
            "world that is not at rest"
        )


_EDGES = np.array([0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])


def _log_mean(log_values: NDArray[np.float64]) -> NDArray[np.float64]:
    top = log_values.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(log_values - top).mean(axis=1)))
