"""With further metrics wrong claims stay below δ, however often one looks: of who is best among the safe and of who is
safe together, of who harms, and of lifts; where the best is not safe, all are unsafe by a hair, or the best safe one
has nothing to spare.
"""

from __future__ import annotations

import pytest
from scipy.stats import binom

from tests.certify.metric_worlds import WORLDS, Outcome, outcome

DELTA = 0.2


def most_allowed(runs: int, delta: float) -> int:
    """More would happen with probability below 1e-6 if each run were wrong with probability δ."""
    return int(binom.isf(1e-6, runs, delta))


def check(outcomes: list[Outcome], delta: float) -> None:
    runs = len(outcomes)
    assert sum(one.wrong for one in outcomes) <= most_allowed(runs, delta)
    assert sum(one.safe for one in outcomes) <= most_allowed(runs, 0.3 * delta)
    assert sum(one.harm for one in outcomes) <= most_allowed(runs, 0.21 * delta)
    assert sum(one.lift for one in outcomes) <= most_allowed(runs, delta)


@pytest.mark.parametrize("kind", WORLDS)
def test_little_is_wrong(kind: str) -> None:
    check([outcome(WORLDS[kind](seed), seed, delta=DELTA, max_rounds=1500) for seed in range(6)], DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("kind", WORLDS)
def test_wrong_claims_stay_below_delta(kind: str, delta: float) -> None:
    outcomes = [outcome(WORLDS[kind](seed), seed, delta=delta) for seed in range(1000)]
    counts = {what: sum(getattr(one, what) for one in outcomes) for what in ("wrong", "safe", "harm", "lift", "done")}
    print(f"{kind}, {delta}: {counts} of {len(outcomes)} runs")
    check(outcomes, delta)
