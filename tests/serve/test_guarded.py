"""Further metrics over HTTP: purchases that come long after clicks, some never."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

import comband as cb
from comband.serve import audit
from comband.serve.client import Client
from comband.serve.journal import STRIDE, NotRunningError
from comband.serve.learning import learn_block, new_learner
from comband.serve.metrics import Latencies, metrics_text
from comband.serve.wire import Decision, RewardPost, Spec
from tests.serve.worlds import NAMES, M, World, caught_up, decisions_of, listening, play, service, spec
from tests.waiting import LIMIT, wait_for

METRICS = [
    {"name": "purchases", "margin": 0.15},
    {"name": "reports", "margin": 1.3, "direction": "cost", "largest": 2.0, "patience": 300},
]
GIVEN: dict[str, Any] = {"metrics": METRICS, "production": NAMES[1], "epsilon": 0.2, "delta": 0.2, "block": 16}


def guarded(**more: Any) -> Spec:
    """An experiment with a benefit and a cost, as a message."""
    return msgspec.convert({**_plain(spec()), **GIVEN, **more}, Spec)


def worth(number: int, rewards: list[tuple[str | int, float]], largest: float) -> list[tuple[str | int, float]]:
    """What clicks are worth by a metric: some more, some less."""
    rng = np.random.default_rng([number, int(largest), 11])
    return [(item, reward * largest * float(rng.integers(2))) for item, reward in rewards]


def test_purchases_come_long_after_clicks(tmp_path: Path) -> None:
    """Clicks at once, purchases some 160 decisions later, reports of half of the decisions, and later still: over HTTP
    until the end; what was learnt is what a learner in Python learns from the journal's rounds, told whole.
    """
    world = World(3, best=0.6)
    with service(tmp_path) as made, listening(made) as address, Client(address, timeout=LIMIT) as client:
        client.create(**_plain(guarded()))
        later: list[tuple[int, Decision]] = []
        with httpx.Client(base_url=address, timeout=LIMIT) as http:
            for start in range(0, 3200, 64):
                body = [{"lists": world.lists(i), "request": f"r{i}"} for i in range(start, start + 64)]
                decisions = decisions_of(http.post("/v1/experiments/test/decisions", json=body).content)
                numbers = range(start, start + 64)
                receipt = client.reward_many(
                    "test",
                    {
                        one.decision: dict(world.rewards(i, one.items))
                        for i, one in zip(numbers, decisions, strict=True)
                    },
                )
                assert not receipt.faults
                later += zip(numbers, decisions, strict=True)
                due, later = (later[:-160], later[-160:]) if len(later) > 160 else ([], later)
                if due:
                    purchases = {d.decision: dict(worth(i, world.rewards(i, d.items), 1.0)) for i, d in due}
                    reports = {d.decision: dict(worth(i, world.rewards(i, d.items), 2.0)) for i, d in due if i % 2 == 0}
                    assert not client.reward_many("test", {}, purchases=purchases, reports=reports).faults
                status = client.status("test")
                if status.done:
                    break
        asyncio.run(caught_up(made, "test"))
        status, result = client.status("test"), client.result("test")
        assert result is not None
        assert status.is_certified, (status.rounds, status.answer)
        assert status.winner == "best"
        assert "purchases" in result.text
        rows = {(row.name, row.metric): row.standing for row in status.guarded}
        assert rows["best", "purchases"] == rows["best", "reports"] == "safe"
        shown = made.queries.shown("test", 0)
        assert shown is not None
        assert set(shown["metrics"]) == {"purchases", "reports"}
        assert len(shown["metrics"]["purchases"]) == M

        learning = made.learners
        assert learning is not None
        theirs = learning.learning(1)
        assert theirs is not None
        rounds, journal = theirs.learner.rounds, made.journal
        again = new_learner(made.experiments.find("test").experiment.spec, theirs.learner.policies, 5)  # type: ignore[arg-type]
        told = [np.zeros((rounds, M)) for _ in range(3)]
        for part, values in enumerate(told):
            for number, place, value in journal.rewards(1, 0, rounds, part):
                values[number, place] = value
        stored = journal.decisions(1, 0, rounds)
        for start in range(0, rounds, 16):
            here = slice(start, start + 16)
            learn_block(again, stored[here], told[0][here], purchases=told[1][here], reports=told[2][here])
        mine, its = again.evidence, theirs.learner.evidence
        np.testing.assert_array_equal(mine.log_wealth, its.log_wealth)
        assert mine.guardrails is not None
        assert its.guardrails is not None
        np.testing.assert_array_equal(mine.guardrails.harm, its.guardrails.harm)
        np.testing.assert_array_equal(mine.guardrails.accounts, its.guardrails.accounts)


def _plain(made: Any) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(made).items() if value is not None}


def test_each_metric_waits_for_as_long_as_it_says(tmp_path: Path) -> None:
    """Rewards are settled by their window or the patience of each part; values that come later are late."""
    asyncio.run(_waits(tmp_path))


async def _waits(folder: Path) -> None:
    world = World(3)
    with service(folder) as made:
        await made.create(guarded(patience=20))
        decisions = await made.decide("test", [world.request(i) for i in range(16)])
        await made.reward("test", [world.post(i, one) for i, one in enumerate(decisions)])
        purchases = [
            RewardPost(one.decision, metrics={"purchases": [(item, 0.0) for item in one.items]}) for one in decisions
        ]
        assert (await made.reward("test", purchases)).accepted == 16 * M
        assert made.journal.counts(1)[1] == 0  # reports are waited for
        for start in range(16, 320, 16):
            await made.decide("test", [world.request(i) for i in range(start, start + 16)])
        await asyncio.to_thread(wait_for, lambda: made.journal.counts(1)[1] > 0, "reports are waited for no longer")
        assert made.journal.counts(1)[1] == 16
        late = await made.reward(
            "test", [RewardPost(0, metrics={"reports": [(decisions[0].items[0], 1.0)]}), world.post(0, decisions[0])]
        )
        assert (late.accepted, late.duplicates) == (0, M)
        assert [(one.outcome, one.metric) for one in late.faults] == [("late", "reports")]
        assert made.journal.database.read(
            "SELECT COUNT(*) FROM rewards WHERE decision = ? AND counted = 0", [STRIDE]
        ) == [(1,)]


def test_what_is_not_told_so_is_refused(tmp_path: Path) -> None:
    async def refused() -> None:
        world = World(3)
        with service(tmp_path) as made:
            with pytest.raises(cb.InputError, match="metric_windows has 'sales'"):
                await made.create(guarded(metric_windows={"sales": 60.0}))
            await made.create(guarded())
            [one] = await made.decide("test", [world.request(0)])
            item = one.items[0]
            for metrics, message in (
                ({"sales": [(item, 1.0)]}, "no metric 'sales'; it has purchases, reports"),
                ({"reports": [(item, 2.5)]}, "reports of an item is at most 2, .* got 2.5"),
                ({}, '"rewards", pairs of item and reward, or "metrics", or both'),
            ):
                with pytest.raises(cb.InputError, match=message):
                    await made.reward("test", [RewardPost(0, metrics=metrics)])
            told = RewardPost(0, metrics={"purchases": [(one.items[0], 0.7), (one.items[1], 0.6), ("none", 0.1)]})
            receipt = await made.reward("test", [told])
            assert receipt.accepted == 1
            assert [fault.outcome for fault in receipt.faults] == ["too much", "not shown"]
            contradiction = RewardPost(0, metrics={"purchases": [(item, 0.5)], "reports": [(item, 0.5)]})
            receipt = await made.reward("test", [contradiction])
            assert (receipt.accepted, [fault.metric for fault in receipt.faults]) == (1, ["purchases"])

    asyncio.run(refused())


@pytest.mark.parametrize("after", ["production", "pause"])
def test_an_experiment_that_harms_visitors_is_stopped(tmp_path: Path, after: str) -> None:
    """Production is much better than all others: its list is shown to all, or the experiment is paused as well."""

    async def harmed() -> None:
        world = World(3, best=0.9)
        given: dict[str, Any] = {
            "production": "best",
            "epsilon": 0.001,
            "max_harm": 0.1,
            "first_epoch": 100_000,
            "after_harm": after,
        }
        with service(tmp_path) as made:
            await made.create(spec(**given))
            for start in range(0, 1600, 64):
                with suppress(NotRunningError):  # paused while rewards of the last ones came
                    await play(made, world, start, start + 64, size=64)
                if made.queries.status("test")["stopped_by_harm"]:
                    break
            made.experiments.refresh()
            status = made.queries.status("test")
            assert status["shown"] == "best"
            assert "Visitors were proven to be harmed" in status["answer"]
            assert "Production's list is shown to all" in status["next_step"] or after == "pause"
            assert 'experiment_stopped_by_harm{experiment="test"} 1' in metrics_text(made, Latencies())
            actions = [one.action for one in audit.before(made.journal, 10**6, 10, "test")]
            assert actions.count("visitors harmed") == 1
            assert actions.count("paused") == (after == "pause")
            if after == "pause":
                with pytest.raises(NotRunningError, match="paused"):
                    await made.decide("test", [world.request(10_000)])
            else:
                [one] = await made.decide("test", [world.request(10_000)])
                assert one.items == world.lists(10_000)["best"]

    asyncio.run(harmed())
