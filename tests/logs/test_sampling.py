"""The rounds on which it is seen what a log could show."""

from __future__ import annotations

import math

import numpy as np

from comband.logs.sampling import FIRST, in_sample


def test_sample_depends_on_the_number_of_a_round_alone() -> None:
    whole = in_sample(np.arange(300_000))
    np.testing.assert_array_equal(whole[123_456:200_000], in_sample(np.arange(123_456, 200_000)))
    assert whole[:FIRST].all()


def test_share_falls_like_one_over_the_number_and_is_spread_evenly() -> None:
    chosen = np.flatnonzero(in_sample(np.arange(2_000_000)))
    for start, stop in ((FIRST, 2 * FIRST), (100_000, 200_000), (1_000_000, 2_000_000)):
        found = ((start <= chosen) & (chosen < stop)).sum()
        assert abs(found - FIRST * math.log(stop / start)) < 0.02 * found
    late = chosen[chosen >= 1_000_000]
    assert np.diff(late).max() < 1_000  # no long stretch is left out
    for period in (2, 7, 24, 1000):  # nor a time of day
        assert np.bincount(late % period).max() < 1.2 * len(late) / period + 5
