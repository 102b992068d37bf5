"""OnlineComband: its numbers by a twin of straight lines, what it promises and when it takes that back, and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband import theory
from comband.page import storage

PROBLEM = cb.Problem(n_actions=12, list_size=3, sparsity=1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
POLICIES = WORLD.candidates(6, seed=1)
Told = tuple[cb.Decisions, NDArray[np.float64]]


def make(**options: Any) -> cb.OnlineComband:
    return cb.OnlineComband(PROBLEM, POLICIES, **{"epsilon": 0.1, "exploration": "learnt", "seed": 4, **options})


class Twin:
    """The algorithm round by round, as the page has it."""

    def __init__(self, schedule: theory.OnlineSchedule) -> None:
        self.s = schedule
        self.sums = np.zeros(len(POLICIES))
        self.spreads = np.zeros(len(POLICIES))

    def weights(self) -> NDArray[np.float64]:
        w = np.exp(self.s.rate * (self.spreads - self.spreads.max()))
        return np.asarray(w / w.sum())

    def propensity(self, x: Any, y: int, weights: NDArray[np.float64]) -> float:
        lists = POLICIES.predict(x[None])[0]
        follow = sum(w for w, one in zip(weights, lists, strict=True) if y in one)
        return float((1 - self.s.floor) * follow + self.s.floor * 3 / 12)

    def enter(self, x: Any, shown: Any, rewards: Any, weights: NDArray[np.float64]) -> None:
        for p, own in enumerate(POLICIES.predict(x[None])[0]):
            R = sum(r / self.propensity(x, y, weights) for y, r in zip(shown, rewards, strict=True) if y in own and r)
            self.sums[p] += R
            self.spreads[p] += self.s.scale * R - math.log(1 + self.s.scale * R)

    def epsilon(self, rounds: int, delta: float) -> float:
        lam, ratio = self.s.scale, self.s.alpha / self.s.share
        low = (lam * self.sums - self.spreads).max()
        high = (lam * self.sums + ratio * self.spreads).max()
        logs = math.log(len(POLICIES)) + (1 + 1 / self.s.share) * math.log(1 / delta)
        return float((logs + high - low) / (lam * rounds))


def ask(learner: cb.OnlineComband, n: int, rng: np.random.Generator) -> Told:
    batch = WORLD.sample(n, rng)
    decisions = learner.ask(batch.contexts)
    return decisions, np.asarray(batch.answer(decisions.lists))


@pytest.mark.parametrize("propensities", ["always", "when rewarded"])
def test_weights_sums_and_evidence_are_those_of_the_twin(propensities: str) -> None:
    learner = make(epsilon=0.5, batch_size=50, propensities=propensities)
    rng, twin, rounds = np.random.default_rng(1), Twin(learner.schedule), 0
    for size in (1, 20, 7, 50, 3, 1, 1, 50, 50, 50, 20, 50, 50, 50):
        decisions, rewards = ask(learner, size, rng)
        weights = twin.weights()
        np.testing.assert_allclose(learner.weights, weights, rtol=1e-9)
        if propensities == "always":
            q = [
                [twin.propensity(x, y, weights) for y in shown]
                for x, shown in zip(decisions.contexts, decisions.lists, strict=True)
            ]
            np.testing.assert_allclose(decisions.propensities, q, rtol=1e-9)
        learner.tell(decisions, rewards)
        for x, shown, r in zip(decisions.contexts, decisions.lists, rewards, strict=True):
            twin.enter(x, shown, r, weights)
        rounds += size
        np.testing.assert_allclose(learner.estimated_totals, twin.sums, rtol=1e-9)
        np.testing.assert_allclose(learner.spreads, twin.spreads, rtol=1e-9)
        epsilon = twin.epsilon(rounds, learner.schedule.delta / 2)
        assert learner.result().epsilon <= min(epsilon * (1 + 1e-8), 1.0)
    assert learner.in_step
    assert learner.result().epsilon == pytest.approx(epsilon, rel=1e-8)
    assert epsilon < 0.9
    assert learner.result().guarantee.startswith("evidence")


def test_answers_wait_for_those_of_older_decisions() -> None:
    """What counts at any moment are the first decisions without a gap, whoever answered first."""
    learner, rng = make(batch_size=60), np.random.default_rng(2)
    decisions, rewards = ask(learner, 60, rng)
    assert rewards[30:].any()
    assert rewards[:30].any()
    weights = learner.weights.copy()
    learner.tell(decisions[30:], rewards[30:])
    assert learner.rounds == 30
    assert not learner.estimated_totals.any()
    assert "decision 0 is without answer" in str(learner.result())
    learner.tell(decisions[:29], rewards[:29])
    twin = Twin(learner.schedule)
    for row in range(29):
        twin.enter(np.asarray(decisions.contexts)[row], decisions.lists[row], rewards[row], weights)
    np.testing.assert_allclose(learner.estimated_totals, twin.sums, rtol=1e-9)
    learner.tell(decisions[29:30], rewards[29:30])
    for row in range(29, 60):
        twin.enter(np.asarray(decisions.contexts)[row], decisions.lists[row], rewards[row], weights)
    np.testing.assert_allclose(learner.estimated_totals, twin.sums, rtol=1e-9)
    np.testing.assert_allclose(learner.spreads, twin.spreads, rtol=1e-9)
    assert learner.in_step  # late within their own batch
    assert "without answer" not in str(learner.result())


def test_larger_batches_than_declared_take_the_theorem_back_in_words() -> None:
    learner, rng = make(batch_size=10), np.random.default_rng(3)
    learner.tell(*ask(learner, 10, rng))
    before = learner.in_step
    learner.tell(*ask(learner, 11, rng))
    assert (before, learner.in_step) == (True, False)
    result = learner.result()
    assert "11 decisions were made in batches of more than 10" in str(result)
    assert f"no promise about {learner.schedule.n_rounds:,} rounds" in str(result)
    plan = result.claims[1]
    assert (plan.kind, plan.holds) == ("plan", False)


def test_asking_while_answers_are_due_takes_the_theorem_back() -> None:
    learner, rng = make(batch_size=10), np.random.default_rng(3)
    first = ask(learner, 4, rng)
    second = ask(learner, 3, rng)
    assert not learner.in_step
    learner.tell(*first)
    learner.tell(*second)
    assert "3 decisions were made in batches" in str(learner.result())


def test_the_theorem_speaks_at_ends_of_batches_and_only_in_step() -> None:
    for ask_size, by_theorem in ((50, True), (51, False)):
        learner, rng = make(epsilon=0.5, batch_size=50, early_stop=False), np.random.default_rng(5)
        while not learner.done:
            learner.tell(*ask(learner, ask_size, rng))
        result = learner.result()
        assert learner.rounds >= learner.schedule.n_rounds
        assert (result.epsilon <= 0.5) is by_theorem
        assert ("the theorem" in result.guarantee) is by_theorem


def test_without_early_stop_all_of_delta_is_the_theorems() -> None:
    early, late = make(epsilon=0.5), make(epsilon=0.5, early_stop=False)
    assert late.schedule.n_rounds < early.schedule.n_rounds
    rng = np.random.default_rng(5)
    for learner in (early, late):
        while not learner.done:
            learner.tell(*ask(learner, 1, rng))
    assert late.rounds == late.schedule.n_rounds
    assert early.rounds < early.schedule.n_rounds
    assert "evidence" in early.result().guarantee


def test_uniform_lists_where_they_need_fewer_rounds() -> None:
    problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.4, n_users=20, seed=1)
    policies = world.candidates(5, seed=2)
    learner = cb.OnlineComband(problem, policies, epsilon=0.1, early_stop=False, seed=3)
    n = theory.uniform_exploration(problem, n_policies=5, epsilon=0.1, delta=0.05)
    assert learner.schedule.uniform
    assert learner.schedule.n_rounds == n < learner.schedule.n_online
    result = cb.run(learner, world, batch_size=1000, seed=4).result  # any batches: there is nothing to learn from them
    assert learner.in_step
    assert result.epsilon == 0.1
    assert result.guarantee == f"the theorem, after {n:,} rounds"
    assert f"chosen before any data: {n:,} with uniform lists" in str(result)
    totals = learner.estimated_totals
    more = learner.ask(world.sample(50, np.random.default_rng(5)).contexts)
    learner.tell(more, np.eye(2)[np.zeros(50, dtype=int)])
    np.testing.assert_array_equal(learner.estimated_totals, totals)  # the theorem is about n rounds exactly


class Counting:
    """A policy that counts the contexts it is asked about."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.contexts = inner, 0

    def predict(self, X: Any) -> Any:
        self.contexts += len(X)
        return self.inner.predict(X)


