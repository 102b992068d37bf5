"""Wrong claims under every pair of options, in small worlds with exact values, at δ = .2.

A run is wrong if any claim after any batch was: some candidate of the field exceeded the one named by more than the ε
that was certified. Values are of what counts: of clicks on slow items a part where answers are late and a patience is
set. The counts of a pair, and those of all pairs of an option, are compared with a binomial distribution, such that a
right program fails less than once in a million runs of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import pytest
from scipy.stats import binom

from tests.pairs.options import BY_NAME, KINDS, OPTIONS, Option, given, options_of, pairs_of
from tests.pairs.refusals import MAKING
from tests.pairs.runs import DELTA, Case, Run
from tests.pairs.worlds import READINGS

PAIRS = pairs_of(KINDS["AdaptiveComband"])
LARGER = BY_NAME["large delta"]  # its runs have another δ
pytestmark = pytest.mark.usefixtures("unwatched")
N_COUNTS = len(PAIRS) + len(OPTIONS) + sum(len(options_of(kind)) for kind in KINDS.values())
RUNS = 8  # of a pair under each reading


def most_allowed(runs: int, delta: float) -> int:
    """More wrong runs would happen with probability below 1e-6 in any of the counts."""
    return int(binom.isf(1e-6 / N_COUNTS, runs, delta))


def delta_of(options: Iterable[Option]) -> float:
    return 0.5 if LARGER in options else DELTA


@cache
def wrong_runs(kind: str, options: tuple[Option, ...], runs: int) -> tuple[int, int]:
    """How many runs were made, under all readings that are not refused, and how many were ever wrong."""
    made = wrong = 0
    for reading in (one for one in READINGS if one != "fit"):  # which promises nothing but for factors as fitted
        for seed in range(runs):
            run = Run(Case(kind, reading, options), seed, rounds=200, followed=False).go()
            if any(said.startswith(MAKING) for said in run.refused):
                break
            made, wrong = made + 1, wrong + run.wrong
    return made, wrong


def test_the_bound_is_the_one_of_the_promise() -> None:
    assert binom.sf(most_allowed(4 * RUNS, DELTA), 4 * RUNS, DELTA) * N_COUNTS < 1e-6
    assert most_allowed(4 * RUNS, DELTA) < 4 * RUNS, "too few runs to notice anything"


@pytest.mark.slow
@pytest.mark.parametrize("first", OPTIONS[:-1], ids=lambda option: option.name)
def test_wrong_claims_stay_below_delta_with_every_pair(first: Option) -> None:
    made, wrong = Counter[float](), Counter[float]()
    for pair in PAIRS:
        if first in pair:
            n, bad = wrong_runs("AdaptiveComband", pair, RUNS)
            delta = delta_of(pair)
            made[delta] += n
            wrong[delta] += bad
            assert bad <= most_allowed(n, delta), f"{pair[0].name} + {pair[1].name}: {bad} of {n} runs wrong"
    for delta, n in made.items():
        print(f"{first.name}, δ = {delta}: {wrong[delta]} of {n} runs wrong")
        assert wrong[delta] <= most_allowed(n, delta)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_wrong_claims_stay_below_delta_with_every_learner(name: str) -> None:
    for option in options_of(KINDS[name]):
        made, wrong = wrong_runs(name, (option,), RUNS)
        print(f"{name}, {option.name}: {wrong} of {made} runs wrong")
        assert wrong <= most_allowed(made, delta_of((option,))), option.name


@pytest.mark.slow
def test_a_learner_that_takes_more_than_delta_is_noticed() -> None:
    """The same count, of runs that ask for .97 where .2 is promised."""
    made, wrong = wrong_runs("AdaptiveComband", (Option("liar", given(delta=0.97, epsilon=None, max_rounds=400)),), 100)
    print(f"{wrong} of {made} runs wrong")
    assert wrong > most_allowed(made, DELTA)
