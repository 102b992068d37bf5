"""Candidates that come and go, and candidates that do not answer, over the service: as the library has it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import comband as cb
from comband.page.problem import InputError
from comband.policies import RequestedLists
from comband.serve.client import Client, ServiceError
from comband.serve.deciding import GivenNumbers
from comband.serve.digests import uniform_numbers
from comband.serve.journal import Experiment, NotRunningError, StoredDecision
from comband.serve.learning import JournalLists, learn_block
from comband.serve.requests import Body, problem_of
from comband.serve.service import FieldClosedError, Service
from comband.serve.wire import DecisionRequest, FieldChange, RewardPost, as_json
from tests.serve import postgres
from tests.serve.test_service import same, state_of
from tests.serve.worlds import NAMES, M, World, caught_up, listening, numbered, service, serving, spec
from tests.waiting import LIMIT

LATER = ["second", *(f"other {i}" for i in range(4))]
CHANGES = {  # before which request
    96: FieldChange(add="best"),
    192: FieldChange(withdraw="other 0", planned=True),
    256: FieldChange(add="other 1, retrained", withdraw="other 1"),
}
ALL = [*LATER, "best", "other 1, retrained"]


def lists_at(world: World, number: int) -> dict[str, list[str | int]]:
    """What every candidate ever would show."""
    lists = world.lists(number)
    return {**lists, "other 1, retrained": lists["other 1"][::-1]}


def field_at(number: int) -> list[str]:
    names = list(LATER)
    for when, change in CHANGES.items():
        if when <= number:
            names += [change.add] if change.add is not None else []
            names = [name for name in names if name != change.withdraw]
    return names


async def play(made: Service, world: World, first: int, last: int) -> None:
    """Requests with the lists of the field as it is; changes at their times."""
    for start in range(first, last, 16):
        if start in CHANGES:
            changed = await made.change_field("test", CHANGES[start])
            assert changed.applied
            assert changed.candidates == field_at(start)
        asked = [
            DecisionRequest(
                lists={name: one for name, one in lists_at(world, i).items() if name in field_at(start)},
                request=f"r{i}",
            )
            for i in range(start, start + 16)
        ]
        decisions = await made.decide("test", asked)
        await made.reward("test", [world.post(start + i, one) for i, one in enumerate(decisions)])
        await caught_up(made)


def open_spec(**more: Any) -> Any:
    return spec(candidates=LATER, epsilon=0.01, open_field=True, fallback="second", **more)


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_changing_field_is_the_librarys_and_the_same_after_restarts(tmp_path: Path, snapshots: bool) -> None:
    async def run() -> dict[str, Any]:
        states = []
        for stops in ([], [96, 160, 192, 272]):
            folder = tmp_path / str(len(stops))
            folder.mkdir()
            made = serving(folder)
            await made.create(open_spec())
            first = 0
            for stop in [*stops, 320]:
                await play(made, World(3, best=0.05), first, stop)
                first = stop
                if stop != 320:
                    if not snapshots and made.learners is not None:
                        made.learners._learning.clear()  # it leaves without saving
                    made.close()
                    made = serving(folder)
            await caught_up(made)
            states.append(state_of(made))
            made.close()
        assert same(states[0], states[1])
        return states[0]

    theirs = asyncio.run(run())
    mine = of_the_library(World(3, best=0.05)).state()["learnt"]
    learnt: Any = theirs["learnt"]
    np.testing.assert_array_equal(mine["evidence"]["log_wealth"], learnt["evidence"]["log_wealth"])
    assert same(mine["verdict"], learnt["verdict"])
    assert same(mine["field"], learnt["field"])
    assert len(mine["epochs"]) == len(learnt["epochs"]) > len(CHANGES)


def of_the_library(world: World) -> cb.AdaptiveComband:
    """The same requests, changes and clicks without the service: tables of all who ever come, −1 before they do."""
    problem = cb.Problem((len(LATER) + 100) * M, M, sparsity=1)
    learner = cb.AdaptiveComband(
        problem,
        RequestedLists(LATER, problem, fallback="second"),
        epsilon=0.01,
        first_epoch=64,
        open_field=True,
        seed=5,
    )
    for start in range(0, 320, 16):
        change = CHANGES.get(start)
        if change is not None and change.add is not None and change.withdraw is not None:
            learner.replace(change.withdraw, by=change.add, planned=change.planned)
        elif change is not None and change.add is not None:
            learner.add(name=change.add, planned=change.planned)
        elif change is not None and change.withdraw is not None:
            learner.withdraw(change.withdraw, planned=change.planned)
        here = field_at(start)
        tables, keys = numbered([lists_at(world, i) for i in range(start, start + 16)], ALL, here)
        numbers = uniform_numbers(f"{5:064x}", [f"r{i}" for i in range(start, start + 16)])
        tell(learner, tables, keys, GivenNumbers(numbers), world, start)
    return learner


def tell(
    learner: cb.AdaptiveComband,
    tables: np.ndarray[Any, Any],
    keys: list[list[str | int]],
    stream: np.random.Generator,
    world: World,
    start: int,
) -> None:
    k = len(learner.epochs) - 1
    drawn = learner.epochs[k].explorer.draw(tables, stream, epoch=k).decisions
    rewards = np.zeros(drawn.lists.shape)
    for i, shown in enumerate(drawn.lists.tolist()):
        items = [keys[i][item] for item in shown if item >= 0]
        given = dict(world.rewards(start + i, items))
        rewards[i] = [given[keys[i][item]] if item >= 0 else 0.0 for item in shown]
    learner.tell(learner.adopt(drawn), rewards)


def test_a_newcomer_can_win_and_is_needed_until_then(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(candidates=LATER, open_field=True))
            world = World()
            without = {name: one for name, one in world.lists(0).items() if name != "best"}
            with pytest.raises(InputError, match="'best' is no candidate"):
                await made.decide("test", [world.request(0)])
            await made.decide("test", [DecisionRequest(lists=without, request="old")])  # nobody answers it
            changed = await made.change_field("test", FieldChange(add="best"))
            assert (changed.change, changed.applied) == (0, True)
            with pytest.raises(InputError, match="still compared have no list, the first of them 'best'"):
                await made.decide("test", [DecisionRequest(lists=without)])
            await made.change_field("test", FieldChange(withdraw="other 3"))
            [one] = await made.decide("test", [world.request(1)])
            assert one.not_needed == ["other 3"]
            assert made.queries.status("test")["n_candidates"] in (5, 6)  # told again in a moment
            await made.set_state("test", "ended")
            with pytest.raises(NotRunningError):
                await made.change_field("test", FieldChange(add="nobody"))

            await made.create(spec("two", candidates=LATER, open_field=True))
            await made.change_field("two", FieldChange(add="best"))
            plan = None
            for start in range(0, 4800, 160):
                for first in range(start, start + 160, 16):
                    decisions = await made.decide("two", [world.request(i) for i in range(first, first + 16)])
                    await made.reward("two", [world.post(first + i, one) for i, one in enumerate(decisions)])
                    await caught_up(made, "two")
                plan = made.experiments.find("two").plan
                if plan is not None and plan.winner is not None:
                    break
            assert plan is not None
            assert plan.winner == LATER.index("other 3") + 1
            with pytest.raises(FieldClosedError, match="best"):
                await made.change_field("two", FieldChange(add="nobody"))

    asyncio.run(run())


def test_changes_that_are_refused_leave_no_trace(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(fallback="best"))
            await made.create(spec("open", open_field=True, candidates=["a", "b", "c"]))
            for name, change, message in (
                ("test", FieldChange(add="new"), "open_field"),
                ("test", FieldChange(planned=True), "which candidates"),
                ("test", FieldChange(add="second", planned=True), "already"),
                ("test", FieldChange(withdraw="nobody", planned=True), "no candidate 'nobody'"),
                ("test", FieldChange(withdraw="best", planned=True), "fallback"),
            ):
                with pytest.raises(InputError, match=message):
                    await made.change_field(name, change)
            await made.change_field("open", FieldChange(withdraw="a"))
            for change, message in ((FieldChange(withdraw="b"), "nothing left"), (FieldChange(add="a"), "already")):
                with pytest.raises(InputError, match=message):
                    await made.change_field("open", change)
            for i in range(100):
                await made.change_field("open", FieldChange(add=f"new {i}"))
            with pytest.raises(InputError, match="103 candidates in all"):
                await made.change_field("open", FieldChange(add="one too many"))
            assert made.learners is not None
            assert not made.learners.failed
            assert [one[0] for one in made.database.read("SELECT COUNT(*) FROM field_changes")] == [101]

    asyncio.run(run())


def test_a_change_over_http_reaches_other_processes(tmp_path: Path) -> None:
    with service(tmp_path) as made, service(tmp_path, learn=False) as other, listening(made) as address:
        with Client(address, timeout=LIMIT) as client:
            client.create(**json.loads(as_json(spec(open_field=True))))
            changed = client.change_field("test", add="new", withdraw="other 0")
            assert changed.candidates == [*(name for name in NAMES if name != "other 0"), "new"]
            with pytest.raises(ServiceError, match="422"):
                client.change_field("test", add="new")
        other.experiments.refresh()
        plan = other.experiments.find("test").plan
        assert plan is not None
        assert plan.changes == 1
        lists: dict[str, list[str | int]] = {**World().lists(0), "new": ["x", "y", "z"]}
        [one] = asyncio.run(other.decide("test", [DecisionRequest(lists=lists)]))
        assert one.not_needed == ["other 0"]


def test_places_that_nobody_fills_stay_empty_and_earn_nothing(tmp_path: Path) -> None:
    """With the fallback "nothing": lists that are short or missing, as the library takes them."""
    world = World(4, best=0.05)

    def lists(number: int) -> dict[str, list[str | int]]:
        rng = np.random.default_rng(number)
        if number % 8 == 7:  # but for one, nobody answers
            return {"best": world.lists(number)["best"][:2]}
        return {name: one[: int(rng.integers(0, M + 1))] for name, one in world.lists(number).items()} | {
            "second": world.lists(number)["second"]
        }

    async def run() -> Any:
        with service(tmp_path) as made:
            await made.create(spec(fallback="nothing", epsilon=0.01))
            for start in range(0, 320, 16):
                decisions = await made.decide(
                    "test", [DecisionRequest(lists=lists(i), request=f"r{i}") for i in range(start, start + 16)]
                )
                assert {len(decisions[i].items) for i in (7, 15)} == {2}
                assert all(len(one.propensities) == len(one.items) for one in decisions)
                await made.reward("test", [world.post(start + i, one) for i, one in enumerate(decisions)])
                await caught_up(made)  # whatever is shown is answered: nothing waits for its window
            with pytest.raises(InputError, match="no list of this request has an item"):
                await made.decide("test", [DecisionRequest(lists={"best": []})])
            with pytest.raises(InputError, match="called 'nothing'"):
                await made.create(spec("other", fallback="nothing", candidates=["nothing", "something"]))
            shown = made.queries.shown("test", 7)
            assert shown is not None
            assert len(shown["items"]) == len(shown["propensities"]) == 2
            return state_of(made)["learnt"]

    learnt = asyncio.run(run())
    problem = cb.Problem((len(NAMES) + 100) * M, M, sparsity=1)
    policies = RequestedLists(NAMES, problem, fallback="nothing")
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.01, first_epoch=64, seed=5)
    for start in range(0, 320, 16):
        tables, keys = numbered([lists(i) for i in range(start, start + 16)], NAMES, NAMES)
        numbers = uniform_numbers(f"{5:064x}", [f"r{i}" for i in range(start, start + 16)])
        tell(learner, tables, keys, GivenNumbers(numbers), world, start)
    mine = learner.state()["learnt"]
    np.testing.assert_array_equal(mine["evidence"]["log_wealth"], learnt["evidence"]["log_wealth"])
    assert same(mine["verdict"], learnt["verdict"])


def test_only_lists_that_count_can_be_shown(tmp_path: Path) -> None:
    """With the fallback "nothing": a withdrawn candidate alone is nobody, and blocks in which nothing was shown leave
    the shares of the candidates as they are.
    """

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(fallback="nothing", open_field=True, candidates=["a", "b", "c"], list_size=2))
            await made.change_field("test", FieldChange(withdraw="a"))
            await made.decide("test", [DecisionRequest(lists={"a": ["x", "y"], "b": ["x"], "c": []})])
            with pytest.raises(InputError, match="no list of this request has an item"):
                await made.decide("test", [DecisionRequest(lists={"a": ["x", "y"], "b": [], "c": []})])

    asyncio.run(run())


def test_decisions_that_show_nothing_say_nothing_of_shares() -> None:
    one = spec(fallback="nothing", candidates=["a", "b"], list_size=2)
    experiment = Experiment(0, "test", one, "0" * 64, "running", 0, 0)
    policies = JournalLists(experiment, None, one.candidates)
    learner = cb.AdaptiveComband(problem_of(one), policies, epsilon=0.1, seed=0)
    none, sure = np.full(2, -1, dtype=np.int32).tobytes(), np.ones(2).tobytes()
    body = msgspec.msgpack.encode(Body(b"", none, sure, True, b"[]", b"", 1, b""))
    assert learn_block(learner, [StoredDecision(0, "", 0, 0, body)], np.zeros((1, 2))) is None
    with pytest.raises(InputError, match="decision 1 is not in the journal"):
        policies.tables([1])


def test_lists_that_end_early_go_on_with_the_fallbacks_items(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(candidates=["a", "b"], fallback="a", window_seconds=1000))
            [one] = await made.decide("test", [DecisionRequest(lists={"a": [1, 2, 3], "b": [2]})])
            assert sorted(map(int, one.items)) == [1, 2, 3]  # b has 2, 1, 3
            with pytest.raises(InputError, match="the full list of the fallback"):
                await made.decide("test", [DecisionRequest(lists={"a": [1, 2], "b": [2]})])
            receipt = await made.reward("test", [RewardPost(one.decision, [(item, 0.0) for item in one.items])])
            assert receipt.accepted == M

    asyncio.run(run())


def test_a_changing_field_is_the_librarys_on_postgresql_too() -> None:
    async def run(store: str) -> Any:
        made = serving(store)
        try:
            await made.create(open_spec())
            await play(made, World(3, best=0.05), 0, 320)
            return state_of(made)["learnt"]
        finally:
            made.close()

    with postgres.server() as cluster:
        learnt = asyncio.run(run(cluster.address))
    mine = of_the_library(World(3, best=0.05)).state()["learnt"]
    np.testing.assert_array_equal(mine["evidence"]["log_wealth"], learnt["evidence"]["log_wealth"])
    assert same(mine["field"], learnt["field"])
