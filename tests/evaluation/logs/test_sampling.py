"""The rounds on which it is seen what a log could show."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from comband.evaluation.logs.sampling import FIRST, id_marks, in_sample, mark_limit, sample_level


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


def test_marks_of_ids_equal_plain_arithmetic_and_do_not_depend_on_how_an_id_is_spelt() -> None:
    ids = [0, 7, -7, 2**31 - 1, 10**18 - 1, -(10**18) + 1]
    expected = [(i * 1_327_217_885 % (2**31 - 1)) ** 2 % (2**31 - 1) for i in ids]
    assert id_marks(np.array(ids)).tolist() == expected
    assert id_marks(np.array([str(i) for i in ids], dtype=object)).tolist() == expected
    far = [10**18, 2**62 + 5, -(2**62)]
    expected = [int(hashlib.md5(str(i).encode()).hexdigest()[:8], 16) // 2 for i in far]
    assert id_marks(np.array(far)).tolist() == expected
    assert id_marks(np.array([str(i) for i in far], dtype=object)).tolist() == expected
    assert id_marks(np.array(["007"], dtype=object)) == int(hashlib.md5(b"007").hexdigest()[:8], 16) // 2


@pytest.mark.parametrize("stride", [1, 64, 1 << 22, 2**31 - 2])
def test_a_level_chooses_one_of_two_to_the_level_whatever_the_stride_of_ids(stride: int) -> None:
    n = 400_000
    level = sample_level(n)
    assert FIRST <= n >> level < 2 * FIRST
    chosen = np.flatnonzero(id_marks(np.arange(n) * stride) < mark_limit(level))
    assert abs(len(chosen) - n / 2**level) < 6 * math.sqrt(n / 2**level)
    for period in (2, 7, 24, 1000):
        expected = len(chosen) / period
        assert np.bincount(chosen % period).max() < expected + 7 * math.sqrt(expected)
    assert mark_limit(0) == 2**31  # all
