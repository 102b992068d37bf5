"""Lists of rewarded rounds are those the candidates gave, and nobody is asked for them twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers import event_lists
from comband.explore.explorers.event_lists import EventLists


@pytest.mark.parametrize("n_actions", [40, 100_000])
@pytest.mark.parametrize("cells", [20_000_000, 6 * 3 * 25, 5])
def test_lists_are_those_of_the_candidates(n_actions: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lists, "_CELLS", cells)
    n_rounds = 500 if cells == 20_000_000 else 60  # all there are, or few
    monkeypatch.setattr(event_lists, "_ROUNDS", n_rounds)
    rng = np.random.default_rng(0)
    problem = cb.Problem(n_actions=n_actions, list_size=3)
    table = rng.integers(n_actions, size=(500, 6, 3)).astype(np.int32)  # what decision i gets from candidate p
    memory, n_asked = EventLists(problem), 0
    candidates = np.arange(6)
    for step in range(120):
        if step == 40:
            candidates = np.array([0, 2, 3, 5])
        ids = rng.choice(500, size=int(rng.integers(1, 8)), replace=False)
        theirs = np.arange(6) if step == 60 else candidates  # an answer of an older epoch

        def ask(positions: Any, ids: Any = ids, theirs: Any = theirs) -> Any:
            nonlocal n_asked
            n_asked += len(positions)
            return table[ids[positions]][:, theirs]

        found = memory.lists(ids, theirs, ask, keep=bool(step % 4))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, table[ids][:, theirs])
        assert len(memory) <= min(n_rounds, cells // (4 * 3))
        if step % 4 and n_rounds == 500:
            before = n_asked
            np.testing.assert_array_equal(memory.lists(ids, theirs, ask), table[ids][:, theirs])
            assert n_asked == before or step == 60


class Counted:
    asked = 0

    def __init__(self, table: np.ndarray) -> None:
        self._table = table

    def predict(self, X: Any) -> np.ndarray:
        Counted.asked += len(X)
        return np.asarray(self._table[X])


def test_a_new_epoch_asks_candidates_only_for_what_nobody_has_seen() -> None:
    rng = np.random.default_rng(1)
    problem = cb.Problem(n_actions=30, list_size=3, sparsity=1)
    tables = rng.permuted(np.tile(np.arange(30, dtype=np.int32), (8, 50, 1)), axis=2)[:, :, :3]
    policies = cb.PolicySet([Counted(table) for table in tables])
    learner = cb.AdaptiveComband(problem, policies, epsilon=1e-4, first_epoch=300, seed=3)
    extra = []
    for _ in range(40):
        Counted.asked = 0
        X = rng.integers(50, size=100)
        epochs = len(learner.epochs)
        decisions = learner.ask(X)
        rewards = np.zeros((100, 3))
        clicks = rng.random(100) < 0.1
        rewards[clicks, rng.integers(3, size=100)[clicks]] = 1.0
        rewarded = int(rewards.any(axis=1).sum())
        learner.tell(decisions, rewards)
        if len(learner.epochs) > epochs:
            extra.append(Counted.asked - 8 * (100 + rewarded))
    assert len(extra) > 5
    # An ask and a tell have some propensities computed anew, on twenty contexts at most each: nothing else is asked.
    assert max(extra) <= 8 * 40
