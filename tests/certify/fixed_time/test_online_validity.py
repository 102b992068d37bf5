"""OnlineComband keeps its promise: in three kinds of worlds, in worlds found by search, however often one looks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import comband as cb
from comband.paper.catalogue.rate_worlds import KINDS, rate_world
from tests.certify.fixed_time.hard_worlds import Hardness, found_by_search, listed_by
from tests.certify.fixed_time.online_runs import SETTINGS, Outcome, play

DELTA = 0.05


def check_outcomes(outcomes: list[Outcome]) -> None:
    """So many wrong ones as less than one right program in a million would have."""
    most = int(binom.isf(2.5e-7, len(outcomes), DELTA))
    ever, wrong = sum(one.ever_wrong for one in outcomes), sum(one.wrong for one in outcomes)
    settled, spread = max(one.settled for one in outcomes), max(one.spread for one in outcomes)
    print(f"{wrong} of {len(outcomes)} wrong, {ever} ever; right for good by {settled:.3f} T; W up to {spread:.2f}")
    assert ever <= most
    assert wrong <= most
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


HARD = [(16, 1, 1, 0.25), (12, 3, 3, 0.7), (40, 2, 1, 0.25), (6, 1, 1, 0.1)]


def test_the_search_finds_worlds_that_are_harder_than_those_it_begins_with() -> None:
    K, m, s, epsilon = HARD[0]
    world, hardness, known = found_by_search(cb.Problem(K, m, s), epsilon, n_policies=12, steps=150, seed=1)
    assert hardness == Hardness(cb.Problem(K, m, s), 12, epsilon)(listed_by(world), world.pay_rates)
    assert hardness > 1.1 * max(known)


@pytest.mark.slow
@pytest.mark.parametrize("setting", HARD, ids=str)
def test_the_promise_is_kept_in_worlds_found_by_search(setting: tuple[int, int, int, float]) -> None:
    K, m, s, epsilon = setting
    world, _, _ = found_by_search(cb.Problem(K, m, s), epsilon, n_policies=12, steps=1500, seed=1)
    check_outcomes([play(world, epsilon, 500 + run, batch_size=10) for run in range(100)])
