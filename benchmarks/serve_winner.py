"""The service's winner and the library's own on the same contexts and clicks, with the rankers of a real set.

python -m benchmarks.serve_winner [--data DIR] [--set NAME] [--candidates P] [--port PORT]

The candidates and clicks of `benchmarks.certify`. Over HTTP every request brings the lists of those that are still
needed, as text keys, in batches; all shown items are answered. The library's learner has the same rankers as
`RequestedLists`, the same rows and the same random numbers, in this process. Both must end with the same winner after
the same number of rounds, with the same ε.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.certify import World, real_world
from benchmarks.serve import Server
from comband.policies import RequestedLists
from comband.serve.client import Client
from comband.serve.deciding import GivenNumbers
from comband.serve.digests import uniform_numbers
from comband.serve.wire import Decision

BLOCK = 64


def stream(world: World, seed: int, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and clicked labels (K: none) of one block of rounds, a function of its number."""
    rng = np.random.default_rng([seed, number])
    rows = rng.integers(len(world.chances), size=BLOCK)
    cumulated = np.cumsum(world.chances[rows], axis=1)
    return rows, (rng.random(BLOCK)[:, None] >= cumulated).sum(axis=1)


def by_the_library(world: World, seed: int, most: int) -> cb.Selection:
    """What the learner says, asked in this process."""
    names, m = world.policies.names, world.problem.list_size
    problem = cb.Problem(len(names) * m, m, sparsity=world.problem.sparsity)
    learner = cb.AdaptiveComband(problem, RequestedLists(names, problem), epsilon=world.epsilon, seed=seed)
    for block in range(most // BLOCK):
        rows, labels = stream(world, seed, block)
        lists = world.policies.predict(rows)
        keys = [list(dict.fromkeys(table.ravel().tolist())) for table in lists]
        tables = np.stack([np.vectorize(known.index)(table) for known, table in zip(keys, lists, strict=True)])
        numbers = uniform_numbers(f"{seed:064x}", [f"{block}-{i}" for i in range(BLOCK)])
        k = len(learner.epochs) - 1
        drawn = learner.epochs[k].explorer.draw(tables, GivenNumbers(numbers), epoch=k).decisions
        shown = np.stack([np.array(known)[one] for known, one in zip(keys, drawn.lists, strict=True)])
        learner.tell(learner.adopt(drawn), (shown == labels[:, None]).astype(float))
        if learner.done:
            break
    return learner.result()


def over_http(world: World, address: str, seed: int, most: int, *, name: str = "real") -> tuple[Any, int]:
    """What the service says, and how many lists it was sent."""
    names = list(world.policies.names)
    with Client(address) as client:
        client.create(
            name=name,
            candidates=names,
            list_size=world.problem.list_size,
            epsilon=world.epsilon,
            sparsity=world.problem.sparsity,
            block=BLOCK,
            seed=seed,
            window_seconds=3600,
        )
        needed, sent = list(range(len(names))), 0
        for block in range(most // BLOCK):
            rows, labels = stream(world, seed, block)
            tables = world.policies.predict(rows, needed)
            sent += tables.shape[0] * tables.shape[1]
            asked: list[Any] = [
                ({names[p]: [f"label {k}" for k in one] for p, one in zip(needed, table, strict=True)}, f"{block}-{i}")
                for i, table in enumerate(tables.tolist())
            ]
            decisions = [one for one in client.decide_many(name, asked) if isinstance(one, Decision)]
            answers: dict[int, dict[str | int, float]] = {
                one.decision: {item: float(item == f"label {label}") for item in one.items}
                for one, label in zip(decisions, labels.tolist(), strict=True)
            }
            client.reward_many(name, answers)
            idle = {one for decision in decisions for one in decision.not_needed}
            needed = [p for p in needed if names[p] not in idle]
            while True:
                status = client.status(name)
                if status.done or (status.settled == (block + 1) * BLOCK and status.rounds == status.settled):
                    break
                time.sleep(0.002)
            if status.done:
                break
        return client.result(name), sent


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME_X.npz and NAME_Y.npz")
    parser.add_argument("--set", default="enron")
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--most", type=int, default=200_000, help="rounds")
    parser.add_argument("--port", type=int, default=8392)
    arguments = parser.parse_args()
    world = real_world(arguments.data, arguments.set, arguments.candidates, arguments.seed)
    mine = by_the_library(world, arguments.seed, arguments.most)
    print(f"library: {mine.best.name} after {mine.rounds:,} rounds, epsilon {mine.epsilon:.4g}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(f"sqlite:///{folder}/journal.db", arguments.port)
        try:
            theirs, sent = over_http(world, f"http://127.0.0.1:{arguments.port}", arguments.seed, arguments.most)
        finally:
            server.stop()
    print(f"service: {theirs.best} after {theirs.rounds:,} rounds, epsilon {theirs.epsilon:.4g}; {sent:,} lists sent")
    values = world.values(world.policies)
    print(f"exact values: {values[mine.best.index]:.4f}, the best of all {values.max():.4f}")
    return int((mine.best.name, mine.rounds, mine.epsilon) != (theirs.best, theirs.rounds, theirs.epsilon))


if __name__ == "__main__":
    sys.exit(main())
