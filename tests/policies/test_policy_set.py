"""A set of policies answers as its members do, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import comband as cb
from comband.policies import policy_set
from comband.policies.scored import FEW_FEATURES


class Fixed:
    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.asked = 0

    def predict(self, X: Any) -> Any:
        self.asked += 1
        return np.tile(self.items, (X.shape[0], 1))


def mixed_set(seed: int, problem: cb.Problem, d: int) -> cb.PolicySet:
    rng = np.random.default_rng(seed)
    members: list[Any] = [
        cb.ScoredPolicy(rng.standard_normal((d, problem.n_actions)), problem, seed=i) for i in range(4)
    ]
    members.insert(1, Fixed(list(range(problem.list_size))))
    W = rng.standard_normal((d, problem.n_actions))
    members.insert(3, cb.ScoredPolicy(lambda X: X @ W, problem))
    members.append(cb.ScoredPolicy(np.zeros((d, problem.n_actions)), problem, seed=9))
    return cb.PolicySet(members)


@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=60)
def test_predict_equals_one_by_one(seed: int, n: int, sparse: bool) -> None:
    problem = cb.Problem(7, 3)
    policies = mixed_set(seed, problem, d=4)
    X: Any = np.random.default_rng(seed + 1).standard_normal((n, 4))
    X = sp.csr_array(X) if sparse else X
    together = policies.predict(X, problem=problem)
    assert together.shape == (n, len(policies), 3)
    for i, policy in enumerate(policies):
        assert together[:, i].tolist() == policy.predict(X).tolist()
    some = np.array([5, 0, 3])
    assert policies.predict(X, some).tolist() == together[:, some].tolist()
    assert policies.subset(some).predict(X).tolist() == together[:, some].tolist()
    assert policies.subset(some).names == tuple(policies.names[i] for i in some)


@pytest.mark.parametrize("d", [FEW_FEATURES, FEW_FEATURES + 1])
def test_many_features_are_multiplied_few_are_summed(d: int) -> None:
    problem = cb.Problem(30, 4)
    rng = np.random.default_rng(d)
    W, X = rng.standard_normal((5, d, 30)), rng.standard_normal((40, d))
    policies = cb.PolicySet.linear(W, problem)
    expected = np.argsort(-np.einsum("nd,pdk->npk", X, W), axis=2)[:, :, :4]
    assert policies.predict(X).tolist() == expected.tolist()
    assert policies.predict(sp.csr_array(X)).tolist() == expected.tolist()
    assert policies[3].predict(X).tolist() == expected[:, 3].tolist()


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cb.Problem(7, 3)
    policies = mixed_set(5, problem, d=4)
    rng = np.random.default_rng(6)
    X = rng.standard_normal((50, 4))
    rows, actions = rng.integers(0, 50, 200), rng.integers(0, 7, 200).astype(np.int32)
    lists, inside = policies.predict(X), policies.contains(X, rows, actions)
    assert inside.tolist() == (lists[rows] == actions[:, None, None]).any(axis=2).tolist()
    monkeypatch.setattr(policy_set, "BLOCK", 64)
    assert policies.predict(X).tolist() == lists.tolist()
    assert policies.contains(X, rows, actions).tolist() == inside.tolist()
    assert policies.contains(X, rows, actions, [4, 2]).tolist() == inside[:, [4, 2]].tolist()
    blocks = list(policies.incidence(X, rows, actions))
    assert len(blocks) > 5
    assert sorted(np.concatenate([events for events, _ in blocks]).tolist()) == list(range(200))
    owners = [set(rows[events].tolist()) for events, _ in blocks]
    assert sum(len(o) for o in owners) == len(set(rows.tolist()))  # no context is split between blocks


@pytest.mark.parametrize("gaps", [False, True])
def test_who_lists_what_in_a_table(gaps: bool) -> None:
    rng = np.random.default_rng(8)
    problem, table = cb.Problem(9, 3), np.argsort(rng.random((6, 12, 9)), axis=2)[:, :, :3].astype(np.int32)
    if gaps:
        table[4, ::2, 2] = -1
    policies = cb.PolicySet.from_lists(table, problem, fallback="policy 0" if gaps else None)
    X = rng.integers(0, 12, 50)
    rows, actions = rng.integers(0, 50, 200), rng.integers(0, 9, 200).astype(np.int32)
    expected = (policies.predict(X)[rows] == actions[:, None, None]).any(axis=2)
    assert policies.contains(X, rows, actions).tolist() == expected.tolist()
    assert policies.contains(X, rows, actions, [5, 0, 4]).tolist() == expected[:, [5, 0, 4]].tolist()
    with pytest.raises(cb.InputError, match="context 12 is not in the table"):
        policies.contains(np.full(3, 12), np.zeros(1, np.int64), np.zeros(1, np.int32))


def test_members_of_different_lengths_are_refused() -> None:
    with pytest.raises(cb.InputError, match="one length"):
        cb.PolicySet([Fixed([0, 1]), Fixed([0, 1, 2])]).predict(np.zeros((2, 1)))
    linear = cb.ScoredPolicy(np.zeros((1, 4)), cb.Problem(4, 3))
    with pytest.raises(cb.InputError, match="one length"):
        cb.PolicySet([Fixed([0, 1]), linear]).predict(np.zeros((2, 1)))
    with pytest.raises(cb.InputError, match=r"must have shape \(n, 1\)"):
        cb.PolicySet([linear]).predict(np.zeros((2, 3)))


def test_only_contexts_with_events_are_evaluated() -> None:
    policy = Fixed([0, 1])
    policies = cb.PolicySet([policy])
    assert policies.contains(np.zeros((9, 1)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)).shape == (0, 1)
    assert policy.asked == 0


def test_a_table_makes_no_policy_that_nobody_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cb.Problem(n_actions=5, list_size=2)
    lists = np.random.default_rng(0).permuted(np.tile(np.arange(5), (7, 3, 1)), axis=2)[:, :, :2].astype(np.int32)
    one_by_one = cb.PolicySet([cb.TabulatedPolicy(rows, problem) for rows in lists])

    def refuse(*_: object) -> None:
        raise AssertionError("a policy was made")

    with monkeypatch.context() as patch:
        patch.setattr(cb.TabulatedPolicy, "__init__", refuse)
        together = cb.PolicySet.from_lists(lists, problem)
        together.check(problem)
        assert (together.predict([2, 0]) == one_by_one.predict([2, 0])).all()
    for alone, made in zip(one_by_one, together, strict=True):
        assert (alone.predict([1]) == made.predict([1])).all()
    assert (together.subset([4, 1]).predict([0]) == one_by_one.subset([4, 1]).predict([0])).all()
    assert together[-1] is together[6]
    assert together[-1].predict([2]).tolist() == lists[-1, 2][None, :].tolist()
    lists[:] = 0  # the set has its own
    assert (together.predict([2, 0]) == one_by_one.predict([2, 0])).all()
    with pytest.raises(cb.InputError, match="5 actions, but the problem asks for 2 of 6"):
        together.check(cb.Problem(n_actions=6, list_size=2))


def test_a_table_at_fault_says_where() -> None:
    lists = np.zeros((2, 3, 2), dtype=np.int32)
    lists[:, :, 1] = 1
    lists[1, 2, 1] = 9
    with pytest.raises(cb.InputError, match="got 9 in row 2 of lists"):
        cb.PolicySet.from_lists(lists, cb.Problem(n_actions=5, list_size=2))
