"""From creation to deletion: who changed what, what is out of the way, what goes by age and what stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from comband.commands.cli import app as cli
from comband.explore.explorers import recent
from comband.learners import selector
from comband.page.problem import InputError
from comband.serve import housekeeping, learning, wire
from comband.serve.audit import Actor, since
from comband.serve.certificates import is_audited
from comband.serve.exporting import export
from comband.serve.housekeeping import removable, remove_old
from comband.serve.learners import Timing
from comband.serve.metrics import Latencies, metrics_text
from comband.serve.schema import OF_EXPERIMENTS
from comband.serve.service import Service
from comband.serve.settings import settings
from comband.serve.stores import open_database
from comband.serve.tokens import create_token
from tests.serve import postgres
from tests.serve.test_service import same, state_of
from tests.serve.worlds import NAMES, OPEN, World, caught_up, listening, play, service, serving, spec
from tests.waiting import LIMIT, wait_for

JSON = {"content-type": "application/json"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/journal.db"
    else:
        with postgres.server() as cluster:
            yield cluster.address


def rows_of(made: Service, experiment: int) -> dict[str, int]:
    """How many rows each table has for an experiment."""
    first, last = experiment << 40, (experiment + 1) << 40
    counts = {
        table: made.database.read(f"SELECT COUNT(*) FROM {table} WHERE experiment = ?", [experiment])[0][0]
        for table in OF_EXPERIMENTS
    }
    for table, key in (("runs", "first"), ("requests", "decision"), ("rewards", "decision")):
        between = f"SELECT COUNT(*) FROM {table} WHERE {key} >= ? AND {key} < ?"
        counts[table] = made.database.read(between, [first, last])[0][0]
    counts["experiments"] = made.database.read("SELECT COUNT(*) FROM experiments WHERE id = ?", [experiment])[0][0]
    return counts


def test_every_change_is_in_the_audit_trail_with_the_name_of_its_token(tmp_path: Path) -> None:
    with service(tmp_path) as made, listening(made) as address:
        with made.database.transaction():
            secret = create_token(made.journal, "Ada's laptop", ["admin"])
            reader = create_token(made.journal, "dashboard", ["read"])
        made.experiments.refresh()
        headers = {**JSON, "authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=address, headers=headers, timeout=LIMIT) as http:
            http.post("/v1/experiments", content=wire.as_json(spec()))
            base = "/v1/experiments/test"
            change = wire.as_json(wire.FieldChange(add="another", planned=True))
            assert http.post(f"{base}/candidates", content=change).status_code == 200
            for verb in ("pause", "pause", "resume", "end", "archive", "archive", "unarchive"):
                assert http.post(f"{base}/{verb}").status_code == 200
            assert http.post(f"{base}/clone", json={"name": "second"}).status_code == 201
            assert http.delete(base).status_code == 200
            assert http.post("/v1/experiments/second/resume").status_code == 200  # it runs: nothing changes
            trail = http.get("/v1/audit", headers={"authorization": f"Bearer {reader}"}).json()
            words = [(one["experiment"], one["action"]) for one in reversed(trail["changes"])]
            of_test = ["created", "field changed", "paused", "resumed", "ended", "archived", "unarchived"]
            assert words == [
                (None, "token created"),
                (None, "token created"),
                *(("test", action) for action in of_test),
                ("second", "created"),
                ("test", "deleted"),
            ]
            assert {one["actor"] for one in trail["changes"][:9]} == {"Ada's laptop"}
            assert {one["token"] for one in trail["changes"][:9]} == {secret.split("_")[1]}
            details = {(one["experiment"], one["action"]): one["detail"] for one in trail["changes"]}
            assert details["test", "field changed"] == {
                "add": "another",
                "withdraw": None,
                "planned": True,
                "digest": None,
            }
            assert details["test", "paused"] == {"before": "running", "decisions": 0}
            assert details["second", "created"]["like"] == "test"
            assert secret.split("_", 2)[2] not in str(trail)
            # In pages, and of one experiment, also when it is gone.
            first = http.get("/v1/audit?experiment=test&limit=5").json()
            rest = http.get(f"/v1/audit?experiment=test&before={first['next']}").json()
            assert [one["action"] for one in (*first["changes"], *rest["changes"])] == ["deleted", *reversed(of_test)]
            assert rest["next"] is None
            assert http.get("/v1/audit?before=x").status_code == 422


def test_what_is_refused_is_in_no_audit_trail(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(), by=Actor("1", "a"))
            before = len(since(made.journal, 0))
            assert not await made.delete("test")
            with pytest.raises(InputError):
                await made.change_field("test", wire.FieldChange(add="best", planned=True))
            assert len(since(made.journal, 0)) == before

    asyncio.run(run())


def test_archived_ones_are_out_of_the_way_in_every_process(tmp_path: Path) -> None:
    with (
        service(tmp_path) as made,
        service(tmp_path, learn=False) as other,
        listening(made) as address,
        httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http,
    ):
        for name in ("one", "two", "three"):
            http.post("/v1/experiments", content=wire.as_json(spec(name)))
        refused = http.post("/v1/experiments/one/archive")
        assert refused.status_code == 409
        assert "end it first" in refused.json()["detail"]
        for name in ("one", "two"):
            http.post(f"/v1/experiments/{name}/end")
        assert http.post("/v1/experiments/one/archive").json()["archived"] > 0

        def names(state: str) -> list[str]:
            return [one["name"] for one in http.get(f"/v1/experiments{state}").json()["experiments"]]

        assert names("") == names("?state=current") == ["two", "three"]
        assert names("?state=ended") == ["two"]
        assert names("?state=archived") == ["one"]
        assert names("?state=all") == ["one", "two", "three"]
        found = http.get("/v1/experiments").json()
        assert (found["live"], found["ended"], found["archived"]) == (1, 1, 1)
        assert http.get("/v1/experiments/one/status").json()["archived"] > 0  # all that is known is still there
        wait_for(lambda: other.experiments.find("one").experiment.archived, "another process hears of it")
        http.post("/v1/experiments/one/unarchive")
        wait_for(lambda: other.experiments.find("one").experiment.archived is None, "and again")
        assert names("?state=archived") == []


def test_a_clone_has_the_settings_and_the_field_and_no_evidence(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(note="old"))
            await play(made, World(), 0, 32)
            await made.change_field("test", wire.FieldChange(add="new", withdraw="other 3", planned=True))
            await made.clone("test", wire.Clone(name="copy"))
            copy = made.experiments.find("copy").experiment
            field = [*(name for name in NAMES if name != "other 3"), "new"]
            wanted = spec("copy", note="old", candidates=field, audited=wire.AUDITED)
            assert wire.spec_of(wire.as_json(copy.spec)) == wire.spec_of(wire.as_json(wanted))  # read again or not
            assert made.journal.counts(copy.id)[:2] == (0, 0)
            lists = {name: World().lists(0).get(name, ["a", "b", "c"]) for name in field}
            [one] = await made.decide("copy", [wire.DecisionRequest(lists=lists)])
            assert one.decision == 0

    asyncio.run(run())


def test_what_is_deleted_leaves_nothing_but_its_audit_trail(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit; its name is free at once, other experiments are as they were, and other processes know."""
    monkeypatch.setattr(housekeeping, "_RUNS", 2)

    async def run() -> None:
        made, other = (serving(store, learn=learn) for learn in (True, False))
        try:
            for name in ("before", "test", "after"):
                await made.create(spec(name))
                await play(made, World(), 0, 64, name=name, size=5)
            kept = {number: rows_of(made, number) for number in (1, 3)}
            assert min(rows_of(made, 2)[table] for table in ("runs", "requests", "rewards")) >= 13
            assert not await made.delete("test")  # it runs
            await made.set_state("test", "ended")
            wait_for(lambda: made.experiments.find("test").experiment.id not in unfinished(made), "all is learnt")
            assert await made.delete("test")
            with pytest.raises(Exception, match="test"):
                made.experiments.find("test")
            await made.create(spec("test"))  # the name is free
            assert made.experiments.find("test").experiment.id == 4
            wait_for(lambda: not any(rows_of(made, 2).values()), "all of it is removed")
            steady = ("runs", "requests", "rewards", "experiments", "counters", "plans")
            for number, rows in kept.items():
                assert {name: rows_of(made, number)[name] for name in steady} == {name: rows[name] for name in steady}
            wait_for(lambda: _heard(other, 4), "the other process hears of both")
            await play(made, World(), 0, 32)
        finally:
            made.close()
            other.close()

    asyncio.run(run())


