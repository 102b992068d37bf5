"""What the schedules are compared with: uniform lists, the earlier result, the lower bound."""

import math

import pytest

from comband import theory
from comband.problem import Problem

SMALL = Problem(n_actions=12, list_size=3, sparsity=2)  # ρ = 2, K/m = 4


def test_references_by_hand() -> None:
    # v = ρ²K/m = 16, b = ρK/m = 8
    n = theory.uniform_exploration(SMALL, n_policies=50, epsilon=0.1, delta=0.1)
    assert n == math.ceil((4 * 16 / 0.01 + 2 * 8.1 / 0.3) * math.log(490))
    earlier = theory.earlier_single_label(3, n_policies=20, epsilon=0.1, delta=0.1)
    assert earlier == pytest.approx((3**9 + 100) * math.log(200))
    assert theory.lower_bound(Problem(24, 2, 4), epsilon=0.01) == pytest.approx(8e4 / 3072)
