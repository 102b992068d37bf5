from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers.mixture import MixtureExplorer


def test_the_smallest_propensity_of_a_mixture_is_that_of_its_lightest_candidate() -> None:
    """Disjoint lists: nobody else shows the lightest candidate's actions."""
    problem = cb.Problem(n_actions=8, list_size=2)
    policies = cb.PolicySet.from_lists(np.arange(6).reshape(3, 1, 2), problem)
    for candidates, lightest in (([0, 1, 2], 0.1), ([0, 2], 0.2)):
        weights = [0.7, 0.1, 0.2]
        explorer = MixtureExplorer(policies, np.array(candidates), weights=weights, floor=0.25, problem=problem)
        assert explorer.smallest == explorer.smallest_disputed == pytest.approx(0.75 * lightest + 0.25 * 2 / 8)
