"""Paired bounds: against brute force, by coverage, and their algebra."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from comband import Mixture, PolicySet, Problem, Rounds
from comband.statistics.pairs import BETS, PairSums, mean_bound


def rounds_and_policies(seed: int, n: int = 60) -> tuple[Rounds, PolicySet]:
    rng = np.random.default_rng(seed)
    problem = Problem(6, 2, 2)
    policies = PolicySet.from_lists([[rng.permutation(6)[:2] for _ in range(5)] for _ in range(4)], problem)
    decisions = Mixture(policies, [0.1, 0.2, 0.3, 0.4], problem=problem, floor=0.5).draw(rng.integers(5, size=n), rng)
    return Rounds(decisions, rng.random((n, 2)) * (rng.random((n, 2)) < 0.5)), policies


@pytest.mark.parametrize("seed", range(5))
def test_sums_against_plain_loops(seed: int) -> None:
    rounds, policies = rounds_and_policies(seed)
    leader = 2
    X = np.zeros((len(rounds), len(policies)))
    for t in range(len(rounds)):
        for j, policy in enumerate(policies):
            own = set(policy.predict(rounds.decisions.contexts[t : t + 1])[0].tolist())
            for k in range(2):
                if int(rounds.decisions.lists[t, k]) in own:
                    X[t, j] += rounds.rewards[t, k] / rounds.decisions.propensities[t, k]
    D = X - X[:, [leader]]
    pairs = PairSums.from_events(rounds.events(), policies, leader)
    np.testing.assert_allclose(pairs.sums, D.sum(0), rtol=0, atol=1e-10)
    np.testing.assert_allclose(pairs.squares, (D**2).sum(0), rtol=1e-12)
    halves = PairSums.from_events(rounds[:25].events(), policies, leader) + PairSums.from_events(
        rounds[25:].events(), policies, leader
    )
    np.testing.assert_allclose(halves.sums, pairs.sums, atol=1e-10)
    gaps = pairs.bounds(bound=12.0, delta=0.05)
    assert gaps[leader] == 0
    others = [0, 1, 3]  # whichever is best is one of them: δ is shared by three
    alone = mean_bound(D.sum(0)[others], (D**2).sum(0)[others], len(rounds), bound=12.0, delta=0.05 / 3)
    np.testing.assert_allclose(gaps[others], alone, rtol=1e-9)


def test_bound_refutes_by_true_wealth() -> None:
    """At the returned μ one of the bets has a true wealth of at least J/δ: the bound is never too small."""
    rng = np.random.default_rng(3)
    b, delta = 4.0, 0.01
    for _ in range(50):
        n = int(rng.integers(50, 3000))
        D = np.where(rng.random(n) < 0.2, rng.uniform(-b, b, n), 0.0)
        mu = float(mean_bound(D.sum(), (D**2).sum(), n, bound=b, delta=delta))
        if np.isfinite(mu):
            wealth = [np.log1p(-a / b * (D - mu)).sum() for a in BETS]
            assert max(wealth) >= np.log(len(BETS) / delta) - 1e-9


def test_coverage() -> None:
    """Skewed two-point variables; misses beyond δ at a false-alarm rate below 1e-6."""
    rng = np.random.default_rng(11)
    b, n, delta, repetitions = 10.0, 400, 0.1, 4000
    for chance in (0.01, 0.05):
        hits = rng.binomial(n, chance, size=repetitions)
        bounds = mean_bound(b * hits, b * b * hits, n, bound=b, delta=delta)
        misses = int((bounds < b * chance).sum())
        assert misses <= binom.isf(1e-7, repetitions, delta)


def test_no_data_says_nothing() -> None:
    assert np.isinf(mean_bound(0.0, 0.0, 0, bound=1.0, delta=0.1))
    assert np.isinf(mean_bound(0.0, 0.0, 1, bound=1.0, delta=0.1))


def test_more_rounds_say_more() -> None:
    bounds = [float(mean_bound(0.0, 2.0 * n, n, bound=20.0, delta=1e-3)) for n in (500, 2000, 8000, 32000)]
    assert all(a > b for a, b in itertools.pairwise(bounds))
    assert bounds[-1] == pytest.approx(np.sqrt(2 * 2.0 * np.log(len(BETS) * 1e3) / 32000), rel=0.25)


def test_pairs_of_other_leaders_do_not_add() -> None:
    rounds, policies = rounds_and_policies(0)
    with pytest.raises(ValueError, match="leader"):
        PairSums.from_events(rounds.events(), policies, 0) + PairSums.from_events(rounds.events(), policies, 1)


@pytest.mark.parametrize("chance", [0.02, 0.2, 0.7])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_bound_holds_at_all_numbers_of_rounds_at_once(chance: float, sign: int) -> None:
    """D is b, or −b, with some probability and else 0: the probability that any of 400 bounds is wrong, exactly."""
    b, delta = 3.0, 0.25
    mean, right, wrong = sign * b * chance, np.array([1.0]), 0.0  # right (k,): k times D ≠ 0, and no bound was wrong
    for n in range(1, 401):
        right = np.r_[right * (1 - chance), 0.0] + np.r_[0.0, right * chance]
        k = np.arange(n + 1)
        misses = mean_bound(sign * b * k, b**2 * k, n, bound=b, delta=delta) < mean
        wrong += right[misses].sum()
        right[misses] = 0.0
    assert wrong + right.sum() == pytest.approx(1)
    assert wrong <= delta