def unfinished(made: Service) -> set[int]:
    return {one.experiment.id for one in made.experiments.unfinished()}


def _heard(made: Service, number: int) -> bool:
    """Whether the experiment that is called "test" is this one by now."""
    return [one.experiment.id for one in made.experiments.all() if one.experiment.name == "test"] == [number]


def test_a_decider_that_has_not_heard_of_the_end_of_an_experiment(tmp_path: Path) -> None:
    """Its requests are refused, and what it tells says that there is none."""

    async def run() -> None:
        slow = Timing(poll=3600.0)
        with service(tmp_path) as made, service(tmp_path, learn=False, timing=slow) as other:
            await made.create(spec())
            other.experiments.refresh()
            other.experiments.take_plan(other.experiments.find("test"))
            [one] = await other.decide("test", [World().request(0)])
            await made.set_state("test", "ended")
            await made.delete("test")
            wait_for(lambda: not any(rows_of(made, 1).values()), "all of it is removed")
            with listening(other) as address, httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http:
                base = "/v1/experiments/test"
                answer = http.post(f"{base}/decisions", content=wire.as_json(World().request(1)))
                assert (answer.status_code, "deleted" in answer.json()["detail"]) == (409, True)
                receipt = http.post(f"{base}/rewards", content=wire.as_json(World().post(0, one))).json()
                assert {fault["outcome"] for fault in receipt["faults"]} == {"unknown"}
                for path in (base, f"{base}/status"):
                    assert http.get(path).status_code == 404
                assert http.get("/v1/experiments").json()["experiments"] == []
                assert http.post(f"{base}/pause").status_code == 409
                assert http.get("/metrics").status_code == 200

    asyncio.run(run())


