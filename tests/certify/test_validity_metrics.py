"""With further metrics wrong claims stay below δ, however often one looks: of who is best among the safe and of who is
safe together, of who harms, and of lifts; where the best is not safe, all are unsafe by a hair, or the best safe one
has nothing to spare.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.stats import binom

from comband.certify.evidence import Evidence
from tests.certify.metric_worlds import WORLDS, Outcome, decoy_world, outcome

RUNS = int(os.environ.get("COMBAND_VALIDITY_RUNS", "1000"))
COUNTED = ("wrong", "claim", "safe", "winner", "harm", "lift", "uncorrected", "done")


def most_allowed(runs: int, delta: float) -> int:
    """More would happen with probability below 1e-6 if each run were wrong with probability δ."""
    return int(binom.isf(1e-6, runs, delta))


def counts(outcomes: list[Outcome]) -> dict[str, int]:
    return {what: sum(getattr(one, what) for one in outcomes) for what in COUNTED}


def check(outcomes: list[Outcome], delta: float) -> None:
    found, runs = counts(outcomes), len(outcomes)
    assert found["wrong"] <= most_allowed(runs, delta)
    assert found["safe"] <= most_allowed(runs, 0.3 * delta)
    assert found["harm"] <= most_allowed(runs, 0.21 * delta)
    assert found["lift"] <= most_allowed(runs, delta)


@contextmanager
def naively() -> Iterator[None]:
    """Epochs of all leaders count in full, whether these are known to be safe or not."""
    full = {
        "discounted": property(lambda self: self.withdrawn),
        "_for_claims": lambda self, claimed, of_leaders: sum(of_leaders.values(), np.zeros_like(self.log_wealth)),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in full.items():
            patch.setattr(Evidence, name, value)
        yield


@pytest.mark.parametrize("kind", WORLDS)
def test_little_is_wrong(kind: str) -> None:
    check([outcome(WORLDS[kind](seed), seed, delta=0.2, max_rounds=1000) for seed in range(4)], 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("kind", WORLDS)
def test_wrong_claims_stay_below_delta(kind: str, delta: float) -> None:
    outcomes = [outcome(WORLDS[kind](seed), seed, delta=delta) for seed in range(RUNS)]
    rounds = int(np.median([one.rounds for one in outcomes]))
    print(f"{kind}, {delta}: {counts(outcomes)} of {len(outcomes)} runs, {rounds} rounds")
    check(outcomes, delta)


@pytest.mark.slow
def test_the_decoy_misleads_a_naive_learner() -> None:
    """The world has power: were epochs of unsafe leaders to count in full, more would be wrong than is allowed."""
    delta = 0.05
    with naively():
        outcomes = [outcome(decoy_world(seed), seed, delta=delta) for seed in range(RUNS // 2)]
    print(f"naively, {delta}: {counts(outcomes)} of {len(outcomes)} runs")
    assert counts(outcomes)["claim"] > most_allowed(len(outcomes), 0.7 * delta)
