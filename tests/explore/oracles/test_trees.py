from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from comband import EnumerationOracle, InputError, Problem, Rounds
from comband.explore.oracles import TreeOracle

SPLITS = [(0, 0.0), (1, 0.0), (1, 0.5)]


def total(policy: object, X: np.ndarray, rewards: sp.csr_array) -> float:
    lists = policy.predict(X)  # type: ignore[attr-defined]
    return float(rewards[np.repeat(np.arange(len(X)), lists.shape[1]), lists.ravel()].sum())


def random_rewards(rng: np.random.Generator, n: int, n_actions: int, density: float) -> sp.csr_array:
    dense = rng.random((n, n_actions)) * (rng.random((n, n_actions)) < density)
    return sp.csr_array(dense)


@pytest.mark.parametrize(("depth", "n_actions", "list_size"), [(0, 5, 2), (1, 4, 2), (2, 3, 1)])
def test_best_tree_is_the_best_of_all_trees(depth: int, n_actions: int, list_size: int) -> None:
    problem = Problem(n_actions=n_actions, list_size=list_size)
    oracle = TreeOracle(problem, splits=SPLITS, depth=depth)
    enumerated = EnumerationOracle(oracle.policies())
    rng = np.random.default_rng(depth)
    for _ in range(5):
        X = rng.normal(size=(30, 2))
        rewards = random_rewards(rng, 30, n_actions, 0.3)
        assert total(oracle.fit(X, rewards), X, rewards) == pytest.approx(enumerated.values(X, rewards).max())
    assert oracle.exact


def test_hand_computed_stump() -> None:
    problem = Problem(n_actions=3, list_size=1)
    X = np.array([[-1.0], [-2.0], [1.0]])
    rewards = sp.csr_array([[1.0, 0, 0], [1.0, 0, 0], [0, 0, 1.5]])
    policy = TreeOracle(problem, splits=[(0, 0.0)], depth=1).fit(X, rewards)
    assert policy.tree == ((0, 0.0), (0,), (2,))
    assert policy.predict(sp.csr_array(X)).ravel().tolist() == [0, 0, 2]


def test_final_erm_on_bandit_rounds_agrees_with_enumeration() -> None:
    problem = Problem(n_actions=4, list_size=2, sparsity=1)
    oracle = TreeOracle(problem, splits=SPLITS, depth=1)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    lists = np.argsort(rng.random((400, 4)), axis=1)[:, :2]
    wanted = (X[:, 0] > 0).astype(int) + 2 * (rng.random(400) < 0.3)
    rounds = Rounds.from_log(
        X, lists=lists, rewards=lists == wanted[:, None], propensities=np.full((400, 2), 0.5), problem=problem
    )
    events = rounds.events()
    estimates = sp.csr_array(
        (events.rewards / events.propensities, (events.rows, events.actions)), shape=(events.n_rewarded, 4)
    )
    enumerated = EnumerationOracle(oracle.policies())
    found = oracle.fit(events.contexts, estimates)
    assert total(found, events.contexts, estimates) == pytest.approx(
        enumerated.values(events.contexts, estimates).max()
    )
    truth = np.stack([np.full(400, 0), np.full(400, 1)], axis=1)[np.arange(400), (X[:, 0] > 0).astype(int)]
    assert (found.predict(X) == truth[:, None]).any(axis=1).all()


def test_splits_are_checked() -> None:
    with pytest.raises(InputError, match="pairs"):
        TreeOracle(Problem(n_actions=3, list_size=1), splits=[0.0, 1.0])
