"""Experiments in which places matter, over HTTP: the library's own learner, and an export that `evaluate` reads."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app as cli
from comband.page.places import item_lists
from comband.page.problem import InputError
from comband.policies import RequestedLists
from comband.serve import wire
from comband.serve.deciding import GivenNumbers
from comband.serve.digests import uniform_numbers
from comband.serve.journal import saved_spec
from comband.serve.service import Service
from comband.serve.settings import settings
from tests.serve.test_service import same, state_of
from tests.serve.worlds import NAMES, M, World, caught_up, decisions_of, listening, numbered, service, serving, spec
from tests.waiting import LIMIT

FACTORS = [1, 0.5, 0.25]
SEED = f"{5:064x}"


class PlacedWorld(World):
    """`World`, where a click in place k is kept with probability θ_k."""

    def rewards(self, number: int, items: Sequence[str | int]) -> list[tuple[str | int, float]]:
        kept = np.random.default_rng([self.seed, number, 8]).random() < np.array(FACTORS)
        return [(item, float(value * kept[k])) for k, (item, value) in enumerate(super().rewards(number, items))]


def the_librarys(world: World, places: Any, n: int) -> tuple[cb.AdaptiveComband, list[Any]]:
    """The same requests, numbers and clicks given to the library, and what it showed."""
    problem = cb.Problem(len(NAMES) * M, M, sparsity=1, places=places)
    learner = cb.AdaptiveComband(
        problem, RequestedLists(NAMES, problem), epsilon=0.01, first_epoch=spec().first_epoch, seed=5
    )
    shown = []
    for start in range(0, n, 16):
        tables, keys = numbered([world.lists(number) for number in range(start, start + 16)])
        k = len(learner.epochs) - 1
        numbers = uniform_numbers(SEED, [f"r{i}" for i in range(start, start + 16)])
        drawn = learner.epochs[k].explorer.draw(tables, GivenNumbers(numbers), epoch=k).decisions
        lists_ = item_lists(drawn.lists) if places == "pairs" else drawn.lists
        columns = {
            name: getattr(drawn, name)
            for name in ("ids", "propensities", "epochs", "contexts", "covered", "placements")
        }
        decisions = learner.adopt(cb.Decisions(lists=lists_, **columns))
        items = [[keys[i][item] for item in row] for i, row in enumerate(lists_)]
        learner.tell(decisions, [[r for _, r in world.rewards(start + i, row)] for i, row in enumerate(items)])
        shown += list(zip(items, drawn.propensities.tolist(), strict=True))
    return learner, shown


def play(made: Service, http: httpx.Client, world: World, n: int) -> list[wire.Decision]:
    """Requests over HTTP in batches, all answered, the learner caught up after each."""
    decisions = []
    for start in range(0, n, 16):
        numbers = range(start, start + 16)
        body = wire.as_json([world.request(i) for i in numbers])
        answer = http.post("/v1/experiments/test/decisions", content=body)
        some = decisions_of(answer.content)
        posts = [world.post(i, one) for i, one in zip(numbers, some, strict=True)]
        assert http.post("/v1/experiments/test/rewards", content=wire.as_json(posts)).json()["accepted"] == 16 * M
        asyncio.run(caught_up(made))
        decisions += some
    return decisions


@pytest.mark.parametrize("places", ["pairs", FACTORS])
def test_places_over_http_and_in_the_export(places: Any, tmp_path: Path) -> None:
    world, n = PlacedWorld(3, best=0.3), 192
    with service(tmp_path) as made, listening(made) as address:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=address, headers=headers, timeout=LIMIT) as http:
            body = wire.as_json(spec(places=places, epsilon=0.01))
            assert http.post("/v1/experiments", content=body).status_code == 201
            decisions = play(made, http, world, n)
            assert http.get("/v1/experiments/test").json()["spec"]["places"] == places
            files = {
                what: http.get(f"/v1/experiments/test/export/{what}.parquet").content
                for what in ("rounds", "candidates")
            }
        theirs = state_of(made)
    learner, shown = the_librarys(world, places, n)
    assert [(one.items, one.propensities) for one in decisions] == shown
    learnt = theirs["learnt"]
    assert isinstance(learnt, dict)
    mine = learner.state()["learnt"]
    np.testing.assert_array_equal(mine["evidence"]["log_wealth"], learnt["evidence"]["log_wealth"])
    assert len(mine["epochs"]) == len(learnt["epochs"]) > 1

    for what, data in files.items():
        (tmp_path / f"{what}.parquet").write_bytes(data)
    option = "pairs" if places == "pairs" else ",".join(map(str, FACTORS))
    arguments = ["evaluate", str(tmp_path / "rounds.parquet"), "-c", str(tmp_path / "candidates.parquet")]
    answer = CliRunner().invoke(cli, [*arguments, "--sparsity", "1", "--places", option, "--json"])
    assert answer.exit_code in (0, 3), answer.output
    found = {one["name"]: one["value"] for one in json.loads(answer.stdout)["candidates"]}
    for name in found:  # by hand, from what was shown
        weights = np.zeros((n, M))
        for i, one in enumerate(decisions):
            own = world.lists(i)[name]
            for k, (item, value) in enumerate(world.rewards(i, one.items)):
                if places == "pairs":
                    weights[i, k] = value * (own[k] == item) / one.propensities[k]
                elif item in own:
                    examined = np.dot(one.placements[k], FACTORS)
                    weights[i, k] = value * FACTORS[own.index(item)] / examined
        assert found[name] == pytest.approx(weights.sum() / n, rel=1e-9)


def test_a_service_with_places_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    async def run() -> None:
        states = []
        for stops in ([], [96]):
            folder = tmp_path / str(len(stops))
            folder.mkdir()
            made = serving(folder)
            await made.create(spec(places="pairs", epsilon=0.01))
            for start in range(0, 192, 16):
                if start in stops:
                    made.close()
                    made = serving(folder)
                world, numbers = PlacedWorld(best=0.1), range(start, start + 16)
                decisions = await made.decide("test", [world.request(i) for i in numbers])
                await made.reward("test", [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)])
                await caught_up(made)
            states.append(state_of(made))
            made.close()
        assert same(*states)

    asyncio.run(run())


def test_places_that_are_refused(tmp_path: Path) -> None:
    with service(tmp_path) as made, listening(made) as address:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=address, headers=headers, timeout=LIMIT) as http:
            for more in (
                {"places": [1, 0.5]},
                {"places": [1, 0, 1]},
                {"places": [1, 1e-9, 1]},
                {"places": "cascade"},
                {"places": "pairs", "fallback": "nothing"},
            ):
                body = msgspec.json.encode({**msgspec.to_builtins(spec()), **more})
                answer = http.post("/v1/experiments", content=body)
                assert answer.status_code in (400, 422), more
                assert "place" in answer.json()["detail"]


def test_experiments_of_a_file_are_made_at_the_start(tmp_path: Path) -> None:
    from comband.serve import running

    file = tmp_path / "serve.toml"
    text = f"""
        store = "sqlite:///{tmp_path}/journal.db"
        port = 0
        log = "error"
        answer_timeout = {LIMIT}
        [[experiments]]
        name = "search"
        candidates = ["a", "b"]
        list_size = 2
        epsilon = 0.1
        places = [1, 0.5]
        [[experiments]]
        name = "pairs"
        candidates = ["a", "b"]
        list_size = 2
        epsilon = 0.1
        places = "pairs"
    """
    file.write_text(text)
    found = settings(file, {})
    seen: list[tuple[str, Any]] = []

    async def look(made: Service) -> None:
        seen.extend((one.experiment.name, one.experiment.spec.places) for one in made.experiments.all())
        for name in ("search", "pairs"):
            lists: list[list[str | int] | None] = [["x", "y"], ["z", "x"]]
            [one] = await made.decide(name, [wire.DecisionRequest(lists=lists, request="1")])
            seen.append((name, one.decision))
        os.kill(os.getpid(), signal.SIGTERM)

    for _ in range(2):  # those that are there stay as they are
        running.serve(found, beside=look)
    assert seen == [("search", [1.0, 0.5]), ("pairs", "pairs"), ("search", 0), ("pairs", 0)] * 2
    file.write_text(text.replace("epsilon", "epsilom", 1))
    with pytest.raises(InputError, match="epsilo"):
        settings(file, {})
    file.write_text("experiments = 3")
    with pytest.raises(InputError, match="experiments"):
        settings(file, {})


def test_the_description_names_places(tmp_path: Path) -> None:
    with service(tmp_path) as made, listening(made) as address:
        description = json.load(io.BytesIO(httpx.get(f"{address}/openapi.json", timeout=LIMIT).content))
    assert "pairs" in json.dumps(description["components"]["schemas"]["Spec"]["properties"]["places"])


@pytest.mark.parametrize(("order", "meant"), [(None, "random"), ("random", "random"), ("natural", "natural")])
def test_an_experiment_from_before_keeps_the_order_of_its_lists(order: str | None, meant: str) -> None:
    """Factors mean natural order in new experiments, which say so in the store; without an order it was random."""
    stored = wire.as_json(spec(places=FACTORS, order=order))
    assert saved_spec(stored).order == meant
    assert saved_spec(wire.as_json(spec())).order is None


def test_what_a_new_experiment_means_is_in_the_store(tmp_path: Path) -> None:
    with service(tmp_path) as made:
        asyncio.run(made.create(spec(places=FACTORS, epsilon=0.01)))
        [one] = made.journal.experiments()
        assert one.spec.order == "natural"
