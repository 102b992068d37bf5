"""Over HTTP: who may do what, what is refused, and how."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from comband.commands.cli import app as cli
from comband.page.problem import InputError
from comband.serve import page, wire
from comband.serve.api import ROUTES
from comband.serve.client import Client, ServiceError
from comband.serve.service import Service
from comband.serve.tokens import all_tokens, bearer_of, create_token, revoke_token
from tests.serve.worlds import NAMES, M, World, decisions_of, listening, service, spec
from tests.waiting import LIMIT, wait_for

JSON = {"content-type": "application/json"}
ROLES = ("decide", "reward", "read", "admin")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as one:
        yield one


@pytest.fixture
def http(made: Service) -> Iterator[httpx.Client]:
    with listening(made) as address, httpx.Client(base_url=address, headers=JSON, timeout=LIMIT) as client:
        client.post("/v1/experiments", content=wire.as_json(spec()))
        yield client


def token(made: Service, *roles: str) -> str:
    with made.database.transaction():
        secret = create_token(made.journal, "test", roles)
    made.experiments.refresh()
    return secret


def bodies() -> dict[str, bytes]:
    """A body for each route that takes one."""
    return {
        "/v1/experiments": wire.as_json(spec("another")),
        "/v1/experiments/{name}/decisions": wire.as_json(World().request(1)),
        "/v1/experiments/{name}/candidates": wire.as_json(wire.FieldChange(add="another", planned=True)),
        "/v1/experiments/{name}/rewards": wire.as_json(wire.RewardPost(0, [("a", 1.0)])),
    }


@pytest.mark.parametrize("role", [*ROLES, None, "revoked", "wrong"])
def test_each_role_on_each_route(made: Service, http: httpx.Client, role: str | None) -> None:
    secrets = {one: token(made, one) for one in ROLES}
    if role == "revoked":
        secret = token(made, "admin")
        with made.database.transaction():
            revoke_token(made.journal, secret.split("_")[1])
        made.experiments.refresh()
    elif role == "wrong":
        secret = secrets["admin"][:-1] + ("A" if secrets["admin"][-1] != "A" else "B")
    else:
        secret = secrets.get(str(role), "")
    headers = {"authorization": f"Bearer {secret}"} if role is not None else {}
    ends = [route for route in ROUTES if route.path.endswith("/end")]
    for route in [*(one for one in ROUTES if one not in ends), *ends]:
        path = route.path.replace("{name}", "test").replace("{number}", "0")
        response = http.request(route.method, path, content=bodies().get(route.path), headers=headers)
        if route.role is None:
            assert response.status_code == 200
        elif role not in ROLES:
            assert response.status_code == 401, (route, response.text)
            assert response.headers["www-authenticate"] == "Bearer"
        elif role in (route.role, "admin"):
            assert response.status_code not in (401, 403, 500), (route, response.text)
        else:
            assert response.status_code == 403, (route, response.text)
            assert f"role {route.role}" in response.json()["detail"]


def test_tokens_are_kept_as_hashes(made: Service) -> None:
    secret = token(made, "read", "decide")
    raw = made.database.read("SELECT * FROM tokens")
    assert secret.split("_", 2)[2] not in repr(raw)
    tokens = all_tokens(made.journal)
    found = bearer_of(tokens, secret)
    assert found is not None
    assert found.may == frozenset({"read", "decide"})
    assert bearer_of(tokens, token(made, "admin")) is None  # made since
    assert bearer_of(all_tokens(made.journal), token(made, "admin")) is None
    for nonsense in ("", "cb_", "cb_0000000000000000_" + "A" * 43, secret + "x", "é" * 60):
        assert bearer_of(tokens, nonsense) is None
    with pytest.raises(InputError, match="roles"):
        token(made, "root")
    with pytest.raises(InputError, match="no token"), made.database.transaction():
        revoke_token(made.journal, "77")


def test_without_tokens_only_this_machine_is_answered(http: httpx.Client) -> None:
    assert http.get("/v1/experiments").status_code == 200
    refused = http.get("/v1/experiments", headers={"host": "evil.example"})
    assert refused.status_code == 421
    assert http.get("/v1/experiments", headers={"host": "127.0.0.1:8300"}).status_code == 200


def test_a_decision_and_its_rewards(http: httpx.Client) -> None:
    world = World()
    one = http.post("/v1/experiments/test/decisions", content=wire.as_json(world.request(0)))
    assert one.status_code == 200
    decision = msgspec.json.decode(one.content, type=wire.Decision)
    assert len(decision.items) == len(set(decision.items)) == M
    batch = http.post("/v1/experiments/test/decisions", content=wire.as_json([world.request(i) for i in range(1, 5)]))
    decisions = decisions_of(batch.content)
    assert [each.decision for each in decisions] == [1, 2, 3, 4]
    posts = [
        world.post(0, decision),
        *(world.post(i + 1, each) for i, each in enumerate(decisions)),
    ]
    receipt = http.post("/v1/experiments/test/rewards", content=wire.as_json(posts)).json()
    assert receipt == {"accepted": 5 * M, "duplicates": 0, "faults": []}
    again = http.post("/v1/experiments/test/rewards", content=wire.as_json(posts[0])).json()
    assert again == {"accepted": 0, "duplicates": M, "faults": []}
    shown = http.get("/v1/experiments/test/decisions/0").json()
    assert shown["items"] == decision.items
    assert {item for item, _ in shown["rewards"]} == set(decision.items)
    assert http.get("/v1/experiments/test/decisions/99").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "says"),
    [
        ("GET", "/v1/experiments/none", None, {}, 404, "GET /v1/experiments"),
        ("GET", "/nowhere", None, {}, 404, "openapi"),
        ("PUT", "/v1/experiments", b"{}", {}, 405, ""),
        ("POST", "/v1/experiments/test/decisions", b"{", {}, 400, "JSON"),
        ("POST", "/v1/experiments/test/decisions", b'{"lists": {}}', {"content-type": "text/plain"}, 415, "JSON"),
        ("POST", "/v1/experiments/test/decisions", b'{"lists": {}, "x": 1}', {}, 422, "unknown field"),
        ("POST", "/v1/experiments/test/decisions", b'{"lists": {"best": [1.5]}}', {}, 422, "int"),
        ("POST", "/v1/experiments/test/decisions", b"[]", {}, 422, "length"),
        ("POST", "/v1/experiments/test/decisions", b'{"lists": {"best": [1, 2, 3]}}', {}, 422, "fallback"),
        ("POST", "/v1/experiments/test/rewards", b'{"decision": 0, "rewards": [["a", 2]]}', {}, 422, "<= 1"),
        ("POST", "/v1/experiments", b'{"name": "a b"}', {}, 422, "a"),
        ("GET", "/v1/experiments/test/result", None, {}, 409, "complete"),
        ("GET", "/v1/experiments/test/export/rounds.parquet", None, {}, 409, "export"),
    ],
)
def test_problems_say_what_to_do(
    http: httpx.Client, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int, says: str
) -> None:
    response = http.request(method, path, content=body, headers=headers)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert found["status"] == status
    assert says in found["detail"]


def test_states_by_http(http: httpx.Client) -> None:
    assert http.post("/v1/experiments/test/pause").json() == {"name": "test", "state": "paused", "before": "running"}
    refused = http.post("/v1/experiments/test/decisions", content=wire.as_json(World().request(0)))
    assert refused.status_code == 409
    assert "resume" in refused.json()["detail"]
    assert http.post("/v1/experiments/test/resume").json()["before"] == "paused"
    assert http.post("/v1/experiments/test/end").json()["state"] == "ended"
    assert http.post("/v1/experiments/test/resume").status_code == 409
    taken = http.post("/v1/experiments", content=wire.as_json(spec()))
    assert taken.status_code == 409


def test_operations(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ready"}
    http.post("/v1/experiments/test/decisions", content=wire.as_json(World().request(0)))
    text = http.get("/metrics").text
    assert 'comband_experiment_decisions{experiment="test"} 1' in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-z_]+(\{.*\})? [-+0-9.e]+", line), line
    names = [name for name, _ in re.findall(r"# TYPE (\S+) (\S+)", text)]
    assert len(names) == len(set(names))


def test_the_page_has_a_policy_and_nothing_else_is_given_out(http: httpx.Client) -> None:
    response = http.get("/")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    for name in ("__init__.py", "..%2fapi.py", "%2e%2e/wire.py", "nothing.js"):
        assert http.get(f"/page/{name}").status_code == 404
    assert page.file("__init__.py") is None


def test_names_with_markup_are_text(http: httpx.Client) -> None:
    name = "<script>alert(1)</script>"
    http.post("/v1/experiments", content=wire.as_json(spec("markup", candidates=[name, "b"], note=name)))
    response = http.get("/v1/experiments/markup")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["spec"]["candidates"][0] == name


def test_what_the_description_says_is_what_comes(http: httpx.Client) -> None:
    description = http.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1")
    documented = {(method.upper(), path) for path, each in description["paths"].items() for method in each}
    assert documented == {(route.method, route.path) for route in ROUTES}
    for path, each in description["paths"].items():
        for operation in each.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert "example" in content, path
    example = description["paths"]["/v1/experiments"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert http.post("/v1/experiments", content=json.dumps(example)).status_code == 201
    asked = description["paths"]["/v1/experiments/{name}/decisions"]["post"]["requestBody"]
    body = json.dumps(asked["content"]["application/json"]["example"])
    assert http.post(f"/v1/experiments/{example['name']}/decisions", content=body).status_code == 200


def test_the_client_makes_the_same_calls(http: httpx.Client, made: Service) -> None:
    with Client(str(http.base_url), timeout=LIMIT) as client:
        world = World()
        created = client.create(**msgspec.to_builtins(spec("second", block=1)))
        assert created.decisions_url == "/v1/experiments/second/decisions"
        assert [one.name for one in client.experiments()] == ["test", "second"]
        one = client.decide("second", world.lists(0), request="r0")
        assert client.decide("second", list(world.lists(0).values()), request="r0") == one
        receipt = client.reward("second", one.decision, dict(world.rewards(0, one.items)))
        assert receipt.accepted == M
        assert client.decision("second", one.decision).items == one.items
        wait_for(lambda: client.status("second").rounds == 1, "the round is learnt")
        result = client.result("second")
        assert result.rounds == 1
        assert result.best in NAMES
        assert client.history("second").minutes[0].decisions == 1
        assert client.pause("second").state == "paused"
        with pytest.raises(ServiceError, match=r"409.*paused") as refused:
            client.decide("second", world.lists(1))
        assert refused.value.problem.status == 409
        client.resume("second")
        client.end("second")
        assert client.export("second", "rounds")[:4] == b"PAR1"


def test_an_answer_that_was_lost_is_asked_for_again(http: httpx.Client) -> None:
    """The connection breaks after the commit: the client asks again, and there is one decision."""
    inner, calls = httpx.HTTPTransport(), []

    class Losing(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = inner.handle_request(request)
            calls.append(request)
            if len(calls) == 1:
                raise httpx.ReadError("lost")
            return response

    with inner, Client(str(http.base_url), timeout=LIMIT, transport=Losing()) as client:
        one = client.decide("test", World().lists(0))
    assert one.decision == 0
    assert len(calls) == 2
    assert http.get("/v1/experiments/test").json()["decisions"] == 1


def test_the_export_leaves_out_whose_lists_were_not_sent(
    made: Service, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what is known of the candidates is older than the last rounds."""
    world = World()
    http.post("/v1/experiments", content=wire.as_json(spec("some", epsilon=0.01)))
    running = made.experiments.find("some")
    for i in range(32):
        assert running.plan is not None
        if i == 8:
            running.plan.needed[-1] = False  # dropped just now
        missing = NAMES[-1] if not running.plan.needed[-1] else None
        lists = {name: items for name, items in world.lists(i).items() if name != missing}
        answer = http.post("/v1/experiments/some/decisions", content=wire.as_json(wire.DecisionRequest(lists=lists)))
        assert answer.status_code == 200, answer.text
        decision = msgspec.json.decode(answer.content, type=wire.Decision)
        http.post("/v1/experiments/some/rewards", content=wire.as_json(world.post(i, decision)))
    wait_for(lambda: made.journal.counts(running.experiment.id)[1] == 32, "all rounds are settled")
    monkeypatch.setattr(type(made.queries), "status", lambda *_: {})
    data = http.get("/v1/experiments/some/export/candidates.parquet").content
    table = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data))
    assert set(table.column_names) == {"context", *NAMES[:-1]}
    assert table.num_rows == 32


