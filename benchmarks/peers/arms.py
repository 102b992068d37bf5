"""What is done with candidates as arms: A/B/n tests as practised, and bandits over candidates.

A visitor is shown the list of one candidate, and one click at most speaks for that candidate alone. Contexts are drawn
independently, so a candidate's clicks are Bernoulli with its value as mean: runs are simulated from counts, exactly,
which is why they may last millions of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.loss import choose_arms
from benchmarks.peers.results import best_of, peer

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
PRIOR_ROUNDS = 30  # chosen on other seeds of bibtex among 1, 3, 10, 30; it matters little


@dataclass
class Field:
    """What is known of P candidates: how often each was shown, and clicked; and who is still in the running."""

    shown: Counts
    clicks: Counts
    alive: NDArray[np.bool_]
    epsilon: float
    delta: float

    @property
    def rounds(self) -> int:
        """t."""
        return int(self.shown.sum())

    @property
    def means(self) -> Array:
        """Clicks per round, shrunk by one click in two rounds, so that nobody is sure after one."""
        return np.asarray((self.clicks + 0.5) / (self.shown + 1.0))

    @property
    def leader(self) -> int:
        """Who is still in the running and has the highest mean."""
        return int(np.where(self.alive, self.means, -1.0).argmax())

    def guesses(self, old_clicks: Array | None = None, old_visitors: int = 0) -> Array:
        """Means shrunk to that of everybody by so many rounds: the best guess while some were hardly shown.

        `old_clicks` from so many old visitors for each may be known beforehand.
        """
        clicks, shown = self.clicks + (0 if old_clicks is None else old_clicks), self.shown + old_visitors
        common = (clicks.sum() + 0.5) / (shown.sum() + 1.0)
        return np.asarray((clicks + PRIOR_ROUNDS * common) / (shown + PRIOR_ROUNDS))

    def errors(self) -> Array:
        """Standard errors of all differences to the leader."""
        variances = self.means * (1 - self.means) / np.maximum(self.shown, 1)
        return np.asarray(np.sqrt(variances + variances[self.leader]))

    def rivals(self) -> NDArray[np.int64]:
        """All that are alive but the leader."""
        found = np.flatnonzero(self.alive)
        return np.asarray(found[found != self.leader])


class Rule:
    """How visitors are divided, who is dropped, and when it is over. The base shares traffic evenly, for ever."""

    growth = 0.03  # how much longer the test gets until somebody looks

    def __init__(self, epsilon: float, delta: float, n_arms: int, horizon: int, rate: float) -> None:
        self.epsilon, self.delta, self.n_arms, self.horizon, self.rate = epsilon, delta, n_arms, horizon, rate

    def batch(self, field: Field) -> int:
        """How many visitors come until somebody looks."""
        return max(100, int(self.growth * field.rounds))

    def split(self, field: Field, n: int, rng: np.random.Generator) -> Counts:
        """How many of the next n visitors see each candidate."""
        return rng.multinomial(n, field.alive / field.alive.sum())

    def look(self, field: Field) -> bool:
        """Drop whoever can be dropped; True when the promise holds."""
        return False

    def told(self, field: Field, arm_rounds: Counts, arm_clicks: Counts, rng: np.random.Generator) -> None:
        """What just came in, for rules that need more than counts."""

    def scores(self, field: Field) -> Array:
        """The highest is the best guess, unless the rule has declared its leader the winner."""
        return np.where(field.alive, field.guesses(), -1.0)


class FixedHorizon(Rule):
    """Traffic shared evenly up to a sample size fixed beforehand; then one-sided z-tests with the margin ε.

    The sample size is that of the textbook: power 80% to reject a rival as good as the winner, at the Bonferroni level.
    All rivals rejected: the winner is declared; otherwise the test ends undecided.
    """

    holm = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        z = norm.isf(self.delta / (self.n_arms - 1)) + norm.ppf(0.8)
        self.planned = math.ceil(self.n_arms * 2 * self.rate * (1 - self.rate) * (z / self.epsilon) ** 2)

    def batch(self, field: Field) -> int:
        """Nobody acts before the planned end."""
        left = self.planned - field.rounds
        return min(super().batch(field), left) if left > 0 else super().batch(field)

    def look(self, field: Field) -> bool:
        """Once, at the end."""
        if field.rounds != self.planned:
            return False
        rivals = field.rivals()
        gaps = field.means[field.leader] - field.means[rivals] + self.epsilon
        p_values = np.sort(norm.sf(gaps / field.errors()[rivals]))
        steps = np.arange(len(rivals), 0, -1) if self.holm else len(rivals)
        return bool((p_values <= self.delta / steps).all())


class Holm(FixedHorizon):
    """The same with Holm's steps: the largest p-value is held to δ, the smallest to δ/(P − 1)."""

    holm = True


