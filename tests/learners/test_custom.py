"""A learner of one's own: two methods, and everything else is done for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.learners import CustomLearner
from comband.regret import play
from comband.statistics import ValueSums
from comband.worlds.testing import SelectorSuite

PROBLEM = cb.Problem(n_actions=12, list_size=3, sparsity=1)
SHOP = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
CANDIDATES = SHOP.candidates(6, seed=1)


class Greedy(CustomLearner):
    """ε-greedy with attributes of every kind that files hold."""

    def __init__(
        self, problem: Any, policies: Any, *, epsilon: float = 0.1, horizon: int | None = None, seed: Any = 0
    ) -> None:
        super().__init__(problem, policies, horizon=horizon, seed=seed)
        self.epsilon = epsilon
        self.totals = np.zeros(len(policies))
        self.seen = 0
        self.best_of: dict[str, Any] = {"round": 0.0, "lists": [np.zeros(3, dtype=np.int32)]}
        self.last: str | None = None

    def choose(self, X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        leader = np.eye(len(self.totals))[self.totals.argmax()]
        drawn = cb.Mixture(self.policies, leader, problem=self.problem, floor=self.epsilon).draw(X, rng)
        return drawn.lists, drawn.propensities

    def update(self, rounds: cb.Rounds) -> None:
        self.totals += self.gains(rounds)
        self.seen += len(rounds)
        self.last = "told"


class TestGreedy(SelectorSuite):
    depends_on_batches = True

    def learner(self, seed: int) -> cb.Learner:
        return Greedy(self.problem, self.policies, horizon=600, seed=seed)


def batch(n: int = 50, seed: int = 3) -> Any:
    return SHOP.sample(n, np.random.default_rng(seed))


@pytest.mark.parametrize(("verbs", "lacks"), [((), "choose and update"), (("choose",), "update")])
def test_a_missing_method_is_named_with_how_to_write_it(verbs: tuple[str, ...], lacks: str) -> None:
    half: Any = type("Half", (CustomLearner,), {verb: getattr(Greedy, verb) for verb in verbs})
    with pytest.raises(cb.InputError, match=rf"Half lacks {lacks}\. Write def {lacks.split()[0]}\(self"):
        half(PROBLEM, CANDIDATES)


def test_what_an_object_lacks_to_be_a_learner_is_named() -> None:
    class Mine:
        problem = PROBLEM
        done = False

        def ask(self, X: Any) -> Any: ...

        def tell(self, decisions: Any, rewards: Any) -> Any: ...

    mine: Any = Mine()
    lacks = "Mine lacks rounds, decisions_left, status, result; subclass comband.learners.CustomLearner"
    with pytest.raises(cb.InputError, match=lacks):
        cb.run(mine, SHOP, max_rounds=10)
    lists = cb.PolicySet.from_lists([[[0, 1, 2]] * 50, [[3, 4, 5]] * 50], PROBLEM)
    sequence = cb.worlds.switching(lists, PROBLEM, horizon=10, seed=0)
    with pytest.raises(cb.InputError, match=lacks):
        play(mine, sequence)


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (lambda lists, q: lists, r"two arrays, lists \(50, 3\) and their propensities \(50, 3\), got ndarray"),
        (lambda lists, q: (lists[:, :2], q), "list"),
        (lambda lists, q: (lists, q[:, :2]), r"propensities must have the shape of the lists, \(50, 3\)"),
        (lambda lists, q: (lists, q * 0), "propensit"),
        (lambda lists, q: (lists, q * np.nan), "propensit"),
    ],
)
def test_what_choose_returns_is_checked(chosen: Any, says: str) -> None:
    class Odd(Greedy):
        def choose(self, X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
            self.totals += 7
            answer: tuple[Any, Any] = chosen(*super().choose(X, rng))
            return answer

    learner = Odd(PROBLEM, CANDIDATES)
    before = str(learner.state()["rng"])
    with pytest.raises(cb.InputError, match=says):
        learner.ask(batch().contexts)
    assert not learner.totals.any()
    assert str(learner.state()["rng"]) == before


def test_an_update_that_fails_changes_nothing() -> None:
    class Fails(Greedy):
        fail = True

        def update(self, rounds: cb.Rounds) -> None:
            super().update(rounds)
            self.best_of["round"] = 1.0
            if Fails.fail:
                raise RuntimeError("out of order")

    learner, world = Fails(PROBLEM, CANDIDATES), batch()
    decisions = learner.ask(world.contexts)
    rewards = world.answer(decisions.lists)
    with pytest.raises(RuntimeError, match="out of order"):
        learner.tell(decisions, rewards)
    assert (learner.rounds, learner.seen, bool(learner.totals.any()), learner.best_of["round"]) == (0, 0, False, 0.0)
    Fails.fail = False
    assert learner.tell(decisions, rewards).accepted == 50
    assert learner.seen == learner.rounds == 50


def test_gains_are_importance_weighted_and_name_the_result() -> None:
    learner, world = Greedy(PROBLEM, CANDIDATES, epsilon=1.0), batch(400)
    decisions = learner.ask(world.contexts)
    rounds = cb.Rounds(decisions, world.answer(decisions.lists))
    learner.tell(decisions, rounds.rewards)
    shown = CANDIDATES.predict(decisions.contexts)  # (n, P, m)
    expected = np.zeros(6)
    for t in range(400):
        for item, reward, q in zip(decisions.lists[t], rounds.rewards[t], decisions.propensities[t], strict=True):
            expected += (shown[t] == item).any(axis=1) * reward / q
    np.testing.assert_allclose(learner.totals, expected, rtol=1e-12)
    np.testing.assert_allclose(learner.gains(rounds), ValueSums.from_events(rounds.events(), CANDIDATES).sums)
    result = learner.result()
    assert result.index == int(expected.argmax())
    assert learner.status().leader == result.name
    assert "no bound is known of this learner" in str(result)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    learner: Any = Greedy(PROBLEM, CANDIDATES)
    learner.model = object()
    with pytest.raises(cb.InputError, match=r"the attribute model cannot be saved: files hold arrays.* got object"):
        learner.save(tmp_path / "learner.npz")

    class Forgets(Greedy):
        def __init__(self, problem: Any, policies: Any, *, rate: float = 0.5, seed: Any = 0) -> None:
            super().__init__(problem, policies, seed=seed)

    with pytest.raises(cb.InputError, match=r"takes rate but keeps no attribute of that name; write self.rate = rate"):
        Forgets(PROBLEM, CANDIDATES).save(tmp_path / "learner.npz")


def test_files_take_defaults_for_what_came_later_and_refuse_what_is_gone(tmp_path: Path) -> None:
    learner = Greedy(PROBLEM, CANDIDATES, epsilon=0.3, seed=5)
    world = batch()
    decisions = learner.ask(world.contexts)
    learner.tell(decisions, world.answer(decisions.lists))
    state = learner.state()

    del state["learnt"]["attributes"]["seen"]
    earlier = Greedy.from_state(state, CANDIDATES)
    assert earlier.seen == 0
    assert earlier.epsilon == 0.3
    assert earlier.last == "told"
    np.testing.assert_array_equal(earlier.totals, learner.totals)

    state["learnt"]["attributes"]["momentum"] = 1.0
    with pytest.raises(cb.InputError, match="it holds momentum, which the constructor of Greedy does not set"):
        Greedy.from_state(state, CANDIDATES)
    del state["learnt"]["attributes"]["momentum"]
    state["learnt"]["attributes"]["totals"] = "many"
    with pytest.raises(cb.InputError, match="its totals must be an array of float64 with 1 axes"):
        Greedy.from_state(state, CANDIDATES)