def test_the_export_is_what_evaluate_reads(made: Service, http: httpx.Client, tmp_path: Path) -> None:
    world = World()
    http.post("/v1/experiments", content=wire.as_json(spec("log", epsilon=0.01)))
    for start in range(0, 160, 16):
        numbers = range(start, start + 16)
        asked = wire.as_json([world.request(i) for i in numbers])
        decisions = decisions_of(http.post("/v1/experiments/log/decisions", content=asked).content)
        posts = [world.post(i, one) for i, one in zip(numbers, decisions, strict=True)]
        http.post("/v1/experiments/log/rewards", content=wire.as_json(posts))
    number = made.experiments.find("log").experiment.id
    wait_for(lambda: made.journal.counts(number)[1] == 160, "all rounds are settled")
    for what in ("rounds", "candidates"):
        data = http.get(f"/v1/experiments/log/export/{what}.parquet").content
        (tmp_path / f"{what}.parquet").write_bytes(data)
    arguments = ["evaluate", str(tmp_path / "rounds.parquet"), "-c", str(tmp_path / "candidates.parquet")]
    answer = CliRunner().invoke(cli, [*arguments, "--sparsity", "1", "--json"])
    assert answer.exit_code in (0, 3), answer.output  # how much it explored depends on when plans were heard of
    found = json.loads(answer.stdout)
    assert found["best"] == "best"
    table = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO((tmp_path / "rounds.parquet").read_bytes()))
    assert table.num_rows == 160
    rewards: list[Any] = table.column("rewards").to_pylist()
    kept = made.journal.rewards(number, 0, 160)
    assert sum(map(sum, rewards)) == sum(value for _, _, value in kept)


