"""What has ended costs nothing, and a history does not grow: counted in statements, rows and points."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest

from comband.serve import wire
from comband.serve.database import Row
from comband.serve.journal import Journal
from comband.serve.progress import Progress
from comband.serve.service import Service
from comband.serve.stores import Sqlite
from comband.serve.thinning import COARSER, FINEST, KEPT, superfluous
from tests.serve.worlds import World, listening, play, service, spec
from tests.waiting import LIMIT, wait_for

LIVE = 10


class Statements:
    """All statements that a store was asked for, with their values and how many rows came back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, str, tuple[Any, ...], int]] = []
        run, run_many = Sqlite._run, Sqlite._run_many

        def counted(database: Sqlite, connection: Any, statement: str, values: Sequence[Any]) -> list[Row]:
            rows = run(database, connection, statement, values)
            self.seen.append((threading.get_ident(), statement, tuple(values), len(rows)))
            return rows

        def counted_many(database: Sqlite, connection: Any, statement: str, rows: Any) -> None:
            listed = list(rows)
            self.seen.append((threading.get_ident(), statement, (), len(listed)))
            run_many(database, connection, statement, listed)

        monkeypatch.setattr(Sqlite, "_run", counted)
        monkeypatch.setattr(Sqlite, "_run_many", counted_many)

    def here(self) -> list[str]:
        """Those of this thread."""
        return [statement for thread, statement, _, _ in self.seen if thread == threading.get_ident()]


def fill(folder: Path, n_ended: int) -> None:
    """A store with some live experiments and many that ended long ago, each of them with a plan, a view and a lease."""
    database = Sqlite(folder / "journal.db")
    database.migrate()
    journal = Journal(database)
    with database.transaction():
        for i in range(LIVE):
            journal.create(spec(f"live-{i}"), f"{i:064x}")
        ids = range(LIVE + 1, LIVE + 1 + n_ended)
        text = wire.as_json(spec("old"))
        tables: dict[str, list[tuple[Any, ...]]] = {
            "experiments VALUES (?, 'default', ?, ?, ?, 'ended', 0, 0, NULL)": [
                (i, f"old-{i}", text, "00" * 32) for i in ids
            ],
            "counters (experiment, next, clock) VALUES (?, 100, 0)": [(i,) for i in ids],
            "fronts VALUES (?, 100)": [(i,) for i in ids],
            "retained VALUES (?, 0, 0)": [(i,) for i in ids],
            "leases VALUES (?, '', 0, 0)": [(i,) for i in ids],
            "views VALUES (?, 100, ?)": [(i, b'{"rounds": 100, "answer": "old", "warnings": []}') for i in ids],
        }
        for statement, rows in tables.items():
            database.run_many(f"INSERT INTO {statement}", rows)
    database.close()


@contextmanager
def started(folder: Path, n_ended: int, **more: Any) -> Iterator[Service]:
    folder.mkdir()
    fill(folder, n_ended)
    with service(folder, **more) as made:
        yield made