@cache
def wang_tsiatis(looks: int, level: float, shape: float) -> float:
    """The constant C for which a Gaussian walk ever exceeds C·(l/L)^(shape − ½) at a look l with probability `level`.

    By the recursion of Armitage, McPherson and Rowe on a grid; `shape` 0 is O'Brien and Fleming, ½ Pocock.
    """

    def crossing(constant: float) -> float:
        step, crossed = 0.02, 0.0
        grid = np.arange(-12.0, 12.0 * math.sqrt(looks), step)
        density = norm.pdf(grid)
        kernel = norm.pdf(np.arange(-8.0, 8.0 + step / 2, step)) * step
        for look in range(1, looks + 1):
            edge = constant * (look / looks) ** (shape - 0.5) * math.sqrt(look)
            crossed += float(density[grid >= edge].sum()) * step
            density = np.convolve(np.where(grid < edge, density, 0.0), kernel, mode="same")
        return crossed

    low, high = 0.5, 12.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if crossing(middle) > level else (low, middle)
    return high


class GroupSequential(Rule):
    """Ten looks at equal distances with Wang and Tsiatis's boundary (shape ¼), Bonferroni over rivals, elimination.

    The boundary holds for repeated intervals of every difference, hence for dropping (margin 0) and for stopping
    (margin ε) at once. The maximal sample size is that of the textbook for power 95%, as the boundary inflates it.
    """

    looks = 10

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.constant = wang_tsiatis(self.looks, round(self.delta / (self.n_arms - 1), 10), 0.25)
        z = self.constant + norm.ppf(0.95)
        self.per_arm = math.ceil(2 * self.rate * (1 - self.rate) * (z / self.epsilon) ** 2 / self.looks)
        self.done = 0

    def batch(self, field: Field) -> int:
        """Until those who are left have all been shown as often as the next look wants."""
        if self.done >= self.looks:
            return super().batch(field)
        left = (self.done + 1) * self.per_arm * int(field.alive.sum()) - int(field.shown[field.alive].sum())
        return max(1, int(left))

    def look(self, field: Field) -> bool:
        """At the planned looks only."""
        wanted = (self.done + 1) * self.per_arm * int(field.alive.sum())
        if self.done >= self.looks or field.shown[field.alive].sum() < wanted:
            return False
        self.done += 1
        edge = self.constant * (self.done / self.looks) ** (0.25 - 0.5)
        rivals = field.rivals()
        z = (field.means[field.leader] - field.means[rivals]) / field.errors()[rivals]
        field.alive[rivals[z >= edge]] = False
        rivals, z = rivals[z < edge], z[z < edge]
        return bool((z + self.epsilon / field.errors()[rivals] >= edge).all())


class MixtureSprt(Rule):
    """The always-valid test of Johari et al.: a normal mixture over differences (scale τ), Bonferroni over rivals.

    The set of differences that are not rejected is a confidence sequence, so dropping and stopping share it. Whoever is
    dropped is shown no more. τ = 4ε was chosen on other seeds among ε/2, ε, 2ε, …, 16ε.
    """

    scale = 4.0

    def look(self, field: Field) -> bool:
        """At any time."""
        rivals = field.rivals()
        if field.shown[field.alive].min() < 30:  # it is asymptotic
            return False
        gaps, errors = field.means[field.leader] - field.means[rivals], field.errors()[rivals]
        beaten = self.rejects(gaps, errors)
        field.alive[rivals[beaten]] = False
        return bool(self.rejects(gaps[~beaten] + self.epsilon, errors[~beaten]).all())

    def rejects(self, gaps: Array, errors: Array) -> NDArray[np.bool_]:
        """Whether "the gap is not above 0" is rejected."""
        tau, v = (self.scale * self.epsilon) ** 2, errors**2
        evidence = 0.5 * np.log(v / (v + tau)) + tau * gaps**2 / (2 * v * (v + tau))
        return np.asarray((gaps > 0) & (evidence >= math.log((self.n_arms - 1) / self.delta)))


