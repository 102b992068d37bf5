"""Other sites, other hosts, proxies, and starts without tokens: what is let in, and what is not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from comband.page.problem import InputError
from comband.serve import wire
from comband.serve.access import LOOPBACK, Access
from comband.serve.api import ROUTES
from comband.serve.running import check_tokens
from comband.serve.service import Service
from comband.serve.settings import Settings, settings
from comband.serve.tokens import all_tokens, create_token, revoke_token
from tests.serve.test_api import bodies
from tests.serve.worlds import NAMES, OPEN, listening, service, spec
from tests.waiting import LIMIT

JSON = {"content-type": "application/json"}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as one:
        yield one


@contextmanager
def client(made: Service, access: Access = OPEN) -> Iterator[httpx.Client]:
    with listening(made, access) as address, httpx.Client(base_url=address, timeout=LIMIT) as http:
        yield http


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/x-www-form-urlencoded"}, 415),  # a form, by a browser that says nothing else
        ({"content-type": "text/plain"}, 415),  # what `no-cors` lets a script send
        ({}, 415),
        ({**JSON, "sec-fetch-site": "cross-site"}, 403),
        ({**JSON, "sec-fetch-site": "same-site"}, 403),  # another port, or another name of the same domain
        ({**JSON, "origin": "http://evil.example"}, 403),
        ({**JSON, "origin": "null"}, 403),
        ({**JSON, "origin": "http://127.0.0.1:1"}, 403),
    ],
)
def test_pages_of_other_sites_change_nothing(made: Service, headers: dict[str, str], status: int) -> None:
    with client(made) as http:
        http.post("/v1/experiments", content=wire.as_json(spec()), headers=JSON)
        for route in ROUTES:
            if route.method != "GET":
                path = route.path.replace("{name}", "test")
                answer = http.request(route.method, path, content=bodies().get(route.path, b""), headers=headers)
                assert answer.status_code == status, (route.path, answer.text)
        after = http.get("/v1/experiments/test").json()
        assert (after["state"], after["decisions"], after["n_candidates"]) == ("running", 0, len(NAMES))
        assert len(http.get("/v1/experiments").json()["experiments"]) == 1


@pytest.mark.parametrize("more", [{}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {"origin": "own"}])
def test_the_own_page_and_programs_may(made: Service, more: dict[str, str]) -> None:
    with client(made) as http:
        http.post("/v1/experiments", content=wire.as_json(spec()), headers=JSON)
        headers = {**JSON, **{name: str(http.base_url) if value == "own" else value for name, value in more.items()}}
        assert http.post("/v1/experiments/test/pause", headers=headers).status_code == 200
        assert http.post("/v1/experiments/test/end", headers=headers, content=b"{}").status_code == 200
        assert http.post("/v1/experiments/test/end", headers=headers, content=b'{"sure": 1}').status_code == 422


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_an_open_service_answers_no_proxy(made: Service, header: str) -> None:
    with client(made) as http:
        assert http.get("/v1/experiments").status_code == 200
        assert http.get("/v1/experiments", headers={header: "203.0.113.7"}).status_code == 403
        assert http.get("/healthz", headers={header: "203.0.113.7"}).status_code == 200


def test_hosts_are_checked_with_tokens_too(made: Service) -> None:
    with made.database.transaction():
        secret = create_token(made.journal, "test", ["admin"])
    made.experiments.refresh()
    headers = {"authorization": f"Bearer {secret}"}
    with client(made, Access(hosts=[*LOOPBACK, "bandit.example"])) as http:
        for host, status in {
            "127.0.0.1": 200,
            "LOCALHOST:80": 200,
            "[::1]:8300": 200,
            "bandit.example:443": 200,
            "evil.example": 421,
            "127.0.0.1.evil.example": 421,
            "[": 421,
        }.items():
            assert http.get("/v1/experiments", headers={**headers, "host": host}).status_code == status, host
    with client(made, Access(hosts=None)) as http:
        assert http.get("/v1/experiments", headers={**headers, "host": "any.example"}).status_code == 200
        assert http.get("/v1/experiments", headers={"host": "any.example"}).status_code == 401


def test_without_a_token_and_not_open_nothing_is_answered(made: Service) -> None:
    """Also when there is no token yet."""
    with client(made, Access()) as http:
        assert http.get("/v1/experiments").status_code == 401
        assert http.get("/readyz").status_code == 200


def test_which_hosts_follow_from_the_settings() -> None:
    def hosts(**more: object) -> object:
        return settings(None, {}, **more).access.hosts

    assert hosts() == list(LOOPBACK)
    assert hosts(host="0.0.0.0") is None
    assert hosts(host="0.0.0.0", hosts=["Bandit.example"]) == [*LOOPBACK, "bandit.example"]
    assert hosts(hosts=["*"]) is None
    found = settings(None, {"COMBAND_SERVE_HOSTS": "a.example, b.example", "COMBAND_SERVE_PROXIES": "10.0.0.1"})
    assert (found.hosts, found.proxies, found.open) == (["a.example", "b.example"], ["10.0.0.1"], False)


def test_the_first_start_makes_a_token_and_open_is_for_loopback(made: Service) -> None:
    shown: list[str] = []
    closed = Settings()
    with pytest.raises(InputError, match="cannot be open"):
        check_tokens(made, replace(closed, open=True, host="0.0.0.0"), shown.append)
    check_tokens(made, replace(closed, open=True), shown.append)
    assert not shown
    check_tokens(made, closed, shown.append)
    [secret] = shown
    [token] = all_tokens(made.journal).values()
    assert token.roles == {"admin"}
    check_tokens(made, closed, shown.append)
    assert shown == [secret]  # the first start only
    with pytest.raises(InputError, match="has tokens"):
        check_tokens(made, replace(closed, open=True), shown.append)
    with made.database.transaction():
        revoke_token(made.journal, token.id)
    with pytest.raises(InputError, match="revoked"):
        check_tokens(made, closed, shown.append)


def test_a_start_from_nothing_shows_a_token_that_works(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "comband", "serve", "--store", f"sqlite:///{tmp_path}/a.db", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        secret = process.stdout.readline().strip()
        assert secret.startswith("cb_")
        logged = (json.loads(line) for line in process.stderr if line.startswith("{"))
        address = next(one["address"] for one in logged if one["message"] == "listening")
        assert httpx.get(f"{address}/v1/experiments", timeout=LIMIT).status_code == 401
        headers = {"authorization": f"Bearer {secret}"}
        assert httpx.get(f"{address}/v1/experiments", headers=headers, timeout=LIMIT).json()["experiments"] == []
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=LIMIT)
        assert secret not in rest
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
