"""Candidates whose lists come with the request."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband.certify.watch import ChangeGuard
from comband.explore.explorers.base import explorer_from_state
from comband.page.problem import InputError
from comband.policies import RequestedLists

P, K, M = 6, 30, 3
PROBLEM = cb.Problem(n_actions=K, list_size=M, sparsity=1)
NAMES = [f"ranker {i}" for i in range(P)]


class World:
    """Requests with a table of lists each; items clicked by chances of their own, candidate 0 by far the best."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool = np.stack(
            [np.stack([self.rng.choice(K - 6, M, replace=False) + 6 for _ in range(P)]) for _ in range(50)]
        ).astype(np.int32)
        for i in range(50):
            self.pool[i, 0] = self.rng.choice(6, M, replace=False)
        self.chances = np.where(np.arange(K) < 6, 0.3, 0.03)

    def requests(self, n: int) -> NDArray[np.int64]:
        return self.rng.integers(50, size=n)

    def answer(self, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        clicked = self.rng.random(lists.shape) < self.chances[lists]
        return np.where(clicked & (clicked.cumsum(axis=1) == 1), 1.0, 0.0)


def test_a_learner_cannot_tell_them_from_tabulated_ones() -> None:
    """The same requests, once as numbers of a table's rows and once as what stands there."""
    results = []
    for requested in (True, False):
        world = World(1)
        policies = (
            RequestedLists(NAMES, PROBLEM)
            if requested
            else cb.PolicySet.from_lists(world.pool.transpose(1, 0, 2), PROBLEM, names=NAMES)
        )
        learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.1, seed=3)
        while not learner.done:
            rows = world.requests(40)
            decisions = learner.ask(world.pool[rows] if requested else rows)
            learner.tell(decisions, world.answer(decisions.lists))
        results.append((learner.rounds, learner.result().name, learner.result().epsilon, learner.evidence.log_wealth))
    assert results[0][:3] == results[1][:3]
    assert results[0][1] == NAMES[0]
    np.testing.assert_array_equal(results[0][3], results[1][3])


def test_numbers_need_a_meaning_within_one_request_only() -> None:
    """Items numbered anew in each request: the same candidates are found, whatever items are called."""
    world = World(2)
    learner = cb.AdaptiveComband(
        cb.Problem(P * M, M, sparsity=1),
        RequestedLists(NAMES, cb.Problem(P * M, M, sparsity=1)),
        epsilon=0.1,
        seed=3,
    )
    while not learner.done:
        tables = world.pool[world.requests(40)]
        keys = [np.unique(table) for table in tables]
        local = np.stack([np.searchsorted(known, table) for known, table in zip(keys, tables, strict=True)])
        decisions = learner.ask(local)
        shown = np.stack([known[shown] for known, shown in zip(keys, decisions.lists, strict=True)])
        learner.tell(decisions, world.answer(shown))
    assert learner.result().name == NAMES[0]


@pytest.mark.parametrize("late", [False, True])
def test_decisions_drawn_elsewhere_count_as_if_drawn_here(late: bool) -> None:
    """An explorer that travelled draws what the learner itself would have drawn; the evidence is the same, and with
    plans that arrive late the winner is.
    """
    results = []
    for elsewhere in (True, False):
        world = World(4)
        policies = RequestedLists(NAMES, PROBLEM)
        learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.1, seed=3)
        rng = np.random.default_rng(8)
        learner._rng = np.random.default_rng(8)
        behind: list[int] = [0] * (5 if late else 1)
        while not learner.done:
            X = world.pool[world.requests(40)]
            if elsewhere:
                behind = [*behind[1:], len(learner.epochs) - 1]
                k = behind[0]
                explorer = explorer_from_state(learner.epochs[k].explorer.state(), policies, PROBLEM)
                decisions = learner.adopt(explorer.draw(X, rng, epoch=k).decisions)
                assert (decisions.epochs == k).all()
            else:
                decisions = learner.ask(X)
            learner.tell(decisions, world.answer(decisions.lists))
        again = cb.AdaptiveComband.from_state(learner.state(), policies)
        np.testing.assert_array_equal(again.evidence.log_wealth, learner.evidence.log_wealth)
        results.append((learner.result().name, learner.evidence.log_wealth.copy(), learner.watch.warnings))
    assert results[0][0] == results[1][0] == NAMES[0]
    assert results[0][2] == results[1][2] == ()
    if not late:
        np.testing.assert_array_equal(results[0][1], results[1][1])


