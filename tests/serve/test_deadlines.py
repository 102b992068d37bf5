"""Locks that somebody holds, statements that never end, queues that are full: what is waited for, and what goes on.

Nothing is timed: what must not wait is seen to be done while the lock is still held.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from comband.serve import wire
from comband.serve.bounds import Bounds
from comband.serve.database import BusyError, LateError, LockedError, UnavailableError
from comband.serve.reading import Readers
from comband.serve.service import Service
from comband.serve.settings import settings
from comband.serve.stores import Sqlite, open_database
from tests.serve import postgres
from tests.serve.worlds import PATIENT, World, caught_up, listening, play, service, spec
from tests.waiting import LIMIT, wait_for

JSON = {"content-type": "application/json"}
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Server]:
    with postgres.server() as made:
        yield made


@pytest.fixture
def store(cluster: postgres.Server) -> str:
    """An empty database."""
    import psycopg

    with psycopg.connect(cluster.address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return cluster.address


@contextmanager
def held(store: str, statement: str) -> Iterator[None]:
    """The locks of a statement, as long as the block lasts."""
    import psycopg

    with psycopg.connect(store) as connection:
        connection.execute(statement)
        try:
            yield
        finally:
            connection.rollback()


# ---- one experiment that is stuck ------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["counters", "fronts"])
def test_others_go_on_while_the_row_of_one_experiment_is_locked(store: str, table: str) -> None:
    """Its own requests wait, and are answered when the lock is gone."""

    async def run() -> None:
        with service(store) as made:
            world = World()
            for name in ("stuck", "free"):
                await made.create(spec(name, epsilon=0.01))
                await play(made, world, 0, 16, name=name)
            [shown] = await made.decide("stuck", [world.request(99)])
            number = made.experiments.find("stuck").experiment.id
            lock = f"SELECT * FROM {table} WHERE experiment = {number} FOR UPDATE"
            with held(store, lock):
                waiting = [
                    asyncio.create_task(
                        made.decide("stuck", [world.request(i)])
                        if table == "counters"
                        else made.reward("stuck", [world.post(99, shown)])
                    )
                    for i in range(100, 103)
                ]
                await asyncio.sleep(0)
                for i in range(16, 80, 16):
                    await play(made, world, i, i + 16, name="free")  # decided, rewarded and learnt from
                assert not any(task.done() for task in waiting)
            await asyncio.gather(*waiting)
            [after] = await made.decide("stuck", [world.request(200)])
            assert after.decision == (20 if table == "counters" else 17)

    asyncio.run(run())


def test_others_learn_while_the_lease_of_one_experiment_is_locked(store: str) -> None:
    async def run() -> None:
        with service(store) as made:
            world = World()
            for name in ("stuck", "free"):
                await made.create(spec(name, epsilon=0.01))
            with held(store, "SELECT * FROM leases WHERE experiment = 1 FOR UPDATE"):
                await play(made, world, 0, 64, name="free")
            await play(made, world, 0, 32, name="stuck")
            await caught_up(made, "stuck")

    asyncio.run(run())


def test_a_lock_that_is_held_gives_503_and_nothing_is_stored(store: str) -> None:
    with (
        service(store, bounds=replace(PATIENT, lock_timeout=0.3)) as made,
        listening(made) as address,
        httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http,
    ):
        assert http.post("/v1/experiments", content=wire.as_json(spec())).status_code == 201
        assert made.learners is not None
        made.learners.close()  # which locks rows, too
        body = wire.as_json(World().request(0))
        with held(store, "SELECT * FROM counters FOR UPDATE"):
            for path, content in (("decisions", body), ("pause", b"{}")):
                refused = http.post(f"/v1/experiments/test/{path}", content=content)
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "1"
        assert http.post("/v1/experiments/test/decisions", content=body).json()["decision"] == 0


def test_a_process_that_stands_still_does_not_keep_its_locks(store: str) -> None:
    slow = open_database(store, replace(PATIENT, statement_timeout=0.3))
    other = open_database(store, PATIENT)
    try:
        other.migrate()

        def stand_still() -> None:
            with slow.transaction():
                slow.run("UPDATE comband_schema SET version = 99")
                assert slow.run("SELECT version FROM comband_schema") == [(99,)]
                with other.transaction():  # waits for it
                    assert other.run("SELECT version FROM comband_schema FOR UPDATE") != [(99,)]
                slow.run("SELECT 1")

        with pytest.raises(UnavailableError):
            stand_still()
    finally:
        slow.close()
        other.close()


# ---- the store as a whole --------------------------------------------------------------------------------------------


def test_ready_answers_while_the_store_does_not(store: str) -> None:
    with (
        service(store, bounds=replace(PATIENT, ready_timeout=0.3), learn=False) as made,
        listening(made) as address,
        httpx.Client(base_url=address, timeout=LIMIT) as http,
    ):
        wait_for(lambda: http.get("/readyz").status_code == 200, "the store answers")
        with held(store, "LOCK TABLE comband_schema IN ACCESS EXCLUSIVE MODE"):
            for _ in range(3):
                refused = http.get("/readyz")
                assert refused.status_code == 503
                assert "retry-after" in refused.headers
            assert http.get("/healthz").status_code == 200
        wait_for(lambda: http.get("/readyz").status_code == 200, "the store answers again")


def test_statements_do_not_run_for_ever(store: str, tmp_path: Path) -> None:
    for address in (store, f"sqlite:///{tmp_path}/journal.db"):
        with closing(open_database(address, PATIENT)) as patient:
            patient.migrate()
        with closing(open_database(address, replace(PATIENT, statement_timeout=0.3))) as database:
            with pytest.raises(UnavailableError):
                database.read(ENDLESS)

            def answers() -> bool:
                with suppress(UnavailableError):  # a busy machine may take so long for anything
                    return database.read("SELECT 1") == [(1,)]
                return False

            wait_for(answers, "other statements do")


def test_another_program_holds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that waits together fails together, and is not tried one by one; reading goes on."""

    async def run() -> None:
        with service(tmp_path, bounds=replace(PATIENT, lock_timeout=0.3), learn=False) as made:
            made.writer.call(lambda journal: journal.create(spec(), "00" * 32))
            made.experiments.refresh()
            number = made.experiments.find("test").experiment.id
            begun, begin, gathered = [], Sqlite._begin, threading.Event()

            def counted(database: Sqlite, connection: Any, write: bool) -> None:
                if write:  # all of them wait before the first is tried
                    assert gathered.wait(LIMIT)
                begun.append(write)
                begin(database, connection, write)

            other = Sqlite(tmp_path / "journal.db")
            with closing(other), other.transaction():
                monkeypatch.setattr(Sqlite, "_begin", counted)
                tasks = [asyncio.create_task(made.set_state("test", "paused")) for _ in range(3)]
                posts = [
                    asyncio.create_task(made.reward("test", [wire.RewardPost(i, [("a", 1.0)])])) for i in range(20)
                ]
                for _ in range(100):
                    await asyncio.sleep(0)
                gathered.set()
                failed = await asyncio.gather(*tasks, *posts, return_exceptions=True)
                assert all(isinstance(one, LockedError) for one in failed), failed
                assert made.journal.counts(number)[0] == 0
            # Each batch is tried once, and not again one by one.
            assert sum(begun) <= 2 * (1 + 3)
            assert (await made.reward("test", [wire.RewardPost(7, [("a", 1.0)])])).faults

    asyncio.run(run())


