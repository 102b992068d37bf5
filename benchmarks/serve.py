"""The decision service under load, on loopback, with durability on, beside what it cannot be faster than.

python -m benchmarks.serve [--quick] [--seconds S] [--postgres ADDRESS] [--json FILE] [--long N]

A service runs in a process of its own; load comes from this one (asyncio over plain sockets, keep-alive). Rows:
decisions one by one and in batches of 32, over 1, 16 and 64 connections, for 30 candidates of 10 text keys and 300
candidates of 10 numbers; and rewards over 16. Each has decisions per second, p50 and p99 as the caller sees
them, and the processor time that the service spent per decision (all its threads, the learner's too). The floors are
from the same run: an empty handler on the same server, commits alone (as many rows by one writer), and the learner's
own `ask` for the same lists.

With `--long N` instead: N decisions in batches of 256, all answered and learnt from; the service's memory on the
way, and how long it takes from its start to its first decision when it has ended, and when it was killed.

Targets: processor time per single decision at most 2.5 × (the empty handler's + ask), 3.5 × with PostgreSQL; per
decision of a batch at most 2.5 × ask; p99 at most 4 × p50 over 16 and 64 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import comband as cb
from comband.policies import RequestedLists
from comband.serve import wire
from comband.serve.digests import digests_of, index_of
from comband.serve.journal import Journal, NewDecisions
from comband.serve.stores import open_database

SHAPES = [("30 x 10 text keys", 30, True), ("300 x 10 numbers", 300, False)]
M, BATCH, POOL = 10, 32, 200
SERVER = """
import sys
from comband.serve.running import serve
from comband.serve.settings import Settings
serve(Settings(store=sys.argv[1], port=int(sys.argv[2]), open=True, log="error"))
"""


def lists_of(n_candidates: int, text: bool, rng: np.random.Generator) -> list[list[Any]]:
    """One request: candidates that mostly agree, as rankers of one catalogue do."""
    common = rng.choice(10_000, 40, replace=False)
    rows = [rng.choice(common, M, replace=False).tolist() for _ in range(n_candidates)]
    return [[f"item-{k:05d}" for k in row] for row in rows] if text else rows


class Server:
    """The service in a process of its own."""

    def __init__(self, store: str, port: int) -> None:
        began = time.perf_counter()
        self.port = port
        self._process = subprocess.Popen([sys.executable, "-c", SERVER, store, str(port)])
        self._watched = psutil.Process(self._process.pid)
        asyncio.run(self._ready())
        self.started_in = time.perf_counter() - began

    async def _ready(self) -> None:
        while True:
            try:
                await call(self.port, [("GET", "/healthz", b"")], 1, 0.0)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                return

    def processor(self) -> float:
        """Seconds of processor time so far."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> float:
        """Megabytes."""
        return float(self._watched.memory_info().rss / 2**20)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it."""
        self._process.send_signal(how)
        self._process.wait()


async def call(
    port: int, requests: list[tuple[str, str, bytes]], connections: int, seconds: float
) -> tuple[list[float], list[bytes]]:
    """Requests in turn over so many connections, for so long (once round at least); latencies, and the answers."""
    taken: list[float] = []
    answers: list[bytes] = []
    end, next_ = time.perf_counter() + seconds, iter(range(10**9))

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            i = next(next_)
            if i >= len(requests) and (time.perf_counter() > end or seconds == 0):
                break
            method, path, body = requests[i % len(requests)]
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            began = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            header = await reader.readuntil(b"\r\n\r\n")
            length = int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(length)
            taken.append(time.perf_counter() - began)
            if not header.startswith(b"HTTP/1.1 2"):
                raise SystemExit(f"{path}: {header[:40]!r} {answer[:200]!r}")
            if len(answers) < 20_000:
                answers.append(answer)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return taken, answers


def measure(
    server: Server, what: str, requests: list[tuple[str, str, bytes]], connections: int, seconds: float, each: int
) -> tuple[dict[str, Any], list[bytes]]:
    """One row; a call is `each` decisions or rewards."""
    before, began = server.processor(), time.perf_counter()
    taken, answers = asyncio.run(call(server.port, requests, connections, seconds))
    lasted, spent = time.perf_counter() - began, server.processor() - before
    n = len(taken) * each
    p50, p99 = np.percentile(taken, [50, 99])
    row = {
        "what": what,
        "connections": connections,
        "per second": n / lasted,
        "p50 ms": 1e3 * float(p50),
        "p99 ms": 1e3 * float(p99),
        "cpu us": 1e6 * spent / n,
    }
    text = "  ".join(f"{name} {value:9.1f}" for name, value in row.items() if isinstance(value, float))
    print(f"  {what:42s} {connections:3d} connections  {text}", flush=True)
    return row, answers


def ask_alone(n_candidates: int, batch: int) -> float:
    """Microseconds of processor time per decision of the learner's own ask, with the same lists as numbers."""
    rng = np.random.default_rng(1)
    problem = cb.Problem(n_candidates * M, M, sparsity=1)
    learner = cb.AdaptiveComband(problem, RequestedLists([str(i) for i in range(n_candidates)], problem), epsilon=1e-3)
    tables = np.stack([numbered(lists_of(n_candidates, False, rng)) for _ in range(max(batch, 8))])
    for _ in range(3):
        learner.ask(tables[:batch])
    began, n = time.process_time(), 0
    while time.process_time() - began < 0.5:
        start = n % (len(tables) - batch + 1)
        learner.ask(tables[start : start + batch])
        n += batch
    return 1e6 * (time.process_time() - began) / n


