"""Every setting over HTTP does what it does in the library: the same requests, numbers and clicks lead to the same
learner, here, in the library, and in a process that begins anew; and what was declared is said.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

import comband as cb
from comband.page.problem import InputError
from comband.policies import RequestedLists
from comband.serve.deciding import GivenNumbers
from comband.serve.digests import uniform_numbers
from comband.serve.requests import problem_of
from comband.serve.service import Service
from comband.serve.views import next_step
from comband.serve.wire import SETTINGS, FieldChange
from tests.serve.test_service import same, state_of
from tests.serve.worlds import NAMES, M, World, caught_up, listening, numbered, play, service, spec
from tests.waiting import LIMIT, wait_for

SEED = f"{5:064x}"
N = 320
SCORES = [0.1, 0.2, 0.1, 0.3, 0.1, 0.1]
CASES: dict[str, dict[str, Any]] = {
    "exposure": {"production": "second", "exposure": 0.4},
    "reward": {"objective": "reward"},
    "reward and exposure": {"objective": "reward", "production": "second", "exposure": 0.7},
    "max_loss": {"production": "best", "max_loss": 8.0},
    "prior": {"prior_scores": SCORES, "prior_error": 0.02},
    "recent": {"recent": 130},
    "growth": {"epoch_growth": 1.5, "delta": 0.2},
    "budget": {"epsilon": None, "max_rounds": 300},
    "recent and reward": {"recent": 130, "objective": "reward", "open_field": True},
}


def the_librarys(world: World, more: dict[str, Any]) -> cb.AdaptiveComband:
    """The same requests, numbers and clicks given to the library."""
    problem = problem_of(spec())
    make: Any = cb.AdaptiveComband
    settings = {"epsilon": 0.02, "first_epoch": 64, **more}
    learner: cb.AdaptiveComband = make(problem, RequestedLists(NAMES, problem), **settings, seed=5)
    for start in range(0, N, 16):
        if learner.done:
            break
        tables, keys = numbered([world.lists(number) for number in range(start, start + 16)])
        k = len(learner.epochs) - 1
        numbers = uniform_numbers(SEED, [f"r{i}" for i in range(start, start + 16)])
        drawn = learner.epochs[k].explorer.draw(tables, GivenNumbers(numbers), epoch=k).decisions
        decisions = learner.adopt(drawn)
        items = [[keys[i][item] for item in row] for i, row in enumerate(drawn.lists)]
        learner.tell(decisions, [[r for _, r in world.rewards(start + i, row)] for i, row in enumerate(items)])
    return learner


def learnt(learner: cb.AdaptiveComband) -> dict[str, Any]:
    """What is known, without contexts, which are numbers in the journal and lists in the library."""
    evidence = learner.evidence
    return {
        "epochs": [epoch.state() for epoch in learner.epochs],
        "wealth": evidence.log_wealth,
        "rounds": evidence.n_rounds,
        "values": evidence.values.state(),
        "since": evidence.since,
        "alive": learner.verdict.alive,
        "status": [learner.done, learner.status()],
    }


def learner_of(made: Service) -> cb.AdaptiveComband:
    assert made.learners is not None
    learning = made.learners.learning(made.experiments.find("test").experiment.id)
    assert learning is not None
    return learning.learner


@pytest.mark.parametrize("case", CASES)
def test_the_learner_is_the_librarys(case: str, tmp_path: Path) -> None:
    world, more = World(best=0.1), CASES[case]

    async def go(made: Service) -> None:
        await made.create(spec(**{"epsilon": 0.02, **more}))
        await play(made, world, 0, N)

    with service(tmp_path) as made:
        asyncio.run(go(made))
        here, found = state_of(made), learnt(learner_of(made))
        assert learner_of(made).spec == cb.AdaptiveComband.SPEC(**{"epsilon": 0.02, "first_epoch": 64, **more}, seed=5)
    assert same(found, learnt(the_librarys(world, more)))
    with service(tmp_path) as made:  # from the journal
        asyncio.run(caught_up(made))
        assert same({**here, "position": 0}, {**state_of(made), "position": 0})  # when all is known it goes on


def test_all_decisions_of_a_period_are_drawn_by_one_plan(tmp_path: Path) -> None:
    """Two processes decide in turn, of which one hears of plans late, and batches reach over the ends of periods."""
    world, period = World(best=0.03), 48

    async def go(made: Service, other: Service) -> None:
        await made.create(spec(epsilon=0.001, period=period))
        other.experiments.refresh()
        for start in range(0, 960, 20):
            numbers = range(start, start + 20)
            late = start // 20 % 3 == 2  # the other one has the plan that it had heard of last
            decisions = await (other if late else made).decide("test", [world.request(i) for i in numbers])
            assert [one.request for one in decisions] == [f"r{i}" for i in numbers]
            await made.reward("test", [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)])
            await caught_up(made)
            if start % 300 == 0:
                other.experiments.refresh()

    def plans(made: Service) -> list[int]:
        stored = made.journal.decisions(made.experiments.find("test").experiment.id, 0, 960)
        assert [one.number for one in stored] == list(range(960))
        return [one.epoch for one in stored]

    with service(tmp_path) as made, service(tmp_path, learn=False) as other:
        asyncio.run(go(made, other))
        epochs = plans(made)
        for _, numbers in groupby(range(960), key=lambda i: i // period):
            assert len({epochs[i] for i in numbers}) == 1
        assert len(set(epochs)) > 2
        learner = learner_of(made)
        assert learner.rounds == 960 // period * period
        assert all(epoch.first_id % period == 0 for epoch in learner.epochs)
        here = state_of(made)
    with service(tmp_path) as made:
        asyncio.run(caught_up(made))
        assert same(here, state_of(made))


def test_a_field_changes_when_a_period_is_over(tmp_path: Path) -> None:
    world = World(best=0.1)

    async def go(made: Service) -> None:
        await made.create(spec(epsilon=0.02, period=48, fallback="best"))
        await play(made, world, 0, 32)
        changing = asyncio.create_task(made.change_field("test", FieldChange(withdraw="other 0", planned=True)))
        await play(made, world, 32, 96)
        assert (await changing).candidates == [name for name in NAMES if name != "other 0"]
        await caught_up(made)
        learner = learner_of(made)
        assert "other 0" not in learner.field
        assert learner.epochs.current.first_id % 48 == 0

    with service(tmp_path) as made:
        asyncio.run(go(made))


def test_a_decision_waits_for_so_many_others(tmp_path: Path) -> None:
    world = World()

    async def go(made: Service) -> None:
        await made.create(spec(patience=40, block=8))
        first = await made.decide("test", [world.request(i) for i in range(16)])
        await made.decide("test", [world.request(i) for i in range(16, 48)])
        receipt = await made.reward("test", [world.post(i, one) for i, one in enumerate(first)])
        assert receipt.accepted == 8 * M  # 40 came after the ninth, and more after those before it
        assert {(fault.decision, fault.outcome) for fault in receipt.faults} == {(i, "late") for i in range(8)}
        await made.decide("test", [world.request(i) for i in range(48, 64)])
        wait_for(lambda: learner_of(made).rounds >= 24, "they are learnt from")
        assert made.journal.counts(1)[1] == 24

    with service(tmp_path) as made:
        asyncio.run(go(made))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"exploration": "lists"}, "explores with them"),
        ({"feedback": "total"}, "rewards of single ones"),
        ({"max_evaluated": 10}, "max_evaluated must be at least 106"),
        ({"exposure": 0.5}, "production"),
        ({"production": "nobody"}, "must be the name of a candidate"),
        ({"prior_scores": [1, 2]}, "one number for each"),
        ({"eliminate": True}, "eliminate is for the exploration"),
        ({"epsilon": None}, "max_rounds"),
        ({"recent": 100}, "recent must be at least"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with service(tmp_path, learn=False) as made, pytest.raises(InputError, match=words) as refused:
        made.experiments.check(spec(**more))
    assert str(refused.value).endswith(".")


def test_production_stays(tmp_path: Path) -> None:
    async def go(made: Service) -> None:
        await made.create(spec(production="second"))
        with pytest.raises(InputError, match="'second' is in production"):
            await made.change_field("test", FieldChange(withdraw="second", planned=True))

    with service(tmp_path) as made:
        asyncio.run(go(made))


def test_lift_over_production_and_what_to_do_next(tmp_path: Path) -> None:
    """From nothing to a winner: what is said fits what is known, and the true difference lies in the interval."""
    world, said = World(), []

    async def go(made: Service) -> None:
        await made.create(spec(production="second", window_seconds=1000))
        status = made.queries.status("test")
        assert (status["next_step"].startswith("Ask for decisions: POST "), status.get("lift")) == (True, None)
        for start in range(0, 3000, 32):
            await play(made, world, start, start + 32)
            wait_for(lambda: made.queries.status("test").get("rounds") == learner_of(made).rounds, "people are told")
            status = made.queries.status("test")
            said.append(status["next_step"])
            if status["done"]:
                break
        assert any(one.startswith("Let it run") for one in said[:-1])
        assert "end the experiment" in said[-1]
        lift, rows = status["lift"], {one["name"]: one for one in status["candidates"]}
        best, second = rows["best"], rows["second"]
        assert (lift["leader"], lift["production"]) == ("best", "second")
        assert lift["estimate"] == best["value"] - second["value"]
        ends = max(best["low"] - second["high"], -status["certified"]), best["high"] - second["low"]
        assert (lift["low"], lift["high"]) == ends
        assert lift["relative"] == pytest.approx(best["value"] / second["value"] - 1)
        true = value_of(world, "best") - value_of(world, "second")
        assert lift["low"] < true < lift["high"]
        assert "second, which is in production" in lift["text"]
        await made.set_state("test", "ended")
        assert "Archive" in made.queries.status("test")["next_step"]

    with service(tmp_path) as made:
        asyncio.run(go(made))


def value_of(world: World, name: str, n: int = 4000) -> float:
    """What the lists of a candidate would bring per request, on average over many."""
    return sum(value for i in range(n) for _, value in world.rewards(i, world.lists(i)[name])) / n


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"learning_stopped": "an error"}, "Start a process again"),
        ({"verdict": {"kind": "not valid"}}, "Do not act"),
        ({"state": "paused"}, "Resume it"),
        ({"state": "ended"}, "Archive"),
        ({"decisions": 0}, "Ask for decisions"),
        ({"settled": 0}, "Post rewards"),
        ({"done": True}, "budget is spent"),
        ({"verdict": {"kind": "decided"}, "winner": "now"}, "Keep what is in production"),
        ({"verdict": {"kind": "decided"}, "winner": "new"}, "Confirm it"),
        ({"forecast_decisions": None}, "Let it run."),
        ({}, "some 12,000 decisions more"),
    ],
)
def test_what_to_do_follows_from_what_is_known(more: dict[str, Any], words: str) -> None:
    known = {
        "name": "test",
        "state": "running",
        "verdict": {"kind": "leading"},
        "learning_stopped": None,
        "winner": None,
        "done": False,
        "decisions": 100,
        "settled": 50,
        "forecast_decisions": 12_345.0,
    }
    assert words in next_step({**known, **more}, "now")


def test_what_was_declared_is_said(tmp_path: Path) -> None:
    with service(tmp_path) as made, listening(made) as address, httpx.Client(base_url=address, timeout=LIMIT) as http:
        body = {
            "name": "test",
            "candidates": NAMES,
            "list_size": M,
            "epsilon": 0.1,
            "production": "best",
            "exposure": 0.25,
        }
        assert http.post("/v1/experiments", json=body).status_code == 201
        found = http.get("/v1/experiments/test").json()
        rows = {one["name"]: one for one in found["declared"]}
        assert set(SETTINGS) <= set(rows)
        assert {name for name, one in rows.items() if one["said"]} == set(body) - {"name"}
        assert rows["exposure"]["value"] == "0.25"
        assert rows["epsilon"]["value"] == "0.1 reward per round"
        described = http.get("/openapi.json").json()["components"]["schemas"]["Spec"]["properties"]
        assert set(SETTINGS) <= set(described)
        assert described["exposure"]["description"] == SETTINGS["exposure"].setting.says
