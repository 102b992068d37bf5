"""Bandits with expert advice over candidates: EXP4 on whole lists, and VCEE, written from their papers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import comband as cb

Lists = NDArray[np.int32]
Array = NDArray[np.float64]


class Exp4Lists:
    """EXP4 (Auer et al.) with whole lists as actions: a reward is credited to candidates with the very same list.

    Weights p ∝ exp(ηG) are mixed with the uniform law over candidates, γ = min(1, √(P ln P / ((e−1) T))), η = γ/P.
    """

    def __init__(self, n_policies: int, horizon: int, rng: np.random.Generator) -> None:
        P = n_policies
        self.rng, self.gains = rng, np.zeros(P)
        self.floor = min(1.0, math.sqrt(P * math.log(P) / ((math.e - 1) * horizon)))
        self.step = self.floor / P
        self._chances = np.full(P, 1 / P)

    def compose(self, lists: Lists) -> Lists:
        """The list of a candidate for each of n contexts, of (n, P, m)."""
        weights = np.exp(self.step * (self.gains - self.gains.max()))
        self._chances = (1 - self.floor) * weights / weights.sum() + self.floor / len(weights)
        drawn = self.rng.choice(len(weights), size=len(lists), p=self._chances)
        return np.asarray(lists[np.arange(len(lists)), drawn])

    def credit(self, lists: Lists, shown: Lists, clicks: Array) -> None:
        """The total of a list, over the probability of that list."""
        totals = clicks.sum(axis=1)
        rows = np.flatnonzero(totals)
        same = (np.sort(lists[rows], axis=2) == np.sort(shown[rows], axis=1)[:, None]).all(axis=2)
        self.gains += (totals[rows, None] * same / np.maximum(same @ self._chances, 1e-12)[:, None]).sum(axis=0)

    def scores(self) -> Array:
        """Estimated gains."""
        return self.gains


class Vcee:
    """VCEE (Krishnamurthy, Agarwal and Dudík 2016): the lightest mixture of candidates whose variances are bounded.

    At rounds 100, 200, 400, … it finds weights Q with Σ Q(π) b(π) ≤ 2K and, for every candidate, mean Σ_y 1/Q^μ(y) ≤
    2K + b(π), b = regret/(ψμ), by the paper's coordinate descent, on the 500 last contexts. μ = min(1/(2K),
    c √(ln(16t²P/δ)/(tm))); lists come from Q with probability 1 − Kμ, else they are uniform. The proof has c = 1/√K,
    with which half of all lists are uniform for thousands of rounds, and b = regret/(ψμm) with ψ = 100; c = 0.01 and
    ψ = 1 (which takes up the m) were chosen on other seeds among 0.003 … 0.1 and 0.1 … 10.
    """

    psi, scale = 1.0, 0.01

    def __init__(self, problem: cb.Problem, policies: cb.PolicySet, delta: float, seed: int) -> None:
        self.problem, self.policies, self.delta = problem, policies, delta
        self.rng, self.rounds, self.next = np.random.default_rng([seed, 4]), 0, 100
        self.gains = np.zeros(len(policies))
        self._recent: list[Lists] = []
        self._mixture = cb.Mixture(policies, np.full(len(policies), 1 / len(policies)), problem=problem, floor=1.0)

    def ask(self, rows: NDArray[np.int64]) -> cb.Decisions:
        """From the current weights."""
        return self._mixture.draw(rows, self.rng, first_id=self.rounds)

    def tell(self, decisions: cb.Decisions, clicks: Array) -> None:
        """Importance-weighted gains of everybody; new weights when it is time."""
        lists = self.policies.predict(decisions.contexts)
        for row, place in zip(*np.nonzero(clicks), strict=True):
            listed = (lists[row] == decisions.lists[row, place]).any(axis=1)
            self.gains += listed * clicks[row, place] / decisions.propensities[row, place]
        self.rounds += len(decisions)
        self._recent = [*self._recent, *lists][-500:]
        if self.rounds >= self.next:
            self.next = 2 * self.next
            self._renew()

    def _renew(self) -> None:
        K, m, P = self.problem.n_actions, self.problem.list_size, len(self.policies)
        wide = self.scale * math.sqrt(math.log(16 * self.rounds**2 * P / self.delta) / (self.rounds * m))
        mu = min(1 / (2 * K), wide)
        regrets = (self.gains.max() - self.gains) / self.rounds
        b = regrets / (self.psi * mu)
        weights = coordinate_descent(np.array(self._recent), b, K, K * mu)
        weights[int(self.gains.argmax())] += 1 - weights.sum()
        self._mixture = cb.Mixture(self.policies, weights / weights.sum(), problem=self.problem, floor=K * mu)

    def scores(self) -> Array:
        """Estimated gains."""
        return self.gains


def coordinate_descent(lists: Lists, b: Array, n_actions: int, floor: float, steps: int = 300) -> Array:
    """Weights Q (they sum to at most 1) that meet both constraints of VCEE on contexts with these lists (n, P, m)."""
    n, P, m = lists.shape
    K, weights, rows = n_actions, np.zeros(P), np.arange(n)[:, None, None]
    for _ in range(steps):
        if weights @ (2 * K + b) > 2 * K:
            weights *= 2 * K / (weights @ (2 * K + b))
        q = np.zeros((n, K))
        np.add.at(q, (np.broadcast_to(rows, lists.shape), lists), np.broadcast_to(weights[:, None], (P, m)))
        inverse = 1 / ((1 - floor) * q + floor * m / K)
        listed = inverse[rows, lists]
        variance = listed.sum(axis=2).mean(axis=0)
        over = variance - 2 * K - b
        worst = int(over.argmax())
        if over[worst] <= 0:
            break
        curvature = float((listed[:, worst] ** 2).sum(axis=1).mean())
        weights[worst] += (variance[worst] + over[worst]) / (2 * (1 - floor) * curvature)
    return np.asarray(weights / max(weights.sum(), 1.0))
