"""Stores: versions of the tables, what cannot be written, and the same behaviour of both."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from comband.commands.cli import app as cli
from comband.page.problem import InputError
from comband.serve import wire
from comband.serve.database import StoreError
from comband.serve.journal import Journal
from comband.serve.leases import give_back, take_lease
from comband.serve.progress import FencedError, Progress
from comband.serve.repairing import repair_clock
from comband.serve.requests import unpack_body
from comband.serve.schema import OLDEST, VERSIONS
from comband.serve.service import Service
from comband.serve.stores import Sqlite, open_database
from comband.serve.wire import RewardPost
from tests.serve import postgres
from tests.serve.test_service import same, state_of
from tests.serve.worlds import M, World, caught_up, listening, play, service, serving, spec
from tests.waiting import LIMIT, wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Server]:
    with postgres.server() as one:
        yield one


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    cluster: postgres.Server = request.getfixturevalue("cluster")
    import psycopg

    name = f"t{abs(hash(str(tmp_path)))}"
    with psycopg.connect(cluster.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return (
        cluster.address.replace("/postgres", f"/{name}", 1)
        if "/postgres" not in cluster.address[:14]
        else (cluster.address.rsplit("/", 1)[0] + f"/{name}")
    )


def test_both_stores_come_to_the_same(store: str, tmp_path: Path) -> None:
    """Decisions, repeats, rewards and restarts, as on a SQLite that is never restarted."""

    async def run() -> None:
        world = World(best=0.05)
        folder = tmp_path / "reference"
        folder.mkdir()
        with service(folder) as reference:
            await reference.create(spec(epsilon=0.01))
            await play(reference, world, 0, 256)
            wanted = state_of(reference)
        made = serving(store)
        await made.create(spec(epsilon=0.01))
        await play(made, world, 0, 128)
        made.close()
        made = serving(store)
        try:
            [again] = await made.decide("test", [world.request(3)])
            assert again.decision == 3
            receipt = await made.reward("test", [world.post(3, again)])
            assert receipt.duplicates == M or {fault.outcome for fault in receipt.faults} <= {"late"}
            await play(made, world, 128, 256)
            assert same(wanted, state_of(made))
            posts = [
                RewardPost(3, [(again.items[0], 0.3)]),
                RewardPost(99999, [("x", 1.0)]),
                RewardPost(3, [("never shown", 1.0)]),
            ]
            outcomes = [fault.outcome for fault in (await made.reward("test", posts)).faults]
            assert outcomes == ["contradiction", "unknown", "not shown"]
            assert made.queries.status("test")["decisions"] == 256
            assert sum(one["decisions"] for one in made.queries.history("test")["minutes"]) == 256
        finally:
            made.close()

    asyncio.run(run())


def test_leases_and_fences(store: str) -> None:
    database = open_database(store)
    database.migrate()
    journal = Journal(database)
    progress = Progress(journal)
    with database.transaction():
        journal.create(spec(), "00" * 32)
        assert take_lease(journal, 1, "a", 60_000) == 1
        assert take_lease(journal, 1, "a", 60_000) == 1
        assert take_lease(journal, 1, "b", 60_000) is None
    with database.transaction():
        database.run("UPDATE leases SET expires = ?", [database.now() - 1])
        assert take_lease(journal, 1, "b", 60_000) == 2
    with pytest.raises(FencedError), database.transaction():
        progress.advance(1, 5, 0, 1, 3)  # the first one was only stopped, and goes on
    with pytest.raises(FencedError), database.transaction():
        progress.publish(1, 0, 0, b"plan", 1, ())
    with database.transaction():
        progress.advance(1, 5, 0, 2, 3)
        assert progress.publish(1, 0, 0, b"plan", 2, ()) == b"plan"
        assert progress.publish(1, 0, 0, b"another", 2, ()) == b"plan"
        give_back(journal, 1, "b")
        assert take_lease(journal, 1, "c", 60_000) == 3
    with database.transaction():
        database.run("UPDATE leases SET expires = ?", [database.now() + 10**9])  # before the clock was set back
        assert take_lease(journal, 1, "d", 1000) == 4
    assert journal.counts(1)[1] == 5
    database.close()


def who_learns(services: Sequence[Service]) -> Service | None:
    """The one that learns; none while the lease changes hands."""
    return next((one for one in services if one.learners and one.learners.learning(1) is not None), None)


def agreed(services: Sequence[Service]) -> bool:
    """Whether all decisions but those of a block that is not whole are settled and learnt, and all have the plan."""
    learner = who_learns(services)
    if learner is None:
        return False
    assert learner.learners is not None
    learning = learner.learners.learning(1)
    plans = [one.experiments.find("test").plan for one in services]
    return (
        learning is not None
        and learning.position == learner.journal.counts(1)[0] // 8 * 8
        and all(plan is not None and plan.epoch == learning.published - 1 for plan in plans)
    )


def test_several_processes_serve_one_experiment(cluster: postgres.Server, tmp_path: Path) -> None:
    """Three deciders on one store, of which one learns; its plans reach the others, decisions of older plans count, and
    when the learner stops another goes on.
    """
    import psycopg

    with psycopg.connect(cluster.address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE several")
    store = cluster.address.rsplit("/", 1)[0] + "/several"

    async def run() -> None:
        services = [serving(store) for _ in range(3)]
        world = World(best=0.03)
        try:
            await services[0].create(spec(epsilon=0.01, block=8))
            for made in services:
                made.experiments.refresh()
            used: set[tuple[int, int]] = set()
            for first in range(0, 480, 24):
                if first % 96 == 0:  # all that is settled is learnt, and all have heard of it
                    wait_for(partial(agreed, services), "all have the newest plan")
                if first == 240:
                    learns = wait_for(partial(who_learns, services), "one of them learns")
                    services.remove(learns)
                    learns.close()
                for k, made in enumerate(services):
                    numbers = range(first + 8 * k, first + 8 * k + 8)
                    decisions = await made.decide("test", [world.request(i) for i in numbers])
                    used |= {(k, one.epoch) for one in decisions}
                    other = services[(k + 1) % len(services)]
                    await other.reward("test", [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)])
            issued = services[0].journal.counts(1)[0]
            wait_for(partial(agreed, services), "all is learnt")
            epochs = [row.epoch for row in services[0].journal.decisions(1, 0, issued)]
            assert len(set(epochs)) > 2
            assert len({k for k, epoch in used if epoch > 0}) >= 2  # plans of one were used by others
            learner = wait_for(partial(who_learns, services), "one of them learns")
            await caught_up(learner)
            state = state_of(learner)
            assert state["position"] == issued // 8 * 8
            facts = [(row.number, row.epoch) for row in learner.journal.decisions(1, 0, issued)]
            assert [number for number, _ in facts] == list(range(issued))
            for one in services:
                one.close()
            services.clear()
            alone = serving(store)  # from the journal alone, to the same bits
            services.append(alone)
            with alone.database.transaction():
                alone.database.run("DELETE FROM snapshots")
            assert alone.learners is not None
            alone.learners._drop(1)
            await caught_up(alone)
            assert same(state, state_of(alone))
        finally:
            for made in services:
                made.close()

    asyncio.run(run())


def decided(http: httpx.Client, request: bytes) -> dict[str, object]:
    """The answer, or nothing while the store cannot be reached."""
    response = http.post("/v1/experiments/test/decisions", content=request)
    assert response.status_code in (200, 503), response.text
    return response.json() if response.status_code == 200 else {}


def test_a_connection_that_is_cut_and_a_server_that_is_killed(tmp_path: Path) -> None:
    """503 as long as it lasts; nothing that was acknowledged is lost, and the service goes on by itself."""
    with postgres.server() as cluster, listening_on(cluster.address) as http:
        world = World()
        http.post("/v1/experiments", content=wire.as_json(spec()))
        answers: dict[int, dict[str, object]] = {}
        for number in range(30):
            asked = wire.as_json(world.request(number))
            if number == 10:
                import psycopg

                with psycopg.connect(cluster.address, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    )
                assert http.post("/v1/experiments/test/decisions", content=asked).status_code == 200  # on another one
                assert http.get("/v1/experiments/test/status").status_code == 200
            if number == 20:
                cluster.kill()
                refused = http.post("/v1/experiments/test/decisions", content=asked)
                assert refused.status_code == 503
                assert "Nothing was stored" in refused.json()["detail"]
                cluster.start()
            answers[number] = wait_for(partial(decided, http, asked), "the store answers again")
        assert len(answers) == 30
        for number, answer in answers.items():
            again = http.post("/v1/experiments/test/decisions", content=wire.as_json(world.request(number))).json()
            assert (again["decision"], again["items"]) == (answer["decision"], answer["items"])
        assert http.get("/v1/experiments/test").json()["decisions"] == 30


@contextmanager
def listening_on(store: str) -> Iterator[httpx.Client]:
    """A client of a service over this store."""
    one = serving(store)
    try:
        with (
            listening(one) as address,
            httpx.Client(base_url=address, headers={"content-type": "application/json"}, timeout=LIMIT) as client,
        ):
            yield client
    finally:
        one.close()


# ---- SQLite ----------------------------------------------------------------------------------------------------------


def test_what_sqlite_commits_is_on_the_disk(tmp_path: Path) -> None:
    """No test can cut the power: what must hold is that every commit waits for the disk."""
    database = Sqlite(tmp_path / "store.db")
    database.migrate()
    full = 2  # PRAGMA synchronous: 0 off, 1 normal, 2 full
    assert (database.run("PRAGMA journal_mode"), database.run("PRAGMA synchronous")) == ([("wal",)], [(full,)])
    with database.transaction():
        assert database.run("PRAGMA synchronous") == [(full,)]
    database.close()


def test_a_version_that_adds_leaves_earlier_ones_be(store: str) -> None:
    """Any process may be the first to be upgraded; others go on, and may even be started again (rollback)."""
    newer, older = (open_database(store) for _ in range(2))
    addition = ("CREATE TABLE additions (id INTEGER PRIMARY KEY)",)
    try:
        assert older.migrate() == 0
        assert newer.migrate([*VERSIONS, addition], oldest=OLDEST) == len(VERSIONS)
        assert newer.migrate([*VERSIONS, addition], oldest=OLDEST) == len(VERSIONS) + 1
        Journal(older).check()
        assert older.migrate() == len(VERSIONS) + 1
        assert newer.read("SELECT COUNT(*) FROM additions") == [(0,)]  # nobody made it anew, or forgot it
        with older.transaction():
            Journal(older).create(spec(), "00" * 32)
        assert [one.name for one in Journal(newer).experiments()] == ["test"]
    finally:
        older.close()
        newer.close()


def test_a_version_that_breaks_waits_for_those_that_learn_and_shuts_out_earlier_ones(store: str) -> None:
    newer, older = (open_database(store) for _ in range(2))
    change = ("ALTER TABLE views RENAME TO sights",)
    versions, oldest = [*VERSIONS, change], len(VERSIONS) + 1
    try:
        older.migrate()
        with older.transaction():
            made = Journal(older).create(spec(), "00" * 32)
        with older.transaction():
            take_lease(Journal(older), made.id, "a process", 3_600_000)
        with pytest.raises(InputError, match="stop all its processes first"):
            newer.migrate(versions, oldest)
        assert newer.read("SELECT COUNT(*) FROM views") == [(0,)]  # all is as it was
        with older.transaction():
            give_back(Journal(older), made.id, "a process")
        newer.migrate(versions, oldest)
        with pytest.raises(StoreError, match="restore the back-up"):
            Journal(older).check()
        with pytest.raises(InputError, match="restore the back-up"):
            older.migrate()
    finally:
        older.close()
        newer.close()


@pytest.mark.parametrize("address", ["sqlite://", "file.db", "mysql://x", "sqlite:///", "sqlite:////nowhere/at/all.db"])
def test_addresses_that_name_no_store(address: str) -> None:
    with pytest.raises(InputError, match="store"):
        open_database(address)


def test_a_full_disk_gives_503_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with service(tmp_path) as made, listening(made) as address:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=address, headers=headers, timeout=LIMIT) as http:
            world = World()
            http.post("/v1/experiments", content=wire.as_json(spec()))
            answers = {}
            for number in range(10):
                body = wire.as_json(world.request(number))
                answers[number] = http.post("/v1/experiments/test/decisions", content=body).json()

            def limit(pages: int) -> None:
                # What SQLite does when the file can grow no more, as on a full disk.
                made.writer.call(lambda journal: journal.database.run(f"PRAGMA max_page_count = {pages}"))

            used = made.database.read("PRAGMA page_count")[0][0]
            limit(used)
            refused = 0
            for number in range(10, 400):
                body = wire.as_json(world.request(number))
                response = http.post("/v1/experiments/test/decisions", content=body)
                if response.status_code == 503:
                    refused += 1
                    assert "Nothing was stored" in response.json()["detail"]
                    assert any("full" in getattr(one, "facts", {}).get("error", "") for one in caplog.records)
                    assert response.headers["retry-after"] == "1"
                    break
                answers[number] = response.json()
            assert refused == 1
            assert http.get("/v1/experiments/test").json()["decisions"] == len(answers)
            limit(10**6)
            response = http.post("/v1/experiments/test/decisions", content=body)
            assert response.status_code == 200
            answers[number] = response.json()
            for number, answer in answers.items():
                again = http.post("/v1/experiments/test/decisions", content=wire.as_json(world.request(number))).json()
                assert again["decision"] == answer["decision"]


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    folder = tmp_path
    if os.getuid() == 0:
        folder = Path("/proc/self")  # where not even root can
    else:
        tmp_path.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="cannot be opened"):
            Service(f"sqlite:///{folder}/journal.db")
        answer = CliRunner().invoke(cli, ["serve", "--store", f"sqlite:///{folder}/journal.db"])
        assert answer.exit_code == 1
        assert "cannot be opened" in answer.output
    finally:
        tmp_path.chmod(0o755)


def test_a_store_that_becomes_read_only(tmp_path: Path) -> None:
    """Writing is refused by SQLite itself; reading goes on, and nothing is lost."""

    async def run() -> None:
        world = World()
        with service(tmp_path) as made:
            await made.create(spec())
            [one] = await made.decide("test", [world.request(0)])
            made.writer.call(lambda journal: journal.database.run("PRAGMA query_only = 1"))
            with pytest.raises(StoreError, match="readonly"):
                await made.decide("test", [world.request(1)])
            with pytest.raises(StoreError, match="readonly"):
                await made.reward("test", [world.post(0, one)])
            assert made.queries.status("test")["decisions"] == 1
        with service(tmp_path) as made:
            assert await made.decide("test", [world.request(0)]) == [one]
            assert (await made.reward("test", [world.post(0, one)])).accepted == M

    asyncio.run(run())


def test_one_bad_row_does_not_take_others_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one commit are tried one by one when it fails."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            world, decide = World(), made.journal.decide

            def picky(new):  # type: ignore[no-untyped-def]
                if any("r2" in one.requests for one in new):
                    raise sqlite3.DataError("no")
                return decide(new)

            monkeypatch.setattr(made.journal, "decide", picky)
            answers = await asyncio.gather(
                *(made.decide("test", [world.request(i)]) for i in range(5)), return_exceptions=True
            )
            assert [isinstance(answer, StoreError) for answer in answers] == [False, False, True, False, False]
            numbers = sorted(answer[0].decision for answer in answers if isinstance(answer, list))
            assert numbers == [0, 1, 2, 3]

    asyncio.run(run())


def test_a_clock_that_is_repaired_meanwhile_settles_nothing(store: str) -> None:
    """What had waited long enough by the wrong clock has not, and the clock does not go forward again."""
    database = open_database(store)
    database.migrate()
    journal = Journal(database)
    progress = Progress(journal)
    with database.transaction():
        journal.create(spec(), "00" * 32)
        fence = take_lease(journal, 1, "a", 60_000)
        assert fence is not None
        database.run("UPDATE counters SET next = 5, clock = ?", [journal.wall() + 86_400_000])
    wrong = journal.counts(1)[2]
    with database.transaction():
        assert len(repair_clock(journal)) == 1
    with database.transaction():
        assert not progress.advance(1, 5, wrong, fence, 3)
        assert repair_clock(journal) == []
    assert journal.counts(1)[:2] == (5, 0)
    with database.transaction():
        assert progress.advance(1, 5, journal.wall(), fence, 3)
    assert journal.counts(1)[:2] == (5, 5)
    database.close()


def test_a_million_keys_are_no_catalogue(tmp_path: Path) -> None:
    """Items are numbered within a request: what is kept of one is no more than its own keys."""

    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(candidates=["a", "b"], list_size=2))
            lists: list[list[str | int] | None] = [[10**12, "é"], ["10", 10]]
            [one] = await made.decide("test", [wire.DecisionRequest(lists=lists)])
            assert set(one.items) <= {10**12, "é", "10", 10}
            body = unpack_body(made.journal.decisions(1, 0, 1)[0].body)
            assert body.all_keys() == [10**12, "é", "10", 10]
            assert len(body.table) == 4

    asyncio.run(run())


def test_a_clock_that_was_set_forward_is_repaired(store: str) -> None:
    """Before, nothing is settled until the time has come that the clock had shown; then windows begin now."""

    async def run() -> None:
        made = serving(store)
        try:
            await made.create(spec(window_seconds=0.5, block=1))
            world, right = World(), made.journal.wall
            made.journal.wall = lambda: right() + 86_400_000  # type: ignore[method-assign]
            await made.decide("test", [world.request(1), world.request(2)])
            made.journal.wall = right  # type: ignore[method-assign]
            made.experiments.refresh()
            await made.decide("test", [world.request(3)])
            assert [row.time > right() for row in made.journal.decisions(1, 0, 3)] == [True] * 3
            arguments = ["repair", "clock", "--json", "--store", store]
            answer = CliRunner().invoke(cli, arguments)
            assert answer.exit_code == 0, answer.output
            [repaired] = json.loads(answer.stdout)["repaired"]
            assert (repaired["experiment"], repaired["decisions"]) == ("test", 3)
            assert 86_000 < repaired["seconds"] <= 86_400
            wait_for(lambda: made.journal.counts(1)[1] == 3, "all are settled when their window is over")
            minutes = made.queries.history("test")["minutes"]
            assert sum(one["decisions"] for one in minutes) == 3
            assert all(one["time"] <= right() for one in minutes)
            assert json.loads(CliRunner().invoke(cli, arguments).stdout) == {"repaired": []}
        finally:
            made.close()

    asyncio.run(run())


def test_the_clock_is_that_of_the_server(cluster: postgres.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database(cluster.address)
    before = database.clock()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with database.transaction():
        server = database.now()
    assert before <= server + 1000
    assert abs(database.clock() - server) < 60_000
    database.close()


def test_the_server_is_waited_for_twice_per_commit(
    cluster: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for what is known, and for the commit, which waits for the disk; whatever else is done is on its way."""
    import psycopg

    with psycopg.connect(cluster.address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE waited")
    store, waits = cluster.address.rsplit("/", 1)[0] + "/waited", 0
    sync = psycopg.Pipeline.sync

    def counted(self: psycopg.Pipeline) -> None:
        nonlocal waits
        waits += threading.current_thread().name == "comband-writer"
        sync(self)

    async def run() -> None:
        nonlocal waits
        with service(store) as made:
            await made.create(spec(epsilon=0.01))
            await play(made, World(), 0, 32)
            assert made.learners is not None
            made.learners.close()
            assert made.database.read("SHOW synchronous_commit") == [("on",)]
            monkeypatch.setattr(psycopg.Pipeline, "sync", counted)
            shown = await made.decide("test", [World().request(i) for i in range(32, 40)])
            assert (waits, [one.decision for one in shown]) == (1, list(range(32, 40)))
            waits = 0
            receipt = await made.reward("test", [World().post(i + 32, one) for i, one in enumerate(shown)])
            assert (waits, receipt.accepted) == (1, 8 * M)

    asyncio.run(run())


def test_what_fails_before_the_server_is_waited_for_takes_all_along(store: str) -> None:
    with closing(open_database(store)) as database:
        database.migrate()
        with database.transaction():
            made = Journal(database).create(spec(), "00" * 32)

        def twice() -> None:
            with database.transaction():
                database.run("UPDATE counters SET next = 7")
                for _ in range(2):
                    database.run_many("INSERT INTO requests (digest, decision) VALUES (?, ?)", [(1, 2), (3, 4)])
                database.run("UPDATE counters SET next = 8")

        with pytest.raises(StoreError, match=r"UNIQUE|unique"):
            twice()
        assert Journal(database).counts(made.id)[0] == 0
        assert database.read("SELECT COUNT(*) FROM requests") == [(0,)]


def test_connections_that_the_server_closed_are_replaced_in_every_thread(cluster: postgres.Server) -> None:
    """Nobody feels it, in any of the threads that had one."""
    import psycopg

    database = open_database(cluster.address)
    with ThreadPoolExecutor(4) as pool:
        together = threading.Barrier(4)

        def ask() -> int:
            together.wait(LIMIT)
            return int(database.read("SELECT pg_backend_pid()")[0][0])

        def all_of_them() -> set[int]:
            return {one.result() for one in [pool.submit(ask) for _ in range(4)]}

        before = all_of_them()
        assert len(before) == 4
        with psycopg.connect(cluster.address, autocommit=True) as connection:
            for pid in before:
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
            wait_for(
                lambda: (
                    connection.execute(
                        "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = ANY(%s)", [list(before)]
                    ).fetchone()
                    == (0,)
                ),
                "they are gone",
            )
        assert not all_of_them() & before
    database.close()


def test_nobody_is_told_where_the_store_is(tmp_path: Path) -> None:
    with postgres.server() as cluster, listening_on(cluster.address) as http:
        assert http.get("/readyz").status_code == 200
        cluster.kill()
        answer = http.get("/readyz")
        assert answer.status_code == 503
        for place in ("127.0.0.1", str(cluster.port), "comband@"):
            assert place not in answer.text
        cluster.start()


@pytest.mark.parametrize(
    "address", ["postgresq://me:secret@db/x", "postgresql:/me:secret@db/x", "me:secret@db", "http://me:secret@[db/x"]
)
def test_a_mistyped_address_shows_no_password(address: str) -> None:
    with pytest.raises((InputError, StoreError)) as error:
        open_database(address).migrate()
    assert "secret" not in str(error.value)


def test_an_error_of_the_driver_shows_no_password() -> None:
    for address in ("postgresql://me:secret@db:port/x", "postgresql://me:s%65cret@127.0.0.1:1/x"):
        with pytest.raises(StoreError) as error:
            open_database(address).migrate()
        assert "secret" not in str(error.value)
        assert "s%65cret" not in str(error.value)


def test_a_new_file_is_its_owners(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with service(tmp_path):
            modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.glob("journal.db*")}
    finally:
        os.umask(before)
    assert "journal.db" in modes
    assert set(modes.values()) == {0o600}
