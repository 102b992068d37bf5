"""Small random worlds in which one round of learnt exploration is enumerated: every context, every list."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import Problem
from comband.theory.online import OnlineSchedule, Point, schedule_at

Floats = NDArray[np.float64]


def psi(z: Floats) -> Floats:
    """z − log(1 + z), as it is written."""
    return z - np.log1p(z)


def chi(z: Floats) -> Floats:
    """e^(−z) − 1 + z, as it is written."""
    return np.expm1(-z) + z


class Step:
    """One round: its outcomes with their probabilities, and what it is worth to every policy (outcomes, P)."""

    def __init__(self, rng: np.random.Generator, floor: float | None = None) -> None:
        K = int(rng.integers(2, 7))
        m, P, X = int(rng.integers(1, K)), int(rng.integers(2, 7)), int(rng.integers(1, 4))
        s = min(float(rng.choice([0.5, 1.0, 1.5, 2.0, 3.0])), float(K))
        self.problem = Problem(K, m, sparsity=s)
        all_lists = [list(one) for one in itertools.combinations(range(K), m)]
        chosen = rng.integers(0, len(all_lists), (X, P))
        listed = np.zeros((X, P, K))
        for x, p in itertools.product(range(X), range(P)):
            listed[x, p, all_lists[chosen[x, p]]] = 1
        r = rng.random((X, K)) * (rng.random((X, K)) < 0.6)
        if rng.random() < 0.5:
            r = (r > 0).astype(float)
        r *= np.minimum(1, s / np.maximum(r.sum(axis=1, keepdims=True), 1e-12))
        chances = rng.dirichlet(np.ones(X))
        self.weights = rng.dirichlet(np.full(P, rng.choice([0.05, 0.3, 2.0])))
        self.floor = float(rng.uniform(0.05, 0.95)) if floor is None else floor
        self.values = np.einsum("x,xpk,xk->p", chances, listed, r)
        Q = (1 - self.floor) * np.einsum("p,xpk->xk", self.weights, listed) + self.floor * m / K
        shown = np.zeros((len(all_lists), K))
        for row, one in zip(shown, all_lists, strict=True):
            row[one] = 1
        follow = np.stack([np.bincount(chosen[x], self.weights, len(all_lists)) for x in range(X)])
        drawn = self.floor / len(all_lists) + (1 - self.floor) * follow  # (X, lists)
        self.chances = (chances[:, None] * drawn).ravel()
        self.worth = np.einsum("lk,xk,xpk->xlp", shown, r / Q, listed).reshape(-1, P)

    def random_schedule(self, rng: np.random.Generator, batch_size: int) -> OnlineSchedule:
        """Any parameters for which Φ and k are proved."""
        b = self.problem.max_reward / (self.floor * self.problem.uniform_propensity)
        reach = float(np.exp(rng.uniform(math.log(0.02), math.log(4))))
        bent = float(psi(np.array(reach)))
        rate, alpha = rng.uniform(0.3, 2.0) / bent, max(rng.uniform(0.1, 2.0) / bent, 0.34)
        return schedule_at(
            self.problem,
            Point(self.floor, reach / b, float(rate), float(alpha)),
            n_policies=1,
            epsilon=0.1,
            delta=0.1,
            batch_size=batch_size,
            early_stop=False,
            n_online=1,
            n_uniform=1,
        )

    def mean(self, outcomes: Floats) -> Floats:
        """Over all outcomes of the round."""
        mean: Floats = np.tensordot(self.chances, outcomes, 1)
        return mean


def excesses(step: Step, schedule: OnlineSchedule) -> tuple[float, float, float]:
    """log E of each factor of X₁, X₂ and X₃ (of a batch) minus what the proof bounds it by: none may be positive."""
    z, best = schedule.scale * step.worth, int(np.argmax(step.values))
    reach = schedule.scale * step.problem.max_reward / (step.floor * step.problem.uniform_propensity)
    assert z.max() <= reach * (1 + 1e-12)
    slack = step.mean(chi(z[:, best]))
    gaps = step.values[best] - step.values
    first = np.log(step.mean(np.exp(z - z[:, [best]] - psi(z)))) + schedule.scale * gaps - slack
    second = math.log(step.mean(np.exp(-schedule.alpha * psi(z[:, best])))) + schedule.share * float(slack)
    one = step.mean(np.exp(schedule.rate * psi(z)))  # of each policy; the rounds of a batch are independent
    n = schedule.batch_size
    third = math.log(step.weights @ one**n) - n * schedule.drift
    return float(first.max()), second, third
