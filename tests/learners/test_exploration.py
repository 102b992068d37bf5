from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from comband.learners.exploration import Plan


def test_the_floor_of_a_mixture_is_that_of_its_lightest_candidate() -> None:
    """Disjoint lists: nobody else shows the lightest candidate's actions."""
    problem = cb.Problem(n_actions=8, list_size=2)
    policies = cb.PolicySet.from_lists(np.arange(6).reshape(3, 1, 2), problem)
    plan = Plan("mixture", np.array([0.7, 0.1, 0.2]), 0.25)
    for candidates, lightest in (([0, 1, 2], 0.1), ([0, 2], 0.2)):
        explorer = plan.explorer(policies, np.array(candidates), 0, problem)
        assert explorer.least == explorer.least_any == pytest.approx(0.75 * lightest + 0.25 * 2 / 8)
