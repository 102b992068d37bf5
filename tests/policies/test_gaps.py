"""Candidates that do not answer, or not in full: what is shown in their place is what was said beforehand."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb
from comband.explore.explorers import DisagreementExplorer
from comband.policies import RequestedLists

K, M = 7, 3
PROBLEM = cb.Problem(K, M, 1)


def gapped_lists(rng: np.random.Generator, shape: tuple[int, int], share: float = 0.4) -> NDArray[np.int32]:
    """Random lists (*shape, m), places of which are empty with some probability."""
    lists = np.argsort(rng.random((*shape, K)), axis=2)[:, :, :M].astype(np.int32)
    lists[rng.random(lists.shape) < share] = -1
    return lists


def filled(own: list[int], spare: list[int]) -> list[int]:
    """By the words of the documentation."""
    rest = iter([y for y in spare if y not in own])
    return [next(rest) if y < 0 else y for y in own]


class Answers:
    """A policy of somebody's own, with contexts that are numbers."""

    def __init__(self, lists: Any) -> None:
        self.lists = lists

    def predict(self, X: Any) -> Any:
        return self.lists[np.asarray(X)]


@given(st.integers(0, 2**32), st.sampled_from(["table", "foreign", "masked", "requested"]))
@settings(deadline=None, max_examples=60)
def test_a_fallback_fills_what_is_empty(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    lists = gapped_lists(rng, (4, 5))
    lists[2] = np.argsort(rng.random((5, K)), axis=1)[:, :M]  # the fallback always answers
    names, X = ["a", "b", "c", "d"], np.arange(5)
    if kind == "table":
        policies = cb.PolicySet.from_lists(lists, PROBLEM, names=names, fallback="c")
    elif kind == "requested":
        policies = RequestedLists(names, PROBLEM, fallback="c")
        X = np.ascontiguousarray(lists.transpose(1, 0, 2))
    else:
        mask = np.ma.masked_less(lists, 0) if kind == "masked" else lists
        policies = cb.PolicySet([Answers(mask[p]) for p in range(4)], names, fallback="c")
    found = policies.predict(X, problem=PROBLEM)
    for x, p in product(range(5), range(4)):
        assert found[x, p].tolist() == filled(lists[p, x].tolist(), lists[2, x].tolist())
    if kind != "requested":
        some = policies.subset([3, 0])  # the fallback is no candidate there, and is asked all the same
        assert some.predict(X).tolist() == found[:, [3, 0]].tolist()
    assert policies.predict(X, [1]).tolist() == found[:, [1]].tolist()


def test_what_is_empty_is_refused_without_a_fallback() -> None:
    lists = gapped_lists(np.random.default_rng(1), (2, 9))
    with pytest.raises(cb.InputError, match=r"'policy \d' left places .* fallback="):
        cb.PolicySet.from_lists(lists, PROBLEM).predict(np.arange(9))
    nothing = cb.PolicySet.from_lists(lists, PROBLEM, fallback="nothing")
    assert nothing.has_gaps
    assert nothing.predict(np.arange(9)).tolist() == lists.transpose(1, 0, 2).tolist()
    with pytest.raises(cb.InputError, match="must fill its lists always"):
        cb.PolicySet.from_lists(lists, PROBLEM, fallback="policy 0").predict(np.arange(9))
    with pytest.raises(cb.InputError, match="the name of a candidate"):
        cb.PolicySet.from_lists(lists, PROBLEM, fallback="policy 7")
    with pytest.raises(cb.InputError, match="the name of a candidate"):
        cb.PolicySet.from_lists(lists, PROBLEM, fallback=3)  # type: ignore[arg-type]
    with pytest.raises(cb.InputError, match="no candidate may be called"):
        cb.PolicySet.from_lists(lists, PROBLEM, names=["a", "nothing"], fallback="nothing")
    other = cb.ConstantPolicy([0, 1], cb.Problem(K, 2))
    with pytest.raises(cb.InputError, match="lists of 3, got 2"):
        cb.PolicySet.from_lists(lists, PROBLEM, fallback=other).predict(np.arange(9))
    with pytest.raises(cb.InputError, match="repeat"):
        cb.PolicySet([Answers(np.array([[1, -1, 1]]))], fallback="nothing").predict([0])
    with pytest.raises(cb.InputError, match="got -2"):
        cb.PolicySet([Answers(np.array([[1, -2, 0]]))], fallback="nothing").predict([0])


def test_who_needs_whole_lists_says_so() -> None:
    lists = gapped_lists(np.random.default_rng(1), (2, 9))
    nothing = cb.PolicySet.from_lists(lists, PROBLEM, fallback="nothing")
    with pytest.raises(cb.InputError, match="must fill their lists"):
        cb.PacComband(PROBLEM, nothing, epsilon=0.1)
    with pytest.raises(cb.InputError, match="must fill their lists"):
        cb.AdaptiveComband(cb.Problem(K, M, 1, places="pairs"), nothing, epsilon=0.1)
    with pytest.raises(cb.InputError, match="must fill their lists"):
        cb.AdaptiveComband(cb.Problem(K, M, 1, feedback="total"), nothing, epsilon=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_disagreement_sampling_shows_what_was_proposed_with_its_probabilities(seed: int) -> None:
    """Systematic sampling from all numbers u: the shares of lists with each action are the stated probabilities."""
    rng = np.random.default_rng(seed)
    lists = gapped_lists(rng, (4, 6), share=0.5)
    lists[:, 0] = -1  # nobody answers
    lists[1:, 1] = -1  # one alone
    policies = cb.PolicySet.from_lists(lists, PROBLEM, fallback="nothing")
    explorer = DisagreementExplorer(
        policies, np.arange(4), leader=1, attention=[1, 0, 2, 1], smallest_disputed=0.3, problem=PROBLEM
    )
    X = np.arange(6)
    Q = explorer.propensities_of(X)
    for x in X:
        proposed = set(lists[:, x].ravel().tolist()) - {-1}
        assert set(np.flatnonzero(Q[x]).tolist()) == proposed
        assert Q[x].sum() == pytest.approx(min(M, len(proposed)))
    np.testing.assert_allclose(explorer.all_propensities(X).dense(), Q, rtol=1e-12)
    n = 20_000
    made = explorer.draw(np.repeat(X, n), np.random.default_rng(seed)).decisions
    for x in X:
        rows = made.lists[x * n : (x + 1) * n]
        assert ((rows >= 0).sum(axis=1) == min(M, (Q[x] > 0).sum())).all()
        shares = np.bincount(rows[rows >= 0], minlength=K) / n
        assert (np.abs(shares - Q[x]) < 5.5 * np.sqrt(Q[x] * (1 - Q[x]) / n) + 1e-9).all()
    again = explorer.propensities_of(made.contexts, made.lists)
    np.testing.assert_allclose(again, made.propensities, rtol=1e-12)


@pytest.mark.parametrize("kind", [cb.AdaptiveComband, cb.UniformMixture, cb.ABTest])
def test_values_are_those_of_lists_with_what_is_empty(kind: Any, tmp_path: Path) -> None:
    """Importance weights are unbiased for V(π) = E Σ_{y∈π(x)} r(y), and places without an action earn nothing."""
    rng = np.random.default_rng(3)
    lists = gapped_lists(rng, (4, 6), share=0.3)
    policies = cb.PolicySet.from_lists(lists, PROBLEM, fallback="nothing")
    chances = rng.random(K) / K
    values = np.array([np.where(part >= 0, chances[part], 0.0).sum(axis=1).mean() for part in lists])
    learner = kind(PROBLEM, policies, epsilon=0.001, first_epoch=10**6)
    n = 20_000
    for batch in range(4):
        decisions = learner.ask(rng.integers(6, size=n // 4))
        clicked = rng.choice(K + 1, p=[*chances, 1 - chances.sum()], size=n // 4)
        learner.tell(decisions, (decisions.lists == clicked[:, None]) & (decisions.lists >= 0))
        if batch == 1:
            learner.save(tmp_path / "learner.npz")
            learner = kind.load(tmp_path / "learner.npz", policies)
    assert learner.status().warnings == ()
    error = np.sqrt(values * 4 / n)  # weights are at most 4
    assert (np.abs(learner.evidence.values.means - values) < 5.5 * error).all()
    decisions = learner.ask(np.zeros(9, dtype=np.int64))
    if (decisions.lists < 0).any():
        with pytest.raises(cb.InputError, match="earn nothing"):
            learner.tell(decisions, (decisions.lists < 0).astype(float) / M)
    assert learner.rounds == n


def test_a_page_with_too_few_items_is_told_in_full() -> None:
    """Nobody answers: nothing is shown, nothing is earned, and the round counts."""
    policies = RequestedLists(["a", "b", "c"], PROBLEM, fallback="nothing")
    learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.2)
    X = np.full((50, 3, M), -1)
    X[10:, 0] = [0, 1, 2]
    decisions = learner.ask(X)
    assert (decisions.lists[:10] == -1).all()
    assert (np.sort(decisions.lists[10:], axis=1) == [0, 1, 2]).all()
    assert (decisions.propensities == 1).all()
    learner.tell(decisions, np.zeros((50, M)))
    assert learner.rounds == 50