class Ville(Rule):
    """The package `ville`: a beta-binomial confidence sequence (`BernoulliCS`) per candidate at δ/P, with elimination.

    It has sequences for means and for two groups, not for the best of many: candidates are dropped, and the test ends,
    by comparing the leader's lower with the rivals' upper bounds. Its tests of two groups would need one for every pair
    that may come to be the last two; mSPRT is such a test.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        kind = peer("ville").BernoulliCS
        self.sequences = [kind(alpha=self.delta / self.n_arms) for _ in range(self.n_arms)]
        self.low, self.high = np.zeros(self.n_arms), np.ones(self.n_arms)

    def told(self, field: Field, arm_rounds: Counts, arm_clicks: Counts, rng: np.random.Generator) -> None:
        """It wants every observation."""
        for arm in np.flatnonzero(arm_rounds):
            stream = np.zeros(arm_rounds[arm])
            stream[rng.choice(arm_rounds[arm], arm_clicks[arm], replace=False)] = 1
            self.low[arm], self.high[arm] = self.sequences[arm].update(stream).interval()

    def look(self, field: Field) -> bool:
        """At any time."""
        rivals = field.rivals()
        field.alive[rivals[self.high[rivals] <= self.low[field.leader]]] = False
        return bool((self.high[field.rivals()] <= self.low[field.leader] + self.epsilon).all())


def kl(p: Array, q: Array) -> Array:
    """Of two Bernoulli laws."""
    p, q = np.clip(p, 1e-12, 1 - 1e-12), np.clip(q, 1e-12, 1 - 1e-12)
    return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


def kl_bounds(means: Array, shown: Counts, rate: float) -> tuple[Array, Array]:
    """The lowest and highest q with n·kl(mean, q) ≤ rate."""
    bounds = []
    for end in (0.0, 1.0):
        near, far = means.copy(), np.full(len(means), end)
        for _ in range(26):
            middle = (near + far) / 2
            inside = shown * kl(means, middle) <= rate
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        bounds.append(near)
    return bounds[0], bounds[1]


def practical_rate(field: Field, delta: float) -> float:
    """log((1 + log t)/δ)."""
    return math.log((1 + math.log(max(field.rounds, 1))) / delta)


class KlLucb(Rule):
    """KL-LUCB (Kaufmann and Kalyanakrishnan): the leader and the rival of highest upper bound share the traffic.

    With the rate log(k P t^α/δ), α = 1.1, k = 11.1, for which its theorem holds.
    """

    growth = 0.003

    def rate_at(self, field: Field) -> float:
        """β(t, δ)."""
        return math.log(11.1 * self.n_arms * max(field.rounds, 1) ** 1.1 / self.delta)

    def batch(self, field: Field) -> int:
        """Few at a time: it is made for two."""
        return max(10, int(self.growth * field.rounds))

    def split(self, field: Field, n: int, rng: np.random.Generator) -> Counts:
        """To the two, and first to whoever was never shown."""
        counts = np.zeros(self.n_arms, dtype=np.int64)
        new = np.flatnonzero(field.shown == 0)[:n]
        if len(new):
            counts[new] = 1
            return counts
        counts[[field.leader, self.challenger]] = [n - n // 2, n // 2]
        return counts

    def look(self, field: Field) -> bool:
        """When the rival's upper bound is within ε of the leader's lower one."""
        if field.shown.min() == 0:
            return False
        low, high = kl_bounds(field.clicks / field.shown, field.shown, self.rate_at(field))
        leader = field.leader
        high[leader] = -1
        self.challenger = int(high.argmax())
        return bool(high[self.challenger] - low[leader] < self.epsilon)


class KlLucbPractical(KlLucb):
    """The same with the rate log((1 + log t)/δ) of the paper's experiments, which has no proof."""

    def rate_at(self, field: Field) -> float:
        """β(t, δ)."""
        return practical_rate(field, self.delta)


