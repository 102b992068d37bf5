"""Exact ERM against brute force, and fair ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import comband as cb
from tests.strategies import hoeffding_radius, random_policies


def test_equals_brute_force_on_thousands_of_random_cases() -> None:
    rng = np.random.default_rng(0)
    for case in range(3000):
        K = int(rng.integers(1, 9))
        problem = cb.Problem(K, int(rng.integers(1, K + 1)))
        n, n_policies = int(rng.integers(1, 7)), int(rng.integers(1, 8))
        policies = random_policies(n_policies, n, problem, rng)
        X = rng.integers(0, n, n)
        rewards = rng.integers(0, 3, (n, K)) * (rng.random((n, K)) < 0.5)
        totals = [sum(rewards[i, y] for i in range(n) for y in policy.predict([X[i]])[0]) for policy in policies]
        oracle = cb.EnumerationOracle(policies, seed=case)
        assert oracle.values(X, sp.csr_array(rewards)).tolist() == totals
        assert totals[oracle.best(X, sp.csr_array(rewards))] == max(totals)
        best = oracle.fit(X, sp.coo_array(rewards))
        assert totals[list(policies).index(best)] == max(totals)


def test_no_candidate_wins_a_tie_by_its_position() -> None:
    problem = cb.Problem(4, 2)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]], [[0, 2]], [[1, 0]]], problem)
    rewards = sp.csr_array([[1.0, 0, 0, 0]])  # 0, 2 and 3 tie
    n = 3000
    oracle = cb.EnumerationOracle(policies, seed=5)
    counts = np.bincount([oracle.best([0], rewards) for _ in range(n)], minlength=4)
    assert counts[1] == 0
    assert np.abs(counts[[0, 2, 3]] / n - 1 / 3).max() < hoeffding_radius(n, 1e-6, tests=3)


def test_ties_up_to_rounding_are_ties() -> None:
    problem = cb.Problem(4, 3)
    policies = cb.PolicySet.from_lists([[[0, 1, 2]], [[3, 0, 1]]], problem)
    rewards = sp.csr_array([[0.1, 0.2, 0.3, 0.3 + 1e-17]])
    oracle = cb.EnumerationOracle(policies, seed=0)
    assert {oracle.best([0], rewards) for _ in range(100)} == {0, 1}  # misses one with probability 2**-99


class Counting:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def predict(self, X: Any) -> Any:
        self.seen += np.asarray(X).tolist()
        return np.tile([0, 1], (len(X), 1))


def test_only_rewarded_contexts_are_evaluated() -> None:
    policy = Counting()
    rewards = sp.lil_array((50, 3))
    rewards[7, 0] = 1.0
    rewards[9, 2] = 0.5
    values = cb.EnumerationOracle(cb.PolicySet([policy])).values(np.arange(50), rewards.tocsr())
    assert values.tolist() == [1.0]
    assert policy.seen == [7, 9]
