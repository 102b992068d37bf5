"""What a file says of further metrics is bounded by the values that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify.validate import may_be_safe
from tests.certify.metric_worlds import cost_world


def guarded_state(seed: int = 2) -> tuple[Any, dict[str, Any]]:
    """Of a learner in whose run the lead has changed, and some are known to be safe."""
    world = cost_world(seed)
    learner = world.learner(epsilon=0.15, delta=0.2, first_epoch=100, seed=seed)
    rng = np.random.default_rng(seed)
    while not learner.done and learner.rounds < 2000:
        world.play(learner, 100, rng)
    return world, learner.state()


WORLD, STATE = guarded_state()


def loaded(change: Callable[[dict[str, Any]], None]) -> Any:
    _, state = guarded_state()
    change(state["learnt"]["evidence"]["guardrails"])
    return cb.AdaptiveComband.from_state(state, WORLD.policies)


def test_what_was_saved_loads() -> None:
    guardrails = STATE["learnt"]["evidence"]["guardrails"]
    assert len(guardrails["led"]) > 0
    assert len(guardrails["certified"]) > 0
    assert loaded(lambda said: None).evidence.guardrails.certified == frozenset(guardrails["certified"].tolist())


@pytest.mark.parametrize("part", ["harm", "safe", "gains", "accounts"])
def test_more_than_values_allow_is_refused(part: str) -> None:
    def forge(said: dict[str, Any]) -> None:
        said[part] = np.where(np.isfinite(said[part]), said[part], 0.0) + 200.0

    with pytest.raises(cb.InputError, match="must not exceed what the values that are kept allow"):
        loaded(forge)


def test_who_is_called_safe_may_be_so() -> None:
    """By the values that are kept, at the evidence that suffices, and not at much more."""
    learner = loaded(lambda said: None)
    guardrails, n_rounds, enough = learner.evidence.guardrails, learner.evidence.n_rounds, learner.verdict.safe_at
    for one in guardrails.certified:
        assert may_be_safe(guardrails, one, n_rounds, enough)
        assert not may_be_safe(guardrails, one, n_rounds, 1000 * enough)
