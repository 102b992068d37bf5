from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gamma, gammainc
from scipy.stats import binom

from comband.page.problem import InputError
from comband.statistics.sequences import (
    ValueBets,
    bernstein_sequence,
    fixed_n_betting_bound,
    gamma_exponential_bernstein,
)


def entered(rng: np.random.Generator, n_rounds: int, q: float, chance: float, n_policies: int = 3) -> ValueBets:
    """Rounds in which one action is shown with probability q and then clicked with probability `chance`."""
    bets = ValueBets.zero(n_policies)
    hits = int(rng.binomial(n_rounds, q * chance))
    inside = np.ones((hits, n_policies), dtype=bool)
    bets.add(np.arange(n_policies), inside, np.arange(hits), np.full(hits, 1 / q), bound=1 / q, n_rounds=n_rounds)
    return bets


def test_intervals_invert_the_bets() -> None:
    """At the ends, the averaged wealth computed round by round equals the threshold."""
    rng = np.random.default_rng(0)
    bets = entered(rng, 2000, 0.2, 0.4)
    low, high = bets.bounds(delta=0.05, max_reward=1.0)
    hits = round(bets.sums[0] * 0.2)
    stakes = np.minimum(4.0 ** -np.arange(10.0), 0.9 * 0.2)
    threshold = np.log(2 * 3 / 0.05)
    for sign, end in ((1, low[0]), (-1, high[0])):
        bet = stakes / (1 + sign * stakes * end)
        log_wealth = hits * np.log1p(sign * bet * (5 - end)) + (2000 - hits) * np.log1p(-sign * bet * end)
        assert np.log(np.exp(log_wealth).mean()) == pytest.approx(threshold, abs=1e-6)
    assert low[0] < bets.means[0] < high[0]


def test_blocks_add_and_bounds_stay_apart() -> None:
    rng = np.random.default_rng(1)
    a, b = entered(rng, 500, 0.2, 0.3), entered(rng, 700, 0.5, 0.3)
    both = a + b
    assert both.n_rounds.tolist() == [1200] * 3
    assert sorted(both.rounds) == [2.0, 5.0]
    np.testing.assert_allclose(both.low, a.low + b.low)
    assert both.bounds(delta=0.05, max_reward=1.0)[0][0] >= 0
    assert (b + a).bounds(delta=0.1, max_reward=1.0)[1].tolist() == both.bounds(delta=0.1, max_reward=1.0)[1].tolist()


def test_nothing_seen_says_nothing() -> None:
    low, high = ValueBets.zero(2).bounds(delta=0.05, max_reward=1.0)
    np.testing.assert_allclose(low, 0, atol=1e-12)
    np.testing.assert_allclose(high, 1, atol=1e-12)


def test_uncovered_rounds_widen_the_interval() -> None:
    plain, doubtful = ValueBets.zero(1), ValueBets.zero(1)
    events = np.ones((50, 1), dtype=bool), np.arange(50), np.full(50, 2.0)
    plain.add(np.array([0]), *events, bound=2.0, n_rounds=400)
    doubtful.add(np.array([0]), *events, bound=2.0, n_rounds=400, uncovered=np.zeros(20, dtype=np.int64))
    assert doubtful.bounds(delta=0.05, max_reward=1.0)[1][0] > plain.bounds(delta=0.05, max_reward=1.0)[1][0]


def test_intervals_of_all_who_ever_come_spend_delta_once() -> None:
    """Each interval is that of one policy alone at its share of delta, and the shares sum to one, however many come."""
    rng, alone = np.random.default_rng(5), ValueBets.zero(1)
    hits, n, bound, delta = rng.random(300) < 0.4, 900, 2.0, 0.05
    rows = np.arange(int(hits.sum()))
    events = rows, np.full(len(rows), 2.0)
    alone.add(np.array([0]), np.ones((len(rows), 1), dtype=bool), *events, bound=bound, n_rounds=n)
    for n_first, later in ((3, 4), (1, 2), (40, 0)):
        bets = ValueBets.zero(n_first)
        bets.n_first = n_first
        bets = bets.grown(later)
        all_of_them = np.arange(n_first + later)
        bets.add(all_of_them, np.ones((len(rows), len(all_of_them)), dtype=bool), *events, bound=bound, n_rounds=n)
        low, high = bets.bounds(delta=delta, max_reward=1.0)
        shares = [1 / (n_first + 1)] * n_first + [1 / (n_first + 1) / (i * (i + 1)) for i in range(1, later + 1)]
        for i, share in enumerate(shares):
            ends = alone.bounds(delta=delta * share, max_reward=1.0)
            assert (low[i], high[i]) == (pytest.approx(ends[0][0]), pytest.approx(ends[1][0]))
        rest = 1 / (n_first + 1) / (later + 1)  # Σ over i > later of 1/(i(i + 1)), of one share
        assert sum(shares) + rest == pytest.approx(1)
    with pytest.raises(InputError, match="say n_first before others come"):
        ValueBets.zero(2).grown(1)


