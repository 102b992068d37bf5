"""Answers are taken in the same way however they are told: all at once, which is short, in any order, or in parts."""

from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from tests.states import text


@pytest.mark.parametrize("patience", [None, 60])
@pytest.mark.parametrize("kind", [cb.AdaptiveComband, cb.UniformMixture, cb.ABTest])
def test_answers_at_once_and_in_parts_lead_to_the_same_state(kind: type[cb.AdaptiveComband], patience: int) -> None:
    rng = np.random.default_rng(0)
    problem = cb.Problem(n_actions=20, list_size=3, sparsity=1)
    lists = rng.permuted(np.tile(np.arange(20, dtype=np.int32), (6, 30, 1)), axis=2)[:, :, :3]
    policies = cb.PolicySet.from_lists(lists, problem)
    made = (kind(problem, policies, epsilon=0.01, first_epoch=100, patience=patience) for _ in range(3))
    whole, mixed, parts = made
    for i in range(60):
        n = int(rng.integers(2, 25))
        X = rng.integers(30, size=n)
        decisions, others, same = whole.ask(X), mixed.ask(X), parts.ask(X)
        rewards = np.zeros((n, 3))
        if i % 3 == 0:
            rewards[rng.random(n) < 0.3, 1] = 1.0
        whole.tell(decisions, rewards)
        order = rng.permutation(n)
        mixed.tell(others[order], rewards[order])
        # The first decision last: until then nothing enters the evidence, and then everything does.
        parts.tell(same[1:], rewards[1:])
        assert parts.queue.behind == n - 1
        parts.tell(same[:1], rewards[:1])
        assert parts.queue.waiting == whole.queue.waiting == 0
        assert text(whole.state()["learnt"]) == text(parts.state()["learnt"]) == text(mixed.state()["learnt"])
    assert len(whole.epochs) > 3
