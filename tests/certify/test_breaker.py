"""The breaker: its wealth is a plain product, false stops stay below what was declared, and real harm is heard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import comband as cb
from comband.certify.breaker import STAKES
from comband.page.metrics import Metric
from tests.certify.metric_worlds import MetricWorld, single_items
from tests.certify.test_twin import LISTS, PROBLEM, N

METRICS = (Metric(name="purchases", margin=0.1), Metric(name="reports", margin=0.2, direction="cost", largest=2.0))


@pytest.mark.parametrize("exposure", [1.0, 0.4])
@pytest.mark.parametrize("metrics", [(), METRICS])
def test_the_wealth_is_a_product_over_rounds(metrics: tuple[Metric, ...], exposure: float, tmp_path: Path) -> None:
    """Recomputed round by round from decisions and answers, told in any parts; saved and loaded on the way."""
    rng, share, rho = np.random.default_rng(5), 0.2, PROBLEM.max_reward
    policies = cb.PolicySet.from_lists(LISTS, PROBLEM)
    given: dict[str, Any] = {"production": policies.names[4], "exposure": exposure, "max_harm": share}
    learner = cb.AdaptiveComband(
        PROBLEM, policies, epsilon=0.15, first_epoch=60, metrics=metrics, false_stop=1e-9, seed=3, **given
    )
    names, signs = (
        ("rewards", *(one.name for one in metrics)),
        (1, *(1 if one.direction == "benefit" else -1 for one in metrics)),
    )
    wealth = np.zeros((len(names), len(STAKES)))
    for _ in range(12):
        decisions = learner.ask(rng.integers(N, size=40))
        told = {name: np.zeros(decisions.lists.shape) for name in names}
        for row in range(40):
            if rng.random() < 0.7:
                for j, values in enumerate(told.values()):
                    values[row, rng.integers(PROBLEM.list_size)] = rng.random() * (2.0 if j == 2 else 1.0)
        for name, values in told.items():
            for part in np.array_split(rng.permutation(40), 3):
                learner.tell(decisions[part], **{name: values[part]})
        epoch = learner.epochs[int(decisions.epochs[0])]
        smallest = float(epoch.explorer.smallest) + float(epoch.explorer.own[4])  # type: ignore[attr-defined]
        for row in range(40):
            wanted = LISTS[4][int(np.asarray(decisions.contexts)[row])]
            for j, (name, sign) in enumerate(zip(names, signs, strict=True)):
                r = told[name][row] / (2.0 if j == 2 else 1.0)
                brought = float(
                    sum(
                        v / q
                        for v, q, y in zip(r, decisions.propensities[row], decisions.lists[row], strict=True)
                        if y in wanted
                    )
                )
                if not decisions.covered[row]:
                    brought = 0.0 if sign > 0 else rho
                G = sign * (r.sum() - (1 - sign * share) * brought)
                most = rho if sign > 0 else (1 + share) * rho / smallest
                assert most + 1e-9 >= G
                wealth[j] += np.log1p(-STAKES / most * G)
        breaker = learner.evidence.breaker
        assert breaker is not None
        np.testing.assert_allclose(breaker.log_wealth, wealth, rtol=1e-12, atol=1e-12)
        learner.save(tmp_path / "learner.npz")
        learner = cb.AdaptiveComband.load(tmp_path / "learner.npz", policies)
    assert np.abs(wealth).max() > 1


def harming(share: float, chance: float) -> MetricWorld:
    """What the first epoch shows brings production's reward less just this share, in every round."""
    world = single_items([chance, *[0.5] * 3], np.empty((0, 4)), ())
    explorer = world.learner(epsilon=0.05, metrics=()).epochs.current.explorer
    own = float(explorer.propensities_of(np.zeros(1, dtype=np.int64))[0, 0])
    other = chance * (1 - share - own) / (1 - own)
    assert 0 < other < 1
    return single_items([chance, *[other] * 3], np.empty((0, 4)), ())


def stops(world: MetricWorld, seed: int, n: int, **more: Any) -> bool:
    """Whether a first epoch without end is stopped within n rounds; looked at after each batch."""
    learner = world.learner(epsilon=0.01, metrics=(), first_epoch=10**9, seed=seed, **more)
    rng = np.random.default_rng([seed, 8])
    while learner.rounds < n and not learner.stopped_by_harm:
        world.play(learner, 250, rng)
    assert learner.done or learner.verdict.certified is None
    return bool(learner.stopped_by_harm)


def test_harm_is_heard_and_its_absence_is_not() -> None:
    much = harming(0.6, 0.6)
    assert all(stops(much, seed, 1500, max_harm=0.1) for seed in range(8))
    assert not any(stops(harming(0.05, 0.6), seed, 1500, max_harm=0.3, false_stop=1e-6) for seed in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_false_stops_stay_below_what_was_declared(delta: float) -> None:
    """Harm exactly at the margin in every round: 1,000 runs of 2,000 rounds."""
    world = harming(0.4, 0.6)
    found = sum(stops(world, seed, 2000, max_harm=0.4, false_stop=delta) for seed in range(1000))
    print(f"false stops, {delta}: {found} of 1000")
    assert found <= int(binom.isf(1e-6, 1000, delta))


def test_a_stop_is_said_and_what_does_not_go_with_it_is_refused() -> None:
    world = harming(0.6, 0.6)
    learner = world.learner(epsilon=0.01, metrics=(), first_epoch=10**9, seed=1, max_harm=0.1)
    rng = np.random.default_rng(1)
    for _ in range(6):
        world.play(learner, 250, rng)
    breaker = learner.evidence.breaker
    assert learner.done
    assert math.isfinite(breaker.stopped_after)
    assert any("(max_harm): show that list" in note for note in learner.result().notes)
    for more, message in (
        ({"production": None, "max_harm": 0.1}, "say which one it is, production="),
        ({"false_stop": 0.01}, "say that too"),
        ({"max_harm": 0.1, "recent": 5000}, "recent forgets"),
        ({"max_harm": 0.1, "audited": 0.1}, "leave one of them out"),
    ):
        with pytest.raises(cb.InputError, match=message):
            world.learner(epsilon=0.01, **{"metrics": (), **more})
    problem = cb.Problem(n_actions=4, list_size=1, sparsity=1, feedback="total")
    policies = cb.PolicySet.from_lists(world.lists, problem)
    with pytest.raises(cb.InputError, match="places do not matter"):
        cb.AdaptiveComband(problem, policies, epsilon=0.1, production=policies.names[0], max_harm=0.1)