def test_environments_of_one_store_do_not_see_each_other(store: str) -> None:
    async def run() -> None:
        made = serving(store)
        staging = serving(store, environment="staging")
        try:
            await made.create(spec())
            await staging.create(spec())  # the same name
            await play(made, World(), 0, 32)
            await play(staging, World(seed=2), 0, 16)
            assert made.queries.status("test")["decisions"] == 32
            assert staging.queries.status("test")["decisions"] == 16
            await staging.set_state("test", "ended")
            made.experiments.refresh()
            assert made.experiments.find("test").experiment.state == "running"
            assert {one.name for one in since(staging.journal, 0)} == {"test"}
            assert len(since(made.journal, 0)) == 1
            with made.database.transaction():
                here = create_token(made.journal, "here", ["admin"])
                everywhere = create_token(made.journal, "everywhere", ["admin"], environment="*")
                there = create_token(made.journal, "there", ["admin"], environment="staging")
            for one in (made, staging):
                one.experiments.refresh()
            for one, secrets in ((made, (here, everywhere)), (staging, (there, everywhere))):
                with listening(one, OPEN) as address, httpx.Client(base_url=address, timeout=LIMIT) as http:
                    for secret in (here, there, everywhere):
                        headers = {"authorization": f"Bearer {secret}"}
                        status = http.get("/v1/experiments/test", headers=headers).status_code
                        assert status == (200 if secret in secrets else 401)
        finally:
            made.close()
            staging.close()

    asyncio.run(run())


