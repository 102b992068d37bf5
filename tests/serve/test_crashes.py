"""Killed at random moments under load: what was acknowledged is there once, and the result is that of a run that was
never disturbed.

The service is a process of its own. One client plays a fixed sequence of batches, and calls again, with the same
request ids, until it is answered; after each batch it waits until all of it is learnt from, so that every batch is
drawn from the plan that the journal leads to, whatever happens in between. Meanwhile the service is killed.

Nothing is decided before the end (`EPSILON`): learning is under way at every kill. The long form makes 200 kills on
each store; COMBAND_KILLS says how many otherwise:
COMBAND_KILLS=500 pytest -m slow tests/serve/test_crashes.py -k killed_many_times
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from comband.serve import wire
from tests.ports import reserved_port
from tests.serve import postgres
from tests.serve.test_certificate import checked, ended
from tests.serve.test_service import same, state_of
from tests.serve.worlds import M, World, caught_up, decisions_of, serving, spec
from tests.waiting import LIMIT, wait_for

JSON = {"content-type": "application/json"}
EPSILON = 1e-4  # far below what so few decisions can tell
KILLS = int(os.environ.get("COMBAND_KILLS", "200"))
# One process has everything loaded, and forks whoever is to be killed: what takes long is not what is tested.
NURSERY = """
import os, signal, sys
import numpy as np
from comband.serve.requests import Reader
from comband.serve.running import serve
from comband.serve.settings import Settings
from comband.serve.wire import Spec

warm = Reader(Spec(name="warm", candidates=["a", "b"], list_size=1, epsilon=0.1), ["a", "b"])
assert warm.scan(b'{"lists":[[1],[2]]}', np.ones(2, dtype=bool)) is not None

for line in sys.stdin:
    what, *more = line.split()
    if what == "start":
        pid = os.fork()
        if pid == 0:
            os.close(0)
            try:
                timing = {"lease": .3, "poll": .05, "snapshot": .3}
                serve(Settings(store=more[0], port=int(more[1]), open=True, log="error", **timing))
            except BaseException:
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
    else:
        status = os.waitpid(int(more[0]), 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Nursery:
    """Starts services."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )

    def ask(self, *words: object) -> int:
        """One command, and the number that it answers."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            print(*words, file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it; its children are ended by those who asked for them."""
        with self._process:
            self._process.kill()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    try:
        yield made
    finally:
        made.close()


class Victim:
    """A service that is killed and started again, on one port."""

    def __init__(self, store: str, nursery: Nursery) -> None:
        self._reserved = ExitStack()
        self.port = self._reserved.enter_context(reserved_port())
        self.store, self.kills, self._nursery = store, 0, nursery
        self._lock, self._pid = threading.Lock(), self._start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self, stop: threading.Event) -> None:
        """Until it answers."""
        while not stop.is_set():
            try:
                httpx.get(f"{self.address}/healthz", timeout=LIMIT)
            except httpx.TransportError:
                stop.wait(0.02)
            else:
                return

    def kill(self) -> None:
        """At whatever it is doing; then start again."""
        with self._lock:
            self._end(signal.SIGKILL)
            self.kills += 1
            self._pid = self._start()

    def stop(self) -> int:
        """SIGTERM: finish, commit, close."""
        with self._lock:
            return self._end(signal.SIGTERM)

    def end(self) -> None:
        """Whatever it does; it is not started again."""
        with self._lock, self._reserved:
            self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        if self._pid == 0:
            return 0
        os.kill(self._pid, how)
        status, self._pid = self._nursery.ask("wait", self._pid), 0
        return status

    def _start(self) -> int:
        return self._nursery.ask("start", self.store, self.port)