def numbered(rows: list[list[int]]) -> Any:
    """A table of numbers within the request."""
    numbers = {key: i for i, key in enumerate(dict.fromkeys(key for row in rows for key in row))}
    return np.array([[numbers[key] for key in row] for row in rows], dtype=np.int32)


def commits_alone(store: str, seconds: float) -> dict[str, float]:
    """Decisions per second of one writer with nothing else, in commits of 1 and of 64."""
    database = open_database(store)
    database.migrate()
    journal, rates, number = Journal(database), {}, 0
    spec = wire.Spec(name="floor", candidates=["a", "b"], list_size=M, epsilon=0.1)
    with database.transaction():
        made = journal.create(spec, "00" * 32)
    body = os.urandom(600)
    for size in (1, 64):
        began, n = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            names = [f"r{number + i}" for i in range(size)]
            text = wire.as_json(list(range(M))) + b","
            rows = NewDecisions(
                made.id,
                0,
                names,
                index_of(digests_of("00" * 32, names)),
                bytes([M] * size),
                text * size,
                [len(text) * i for i in range(size + 1)],
                np.ones((size, M)),
                [body] * size,
            )
            with database.transaction():
                journal.decide([rows])
            n, number = n + size, number + size
        rates[f"commits of {size}"] = n / (time.perf_counter() - began)
    database.close()
    return rates


def serve_rows(server: Server, seconds: float, connections: list[int]) -> list[dict[str, Any]]:
    """All rows of one store."""
    empty, _ = measure(server, "empty handler", [("GET", "/healthz", b"")], 16, seconds, 1)
    rows, rng = [empty], np.random.default_rng(0)
    for shape, n_candidates, text in SHAPES:
        name = shape.split()[0] + "-candidates"
        spec = wire.Spec(
            name=name,
            candidates=[f"ranker {i}" for i in range(n_candidates)],
            list_size=M,
            epsilon=1e-3,
            sparsity=1,
            window_seconds=3600,
        )
        asyncio.run(call(server.port, [("POST", "/v1/experiments", wire.as_json(spec))], 1, 0.0))
        path = f"/v1/experiments/{name}/decisions"
        pool = [{"lists": lists_of(n_candidates, text, rng)} for _ in range(POOL)]
        single = [("POST", path, wire.as_json(one)) for one in pool]
        batches = [("POST", path, wire.as_json(pool[i : i + BATCH])) for i in range(0, POOL - BATCH, BATCH)]
        for many in connections:
            rows.append(measure(server, f"{shape}, one by one", single, many, seconds, 1)[0])
        answers: list[bytes] = []
        for many in connections:
            row, some = measure(server, f"{shape}, batches of {BATCH}", batches, many, seconds, BATCH)
            rows.append(row)
            answers += some
        row = next(
            one for one in rows if "batches" in one["what"] and shape in one["what"] and one["connections"] == 16
        )
        ask, asked = ask_alone(n_candidates, 1), ask_alone(n_candidates, BATCH)
        of_one = next(one for one in rows if one["what"] == f"{shape}, one by one" and one["connections"] == 16)
        print(
            f"  {shape}: ask alone {ask:.0f} us, in batches {asked:.0f} us; one decision takes "
            f"{of_one['cpu us'] / (empty['cpu us'] + ask):.1f} x (empty handler + ask), in a batch "
            f"{row['cpu us'] / asked:.1f} x ask",
            flush=True,
        )
        rows.append({"what": f"{shape}, ask alone", "cpu us": ask, "cpu us in batches": asked})
        decisions = [one for answer in answers for one in json.loads(answer)["decisions"]]
        posts = [{"decision": one["decision"], "rewards": [[one["items"][0], 1]]} for one in decisions]
        path, half = f"/v1/experiments/{name}/rewards", len(posts) // 2
        each = [("POST", path, wire.as_json(post)) for post in posts[:half][: int(500 * seconds)]]
        rest = posts[half:]
        rewards = [("POST", path, wire.as_json(rest[i : i + BATCH])) for i in range(0, len(rest) - BATCH + 1, BATCH)]
        rows.append(measure(server, f"{shape}, rewards one by one", each, 16, 0.0, 1)[0])
        rows.append(measure(server, f"{shape}, rewards in batches of {BATCH}", rewards, 16, 0.0, BATCH)[0])
    return rows