def test_a_batch_is_answered_request_by_request(http: httpx.Client) -> None:
    """An id that came with other lists is refused alone; all that is stored is shown."""
    world = World()
    first = http.post("/v1/experiments/test/decisions", content=wire.as_json(world.request(0))).json()
    other = wire.DecisionRequest(lists=world.lists(7), request="r0")
    body = [world.request(1), other, world.request(0), world.request(2)]
    answer = http.post("/v1/experiments/test/decisions", content=wire.as_json(body))
    assert answer.status_code == 200
    found = msgspec.json.decode(answer.content, type=wire.Decisions)
    assert [one and one.decision for one in found.decisions] == [1, None, 0, 2]
    assert [(one.index, one.request, one.status) for one in found.refused] == [(1, "r0", 409)]
    assert "choose a new id" in found.refused[0].detail
    assert answer.json()["decisions"][2] == first
    assert http.get("/v1/experiments/test").json()["decisions"] == 3
    alone = http.post("/v1/experiments/test/decisions", content=wire.as_json(other))
    assert alone.status_code == 409
    http.post("/v1/experiments/test/pause")
    body = [world.request(1), world.request(3)]
    found = msgspec.json.decode(
        http.post("/v1/experiments/test/decisions", content=wire.as_json(body)).content, type=wire.Decisions
    )
    assert [one and one.decision for one in found.decisions] == [1, None]
    assert "paused" in found.refused[0].detail
    body = [world.request(3), world.request(4)]
    assert http.post("/v1/experiments/test/decisions", content=wire.as_json(body)).status_code == 409


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("delta", 1e-300, "delta must be at least 1e-150"),
        ("name", "new\n", "line breaks"),
        ("candidates", ["a", "b\n"], "line breaks"),
        ("candidates", ["a", "a "], "space"),
        ("epsilon", 1e-300, "epsilon"),
        ("places", [1, 1e-300, 1], "places"),
    ],
)
def test_what_could_never_be_learnt_is_refused_when_it_is_created(
    http: httpx.Client, field: str, value: object, says: str
) -> None:
    body = msgspec.to_builtins(spec("new")) | {field: value}
    answer = http.post("/v1/experiments", content=wire.as_json(body))
    assert answer.status_code == 422, answer.text
    assert says in answer.json()["detail"]
    assert len(http.get("/v1/experiments").json()["experiments"]) == 1