def test_all_candidates_are_asked_only_about_rewarded_contexts() -> None:
    counting = [Counting(policy) for policy in POLICIES]
    learner = cb.OnlineComband(
        PROBLEM, cb.PolicySet(counting), epsilon=0.1, batch_size=50, exploration="learnt", seed=1
    )
    rng, rewarded = np.random.default_rng(6), 0
    for _ in range(10):
        decisions, rewards = ask(learner, 50, rng)
        learner.tell(decisions, rewards)
        rewarded += int(rewards.any(axis=1).sum())
    asked = sum(policy.contexts for policy in counting)
    assert 0 < rewarded < 200
    assert asked <= 6 * rewarded + 500  # once each where a reward came, and the one that is shown


def test_lists_are_shown_in_random_order() -> None:
    """A place that pays more pays all alike: where an item stands does not depend on whose list it is."""
    twins = cb.PolicySet([POLICIES[0]] * 2, ["one", "other"])
    learner = cb.OnlineComband(PROBLEM, twins, epsilon=0.1, exploration="learnt", seed=1)
    x = np.repeat(WORLD.sample(1, np.random.default_rng(0)).contexts, 4000, axis=0)
    lists = learner.ask(x).lists
    item = POLICIES.predict(x[:1])[0, 0, 0]  # the first of their list
    places = np.bincount(np.nonzero(lists == item)[1], minlength=3)
    n = places.sum()
    assert learner.floor < 0.7  # most lists are the twins'
    assert np.abs(places - n / 3).max() < 6 * np.sqrt(n * 2 / 9)  # six standard deviations: 1e-8 by chance