class TrackAndStop(Rule):
    """Track-and-stop (Garivier and Kaufmann) for an ε-best candidate: optimal shares by the current means.

    It stops when the generalised likelihood ratio against every rival being ε better exceeds log(2t(P − 1)/δ), for
    which there is a theorem. Shares are renewed whenever the run has grown by a tenth; candidates shown less than
    √t − P/2 times come first.
    """

    growth = 0.01

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shares, self.renewed = np.full(self.n_arms, 1 / self.n_arms), 0

    def split(self, field: Field, n: int, rng: np.random.Generator) -> Counts:
        """Towards the shares, those furthest behind first."""
        t = field.rounds
        if t > 1.1 * self.renewed and field.shown.min() > 0:
            self.shares, self.renewed = optimal_shares(field.means, self.epsilon), t
        due = np.maximum(np.ceil(math.sqrt(t + n) - self.n_arms / 2) - field.shown, field.shown == 0)
        forced = np.maximum(due, 0).astype(np.int64)
        if forced.sum() >= n:
            return rng.multinomial(n, forced / forced.sum())
        behind = np.maximum((t + n) * self.shares - field.shown - forced, 0)
        return np.asarray(forced + rng.multinomial(n - forced.sum(), behind / behind.sum()))

    def look(self, field: Field) -> bool:
        """By the smallest transport cost."""
        if field.shown.min() == 0:
            return False
        rivals = field.rivals()
        cost = transport(field.means, field.leader, rivals, self.epsilon, field.shown.astype(np.float64))
        return bool(cost.min() >= self.rate_at(field))

    def rate_at(self, field: Field) -> float:
        """β(t, δ)."""
        return math.log(2 * field.rounds * (self.n_arms - 1) / self.delta)


class TrackAndStopPractical(TrackAndStop):
    """The same with the rate log((1 + log t)/δ) that such papers' experiments have, and no proof."""

    def rate_at(self, field: Field) -> float:
        """β(t, δ)."""
        return practical_rate(field, self.delta)


def slope(mean: Array, at: Array) -> Array:
    """d/dλ kl(mean, λ)."""
    return np.asarray((at - mean) / np.maximum(at * (1 - at), 1e-15))


def transport(means: Array, leader: int, rivals: NDArray[np.int64], epsilon: float, weights: Array) -> Array:
    """min over λ of w₁ kl(μ₁, λ) + w_j kl(μ_j, λ + ε): what it takes for the rival to be ε better than the leader."""
    first, others = np.full(len(rivals), means[leader]), means[rivals]
    low, high = np.clip(others - epsilon, 1e-12, 1 - epsilon - 1e-12), np.minimum(first, 1 - epsilon - 1e-12)
    for _ in range(40):
        at = (low + high) / 2
        rising = weights[leader] * slope(first, at) + weights[rivals] * slope(others, at + epsilon) > 0
        low, high = np.where(rising, low, at), np.where(rising, at, high)
    return np.asarray(weights[leader] * kl(first, at) + weights[rivals] * kl(others, at + epsilon))


def optimal_shares(means: Array, epsilon: float) -> Array:
    """argmax over shares of the smallest transport cost: one cost y for all rivals, and Σ of ratios of costs 1.

    With share 1 of the leader, a rival's cost is y at one λ; the larger y, the larger the sum of ratios.
    """
    leader = int(means.argmax())
    rivals = np.delete(np.arange(len(means)), leader)
    first, others = np.full(len(rivals), means[leader]), means[rivals]
    bottom = np.clip(others - epsilon, 1e-9, None)

    def at_cost(y: float) -> tuple[Array, Array]:
        low, high = bottom.copy(), first.copy()
        for _ in range(30):
            at = (low + high) / 2
            x = -slope(first, at) / np.maximum(slope(others, at + epsilon), 1e-15)
            below = kl(first, at) + x * kl(others, at + epsilon) < y
            low, high = np.where(below, low, at), np.where(below, at, high)
        return x, kl(first, at) / np.maximum(kl(others, at + epsilon), 1e-15)

    low, high = 0.0, float(kl(first, bottom).min())
    for _ in range(30):
        y = (low + high) / 2
        x, ratios = at_cost(y)
        low, high = (y, high) if ratios.sum() < 1 else (low, y)
    shares = np.ones(len(means))
    shares[rivals] = x
    return np.asarray(shares / shares.sum())


