from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from comband._kernels.betting import add_paired_log_wealth, add_value_log_wealth
from comband.page.problem import InputError
from comband.statistics.betting import (
    SAFETY,
    STAKES,
    Bets,
    PairedEvidence,
    best_stakes,
    credits_at,
    enter_bets,
)
from comband.statistics.grids import log_mean_exp
from comband.statistics.sequences import ValueBets


def random_events(
    rng: np.random.Generator, n_policies: int = 7, n_rounds: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.sort(rng.integers(n_rounds, size=50))
    inside = rng.random((50, n_policies)) < 0.4
    return inside, rows, rng.uniform(0.5, 4.0, size=50)


def plain_differences(inside: np.ndarray, rows: np.ndarray, weights: np.ndarray, leader: int) -> np.ndarray:
    values = np.zeros((rows.max() + 1, inside.shape[1]))
    np.add.at(values, rows, weights[:, None] * inside)
    return values - values[:, [leader]]


def test_kernel_equals_plain_numpy() -> None:
    rng = np.random.default_rng(0)
    inside, rows, weights = random_events(rng)
    levels = rng.integers(14, len(STAKES), size=(7, 3))
    total = np.zeros((7, 3))
    add_paired_log_wealth(inside, rows, weights, 2, levels, STAKES, total)
    D = plain_differences(inside, rows, weights, 2)
    expected = np.log1p(-STAKES[levels][None] * D[:, :, None]).sum(axis=0)
    np.testing.assert_allclose(total, expected, atol=1e-12)


def test_value_kernel_equals_plain_numpy() -> None:
    rng = np.random.default_rng(1)
    inside, rows, weights = random_events(rng)
    stakes = np.array([0.05, 0.01, 0.001])
    low, high, sums = np.zeros((7, 3)), np.zeros((7, 3)), np.zeros(7)
    add_value_log_wealth(inside, rows, weights, stakes, low, high, sums)
    X = np.zeros((rows.max() + 1, 7))
    np.add.at(X, rows, weights[:, None] * inside)
    np.testing.assert_allclose(low, np.log1p(stakes * X[:, :, None]).sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(high, np.log1p(-stakes * X[:, :, None]).sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(sums, X.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("by_numbers", [False, True])
def test_into_which_blocks_rounds_are_cut_does_not_matter_to_the_last_bit(by_numbers: bool) -> None:
    """Sums of logarithms round, and in another order otherwise."""
    rng = np.random.default_rng(2)
    inside: Any = rng.random((200, 7)) < 0.5
    rows, weights = np.repeat(np.arange(100), 2), rng.uniform(0.1, 2.0, size=200)
    if by_numbers:
        inside, rows = rng.uniform(-0.5, 1.0, size=(200, 7)), np.arange(200)
    bets = Bets.choose(2, np.full(7, 0.05), 6.0)
    uncovered: NDArray[np.int64] = np.sort(2 * rng.integers(101, size=10))

    def entered(cuts: list[int]) -> tuple[NDArray[np.float64], ...]:
        total, values = np.zeros((7, 3)), ValueBets.zero(7)
        for first, last in pairwise([0, *cuts, 200]):
            part = slice(first, last)
            here = uncovered[(uncovered >= first) & (uncovered < last + (last == 200))] - first
            enter_bets(total, bets, inside[part], rows[part], weights[part], uncovered=here, max_reward=1.0)
            block = (np.arange(7), inside[part], rows[part], weights[part])
            values.add(*block, bound=6.0, n_rounds=last - first, uncovered=here)
        return total, values.sums, values.low, values.high

    whole = entered([])
    for _ in range(20):
        cuts = np.unique(2 * rng.integers(1, 100, size=int(rng.integers(1, 20)))).tolist()
        for one, other in zip(whole, entered(cuts), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_ruinous_bet_is_ruined_not_nan() -> None:
    inside = np.array([[True, False]])
    total = np.zeros((2, 1))
    add_paired_log_wealth(inside, np.array([0]), np.array([4.0]), 1, np.zeros((2, 1), dtype=np.int64), STAKES, total)
    assert total.tolist() == [[-np.inf], [0.0]]


def test_closed_form_is_the_product_of_fair_bets() -> None:
    """Π(1 − λD)/(1 − λμ) over all rounds, one by one, for several μ, equals event sum plus n·credit."""
    rng = np.random.default_rng(2)
    inside, rows, weights = random_events(rng)
    bets = Bets.choose(1, np.full(7, 0.03), bound=25.0)
    evidence = PairedEvidence.from_events(bets, inside, rows, weights, n_rounds=300, n_uncovered=4, max_reward=1.0)
    D = np.zeros((300, 7))
    block = plain_differences(inside, rows, weights, 1)
    D[: len(block)] = block
    D[-4:] = 1.0
    D[:, 1] = 0.0
    for mu in (0.0, 0.01, 0.3):
        stake = bets.stakes / (1 - bets.stakes * mu)
        direct = np.log1p(-stake[None] * (D[:, :, None] - mu)).sum(axis=0)
        rivals = np.arange(7) != 1
        closed = evidence.log_wealth + 300 * bets.credit(mu)
        np.testing.assert_allclose(closed[rivals], direct[rivals], rtol=1e-10, atol=1e-10)


def test_bets_are_fair_by_exact_enumeration() -> None:
    """E (1 − λD)/(1 − λμ) = 1 at μ = E D, summed over contexts, lists and rewards."""
    # Two contexts, three actions, one place; the leader shows 0, the rival 1 in context 0 and 2 in context 1.
    chance = np.array([[0.3, 0.4, 0.1], [0.2, 0.3, 0.5]])
    Q = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    rival = [1, 2]
    mean = np.mean([chance[x, rival[x]] - chance[x, 0] for x in range(2)])
    bets = Bets.choose(0, np.array([0.0, 0.08]), bound=1 / 0.1)
    expected = np.zeros(3)
    for x, shown, clicked in product(range(2), range(3), (False, True)):
        p = 0.5 * Q[x, shown] * (chance[x, shown] if clicked else 1 - chance[x, shown])
        inside, seen = np.array([[shown == 0, shown == rival[x]]]), int(clicked)
        block = PairedEvidence.from_events(
            bets,
            inside[:seen],
            np.zeros(seen, int),
            np.full(seen, 1 / Q[x, shown]),
            n_rounds=1,
        )
        expected += p * np.exp(block.log_wealth[1] + bets.credit(mean)[1])
    np.testing.assert_allclose(expected, 1.0, rtol=1e-12)


def test_blocks_in_any_order_give_the_same_evidence() -> None:
    rng = np.random.default_rng(3)
    inside, rows, weights = random_events(rng)
    bets = Bets.choose(0, rng.uniform(0.001, 0.03, 7), bound=30.0)
    whole = PairedEvidence.from_events(bets, inside, rows, weights, n_rounds=40)
    for _ in range(5):
        block_of_round = rng.integers(4, size=40)
        parts = []
        for b in rng.permutation(4):
            mine = block_of_round[rows] == b
            n = int((block_of_round == b).sum())
            parts.append(PairedEvidence.from_events(bets, inside[mine], rows[mine], weights[mine], n_rounds=n))
        total = parts[0] + parts[1] + parts[2] + parts[3]
        assert total.n_rounds == 40
        np.testing.assert_allclose(total.log_wealth, whole.log_wealth, rtol=1e-12, atol=1e-13)


def test_stakes_are_capped_and_refused_beyond() -> None:
    bets = Bets.choose(0, np.array([0.0, 5.0, 1e-3, 1e-30]), bound=20.0)
    assert bets.stakes[0].tolist() == [0.0, 0.0, 0.0]
    assert bets.stakes.max() <= SAFETY / 20
    assert bets.stakes[1].max() > SAFETY / 20 / 1.3
    np.testing.assert_allclose(bets.stakes[2] / bets.stakes[2, 1], [0.5, 1, 2], rtol=1e-12)
    assert (bets.stakes[3] > 0).all()
    with pytest.raises(InputError, match="may lose everything"):
        Bets(0, np.zeros((2, 1), dtype=np.int64), bound=1.5)


def test_credits() -> None:
    table = credits_at(0.5)
    np.testing.assert_allclose(table[:-1], -np.log1p(-0.5 * STAKES[:-1]))
    assert table[-1] == 0
    assert np.isinf(credits_at(1.0)[0])
    assert (np.diff([credits_at(mu)[10] for mu in (0.0, 0.1, 0.2)]) > 0).all()


def test_best_stakes_maximise_growth_to_second_order() -> None:
    rng = np.random.default_rng(4)
    D = rng.choice([0, -3.0, 3.0], p=[0.9, 0.06, 0.04], size=200_000)
    stake = best_stakes(np.array([-D.mean()]), np.array([(D**2).mean()]))[0]
    growth = [np.log1p(-factor * stake * D).mean() for factor in (0.5, 1.0, 2.0)]
    assert growth[1] > growth[0]
    assert growth[1] > growth[2]


def test_in_a_world_that_moves_a_claim_is_about_some_one_of_the_three_weightings() -> None:
    """In 25 rounds the leader earns 1 more than its rival, in the next 103 the rival does, for certain. The claim that
    the rival exceeded the leader by nothing on average comes with any δ down to .03; it is true of averages weighted by
    the smallest stakes, and false of those by the largest.
    """
    log_wealth, excess = np.zeros(3), np.zeros(3)
    for wanted, n, gap in ((0.9, 25, -1.0), (0.1, 103, 1.0)):
        bets = Bets.choose(0, np.array([0.0, wanted]), 1.0)
        inside = np.tile([gap < 0, gap > 0], (n, 1))
        log_wealth += PairedEvidence.from_events(bets, inside, np.arange(n), np.ones(n), n_rounds=n).log_wealth[1]
        excess += n * gap * bets.stakes[1]  # λ' = λ at μ = 0
    assert log_mean_exp(log_wealth) >= np.log(1 / 0.03)
    assert excess[0] < 0 < excess[2]


def wrong_of_all_weightings(stakes: NDArray[np.float64], gaps: NDArray[np.float64], mu: float, delta: float) -> float:
    """The probability that the average of the wealths ever reaches 1/δ while the average gap, weighted in any of the
    ways, is μ at least; by recursion over all outcomes of rounds with D = ±1.
    """
    weights = stakes / (1 - stakes * mu)
    false = np.asarray((np.cumsum(weights * (gaps[:, None] - mu), axis=0) >= 0).all(axis=1))

    def from_round(t: int, wealth: NDArray[np.float64]) -> float:
        if t == len(gaps):
            return 0.0
        chance = 0.0
        for d in (-1, 1):
            after = wealth * (1 - stakes[t] * d) / (1 - stakes[t] * mu)
            wrong = 1.0 if false[t] and after.mean() >= 1 / delta else from_round(t + 1, after)
            chance += (1 + d * gaps[t]) / 2 * wrong
        return chance

    return from_round(0, np.ones(stakes.shape[1]))


def test_claims_that_are_false_in_all_weightings_have_probability_delta_at_most() -> None:
    rng, largest, factors = np.random.default_rng(9), 0.0, np.array([0.5, 1.0, 2.0])
    for _ in range(40):
        change, mu, delta = int(rng.integers(1, 8)), float(rng.choice([0.0, 0.1])), float(rng.choice([0.2, 0.3, 0.5]))
        first = np.arange(8) < change
        stakes = np.where(first[:, None], *(np.minimum(rng.choice([0.2, 0.4, 0.8]) * factors, 0.9) for _ in range(2)))
        early, late = rng.uniform(-0.5, 1, size=2)
        gaps = np.where(first, early, late)
        wrong = wrong_of_all_weightings(stakes, gaps, mu, delta)
        assert wrong <= delta + 1e-12
        largest = max(largest, wrong / delta)
    assert largest > 0.1