# ---- queues ----------------------------------------------------------------------------------------------------------


@contextmanager
def writer_held(made: Service) -> Iterator[None]:
    """The writer has something to do as long as the block lasts."""
    entered, release = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        entered.set()
        release.wait(LIMIT)

    thread = threading.Thread(target=lambda: made.writer.call(hold))
    thread.start()
    try:
        assert entered.wait(LIMIT)
        yield
    finally:
        release.set()
        thread.join()


def test_a_full_queue_says_503_at_once_and_loses_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        bounds = replace(PATIENT, max_waiting=3)
        with service(tmp_path, bounds=bounds) as made:
            await made.create(spec())
            assert made.learners is not None
            made.learners.close()
            world = World()
            with writer_held(made):
                waiting = [asyncio.create_task(made.decide("test", [world.request(i)])) for i in range(3)]
                while made.writer.waiting < 3:
                    await asyncio.sleep(0)
                with pytest.raises(BusyError):
                    await made.decide("test", [world.request(3)])
            assert sorted([one.decision for task in waiting for one in await task]) == [0, 1, 2]
            assert (await made.decide("test", [world.request(3)]))[0].decision == 3

    asyncio.run(run())


def test_what_was_given_up_is_not_written(tmp_path: Path) -> None:
    """A decision that nobody was told would count as one without clicks."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            assert made.learners is not None
            made.learners.close()
            with writer_held(made):
                made.writer._bounds, made.writer._deadlines = replace(PATIENT, answer_timeout=0.2), {}
                with pytest.raises(LateError):
                    await made.decide("test", [World().request(0)])
                made.writer._bounds, made.writer._deadlines = PATIENT, {}
            [one] = await made.decide("test", [World().request(1)])
            assert one.decision == 0
            assert made.journal.counts(1)[0] == 1

    asyncio.run(run())


def test_readers_are_bounded_in_number_and_in_time() -> None:
    async def run() -> None:
        release, under_way = threading.Event(), []

        def read(i: int) -> int:
            under_way.append(i)
            release.wait(LIMIT)
            return i

        readers = Readers("reading", threads=2, waiting=3, timeout=LIMIT)
        tasks = [asyncio.create_task(readers.run(read, i)) for i in range(5)]
        while len(under_way) < 2:
            await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await readers.run(read, 5)
        assert len(under_way) == 2
        release.set()
        assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
        with pytest.raises(ZeroDivisionError):
            await readers.run(lambda: 1 // 0)
        readers.close()
        release.clear()
        hasty = Readers("reading", threads=1, waiting=3, timeout=0.2)
        under_way.clear()
        first = asyncio.create_task(hasty.run(read, 0))
        while not under_way:  # by the time that a busy machine has begun it may be late
            await asyncio.sleep(0)
            if first.done():
                with pytest.raises(LateError):
                    await first
                first = asyncio.create_task(hasty.run(read, 0))
        with pytest.raises(LateError):
            await hasty.run(read, 1)
        with pytest.raises(LateError):
            await first
        hasty._timeout = LIMIT
        release.set()
        assert await hasty.run(lambda: 7) == 7
        assert under_way == [0]  # the other one was given up before it began
        hasty.close()

    asyncio.run(run())


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_sigterm_ends_a_process_whose_store_is_locked(store: str) -> None:
    environment = {f"COMBAND_SERVE_{name}_TIMEOUT": str(LIMIT) for name in ("LOCK", "STATEMENT", "ANSWER")}
    process = subprocess.Popen(
        [sys.executable, "-m", "comband", "serve", "--open", "--port", "0", "--store", store],
        env={**os.environ, **environment, "COMBAND_SERVE_SHUTDOWN_TIMEOUT": "2"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if '"listening"' in line)
        address = line.split('"address": "')[1].split('"')[0]
        with httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http:
            assert http.post("/v1/experiments", content=wire.as_json(spec())).status_code == 201
            with held(store, "SELECT * FROM counters, leases FOR UPDATE"):

                def ask() -> None:
                    with suppress(httpx.TransportError):
                        http.post("/v1/experiments/test/decisions", content=wire.as_json(World().request(0)))

                thread = threading.Thread(target=ask)
                thread.start()
                next(line for line in process.stderr if "put aside" in line)
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=LIMIT)  # while the lock is held
                assert process.returncode == 0
                thread.join()
    finally:
        process.kill()
        process.wait()


def test_bounds_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("lock_timeout = 3\nmax_waiting = 7\n")
    found = settings(file, {"COMBAND_SERVE_STATEMENT_TIMEOUT": "4.5"})
    assert (found.bounds.lock_timeout, found.bounds.max_waiting, found.bounds.statement_timeout) == (3, 7, 4.5)
    assert found.bounds.ready_timeout == Bounds().ready_timeout
