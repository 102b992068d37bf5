"""Worlds in which exploring is hard in different ways, with all values known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband.page.problem import InputError, Problem
from comband.policies.policy_set import PolicySet
from comband.worlds.base import Batch

Floats = NDArray[np.float64]
KINDS = ("agreement", "needle", "specialists")
N_BLOCKS = 20


@dataclass(frozen=True, eq=False, slots=True)
class RateWorld:
    """N equally likely contexts. All s actions of `relevant` (N, s) pay 1 at the rate of their context, together,
    and nothing otherwise. lists (P, N, m) are the policies', the best of them the last one.
    """

    problem: Problem
    relevant: NDArray[np.int64]
    lists: NDArray[np.int64]
    pay_rates: Floats

    @property
    def policies(self) -> PolicySet:
        """The class Π."""
        return PolicySet.from_lists(self.lists, self.problem)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        """n rounds."""
        who = rng.integers(len(self.relevant), size=n)
        paid = np.flatnonzero(rng.random(n) < self.pay_rates[who])
        s = self.relevant.shape[1]
        ends = s * np.searchsorted(paid, np.arange(n + 1))
        columns = self.relevant[who[paid]].ravel()
        rewards = sp.csr_array((np.ones(len(columns)), columns, ends), shape=(n, self.problem.n_actions))
        return Batch(who, rewards, self.problem)

    def exact_values(self) -> Floats:
        """(P,), of its own policies."""
        found = (self.lists[:, :, None, :] == self.relevant[None, :, :, None]).any(axis=3).sum(axis=2)
        return np.asarray(found @ self.pay_rates / len(self.pay_rates), dtype=np.float64)

    def values(self, policies: PolicySet) -> Floats:
        """Exact values (P,) of any policies."""
        n, s = self.relevant.shape
        rows = np.repeat(np.arange(n), s)
        inside = policies.contains(np.arange(n), rows, self.relevant.ravel().astype(np.int32))
        return np.asarray(np.repeat(self.pay_rates, s) @ inside / n, dtype=np.float64)


def rate_world(
    kind: str, problem: Problem, n_policies: int, epsilon: float, rng: np.random.Generator, n_contexts: int = 1500
) -> RateWorld:
    """A world in which the last policy is the best, and many others are worse by a little more than ε.

    "agreement": policy j is right on a share of the contexts of its own; four rivals and the best share are 1.2ε apart.
    "needle": all show the same lists, but for 1.2ε of the contexts, where the best alone is right.
    "specialists": contexts and policies come in 20 blocks, and each policy is right in its own; so is the best, and on
    1.4ε of all contexts besides.
    """
    s, K, m, P, N = int(problem.sparsity or 1), problem.n_actions, problem.list_size, n_policies, n_contexts
    relevant = np.argsort(rng.random((N, K)), axis=1)[:, :s]
    pay_rates = np.ones(N)
    rare = max(1, round(1.2 * epsilon / s * N))
    if kind == "agreement":
        top = 0.6 - 1.2 * epsilon / s
        shares = np.r_[np.linspace(top, 0.2, P - 5), np.full(4, top), 0.6]
        right = rng.random((P, N, s)) < shares[:, None, None]
    elif kind == "needle":
        right = np.ones((P, N, s), dtype=bool)
        right[:-1, :rare] = False
        pay_rates[rare:] = 0.5
    elif kind == "specialists":
        own = rng.integers(N_BLOCKS, size=N)[None, :] == (np.arange(P) % N_BLOCKS)[:, None]
        own[-1] |= rng.random(N) < 1.4 * epsilon / s
        right = np.repeat(own[:, :, None], s, axis=2)
    else:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    lists = np.empty((P, N, m), dtype=np.int64)
    for x in range(N):  # one context at a time: (P, N, K) keys would not fit
        keys = rng.random((P, K))
        keys[:, relevant[x]] = np.where(right[:, x], -1.0, 2.0)
        lists[:, x] = np.argpartition(keys, m - 1, axis=1)[:, :m]
    if kind == "needle":
        lists[:, rare:] = lists[:1, rare:]
    return RateWorld(problem, relevant, lists, pay_rates)
