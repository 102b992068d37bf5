"""Decisions of an A/B test that were drawn elsewhere: whose list was shown travels with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers import explorer_from_state
from tests.learners.small_worlds import small_world

WORLD = small_world("needle", 1)


def test_what_was_drawn_elsewhere_counts_for_the_candidate_that_was_shown() -> None:
    """The evidence is that of a learner which has drawn the same lists itself."""
    here, there = (cb.ABTest(WORLD.problem, WORLD.policies, epsilon=0.1, first_epoch=100, seed=2) for _ in range(2))
    elsewhere = np.random.default_rng(3)
    here._rng = np.random.default_rng(3)
    rng = np.random.default_rng(4)
    for _ in range(6):
        x = rng.integers(len(WORLD.chances), size=50)
        state, k = there.epochs.current.explorer.state(), len(there.epochs) - 1
        drawn = explorer_from_state(state, WORLD.policies, WORLD.problem).draw(x, elsewhere, epoch=k).decisions
        own, adopted = here.ask(x), there.adopt(drawn)
        np.testing.assert_array_equal(adopted.arms, own.arms)
        clicks = (own.lists == rng.integers(10, size=(50, 1))).astype(float)
        here.tell(own, clicks)
        there.tell(adopted, clicks)
    assert here.evidence.values.means.any()
    np.testing.assert_array_equal(there.evidence.values.means, here.evidence.values.means)
    np.testing.assert_array_equal(there.evidence.log_wealth, here.evidence.log_wealth)


@pytest.mark.parametrize("arms", [np.full(4, -1), np.full(4, 99)])
def test_a_decision_without_a_candidate_of_the_test_is_refused(
    arms: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    learner = cb.ABTest(WORLD.problem, WORLD.policies, epsilon=0.1, seed=2)
    drawn = learner.epochs.current.explorer.draw(np.arange(4), 5).decisions
    with pytest.raises(cb.InputError, match="must have arms as ArmExplorer draws them, the number of the policy"):
        learner.adopt(replace(drawn, arms=arms))
    assert len(learner.adopt(drawn)) == 4


def test_no_candidate_is_credited_alone_where_lists_count_for_all() -> None:
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.1, seed=2)
    drawn = learner.epochs.current.explorer.draw(np.arange(4), 5).decisions
    with pytest.raises(cb.InputError, match="arms as DisagreementExplorer draws them, -1 in all, got"):
        learner.adopt(replace(drawn, arms=np.zeros(4, dtype=np.int64)))
