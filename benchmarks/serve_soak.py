"""Whether the service stays as it is under steady load: memory, descriptors and tail latency over half an hour.

python -m benchmarks.serve_soak [--minutes M] [--share .8] [--postgres ADDRESS] [--json FILE]

First the capacity: single decisions over 16 connections as fast as they are answered. Then decisions come at `share` of
that rate for so long, each at its own time whether earlier ones are answered or not (latency counts from that time),
and one item of every other decision is rewarded. A row for each minute; at its end the last third beside the second one
(the first one warms up): memory may grow by a twentieth, descriptors not at all, p99 by half. The exit code says
whether all of it held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.serve import Server, call, lists_of
from comband.serve import wire

CANDIDATES, CONNECTIONS, POOL = 30, 16, 200
NAME = "soak"


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> bytes:
        """The answer, which must be a good one."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        header = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.readexactly(int(header.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        if not header.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{header[:60]!r} {answer[:200]!r}")
        return answer


async def steady(port: int, bodies: list[bytes], rate: float, seconds: float) -> list[float]:
    """Latencies in seconds of decisions that come at an even rate."""
    path, taken = f"/v1/experiments/{NAME}", []
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(64):
        free.put_nowait(Connection(port))
    began, tasks = time.perf_counter(), set()

    async def one(i: int, due: float) -> None:
        connection = await free.get()
        try:
            answer = json.loads(await connection.post(f"{path}/decisions", bodies[i % len(bodies)]))
            taken.append(time.perf_counter() - due)
            if i % 2:
                post = {"decision": answer["decision"], "rewards": [[answer["items"][0], float(i % 20 == 1)]]}
                await connection.post(f"{path}/rewards", wire.as_json(post))
        finally:
            free.put_nowait(connection)

    for i in range(int(rate * seconds)):
        due = began + i / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(i, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return taken


def third(rows: list[dict[str, float]], which: int, name: str) -> float:
    """The median of a figure in the second (1) or last (2) third."""
    n = max(1, len(rows) // 3)
    return float(np.median([row[name] for row in (rows[n : 2 * n] or rows, rows[-n:])[which - 1]]))


def soak(store: str, port: int, minutes: float, share: float) -> dict[str, Any]:
    """All of it on one store."""
    server, rng = Server(store, port), np.random.default_rng(0)
    process = psutil.Process(server._process.pid)
    try:
        candidates = [f"ranker {i}" for i in range(CANDIDATES)]
        spec = wire.Spec(name=NAME, candidates=candidates, list_size=10, epsilon=1e-4, sparsity=1, window_seconds=60)
        asyncio.run(call(port, [("POST", "/v1/experiments", wire.as_json(spec))], 1, 0.0))
        bodies = [wire.as_json({"lists": lists_of(CANDIDATES, True, rng)}) for _ in range(POOL)]
        path = f"/v1/experiments/{NAME}/decisions"
        requests = [("POST", path, body) for body in bodies]
        asyncio.run(call(port, requests, CONNECTIONS, 2.0))  # compiled, and warm
        length = min(15.0, 20 * minutes)
        capacity = len(asyncio.run(call(port, requests, CONNECTIONS, length))[0]) / length
        rate = share * capacity / 1.5  # every other decision is followed by a reward, which is a request, too
        print(f"  capacity {capacity:.0f} per second; now {rate:.0f} decisions and {rate / 2:.0f} rewards", flush=True)
        rows: list[dict[str, float]] = []
        step = min(60.0, 60 * minutes)
        for minute in range(max(1, round(60 * minutes / step))):
            taken = asyncio.run(steady(port, bodies, rate, step))
            p50, p99 = np.percentile(taken, [50, 99])
            row = {"MB": server.memory(), "descriptors": process.num_fds(), "p50 ms": 1e3 * p50, "p99 ms": 1e3 * p99}
            rows.append({name: float(value) for name, value in row.items()})
            print(f"  minute {minute + 1:3d}  " + "  ".join(f"{k} {v:8.1f}" for k, v in row.items()), flush=True)
    finally:
        server.stop()
    growth = {name: third(rows, 2, name) / max(third(rows, 1, name), 1e-9) for name in rows[0]}
    flat = growth["MB"] <= 1.05 and growth["descriptors"] <= 1.0 and growth["p99 ms"] <= 1.5
    print("  last third by second: " + ", ".join(f"{k} {v:.3f}" for k, v in growth.items()), "flat" if flat else "NOT")
    return {"capacity": capacity, "rate": rate, "rows": rows, "growth": growth, "flat": flat}


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds: to see that it works")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--share", type=float, default=0.8, help="of the capacity")
    parser.add_argument("--postgres", help="address of an empty PostgreSQL database, in place of SQLite")
    parser.add_argument("--port", type=int, default=8392)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.postgres or f"sqlite:///{folder}/journal.db"
        print("PostgreSQL" if arguments.postgres else "SQLite", flush=True)
        minutes = 0.1 if arguments.quick else arguments.minutes
        found = soak(store, arguments.port, minutes, arguments.share)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0 if found["flat"] or arguments.quick else 1


if __name__ == "__main__":
    sys.exit(main())
