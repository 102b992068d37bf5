"""The context-free case: marginals of all m-sets."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.regret.m_sets import capped_marginals

cp: Any = pytest.importorskip("cvxpy")
PROBLEM = cb.Problem(n_actions=8, list_size=3, sparsity=2)


@pytest.mark.parametrize("spread", [0.0, 5.0, 100.0, 3000.0])
def test_marginals_solve_the_capped_problem(spread: float) -> None:
    losses = -spread * np.random.default_rng(1).random(8) ** 2
    q = capped_marginals(losses, total=3, eta=0.05, nu=0.5)
    assert q.sum() == pytest.approx(3, abs=1e-11)
    assert (q > 0).all()
    assert (q <= 1).all()
    x = cp.Variable(8)
    value = losses @ x - cp.sum(cp.entr(x)) / 0.05 - cp.sum(cp.log(x)) / 0.5
    cp.Problem(cp.Minimize(value), [cp.sum(x) == 3, x <= 1]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(q, x.value, atol=2e-5)


def test_lists_have_these_marginals() -> None:
    """Counts of each action within 6 standard deviations (false alarms below 1e-7), and m distinct actions per list."""
    learner = cb.SparseMSets(PROBLEM, horizon=1000, seed=1)
    decisions = learner.ask(range(200))
    learner.tell(decisions, 1.0 * (decisions.lists == 5))
    n = 20_000
    decisions = learner.ask(range(n))
    assert all(len(set(row)) == 3 for row in decisions.lists.tolist())
    counts = np.bincount(decisions.lists.ravel(), minlength=8)
    q = learner.marginals
    assert (np.abs(counts - n * q) <= 6 * np.sqrt(n * q * (1 - q)) + 1).all()
    np.testing.assert_allclose(decisions.propensities, q[decisions.lists])


def test_regret_against_the_best_fixed_list_is_below_the_bound() -> None:
    """Two actions pay in turn for half of the horizon each; the mean of 3 runs against the bound."""
    T = 3000
    rng = np.random.default_rng(0)
    paying = np.where(np.arange(T) < T / 2, 1, 6)
    coins = rng.random(T) < 0.7
    regrets = []
    for seed in range(3):
        learner = cb.SparseMSets(PROBLEM, horizon=T, seed=seed)
        collected = 0.0
        for t in range(T):
            decisions = learner.ask([None])
            rewards = 1.0 * (decisions.lists == paying[t]) * coins[t]
            learner.tell(decisions, rewards)
            collected += rewards.sum()
        regrets.append(coins.sum() - collected)  # the list {1, 6, any} collects everything
        assert {1, 6} <= set(learner.result().policy.predict([None])[0].tolist())
    bound = 3 + 2 * 8 * math.log(T) + 2 * math.sqrt(2 * 3 * T * math.log(8 / 3))
    assert np.mean(regrets) <= bound


def test_refuses_an_unstable_barrier() -> None:
    with pytest.raises(cb.InputError, match="barrier"):
        cb.SparseMSets(PROBLEM, horizon=10, barrier=1.0)


def test_a_step_that_fails_changes_nothing_and_copies_refuse_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    learner = cb.SparseMSets(PROBLEM, horizon=400, seed=3)
    twin = cb.SparseMSets(PROBLEM, horizon=400, seed=3)
    for one in (learner, twin):
        decisions = one.ask([None] * 5)
        one.tell(decisions, 1.0 * (decisions.lists == 4))

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the solver is down")

    with monkeypatch.context() as broken:
        broken.setattr("comband.regret.m_sets.capped_marginals", fail)
        with pytest.raises(RuntimeError, match="is down"):
            learner.ask([None])
    assert learner.ask([None] * 50).lists.tolist() == twin.ask([None] * 50).lists.tolist()
    learner.save(tmp_path / "learner.npz")
    copy = cb.SparseMSets.load(tmp_path / "learner.npz")
    with pytest.raises(cb.UnknownDecisionError, match="another copy"):
        copy.tell(learner.ask([None] * 9), np.zeros((9, PROBLEM.list_size)))


def test_threads_lose_nothing() -> None:
    learner = cb.SparseMSets(PROBLEM, horizon=10_000, seed=3)
    ids: list[int] = []

    def work() -> None:
        for _ in range(100):
            decisions = learner.ask([None] * 3)
            ids.extend(decisions.ids.tolist())
            learner.tell(decisions, 1.0 * (decisions.lists == 4))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(1200))
    assert learner.rounds == 1200
    assert int(np.argmax(learner.marginals)) == 4
