"""Figures for Prometheus: what an operator watches is there, and true."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from comband.serve.database import StoreError
from comband.serve.metrics import Latencies, metrics_text
from comband.serve.service import Service
from comband.serve.wire import RewardPost
from tests.serve.worlds import World, caught_up, play, service, spec
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


def figures(made: Service) -> dict[str, float]:
    """By name and labels; the text must have Prometheus' form."""
    found, known = {}, set()
    for line in metrics_text(made, Latencies()).splitlines():
        if line.startswith("# TYPE"):
            known.add(line.split()[2])
        elif not line.startswith("#"):
            parts = re.fullmatch(r'(\w+)(\{(?:\w+="(?:[^"\\\\]|\\\\.)*",?)*\})? (\+Inf|[-+0-9.e]+)', line)
            assert parts is not None, line
            assert parts[1] in known
            found[parts[1] + (parts[2] or "")] = float(parts[3])
    return found


def test_what_an_operator_watches(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(name="a-b", epsilon=0.01))
            await play(made, World(), 0, 64, name="a-b")
            await caught_up(made, "a-b")
            one = '{experiment="a-b"}'
            wait_for(lambda: figures(made)[f"comband_experiment_learner_lag{one}"] == 0, "all is learnt and told")
            assert made.learners is not None
            lease = f'comband_experiment_lease{{experiment="a-b",holder="{made.learners.holder}"}}'
            wait_for(lambda: figures(made).get(lease) == 1, "the lease is this process's")
            found = figures(made)
            assert found[f"comband_experiment_epsilon{one}"] == 0.01
            guards = {name: value for name, value in found.items() if "guard_alarm" in name}
            assert len(guards) >= 5
            assert not any(guards.values())
            assert found["comband_waiting_writes"] == 0
            await made.reward("a-b", [RewardPost(0, [("never shown", 1.0)]), RewardPost(999, [("x", 1.0), ("y", 1.0)])])
            faults = figures(made)
            assert faults['comband_reward_faults_total{outcome="not shown"}'] == 1
            assert faults['comband_reward_faults_total{outcome="unknown"}'] == 2
            with pytest.raises(StoreError), made.database.transaction():
                made.database.run("SELECT nothing FROM nowhere")
            assert figures(made)['comband_store_errors_total{kind="store"}'] == 1

    asyncio.run(run())


def test_settled_decisions_that_nobody_learns_from_are_a_lag(tmp_path: Path) -> None:
    async def run() -> None:
        with service(tmp_path) as made:
            await made.create(spec(epsilon=0.01))
            await play(made, World(), 0, 32)
            wait_for(lambda: figures(made)['comband_experiment_learner_lag{experiment="test"}'] == 0, "all is told")
            assert made.learners is not None
            made.learners.close()
            assert not [name for name in figures(made) if name.startswith("comband_experiment_lease{")]  # given back
            with made.database.transaction():
                made.database.run("UPDATE fronts SET front = 48")
            assert figures(made)['comband_experiment_learner_lag{experiment="test"}'] == 16

    asyncio.run(run())


def test_the_dashboard_asks_for_figures_that_are_there(tmp_path: Path) -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"comband_\w+", target["expr"])
    }
    with service(tmp_path) as made:
        latencies = Latencies()
        latencies.add("GET /healthz", 200, 0.1)
        text = metrics_text(made, latencies)
    there = set(re.findall(r"^# TYPE (comband_\w+)", text, re.MULTILINE))
    there |= {f"{name}_{part}" for name in there for part in ("bucket", "count", "sum")}
    assert asked <= there
    wanted = {"learner_lag", "lease", "guard_alarm", "certified"}
    assert {f"comband_experiment_{name}" for name in wanted} <= asked
    assert {"comband_waiting_writes", "comband_store_errors_total", "comband_reward_faults_total"} <= asked
