"""What is read off a log: hints, which must hold when they are followed, and the bound for candidates that overlap."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

import comband as cb
from comband.evaluation import Evaluation, clipped_gaps
from comband.evaluation.coverage import LeastPropensity
from tests.evaluation.logs.worlds import small_log

N_CONTEXTS = 3


def random_log(seed: int) -> tuple[cb.Rounds, cb.PolicySet, dict[str, Any]]:
    """Rounds of uniform lists, in some of which items could not be shown, for sets, pairs or factors of places."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 9))
    m, n = int(rng.integers(1, min(K, 4))), int(rng.choice([5, 30, 300, 2000]))
    places = [None, "pairs", tuple(np.r_[1.0, 0.1 + rng.random(m - 1)])][seed % 3]
    max_reward = float(rng.integers(1, m + 1))
    allowed = np.ones((N_CONTEXTS, K), dtype=bool)
    if rng.random() < 0.4:
        for some in allowed:
            some[rng.permutation(K)[: rng.integers(0, K - m + 1)]] = False
    contexts = rng.integers(N_CONTEXTS, size=n)
    shown = np.argsort(np.where(allowed[contexts], rng.random((n, K)), 2.0), axis=1)[:, :m]
    chances = (m / allowed.sum(axis=1) / (m if places == "pairs" else 1))[contexts]
    rates = rng.random((N_CONTEXTS, K)) * rng.choice([0.02, 0.3, 0.9])
    hits = rng.random((n, m)) < rates[contexts[:, None], shown]
    problem = cb.Problem(K, m)
    log = cb.Rounds.from_log(
        contexts,
        lists=shown,
        rewards=hits & (np.cumsum(hits, axis=1) <= max_reward),
        propensities=np.repeat(chances[:, None], m, axis=1),
        problem=problem,
    )
    lists = [[rng.permutation(K)[:m].tolist() for _ in range(N_CONTEXTS)] for _ in range(rng.integers(2, 5))]
    return log, cb.PolicySet.from_lists(lists, problem), {"max_reward": max_reward, "places": places}


def test_a_hint_that_is_followed_brings_what_it_says() -> None:
    """Never a larger epsilon than before, and no larger one than hinted: one after the other, on 240 logs."""
    followed = {"min_propensity": 0, "sparsity": 0}
    for seed in range(240):
        log, policies, options = random_log(seed)
        open_: list[tuple[Evaluation, dict[str, Any]]] = [(cb.evaluate(log, policies, **options), options)]
        while open_:
            answer, options = open_.pop()
            for hint in answer.hints:
                told = {"min_propensity": hint.min_propensity} if hint.min_propensity is not None else {}
                told[{"sparsity": "max_reward"}.get(hint.option, hint.option)] = hint.value
                then = cb.evaluate(log, policies, **{**options, **told})
                assert then.epsilon <= hint.epsilon * (1 + 1e-9) < answer.epsilon, (seed, hint)
                assert str(hint) in answer.explained
                followed[hint.option] += 1
                open_.append((then, {**options, **told}))
    assert min(followed.values()) > 10


def test_a_hint_says_what_else_must_be_stated() -> None:
    rounds, policies = small_log()
    by_option = {hint.option: hint for hint in cb.evaluate(rounds, policies, max_reward=3.0).hints}
    both = str(by_option["sparsity"])
    assert "had a propensity of at least 0.06 and that no round can bring more than 1" in both
    assert "(min_propensity, --min-propensity; sparsity, max_reward, --sparsity)" in both
    assert "if you know from elsewhere that" in str(by_option["min_propensity"])


@pytest.mark.parametrize(("floor", "helps"), [(0.2, False), (0.5, True)])
def test_hints_beside_the_rule_that_drew_are_those_that_help(floor: float, helps: bool) -> None:
    """Whoever can ask the rule has a smaller epsilon, and is told nothing that is larger."""
    problem = cb.Problem(12, 3, 1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies = shop.candidates(4, seed=2)
    mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=floor)
    visitors = shop.sample(2000, np.random.default_rng(3))
    decisions = mixture.draw(visitors.contexts, 4)
    rounds = cb.Rounds(decisions, visitors.answer(decisions.lists))
    plain, asked = (cb.evaluate(rounds, policies, max_reward=1, logging=each) for each in (None, mixture))
    assert plain.hints
    assert asked.epsilon == clipped_gaps(rounds, policies, asked.best.index, logging=mixture, max_reward=1).max()
    assert all(hint.epsilon < asked.epsilon for hint in asked.hints)
    assert bool(asked.hints) == helps
    assert [note for note in asked.explained if note.startswith("if you know from elsewhere")] == [
        str(hint) for hint in asked.hints
    ]


