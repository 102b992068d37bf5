"""Small worlds in which every list can be gone through, for what is learnt from totals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.policies.midzuno import MidzunoLists
from tests.strategies import all_lists, random_policies, random_weights


@dataclass(frozen=True)
class TotalWorld:
    """Equally likely contexts 0 … n−1, one reward vector (n, K) each; all lists (L, m) and their totals (n, L)."""

    problem: cb.Problem
    policies: cb.PolicySet
    rewards: NDArray[np.float64]
    mixture: cb.Mixture

    @property
    def lists(self) -> NDArray[np.int32]:
        return np.array(all_lists(self.problem), dtype=np.int32)

    @property
    def totals(self) -> NDArray[np.float64]:
        return np.asarray(self.rewards[:, self.lists].sum(axis=2))

    @property
    def values(self) -> NDArray[np.float64]:
        """V (P,)."""
        shown = self.policies.predict(np.arange(len(self.rewards)))
        return np.asarray(np.take_along_axis(self.rewards[:, None], shown, axis=2).sum(axis=2).mean(axis=0))

    @property
    def overlaps(self) -> NDArray[np.float64]:
        """|π(x) ∩ a| (n, P, L), one by one."""
        shown = self.policies.predict(np.arange(len(self.rewards)))
        return np.array(
            [[[len(set(mine) & set(a)) for a in self.lists.tolist()] for mine in row.tolist()] for row in shown],
            dtype=np.float64,
        )

    def shares(self, mixture: cb.Mixture | None = None) -> NDArray[np.float64]:
        """q (n, L) of every list, as `MidzunoLists` says."""
        lists, drawn = self.lists, MidzunoLists(self.mixture if mixture is None else mixture)
        return np.array([drawn.shares(np.full(len(lists), x), lists) for x in range(len(self.rewards))])


def total_world(seed: int, *, most_actions: int = 8, n_contexts: int = 3, n_policies: int = 5) -> TotalWorld:
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, most_actions + 1))
    m = int(rng.integers(1, min(K, 5)))
    s = int(rng.integers(1, K + 1))
    problem = cb.Problem(K, m, s, "total")
    policies = random_policies(n_policies, n_contexts, problem, rng)
    rewards = np.zeros((n_contexts, K))
    for row in rewards:
        row[rng.choice(K, s, replace=False)] = rng.random(s) * (rng.random(s) < 0.9)
    floor = float(rng.choice([0.1, 0.5, 0.9, 1.0]))
    mixture = cb.Mixture(policies, random_weights(n_policies, rng), problem=problem, floor=floor)
    return TotalWorld(problem, policies, rewards, mixture)
