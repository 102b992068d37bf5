"""Each guard finds its fault within thousands of rounds, and is silent in clean runs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb

K, M = 20, 3
PROBLEM = cb.Problem(n_actions=K, list_size=M)


def mixtures(rng: np.random.Generator) -> tuple[cb.Mixture, cb.Mixture]:
    lists = np.argsort(rng.random((6, 30, K)), axis=2)[:, :, :M]
    policies = cb.PolicySet.from_lists(lists, PROBLEM)
    weights, others = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    return (
        cb.Mixture(policies, weights, problem=PROBLEM, floor=0.2),
        cb.Mixture(policies, others, problem=PROBLEM, floor=0.2),
    )


def rounds_until_alarm(fault: str, seed: int, n_rounds: int = 8000, block: int = 500) -> int | None:
    rng = np.random.default_rng([seed, 11])
    now, before = mixtures(rng)
    guard = cb.ExposureGuard(K, unanswered=fault.startswith("lost"))
    for start in range(0, n_rounds, block):
        X = rng.integers(30, size=block)
        lists = now.draw(X, rng).lists.copy()
        q: NDArray[np.float64] = now.propensities(X)
        recorded = None
        if fault.startswith("stale"):
            old = rng.random(block) < 0.05
            wrong = q.copy()
            wrong[old] = before.propensities(X[old])
            if fault == "stale, in a log":  # the design is not known: only what was recorded
                q = wrong
            else:
                recorded = np.take_along_axis(wrong, lists.astype(np.int64), axis=1)
        elif fault == "rounded":
            q = np.round(q, 1)
        elif fault == "overridden":
            lists[rng.random(block) < 0.02] = np.arange(M)
        elif fault.startswith("lost"):
            with_item = (lists == 4).any(axis=1) if fault == "lost for an item" else np.zeros(block, dtype=bool)
            missing = (rng.random(block) < 0.05) | (with_item & (rng.random(block) < 0.3))
            lists, q = lists[missing], q[missing]
        guard.update(lists, q, recorded)
        if guard.alarm:
            assert guard.message
            return start + block
    assert guard.message == ""
    return None


@pytest.mark.parametrize("fault", ["stale", "rounded", "overridden", "lost for an item"])
def test_faults_are_found(fault: str) -> None:
    assert all(rounds_until_alarm(fault, seed) is not None for seed in range(4))


@pytest.mark.parametrize("fault", ["none", "lost at random"])
def test_clean_runs_are_silent(fault: str) -> None:
    # 200 clean runs at level .001: more than 5 alarms have a probability below 1e-7 (Poisson with mean .2).
    alarms = sum(rounds_until_alarm(fault, seed, n_rounds=2000) is not None for seed in range(200))
    assert alarms <= 5


def test_a_changing_world_is_noticed_and_a_steady_one_is_not() -> None:
    rng = np.random.default_rng(0)
    n = 400
    for kinds in ([(0.1, 0.3)], [(0.2, 0.2), (0.3, 0.1)]):
        drifting = cb.DriftGuard()
        for _ in range(12):
            drifting.update([np.flatnonzero(rng.random(n) < np.linspace(*ends, n)) for ends in kinds], n)
        assert drifting.alarm
        assert "changes over time" in drifting.message
    alarms = 0
    for seed in range(200):
        guard, generator = cb.DriftGuard(), np.random.default_rng([seed, 2])
        for _ in range(12):
            guard.update([np.flatnonzero(generator.random(n) < rate) for rate in (0.2, 0.05)], n)
        alarms += guard.alarm
    assert alarms <= 5


def test_refuses_propensities_of_shown_actions_only() -> None:
    with pytest.raises(cb.InputError, match="those of all actions"):
        cb.ExposureGuard(K).update([[0, 1, 2]], [[0.1, 0.2, 0.3]])
