"""A guard against places that do not work as the problem says.

Let Q(x, y, k) be the probability, given the context, that item y stands in place k: what is shown is known to have been
drawn so. If places are examined by factors θ (all 1 where they do not matter), a reward of y comes from place k with a
mean in proportion to Q(x, y, k)·θ_k; so given the context and that y was rewarded, the place was k with probability

    p(k) = Q(x, y, k)·θ_k / e(x, y),    e(x, y) = Σ_k Q(x, y, k)·θ_k.

With other factors θ′, fixed before the round, the same holds with θ′ and e′. Their ratio is

    g(y, k) = (θ′_k/θ_k) · e(x, y)/e′(x, y).

*One bet.* For a round with rewards R_k in places k, of items y_k, the bet is 1 + λ Σ_k R_k (g(y_k, k) − 1). Its mean is
one: E Σ_k R_k g(y_k, k) = Σ_y rel(y) Σ_k Q(x, y, k) θ_k g(y, k) = Σ_y rel(y) e(x, y) = E Σ_k R_k, whatever comes
together in a list, for any λ that is fixed before the round. It is never negative, since g ≥ min(θ′/θ)/max(θ′/θ) =: c
and Σ_k R_k ≤ ρ, if λ ρ (1 − c) ≤ 1; λ = 1/max(min(1, ρ), ρ(1 − c)) is the largest such stake of at most 1 over the
largest reward. With one reward of 1 per round, λ = 1 and the bet is the likelihood ratio p′(k)/p(k).

*Random order.* Where the order is random given the set, and places do not matter, the rewards of the shown items are
the same in every order: given them, each is in each place with probability 1/m. Then λ may depend on the rewards, and
is 1/Σ_k R_k. This needs the order to be random given the *set*; that all Q(x, y, k) of an item are equal is not enough.

*Which factors.* A mean of wealths: half of it bets on factors fitted to the past, a seventh of the rest on each of
θ_k·a^k. Where lists are in nearly one order, only items that may stand in several places say anything; what effects of
places have in common is that they fall along the page, and the seven soon find those. The fit finds any other. It is
(n_k + m p_k)/(d_k + 1), with n_k the rewarded rounds so far (divided among places as their rewards were), p = θ/Σθ and
d_k the sum of Q(x, y, k)/e′(x, y) over their rewards: what maximises the likelihood, but for the first m rewards'
worth of the stated factors and that each e′ is the one of its time. In random order its wealth is the likelihood of a
Dirichlet mixture of shares over that of p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from comband._kernels.place_bets import bet_on_places, stake_against
from comband.page.problem import (
    NO_SUCH_DRAW,
    SMALLEST_PROPENSITY,
    SMALLEST_REWARD,
    TOLERANCE,
    InputError,
    as_floats,
    check_count,
    check_fraction,
    check_places,
    check_positive,
)
from comband.page.storage import ABSENT, Array, Default, Real, State, Whole, check, require
from comband.statistics.alarm import LEVEL, Alarm

_SURE = 1.645  # standard errors: an effect that "would have been noticed" would have been, 95 times in 100
_STEPS = np.array([0.3, 0.5, 0.65, 0.8, 0.9, 1.1, 1.25])  # from place to place, of the factors that are bet on
_SHARES = np.concatenate([[0.5], np.full(_STEPS.size, 0.5 / _STEPS.size)])  # of the fit, and of each step
_LASTS = np.linspace(0.05, 0.95, 19)  # effects of which it is known whether they would have been noticed


ADVICE = (
    "State how places work (Problem(places=[…]) with factors that fit_examination finds on these rounds, or "
    'places="pairs") and begin anew'
)


class PlaceGuard(Alarm):
    """Watches whether rewards come from the places as they should, where the probabilities of places are known.

    An e-process: see the module for its bets and why their mean is one. Rounds are entered in the order of decisions:
    when an answer comes may depend on its place.

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
            raise InputError('with places="pairs" rewards may come from any place: there is nothing to watch.')
        self.places = factors
        self.list_size = m
        self.max_reward = float(m) if max_reward is None else check_positive("max_reward", max_reward)
        self.level = check_fraction("level", level)
        self.n_rounds = 0  # rewarded ones
        self.n_known = 0  # of these, in a known order that is not random
        self.stated = np.empty(0)  # factors that were fitted; none where those of `places` hold throughout
        lasts = _LASTS[: _LASTS.size * (m > 1)]
        self._steps = lasts ** (1 / max(m - 1, 1))
        self._nearest = np.abs(np.log(self._steps)[:, None] - np.log(_STEPS)).argmin(axis=1)
        self._state_factors(np.ones(m) if factors is None else np.array(factors))
        self._counts, self._expected, self._exposures = np.zeros((3, m))
        self._log_wealth = self._peak = 0.0
        self._log_wealths = np.zeros(_SHARES.size)
        self._information = np.zeros((3, lasts.size))

    def _state_factors(self, theta: NDArray[np.float64]) -> None:
        self._theta = theta
        self._others, self._stakes = self._bets_on(_STEPS)
        self._effects, self._effect_stakes = self._bets_on(self._steps)

    def state_fitted(self, factors: ArrayLike) -> None:
        """From the next round on these factors are stated, which were fitted to rounds before it: each bet has the mean
        one under those of its round.
        """
        places = check_places(factors, self.list_size)
        self.places = None if isinstance(places, str) else places
        stated = np.array(places, dtype=np.float64)
        if not np.array_equal(stated, self.stated):
            self.stated = stated
            self._state_factors(stated)

    @property
    def fitted(self) -> bool:
        """Whether factors are those that were fitted to earlier rounds."""
        return self.stated.size > 0

    def _bets_on(self, steps: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Factors that fall by these steps from place to place, beyond the stated ones, and the stakes on them."""
        fall = steps[:, None] ** np.arange(self.list_size)
        stakes = [stake_against(row.min(), row.max(), self.max_reward) for row in fall]
        return np.asarray(self._theta * fall), np.array(stakes)

    def update(self, rewards: ArrayLike, placements: ArrayLike | None = None) -> None:
        """Enter rounds in the order of their decisions.

        Parameters
        ----------
        rewards:
            (n, m) by place.
        placements:
            (n, m, m) Q(x, y, k): the probability, given the context, that the item shown in place j stands in place k.
            Left out: the order was random given the set.
        """
        m = self.list_size
        r = as_floats("rewards", rewards)
        if r.ndim != 2 or r.shape[1] != m or not ((r >= 0) & (r <= 1)).all():
            raise InputError(f"rewards must be those of {m} places, in [0, 1], got shape {r.shape}.")
        given = None if placements is None else as_floats("placements", placements)
        if given is not None and given.shape != (*r.shape, m):
            raise InputError(
                f"placements must say for each of {m} shown items how likely each place was, {(*r.shape, m)}, got "
                f"shape {given.shape}."
            )
        rewarded = (r >= SMALLEST_REWARD).any(axis=1)
        r = np.where(r >= SMALLEST_REWARD, r, 0.0)[rewarded]
        if len(r) == 0:
            return
        total = r.sum(axis=1)
        if total.max() > self.max_reward + TOLERANCE:
            raise InputError(
                f"rewards of a round must sum to {self.max_reward:g} at most, got {total.max():g}: state max_reward."
            )
        if given is None:
            rows = np.full((len(r), m, m), 1 / m)
        else:
            rows = np.ascontiguousarray(given[rewarded])
            _check_rows(rows[r > 0], np.nonzero(r)[1])
        self._enter(r, rows, by_total=given is None and self.places is None)
        self.n_known += 0 if given is None else len(r)

    def _enter(self, rewards: NDArray[np.float64], rows: NDArray[np.float64], *, by_total: bool) -> None:
        changed = [
            array.copy()
            for array in (self._counts, self._expected, self._exposures, self._log_wealths, self._information)
        ]
        peak, last = bet_on_places(
            rewards,
            rows,
            self._theta,
            self._others,
            self._stakes,
            _SHARES,
            self._effects,
            self._effect_stakes,
            self._nearest,
            self.max_reward,
            by_total,
            *changed,
        )
        self._counts, self._expected, self._exposures, self._log_wealths, self._information = changed
        self._log_wealth, self._peak = float(last), max(self._peak, float(peak))
        self.n_rounds += len(rewards)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of rewards that each place had, (m,)."""
        return self._counts / max(self.n_rounds, 1)

    @property
    def expected(self) -> NDArray[np.float64]:
        """The share that it should have had, (m,)."""
        return self._expected / max(self.n_rounds, 1)

    @property
    def message(self) -> str:
        """What to do; empty while there is no alarm."""
        if not self.alarm:
            return ""
        seen, due = (", ".join(f"{share:.0%}" for share in shares) for shares in (self.shares, self.expected))
        if self.places is None and self.n_known:
            meaning = "places matter, and the promise, which rests on it that they do not, is void"
        elif self.places is None:
            meaning = (
                "places matter: the promise is about values of lists in random order, which may order candidates "
                "otherwise than their own orders do"
            )
        elif self.fitted:
            meaning = (
                "factors of places do not hold as they were fitted to earlier rounds (they change, or go with items), "
                "and neither does the promise that was made with them"
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
        if not even such a fall to a twentieth.

        Of each effect it is known what the rewards so far would have said of it on average, given where their items
        could have been, and how much that varies.
        """
        n, m = self.n_rounds, self.list_size
        if m == 1 or n == 0:
            return 0.0
        p = self._effects / self._effects.sum(axis=1, keepdims=True)
        prior = m * self._theta / self._theta.sum()
        # What the first player gives away, as if the order were random: it does not know the effect.
        unknown = (
            gammaln(n + m) - gammaln(m) - (gammaln(n * p + prior) - gammaln(prior) - n * p * np.log(p)).sum(axis=1)
        )
        own, variance, nearest = self._information
        evidence = np.maximum(own - unknown + np.log(_SHARES[0]), nearest + np.log(_SHARES[1]))
        margin = evidence - _SURE * np.sqrt(variance) - np.log(1 / self.level)
        noticed = np.flatnonzero(margin >= 0)
        if len(noticed) == 0:
            return 0.0
        i = int(noticed[-1])
        if i + 1 == len(margin):
            return float(_LASTS[i])
        return float(np.interp(0.0, margin[[i + 1, i]], _LASTS[[i + 1, i]]))

    SCHEMA: ClassVar = {
        "counts": Array("f8", ("m",), 0),
        "log_wealth": Real(),
        "peak": Real(0),
        "n_rounds": Whole(0),
        "n_known": Default(Whole(0), lambda sizes: 0),
        "expected": Default(Array("f8", ("m",), 0), lambda sizes: ABSENT),
        "exposures": Default(Array("f8", ("m",), 0), lambda sizes: ABSENT),
        "log_wealths": Default(Array("f8", ("players",)), lambda sizes: ABSENT),
        "information": Default(Array("f8", (3, "effects")), lambda sizes: ABSENT),
        "stated": Default(Array("f8", ("stated",), 0), lambda sizes: np.empty(0)),
    }

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        return {name: part for name, part in super().state().items() if self.fitted or name != "stated"}

    def _sizes(self) -> dict[str, int]:
        return {"m": self.list_size, "players": _SHARES.size, "effects": len(self._effects)}

    def restore(self, state: State, **sizes: int) -> None:
        """The inverse of `state`. In files from before orders could be known, all lists were in random order, and one
        player had all the wealth: from now on all go on with what it had.
        """
        check(state, self.SCHEMA, place="", **{**sizes, **self._sizes()})
        n, m = state["n_rounds"], self.list_size
        one = PlaceGuard(self.places, list_size=m, max_reward=1.0)
        one.update(np.eye(m)[:1])
        before = {
            "expected": n * one._expected,
            "exposures": np.full(m, n / m),
            "log_wealths": np.full(_SHARES.size, state["log_wealth"]),
            "information": n * one._information,
        }
        for name, value in before.items():
            state[name] = value if state[name] is ABSENT else state[name]
        super().restore(state, **sizes)
        if self.fitted:
            stated, self.stated = self.stated, np.empty(0)
            self.state_fitted(stated)

    def _agree(self) -> None:
        n, near = self.n_rounds, 1e-6 * max(self.n_rounds, 1)
        require(
            self._log_wealth <= self._peak + 1e-9
            and abs(float(logsumexp(self._log_wealths, b=_SHARES)) - self._log_wealth)
            <= 1e-6 * max(abs(self._log_wealth), 1.0)
            and abs(float(self._counts.sum()) - n) <= near
            and abs(float(self._expected.sum()) - n) <= near
            and bool((self._information[1] >= -near).all())
            and self.n_known <= n
            and (n > 0 or self._log_wealth == self._peak == 0),
            "evidence of a guard must not exceed its peak, nor come from no rounds.",
        )


def _check_rows(rows: NDArray[np.float64], places: NDArray[np.int64]) -> None:
    """Refuse probabilities of places (E, m) of rewarded items that are none, or that exclude where they were (E,)."""
    sums = rows.sum(axis=1)
    if not ((rows >= 0).all() and (sums <= 1 + TOLERANCE).all()):
        raise InputError(
            "placements must be probabilities of the places of an item, in [0, 1] and together at most 1, got "
            f"{rows.min():g} to {rows.max():g} and sums up to {sums.max():g}."
        )
    own = rows[np.arange(len(rows)), places]
    if own.min() < SMALLEST_PROPENSITY:
        raise InputError(
            f"an item was shown in a place that has the probability {own.min():g} in placements: {NO_SUCH_DRAW}."
        )
