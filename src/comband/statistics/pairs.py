"""How much better than the leader could each rival be? Paired bounds from two sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband.page.rounds import Events
from comband.policies.policy_set import PolicySet
from comband.statistics.grids import stake_grid
from comband.statistics.importance import round_values

# Shares of the largest admissible bet, down to 0.005; their number enters the bound through its logarithm.
BETS: NDArray[np.float64] = stake_grid(12, largest=0.95, per_octave=11 / math.log2(190))


@dataclass(frozen=True, eq=False, slots=True)
class PairSums:
    """Sums over rounds of D_t(π) = X_t(π) − X_t(leader) and of its square; `a + b` has seen both.

    X_t(π) = Σ_{y∈π(x_t)∩a_t} r_t(y)/Q_t(x_t, y). Where two policies agree, D_t is 0 and costs nothing: differences
    are known far better than values.

    Parameters
    ----------
    n_rounds:
        How many rounds were seen.
    sums:
        (P,) Σ D.
    squares:
        (P,) Σ D².

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    >>> rounds = cb.Rounds.from_log(
    ...     np.zeros(4, dtype=int),
    ...     lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
    ...     rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
    ...     propensities=np.full((4, 2), 0.5),
    ...     problem=problem,
    ... )
    >>> from comband.statistics import PairSums
    >>> sums = PairSums.from_events(rounds.events(), policies, leader=1)
    >>> sums.sums.tolist()  # old minus new, summed over rounds
    [-2.0, 0.0]
    >>> sums.bounds(bound=2, delta=0.05).shape
    (2,)
    """

    n_rounds: int
    leader: int
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def zero(cls, n_policies: int, leader: int, *, n_rounds: int = 0) -> PairSums:
        """Nothing seen yet, or only rounds without reward."""
        return cls(n_rounds, leader, np.zeros(n_policies), np.zeros(n_policies))

    def add(self, values: NDArray[np.float64]) -> None:
        """Put in X (rounds, P) of rounds that `n_rounds` counts already."""
        differences = values - values[:, [self.leader]]
        self.sums[:] += differences.sum(axis=0)
        self.squares[:] += np.square(differences).sum(axis=0)

    @classmethod
    def from_events(cls, events: Events, policies: PolicySet, leader: int) -> PairSums:
        """Sums for all policies against the one at `leader`; evaluates them on rewarded contexts only."""
        result = cls.zero(len(policies), leader, n_rounds=events.n_rounds)
        for values in round_values(events, policies):
            result.add(values)
        return result

    def __add__(self, other: PairSums) -> PairSums:
        if self.leader != other.leader:
            raise ValueError(f"pairs to join must have one leader, got {self.leader} and {other.leader}.")
        return PairSums(
            self.n_rounds + other.n_rounds, self.leader, self.sums + other.sums, self.squares + other.squares
        )

    def bounds(self, *, bound: float, delta: float) -> NDArray[np.float64]:
        """Upper bounds (P,) on how much each policy's value exceeds the leader's, at least 0; 0 for the leader.

        With probability 1 − δ the bound of the truly best policy holds, whichever policy leads. So the largest of them
        says how far from optimal the leader can be. Valid at all numbers of rounds at once: see `mean_bound`.
        """
        rivals = len(self.sums) - 1
        gaps = np.zeros(len(self.sums))
        if rivals:
            others = np.arange(len(self.sums)) != self.leader
            gaps[others] = mean_bound(
                self.sums[others], self.squares[others], self.n_rounds, bound=bound, delta=delta, rivals=rivals
            )
        return gaps


def mean_bound(
    sums: ArrayLike, squares: ArrayLike, n_rounds: int, *, bound: float, delta: float, rivals: int = 1
) -> NDArray[np.float64]:
    """The smallest μ ≥ 0 that a bet against "the mean is above μ" refutes at level δ/`rivals`, from two sums.

    For n i.i.d. D_t ≤ b with mean above μ ≥ 0, the wealth Π(1 − λ(D_t − μ)), 0 < λ < 1/b, has expectation at most 1,
    so it ever exceeds 1/δ with probability at most δ (Ville; no λ depends on n or on the data). With a = λb, log(1+x) ≥
    x − h·x² for x ≥ −a, h = −(log(1−a) + a)/a², hence log wealth ≥ λ(nμ − ΣD) − hλ²Σ(D−μ)²: two sums are enough. The
    wealth grows with μ, so the smallest root bounds the mean. J = 12 bets are tried, each at level δ/J.
    """
    S, Q = np.asarray(sums, dtype=np.float64), np.asarray(squares, dtype=np.float64)
    best = np.full(S.shape, np.inf)
    if n_rounds < 1:
        return best
    # All of it per round: squares of any number of rounds are numbers, as is the logarithm of any level.
    S, Q = S / n_rounds, Q / n_rounds
    log_term = (math.log(len(BETS)) + math.log(rivals) - math.log(delta)) / n_rounds
    for a in BETS:
        bet = a / bound
        h = -(np.log1p(-a) + a) / a**2
        quadratic = h * bet**2
        linear = bet + 2 * h * bet**2 * S
        constant = bet * S + h * bet**2 * Q + log_term
        root = linear**2 - 4 * quadratic * constant
        # 2C/(B + √root) instead of (B − √root)/2A: no cancellation.
        with np.errstate(invalid="ignore"):
            found = np.where((root >= 0) & (linear > 0), 2 * constant / (linear + np.sqrt(np.maximum(root, 0))), np.inf)
        best = np.minimum(best, np.where(constant <= 0, 0.0, found))
    return best
