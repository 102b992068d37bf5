"""Another processor goes on: the plans that were published are followed, though sums are rounded otherwise there."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comband.page.storage import pack
from comband.serve.deciding import plan_state
from comband.serve.service import Service
from comband.serve.wire import DecisionRequest, RewardPost
from tests.serve.test_service import same, state_of
from tests.serve.worlds import World, caught_up, play, service, serving, spec
from tests.waiting import LIMIT, wait_for

# Learns from the journal, from its beginning, and says what came of it.
ELSEWHERE = """
import asyncio, json, sys
from pathlib import Path
from tests.serve.worlds import caught_up, service

with service(Path(sys.argv[1])) as made:
    asyncio.run(caught_up(made))
    learning = made.learners.learning(1)
    print(json.dumps([made.learners.plans_followed, learning.position, len(learning.learner.epochs)]))
"""
PROCESSORS = (
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX512_ICL X86_V4 X86_V3"},
)
ROOT = Path(__file__).resolve().parents[2]
OTHER = os.environ.get("COMBAND_OTHER_PYTHON", "")  # an interpreter with other versions of numpy, scipy and numba
CANDIDATES = [f"candidate {i}" for i in range(20)]


def goes_on(folder: Path, python: str = sys.executable, **processor: str) -> list[int]:
    """How many plans a process with such a processor follows, how far it comes, and its epochs."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", ELSEWHERE, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT))), **processor},
        capture_output=True,
        text=True,
        timeout=4 * LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


def forget_snapshots(folder: Path) -> None:
    """Let whoever comes next learn from the beginning."""
    with closing(sqlite3.connect(folder / "journal.db")) as connection, connection:
        connection.execute("DELETE FROM snapshots")


async def compared(made: Service, n: int) -> None:
    """Requests for which twenty candidates sort the same items, some better than others, in batches."""
    rng = np.random.default_rng(3)
    for start in range(0, n, 64):
        items = np.array([rng.permutation(40) for _ in range(64)])
        noise = rng.normal(size=(64, len(CANDIDATES), 40)) * (1 + np.arange(len(CANDIDATES)) / 2)[:, None]
        lists = np.argsort(np.arange(40) + noise, axis=2)[:, :, :5]
        shown = await made.decide(
            "test",
            [DecisionRequest(lists=np.take(items[i], lists[i]).tolist(), request=f"r{start + i}") for i in range(64)],
        )
        posts = []
        for i, one in enumerate(shown):
            ranks = [int(np.flatnonzero(items[i] == item)[0]) for item in one.items]
            clicked = next((k for k, rank in enumerate(ranks) if rng.random() < 0.5 * np.exp(-rank / 4)), None)
            posts.append(RewardPost(one.decision, [(item, float(k == clicked)) for k, item in enumerate(one.items)]))
        await made.reward("test", posts)
        await caught_up(made)


async def learnt_here(folder: Path) -> None:
    """A journal with some plans, and no snapshot."""
    folder.mkdir()
    with service(folder) as made:
        await made.create(spec(candidates=CANDIDATES, list_size=5, epsilon=1e-4, first_epoch=16, block=16))
        await compared(made, 1536)
    forget_snapshots(folder)


@pytest.mark.skipif(not OTHER, reason="COMBAND_OTHER_PYTHON names no Python with other libraries")
@pytest.mark.parametrize("processor", [{}, *PROCESSORS])
def test_a_process_with_other_libraries_goes_on(tmp_path: Path, processor: dict[str, str]) -> None:
    """And one with these goes on after it, from what the other one saved."""

    async def state(folder: Path) -> dict[str, object]:
        with service(folder) as made:
            await caught_up(made)
            return state_of(made)

    folder = tmp_path / "first"
    asyncio.run(learnt_here(folder))
    followed, position, epochs = goes_on(folder, OTHER, **processor)
    print(f"{processor}: {followed} of {epochs} plans were others")
    assert (position, epochs > 10) == (1536, True)
    back = asyncio.run(state(folder))  # from the snapshot that the other one left
    assert back["position"] == 1536


