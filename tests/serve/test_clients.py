"""Clients against the real service: Python's that are awaited, and TypeScript's in Node."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from comband.serve import wire
from comband.serve.client import AsyncClient, Client, ServiceError
from comband.serve.service import Service
from tests.ports import reserved_port
from tests.serve.worlds import NAMES, World, listening, service, spec
from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parents[2]
TYPESCRIPT = ROOT / "clients" / "typescript"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Service]:
    with service(tmp_path) as one:
        yield one


@pytest.fixture
def address(made: Service) -> Iterator[str]:
    with listening(made) as one:
        yield one


class Lossy(httpx.AsyncBaseTransport):
    """Every other answer is lost on its way back."""

    def __init__(self) -> None:
        self._inner, self.sent = httpx.AsyncHTTPTransport(), 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.sent += 1
        if self.sent % 2:
            await response.aread()
            raise httpx.ReadError("lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def test_the_awaited_client_has_the_calls_of_the_other_one() -> None:
    def calls(kind: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(call)
            for name, call in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert calls(Client) == calls(AsyncClient)


def test_from_creation_to_deletion_with_answers_that_are_lost(made: Service, address: str) -> None:
    """Nothing happens twice; what cannot be made again is not."""

    async def run() -> None:
        world, lossy = World(), Lossy()
        async with AsyncClient(address, timeout=LIMIT) as client:
            await client.create(**json.loads(wire.as_json(spec())))
            with pytest.raises(ServiceError, match="409"):
                await client.create(**json.loads(wire.as_json(spec())))
        async with AsyncClient(address, timeout=LIMIT, retries=20, transport=lossy) as client:
            decisions = await asyncio.gather(*(client.decide("test", world.lists(i)) for i in range(4)))
            assert sorted(one.decision for one in decisions) == [0, 1, 2, 3]
            receipt = await client.reward("test", decisions[0].decision, {decisions[0].items[0]: 1.0})
            assert (receipt.accepted, receipt.duplicates) == (0, 1)  # it had come the first time
            assert (await client.decision("test", 0)).decision == 0
            assert (await client.status("test")).decisions == made.journal.counts(1)[0] == 4
            assert [one.name for one in await client.experiments()] == ["test"]
            head = await client.head("test")
            assert (head.decisions, head.ended) == (4, False)
            with pytest.raises(ServiceError, match="reveals the secret seed"):
                await client.certificate("test")
            assert (await client.end("test")).state == "ended"
            assert (await client.archive("test")).archived is not None
            assert await client.experiments() == []
            assert [one.action for one in (await client.audit("test")).changes] == ["archived", "ended", "created"]
            lossy.sent = 0
            with pytest.raises(httpx.ReadError):  # a second attempt could hit another one of the same name
                await client.delete("test")
            assert lossy.sent == 1

    asyncio.run(run())


NODE = """
import assert from "node:assert/strict";
import { Client, ServiceError } from @module@;

const [address, closed] = process.argv.slice(2);
const names = @names@;
const lists = (i) => Object.fromEntries(names.map((name, p) => [name, [`a ${i}`, `b ${p}`, 10 * i + p]]));
const quick = { pause: 1, timeout: 600000 };

// The answer is lost, then "not now", then it works: the same request id each time, and so the same decision.
const sent = [];
const troubled = async (url, options) => {
  sent.push(options.body);
  if (sent.length === 2) return new Response("{}", { status: 503 });
  const response = await fetch(url, options);
  if (sent.length === 1) throw new TypeError("the connection was cut");
  return response;
};

const client = new Client(`${address}/`, quick);
const spec = { name: "node", candidates: names, list_size: 3, epsilon: 0.1, sparsity: 1 };
assert.equal((await client.create(spec)).state, "running");
await assert.rejects(client.create(spec), (error) => error instanceof ServiceError && error.problem.status === 409);

const decision = await new Client(address, { ...quick, fetch: troubled }).decide("node", lists(0));
assert.equal(sent.length, 3);
assert.equal(new Set(sent).size, 1);
assert.equal(decision.decision, 0);
assert.equal(decision.items.length, 3);
assert.equal(decision.items.length, decision.propensities.length);
assert.equal((await client.status("node")).decisions, 1);

const [known, refused, fresh] = await client.decideMany("node", [
  { lists: lists(0), request: decision.request },
  { lists: lists(1), request: decision.request },
  { lists: lists(2) },
]);
assert.deepEqual(known, decision);
assert.equal(refused.status, 409);
assert.equal(fresh.decision, 1);

const posts = [[decision.ticket, [[decision.items[0], 1]]], [1, new Map([["never shown", 1]])]];
const receipt = await client.rewardMany("node", posts);
assert.equal(receipt.accepted, 1);
assert.equal(receipt.faults[0].outcome, "not shown");
assert.deepEqual((await client.decision("node", 0)).rewards, [[decision.items[0], 1]]);
assert.equal((await client.pause("node")).state, "paused");
await assert.rejects(client.decide("node", lists(3)), /paused/);
assert.equal((await client.resume("node")).state, "running");
const changed = await client.changeField("node", { add: "one more", planned: true });
assert.deepEqual(changed.candidates, [...names, "one more"]);
assert.equal((await client.clone("node", "copy")).name, "copy");
assert.deepEqual((await client.experiments()).map((one) => one.name), ["node", "copy"]);
assert.match((await client.head("node")).head, /^[0-9a-f]{64}$/);
await assert.rejects(client.certificate("node"), /reveals the secret seed/);
await client.end("node");
await client.archive("node");
assert.deepEqual((await client.experiments()).map((one) => one.name), ["copy"]);
assert.equal((await client.unarchive("node")).archived, null);
assert.equal((await client.delete("node")).deleted, true);
assert.equal((await client.audit("node")).changes[0].action, "deleted");
assert.equal((await client.history("copy")).name, "copy");
await assert.rejects(client.result("copy"), /complete/);
await assert.rejects(new Client(closed, { ...quick, retries: 1 }).experiments(), TypeError);
console.log("all well");
"""


def test_in_node(made: Service, address: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    script = tmp_path / "test.mjs"
    module = json.dumps((TYPESCRIPT / "dist" / "client.js").as_uri())
    script.write_text(NODE.replace("@module@", module).replace("@names@", json.dumps(NAMES)), encoding="utf-8")
    with reserved_port() as port:  # where no server listens
        command = [node, str(script), address, f"http://127.0.0.1:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "all well\n", done.stderr


def test_the_types_are_those_of_the_description() -> None:
    command = [sys.executable, str(ROOT / "tools" / "client_types.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}; run python tools/client_types.py, then npm run build"


def test_what_is_shipped_is_what_the_compiler_makes(tmp_path: Path) -> None:
    compiler = TYPESCRIPT / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("no compiler: npm ci in clients/typescript")
    subprocess.run([str(compiler), "--outDir", str(tmp_path)], cwd=TYPESCRIPT, check=True)
    for file in sorted(tmp_path.iterdir()):
        assert file.read_text() == (TYPESCRIPT / "dist" / file.name).read_text(), f"{file.name}: npm run build"
