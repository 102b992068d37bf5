"""What the first request would wait for is there before it comes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from comband.serve import warming
from tests.serve.worlds import World, listening, service, spec
from tests.waiting import LIMIT

LIFE = """
import asyncio, sys
from pathlib import Path
import httpx
from comband.serve.warming import warm_up
from comband.serve.wire import as_json
from tests.compiled import compiled
from tests.serve.worlds import World, listening, play, service, spec
from tests.waiting import LIMIT

assert any(warm_up())
for _ in warm_up():
    pass
before = compiled()
with service(Path(sys.argv[1])) as made:
    asyncio.run(made.create(spec()))
    asyncio.run(play(made, World(), 0, 320))
    with listening(made) as address:
        answer = httpx.post(
            f"{address}/v1/experiments/test/decisions",
            content=as_json([World().request(i) for i in range(320, 330)]),
            headers={"content-type": "application/json"},
            timeout=LIMIT,
        )
        answer.raise_for_status()
print(len(before), sorted(compiled() - before))
"""


def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIFE, str(tmp_path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    count, rest = shown.stdout.split(maxsplit=1)
    assert int(count) > 5
    assert rest.strip() == "[]"


def test_it_is_not_ready_before_it_is_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, end = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[bool]:
        begun.set()
        assert go_on.wait(LIMIT)
        yield True
        assert end.wait(LIMIT)
        raise RuntimeError("it is no harm if it fails")

    monkeypatch.setattr(warming, "warm_up", slow)
    with service(tmp_path) as made, listening(made) as address:
        asyncio.run(made.create(spec()))
        url, answers = f"{address}/v1/experiments/test/decisions", []
        assert (
            httpx.post(url, json={"lists": World().lists(0)}, timeout=LIMIT).status_code == 200
        )  # and is quick from now on
        thread = made.warming.start()
        request = threading.Thread(
            target=lambda: answers.append(httpx.post(url, json={"lists": World().lists(1)}, timeout=LIMIT))
        )
        try:
            assert begun.wait(LIMIT)
            request.start()
            early = httpx.get(f"{address}/readyz", timeout=LIMIT)
            assert early.status_code == 503
            assert early.headers["retry-after"] == "1"
            assert "compiled" in early.json()["detail"]
            assert httpx.get(f"{address}/healthz", timeout=LIMIT).status_code == 200  # nobody else waits
            assert request.is_alive()
            go_on.set()
            request.join(LIMIT)
            assert [answer.status_code for answer in answers] == [200]
            assert httpx.get(f"{address}/readyz", timeout=LIMIT).status_code == 503
        finally:
            go_on.set()
            end.set()
            thread.join()
        assert httpx.get(f"{address}/readyz", timeout=LIMIT).status_code == 200


def test_whoever_stops_it_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def endless() -> Iterator[bool]:
        while True:
            steps.append(len(steps))
            yield False

    monkeypatch.setattr(warming, "warm_up", endless)
    with service(tmp_path) as made:
        thread = made.warming.start()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert steps