def test_ended_experiments_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten live ones among 10,000 cost what ten cost: to start, look for news, learn, list and measure."""
    n_ended = 10_000 - LIVE
    asked = {}
    for n in (0, n_ended):
        with monkeypatch.context() as patch:
            statements = Statements(patch)
            with started(tmp_path / str(n), n, learn=False) as made:
                statements.seen.clear()
                made.experiments.refresh()
                made.queries.summaries(made.experiments.live())
                asked[n] = statements.here()
                assert max(rows for *_, rows in statements.seen) <= LIVE
    assert asked[0] == asked[n_ended]
    starts = {}
    for n in (0, n_ended):
        with monkeypatch.context() as patch:
            statements = Statements(patch)
            with service(tmp_path / str(n), learn=False):
                starts[n] = statements.here()
    assert starts[0] == starts[n_ended]
    with monkeypatch.context() as patch:
        statements = Statements(patch)
        with service(tmp_path / str(n_ended)) as made:
            learners = made.learners
            assert learners is not None
            live = [one.experiment.id for one in made.experiments.live()]
            wait_for(lambda: all(learners.learning(number) is not None for number in live), "the live ones are learnt")
            statements.seen.clear()

            def renewals() -> int:
                return sum("UPDATE leases" in statement for _, statement, _, _ in statements.seen)

            wait_for(lambda: renewals() >= 3 * LIVE, "leases are renewed")
            assert max(rows for *_, rows in statements.seen) <= LIVE
            of_leases = {values[-1] for _, statement, values, _ in statements.seen if "leases" in statement}
            assert of_leases == set(live)
            assert not any("'ended' AND" in statement for _, statement, _, _ in statements.seen)  # nor looked at
            with listening(made) as address, httpx.Client(base_url=address, timeout=LIMIT) as http:
                assert len(http.get("/v1/experiments?state=live").json()["experiments"]) == LIVE
                assert "old-" not in http.get("/metrics").text
                page = http.get("/v1/experiments?state=ended&limit=7").json()
                assert [one["name"] for one in page["experiments"]] == [f"old-{LIVE + 1 + i}" for i in range(7)]
                assert (page["live"], page["ended"]) == (LIVE, n_ended)
                more = http.get(f"/v1/experiments?state=ended&limit=7&after={page['next']}").json()
                assert more["experiments"][0]["name"] == f"old-{LIVE + 8}"
                assert http.get("/v1/experiments/old-77/status").json()["rounds"] == 100
                for wrong in ("state=dead", "limit=0", "limit=1001", "after=-1", "after=x"):
                    assert http.get(f"/v1/experiments?{wrong}").status_code == 422


def test_an_experiment_that_ends_is_finished_and_then_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            await play(made, World(best=0.05), 0, 32)
            with service(tmp_path) as other:  # which does not learn as long as the first one does
                await made.set_state("test", "ended")
                number = made.experiments.find("test").experiment.id
                for one in (made, other):
                    wait_for(lambda one=one: not one.experiments.unfinished(), "nothing is left")  # type: ignore[misc]
            assert made.database.read("SELECT expires FROM leases") == [(0,)]
            assert made.queries.status("test")["rounds"] == 32
            assert made.learners is not None
            assert made.learners.learning(number) is None
        with service(tmp_path) as made:
            assert made.experiments.unfinished() == []
            status = made.queries.status("test")
            assert (status["rounds"], status["state"]) == (32, "ended")
            assert status["epoch"] >= 0

    asyncio.run(run())


# ---- histories -------------------------------------------------------------------------------------------------------


def thinned(times: list[int]) -> list[int]:
    gone = set(superfluous(times))
    return [time for i, time in enumerate(times) if i not in gone]


def test_points_are_thinned_to_a_constant_number_on_each_scale() -> None:
    kept: list[int] = []
    most, start, week = 0, 1_794_000_000_123, 7 * 86_400
    every = [start + 1000 * i + (i * 7919) % 900 for i in range(0, week, 3)]
    for i, time in enumerate(every):
        kept.append(time)
        if i % 32 == 0:
            kept = thinned(kept)
            most = max(most, len(kept))
    assert most <= 450
    assert (kept[0], kept[-1]) == (every[0], every[-1])
    ages = [every[-1] - time for time in kept]
    width, scales = FINEST, 0
    while width * KEPT < 1000 * week:
        here = [age for age in ages if KEPT * width // COARSER <= age < KEPT * width]
        assert len(here) <= KEPT + 32
        width, scales = width * COARSER, scales + 1
    assert scales >= 6
    assert thinned(kept) == thinned(every)  # little by little, or at once


@pytest.mark.parametrize("times", [[], [5], [5, 5], [7_000_000, 5, 6, 9_000_000]])
def test_few_points_and_a_clock_that_was_set_back(times: list[int]) -> None:
    assert {0, len(times) - 1} & set(superfluous(times)) == set()


def test_what_is_new_is_sent_and_old_points_are_thinned(tmp_path: Path) -> None:
    with service(tmp_path, learn=False) as made:
        made.writer.call(lambda journal: journal.create(spec(), "00" * 32))
        made.experiments.refresh()
        progress, now = Progress(made.journal), made.journal.wall() // 60_000 * 60_000
        point = wire.as_json({"time": 0})

        def add(position: int, *, thin: bool) -> None:
            progress.wall = lambda: now + 1000 * position  # type: ignore[method-assign]
            with made.database.transaction():
                progress.view(1, position, b"{}", point, 0, thin=thin)
                made.database.run_many(
                    "INSERT INTO minutes VALUES (1, ?, 1, 0, 0, 0) ON CONFLICT DO NOTHING",
                    [((now + 1000 * position) // 60_000,)],
                )

        for position in range(2000):
            add(position, thin=position % 32 == 0)
        points = [one["decisions"] for one in made.queries.history("test")["points"]]
        assert len(points) < 300
        assert (points[0], points[-1]) == (0, 1999)
        assert points[-60:] == list(range(1940, 2000))
        news = made.queries.history("test", since=1995)
        assert [one["decisions"] for one in news["points"]] == [1995, 1996, 1997, 1998, 1999]
        assert [one["time"] for one in news["minutes"]] == [now + 33 * 60_000]
        assert len(made.queries.history("test", since=1900)["minutes"]) == 3
        gone = next(i for i in range(2000) if i not in points)
        assert made.queries.history("test", since=gone)["minutes"] == made.queries.history("test")["minutes"]


def test_a_winner_adds_one_point_and_no_more(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec())
            world, end = World(), 0
            for start in range(0, 3000, 160):
                await play(made, world, start, start + 160)
                if made.queries.status("test")["done"]:
                    end = start + 160
                    break
            assert end
            before = len([one for one in made.queries.history("test")["points"] if one["done"]])
            began = monotonic()
            await play(made, world, end, end + 160)
            wait_for(lambda: made.queries.status("test")["settled"] == end + 160, "all is settled")
            done = [one for one in made.queries.history("test")["points"] if one["done"]]
            assert done[0]["decisions"] <= end
            assert len(done) - before <= 1 + (monotonic() - began)  # at most one per second since

    asyncio.run(run())