@pytest.mark.parametrize("name", ["", "a b", "production\n", "ä", "x" * 65])
def test_names_that_no_environment_can_have(name: str) -> None:
    with pytest.raises(InputError, match="environment"):
        settings(None, {"COMBAND_SERVE_ENVIRONMENT": name})


def test_the_commands_know_environments(tmp_path: Path) -> None:
    at = ["--store", f"sqlite:///{tmp_path}/journal.db"]
    run = CliRunner().invoke
    assert run(cli, ["token", "create", "--role", "read", "--environment", "staging", *at]).exit_code == 0
    assert run(cli, ["token", "create", "--role", "read", *at], env={"COMBAND_SERVE_ENVIRONMENT": "x"}).exit_code == 0
    assert run(cli, ["token", "create", "--role", "read", "--environment", "no such", *at]).exit_code == 1
    listed = run(cli, ["token", "list", "--json", *at]).stdout
    assert '"staging"' in listed
    assert '"x"' in listed


# ---- retention by age ------------------------------------------------------------------------------------------------


def aged(made: Service, experiment: int, bound: int, before: int) -> int:
    """Remove what can be; how many decisions went."""
    total = 0
    while True:
        with made.database.transaction():
            step = remove_old(made.journal, experiment, bound, before)
        if step is None:
            return total
        total += step


async def play_until_removable(made: Service, least: int) -> int:
    """Play until snapshots let so many decisions go; how many there are."""
    for start in range(0, 100_000, 32):
        await play(made, World(best=0.05), start, start + 32)
        if removable(made.journal).get(1, 0) > least:
            return start + 32
    raise AssertionError("no snapshot is made")


def test_by_age_goes_what_brought_nothing_and_the_learner_goes_on_as_if_it_were_there(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "LOOKED_BACK_ON", 32)
    monkeypatch.setattr(recent, "_CONTEXTS", 32)
    world = World(best=0.05)

    async def run() -> None:
        (tmp_path / "reference").mkdir()
        with service(tmp_path / "reference") as reference:
            await reference.create(spec(epsilon=0.01))
            await play(reference, world, 0, 512)
            wanted = state_of(reference)
        made = serving(store)
        await made.create(spec(epsilon=0.01))
        await play(made, world, 0, 400)
        made.close()  # with a snapshot
        made = serving(store)
        try:
            await caught_up(made)
            [(_, bound)] = removable(made.journal).items()
            now = made.journal.wall()
            assert aged(made, 1, bound, 0) == 0  # none is that old
            earned = {number for number, _, value in made.journal.rewards(1, 0, bound) if value > 0}
            earned |= set(range(housekeeping.FIRST_KEPT))
            secret = bytes.fromhex(made.experiments.find("test").experiment.seed)
            earned |= set(np.flatnonzero(is_audited(secret, np.arange(bound), wire.AUDITED)).tolist())
            removed = aged(made, 1, bound, now + 1)
            left = [one.number for one in made.journal.decisions(1, 0, bound)]
            upto = made.journal.retained(1)[0]
            assert 0 < upto <= bound
            assert set(left) == earned & set(range(upto)) | set(range(upto, bound))
            assert removed == upto - len(earned & set(range(upto))) == made.journal.retained(1)[1]
            assert rows_of(made, 1)["requests"] == made.journal.counts(1)[0] - removed
        finally:
            made.close()
        made = serving(store)  # from its snapshot
        try:
            await caught_up(made)
            gone = next(number for number in range(upto) if number not in earned)
            assert made.queries.shown("test", gone) is None
            receipt = await made.reward("test", [wire.RewardPost(gone, [("item 1", 1.0)])])
            assert [fault.outcome for fault in receipt.faults] == ["removed"]
            [again] = await made.decide("test", [world.request(min(earned))])
            assert again.decision == min(earned)  # those that stay are known by their requests
            await play(made, world, 400, 512)
            assert same(wanted, state_of(made))
            status = made.queries.status("test")
            assert status["removed"] == removed
            assert f"Of the first {upto:,} decisions {removed:,} are removed" in status["removed_note"]
            assert "can no longer be recomputed" in status["removed_note"]
        finally:
            made.close()

    asyncio.run(run())


