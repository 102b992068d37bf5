"""Evidence about a lift: its means by enumeration, its bounds, and that nothing depends on how units are entered."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import comband as cb
from comband.page.storage import State
from comband.statistics.lift import LARGEST_LIFT, STAKES, LiftBets, _above

# What each side collects with which probability, and how often both lists are the same.
TOTALS, MINE, OTHER, ALIKE, SAME = (0.0, 0.5, 1.0), (0.5, 0.2, 0.3), (0.6, 0.3, 0.1), (0.2, 0.4, 0.4), 0.3
LIFT = (1 - SAME) * float(np.dot(TOTALS, np.subtract(MINE, OTHER)))
LIVE = float(np.dot(TOTALS, SAME * np.array(ALIKE) + (1 - SAME) * np.array(OTHER)))


def outcomes(share: float) -> list[tuple[float, bool, float, bool]]:
    """(probability, mine, total, same) of all that one unit can be."""
    found = []
    for mine, same, i in product((True, False), (True, False), range(3)):
        law = ALIKE if same else MINE if mine else OTHER
        probability = (share if mine else 1 - share) * (SAME if same else 1 - SAME) * law[i]
        found.append((probability, mine, TOTALS[i], same))
    return found


def one(share: float, mine: bool, total: float, same: bool, *, stake: float = 0.3, baseline: float = 0.3) -> LiftBets:
    bets = LiftBets(share=share, largest=1.0)
    block = bets.begin(baseline=baseline, stake=stake)
    bets.add(np.array([block]), np.array([mine]), np.array([total]), np.array([same]))
    return bets


@pytest.mark.parametrize("share", [0.5, 0.1, 0.8])
@pytest.mark.parametrize("baseline", [0.0, 0.3, 1.0])
def test_a_difference_has_the_lift_as_its_mean(share: float, baseline: float) -> None:
    mean = sum(p * one(share, z, t, s, baseline=baseline).differences()[0] for p, z, t, s in outcomes(share))
    assert mean == pytest.approx(LIFT, abs=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("stake", [1e-3, 0.3, 1e6])
@pytest.mark.parametrize("above", [True, False])
def test_wealth_is_fair_at_the_lift_and_shrinks_on_the_wrong_side(share: float, stake: float, above: bool) -> None:
    """The wealth after one unit, in the mean over all that it can be; no stake can lose everything."""
    wealth = {
        w: sum(p * np.exp(one(share, z, t, s, stake=stake).evidence(w, above=above)) for p, z, t, s in outcomes(share))
        for w in (LIFT - 0.2, LIFT, LIFT + 0.2)
    }
    assert wealth[LIFT] == pytest.approx(1.0, abs=1e-9)
    assert (wealth[LIFT - 0.2] > 1 > wealth[LIFT + 0.2]) == above


def test_relative_wealth_is_fair_at_the_relative_lift() -> None:
    """Of each stake, by the formula of the module written out, and as `relative_bounds` has it."""
    theta, share, f = LIFT / LIVE, 0.4, 0.3
    mean = 0.0
    for p, mine, total, same in outcomes(share):
        own = (total - f) * (mine / share - (1 + theta) * (not mine) / (1 - share)) - theta * f
        mean += p * (-theta * total if same else own)
    assert mean == pytest.approx(0.0, abs=1e-12)


def many(seed: int, n: int, *, share: float = 0.5) -> LiftBets:
    rng = np.random.default_rng(seed)
    p, mine, total, same = (np.array(column) for column in zip(*outcomes(share), strict=True))
    bets, left = LiftBets(share=share, largest=1.0), n
    while left:
        size = min(left, 400)
        drawn = rng.choice(len(p), size, p=p / p.sum())
        block = bets.begin(baseline=bets.best_baseline(), stake=0.05)
        bets.add(np.full(size, block), mine[drawn].astype(bool), total[drawn], same[drawn].astype(bool))
        left -= size
    return bets


def test_intervals_hold_the_lift_and_get_narrower() -> None:
    """Each of 40 runs may miss with probability .002 in all: five or more do so less than once in a million times."""
    missed, levels = 0, {"alpha_low": 1e-3, "alpha_high": 1e-3}
    for seed in range(40):
        bets = many(seed, 2000)
        low, high = bets.bounds(**levels)
        first, last = bets.relative_bounds(**levels)
        missed += not (low <= LIFT <= high and first <= LIFT / LIVE <= last)
        assert -1 <= low < high <= 1
    assert missed <= 4
    wide, narrow = (many(1, n).bounds(**levels) for n in (400, 20_000))
    assert narrow[1] - narrow[0] < (wide[1] - wide[0]) / 3
    relative = many(1, 20_000).relative_bounds(**levels)
    assert 0 < relative[0] < LIFT / LIVE < relative[1] < LARGEST_LIFT


def test_bounds_are_where_the_evidence_crosses_its_threshold() -> None:
    bets = many(3, 1500)
    low, high = bets.bounds(alpha_low=0.01, alpha_high=0.04)
    assert bets.evidence(low, above=True) == pytest.approx(np.log(100), abs=1e-6)
    assert bets.evidence(high, above=False) == pytest.approx(np.log(25), abs=1e-6)


def test_relative_bounds_are_where_some_stake_alone_crosses_its_threshold() -> None:
    """Unit by unit, in plain arithmetic, at the lower end: the wealth of one stake is 3/α there, of none above it."""
    bets = many(6, 20_000, share=0.4)
    low, high = bets.relative_bounds(alpha_low=0.01, alpha_high=0.02)
    assert -1 < low < high < LARGEST_LIFT
    for theta, sign, alpha in ((low, 1.0, 0.01), (high, -1.0, 0.02)):
        logs = np.zeros(3)
        for block, kind, total, n in zip(bets.blocks, bets.mine, bets.totals, bets.counts, strict=True):
            f = bets.baselines[block]
            G = -theta * total if kind == 2 else (total - f) * (2.5 if kind == 1 else -(1 + theta) / 0.6) - theta * f
            reach = 2 * max(f, 1 - f) / 0.4 + f
            logs += n * np.log1p(sign * np.minimum(bets.stakes[block] * STAKES, 0.9 / reach) * G)
        assert logs.max() == pytest.approx(np.log(3 / alpha), abs=1e-6)


def test_relative_bounds_stop_at_the_first_number_that_is_not_refuted() -> None:
    """Nothing but production without reward, with a baseline far too high: large lifts are refuted, small ones not."""
    bets = LiftBets(share=0.9, largest=1.0)
    bets.begin(baseline=1.0, stake=1.0)
    n = 20
    bets.add(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=bool))
    staked = 0.9 / (2 / 0.1 + 1)
    assert n * np.log1p(staked * (10 - 9)) < np.log(3 / 0.01) < n * np.log1p(staked * (10 + 9))
    assert bets.relative_bounds(alpha_low=0.01, alpha_high=0.01)[0] == -1.0


def test_the_twin_of_the_evidence() -> None:
    """Unit by unit, in plain arithmetic."""
    rng = np.random.default_rng(5)
    bets = LiftBets(share=0.3, largest=2.0)
    products, w = np.ones((2, 3)), 0.07
    for f, stake in ((0.0, 0.2), (0.7, 0.05), (1.9, 3.0)):
        block = bets.begin(baseline=f, stake=stake)
        mine, total, same = rng.random(30) < 0.3, rng.random(30) * 2, rng.random(30) < 0.2
        bets.add(np.full(30, block), mine, total, same)
        reach = max(f, 2 - f) / 0.3 + 2
        for i in range(30):
            D = 0.0 if same[i] else (total[i] - f) * (1 / 0.3 if mine[i] else -1 / 0.7)
            for j, times in enumerate((0.5, 1.0, 2.0)):
                staked = min(stake * times, 0.9 / reach)
                products[0, j] *= 1 + staked * (D - w)
                products[1, j] *= 1 - staked * (D - w)
    assert bets.evidence(w, above=True) == pytest.approx(np.log(products[0].mean()), abs=1e-10)
    assert bets.evidence(w, above=False) == pytest.approx(np.log(products[1].mean()), abs=1e-10)
    assert STAKES.tolist() == [0.5, 1.0, 2.0]


def test_units_may_be_entered_in_any_parts() -> None:
    rng = np.random.default_rng(2)
    mine, totals, same = rng.random(50) < 0.5, rng.integers(3, size=50) / 2, rng.random(50) < 0.1
    whole, parts = (LiftBets(share=0.5, largest=1.0) for _ in range(2))
    for bets in (whole, parts):
        bets.begin(baseline=0.2, stake=0.1)
    whole.add(np.zeros(50, dtype=np.int64), mine, totals, same)
    for some in np.array_split(rng.permutation(50), 7):
        parts.add(np.zeros(len(some), dtype=np.int64), mine[some], totals[some], same[some])
    assert all(np.array_equal(whole.state()[name], parts.state()[name]) for name in whole.state())
    assert whole.units == 50


def test_saved_and_refused() -> None:
    bets = many(4, 900)
    again = LiftBets.from_state(bets.state(), share=0.5, largest=1.0)
    assert again.bounds(alpha_low=0.01, alpha_high=0.01) == bets.bounds(alpha_low=0.01, alpha_high=0.01)
    state: State = {**bets.state(), "totals": bets.totals + 1}
    with pytest.raises(cb.InputError, match="no unit can collect so much"):
        LiftBets.from_state(state, share=0.5, largest=1.0)
    with pytest.raises(cb.InputError, match="blocks must be among the 0"):
        LiftBets(share=0.5, largest=1.0).add(np.array([0]), np.array([True]), np.array([0.0]), np.array([False]))
    with pytest.raises(cb.InputError, match="baseline must lie between 0 and 1"):
        bets.begin(baseline=1.5, stake=0.1)


def test_nothing_is_known_of_nothing() -> None:
    bets = LiftBets(share=0.5, largest=1.0)
    assert bets.bounds(alpha_low=0.01, alpha_high=0.01) == (-1.0, 1.0)
    assert bets.relative_bounds(alpha_low=0.01, alpha_high=0.01) == (-1.0, np.inf)
    assert bets.estimate() == (0.0, np.inf)


def test_where_a_concave_function_is_high() -> None:
    assert _above(lambda x: -abs(x - 0.25), -0.5, -1.0, 1.0) == pytest.approx((-0.25, 0.75), abs=1e-9)
    assert _above(lambda x: x, 0.5, -1.0, 1.0) == pytest.approx((0.5, 1.0), abs=1e-9)
    assert _above(lambda x: -x, 2.0, -1.0, 1.0) is None
