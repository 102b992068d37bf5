"""The same answers, told after the same numbers of decisions, lead to the same state in whatever order and in whatever
parts they are told; what is too old does not count, whoever else was told.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb
from comband.exploration import ArmsExploration
from tests.learners.test_twin import LISTS, PROBLEM, RARE, N
from tests.states import text

READINGS: tuple[dict[str, Any], ...] = ({}, {}, {"places": "pairs"}, {"places": (1.0, 0.6, 0.3)}, {"feedback": "total"})


def learnt(learner: cb.learners.CertifyingLearner) -> str:
    """All that is learnt, but for what depends on when guards look, which has no say in what is shown; and for the
    number of the copy that made a decision.
    """
    state = learner.state()["learnt"]
    for batch in state["queue"]["open"]:
        del batch["makers"]
    watch = state["watch"]
    kept = {"places": ("entered", "ids", "rewards"), "change": ("in_favour", "opposed"), "orders": ("rewarded",)}
    return text({**state, "watch": {part: {name: watch[part][name] for name in kept[part]} for part in kept}})


def options_from(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "patience": [None, 25, 60][rng.integers(3)],
        "period": int(rng.choice([1, 20])),
        "recent": [None, 160][rng.integers(2)],
        "open_field": bool(rng.integers(2)),
        "epsilon": [0.02, 0.4][rng.integers(2)],
        "delta": 0.2,
        "first_epoch": 60,
        "seed": 3,
    }


def learners_from(rng: np.random.Generator, n: int = 2) -> list[cb.learners.CertifyingLearner]:
    """Some that are alike."""
    problem = replace(PROBLEM, **READINGS[rng.integers(len(READINGS))])
    own = problem.feedback == "items" and problem.places is None and rng.random() < 0.3
    options: dict[str, Any] = {**options_from(rng), "exploration": ArmsExploration(True) if own else None}
    policies = cb.PolicySet.from_lists(LISTS, problem)
    return [cb.learners.CertifyingLearner(problem, policies, **options) for _ in range(n)]


class Script:
    """What is asked and when each answer comes: up to four batches late, some never, some twice."""

    def __init__(self, rng: np.random.Generator, learner: cb.learners.CertifyingLearner) -> None:
        self.rng, self.period, self.patience, self.asked = rng, learner.period, learner.patience, 0
        self.pending: list[tuple[int, int, NDArray[np.float64]]] = []

    def contexts(self) -> NDArray[np.int64]:
        most = min(self.period - self.asked % self.period if self.period > 1 else 24, self.patience or 24)
        n = int(self.rng.integers(1, most + 1))
        x = self.rng.integers(RARE, size=n)
        x[self.rng.random(n) < 0.05] = RARE
        return np.asarray(x)

    def answers(self, batch: int, lists: NDArray[np.int32]) -> list[tuple[int, NDArray[np.float64]]]:
        """Those that come before the next decision, of all so far; rewards are such that the order of sums shows."""
        for shown in lists:
            wanted = (shown < 3) & (self.rng.random(len(shown)) < 0.4) & (np.arange(len(shown)) < 2)
            rewards = np.where(wanted, self.rng.uniform(0.1, 0.9, size=len(shown)), 0.0)
            delay = 0 if self.rng.random() < 0.7 else int(self.rng.integers(1, 5))
            if self.rng.random() < 0.97 or self.patience is None:
                self.pending.append((batch + delay, self.asked, rewards))
            if self.rng.random() < 0.03:
                self.pending.append((batch + delay + 1, self.asked, rewards))
            self.asked += 1
        due = [(i, rewards) for when, i, rewards in self.pending if when <= batch]
        self.pending = [one for one in self.pending if one[0] > batch]
        return due


def tell(
    learner: cb.learners.CertifyingLearner,
    decisions: cb.Decisions,
    due: list[tuple[int, NDArray[np.float64]]],
    rng: np.random.Generator | None,
) -> None:
    """All answers at once, in the order of decisions; or in any order and in any parts."""
    order = np.argsort([i for i, _ in due], kind="stable") if rng is None else rng.permutation(len(due))
    cuts = [] if rng is None else np.flatnonzero(rng.random(max(len(due) - 1, 0)) < rng.random()) + 1
    for part in np.split(order, cuts):
        if len(part):
            rewards = np.stack([due[k][1] for k in part])
            totals = learner.problem.feedback == "total"
            learner.tell(decisions[[due[k][0] for k in part]], rewards.sum(axis=1) if totals else rewards)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**9))
def test_the_order_and_the_parts_in_which_answers_are_told_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole, mixed = learners_from(rng)
    script = Script(rng, whole)
    asked: cb.Decisions | None = None
    other: cb.Decisions | None = None
    for batch in range(25):
        if whole.open_field and batch % 8 == 7 and script.asked % whole.period == 0:
            gone = whole.policies.names[whole.epochs.current.leader]
            for one in (whole, mixed):
                one.withdraw(gone)
        X = script.contexts()
        first, second = whole.ask(X), mixed.ask(X)
        np.testing.assert_array_equal(first.lists, second.lists)
        np.testing.assert_array_equal(first.propensities, second.propensities)
        assert first.epochs.tolist() == second.epochs.tolist()
        asked, other = (first, second) if asked is None or other is None else (asked + first, other + second)
        due = script.answers(batch, first.lists)
        tell(whole, asked, due, None)
        tell(mixed, other, due, rng)
        assert learnt(whole) == learnt(mixed)
    assert whole.done == mixed.done
    assert replace(whole.status(), warnings=()) == replace(mixed.status(), warnings=())
    assert learnt(whole) == learnt(mixed)
