"""A guard against places that do not work as the problem says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from comband.page.problem import (
    SMALLEST_REWARD,
    TOLERANCE,
    InputError,
    as_floats,
    check_count,
    check_fraction,
    check_places,
    check_positive,
)
from comband.page.storage import Array, Real, Whole, require
from comband.statistics.alarm import LEVEL, Alarm
from comband.statistics.grids import bisect

_SURE = 1.645  # standard errors: an effect that "would have been noticed" would have been, 95 times in 100


ADVICE = (
    "State how places work (Problem(places=[…]) with factors that fit_examination finds on these rounds, or "
    'places="pairs") and begin anew'
)


class PlaceGuard(Alarm):
    """Watches whether rewards come from the places as they should, where lists are shown in random order.

    If the order is random given the set, then places that do not matter get equal shares of the rewards, p0 = 1/m, and
    those of an examination model get p0 = θ/Θ. For a round with rewards R_k in places k the bet is

        1 + λ Σ_k R_k (p̂_k/p0_k − 1),    p̂_k = (n_k + 1)/(n + m),

    with n_k the rewarded rounds before it, divided among places as their rewards were. Its mean is one: where places do
    not matter the rewards R of the shown items are the same in every order, so that given them each reward is in each
    place with probability 1/m, and λ may depend on Σ R: it is 1/Σ_k R_k. By examination E R_k is in proportion to θ_k
    (over orders, sets and rewards), so that E Σ_k R_k p̂_k/p0_k = E Σ_k R_k; but which rewards come together may depend
    on the order, and λ = 1/ρ. No bet is below zero, since Σ_k R_k ≤ ρ. With one reward of 1 per round both are
    p̂_k/p0_k: the product over rounds is the likelihood of a Dirichlet mixture of shares over that of p0.

    Rounds are entered in the order of decisions: when an answer comes may depend on its place. The guard is invalid
    where order is not random.

    Parameters
    ----------
    places, list_size:
        As for `Problem`: None or factors (m,); with "pairs" there is nothing to watch.
    max_reward:
        ρ, the most that one round can bring.
    level:
        The probability of a false alarm, ever.

    >>> guard = PlaceGuard(None, list_size=3)
    >>> for _ in range(12):
    ...     guard.update([[1, 0, 0]])
    >>> guard.alarm, guard.n_rounds
    (True, 12)
    """

    def __init__(
        self,
        places: Sequence[float] | None,
        *,
        list_size: int,
        max_reward: float | None = None,
        level: float = LEVEL,
    ) -> None:
        m = check_count("list_size", list_size)
        factors = check_places(places, m)
        if isinstance(factors, str):
            raise InputError('with places="pairs" the order of lists is not random: there is nothing to watch.')
        self.places = factors
        self.list_size = m
        self.max_reward = float(m) if max_reward is None else check_positive("max_reward", max_reward)
        self.level = check_fraction("level", level)
        self.n_rounds = 0  # rewarded ones
        theta = np.ones(m) if factors is None else np.array(factors)
        self._expected = theta / theta.sum()
        self._counts = np.zeros(m)
        self._log_wealth = self._peak = 0.0

    def update(self, rewards: ArrayLike) -> None:
        """Enter rounds in the order of their decisions: the rewards (n, m) by place."""
        r = as_floats("rewards", rewards)
        if r.ndim != 2 or r.shape[1] != self.list_size or not ((r >= 0) & (r <= 1)).all():
            raise InputError(f"rewards must be those of {self.list_size} places, in [0, 1], got shape {r.shape}.")
        r = r[(r >= SMALLEST_REWARD).any(axis=1)]
        if len(r) == 0:
            return
        total = r.sum(axis=1, keepdims=True)
        if total.max() > self.max_reward + TOLERANCE:
            raise InputError(
                f"rewards of a round must sum to {self.max_reward:g} at most, got {total.max():g}: state max_reward."
            )
        shares = r / total
        before = self._counts + np.cumsum(shares, axis=0) - shares
        rounds = self.n_rounds + np.arange(len(r))
        ratio = (before + 1) / (rounds[:, None] + self.list_size) / self._expected
        stake = 1 / total if self.places is None else np.full_like(total, 1 / self.max_reward)
        bets = ((stake * r) * (ratio - 1)).sum(axis=1)
        # Sums of rewards may pass ρ by a rounding error, and no more.
        path = self._log_wealth + np.cumsum(np.log1p(np.maximum(bets, -1 + 1e-12)))
        self._counts = self._counts + shares.sum(axis=0)
        self._log_wealth, self._peak = float(path[-1]), max(self._peak, float(path.max()))
        self.n_rounds += len(r)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of rewards that each place had, (m,)."""
        return self._counts / max(self.n_rounds, 1)

    @property
    def message(self) -> str:
        """What to do; empty while there is no alarm."""
        if not self.alarm:
            return ""
        seen, due = (", ".join(f"{share:.0%}" for share in shares) for shares in (self.shares, self._expected))
        if self.places is None:
            meaning = (
                "places matter: the promise is about values of lists in random order, which may order candidates "
                "otherwise than their own orders do"
            )
        else:
            meaning = "the stated factors of places do not hold, and neither does the promise that was made with them"
        return (
            f"of {self.n_rounds:,} rewards {seen} came from the places in their order, where {due} were expected: "
            f"{meaning}. {ADVICE}"
        )

    @property
    def noticeable(self) -> float:
        """How strong an effect would have been noticed by now, 95 times in 100: the largest a < 1 such that factors
        falling geometrically from 1 in the first place to a in the last (on top of the stated ones) would have been. 0
        if not even that all rewards come from the first place.
        """
        m, n = self.list_size, self.n_rounds
        if m == 1 or n == 0:
            return 0.0
        if not self._would_notice(1e-9):
            return 0.0
        return float(bisect(lambda a: np.array(not self._would_notice(float(a))), 1e-9, 1.0, steps=10)[0])

    def _would_notice(self, last: float) -> bool:
        m, n, p0 = self.list_size, self.n_rounds, self._expected
        p = p0 * last ** (np.arange(m) / (m - 1))
        p /= p.sum()
        surprise = np.log(p / p0)
        spread = np.sqrt(n * max(float(p @ surprise**2 - (p @ surprise) ** 2), 0.0))
        evidence = gammaln(m) + gammaln(n * p + 1).sum() - gammaln(n + m) - n * (p @ np.log(p0))
        return bool(evidence - _SURE * spread >= np.log(1 / self.level))

    SCHEMA: ClassVar = {
        "counts": Array("f8", ("m",), 0),
        "log_wealth": Real(),
        "peak": Real(0),
        "n_rounds": Whole(0),
    }

    def _sizes(self) -> dict[str, int]:
        return {"m": self.list_size}

    def _agree(self) -> None:
        require(
            self._log_wealth <= self._peak + 1e-9
            and abs(float(self._counts.sum()) - self.n_rounds) <= 1e-6 * max(self.n_rounds, 1)
            and (self.n_rounds > 0 or self._log_wealth == self._peak == 0),
            "evidence of a guard must not exceed its peak, nor come from no rounds.",
        )
