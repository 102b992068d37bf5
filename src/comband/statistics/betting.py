"""Paired betting e-processes: evidence, valid at any time, that a candidate is not the best.

For an epoch with leader ℓ, a rival π and a round t let D_t = X_t(π) − X_t(ℓ), with X_t(π) = Σ_{y∈π(x_t)∩a_t}
r_t(y)/Q_t(x_t, y), so that E D_t = V(π) − V(ℓ). For a stake λ that is fixed before the round's context is drawn and a
number μ with λμ < 1,

    (1 − λ D_t) / (1 − λ μ)  =  1 − λ' (D_t − μ),   λ' = λ / (1 − λμ),

is a fair bet against E D_t = μ, and it stays positive while D_t ≤ c < 1/λ: only gains of the *rival* have to be
bounded. In this form the product over rounds is Π(1 − λ D_t) · (1 − λμ)^−n: a sum of logarithms over *events* (a round
without reward has D_t = 0) and a closed term for all n rounds, for every μ at once. Sums over blocks of rounds add.

Why there is no union over candidates. Let π* be a best candidate. Against *any* leader, E D_t = V(π*) − V(ℓ) = g_ℓ ≥
0. The product W of the bets at μ = g_{ℓ(t)}, where ℓ(t) is the leader of round t's epoch, chosen from the past, is a
nonnegative martingale from 1, though it cannot be computed. By Ville's inequality it ever reaches 1/δ with probability
at most δ. What can be
computed lies below it:

* all bets at μ = 0. Dropping π when this reaches 1/δ drops π* with probability at most δ;
* bets at μ in epochs led by ℓ and at 0 in the others, which is at most W whenever μ ≤ g_ℓ. So on the same event, "π
  exceeds ℓ by at most μ" is never claimed wrongly of π*, for any leader ℓ, any μ and at any time.

Both promises concern the one policy π*, and hold on one event of probability 1 − δ: the threshold is 1/δ, not (P−1)/δ.
A mixture (average) of such products over several stakes is again such a process.

If the world moves. Let the gap in round t be g_t = E D_t given the past, whatever it is. The product of
(1 − λ_t D_t)/(1 − λ_t g_t) is still a martingale from 1, and since −log(1 − λg) is convex in g, what is computed at μ_t
(μ in the epochs of ℓ, 0 in others) lies below it whenever

    Σ_t λ'_t (g_t − μ_t) ≥ 0,    λ'_t = λ_t/(1 − λ_t μ_t).

So of any one policy π it is never claimed wrongly, at any time, that *on average over the rounds that count, weighted
by λ'*, π exceeded those who led by no more than μ where ℓ led and 0 elsewhere: with probability 1 − δ. This is about
those who led, each in its own rounds, and not about the one who leads in the end; a policy that is dropped has no stake
in later rounds, so they have no weight for it; and it is about one policy, fixed beforehand, for which of them is the
best may then depend on when one looks: of all P at once it holds with probability 1 − Pδ. Where wealths of several
stakes are averaged, each has a weighting of its own, and the average is that of martingales if the sum is no less than
0 in all of them: the claim is then true in *at least one* weighting, which need not be known. Values that change make
promises about averages over rounds, of which one may count recent ones only.

Nothing here depends on the unit of reward. Stakes are on one grid of powers of 2^(1/3), in units of 1/`unit`, where
`unit` is fixed with the problem (the smaller of 1 and ρ): λD does not change when all rewards, ρ, ε and the unit are
multiplied by one number, so a rescaled problem takes the same rounds.

What would break it: a stake, a bound c or a leader that depends on the round's own context, list or reward. c
therefore bounds D_t over *all* contexts. Where a context does not allow it (`uncovered`), D_t is replaced by ρ, the
most that V(π) − V(ℓ) can be given that context: the mean can only rise, so the bet can only lose.

References: Ville (1939); Waudby-Smith & Ramdas (2024), Estimating means of bounded random variables by betting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comband._kernels.betting import add_paired_log_wealth
from comband.page.problem import InputError, check_positive
from comband.statistics.grids import between, by_round, one_by_one, stake_grid

# One grid of stakes for everything: thirds of an octave from 1 down to 2^−42, and 0 (no bet) at the last place. No
# larger stake is safe (c ≥ unit), and no smaller one is wanted: c/unit stays below 2^33 for K/m < 2^31 and a floor of
# ½. Stakes on a common grid cost one logarithm per event, whatever the number of rivals.
STAKES: NDArray[np.float64] = np.append(stake_grid(126, per_octave=3), 0.0)
STAKES.flags.writeable = False

# Half, once and twice the stake that looks best: the mixture forgives a wrong guess of mean and variance.
OFFSETS: NDArray[np.int64] = np.array([3, 0, -3])

# The largest stake is this share of 1/c: a bet never loses more than 90% of its wealth in a round.
SAFETY = 0.9


@dataclass(frozen=True, eq=False, slots=True)
class Bets:
    """The bets of one epoch, fixed before its first context is drawn.

    Parameters
    ----------
    leader:
        The position of ℓ among the epoch's candidates.
    levels:
        (S, J) positions in `STAKES`, J stakes for each candidate.
    bound:
        c, the most that D_t can be in a covered round.
    unit:
        What D is counted in: the stakes are those of `STAKES`, divided by it.

    >>> import numpy as np
    >>> from comband.statistics import Bets
    >>> bets = Bets.choose(0, np.array([0.0, 0.05, 0.2]), 8.0)  # leader, stakes on two rivals, the most D can be
    >>> bets.stakes.shape[0], bool((bets.stakes < 1 / 8).all())
    (3, True)
    >>> bool((bets.credit(0.1)[1:] > 0).all())  # what a round without reward adds against "better by 0.1"
    True
    """

    leader: int
    levels: NDArray[np.int64]
    bound: float
    unit: float = 1.0

    def __post_init__(self) -> None:
        check_positive("bound", self.bound)
        check_positive("unit", self.unit)
        if self.levels.ndim != 2 or not ((self.levels >= 0) & (self.levels < len(STAKES))).all():
            raise InputError(f"levels (S, J) of bets must lie in 0 … {len(STAKES) - 1}.")
        if not 0 <= self.leader < len(self.levels):
            raise InputError(f"the leader of bets must lie in 0 … {len(self.levels) - 1}, got {self.leader}.")
        if self.stakes.max(initial=0.0) * self.bound >= 1:
            raise InputError(f"a stake of {self.stakes.max():g} may lose everything when D can be {self.bound:g}.")

    @classmethod
    def choose(cls, leader: int, wanted: NDArray[np.float64], bound: float, *, unit: float = 1.0) -> Bets:
        """Bets around the `wanted` stakes (S,), capped at SAFETY/c."""
        least = int(np.searchsorted(-STAKES, -SAFETY / (bound / unit)))
        nearest = np.round(-3 * np.log2(np.maximum(wanted * unit, STAKES[-2]))).astype(np.int64)
        levels = np.clip(nearest[:, None] + OFFSETS, least, max(least, len(STAKES) - 2))
        return cls(leader, np.where(wanted[:, None] > 0, levels, len(STAKES) - 1), bound, unit)

    @property
    def grid(self) -> NDArray[np.float64]:
        """All the stakes that `levels` choose from."""
        return STAKES / self.unit

    @property
    def stakes(self) -> NDArray[np.float64]:
        """λ, (S, J)."""
        return np.asarray(self.grid[self.levels])

    def credit(self, mu: float) -> NDArray[np.float64]:
        """−log(1 − λμ), (S, J): what each round adds to the log-wealth against "π exceeds ℓ by at least μ"."""
        return np.asarray(credits_at(mu / self.unit)[self.levels])


def credits_at(mu: float) -> NDArray[np.float64]:
    """−log(1 − λμ) for every stake of the grid, μ in its unit; infinite where λμ ≥ 1."""
    lost = np.minimum(STAKES * mu, 1.0)
    result = np.full(len(STAKES), np.inf)
    np.log1p(-lost, out=result, where=lost < 1)
    result[lost < 1] *= -1
    return result


@dataclass(frozen=True, eq=False, slots=True)
class PairedEvidence:
    """Log-wealths (S, J) of one epoch's bets at μ = 0, and how many rounds they have seen. `a + b` has seen both
    blocks.

    Parameters
    ----------
    n_rounds:
        How many rounds were seen.
    log_wealth:
        (S, J) for each candidate and stake.

    >>> import numpy as np
    >>> from comband.statistics import Bets, PairedEvidence
    >>> bets = Bets.choose(0, np.array([0.0, 0.1]), 4.0)
    >>> inside = np.array([[True, False]] * 3)  # three rewards of the leader's items, none of its rival's
    >>> evidence = PairedEvidence.from_events(bets, inside, np.arange(3), np.full(3, 2.0), n_rounds=10)
    >>> bool((evidence.log_wealth[1] > 0).all()), (evidence + evidence).n_rounds
    (True, 20)
    """

    n_rounds: int
    log_wealth: NDArray[np.float64]

    @classmethod
    def from_events(
        cls,
        bets: Bets,
        inside: NDArray[np.bool_] | NDArray[np.float64],
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        n_rounds: int,
        n_uncovered: int = 0,
        max_reward: float = 1.0,
    ) -> PairedEvidence:
        """Evidence of a block of rounds.

        Parameters
        ----------
        bets:
            The epoch's.
        inside:
            (E, S) whether event e's action is in each candidate's list; or numbers, by how much it counts for each.
        rows, weights:
            (E,) the round of each event (events of a round stand together) and r/Q.
        n_rounds, n_uncovered:
            All rounds of the block, and those among them (without any event here) where the bound does not hold.
        max_reward:
            ρ, what D_t is taken to be in uncovered rounds.
        """
        total = np.zeros(bets.stakes.shape)
        uncovered: NDArray[np.int64] = np.zeros(n_uncovered, dtype=np.int64)
        enter_bets(total, bets, inside, rows, weights, uncovered=uncovered, max_reward=max_reward)
        return cls(n_rounds, total)

    def __add__(self, other: PairedEvidence) -> PairedEvidence:
        return PairedEvidence(self.n_rounds + other.n_rounds, self.log_wealth + other.log_wealth)


def enter_bets(
    total: NDArray[np.float64],
    bets: Bets,
    inside: NDArray[np.bool_] | NDArray[np.float64],
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    uncovered: NDArray[np.int64],
    max_reward: float,
) -> None:
    """Add what rounds say to log-wealths (S, J) in place, one round after the other: to the last bit it does not matter
    into which blocks they are cut.

    Parameters
    ----------
    total:
        (S, J) to be added to.
    bets, inside, rows, weights, max_reward:
        As for `PairedEvidence.from_events`.
    uncovered:
        (U,) for each round where the bound does not hold, after how many of the events it comes; ascending.

    >>> import numpy as np
    >>> from comband.statistics.betting import Bets, enter_bets
    >>> bets, inside = Bets.choose(0, np.array([0.0, 0.1]), 4.0), np.array([[True, False]] * 3)
    >>> rows, weights, one = np.arange(3), np.full(3, 2.0), np.array([1])
    >>> whole, parts = np.zeros((2, 3)), np.zeros((2, 3))
    >>> enter_bets(whole, bets, inside, rows, weights, uncovered=one, max_reward=1.0)
    >>> enter_bets(parts, bets, inside[:1], rows[:1], weights[:1], uncovered=one, max_reward=1.0)
    >>> enter_bets(parts, bets, inside[1:], rows[1:], weights[1:], uncovered=one[:0], max_reward=1.0)
    >>> bool((whole == parts).all())
    True
    """
    cost = None
    for k, part in enumerate(between(uncovered, len(rows))):
        if k:
            if cost is None:
                cost = np.log1p(-bets.stakes * max_reward)
                cost[bets.leader] = 0.0
            total += cost
        if part.start == part.stop:
            continue
        if inside.dtype != np.bool_:
            worth = by_round(weights[part, None] * inside[part], rows[part])
            difference = worth - worth[:, bets.leader, None]
            for j, stakes in enumerate(bets.stakes.T):
                bet = stakes * difference
                logs = np.log1p(-bet, out=np.full(bet.shape, -np.inf), where=bet < 1)
                total[:, j] = one_by_one(total[:, j], logs)
        else:
            add_paired_log_wealth(
                np.ascontiguousarray(inside[part]),
                np.asarray(rows[part], dtype=np.int64),
                np.asarray(weights[part], dtype=np.float64),
                bets.leader,
                np.ascontiguousarray(bets.levels),
                bets.grid,
                total,
            )


def best_stakes(mean: NDArray[np.float64], second_moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """The stakes that look best for D of mean −`mean` < 0 and E D² = `second_moment`: λ = mean / E D², about Kelly's.

    Half of log-growth is lost at twice or no stake; exact to second order in λD.
    """
    return mean / np.maximum(second_moment, mean**2)
