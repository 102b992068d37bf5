"""The lift as a share of production's value: its ends are where a plain product over rounds crosses its threshold, and
it holds as often as it says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from comband.statistics.grids import log_mean_exp
from comband.statistics.guardrails import Rail
from tests.certify.metric_worlds import single_items

RATES = np.array([0.4, 0.55, 0.5, 0.3])


def played(seed: int, rounds: int) -> tuple[Any, list[tuple[Any, np.ndarray]]]:
    """A learner that never ends, and all that it was told."""
    world = single_items(RATES, np.empty((0, 4)), ())
    learner = world.learner(epsilon=1e-4, metrics=(), first_epoch=100, seed=seed)
    rng, told = np.random.default_rng([seed, 9]), []
    while learner.rounds < rounds:
        decisions, rewards, _ = world.play(learner, 100, rng)
        told.append((decisions, rewards))
    return learner, told


def relative(learner: Any, one: int, delta: float) -> tuple[float, float] | None:
    evidence, railing = learner.evidence, learner._all.planner.railing
    found: tuple[float, float] | None = evidence.lifts.relative(
        one, evidence.seen, evidence.n_rounds, evidence.n_uncovered, railing, delta
    )
    return found


def test_ends_are_where_a_plain_product_crosses() -> None:
    learner, told = played(1, 1500)
    evidence, railing, delta = learner.evidence, learner._all.planner.railing, 0.2
    one = evidence.lifts.led()[0]
    begun = next(k for k, epoch in enumerate(learner.epochs) if epoch.leader == one)

    def wealths(s: float) -> list[float]:
        """Of "it is more than s times production", and less."""
        sums = np.zeros((2, 3))
        for decisions, rewards in told:
            for i in range(len(rewards)):
                epoch = learner.epochs[int(decisions.epochs[i])]
                if decisions.epochs[i] < begun:
                    continue
                floors, at = railing.floors(epoch.explorer, epoch.leader), np.searchsorted(epoch.candidates, one)
                shown, x = int(decisions.lists[i, 0]), rewards[i, 0] / decisions.propensities[i, 0]
                G = x * (shown == one) - s * x * (shown == 0)
                for way, (share, bets) in enumerate(((4.0, epoch.rails[0].safe), (0.0, epoch.rails[0].harm))):
                    bound = Rail(1.0, share, 0.0, 1.0, 1.0).bound(floors, safety=way == 0)
                    worst = s if way == 0 else 1.0
                    stake = np.minimum(bets.stakes[at], 0.9 / bound)
                    change = -stake * worst if not decisions.covered[i] else (1 - 2 * way) * stake * G
                    assert (change > -0.9 - 1e-9).all()
                    sums[way] += np.log1p(change)
        return [float(log_mean_exp(row)) for row in sums]

    ends = relative(learner, one, delta)
    assert ends is not None
    low, high = ends
    assert -1 < low < RATES[one] / RATES[0] - 1 < high < 3
    threshold = np.log(2 * 1 * 2 / delta)
    assert wealths(1 + low - 1e-6)[0] >= threshold > wealths(1 + low + 1e-6)[0]
    assert wealths(1 + high + 1e-6)[1] >= threshold > wealths(1 + high - 1e-6)[1]
    said = learner.result().lift
    assert said is not None
    assert said.relative is not None or said.name == learner.policies.names[0]


def missed(seed: int, delta: float) -> bool:
    """Whether the share of any leader was ever outside, looked at after each 500 of 1,500 rounds."""
    world = single_items(RATES, np.empty((0, 4)), ())
    learner = world.learner(epsilon=1e-4, metrics=(), first_epoch=100, seed=seed)
    rng, wrong = np.random.default_rng([seed, 9]), False
    while learner.rounds < 1500:
        world.play(learner, 250, rng)
        for one in learner.evidence.lifts.led():
            ends = relative(learner, one, delta)
            truth = RATES[one] / RATES[0] - 1
            wrong |= ends is not None and not ends[0] - 1e-9 <= truth <= ends[1] + 1e-9
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_shares_are_missed_as_seldom_as_they_say(delta: float) -> None:
    found = sum(missed(seed, delta) for seed in range(1000))
    print(f"shares missed, {delta}: {found} of 1000")
    assert found <= int(binom.isf(1e-6, 1000, delta))
