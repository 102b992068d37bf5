"""Guardrails: evidence, valid at any time, that a candidate is worse than production by a metric, or that it is not.

Let X_j(π) = Σ_{y∈π(x)∩a} r_j(y)/Q(x, y) be what metric j says of π in a round, V_j its mean, and p production. With σ =
1 for a benefit and −1 for a cost let

    G_j(π) = σ·(X_j(π) − s·X_j(p)),    h_j(π) = E G_j(π),

s = 1 for an absolute margin m_j; for a relative one r, s = 1 − σr and m_j = 0. π is *safe* if h_j(π) ≥ −m_j for every
j; production always is. Let π* be a best safe candidate by the reward.

**What is promised**, together with probability 1 − δ, δ = δ₁ + δ₂, at all times: (M) "no safe candidate exceeds ℓ by
more than ε" is never claimed wrongly, and (S) nothing that is not safe is declared safe. A winner needs both.

*Harm.* For stakes λ fixed before the round, H_j(π) = Π_t (1 − λG_j)/(1 + λm_j) is a supermartingale of a safe π, for
its factors have means (1 − λh_j)/(1 + λm_j) ≤ 1.

*M.* Evidence against "π exceeds ℓ" that comes from epochs led by an *unsafe* leader is true and misleading: such a
leader may be better than π*. So C(π) counts epochs led by ℓ itself or by leaders that are certified safe in full, and
those of any other leader as the product of their bets or 1, whichever is smaller, for each stake. Let M be the product
of the bets on π* at true gaps over the epochs whose leader is no better than π*: a martingale from 1. Leaders that are
certified safe are no better than π*, where (S) holds; if the claim about ℓ is wrong, ℓ is no better; any other leader
adds at most 1 or at most what it adds to M. So C(π*) ≤ M. A rival is excluded where

    w_0·C(π) + Σ_j w_j·H_j(π) ≥ 1/δ₁,    Σ w = 1:

of π* that happens ever with probability δ₁ at most, by Ville's inequality for the one policy π*, when the claim is
wrong. There is no union over candidates, and metrics cost their weights only. Who is excluded depends on who leads:
when another leads, it is found out anew.

*S.* The leader is chosen by the data, so an account follows the lead in place of a union over candidates. Of a reserve
of 1 the i-th leader to be gets 1/(i(i + 1)) into each of its accounts A_j(ℓ), one for each metric, which bet
(1 + λG_j)/(1 − λm_j) in its epochs. When another takes the lead, y = min(min_j A_j, deposit) moves along: out of all
accounts of the former into all of the new one, and out of its deposit into that of the new one. For every unsafe π fix
a metric j(π) by which it is not safe. Then

    Z = Σ_{π unsafe} A_{j(π)}(π) + Σ_{π safe} deposit(π) + the reserve

begins at 1; bets keep it a supermartingale, and what moves along never raises it. Beside that, U_j(π) bets in the same
way on every candidate from the first round on, and Σ_{π unsafe} U_{j(π)}(π)/(P − 1) begins at 1 at most. So declaring π
safe where ½U_j(π)/(P − 1) + ½A_j(π) ≥ 1/δ₂ for *all* j declares anything unsafe so ever with probability δ₂ at most.

**Bounds.** 1 − λG needs G ≤ c, 1 + λG needs G ≥ −c. Of a round's values, which sum to ρ_j at most, an item in one of
the two lists alone adds at most its value over the floor of such items, one in both |1 − s| times its value over that
of all items of production's list. Where a context does not keep the floors (`uncovered`), G is what it can be at worst,
ρ_j for the candidate or −sρ_j for production, given that context.

Splits: δ₁ = .7δ, w_0 = .7, the rest of w in equal parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband._kernels.betting import add_shared_log_wealth
from comband.page.metrics import Metric
from comband.page.problem import Problem
from comband.statistics.betting import OFFSETS, Bets
from comband.statistics.grids import between, by_round, one_by_one

MAIN_SHARE = 0.7  # δ₁/δ; the rest is for declaring safe
REWARD_WEIGHT = 0.7  # w_0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Floors:
    """The smallest propensities of an epoch, in covered rounds: of items that only the leader's list lacks (`rivals`),
    of any item that some candidates show and others do not (`disputed`), of such items of production's list
    (`production`) and of all items of that list (`shared`).
    """

    rivals: float
    disputed: float
    production: float
    shared: float

    @classmethod
    def of(cls, explorer: Any, *, leads: bool, production: int, own_lists: bool) -> Floors:
        """Those of an explorer; `leads` says whether production does, `production` is its position among the
        candidates, and `own_lists` whether its list is shown whole, where that is a part of how lists are drawn. In
        natural order floors are those of all parts together: there it adds nothing.
        """
        of_leader = float(getattr(explorer, "smallest_of_leader", explorer.smallest))
        disputed = min(float(explorer.smallest_disputed), of_leader)
        own = getattr(explorer, "own", None)
        beside = own_lists and not getattr(explorer, "natural_order", False)
        shown = float(own[production]) if beside and own is not None else 0.0
        return cls(
            rivals=float(explorer.smallest_disputed) + (0.0 if leads else shown),
            disputed=disputed,
            production=(of_leader if leads else disputed) + shown,
            shared=float(explorer.smallest) + shown,
        )


@dataclass(frozen=True, slots=True)
class Rail:
    """A metric as bets take it: values in units of its largest.

    sign: σ. share: s. margin: m_j. most: ρ_j.

    >>> rail = Rail.of(Metric(name="purchases", margin=0.1, relative=True), Problem(9, 3, sparsity=1))
    >>> rail.sign, rail.share, rail.margin, rail.most
    (1.0, 0.9, 0.0, 1.0)
    """

    sign: float
    share: float
    margin: float
    most: float
    unit: float

    @classmethod
    def of(cls, metric: Metric, problem: Problem) -> Rail:
        """Of a metric, in the setting in which rewards count."""
        return cls.within(metric, metric.problem(problem).max_reward)

    @classmethod
    def within(cls, metric: Metric, most: float) -> Rail:
        """Of a metric of which a round has at most so much."""
        sign = 1.0 if metric.direction == "benefit" else -1.0
        if metric.relative:
            return cls(sign, 1.0 - sign * metric.margin, 0.0, most, min(1.0, most))
        return cls(sign, 1.0, metric.margin / metric.largest, most, min(1.0, most))

    def bound(self, floors: Floors, *, safety: bool, leader: bool = False) -> float:
        """c of the bets on harm, or on safety: of all candidates, or of the leader alone. For safety no less than the
        margin, which is what a round without values brings.
        """
        if (self.sign > 0) != safety:  # 1 − λ(X − sX_p): the candidate's gains count
            c = self.most * max(1 / floors.disputed, max(1 - self.share, 0.0) / floors.shared)
        else:
            own = max(floors.rivals, floors.production) if leader else floors.production
            c = self.most * max(self.share / own, max(self.share - 1, 0.0) / floors.shared)
        return max(c, self.margin) if safety else c

    def enter(
        self,
        total: Floats,
        bets: Bets,
        inside: NDArray[np.bool_] | Floats,
        rows: NDArray[np.int64],
        weights: Floats,
        *,
        uncovered: NDArray[np.int64],
        safety: bool,
    ) -> None:
        """Add Σ log(1 ∓ λG) to log-wealths (S, J) in place, one round after the other; `bets.leader` is production, and
        the other arguments are as for `enter_bets`.
        """
        sign = -self.sign if safety else self.sign
        worst = self.most if sign > 0 else self.share * self.most
        cost = None
        for k, part in enumerate(between(uncovered, len(rows))):
            if k:
                if cost is None:
                    cost = np.log1p(-bets.stakes * worst)
                    cost[bets.leader] = 0.0
                total += cost
            if part.start < part.stop and inside.dtype != np.bool_:
                worth = by_round(weights[part, None] * inside[part], rows[part])
                difference = worth - self.share * worth[:, bets.leader, None]
                difference[:, bets.leader] = 0.0
                for j, stakes in enumerate(bets.stakes.T):
                    total[:, j] = one_by_one(total[:, j], np.log1p(-sign * stakes * difference))
            elif part.start < part.stop:
                add_shared_log_wealth(
                    np.ascontiguousarray(inside[part]),
                    np.asarray(rows[part], dtype=np.int64),
                    np.asarray(weights[part], dtype=np.float64),
                    bets.leader,
                    self.share,
                    sign,
                    np.ascontiguousarray(bets.levels),
                    bets.grid,
                    total,
                )

    def credit(self, stakes: Floats, *, safety: bool) -> Floats:
        """What each round adds beside its values: −log(1 − λm), or −log(1 + λm) for harm."""
        return np.asarray(-np.log1p(-stakes * self.margin) if safety else -np.log1p(stakes * self.margin))


@dataclass(frozen=True, eq=False, slots=True)
class RailBets:
    """What an epoch stakes on one metric: on each candidate's harm and safety, and on the leader's safety out of its
    account (`purse`); in all of them `leader` is production's position.
    """

    harm: Bets
    safe: Bets
    purse: Bets

    @classmethod
    def choose(
        cls, rail: Rail, floors: Floors, production: int, leader: int, harm: Floats, safe: Floats, own: float
    ) -> RailBets:
        """Around the stakes that are wanted (S,), and of the leader alone."""
        alone = np.zeros(len(safe))
        alone[leader] = own
        wanted = [(harm, False, False), (safe, True, False), (alone, True, True)]
        bets = []
        for stakes, safety, of_leader in wanted:
            stakes = stakes.copy()
            stakes[production] = 0.0
            bound = rail.bound(floors, safety=safety, leader=of_leader)
            bets.append(Bets.choose(production, stakes, bound, unit=rail.unit))
        return cls(*bets)

    @classmethod
    def of_levels(cls, rail: Rail, floors: Floors, production: int, levels: NDArray[np.int64]) -> RailBets:
        """The inverse of `levels`; refuses stakes that may lose everything."""
        kinds = [(False, False), (True, False), (True, True)]
        bounds = [rail.bound(floors, safety=safety, leader=of_leader) for safety, of_leader in kinds]
        return cls(*(Bets(production, one, c, rail.unit) for one, c in zip(levels, bounds, strict=True)))

    @property
    def levels(self) -> NDArray[np.int64]:
        """(3, S, J) of all of them."""
        return np.stack([self.harm.levels, self.safe.levels, self.purse.levels])


N_BETS = len(OFFSETS)
