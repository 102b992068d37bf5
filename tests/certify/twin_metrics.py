"""The twin with further metrics: harm, safety, accounts that follow the lead, lifts; all of it in plain amounts.

G_j = σ_j·(X_j(π) − s_j·X_j(p)); where the floor was not kept, what it can be at worst;
H_j(π) = mean over stakes of Π (1 − λG_j)/(1 + λm_j), U_j(π) of Π (1 + λG_j)/(1 − λm_j);
A_j(ℓ): in rounds of its own epochs the same, of what was paid in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from tests.certify.twin import Asked, Facts, Floats, Twin, log_mean_exp, read_epochs


@dataclass(frozen=True)
class Staked:
    """What an epoch states beforehand of one metric; (P, 3), 0 for those that are no candidates."""

    harm: Floats
    safe: Floats
    purse: Floats


def read_rails(learner: cb.certify.CertifyingLearner, P: int) -> list[list[Staked]]:
    """Of each epoch: of the lift, and of each metric."""
    found = []
    for epoch in learner.epochs:
        rows = []
        for rail in epoch.rails:
            padded = np.zeros((3, P, 3))
            padded[:, epoch.candidates] = [rail.harm.stakes, rail.safe.stakes, rail.purse.stakes]
            rows.append(Staked(*padded))
        found.append(rows)
    return found


class GuardedTwin(Twin):
    """Follows a learner with metrics. Answers are (1 + J, m): rewards, then values in units of the largest."""

    def __init__(self, learner: cb.certify.CertifyingLearner, lists: NDArray[np.int64]) -> None:
        spec, P = learner.spec, len(lists)
        self.metrics = spec.metrics
        J = len(self.metrics)
        self.production: Any = learner.policies.names.index(str(spec.production))
        self.rails: list[list[Staked]] = []
        self.claimed = -1
        self.H, self.U = np.zeros((J, P, 3)), np.zeros((J, P, 3))
        self.A: dict[int, Floats] = {}  # (J, 3) amounts
        self.deposit: dict[int, float] = {}
        self.order: list[int] = []
        self.trusted = {self.production}
        self.rises, self.falls = np.zeros((P, 3)), np.zeros((P, 3))
        self.returned = self.moved = 0
        super().__init__(learner, lists)

    # ---- whose epochs count ------------------------------------------------------------------------------------------

    def counting_for(self, leader: int) -> Floats:
        total = np.zeros((self.P, 3))
        for one, part in self.by_leader.items():
            total += part if one == leader or one in self.trusted else np.minimum(part, 0.0)
        return total

    def thresholds(self) -> Floats:
        return np.full(self.P, np.log(1 / (0.7 * self.delta)))

    def evidence(self, leader: int, mu: float) -> Floats:
        total = self.counting_for(leader)
        for epoch, n in self.that_count():
            if epoch.leader == leader:
                total -= n * np.log(1 - epoch.stakes * mu)
        weight = 0.3 / len(self.metrics)
        parts = [np.log(0.7) + log_mean_exp(total), *(np.log(weight) + log_mean_exp(H) for H in self.H)]
        return np.asarray(np.logaddexp.reduce(parts, axis=0))

    def harm(self) -> Floats:
        """(P,) what alone speaks against being safe."""
        return np.asarray(
            np.logaddexp.reduce([np.log(0.3 / len(self.metrics)) + log_mean_exp(H) for H in self.H], axis=0)
        )

    def safety(self, i: int) -> Floats:
        """(J,) amounts."""
        amounts = self.A.get(i, np.zeros((len(self.metrics), 3))).sum(axis=1)
        return np.asarray(0.5 * np.exp(log_mean_exp(self.U[:, i])) / (self.n_first - 1) + 0.5 * amounts)

    def is_safe(self, i: int) -> bool:
        return i in self.trusted or bool((self.safety(i) >= 1 / (0.3 * self.delta)).all())

    # ---- verdicts ----------------------------------------------------------------------------------------------------

    def look(self, learner: cb.certify.CertifyingLearner, *, ended: bool = True) -> None:
        facts = [self.padded(one) for one in read_epochs(learner)]
        for new in facts[len(self.epochs) :]:
            if self.epochs:
                self.kept = self.claim()
            if new.leader != self.claimed:
                self.claimed = new.leader
                out = self.evidence(new.leader, 0.0) >= self.thresholds()
                left = [one for one in self.dropped if out[one[0]]]
                self.returned += len(self.dropped) - len(left)
                self.dropped, self.alive = left, self.present.copy()
                self.alive[[one[0] for one in left]] = False
                self.drop(new.leader)
            assert new.candidates == tuple(np.flatnonzero(self.alive))
            self.epochs.append(new)
            self.sizes.append(int(self.present.sum()))
            self.n_rounds.append(0)
        self.rails = read_rails(learner, self.P)

    def judge(self) -> None:
        self.trusted |= {i for i in self.order if self.is_safe(i)}
        super().judge()

    def drop(self, leader: int | None = None) -> None:
        leader = self.epochs[-1].leader if leader is None else leader
        against, threshold = self.evidence(leader, 0.0), self.thresholds()
        for i in self.rivals(leader):
            if i != self.production and against[i] >= threshold[i]:
                self.alive[i] = False
                self.dropped.append((int(i), self.front, leader, float(against[i])))

    def certify(self) -> None:
        before = self.certified
        if self.is_safe(self.epochs[-1].leader):
            super().certify()
        if self.certified != before:
            self.trusted |= {i for i in self.order if self.is_safe(i)}

    # ---- rounds ------------------------------------------------------------------------------------------------------

    def enter(self, asked: Asked, rewards: Floats | None) -> None:
        k, epoch = asked.epoch, self.epochs[asked.epoch]
        if self.n_rounds[k] == 0:
            self.take_lead(epoch.leader)
        self.enter_rewards(asked, None if rewards is None else rewards[0])
        of = list(epoch.candidates)
        for j, metric in enumerate(self.metrics):
            values = None if rewards is None else rewards[1 + j]
            sign = 1.0 if metric.direction == "benefit" else -1.0
            share = 1 - sign * metric.margin if metric.relative else 1.0
            m = 0.0 if metric.relative else metric.margin / metric.largest
            most = self.rho if metric.per_round is None else metric.per_round / metric.largest
            low, high = self.differences(asked, values, epoch, share, most)
            G = (low, high) if sign > 0 else (-high, -low)  # for safety, and for harm: the worst of both
            staked = self.rails[k][1 + j]
            for one in (staked.harm, staked.safe, staked.purse):
                assert not one[self.production].any()
            self.bet(self.H[j], -staked.harm, G[1], -m, of)
            self.bet(self.U[j], staked.safe, G[0], m, of)
            if epoch.leader != self.production:
                purse = staked.purse[epoch.leader]
                self.A[epoch.leader][j] *= (1 + purse * G[0][epoch.leader]) / (1 - purse * m)
        low, high = self.differences(asked, None if rewards is None else rewards[0], epoch, 1.0, self.rho)
        self.bet(self.rises, self.rails[k][0].safe, low, 0.0, of)
        self.bet(self.falls, -self.rails[k][0].harm, high, 0.0, of)

    def enter_rewards(self, asked: Asked, rewards: Floats | None) -> None:
        """As without metrics."""
        super().enter(asked, rewards)

    def bet(self, total: Floats, stakes: Floats, G: Floats, m: float, of: list[int]) -> None:
        """Π (1 + λG)/(1 − |λ|m), in logarithms; no more than 0.9 of anything is ever lost."""
        won = 1 + stakes[of] * G[of, None]
        won[[of.index(self.production)]] = 1.0
        assert won.min() >= 0.1 - 1e-9
        total[of] += np.log(won) - np.log(1 - np.abs(stakes[of]) * m)

    def differences(
        self, asked: Asked, values: Floats | None, epoch: Facts, share: float, most: float
    ) -> tuple[Floats, Floats]:
        """X(π) − s·X(p), (P,) twice: the smallest and the largest that it can be where the floor was not kept."""
        if not asked.covered:
            return np.full(self.P, -share * most), np.full(self.P, most)
        X = np.zeros(self.P) if values is None else self.worth(asked, values, epoch)
        return X - share * X[self.production], X - share * X[self.production]

    def take_lead(self, new: int) -> None:
        """Money follows the lead."""
        if new == self.production:
            return
        paid = 0.0
        if new not in self.order:
            self.order.append(new)
            i = len(self.order)
            paid = 1 / (i * (i + 1))
        for old in self.order:
            if old != new and self.deposit.get(old, 0.0) > 0:
                y = min(float(self.A[old].sum(axis=1).min()), self.deposit[old])
                if y == 0:
                    continue
                self.A[old] *= 1 - y / self.A[old].sum(axis=1, keepdims=True)
                self.deposit[old] -= y
                paid += y
                self.moved += y > 0
        self.A[new] = self.A.get(new, np.zeros((len(self.metrics), 3))) + paid / 3
        self.deposit[new] = self.deposit.get(new, 0.0) + paid

    # ---- lifts -------------------------------------------------------------------------------------------------------

    def lift_wealths(self, i: int, v: float) -> tuple[float, float]:
        """Log-wealths of the bets that the lift is above v, and below."""
        rises, falls = self.rises[i].copy(), self.falls[i].copy()
        for rails, n in zip(self.rails, self.n_rounds, strict=True):
            rises -= n * np.log(1 + rails[0].safe[i] * v)
            falls -= n * np.log(1 - rails[0].harm[i] * v)
        return float(log_mean_exp(rises)), float(log_mean_exp(falls))