def test_tickets_stand_for_decisions(http: httpx.Client) -> None:
    """Nobody can make one for another decision, or another experiment; numbers count where that is not asked for."""
    world = World()
    for name in ("open", "closed"):
        stated = msgspec.to_builtins(spec(name, tickets=name == "closed", seed=None))
        assert http.post("/v1/experiments", content=wire.as_json(stated)).status_code == 201
    made = {
        name: http.post(
            f"/v1/experiments/{name}/decisions", content=wire.as_json([world.request(i) for i in range(2)])
        ).json()["decisions"]
        for name in ("open", "closed")
    }

    def outcome(name: str, decision: object, i: int = 0) -> str:
        body = {"decision": decision, "rewards": [[made[name][i]["items"][0], 0]]}
        receipt = http.post(f"/v1/experiments/{name}/rewards", content=wire.as_json(body)).json()
        return receipt["faults"][0]["outcome"] if receipt["faults"] else f"{receipt['accepted']} accepted"

    mine, other = made["closed"][0]["ticket"], made["closed"][1]["ticket"]
    assert len({one["ticket"] for row in made.values() for one in row}) == 4
    assert outcome("closed", 0) == "no ticket"
    for wrong in ("", "0", "0.", f"0.{other[2:]}", mine[:-1], f"0{mine}", f"{mine}\n", made["open"][0]["ticket"]):
        assert outcome("closed", wrong) == "unknown"
    assert outcome("closed", mine) == "1 accepted"
    assert outcome("open", made["open"][0]["ticket"]) == "1 accepted"
    assert outcome("open", 1, 1) == "1 accepted"
    again = http.post("/v1/experiments/closed/decisions", content=wire.as_json(world.request(0))).json()
    assert again["ticket"] == mine
    stated = msgspec.to_builtins(spec("seeded", tickets=True))
    assert http.post("/v1/experiments", content=wire.as_json(stated)).status_code == 422