def test_an_export_after_removal_is_no_selection_by_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(housekeeping, "LOOKED_BACK_ON", 0)

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            n = await play_until_removable(made, 96)
            bound = removable(made.journal)[1]
            assert aged(made, 1, bound, made.journal.wall() + 1) > 0
            await play(made, World(best=0.05), n, n + 64)
            path, clean_up = export(made, "test", "rounds")
            ids = pq.read_table(path)["id"].to_pylist()
            await clean_up()
            assert ids == list(range(made.journal.retained(1)[0], n + 64))

    asyncio.run(run())


def test_without_a_snapshot_that_can_be_read_what_was_removed_is_said_and_nothing_is_learnt_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(housekeeping, "LOOKED_BACK_ON", 0)

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            await play_until_removable(made, 128)
            aged(made, 1, removable(made.journal)[1], made.journal.wall() + 1)
        database = open_database(f"sqlite:///{tmp_path}/journal.db")
        with database.transaction():
            database.run("UPDATE snapshots SET state = ?", [b"no state"])
        database.close()
        with service(tmp_path) as made, caplog.at_level(logging.ERROR, "comband.serve"):
            reason = wait_for(lambda: made.experiments.failures.get(1), "learning stops")
            assert "removed by age" in str(reason)
            [warning] = made.queries.status("test")["warnings"]
            assert "back-up" in warning

    asyncio.run(run())


def test_a_snapshot_that_cannot_be_read_is_in_the_log_and_the_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Learning begins earlier, and comes to the same state."""

    async def run() -> None:
        world = World(best=0.05)
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            await play(made, world, 0, 128)
            wanted = state_of(made)
        database = open_database(f"sqlite:///{tmp_path}/journal.db")
        with database.transaction():
            [(newest,)] = database.run("SELECT MAX(position) FROM snapshots")
            database.run("UPDATE snapshots SET state = ? WHERE position = ?", [b"no state", newest])
        database.close()
        with service(tmp_path) as made, caplog.at_level(logging.ERROR, "comband.serve"):
            await caught_up(made)
            assert same(wanted, state_of(made))
            assert "comband_snapshots_unreadable_total 1\n" in metrics_text(made, Latencies())
        said = [one for one in caplog.records if "snapshot cannot be read" in one.getMessage()]
        assert [one.facts["position"] for one in said] == [newest]  # type: ignore[attr-defined]

    asyncio.run(run())


def test_the_service_removes_what_is_old_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `retention_days` says, with the clock set forward."""
    monkeypatch.setattr(housekeeping, "LOOKED_BACK_ON", 0)
    often = Timing(lease=0.3, poll=0.05, idle=0.005, view=0.02, snapshot=0.05, house=0.02)

    async def run() -> None:
        with service(tmp_path, timing=often, retention_days=30.0) as made:
            await made.create(spec(epsilon=0.01))
            await play_until_removable(made, 128)
            assert made.journal.retained(1) == (0, 0)
            wall = made.journal.wall
            made.journal.wall = lambda: wall() + 31 * 86_400_000  # type: ignore[method-assign]
            wait_for(lambda: made.journal.retained(1)[1] > 20, "old decisions are removed")

    asyncio.run(run())


def test_what_the_learner_may_look_back_on_is_kept() -> None:
    """It knows contexts by the numbers of decisions, and asks for their lists again after a restart."""
    assert 2 * recent._CONTEXTS <= housekeeping.LOOKED_BACK_ON
    assert learning._REMEMBERED <= housekeeping.LOOKED_BACK_ON
    assert selector._PROBES <= housekeeping.FIRST_KEPT