def test_a_process_on_another_processor_goes_on(tmp_path: Path) -> None:
    """With the loops of an older one for sums and products, and for logarithms."""
    first = tmp_path / "first"
    asyncio.run(learnt_here(first))
    for i, processor in enumerate(PROCESSORS):
        folder = tmp_path / str(i)
        shutil.copytree(first, folder)
        followed, position, epochs = goes_on(folder, **processor)
        print(f"{processor}: {followed} of {epochs} plans were others")
        assert position == 1536
        assert epochs > 10


async def played(folder: Path, n: int) -> None:
    with service(folder) as made:
        await made.create(spec(epsilon=0.01))
        await play(made, World(best=0.04), 0, n)


def edited(made: Service, epoch: int, change: Any) -> None:
    """Another plan of this epoch in the journal."""
    with made.database.transaction():
        [(data,)] = made.database.run("SELECT plan FROM plans WHERE experiment = 1 AND epoch = ?", [epoch])
        state = plan_state(bytes(data), epoch)
        change(state)
        made.database.run("UPDATE plans SET plan = ? WHERE epoch = ?", [pack("plan", state), epoch])


def in_the_last_digits(state: dict[str, Any]) -> None:
    state["explorer"]["attention"] = np.nextafter(state["explorer"]["attention"], 2)
    state["bets"]["growth"] = np.nextafter(state["bets"]["growth"], 2)


def another_leader(state: dict[str, Any]) -> None:
    """As where two scores are equal up to rounding: the stake against the one that leads now is against the other."""
    candidates, before = state["explorer"]["candidates"].tolist(), state["explorer"]["leader"]
    leader = (before + 1) % len(candidates)
    levels = state["bets"]["levels"]
    levels[[before, leader]] = levels[[leader, before]]
    state["explorer"]["leader"], state["bets"]["leader"] = leader, candidates[leader]


@pytest.mark.parametrize("change", [in_the_last_digits, another_leader])
def test_what_was_published_is_followed(tmp_path: Path, change: Any) -> None:
    """Its explorer, leader and stakes are those of the epoch from then on, before and after a snapshot."""

    async def run() -> None:
        await played(tmp_path, 320)
        made = serving(tmp_path, learn=False)
        edited(made, 1, change)
        wanted = plan_state(bytes(made.database.read("SELECT plan FROM plans WHERE epoch = 1")[0][0]), 1)
        made.close()
        forget_snapshots(tmp_path)
        states = []
        for _ in range(2):
            with service(tmp_path) as again:
                await caught_up(again)
                states.append(state_of(again))
                epoch = states[-1]["learnt"]["epochs"][1]  # type: ignore[index]
                assert same(epoch, {**wanted["bets"], "explorer": wanted["explorer"]})
                learners = again.learners
                assert learners is not None
                if len(states) == 1:
                    wait_for(lambda learners=learners: learners.plans_followed > 0, "it is counted")  # type: ignore[misc]
                assert (learners.largest_difference > 1e-6) == (change is another_leader and len(states) == 1)
        assert same(*states)

    asyncio.run(run())


def without_a_candidate(state: dict[str, Any]) -> None:
    for part, name in ((state["explorer"], "candidates"), (state["explorer"], "attention"), (state["explorer"], "own")):
        part[name] = part[name][:-1]
    for name in ("levels", "growth"):
        state["bets"][name] = state["bets"][name][:-1]


def larger_stakes(state: dict[str, Any]) -> None:
    state["bets"]["levels"] = np.zeros_like(state["bets"]["levels"])


def leaders_that_differ(state: dict[str, Any]) -> None:
    state["explorer"]["leader"] = (state["explorer"]["leader"] + 1) % len(state["explorer"]["candidates"])


@pytest.mark.parametrize("change", [without_a_candidate, larger_stakes, leaders_that_differ])
def test_what_no_rounding_explains_is_refused(tmp_path: Path, change: Any) -> None:
    async def run() -> None:
        await played(tmp_path, 160)
        made = serving(tmp_path, learn=False)
        edited(made, 1, change)
        made.close()
        forget_snapshots(tmp_path)
        with service(tmp_path) as again:
            learners = again.learners
            assert learners is not None

            def is_over() -> bool:
                learning = learners.learning(1)
                return 1 in learners.failed or (learning is not None and learning.position >= 160)

            wait_for(is_over, "all is learnt, or nothing more")
            assert "cannot lead to the plan of epoch 1" in learners.failed[1]

    asyncio.run(run())