def long_run(store: str, port: int, n_decisions: int) -> dict[str, Any]:
    """Memory over so many decisions, and the time to the first answer with all of them in the journal."""
    server, rng, size = Server(store, port), np.random.default_rng(0), wire.MAX_BATCH
    spec = wire.Spec(
        name="long",
        candidates=[f"ranker {i}" for i in range(8)],
        list_size=3,
        epsilon=1e-5,
        sparsity=1,
        fallback="ranker 0",
    )
    asyncio.run(call(server.port, [("POST", "/v1/experiments", wire.as_json(spec))], 1, 0.0))
    path, done, memory = "/v1/experiments/long", 0, {}
    while done < n_decisions:
        asked = [{"lists": np.argpartition(rng.random((8, 12)), 3)[:, :3].tolist()} for _ in range(size)]
        [answer] = asyncio.run(call(port, [("POST", f"{path}/decisions", wire.as_json(asked))], 1, 0.0))[1]
        clicks = rng.random((size, 3)) < 0.05 * (np.arange(3) == rng.integers(0, 3, (size, 1)))
        posts = [
            {"decision": one["decision"], "rewards": list(zip(one["items"], row, strict=True))}
            for one, row in zip(json.loads(answer)["decisions"], clicks.astype(float).tolist(), strict=True)
        ]
        asyncio.run(call(port, [("POST", f"{path}/rewards", wire.as_json(posts))], 1, 0.0))
        done += size
        if done // (n_decisions // 10) > (done - size) // (n_decisions // 10):
            memory[done] = server.memory()
            [status] = asyncio.run(call(port, [("GET", path, b"")], 1, 0.0))[1]
            print(
                f"  {done:>9,} decisions, {json.loads(status)['settled']:,} settled: {memory[done]:.0f} MB", flush=True
            )
    took = {}
    for how, end in (("ended", signal.SIGTERM), ("killed", signal.SIGKILL)):
        server.stop(end)
        began = time.perf_counter()
        server = Server(store, port)
        asyncio.run(call(port, [("POST", f"{path}/decisions", wire.as_json(asked[0]))], 1, 0.0))
        took[how] = time.perf_counter() - began
        spent = server.processor()
        print(f"  {how}: first decision after {took[how]:.2f} s ({spent:.2f} s of processor time)", flush=True)
    server.stop()
    return {"memory": memory, "first answer": took}


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a second for each row, SQLite only")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row")
    parser.add_argument("--postgres", help="address of an empty PostgreSQL database")
    parser.add_argument("--port", type=int, default=8391)
    parser.add_argument("--long", type=int, help="so many decisions, and nothing else")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    seconds = 1.0 if arguments.quick else arguments.seconds
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        stores = {"SQLite": f"sqlite:///{folder}/journal.db"}
        if arguments.postgres:
            stores["PostgreSQL"] = arguments.postgres
        for kind, store in stores.items():
            print(f"{kind}", flush=True)
            if arguments.long:
                found[kind] = long_run(store, arguments.port, arguments.long)
                continue
            floor = store if kind != "SQLite" else f"sqlite:///{folder}/floor.db"
            rates = commits_alone(floor, min(seconds, 2.0))
            print("  " + ", ".join(f"{name}: {rate:,.0f} decisions per second" for name, rate in rates.items()))
            server = Server(store, arguments.port)
            try:
                rows = serve_rows(server, seconds, [1, 16] if arguments.quick else [1, 16, 64])
            finally:
                server.stop()
            again = Server(store, arguments.port)
            print(f"  started again with this journal in {again.started_in:.1f} s, {again.memory():.0f} MB", flush=True)
            again.stop()
            found[kind] = {"commits": rates, "rows": rows, "restart seconds": again.started_in}
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
