"""Requests of a small world, and services to send them to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvicorn
from numpy.typing import NDArray

from comband.serve.access import Access
from comband.serve.api import make_app
from comband.serve.bounds import Bounds
from comband.serve.learners import Timing
from comband.serve.running import configured
from comband.serve.service import Service
from comband.serve.wire import Decision, DecisionRequest, Decisions, RewardPost, Spec
from tests.waiting import LIMIT, wait_for

NAMES = ["best", "second", *(f"other {i}" for i in range(4))]
M = 3
OPEN = Access(is_open=True)
# A machine that is busy, and compiles first, answers late: only tests of deadlines have short ones.
PATIENT = Bounds(
    lock_timeout=LIMIT,
    statement_timeout=LIMIT,
    answer_timeout=LIMIT,
    ready_timeout=LIMIT,
    head_timeout=LIMIT,
    receive_timeout=LIMIT,
)
# The lease is no shorter than it is by default: who gives it back does so at once, and a busy machine may not renew it.
QUICK = Timing(lease=3.0, poll=0.05, idle=0.005, view=0.02, snapshot=0.2)


def spec(name: str = "test", **more: Any) -> Spec:
    settings: dict[str, Any] = {
        "name": name,
        "candidates": NAMES,
        "list_size": M,
        "epsilon": 0.1,
        "sparsity": 1,
        "window_seconds": 6 * LIMIT,  # rewards are late only where that is what is tested
        "first_epoch": 64,
        "block": 16,
        "seed": 5,
        **more,
    }
    return Spec(**settings)


class World:
    """Requests by number: their lists, and what is clicked, are functions of it, so that any run sees the same.

    The first candidate shows items that are clicked often (`best`); all others share a pool that is not.
    """

    def __init__(self, seed: int = 1, *, best: float = 0.25) -> None:
        self.seed, self.best = seed, best

    def lists(self, number: int) -> dict[str, list[str | int]]:
        rng = np.random.default_rng([self.seed, number])
        found: dict[str, list[str | int]] = {
            name: [f"item {k}" for k in rng.choice(20, M, replace=False)] for name in NAMES
        }
        found["best"] = [f"good {k}" for k in rng.choice(5, M, replace=False)]
        return found

    def request(self, number: int, **more: Any) -> DecisionRequest:
        return DecisionRequest(lists=self.lists(number), request=f"r{number}", **more)

    def rewards(self, number: int, items: Sequence[str | int]) -> list[tuple[str | int, float]]:
        """All items answered; at most one is clicked, and which does not depend on what was shown."""
        rng = np.random.default_rng([self.seed, number, 7])
        wanted = {f"good {k}" for k in range(5) if rng.random() < self.best} | {
            f"item {k}" for k in range(20) if rng.random() < 0.02
        }
        first = next((item for item in items if item in wanted), None)
        return [(item, float(item == first)) for item in items]

    def post(self, number: int, decision: Decision) -> RewardPost:
        return RewardPost(decision.decision, self.rewards(number, decision.items))


def numbered(
    requests: Sequence[dict[str, list[str | int]]], names: Sequence[str] = NAMES, here: Sequence[str] = NAMES
) -> tuple[NDArray[Any], list[list[str | int]]]:
    """Tables (n, P, M) as the library takes them, −1 where somebody has nothing to say, and what the numbers mean."""
    tables, keys = [], []
    for lists in requests:
        known = list(dict.fromkeys(item for name in names if name in here for item in lists.get(name, [])))
        rows = [[known.index(item) for item in (lists.get(name, []) if name in here else [])] for name in names]
        tables.append([row + [-1] * (M - len(row)) for row in rows])
        keys.append(known)
    return np.array(tables), keys


def decisions_of(answer: bytes) -> list[Decision]:
    """The decisions of a batch over HTTP, of which none was refused."""
    found = msgspec.json.decode(answer, type=Decisions)
    assert not found.refused
    return [one for one in found.decisions if one is not None]


def serving(store: str | Path, **more: Any) -> Service:
    """A service over a store, or over a file in this folder, that waits for as long as it takes."""
    address = f"sqlite:///{store}/journal.db" if isinstance(store, Path) else store
    return Service(address, **{"timing": QUICK, "bounds": PATIENT, **more})


@contextmanager
def service(store: str | Path, **more: Any) -> Iterator[Service]:
    """The same, and closed in the end."""
    made = serving(store, **more)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def listening(made: Service, access: Access = OPEN) -> Iterator[str]:
    """The service over HTTP, on a port of this machine, in a thread; its address."""
    config = configured(make_app(made, access), made.bounds, host="127.0.0.1", port=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive(), "the service listens")
        assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


async def play(made: Service, world: World, first: int, last: int, *, name: str = "test", size: int = 16) -> None:
    """Requests `first` … `last` − 1 in batches, all answered, the learner caught up after each."""
    for start in range(first, last, size):
        numbers = range(start, min(start + size, last))
        decisions = await made.decide(name, [world.request(i) for i in numbers])
        await made.reward(name, [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)])
        await caught_up(made, name)


async def caught_up(made: Service, name: str = "test") -> None:
    """Wait until the learner has taken in all whole blocks that are settled, and its plan is known here."""
    number = made.experiments.find(name).experiment.id
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        assert made.learners is not None
        assert not made.learners.failed, made.learners.failed
        learning = made.learners.learning(number)
        if learning is not None:
            issued = made.journal.counts(number)[0]
            block = learning.experiment.spec.block
            plan = made.experiments.find(name).plan
            behind = not learning.learner.done and learning.position < issued // block * block
            if not behind and plan is not None and plan.epoch == learning.published - 1:
                return
        await asyncio.sleep(0.002)
    raise AssertionError("the learner does not catch up")