class Impatient(Rule):
    """Looks after some visitors: it learns at once."""

    def batch(self, field: Field) -> int:
        """Few at a time."""
        return max(10, field.rounds // 100)


class ThompsonSampling(Impatient):
    """Over candidates. The prior is worth `PRIOR` rounds at everybody's common rate.

    Chosen on other seeds of bibtex, Corel5k and enron among a uniform prior and 1, 3 and 10 rounds: it loses least.
    """

    PRIOR = 1.0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.old_clicks, self.old_visitors = np.zeros(self.n_arms), 0  # known beforehand, where they may be

    def split(self, field: Field, n: int, rng: np.random.Generator) -> Counts:
        """Whoever is best in a draw from the posterior."""
        clicks, shown = field.clicks + self.old_clicks, field.shown + self.old_visitors
        rate = (clicks.sum() + 0.5) / (shown.sum() + 1.0)
        draws = rng.beta(clicks + self.PRIOR * rate, shown - clicks + self.PRIOR * (1 - rate), size=(n, self.n_arms))
        return np.bincount(draws.argmax(axis=1), minlength=self.n_arms)

    def scores(self, field: Field) -> Array:
        """With all that is known."""
        return field.guesses(self.old_clicks, self.old_visitors)


class ThompsonSamplingOld(ThompsonSampling):
    """The same, with what old visitors would have clicked as its prior."""


class SuccessiveHalving(Impatient):
    """That of `benchmarks.loss`, over candidates, told the horizon; the pick is the best of those that are left."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.left = np.arange(self.n_arms)

    def split(self, field: Field, n: int, rng: np.random.Generator) -> Counts:
        """Evenly among those left."""
        arms, self.left = choose_arms(
            "successive halving", field.clicks, field.shown, self.left, field.rounds, self.horizon, n, rng
        )
        return np.bincount(arms, minlength=self.n_arms)

    def scores(self, field: Field) -> Array:
        """Of those left."""
        return np.where(np.isin(np.arange(self.n_arms), self.left), field.guesses(), -1.0)


RULES: dict[str, type[Rule]] = {
    "A/B/n, fixed horizon, Bonferroni": FixedHorizon,
    "A/B/n, fixed horizon, Holm": Holm,
    "A/B/n, group-sequential, eliminating": GroupSequential,
    "A/B/n, mSPRT, eliminating": MixtureSprt,
    "A/B/n, ville, eliminating": Ville,
    "KL-LUCB": KlLucb,
    "KL-LUCB, practical rate": KlLucbPractical,
    "track-and-stop": TrackAndStop,
    "track-and-stop, practical rate": TrackAndStopPractical,
    "Thompson sampling": ThompsonSampling,
    "Thompson sampling, old visitors": ThompsonSamplingOld,
    "successive halving": SuccessiveHalving,
}
TOLD_THE_HORIZON = ("successive halving",)
UNPROVEN = ("KL-LUCB, practical rate", "track-and-stop, practical rate")


def play_arms(
    make: Callable[[int], Rule], values: Array, horizons: tuple[int, ...], most: int, rng: np.random.Generator
) -> dict[str, Any]:
    """A run until it stops or has lasted `most` rounds: regrets of picks and shares of reward lost at the horizons."""
    rule, P, best = make(horizons[-1]), len(values), float(values.max())
    field = Field(np.zeros(P, np.int64), np.zeros(P, np.int64), np.ones(P, np.bool_), rule.epsilon, rule.delta)
    regrets: dict[int, float] = {}
    shares: dict[int, float] = {}
    stop, lost = None, 0.0
    while field.rounds < most:
        ahead = [horizon for horizon in (*horizons, most) if horizon > field.rounds]
        n = min(rule.batch(field), ahead[0] - field.rounds)
        shown = np.asarray(rule.split(field, n, rng), dtype=np.int64)
        clicks = rng.binomial(shown, np.clip(values, 0, 1))
        field.shown += shown
        field.clicks += clicks
        lost += float(shown @ (best - values))
        rule.told(field, shown, clicks, rng)
        if rule.look(field):
            stop = field.rounds
        if field.rounds in horizons:
            regrets[field.rounds] = best - float(values[best_of(rule.scores(field), rng)])
            shares[field.rounds] = lost / (best * field.rounds)
        if stop is not None:
            break
    regret = best - float(values[field.leader if stop is not None else best_of(rule.scores(field), rng)])
    if stop is not None:  # from then on the winner is shown
        for horizon in horizons:
            if horizon > stop:
                regrets[horizon] = regret
                shares[horizon] = (lost + regret * (horizon - stop)) / (best * horizon)
    return {"regrets": regrets, "lost": shares, "stop": stop, "final_regret": regret, "lost_until": lost / best}
