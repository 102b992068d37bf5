"""Items come and go: nobody shows what is not there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.policies import AvailableItems

K, M, P, N = 9, 3, 5, 6
PROBLEM = cb.Problem(K, M, 1)
LISTS = np.argsort(np.random.default_rng(4).random((P, N, K)), axis=2)[:, :, :M]


def masks(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    return (rng.random((n, K)) < 0.7).astype(np.int64)


def expected(own: list[int], spare: list[int], there: set[int]) -> list[int]:
    left = [y if y in there else -1 for y in own]
    rest = iter([y for y in spare if y in there and y not in left])
    return [next(rest, -1) if y < 0 else y for y in left]


@pytest.mark.parametrize("fallback", ["policy 2", "nothing"])
def test_lists_hold_what_is_available(fallback: str) -> None:
    rng = np.random.default_rng(1)
    policies = AvailableItems(cb.PolicySet.from_lists(LISTS, PROBLEM, fallback=fallback), PROBLEM)
    X, mask = rng.integers(N, size=200), masks(rng, 200)
    found = policies.predict(policies.contexts(X, mask), problem=PROBLEM)
    for i, x in enumerate(X):
        spare = LISTS[2, x].tolist() if fallback == "policy 2" else []
        for p in range(P):
            assert found[i, p].tolist() == expected(LISTS[p, x].tolist(), spare, set(np.flatnonzero(mask[i]).tolist()))
    some = policies.subset([4, 2])
    assert some.predict(some.contexts(X, mask)).tolist() == found[:, [4, 2]].tolist()


def test_learners_show_only_what_is_available_and_values_are_those_of_it() -> None:
    rng = np.random.default_rng(2)
    policies = AvailableItems(cb.PolicySet.from_lists(LISTS, PROBLEM, fallback="policy 2"), PROBLEM)
    learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.001, first_epoch=10**6)
    chances, sums, n = np.linspace(0.02, 0.15, K), np.zeros(P), 8000
    for _ in range(8):
        X = policies.contexts(rng.integers(N, size=n // 8), masks(rng, n // 8))
        decisions = learner.ask(X)
        shown = decisions.lists
        assert (np.take_along_axis(X[:, 1:], np.maximum(shown, 0), axis=1)[shown >= 0] == 1).all()
        clicked = rng.choice(K + 1, p=[*chances, 1 - chances.sum()], size=n // 8)
        learner.tell(decisions, (shown == clicked[:, None]) & (shown >= 0))
        lists = policies.predict(X)
        sums += np.where(lists >= 0, chances[lists], 0.0).sum(axis=(0, 2))
    values = sums / n
    assert (np.abs(learner.evidence.values.means - values) < 5.5 * np.sqrt(values * 5 / n)).all()
    assert learner.status().warnings == ()
    learner.add(cb.TabulatedPolicy(LISTS[0], PROBLEM), name="again", planned=True)
    assert len(learner.ask(policies.contexts([0], np.ones(K, dtype=int)))) == 1


def test_what_does_not_fit_is_refused() -> None:
    whole = cb.PolicySet.from_lists(LISTS, PROBLEM)
    with pytest.raises(cb.InputError, match="fallback"):
        AvailableItems(whole, PROBLEM)
    policies = AvailableItems(cb.PolicySet.from_lists(LISTS, PROBLEM, fallback="nothing"), PROBLEM)
    with pytest.raises(cb.InputError, match="0 or 1"):
        policies.contexts([0, 1], np.full((2, K), 2))
    with pytest.raises(cb.InputError, match="0 or 1"):
        policies.contexts([0, 1], np.ones((3, K)))
    with pytest.raises(cb.InputError, match="contexts makes them"):
        policies.predict(np.zeros((2, K)))
    with pytest.raises(cb.InputError, match="numbers"):
        policies.contexts(["a"], np.ones(K))
    with pytest.raises(cb.InputError, match="not available"):
        cb.UniformLists(PROBLEM, policies, epsilon=0.1)
