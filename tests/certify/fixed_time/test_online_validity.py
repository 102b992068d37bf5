"""OnlineComband keeps its promise: in three kinds of worlds, in worlds found by search, however often one looks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import comband as cb
from comband.paper.catalogue.rate_worlds import KINDS, rate_world
from tests.certify.fixed_time.online_runs import SETTINGS, Outcome, found_by_search, play

DELTA = 0.05


def check_outcomes(outcomes: list[Outcome]) -> None:
    """So many wrong ones as less than one right program in a million would have."""
    most = int(binom.isf(2.5e-7, len(outcomes), DELTA))
    assert sum(one.ever_wrong for one in outcomes) <= most
    assert sum(one.wrong for one in outcomes) <= most
    assert sum(one.spread > 1 for one in outcomes) <= most  # X₃ ≤ 1/δ, for all candidates at once


@pytest.mark.parametrize("kind", KINDS)
def test_short_runs_keep_the_promise(kind: str) -> None:
    outcomes = []
    for number in range(6):
        K, m, s, epsilon = ((20, 1, 1, 0.25), (60, 3, 3, 0.9), (100, 2, 1, 0.3))[number % 3]
        rng = np.random.default_rng([number, KINDS.index(kind)])
        world = rate_world(kind, cb.Problem(K, m, s), 25, epsilon, rng, n_contexts=200)
        outcomes.append(play(world, epsilon, number))
    check_outcomes(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_is_kept(kind: str, setting: tuple[int, int, int, float]) -> None:
    """1,050 runs in all."""
    K, m, s, epsilon = setting
    outcomes = []
    for number in range(10):
        rng = np.random.default_rng([number, SETTINGS.index(setting), KINDS.index(kind)])
        world = rate_world(kind, cb.Problem(K, m, s), 100, epsilon, rng, n_contexts=800)
        outcomes += [play(world, epsilon, 1000 * number + run) for run in range(5)]
    check_outcomes(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [(16, 1, 1, 0.25), (12, 3, 3, 0.7), (40, 2, 1, 0.25)], ids=str)
def test_the_promise_is_kept_in_worlds_found_by_search(setting: tuple[int, int, int, float]) -> None:
    K, m, s, epsilon = setting
    world = found_by_search(cb.Problem(K, m, s), epsilon, n_policies=12, steps=60, seed=1)
    check_outcomes([play(world, epsilon, 500 + run) for run in range(100)])