def test_rounds_of_older_plans_do_not_look_like_a_change() -> None:
    """Hundreds of rounds of an older plan come after each epoch's beginning: the drift guard numbers the epoch's own
    rounds without them, and what it watches is saved and loaded.
    """
    world, policies = World(5), RequestedLists(NAMES, PROBLEM)
    world.chances = np.full(K, 0.1)  # nobody is better
    learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.001, first_epoch=100, seed=3)
    rng, plans = np.random.default_rng(8), [0] * 20
    for _ in range(150):
        plans = [*plans[1:], len(learner.epochs) - 1]
        k = plans[0]
        drawn = learner.epochs[k].explorer.draw(world.pool[world.requests(40)], rng, epoch=k)
        decisions = learner.adopt(drawn.decisions)
        learner.tell(decisions, world.answer(decisions.lists))
    assert len(learner.epochs) > 5
    own = learner.evidence.rounds_of(len(learner.epochs) - 1)
    change = learner.state()["learnt"]["watch"]["change"]
    for ids in (change["in_favour"], change["opposed"]):
        assert len(ids) == 0 or 0 <= ids[0] <= ids[-1] < own
    assert learner.watch.warnings == ()
    assert (
        cb.AdaptiveComband.from_state(learner.state(), policies).watch[ChangeGuard].rounds
        == learner.watch[ChangeGuard].rounds
    )


def test_what_cannot_be_adopted() -> None:
    policies = RequestedLists(NAMES, PROBLEM)
    learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.1, seed=3)
    X = World(6).pool[:4]
    drawn = learner.epochs[0].explorer.draw(X, 1, epoch=7).decisions
    with pytest.raises(InputError, match="one epoch in 0 … 0"):
        learner.adopt(drawn)
    with pytest.raises(InputError, match="Decisions"):
        learner.adopt(X)  # type: ignore[arg-type]
    assert learner.rounds == 0
    assert len(learner.ask(X)) == 4


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (np.zeros((2, P, M + 1), dtype=int), "tables"),
        (np.zeros((2, P)), "tables"),
        (np.full((2, P, M), K), "items must lie"),
        ([[["a"] * M] * P], "tables"),
        ([[1], [2, 3]], "tables"),
    ],
)
def test_tables_of_another_form_are_refused(contexts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RequestedLists(NAMES, PROBLEM).predict(contexts)


def test_candidates_are_single_policies_too() -> None:
    policies = RequestedLists(NAMES, PROBLEM)
    tables = World(7).pool[:5]
    np.testing.assert_array_equal(policies[2].predict(tables), tables[:, 2])
    np.testing.assert_array_equal(policies.predict(tables, [4, 1]), tables[:, [4, 1]])
    with pytest.raises(InputError, match="cannot be taken apart"):
        policies.subset([0, 1])


def test_tables_without_room_for_who_joins_later_are_told_what_to_do() -> None:
    problem = cb.Problem(8, 3, sparsity=1)
    tables = np.argsort(np.random.default_rng(1).random((20, 2, 8)), axis=2)[:, :, :3]
    learner = cb.AdaptiveComband(
        problem, RequestedLists(["a", "b"], problem, fallback="a"), epsilon=0.01, open_field=True, seed=1
    )
    learner.ask(tables)
    with pytest.raises(cb.InputError, match=r"shape \(20, 2, 3\).* rows for all there may ever be, −1 in"):
        learner.add(name="c")
    with pytest.raises(cb.InputError, match=r"shape \(20, 2, 2\) and dtype int64\.$"):
        learner.ask(tables[:, :, :2])
