"""The walks of CONTRIBUTING.md are those that the program takes: each is traced, and its steps must come in order."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

import comband as cb
from tests.documents import ROOT
from tests.serve.worlds import World, listening, service, spec
from tests.waiting import LIMIT

SOURCE = ROOT / "src" / "comband"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
Step = tuple[str, str]
MOST = 12


def walk(title: str, text: str = TEXT) -> list[Step]:
    """File and function of each step under a heading."""
    section = text.split(f"\n### {title}\n", 1)[1].split("\n#", 1)[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", section, re.MULTILINE)


class Tracer:
    """Notes the first call of every function of comband, in all threads that begin while it is there."""

    def __init__(self) -> None:
        self.calls: dict[Step, None] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            self.calls.setdefault((Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname))

    def __enter__(self) -> Tracer:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def missing(steps: list[Step], calls: dict[Step, None]) -> list[Step]:
    """Steps that were not taken, or not in this order."""
    taken = iter(calls)
    return [step for step in steps if step not in taken]


def _policies(problem: cb.Problem) -> cb.PolicySet:
    rng = np.random.default_rng(0)
    return cb.PolicySet.from_lists(
        np.array([[rng.choice(30, 3, replace=False) for _ in range(20)] for _ in range(6)]), problem
    )


PROBLEM = cb.Problem(n_actions=30, list_size=3, sparsity=1)
CLICK = np.array([[1.0, 0.0, 0.0]])


@pytest.fixture
def learner() -> cb.AdaptiveComband:
    """One that has an epoch behind it."""
    made = cb.AdaptiveComband(PROBLEM, _policies(PROBLEM), epsilon=0.05, first_epoch=60, seed=1)
    for start in range(0, 80, 10):
        decisions = made.ask(np.arange(start, start + 10) % 20)
        made.tell(decisions, np.repeat(CLICK * (start % 20 == 0), 10, axis=0))
    return made


def trace_ask(learner: cb.AdaptiveComband) -> dict[Step, None]:
    with Tracer() as tracer:
        learner.ask(np.array([3]))
    return tracer.calls


def trace_tell(learner: cb.AdaptiveComband) -> dict[Step, None]:
    decisions = learner.ask(np.array([3]))
    with Tracer() as tracer:
        learner.tell(decisions, CLICK)
    return tracer.calls


def trace_http(folder: Path) -> dict[Step, None]:
    kind = {"Content-Type": "application/json"}
    with (
        Tracer() as tracer,
        service(folder) as made,
        listening(made) as address,
        httpx.Client(base_url=address, headers=kind, timeout=LIMIT) as client,
    ):
        assert client.post("/v1/experiments", content=msgspec.json.encode(spec())).status_code == 201
        tracer.calls.clear()
        answer = client.post("/v1/experiments/test/decisions", content=msgspec.json.encode(World().request(0)))
        assert answer.status_code == 200, answer.text
        return dict(tracer.calls)


def trace_evaluate(folder: Path) -> dict[Step, None]:
    policies, rng = _policies(PROBLEM), np.random.default_rng(1)
    drawn = cb.Mixture(policies, np.full(6, 1 / 6), problem=PROBLEM, floor=0.5).draw(np.arange(400) % 20, rng)
    clicks = np.where(rng.random((400, 1)) < 0.3, np.eye(3)[rng.integers(3, size=400)], 0)
    cb.write_rounds(cb.Rounds(drawn, clicks), folder / "log.csv")
    cb.write_candidates(policies, np.arange(20), folder / "candidates.csv")
    with Tracer() as tracer:
        cb.evaluate_log(folder / "log.csv", folder / "candidates.csv")
    return tracer.calls


def check(title: str, calls: dict[Step, None]) -> None:
    steps = walk(title)
    assert 8 <= len(steps) <= MOST
    assert missing(steps, calls) == [], "\n".join(f"{file} {name}" for file, name in calls)


def test_one_ask(learner: cb.AdaptiveComband) -> None:
    check("One ask", trace_ask(learner))


def test_one_tell(learner: cb.AdaptiveComband) -> None:
    check("One tell", trace_tell(learner))


def test_one_decision_over_http(tmp_path: Path) -> None:
    check("One decision over HTTP", trace_http(tmp_path))


def test_one_evaluate(tmp_path: Path) -> None:
    check("One evaluate", trace_evaluate(tmp_path))


def test_a_step_that_is_not_taken_or_out_of_order_is_found(learner: cb.AdaptiveComband) -> None:
    calls, steps = trace_ask(learner), walk("One ask")
    assert missing([*steps, ("certify/learner.py", "CertifyingLearner._vanish")], calls)
    assert missing(steps[::-1], calls)
