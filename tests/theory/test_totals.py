"""Constants of full-bandit feedback against enumeration and computations by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from comband import theory
from comband.page.problem import InputError, Problem


@pytest.mark.parametrize(("K", "m"), [(2, 1), (3, 2), (5, 2), (6, 3), (8, 3), (9, 4), (7, 6), (10, 5)])
def test_fill_moment_by_enumeration(K: int, m: int) -> None:
    mine = set(range(m))
    problem = Problem(K, m, 1, "total")
    moments = []
    for y in (0, K - 1):  # in the list, and not
        fills = list(combinations([z for z in range(K) if z != y], m - 1))
        N = np.array([len(mine & {y, *fill}) for fill in fills], dtype=float)
        moments.append((N * (N - 1)).mean())
    assert theory.fill_moment(problem) == pytest.approx(moments[0], abs=1e-12)
    assert moments[1] <= moments[0] + 1e-12


def test_by_hand() -> None:
    problem = Problem(9, 3, 2, "total")  # ρ = 2, f = 1/4, E N(N−1) = 4/8·(2 + 1/7) = 15/14
    assert theory.fill_moment(problem) == pytest.approx(15 / 14)
    assert theory.estimate_range(problem) == pytest.approx(2 * 9 / (0.5 * 0.75))
    by_floor = 2 * 9 / (0.5 * 3) * (15 / 14 + 1 + 0.5)
    both = 3 * 8 + 2 * 15 / 14 * 9 / (0.5 * 3)
    assert both > by_floor
    assert theory.estimate_variance(problem) == pytest.approx(2 * by_floor / 0.75**2)
    assert theory.estimate_variance(problem, proxy=1.5) == pytest.approx(2 * (4.5 + both - 24) / 0.75**2)
    wide = Problem(900, 3, 2, "total")
    kappa = theory.fill_moment(wide) * 900 / (0.5 * 3)
    assert theory.estimate_variance(wide) == pytest.approx(2 * (24 + 2 * kappa) / (1 - 2 / 899) ** 2)


def test_one_slot_is_as_with_single_rewards() -> None:
    for K in (2, 7, 40):
        single, total = Problem(K, 1, 1), Problem(K, 1, 1, "total")
        assert theory.estimate_range(total) == theory.estimate_range(single)
        # Of the two bounds the smaller: 2sρ/(1−γ), and what the floor alone gives.
        assert theory.estimate_variance(total) == min(theory.estimate_variance(single), K / 0.5)
        assert theory.uniform_exploration(total, n_policies=9, epsilon=0.1, delta=0.1) == theory.uniform_exploration(
            single, n_policies=9, epsilon=0.1, delta=0.1
        )


def test_second_moment_is_free_of_the_number_of_actions() -> None:
    bounds = [theory.estimate_variance(Problem(K, 4, 1, "total")) for K in (100, 1000, 10_000, 10**6)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == pytest.approx(4 * 4 + 2 * 9 / 0.5 / 4, rel=1e-3)  # 2sm/(1−γ) + 2(m−1)²/(γm)


def test_schedule_from_totals() -> None:
    single = theory.pac_comband(Problem(40, 4, 1), n_policies=100, epsilon=0.05, delta=0.05)
    total = theory.pac_comband(Problem(40, 4, 1, "total"), n_policies=100, epsilon=0.05, delta=0.05)
    assert (total.n_explore, total.n_steps, total.accuracy) == (single.n_explore, single.n_steps, single.accuracy)
    assert total.n_estimate > single.n_estimate
    v, b = total.variance_bound, total.range_bound
    assert total.n_estimate == pytest.approx((4 * v / 0.0025 + 2 * (b + 0.05) / 0.15) * np.log(99 / 0.025), abs=1)
    assert "1−f" in str(total)
    for route in ("refined", "printed"):
        with pytest.raises(InputError, match="only the routes"):
            theory.pac_comband(Problem(40, 4, 1, "total"), n_policies=9, epsilon=0.1, delta=0.1, route=route)