@pytest.mark.parametrize(("value", "power"), [(1.0, 0), (0.99, 1), (0.5, 1), (0.4999, 2), (0.3, 2), (2.0**-20, 20)])
def test_what_is_read_off_a_log_is_rounded_down_to_a_power_of_two(value: float, power: int) -> None:
    assert LeastPropensity(value, stated=False).powers(3.0) == (3.0, power)
    assert 2.0**-power <= value < 2.0 ** (1 - power)
    assert LeastPropensity(value, stated=True).powers(3.0) is None


def wealth(values: NDArray[np.float64], mu: float, power: int) -> float:
    """Σ_{i ≥ k} Π_t (1 − λ_i (z_t − μ))/((i + 1)(i + 2)) with λ_i = .98·2^−i, for z ≤ 2^k."""
    stakes = range(power, power + 16)
    return math.fsum(np.prod(1 - 0.98 * 2.0**-i * (values - mu)) / ((i + 1) * (i + 2)) for i in stakes)


def one_item_log(contexts: Any, items: Any, rewards: Any, chances: Any) -> cb.Rounds:
    return cb.Rounds.from_log(
        np.asarray(contexts),
        lists=np.reshape(items, (-1, 1)),
        rewards=np.reshape(rewards, (-1, 1)),
        propensities=np.reshape(chances, (-1, 1)),
        problem=cb.Problem(3, 1, 1),
    )


def test_the_bound_for_candidates_that_overlap_is_that_of_the_wealth() -> None:
    """300 rounds of three items, of propensity .3 as it is logged; item 1 pays in a fifth of them."""
    t = np.arange(300)
    rewards = ((t % 3 == 1) & (t % 15 < 3)) | ((t % 3 == 0) & (t % 30 == 0))
    log = one_item_log(np.zeros(300, dtype=int), t % 3, rewards, np.full(300, 0.3))
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], cb.Problem(3, 1, 1))
    answer = cb.evaluate(log, policies, max_reward=1)
    assert answer.best.index == 1
    values = rewards / 0.3 * np.where(t % 3 == 0, 1, np.where(t % 3 == 1, -1, 0))
    delta = 0.05 - 1e-6  # the rest is for the check of propensities
    expected = brentq(lambda mu: wealth(values, mu, 2) - 1 / delta, 0, 1)
    assert answer.covered_epsilon == pytest.approx(expected, rel=2e-3)  # values lie between the points of a grid
    assert answer.covered_epsilon >= expected * (1 - 1e-6)


def test_what_is_promised_of_candidates_that_overlap_holds_by_exact_enumeration() -> None:
    """All logs of six rounds, in which the smallest propensity seen depends on chance: on A item 2 is shown half of the
    time, on B in one of 16 rounds, and it pays most. The statement is about those candidates that had at least the
    smallest propensity of the log everywhere.
    """
    delta, n = 0.3, 6
    outcomes = [(0, 0, 0.5), (0, 2, 0.5), (1, 0, 15 / 16), (1, 2, 1 / 16)]
    truth, least = {"zero": 0.25, "two": 1.0}, {"zero": 0.5, "two": 1 / 16}
    pays = [0.0, 1.0, 0.5, 1.0]
    policies = cb.PolicySet.from_lists([[[0], [0]], [[2], [2]]], cb.Problem(3, 1, 1), names=list(truth))
    wrong, seen = 0.0, set()
    found: dict[tuple[int, ...], tuple[str, float, float]] = {}
    for log in product(range(4), repeat=n):
        e = sorted(log)  # the order of rounds does not matter
        if tuple(e) not in found:
            columns = [[outcomes[i][c] for i in e] for c in range(3)]
            result = cb.evaluate(
                one_item_log(columns[0], columns[1], [pays[i] for i in e], columns[2]),
                policies,
                max_reward=1,
                delta=delta,
            )
            found[tuple(e)] = result.candidates[0].name, result.min_propensity, result.covered_epsilon
        best, smallest, epsilon = found[tuple(e)]
        chance = math.prod(0.5 * outcomes[i][2] for i in e)
        seen.add(smallest)
        wrong += chance * any(least[name] >= smallest and truth[name] - truth[best] > epsilon + 1e-9 for name in truth)
    assert seen == {0.5, 1 / 16, 15 / 16}
    assert wrong <= delta
