from __future__ import annotations

import numpy as np
import pytest

from comband.explore.solvers.columns import ActiveSet
from comband.explore.solvers.potential import LogBarrier
from tests.explore.solvers.problems import random_problem


def test_by_hand() -> None:
    # Two events of weight 1 and 2, covered with probability 1/2 and 0; γ = 1/2, m/K = 1/5.
    potential = LogBarrier(np.array([1.0, 2.0]), 0.5, 0.2)
    coverage = np.array([0.5, 0.0])
    np.testing.assert_allclose(potential.mix(coverage), [0.35, 0.1])
    assert potential.value(coverage) == pytest.approx(-np.log(0.35) - 2 * np.log(0.1))
    np.testing.assert_allclose(potential.gains(coverage), [1 / 0.35, 20.0])
    assert potential.mass == 3.0


@pytest.mark.parametrize("seed", range(5))
def test_value_and_gradient_against_enumeration_and_finite_differences(seed: int) -> None:
    problem = random_problem(seed, n_events=60, n_policies=8, floor=0.3)
    p = np.random.default_rng(seed).dirichlet(np.ones(8))
    coverage = np.zeros(64 * problem.incidence.n_words)
    active = ActiveSet(problem.incidence.n_words)
    found = problem.incidence.best(problem.potential.gains(coverage), n=8, average=-1.0)
    places = active.add(found)
    weights = np.zeros(8)
    weights[places] = p[np.array(found.keys, dtype=int)]
    active.set_weights(weights)
    assert problem.potential.value(active.coverage) == pytest.approx(problem.value(p), rel=1e-13)
    scores = active.scores(problem.potential.gains(active.coverage))
    gradient = np.empty(8)
    gradient[np.array(found.keys, dtype=int)] = -(1 - problem.floor) * scores[places]
    for j in range(8):
        h = 1e-6 * np.eye(8)[j]
        numeric = (problem.value(p + h) - problem.value(p - h)) / 2e-6
        assert gradient[j] == pytest.approx(numeric, rel=1e-6)
