"""A world small enough that every quantity of the analysis is known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.policies.policy_set import PolicySet
from comband.worlds.base import Batch

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class FiniteWorld:
    """N equally likely contexts, each with s actions that pay 1, and P policies given as a table.

    relevant (N, s): the paying actions; lists (P, N, m).
    """

    problem: Problem
    relevant: NDArray[np.int64]
    lists: NDArray[np.int64]

    @property
    def policies(self) -> PolicySet:
        """The class Π."""
        return PolicySet.from_lists(self.lists, self.problem)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """n rounds."""
        who = rng.integers(len(self.relevant), size=n)
        s = self.relevant.shape[1]
        rewards = sp.csr_array(
            (np.ones(n * s), self.relevant[who].ravel(), s * np.arange(n + 1)), shape=(n, self.problem.n_actions)
        )
        return Batch(who, rewards, self.problem)

    def values(self, policies: PolicySet) -> Floats:
        """Exact values (P,)."""
        n, s = self.relevant.shape
        rows = np.repeat(np.arange(n), s)
        inside = policies.contains(np.arange(n), rows, self.relevant.ravel().astype(np.int32))
        return np.asarray(inside.sum(axis=0) / n, dtype=np.float64)

    def population(self) -> Events:
        """Every context once with all its rewards: the potential of these events is the population's F itself."""
        n, s = self.relevant.shape
        return Events(
            n_rounds=n,
            ids=np.arange(n),
            epochs=np.zeros(n, dtype=np.int64),
            contexts=np.arange(n),
            rows=np.repeat(np.arange(n), s),
            actions=self.relevant.ravel().astype(np.int32),
            rewards=np.ones(n * s),
            propensities=np.ones(n * s),
        )

    def incidence(self) -> Floats:
        """1[y ∈ π(x)] for the paying actions y of every context, (N, s, P)."""
        table = np.moveaxis(self.lists, 0, 1)
        return np.asarray((table[:, None, :, :] == self.relevant[:, :, None, None]).any(axis=3), dtype=np.float64)


def random_world(problem: Problem, n_contexts: int, n_policies: int, rng: np.random.Generator) -> FiniteWorld:
    """Policies of very different quality: policy j lists each paying action with a probability of its own."""
    K, m = problem.n_actions, problem.list_size
    s = int(problem.sparsity or 1)
    relevant = np.argsort(rng.random((n_contexts, K)), axis=1)[:, :s]
    skill = rng.beta(0.5, 1.5, size=n_policies)
    keys = rng.random((n_policies, n_contexts, K))
    known = rng.random((n_policies, n_contexts, s)) < skill[:, None, None]
    place = np.broadcast_to(relevant, known.shape)
    current = np.take_along_axis(keys, place, axis=2)
    np.put_along_axis(keys, place, np.where(known, current - 1, current + 1), axis=2)
    return FiniteWorld(problem, relevant, np.argpartition(keys, m - 1, axis=2)[:, :, :m])


def graded_world(problem: Problem, n_contexts: int, shares: Floats, rng: np.random.Generator) -> FiniteWorld:
    """Policy j lists the paying actions of exactly a share shares[j] of the contexts, and none of the others'."""
    K, m = problem.n_actions, problem.list_size
    s = int(problem.sparsity or 1)
    relevant = np.argsort(rng.random((n_contexts, K)), axis=1)[:, :s]
    right = rng.random((len(shares), n_contexts)).argsort(axis=1).argsort(axis=1) < shares[:, None] * n_contexts
    keys = rng.random((len(shares), n_contexts, K))
    place = np.broadcast_to(relevant, (len(shares), n_contexts, s))
    np.put_along_axis(keys, place, np.where(right, -1.0, 2.0)[:, :, None] + rng.random(place.shape) / 2, axis=2)
    return FiniteWorld(problem, relevant, np.argpartition(keys, m - 1, axis=2)[:, :, :m])


def potential(inside: Floats, p: Floats, problem: Problem, floor: float) -> float:
    """F(p) = −E Σ_y r(y) log Q^γ_p(x, y)."""
    return float(-np.log(_propensities(inside, p, problem, floor)).sum(axis=1).mean())


def gradient_norm(inside: Floats, p: Floats, problem: Problem, floor: float) -> float:
    """‖∇F(p)‖∞ = (1−γ)·max_π E Σ_{y∈π(x)} r(y)/Q^γ."""
    Q = _propensities(inside, p, problem, floor)
    return float((1 - floor) * np.einsum("nsp,ns->p", inside, 1 / Q).max() / len(inside))


def variances(inside: Floats, p: Floats, problem: Problem, floor: float) -> Floats:
    """Var R(π) exactly, (P,): with the probability that two actions are shown together."""
    K, m = problem.n_actions, problem.list_size
    Q = _propensities(inside, p, problem, floor)
    s = Q.shape[1]
    together = (1 - floor) * np.einsum("nsp,ntp,p->nst", inside, inside, p, optimize=True)
    together += floor * (m * (m - 1) / (K * (K - 1)) if K > 1 else 1.0)
    together[:, np.arange(s), np.arange(s)] = Q
    scaled = together / (Q[:, :, None] * Q[:, None, :])
    second = np.einsum("nsp,ntp,nst->p", inside, inside, scaled, optimize=True) / len(inside)
    return np.asarray(second - inside.sum(axis=1).mean(axis=0) ** 2)


def _propensities(inside: Floats, p: Floats, problem: Problem, floor: float) -> Floats:
    return np.asarray((1 - floor) * (inside @ p) + floor * problem.uniform_propensity)
