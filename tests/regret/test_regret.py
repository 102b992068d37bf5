"""Regret curves: what they compare with, and their bands."""

from __future__ import annotations

import math

import numpy as np
import pytest

import comband as cb
from comband import theory
from comband.theory import Barrier

PROBLEM = cb.Problem(n_actions=20, list_size=4, sparsity=1)
POLICIES = cb.PolicySet.from_lists(np.arange(20).reshape(5, 1, 4), PROBLEM)


def make(seed: int) -> cb.Exp4CombSparse:
    return cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=500, seed=seed)


def test_curves_against_the_best_in_hindsight() -> None:
    sequence = cb.worlds.drifting(POLICIES, PROBLEM, horizon=500, n_contexts=1, seed=0)
    curves = cb.regret.regret_curves(make, sequence, POLICIES, seeds=[3, 4, 5], n_points=50)
    assert curves.rounds[-1] == 500
    assert curves.regrets.shape == (3, len(curves.rounds))
    totals = sequence.totals(POLICIES)
    assert curves.best == int(totals.argmax())
    collected = cb.regret.play(make(4), sequence)
    assert curves.regrets[1, -1] == pytest.approx(totals.max() - collected.sum())
    half = len(curves.rounds) // 2
    n = curves.rounds[half]
    assert curves.regrets[1, half] == pytest.approx(
        sequence.gains(POLICIES, curves.best)[:n].sum() - collected[:n].sum()
    )
    low, high = curves.band()
    assert (low <= curves.mean + 1e-9).all()
    assert (curves.mean <= high + 1e-9).all()
    assert curves.standard_error[-1] == pytest.approx(curves.regrets[:, -1].std(ddof=1) / math.sqrt(3))


def test_progress() -> None:
    sequence = cb.worlds.switching(POLICIES, PROBLEM, horizon=100, n_contexts=1, seed=0)
    curves = cb.regret.regret_curves(make, sequence, POLICIES, seeds=[1], batch_size=7)
    collected = cb.regret.play(make(1), sequence, batch_size=7, progress=True)
    assert curves.regrets[0, -1] == pytest.approx(sequence.totals(POLICIES).max() - collected.sum())


def test_refuses_another_problem() -> None:
    other = cb.Problem(n_actions=20, list_size=4, sparsity=2)
    sequence = cb.worlds.switching(
        cb.PolicySet.from_lists(np.arange(20).reshape(5, 1, 4), other), other, horizon=9, n_contexts=1
    )
    with pytest.raises(cb.InputError, match="sequence"):
        cb.regret.play(make(0), sequence)


@pytest.mark.slow
@pytest.mark.parametrize("name", cb.worlds.ADVERSARIES)
def test_expected_regret_is_below_the_bound(name: str) -> None:
    """The mean of 6 runs, less five standard errors, against the bound of `theory`."""
    T = 2000
    sequence = cb.worlds.ADVERSARIES[name](POLICIES, PROBLEM, horizon=T, n_contexts=1, seed=1)
    barriers: list[Barrier] = ["safe", "sharp"]
    for barrier in barriers:
        curves = cb.regret.regret_curves(
            lambda seed, barrier=barrier: cb.Exp4CombSparse(PROBLEM, POLICIES, horizon=T, barrier=barrier, seed=seed),  # type: ignore[misc]
            sequence,
            POLICIES,
            seeds=range(6),
        )
        bound = theory.exp4_comb_sparse(PROBLEM, n_policies=5, horizon=T, barrier=barrier).regret
        assert curves.mean[-1] <= bound + 5 * curves.standard_error[-1]