def test_totals_and_places_are_refused() -> None:
    with pytest.raises(cb.InputError, match="total"):
        cb.OnlineComband(cb.Problem(12, 3, 1, feedback="total"), POLICIES, epsilon=0.1)
    with pytest.raises(cb.InputError, match="places"):
        cb.OnlineComband(cb.Problem(12, 3, 1, places="pairs"), POLICIES, epsilon=0.1)


def test_files_hold_waiting_answers_and_the_schedule_bit_for_bit(tmp_path: Path) -> None:
    learner, rng = make(batch_size=40), np.random.default_rng(7)
    for _ in range(5):
        learner.tell(*ask(learner, 40, rng))
    decisions, rewards = ask(learner, 40, rng)
    learner.tell(decisions[10:], rewards[10:])
    learner.save(tmp_path / "learner.npz")
    again = cb.OnlineComband.load(tmp_path / "learner.npz", POLICIES)
    assert again.schedule == learner.schedule
    for one in (learner, again):
        one.tell(decisions[:10], rewards[:10])
    assert again.estimated_totals.tolist() == learner.estimated_totals.tolist()
    assert again.spreads.tolist() == learner.spreads.tolist()
    assert again.weights.tolist() == learner.weights.tolist()
    assert str(again.result()) == str(learner.result())
    X = WORLD.sample(40, rng).contexts
    assert again.ask(X).lists.tolist() == learner.ask(X).lists.tolist()


def test_files_that_claim_what_no_data_can_show_are_refused() -> None:
    learner, rng = make(epsilon=0.5, batch_size=40), np.random.default_rng(7)
    for _ in range(10):
        learner.tell(*ask(learner, 40, rng))

    def altered(**changes: Any) -> storage.State:
        state = learner.state()
        return {**state, "learnt": {**state["learnt"], **changes}}

    learnt = learner.state()["learnt"]
    cb.OnlineComband.from_state(altered(), POLICIES)
    for changes, why in (
        ({"promise": {**learnt["promise"], "epsilon": 1e-3}}, "no data can lead to what it promises"),
        ({"promise": {**learnt["promise"], "rounds": 10_000}}, "no data can lead to what it promises"),
        ({"counted": 350}, "its counted rounds"),
        ({"schedule": {**learnt["schedule"], "n_rounds": 7}}, "its rounds must be those of its parameters"),
        ({"schedule": {**learnt["schedule"], "scale": 3.0}}, "does not answer to what it has seen"),
        ({"bends": learnt["bends"] * 2}, "weights must be those of the estimates"),
    ):
        with pytest.raises(cb.InputError, match=why):
            cb.OnlineComband.from_state(altered(**changes), POLICIES)


def test_equal_candidates_stay_in_their_order_when_loaded(tmp_path: Path) -> None:
    """Who of equal ones leads is drawn by lot, once: not by the order of the list, and not anew by a file."""
    twins = cb.PolicySet([POLICIES[0]] * 12, [f"twin {i}" for i in range(12)])
    leaders = set()
    for seed in range(6):
        learner = cb.OnlineComband(PROBLEM, twins, epsilon=0.2, batch_size=60, exploration="learnt", seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(4):
            learner.tell(*ask(learner, 50 + seed, rng))
        decisions, _ = ask(learner, 20, rng)
        learner.tell(decisions, np.zeros((20, 3)))
        leaders.add(learner.status().leader)
        learner.save(tmp_path / "learner.npz")
        assert cb.OnlineComband.load(tmp_path / "learner.npz", twins).status().leader == learner.status().leader
    assert len(leaders) > 1
