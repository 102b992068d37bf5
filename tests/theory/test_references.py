"""What the schedules are compared with: uniform lists, the earlier result, the lower bound."""

import math

import numpy as np
import pytest

from comband import theory
from comband.page.problem import Problem
from tests.theory.online_steps import Step

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


def test_references_by_hand() -> None:
    # E D² ≤ ρ(K/m)·min(s, 2ρ) = 16, b = ρK/m = 8
    n = theory.uniform_exploration(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert n == math.ceil((2 * 16 / 0.01 + 2 * 8.1 / 0.3) * math.log(490))
    # s = 5, ρ = 3: 2ρ may differ, of which 5 pay
    n = theory.uniform_exploration(Problem(12, 3, sparsity=5), n_policies=50, epsilon=0.1, delta=0.1)
    assert n == math.ceil((2 * 3 * 4 * 5 / 0.01 + 2 * 12.1 / 0.3) * math.log(490))
    earlier = theory.earlier_single_label(3, n_policies=20, epsilon=0.1, delta=0.1)
    assert earlier == pytest.approx((3**9 + 100) * math.log(200))
    assert theory.lower_bound(Problem(24, 2, 4), epsilon=0.01) == pytest.approx(8e4 / 3072)


def test_differences_of_uniform_lists_have_the_second_moment_that_rounds_are_planned_with() -> None:
    rng, largest = np.random.default_rng(5), 0.0
    for _ in range(400):
        step = Step(rng, floor=1.0)
        problem = step.problem
        rho, s = problem.max_reward, float(problem.sparsity or problem.n_actions)
        differences = step.worth - step.worth[:, [int(np.argmax(step.values))]]
        bound = rho / problem.uniform_propensity * min(s, 2 * rho)
        largest = max(largest, float((step.mean(differences**2) / bound).max()))
    assert 0.9 < largest <= 1 + 1e-12
