"""The same answers, told after the same numbers of decisions, lead to the same state in whatever order and in whatever
parts they are told; what is too old does not count, whoever else was told.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb
from comband.explore.explorers import ArmsExploration
from tests.certify.test_twin import LISTS, PROBLEM, RARE, N
from tests.states import text

READINGS: tuple[dict[str, Any], ...] = ({}, {}, {"places": "pairs"}, {"places": (1.0, 0.6, 0.3)}, {"feedback": "total"})


def learnt(learner: cb.certify.CertifyingLearner) -> str:
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


def learners_from(rng: np.random.Generator, n: int = 2) -> list[cb.certify.CertifyingLearner]:
    """Some that are alike."""
    problem = replace(PROBLEM, **READINGS[rng.integers(len(READINGS))])
    own = problem.feedback == "items" and problem.places is None and rng.random() < 0.3
    options: dict[str, Any] = {**options_from(rng), "exploration": ArmsExploration(True) if own else None}
    policies = cb.PolicySet.from_lists(LISTS, problem)
    return [cb.certify.CertifyingLearner(problem, policies, **options) for _ in range(n)]


class Script:
    """What is asked and when each answer comes: up to four batches late, some never, some twice."""

    def __init__(self, rng: np.random.Generator, learner: cb.certify.CertifyingLearner) -> None:
        self.rng, self.period, self.patience, self.asked = rng, learner.spec.period, learner.spec.patience, 0
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
    learner: cb.certify.CertifyingLearner,
    decisions: cb.Decisions,
    due: list[tuple[int, NDArray[np.float64]]],
    rng: np.random.Generator | None,
) -> None:
    """All answers at once, in the order of decisions; or in any order and in any parts."""
    order = np.argsort([i for i, _ in due], kind="stable") if rng is None else rng.permutation(len(due))
    share = 0.0 if rng is None else rng.random()
    cuts = np.flatnonzero((np.zeros if rng is None else rng.random)(max(len(due) - 1, 0)) < share) + 1
    for part in np.split(order, cuts):
        if len(part):
            rewards = np.stack([due[k][1] for k in part])
            totals = learner.problem.feedback == "total"
            learner.tell(decisions[[due[k][0] for k in part]], rewards.sum(axis=1) if totals else rewards)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**9))
def test_the_order_and_the_parts_in_which_answers_are_told_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole, mixed = learners_from(rng)
    script = Script(rng, whole)
    asked: cb.Decisions | None = None
    other: cb.Decisions | None = None
    for batch in range(25):
        if whole.spec.open_field and batch % 8 == 7 and script.asked % whole.spec.period == 0:
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
        if batch % 3 == 0:  # writing down all that is learnt is most of the work
            assert learnt(whole) == learnt(mixed)
    assert whole.done == mixed.done
    at_once, in_parts = whole.status(), mixed.status()
    # What a guard has seen when it speaks, and the verdict that then says so, depend on when it looks.
    assert replace(at_once, warnings=(), verdict=None) == replace(in_parts, warnings=(), verdict=None)
    assert at_once.warnings or in_parts.warnings or at_once.verdict == in_parts.verdict
    assert learnt(whole) == learnt(mixed)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**9))
def test_saved_and_loaded_at_any_moment_it_goes_on_bit_for_bit(tmp_path_factory: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path: Path = tmp_path_factory.mktemp("files") / "learner.npz"
    one, other = learners_from(rng)
    given_again = {"exploration": one.spec.exploration}
    script, asked, others = Script(rng, one), [], []
    for batch in range(25):
        X = script.contexts()
        asked.append(one.ask(X))
        if rng.random() < 0.3:
            other = _reloaded(other, path, given_again)
        others.append(other.ask(X))
        np.testing.assert_array_equal(asked[-1].lists, others[-1].lists)
        np.testing.assert_array_equal(asked[-1].propensities, others[-1].propensities)
        if rng.random() < 0.3:
            other = _reloaded(other, path, given_again)
        due = script.answers(batch, asked[-1].lists)
        if rng.random() < 0.3:  # for a while nothing is told
            script.pending += [(batch + 1, i, rewards) for i, rewards in due]
            continue
        tell(one, reduce(add, asked), due, None)
        tell(other, reduce(add, others), due, None)
        if batch % 3 == 0:
            assert learnt(one) == learnt(other)
        if rng.random() < 0.2:
            assert one.done == other.done
    assert learnt(one) == learnt(other)
    assert replace(one.status(), warnings=()) == replace(other.status(), warnings=())


def _reloaded(
    learner: cb.certify.CertifyingLearner, path: Path, objects: dict[str, Any]
) -> cb.certify.CertifyingLearner:
    learner.save(path)
    return cb.certify.CertifyingLearner.load(path, learner.policies, **objects)


def one_learner(**options: Any) -> cb.AdaptiveComband:
    return cb.AdaptiveComband(PROBLEM, cb.PolicySet.from_lists(LISTS, PROBLEM), epsilon=0.02, seed=1, **options)


@pytest.mark.parametrize("others", [False, True])
def test_an_answer_is_late_by_the_decisions_made_since_whoever_else_was_told(others: bool) -> None:
    """With a patience of 5 an answer may come when 4 further decisions were made, and not when 5 were."""
    learner = one_learner(patience=5)
    asked = [learner.ask(np.zeros(1, dtype=int)) for _ in range(5)]
    if others:
        for one in asked[2:]:
            learner.tell(one, np.zeros((1, 3)))
    reward = np.array([[0.5, 0.0, 0.0]])
    learner.tell(asked[0], reward)
    assert (learner.status().late, learner.evidence.reward) == (0, 0.5)
    for _ in range(2):
        last = learner.ask(np.zeros(1, dtype=int))
        if others:
            learner.tell(last, np.zeros((1, 3)))
    learner.tell(asked[1], reward)
    assert (learner.status().late, learner.evidence.reward) == (1, 0.5)
    assert learner.status().missing == 1


def test_within_a_period_too_what_is_late_does_not_count() -> None:
    """All of a period enters together: some of it is overdue for a while before."""
    learner = one_learner(patience=5, period=20)
    asked = [learner.ask(np.zeros(5, dtype=int)) for _ in range(3)]
    assert (learner.rounds, learner.queue.oldest, learner.queue.waiting) == (0, 10, 5)
    learner.tell(asked[0] + asked[2], np.tile([0.5, 0.0, 0.0], (10, 1)))
    status = learner.status()
    assert (status.late, status.missing, status.waiting, learner.queue.behind) == (5, 0, 0, 5)
    learner.tell(asked[1], np.zeros((5, 3)))
    learner.tell(learner.ask(np.zeros(5, dtype=int)), np.zeros((5, 3)))
    assert (learner.rounds, learner.status().missing, learner.status().late) == (20, 10, 10)
    assert learner.evidence.reward == 2.5


def test_a_budget_is_one_of_decisions_and_rounds_are_those_that_count() -> None:
    """Clicks alone are told, of one decision in twenty."""
    learner, rng = one_learner(patience=60, max_rounds=500), np.random.default_rng(0)
    made = 0
    while not learner.done:
        decisions = learner.ask(rng.integers(N, size=20))
        made += 20
        clicked = np.flatnonzero(rng.random(20) < 0.05)
        if len(clicked):
            learner.tell(decisions[clicked], np.tile([1.0, 0.0, 0.0], (len(clicked), 1)))
    assert (made, learner.decisions_left) == (500, 0)
    counts = learner.rounds, learner.evidence.rounds, learner.status().rounds, learner.result().rounds
    assert counts == (counts[0],) * 4
    assert 440 <= counts[0] < 500
    assert learner.rounds == 500 - learner.queue.waiting - learner.queue.behind


def test_an_answer_that_was_told_in_vain_may_come_again_and_a_late_one_may_not() -> None:
    learner = one_learner(patience=5)
    asked = [learner.ask(np.zeros(1, dtype=int)) for _ in range(8)]
    learner.queue.note_failed({0: np.array([1, 4])})  # the first of them is late
    assert learner.queue.failed.tolist() == [4]
    for _ in range(5):
        learner.ask(np.zeros(1, dtype=int))
    learner.tell(asked[1] + asked[4], np.tile([0.5, 0.0, 0.0], (2, 1)))
    assert (learner.status().late, learner.evidence.reward) == (1, 0.5)


# ---- decisions that others drew --------------------------------------------------------------------------------------


def drawn_with(learner: cb.AdaptiveComband, epoch: int, n: int) -> cb.Decisions:
    explorer = learner.epochs[epoch].explorer
    return explorer.draw(np.zeros(n, dtype=int), np.random.default_rng(1), epoch=epoch).decisions


def test_all_decisions_of_a_period_are_drawn_with_one_plan() -> None:
    learner = one_learner(period=50, first_epoch=50)
    while len(learner.epochs) < 2:
        learner.tell(learner.ask(np.zeros(25, dtype=int)), np.zeros((25, 3)))
    with pytest.raises(
        cb.InputError, match="must not reach into the next period, which begins in 50 decisions, got 60"
    ):
        learner.adopt(drawn_with(learner, 0, 60))
    learner.adopt(drawn_with(learner, 0, 20))
    with pytest.raises(cb.InputError, match="30 to go, began with that of epoch 0, got epoch 1; adopt"):
        learner.ask(np.zeros(30, dtype=int))
    with pytest.raises(cb.InputError, match="one epoch's plan"):
        learner.adopt(drawn_with(learner, 1, 30))
    learner.adopt(drawn_with(learner, 0, 30))
    assert learner.ask(np.zeros(50, dtype=int)).epochs[0] == 1


def test_decisions_with_an_older_plan_that_wait_are_saved(tmp_path: Path) -> None:
    learner = one_learner(first_epoch=50)
    while len(learner.epochs) < 2:
        learner.tell(learner.ask(np.zeros(25, dtype=int)), np.zeros((25, 3)))
    asked = learner.ask(np.zeros(4, dtype=int))
    adopted = learner.adopt(drawn_with(learner, 0, 3))
    learner.tell(adopted, np.tile([0.5, 0.0, 0.0], (3, 1)))
    learner.save(tmp_path / "learner.npz")
    again = cb.AdaptiveComband.load(tmp_path / "learner.npz", learner.policies)
    for one in (learner, again):
        one.tell(asked, np.tile([0.3, 0.0, 0.0], (4, 1)))
    assert learnt(learner) == learnt(again)
    assert learner.evidence.n_rounds[-2:] == [53, 4]


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**9))
def test_parts_of_answers_come_when_they_come(seed: int) -> None:
    """Rewards at once, purchases later, reports later still, some never: told by themselves or together, in any order.
    What counts is compared with a list of what came in time.
    """
    rng = np.random.default_rng(seed)
    waits: list[int | None] = [[None, 30, 60][rng.integers(3)] for _ in range(3)]
    metrics = [
        cb.Metric(name="purchases", margin=0.1, patience=waits[1]),
        cb.Metric(name="reports", margin=0.1, direction="cost", patience=waits[2]),
    ]
    waits = [waits[0], *(waits[0] if one.patience is None else one.patience for one in metrics)]
    policies = cb.PolicySet.from_lists(LISTS, PROBLEM)
    settings_: dict[str, Any] = {"production": policies.names[4], "patience": waits[0], "first_epoch": 60}
    whole, mixed = (
        cb.AdaptiveComband(PROBLEM, policies, epsilon=0.1, delta=0.2, metrics=metrics, seed=3, **settings_)
        for _ in range(2)
    )
    names, pending = ("rewards", "purchases", "reports"), list[tuple[int, int, int, NDArray[np.float64]]]()
    counted = np.zeros((0, 3, PROBLEM.list_size))
    told = np.zeros((0, 3), dtype=bool)
    asked: cb.Decisions | None = None
    other: cb.Decisions | None = None
    for batch in range(16):
        n = int(rng.integers(1, 25))
        X = rng.integers(N, size=n)
        first, second = whole.ask(X), mixed.ask(X)
        np.testing.assert_array_equal(first.lists, second.lists)
        asked, other = (first, second) if asked is None or other is None else (asked + first, other + second)
        counted = np.concatenate([counted, np.zeros((n, 3, PROBLEM.list_size))])
        told = np.concatenate([told, np.zeros((n, 3), dtype=bool)])
        for i in range(len(asked) - n, len(asked)):
            clicked = int(rng.integers(PROBLEM.list_size)) if rng.random() < 0.6 else None
            for part in range(3):
                values = np.zeros(PROBLEM.list_size)
                if clicked is not None:
                    values[clicked] = rng.uniform(0.1, 0.9)
                if rng.random() < 0.95 or waits[part] is None:
                    pending.append((batch + int(rng.integers(part + 1)), i, part, values))
        due = [one for one in pending if one[0] <= batch]
        pending = [one for one in pending if one[0] > batch]
        for _, i, part, values in due:
            wait = waits[part]
            if wait is None or i >= len(asked) - wait:
                told[i, part], counted[i, part] = True, values
        for part in range(3):
            mine = sorted((i, k) for k, (_, i, of, _) in enumerate(due) if of == part)
            if mine:
                values = np.stack([due[k][3] for _, k in mine])
                whole.tell(asked[[i for i, _ in mine]], **{names[part]: values})
        for k in rng.permutation(len(due)):
            _, i, part, values = due[k]
            mixed.tell(other[[i]], **{names[part]: values[None]})
        assert learnt(whole) == learnt(mixed)
        age = len(asked) - np.arange(len(asked))
        settled = told | np.array([np.zeros(len(asked), bool) if one is None else age > one for one in waits]).T
        front = int(np.append(settled.all(axis=1), False).argmin())
        assert whole.rounds == front
        found = np.array([whole.evidence.reward, *_further(whole)])
        np.testing.assert_allclose(found, counted[:front].sum(axis=(0, 2)), rtol=1e-9, atol=1e-12)


def _further(learner: cb.AdaptiveComband) -> list[float]:
    """What is in the evidence of each metric."""
    guardrails = learner.evidence.guardrails
    assert guardrails is not None
    return [float(seen.events.rewards.sum()) for seen in guardrails.seen]


def test_a_part_that_comes_twice_is_a_duplicate_or_a_contradiction(tmp_path: Path) -> None:
    metrics = [cb.Metric(name="purchases", margin=0.1)]
    policies = cb.PolicySet.from_lists(LISTS, PROBLEM)
    given: dict[str, Any] = {"epsilon": 0.1, "production": policies.names[4], "metrics": metrics}
    learner = cb.AdaptiveComband(PROBLEM, policies, **given)
    decisions, clicks = learner.ask(np.zeros(4, dtype=int)), np.zeros((4, PROBLEM.list_size))
    clicks[1, 0] = 1.0
    assert learner.tell(decisions, clicks).accepted == 4
    assert learner.rounds == 0
    again = learner.tell(decisions, np.zeros_like(clicks))
    assert (again.accepted, again.duplicates, again.conflicts) == (0, 3, (1,))
    some = learner.tell(decisions[[2, 0, 0]], purchases=np.zeros((3, PROBLEM.list_size)))
    assert (some.accepted, some.duplicates) == (2, 1)
    assert learner.rounds == 1
    learner.save(tmp_path / "learner.npz")
    learner = cb.AdaptiveComband.load(tmp_path / "learner.npz", policies)
    whole = learner.tell(decisions, clicks, purchases=clicks)
    assert (whole.accepted, whole.duplicates, whole.conflicts) == (2, 2, ())
    assert learner.rounds == 4
    with pytest.raises(cb.InputError, match="tell what is known"):
        learner.tell(decisions)
    with pytest.raises(cb.InputError, match="purchases has one number per round"):
        learner.tell(decisions, purchases=np.zeros(4))
    with pytest.raises(cb.InputError, match="no metric sales"):
        learner.tell(decisions, clicks, sales=clicks)
