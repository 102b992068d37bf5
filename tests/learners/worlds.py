"""Small worlds with exact values for the tests of learners."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from comband import Batch, PolicySet, Problem

Array = NDArray[np.float64]


class TabulatedWorld:
    """Contexts 0 … N−1, drawn with given probabilities, each with its own fixed rewards (N, K)."""

    def __init__(self, problem: Problem, rewards: Array, weights: Array | None = None) -> None:
        self.problem = problem
        self.rewards = rewards
        self.weights = np.full(len(rewards), 1 / len(rewards)) if weights is None else weights
        self._edges = np.cumsum(self.weights)

    def sample(self, n: int, rng: np.random.Generator) -> Batch:
        who = np.searchsorted(self._edges, rng.random(n), side="right").clip(max=len(self.weights) - 1)
        return Batch(who, sp.csr_array(self.rewards[who]), self.problem)

    def incidence(self, policies: PolicySet) -> NDArray[np.bool_]:
        """(N, K, P): whether policy p shows action y for context x."""
        lists = policies.predict(np.arange(len(self.rewards)))
        found = np.zeros((*self.rewards.shape, len(policies)), dtype=np.bool_)
        rows, members, _ = np.indices(lists.shape)
        found[rows, lists, members] = True
        return found

    def values(self, policies: PolicySet) -> Array:
        return np.asarray(np.einsum("x,xy,xyp->p", self.weights, self.rewards, self.incidence(policies)))


def random_lists(rng: np.random.Generator, n_policies: int, n_contexts: int, problem: Problem) -> NDArray[np.int64]:
    """Uniform lists (P, N, m)."""
    scores = rng.random((n_policies, n_contexts, problem.n_actions))
    return np.argsort(scores, axis=2)[:, :, : problem.list_size]


def random_world(seed: int, problem: Problem, *, n_contexts: int, n_policies: int) -> tuple[TabulatedWorld, PolicySet]:
    """Rewards of random sizes with ‖r‖₁ ≤ s, random lists."""
    rng = np.random.default_rng(seed)
    rewards = rng.random((n_contexts, problem.n_actions)) * (rng.random((n_contexts, problem.n_actions)) < 0.6)
    s = problem.sparsity or problem.n_actions
    rewards *= np.minimum(1, s / np.maximum(rewards.sum(1, keepdims=True), 1e-9))
    policies = PolicySet.from_lists(random_lists(rng, n_policies, n_contexts, problem), problem)
    return TabulatedWorld(problem, rewards, rng.dirichlet(np.full(n_contexts, 5.0))), policies


def single_label_world(
    seed: int, n_actions: int, *, n_contexts: int, n_policies: int
) -> tuple[TabulatedWorld, PolicySet]:
    """One right label for each context; hypotheses that know it for a varying share of contexts."""
    rng = np.random.default_rng(seed)
    problem = Problem(n_actions, 1, 1)
    labels = rng.integers(n_actions, size=n_contexts)
    guesses = rng.integers(n_actions, size=(n_policies, n_contexts))
    knows = rng.random((n_policies, n_contexts)) < np.linspace(0.1, 0.8, n_policies)[:, None]
    lists = np.where(knows, labels, guesses)[:, :, None]
    rewards = np.eye(n_actions)[labels]
    return TabulatedWorld(problem, rewards), PolicySet.from_lists(rng.permutation(lists), problem)


def list_classification_world(
    seed: int, problem: Problem, *, n_contexts: int, n_policies: int
) -> tuple[TabulatedWorld, PolicySet]:
    """Label sets Y with |Y| ≤ s, zero-one rewards; classifiers that rank the labels with noise of varying size."""
    rng = np.random.default_rng(seed)
    K, s = problem.n_actions, int(problem.sparsity or 1)
    taste = rng.standard_normal((n_contexts, K))
    rewards = np.zeros((n_contexts, K))
    for x in range(n_contexts):
        rewards[x, np.argsort(-taste[x])[: rng.integers(1, s + 1)]] = 1
    noise = rng.permutation(np.linspace(0.2, 3.0, n_policies))
    scores = taste + noise[:, None, None] * rng.standard_normal((n_policies, n_contexts, K))
    lists = np.argsort(-scores, axis=2)[:, :, : problem.list_size]
    return TabulatedWorld(problem, rewards), PolicySet.from_lists(lists, problem)