def insist(http: httpx.Client, method: str, path: str, body: bytes | None = None) -> bytes:
    """Call until it is answered."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            response = http.request(method, path, content=body)
        except httpx.TransportError:
            time.sleep(0.01)
            continue
        if response.is_success:
            return response.content
        assert response.status_code in (503, 409), response.text
        if response.status_code == 409:
            return response.content
        time.sleep(0.01)
    raise AssertionError("the service does not answer")


def run(address: str, world: World, n_batches: int, size: int, heads: list[str]) -> dict[int, wire.Decision]:
    """All decisions that were acknowledged, by the number of the request; the rewards of all were, too. The chain's
    heads on the way are added to the others.
    """
    told: dict[int, wire.Decision] = {}
    with httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http:
        insist(http, "POST", "/v1/experiments", wire.as_json(spec(epsilon=EPSILON, block=size)))
        for batch in range(n_batches):
            numbers = range(batch * size, (batch + 1) * size)
            for start in range(0, size, 4):  # several commits to a block
                some = numbers[start : start + 4]
                body = wire.as_json([world.request(i) for i in some])
                data = insist(http, "POST", "/v1/experiments/test/decisions", body)
                told |= zip(some, decisions_of(data), strict=True)
            for i in numbers:
                insist(http, "POST", "/v1/experiments/test/rewards", wire.as_json(world.post(i, told[i])))
            head = insist(http, "GET", "/v1/experiments/test/head")
            heads.append(msgspec.json.decode(head, type=wire.Head).head)
            while True:
                status = msgspec.json.decode(insist(http, "GET", "/v1/experiments/test/status"), type=wire.Status)
                assert not status.done  # there was something to learn at every kill
                if status.rounds >= (batch + 1) * size:
                    break
                time.sleep(0.005)
    return told


@contextmanager
def killing(victim: Victim, most: int) -> Iterator[None]:
    """Kill it so often, each time at a random moment after its first answer, up to a while and twice as long as that
    took: on a busy machine it must have time to get anywhere.
    """
    stop, rng = threading.Event(), np.random.default_rng()

    def go() -> None:
        while not stop.is_set() and victim.kills < most:
            began = time.monotonic()
            victim.wait(stop)
            if not stop.wait(rng.uniform(0, 0.3 + 2 * (time.monotonic() - began))):
                victim.kill()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def check(store: str, reference: Path, world: World, told: dict[int, wire.Decision], heads: list[str]) -> None:
    """Everything acknowledged is there once, nothing else is, the learner's state is that of an undisturbed run, and
    the certificate is verified with all heads.
    """

    async def compare() -> None:
        made = serving(store)
        alone = serving(reference)
        try:
            n = len(told)
            rows = made.journal.decisions(1, 0, 10 * n)
            assert [row.number for row in rows] == list(range(n))
            assert {row.request: row.number for row in rows} == {f"r{i}": one.decision for i, one in told.items()}
            kept = {(number, place): value for number, place, value in made.journal.rewards(1, 0, n)}
            assert kept == {
                (one.decision, place): value
                for i, one in told.items()
                for place, (_, value) in enumerate(world.rewards(i, one.items))
            }
            assert len(kept) == n * M
            await alone.create(spec(epsilon=EPSILON, block=made.experiments.find("test").experiment.spec.block))
            size = alone.experiments.find("test").experiment.spec.block
            for start in range(0, n, size):
                numbers = range(start, start + size)
                decisions = await alone.decide("test", [world.request(i) for i in numbers])
                for i, one in zip(numbers, decisions, strict=True):
                    assert one.items == told[i].items
                    assert one.propensities == told[i].propensities
                await alone.reward("test", [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)])
                await caught_up(alone)
            await caught_up(made)
            assert same(state_of(alone), state_of(made))
            heads.append(await ended(made))
            found = checked(made, reference, heads)
            assert found.verified, found.reason
        finally:
            made.close()
            alone.close()

    asyncio.run(compare())


def kill_and_compare(store: str, folder: Path, kills: int, nursery: Nursery) -> None:
    """Go on until it was killed so often."""
    world, victim = World(best=0.02), Victim(store, nursery)
    told: dict[int, wire.Decision] = {}
    heads: list[str] = []
    try:
        with killing(victim, kills):
            n = 6
            while victim.kills < kills or not told:
                told = run(victim.address, world, n, 16, heads)
                n += 2
        assert victim.stop() == 0
    finally:
        victim.end()
    print(f"{kills} kills, {len(told)} decisions, {len(heads)} heads, {M * len(told)} rewards")
    reference = folder / "reference"
    reference.mkdir()
    check(store, reference, world, told, heads)


def test_killed_under_load(tmp_path: Path, nursery: Nursery) -> None:
    """Some kills; the long form makes hundreds."""
    kill_and_compare(f"sqlite:///{tmp_path}/journal.db", tmp_path, 10, nursery)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_many_times_under_load(tmp_path: Path, kind: str, nursery: Nursery) -> None:
    if kind == "sqlite":
        kill_and_compare(f"sqlite:///{tmp_path}/journal.db", tmp_path, KILLS, nursery)
    else:
        with postgres.server() as cluster:
            kill_and_compare(cluster.address, tmp_path, KILLS, nursery)


def learns(http: httpx.Client, victim: Victim) -> bool:
    """Whether it is the one that learns."""
    return "comband_learning 1\n" in insist(http, "GET", f"{victim.address}/metrics").decode()


def learning(http: httpx.Client, victims: list[Victim]) -> Victim | None:
    """The one that learns; none while the lease changes hands, as it may on a busy machine."""
    found = [victim for victim in victims if learns(http, victim)]
    return found[0] if len(found) == 1 else None


def test_two_of_three_deciders_and_the_learner_are_killed(nursery: Nursery, tmp_path: Path) -> None:
    """Whoever is left goes on, another learns within seconds, and nothing is counted twice."""
    with postgres.server() as cluster:
        world = World(best=0.02)
        victims = [Victim(cluster.address, nursery) for _ in range(3)]
        told: dict[int, wire.Decision] = {}
        try:
            with httpx.Client(headers=JSON, timeout=LIMIT) as http:
                for victim in victims:
                    insist(http, "GET", f"{victim.address}/readyz")
                insist(http, "POST", f"{victims[0].address}/v1/experiments", wire.as_json(spec(epsilon=0.01, block=16)))
                for start in range(0, 320, 16):
                    if start == 160:
                        leader = wait_for(lambda: learning(http, victims), "one of them learns")
                        victims.sort(key=lambda victim: victim is not leader)  # it is the first to be killed
                        for victim in victims[:2]:
                            victim.end()
                    left = victims if start < 160 else victims[2:]
                    for i in range(start, start + 16):
                        path = f"{left[i % len(left)].address}/v1/experiments/test"
                        while True:  # those that have not heard of the experiment yet say so
                            body = wire.as_json(world.request(i))
                            response = http.post(f"{path}/decisions", content=body)
                            if response.status_code == 200:
                                break
                            assert response.status_code in (404, 503), response.text
                        told[i] = msgspec.json.decode(response.content, type=wire.Decision)
                        insist(http, "POST", f"{path}/rewards", wire.as_json(world.post(i, told[i])))
                path = f"{victims[2].address}/v1/experiments/test/status"

                def learnt() -> bool:
                    status = msgspec.json.decode(insist(http, "GET", path), type=wire.Status)
                    return bool(status.rounds == 320 or status.done)

                wait_for(learnt, "another process learns")
            assert victims[2].stop() == 0
        finally:
            for victim in victims:
                victim.end()
        assert sorted(one.decision for one in told.values()) == list(range(320))

        async def replay() -> None:
            """From the journal alone, in one process: the same bits."""
            states = []
            for forget in (False, True):
                made = serving(cluster.address)
                try:
                    if forget:
                        with made.database.transaction():
                            made.database.run("DELETE FROM snapshots")
                        assert made.learners is not None
                        made.learners._drop(1)
                    await caught_up(made)
                    states.append(state_of(made))
                    if forget:  # what is learnt again from the beginning stands in the chain already
                        found = checked(made, tmp_path, [await ended(made)])
                        assert found.verified, found.reason
                finally:
                    made.close()
            assert same(states[0], states[1])

        asyncio.run(replay())
