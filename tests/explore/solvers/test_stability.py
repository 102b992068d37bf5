"""The stability lemma p_{t+1} ≤ 2 p_t: where it holds, and where the printed ν = 1/16 breaks it.

The optimality conditions give the exact bound p_{t+1}(i) ≤ p_t(i)/(1 − νρ) (docs/regret.md). So ν = 1/16 keeps the
lemma for ρ = min(s, m) ≤ 8 and, once weights are small, breaks it for ρ ≥ 9; ν = 1/(2ρ) never does.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from comband import theory
from comband.explore.solvers.ftrl import Ftrl
from comband.page.problem import Problem
from comband.theory import Barrier


def dense(rho: int) -> Problem:
    """Lists of ρ actions that may all pay."""
    return Problem(n_actions=rho, list_size=rho, sparsity=rho)


def growth(ftrl: Ftrl, losses: NDArray[np.float64], member: NDArray[np.bool_], rewards: NDArray[np.float64]) -> float:
    """Largest p_{t+1}/p_t of one round in which the shown actions (rows of `member`) pay `rewards`; updates losses."""
    before = ftrl.weights.copy()
    q = member @ before
    losses -= (rewards / q) @ member
    return float((ftrl.solve(losses) / before).max())


def search(nu: float, rho: int, rng: np.random.Generator, n_policies: int, rounds: int) -> float:
    """The worst growth over random streams in which rare policies are drawn often and lists overlap or not."""
    horizon = int(rng.choice([100, 1000, 100_000]))
    steps = theory.exp4_comb_sparse(dense(rho), n_policies=n_policies, horizon=horizon)
    ftrl = Ftrl(n_policies, eta=steps.step_size, nu=nu)
    losses = np.zeros(n_policies)
    worst = 0.0
    for _ in range(rounds):
        shown = int(rng.integers(n_policies))
        if rng.random() < 0.5:  # a rare policy is drawn: the dangerous case
            shown = int(np.argmin(ftrl.weights))
        share = rng.choice([0.0, 0.0, 0.05, 0.5])
        member = rng.random((rho, n_policies)) < share
        member[:, shown] = True
        rewards = np.ones(rho) if rng.random() < 0.7 else rng.dirichlet(np.ones(rho)) * rng.uniform(0, rho)
        worst = max(worst, growth(ftrl, losses, member, np.minimum(rewards, 1.0)))
    return worst


@pytest.mark.parametrize("rho", [1, 4, 8, 16])
@pytest.mark.parametrize("barrier", ["safe", "sharp"])
def test_stable_on_adversarial_streams(rho: int, barrier: Barrier) -> None:
    rng = np.random.default_rng(rho)
    nu = theory.exp4_comb_sparse(dense(rho), n_policies=2, horizon=1, barrier=barrier).barrier
    for n_policies in (3, 40, 1000):
        worst = search(nu, rho, rng, n_policies, 150)
        assert worst <= 1 / (1 - nu * rho) + 1e-9 <= 2 + 1e-9


@pytest.mark.parametrize("rho", [4, 6, 8])
def test_printed_barrier_keeps_its_lemma_up_to_eight(rho: int) -> None:
    rng = np.random.default_rng(rho)
    assert max(search(1 / 16, rho, rng, n, 150) for n in (3, 40, 1000)) <= 1 / (1 - rho / 16) + 1e-9


@pytest.mark.parametrize(("rho", "at_least"), [(9, 2.2), (12, 3.5), (16, 15.0)])
def test_printed_barrier_breaks_its_lemma_from_nine(rho: int, at_least: float) -> None:
    """The stream: 1000 policies with disjoint lists of ρ; in the first round all of the shown list pays."""
    n_policies = 1000
    member = np.zeros((rho, n_policies), dtype=bool)
    member[:, 0] = True
    grown = {}
    barriers: list[Barrier] = ["printed", "safe", "sharp"]
    for barrier in barriers:
        steps = theory.exp4_comb_sparse(dense(rho), n_policies=n_policies, horizon=1000, barrier=barrier)
        ftrl = Ftrl(n_policies, eta=steps.step_size, nu=steps.barrier)
        grown[barrier] = growth(ftrl, np.zeros(n_policies), member, np.ones(rho))
    assert grown["printed"] > at_least
    assert grown["safe"] < 1.07
    assert grown["sharp"] <= 2.0
