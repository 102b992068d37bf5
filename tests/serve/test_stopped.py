"""Learning that stopped is seen everywhere, and goes on where it can."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from comband.serve.learning import Learning
from comband.serve.progress import Progress
from tests.serve.worlds import World, caught_up, listening, play, service, serving, spec
from tests.waiting import LIMIT, wait_for


def said(address: str) -> tuple[str, int, bool]:
    """What readiness, metrics and the experiment say."""
    ready = httpx.get(f"{address}/readyz", timeout=LIMIT)
    assert ready.status_code == 200  # lists are still shown
    lines = httpx.get(f"{address}/metrics", timeout=LIMIT).text.splitlines()
    figure = next(line for line in lines if line.startswith("comband_experiment_learning_stopped{"))
    warnings = httpx.get(f"{address}/v1/experiments/test", timeout=LIMIT).json()["warnings"]
    return ready.json()["status"], int(figure.split()[-1]), any("Learning stopped" in one for one in warnings)


def test_every_process_says_that_learning_stopped_until_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object, **more: object) -> None:
        raise ZeroDivisionError("a block that nobody can learn from")

    asyncio.run(_some_rounds(tmp_path))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.execute("DELETE FROM snapshots")
    learnt = Learning._learn
    monkeypatch.setattr(Learning, "_learn", fails)
    decides = serving(tmp_path, learn=False)
    try:
        with listening(decides) as address:
            assert said(address) == ("ready", 0, False)
            with service(tmp_path) as learns, listening(learns) as other:
                for one in (other, address):
                    wait_for(lambda one=one: said(one) == ("degraded", 1, True), "all say so")  # type: ignore[misc]
                assert "nobody can learn from" in decides.queries.status("test")["learning_stopped"]
            assert said(address) == ("degraded", 1, True)  # also when whoever failed is gone
            monkeypatch.setattr(Learning, "_learn", learnt)
            with service(tmp_path) as learns:
                asyncio.run(caught_up(learns))
                wait_for(lambda: said(address) == ("ready", 0, False), "one has learnt all there is")
    finally:
        decides.close()


async def _some_rounds(folder: Path) -> None:
    with service(folder) as made:
        await made.create(spec(epsilon=0.01))
        await play(made, World(best=0.05), 0, 64)


def test_a_process_that_has_not_caught_up_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fail where the one before it did."""
    asyncio.run(_some_rounds(tmp_path))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection, connection:
        connection.execute("INSERT INTO failures VALUES (1, 0, 'another', 'learning stopped: further on')")
    steps: list[bool] = []

    def step(self: Learning, **more: object) -> bool:
        self.learner.done  # noqa: B018 (a look, as always)
        steps.append(True)
        return len(steps) < 20 or not finished.is_set()

    finished = threading.Event()
    monkeypatch.setattr(Learning, "step", step)
    with service(tmp_path) as made:
        wait_for(lambda: len(steps) > 20, "it learns")
        assert Progress(made.journal).failures() == {1: "learning stopped: further on"}
        finished.set()
        wait_for(lambda: not Progress(made.journal).failures(), "it has caught up")