def test_gamma_exponential_mixture_is_the_integral() -> None:
    """Against numerical integration of exp(λs − ψ(λ)v) over the (normalised) gamma-like density on [0, 1)."""
    alpha, best_at = 0.05, 30.0
    rho = best_at / (2 * np.log(1 / alpha) + np.log1p(2 * np.log(1 / alpha)))

    def density(x: float) -> float:
        # With u = 1 − λ: u^(ρ−1) e^(−ρu) on (0, 1], normalised.
        return float((1 - x) ** (rho - 1) * np.exp(-rho * (1 - x)) * rho**rho / gamma(rho) / gammainc(rho, rho))

    assert quad(density, 0, 1)[0] == pytest.approx(1, abs=1e-8)
    for s, v in [(5.0, 20.0), (-3.0, 10.0), (30.0, 60.0), (0.0, 0.0)]:
        value = quad(lambda x, s=s, v=v: density(x) * np.exp(x * s + (np.log1p(-x) + x) * v), 0, 1)[0]
        got = gamma_exponential_bernstein(s, v, alpha=alpha, bound=1.0, best_at=best_at)
        assert float(got) == pytest.approx(np.log(value), abs=1e-6)
    scaled = gamma_exponential_bernstein(10.0, 80.0, alpha=alpha, bound=2.0, best_at=4 * best_at)
    assert float(scaled) == pytest.approx(
        float(gamma_exponential_bernstein(5.0, 20.0, alpha=alpha, bound=1.0, best_at=best_at))
    )


def test_bernstein_sequence_holds_at_all_times() -> None:
    rng = np.random.default_rng(2)
    runs, n, alpha = 400, 600, 0.1
    X = rng.beta(2, 6, size=(runs, n))
    count = np.arange(1, n + 1)
    guess = np.concatenate([np.full((runs, 1), 0.5), (np.cumsum(X, axis=1) / count)[:, :-1]], axis=1)
    V = np.cumsum((X - guess) ** 2, axis=1)
    low, high = bernstein_sequence(np.cumsum(X, axis=1), count, V, alpha=alpha, bound=1.0, best_at=10.0)
    missed = ((low > 0.25) | (high < 0.25)).any(axis=1)
    assert missed.sum() <= binom.isf(1e-7, runs, alpha)
    assert (high - low)[:, -1].mean() < 0.1


def test_fixed_n_bound_covers_and_beats_hoeffding() -> None:
    rng = np.random.default_rng(3)
    runs, n, alpha = 200, 300, 0.1
    missed, width = 0, 0.0
    for _ in range(runs):
        low, high = fixed_n_betting_bound(2.0 * (rng.random(n) < 0.05), alpha=alpha, bound=2.0)
        missed += not low <= 0.1 <= high
        width += (high - low) / runs
    assert missed <= binom.isf(1e-7, runs, alpha)
    assert width < 2 * 2 * np.sqrt(np.log(2 / alpha) / (2 * n))
    with pytest.raises(InputError, match="values must be"):
        fixed_n_betting_bound([0.5, 3.0], alpha=0.1)


def test_fixed_n_bound_bets_on_the_past_only() -> None:
    """The lower end by plain loops: each stake is known before its round."""
    rng = np.random.default_rng(4)
    x, alpha = np.r_[rng.random(40) < 0.5, rng.random(60) < 0.9].astype(float), 0.1
    stakes, total, spread = [], 0.5, 0.25
    for t, value in enumerate(x, start=1):
        stakes.append(min(np.sqrt(2 * np.log(2 / alpha) / (len(x) * spread / t)), 0.75))
        total += value
        spread += (value - total / (t + 1)) ** 2

    def most(v: float) -> float:
        return float(np.cumsum(np.log1p(np.array(stakes) * (x - v))).max() - np.log(2 / alpha))

    assert fixed_n_betting_bound(x, alpha=alpha)[0] == pytest.approx(brentq(most, 0, 1), rel=1e-9)


@pytest.mark.slow
def test_any_policy_anytime_violation_at_a_thousand_policies() -> None:
    """Value intervals of P = 1000 policies on shared rounds: any of them ever left in at most 1% of 500 runs."""
    P, K, runs, q = 1000, 40, 500, 0.125
    violated = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        lists = rng.random((P, K)) < 5 / K
        chance = rng.dirichlet(np.full(K, 0.3)) * 0.5
        values = lists @ chance
        bets = ValueBets.zero(P)
        for n in (200, 300, 500, 1000, 2000, 4000):
            hits = rng.choice(K + 1, size=n, p=np.append(chance, 0.5))
            hits = hits[(hits < K) & (rng.random(n) < q)]
            bets.add(
                np.arange(P), lists.T[hits], np.arange(len(hits)), np.full(len(hits), 1 / q), bound=1 / q, n_rounds=n
            )
            low, high = bets.bounds(delta=0.05, max_reward=1.0)
            if ((low > values + 1e-9) | (high < values - 1e-9)).any():
                violated += 1
                break
    print(f"{violated} of {runs} runs violated")
    assert violated <= 5
