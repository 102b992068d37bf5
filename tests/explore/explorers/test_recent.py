from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.explore.explorers import DisagreementExplorer, RecentContexts
from tests.strategies import random_policies

PROBLEM = cb.Problem(n_actions=20, list_size=2)


def disputed(recent: RecentContexts, candidates: NDArray[np.int64], leader: int) -> NDArray[np.float64]:
    return recent.counts(candidates, lambda lists: DisagreementExplorer.needed(lists, leader, PROBLEM))


def asked_anew(
    policies: cb.PolicySet, candidates: NDArray[np.int64], leader: int, X: NDArray[np.int64]
) -> NDArray[np.float64]:
    return DisagreementExplorer.needed(policies.predict(X, candidates), leader, PROBLEM)


class Counted:
    asked = 0

    def __init__(self, policy: cb.Policy) -> None:
        self._policy = policy

    def predict(self, X: np.ndarray) -> np.ndarray:
        Counted.asked += len(X)
        return np.asarray(self._policy.predict(X))


@pytest.mark.parametrize("seed", range(6))
def test_disputed_counts_are_those_of_all_candidates_asked_anew(seed: int) -> None:
    """Batches with lists, without, and with some; candidates that become fewer; another leader."""
    rng = np.random.default_rng(seed)
    policies = random_policies(8, 30, PROBLEM, rng)
    recent, everything = RecentContexts(policies, PROBLEM), np.empty(0, dtype=np.int64)
    candidates = np.arange(8)
    for _ in range(int(rng.integers(1, 60))):
        X = rng.integers(30, size=int(rng.choice([0, 1, 7, 150, 1300])))
        known = int(rng.integers(len(X) + 1)) if rng.random() < 0.6 else 0
        lists = policies.predict(X, candidates)[len(X) - known :] if known else None
        recent.add(X, lists, candidates)
        everything = np.concatenate([everything, X])
        last = everything[-1000:]
        assert len(recent) == len(last)
        if rng.random() < 0.3 and len(last):
            np.testing.assert_array_equal(recent.contexts, last)
            leader = int(rng.integers(len(candidates)))
            counts = disputed(recent, candidates, leader)
            np.testing.assert_array_equal(counts, asked_anew(policies, candidates, leader, last))
        if rng.random() < 0.1 and len(candidates) > 2:
            candidates = np.delete(candidates, int(rng.integers(len(candidates))))


def test_nobody_is_asked_again_where_lists_are_known() -> None:
    tables = random_policies(5, 30, PROBLEM, np.random.default_rng(0))
    policies = cb.PolicySet([Counted(policy) for policy in tables])
    recent = RecentContexts(policies, PROBLEM)
    X = np.arange(400) % 30
    recent.add(X, policies.predict(X, np.arange(5)), np.arange(5))
    Counted.asked = 0
    expected = asked_anew(tables, np.array([1, 3, 4]), 2, X)
    np.testing.assert_array_equal(disputed(recent, np.array([1, 3, 4]), 2), expected)
    assert Counted.asked == 0
    recent.add(X[:10], None, np.arange(5))
    disputed(recent, np.array([1, 3, 4]), 2)
    assert Counted.asked == 3 * 10


def test_lists_that_are_looked_up_are_not_kept() -> None:
    tables = random_policies(5, 30, PROBLEM, np.random.default_rng(0))
    assert tables.looked_up
    mixed = cb.PolicySet([*tables, Counted(tables[0])])
    assert not mixed.looked_up
    recent = RecentContexts(tables, PROBLEM)
    assert (recent.room(5), recent.events) == (0, None)
    assert RecentContexts(mixed, PROBLEM).room(6) == 1000


def test_room_is_bounded() -> None:
    tables = random_policies(5, 30, PROBLEM, np.random.default_rng(0))
    recent = RecentContexts(cb.PolicySet([Counted(policy) for policy in tables]), PROBLEM)
    assert recent.room(5) == 1000
    assert recent.room(100_000) * 100_000 * PROBLEM.list_size * 4 <= 2**25
    X = np.arange(30)
    for _ in range(500):
        recent.add(X, None, np.arange(5))
    assert len(recent) == 1000
    assert np.asarray(recent.contexts).shape == (1000,)
    with pytest.raises(cb.InputError, match="one kind"):
        recent.add(np.zeros((3, 2)), None, np.arange(5))
