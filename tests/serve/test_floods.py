"""More than a service can take: heads, bodies, connections, exports and requests, each stopped before it costs much."""

from __future__ import annotations

import json
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from comband.page.problem import InputError
from comband.serve import api, wire
from comband.serve import service as serving
from comband.serve.access import Access
from comband.serve.admission import Admission
from comband.serve.bounds import Bounds
from comband.serve.problems import RefusedError
from comband.serve.requests import Reader, check_elements
from comband.serve.running import within_files
from comband.serve.service import Service
from comband.serve.tokens import create_token
from tests.serve.worlds import PATIENT, M, World, listening, service, spec
from tests.waiting import LIMIT, wait_for

JSON = {"content-type": "application/json"}
DECISIONS, REWARDS = "/v1/experiments/test/decisions", "/v1/experiments/test/rewards"


@contextmanager
def served(path: Path, bounds: Bounds, access: Access | None = None) -> Iterator[tuple[Service, httpx.Client]]:
    with (
        service(path, bounds=bounds) as made,
        listening(made, *([] if access is None else [access])) as address,
        httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as http,
    ):
        yield made, http


def raw(http: httpx.Client) -> socket.socket:
    return socket.create_connection((http.base_url.host, http.base_url.port or 80), timeout=LIMIT)


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes the connection."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


# ---- heads and connections -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [True, False], ids=["at once", "without end"])
def test_a_head_may_be_only_so_large(tmp_path: Path, ends: bool) -> None:
    with served(tmp_path, replace(PATIENT, max_head=4000)) as (_, http), raw(http) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ")
        connection.sendall(b"a" * 5000 + (b"\r\n\r\n" if ends else b""))
        answer = rest(connection)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["status"] == 431
        assert http.get("/healthz", headers={"x": "a" * 3000}).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nhost: loc"])
def test_a_connection_without_a_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    with served(tmp_path, replace(PATIENT, head_timeout=0.3)) as (_, http), raw(http) as connection:
        connection.sendall(sent)
        assert rest(connection).startswith(b"HTTP/1.1 408 ")
        wait_for(lambda: http.get("/healthz").status_code == 200, "others are answered")


@pytest.mark.parametrize("path", ["POST " + DECISIONS, "GET /healthz"])  # also where nobody asks for the body
def test_a_body_that_never_ends_is_not_waited_for(tmp_path: Path, path: str) -> None:
    with served(tmp_path, replace(PATIENT, receive_timeout=0.3)) as (_, http), raw(http) as connection:
        head = f"{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
        connection.sendall(head.encode())
        rest(connection)  # ends
        wait_for(lambda: http.get("/healthz").status_code == 200, "others are answered")


def test_silent_connections_make_room(tmp_path: Path) -> None:
    with served(tmp_path, replace(PATIENT, max_connections=4)) as (_, http), ExitStack() as opened:
        silent = [opened.enter_context(raw(http)) for _ in range(4)]
        assert http.get("/healthz").status_code == 200
        assert rest(silent[0]) == b""  # the one that waited longest
        silent[3].sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert rest(silent[3]).startswith(b"HTTP/1.1 200 ")


def test_connections_in_use_are_not_closed_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, release = threading.Semaphore(0), threading.Event()

    def wait(_: Service) -> None:
        under_way.release()
        release.wait(LIMIT)

    monkeypatch.setattr(Service, "check_ready", wait)
    with served(tmp_path, replace(PATIENT, max_connections=1)) as (_, http), raw(http) as busy:
        busy.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert under_way.acquire(timeout=LIMIT)
        refused = http.get("/healthz")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        release.set()
        assert rest(busy).startswith(b"HTTP/1.1 200 ")


def test_there_are_fewer_connections_than_files() -> None:
    resource = pytest.importorskip("resource")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert within_files(Bounds(max_connections=3)).max_connections == 3
    if files != resource.RLIM_INFINITY:
        assert within_files(Bounds(max_connections=files)).max_connections < files


# ---- bodies ----------------------------------------------------------------------------------------------------------


def test_bodies_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    with served(tmp_path, replace(PATIENT, max_body=1000)) as (_, http), raw(http) as connection:
        head = f"POST {DECISIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        connection.sendall(f"{head}content-length: 1001\r\n\r\n".encode())  # and nothing of it
        assert rest(connection).startswith(b"HTTP/1.1 413 ")

        def parts() -> Iterator[bytes]:
            for _ in range(100):
                yield b" " * 100

        assert http.post(DECISIONS, content=parts()).status_code == 413
        assert http.post("/v1/experiments/test/pause", content=b" " * 999).status_code == 400


def test_what_takes_no_lists_takes_small_bodies(tmp_path: Path) -> None:
    with served(tmp_path, PATIENT) as (_, http):
        for verb in ("pause", "end", "candidates"):
            large = http.post(f"/v1/experiments/test/{verb}", content=b" " * (wire.MAX_SMALL_BODY + 1))
            assert large.status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * 50_000 + b"{}]",
        b'{"lists": {"best": [' + b"1," * 200_000 + b"1]}}",
        b"[" * 200_000,
    ],
    ids=["requests", "items", "levels"],
)
def test_elements_are_counted_before_anything_is_made_of_them(
    tmp_path: Path, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was parsed")

    with served(tmp_path, PATIENT) as (_, http):
        http.post("/v1/experiments", content=wire.as_json(spec()))
        monkeypatch.setattr(serving, "decision_requests_of", never)
        monkeypatch.setattr(Reader, "scan", never)
        monkeypatch.setattr(wire, "reward_posts_of", never)
        for path in (DECISIONS, REWARDS):
            refused = http.post(path, content=body)
            assert refused.status_code == 422, refused.text


def lengths(value: Any, level: int, found: dict[int, int]) -> None:
    """How long the lists and objects of each level are, at most."""
    if isinstance(value, (list, dict)):
        found[level] = max(found.get(level, 0), len(value))
        for one in value.values() if isinstance(value, dict) else value:
            lengths(one, level + 1, found)


def test_elements_are_counted_as_a_parser_counts_them() -> None:
    rng = random.Random(5)
    words = ["", "a,b", '"', "\\", '\\",[', "{}[]", "é"]

    def made(depth: int) -> Any:
        kind = rng.randrange(4 if depth else 2)
        if kind == 0:
            return rng.choice(words)
        if kind == 1:
            return rng.choice([1, None, True, -2.5])
        n = rng.randrange(6)
        if kind == 2:
            return [made(depth - 1) for _ in range(n)]
        return {f"{rng.choice(words)}{i}": made(depth - 1) for i in range(n)}

    refused = 0
    for _ in range(3000):
        value = [made(6) for _ in range(rng.randrange(1, 7))]
        found: dict[int, int] = {}
        lengths(value, 1, found)
        text = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode().ljust(70_000)
        outermost, within = rng.randrange(1, 7), rng.randrange(1, 6)
        inner = [n for level, n in found.items() if level > 1]
        fits = found[1] <= outermost and max(inner, default=0) <= within and max(found) < 8
        try:
            check_elements(text, outermost, within)
            assert fits, text
        except InputError:
            refused += 1
            assert not fits, text
    assert 100 < refused < 2900


def test_a_large_batch_is_read_off_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, read = [], Service._read_body

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return read(*args)

    monkeypatch.setattr(Service, "_read_body", noted)
    with served(tmp_path, PATIENT) as (_, http):
        http.post("/v1/experiments", content=wire.as_json(spec()))
        lists: dict[str, list[str | int]] = {
            name: [f"{item} {'x' * 180}" for item in items] for name, items in World().lists(0).items()
        }
        batch = wire.as_json([wire.DecisionRequest(lists=lists) for _ in range(wire.MAX_BATCH)])
        assert len(batch) > 256 * 1024
        assert len(http.post(DECISIONS, content=batch).json()["decisions"]) == wire.MAX_BATCH
        [decision] = http.post(DECISIONS, content=wire.as_json([World().request(0)])).json()["decisions"]
        assert len(decision["items"]) == M
        posts = [wire.RewardPost(i, [("x" * 200, 0.0)] * 20) for i in range(100)]
        assert len(http.post(REWARDS, content=wire.as_json(posts)).json()["faults"]) == 2000
    assert threads[0] == "comband-reading"
    assert threads[1] != "comband-reading"


def test_bodies_of_all_requests_are_bounded_together(tmp_path: Path) -> None:
    with served(tmp_path, replace(PATIENT, max_bodies=1000)) as (_, http), raw(http) as slow:
        http.post("/v1/experiments", content=wire.as_json(spec()))
        head = f"POST {DECISIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        slow.sendall(f"{head}content-length: 900\r\n\r\n".encode() + b" " * 899)
        wait_for(
            lambda: http.post(DECISIONS, content=b" " * 200).status_code == 503, "what is being received is counted"
        )
        slow.sendall(b"x")
        wait_for(lambda: http.post(DECISIONS, content=b" " * 200).status_code == 400, "and is not any more")


# ---- requests of a token ---------------------------------------------------------------------------------------------


def test_requests_per_second_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("comband.serve.admission.time.monotonic", lambda: now)
    made = Admission(Bounds(max_rate_per_token=10, max_requests_per_token=2))

    def ask(token: str) -> int:
        try:
            with made.request(token):
                return 200
        except RefusedError as error:
            return error.status if int(error.headers["retry_after"]) >= 1 else 0

    assert [ask("a") for _ in range(12)] == [200] * 10 + [429, 429]
    assert ask("b") == 200  # another token
    now += 0.35
    assert [ask("a") for _ in range(4)] == [200] * 3 + [429]
    now += 100
    assert [ask("a") for _ in range(12)] == [200] * 10 + [429, 429]  # no more than one second is saved up
    now += 100
    with made.request("a"), made.request("a"):
        assert ask("a") == 429
        assert ask("b") == 200
    assert ask("a") == 200


def test_one_token_does_not_use_up_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, release = threading.Semaphore(0), threading.Event()

    def wait(*_: object) -> str:
        under_way.release()
        release.wait(LIMIT)
        return ""

    bounds = replace(PATIENT, max_requests_per_token=1)
    with served(tmp_path, bounds, Access()) as (made, http):
        with made.database.transaction():
            one, other = (
                {"authorization": f"Bearer {create_token(made.journal, name, ['admin'])}"} for name in ("one", "other")
            )
        made.experiments.refresh()
        monkeypatch.setattr(api, "metrics_text", wait)
        thread = threading.Thread(target=lambda: http.get("/metrics", headers=one))
        thread.start()
        assert under_way.acquire(timeout=LIMIT)
        refused = http.get("/v1/experiments", headers=one)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert http.get("/v1/experiments", headers=other).status_code == 200
        assert http.get("/readyz").status_code == 200
        release.set()
        thread.join()
        wait_for(lambda: http.get("/v1/experiments", headers=one).status_code == 200, "it may ask again")


def test_exports_come_one_at_a_time_and_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, release, at_once, most = threading.Semaphore(0), threading.Event(), [0], [0]

    def wait(*_: object) -> tuple[str, None]:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        under_way.release()
        release.wait(LIMIT)
        at_once[0] -= 1
        with tempfile.NamedTemporaryFile(dir=tmp_path, suffix=".parquet", delete=False) as file:
            file.write(b"PAR1")
        return file.name, None

    monkeypatch.setattr(api, "export", wait)
    path, got = "/v1/experiments/test/export/rounds.parquet", []
    with served(tmp_path, replace(PATIENT, max_exports=2, max_readers=1)) as (_, http):
        http.post("/v1/experiments", content=wire.as_json(spec()))
        threads = [threading.Thread(target=lambda: got.append(http.get(path).status_code)) for _ in range(6)]
        for thread in threads:
            thread.start()
        assert under_way.acquire(timeout=LIMIT)
        wait_for(lambda: len(got) == 3, "three of six are told to come again")
        assert http.post(DECISIONS, content=wire.as_json(World().request(0))).status_code == 200
        assert http.get("/v1/experiments/test/status").status_code == 200
        release.set()
        for thread in threads:
            thread.join()
    assert sorted(got) == [200] * 3 + [503] * 3
    assert most == [1]
