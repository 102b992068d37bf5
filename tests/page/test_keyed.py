"""Random numbers that can be recomputed from a secret seed."""

from __future__ import annotations

import numpy as np

from comband.page.keyed import KeyedNumbers, keyed_numbers, seed_hash

SECRET = bytes(range(32))


def test_the_vectors_of_the_specification() -> None:
    assert seed_hash(SECRET) == "1b7149951c814c5452352aeb717c81d22e271a7909e3e2e80f390d27d227c4df"
    numbers = keyed_numbers(SECRET, np.array([7]), 9)[0]
    expected = [0.14560185333986753, 0.33597400572239255, 0.38292347525237347, 0.1313114727190975]
    assert numbers[[0, 1, 2, 8]].tolist() == expected


def test_numbers_do_not_depend_on_batches_or_on_how_many_are_asked_for() -> None:
    whole = keyed_numbers(SECRET, np.arange(50), 20)
    assert len(np.unique(whole)) == whole.size
    for width in (0, 1, 7, 8, 20):
        assert (keyed_numbers(SECRET, np.arange(30, 40), width)[:, : 1 + width] == whole[30:40, : 1 + width]).all()
    stream = KeyedNumbers(SECRET, 5)
    parts = [stream.random((3, 4)), stream.random((0, 4)), stream.random((2, 4))]
    assert (np.concatenate(parts) == whole[5:10, 1:5]).all()
    assert (KeyedNumbers(SECRET, 5).random(4) == whole[5:9, 1]).all()


def test_other_seeds_give_other_numbers_and_they_are_uniform() -> None:
    numbers = keyed_numbers(SECRET, np.arange(20_000), 7)
    assert not np.isin(numbers[:100], keyed_numbers(SECRET[::-1], np.arange(100), 7)).any()
    assert 0 <= numbers.min() <= numbers.max() < 1
    # 160,000 numbers in 16 cells: the statistic exceeds 70 less than once in a million.
    counts = np.bincount((numbers * 16).astype(int).ravel(), minlength=16)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 70
    # Neighbours, and the numbers of one decision, do not go together: six standard deviations.
    centred = numbers - 0.5
    assert abs((centred[1:, 0] * centred[:-1, 0]).mean() * 12) < 6 / np.sqrt(20_000)
    assert abs((centred[:, 1] * centred[:, 2]).mean() * 12) < 6 / np.sqrt(20_000)


def test_anything_else_comes_from_a_stream_that_the_seed_fixes() -> None:
    one, other = (KeyedNumbers(SECRET, 9).integers(1000, size=20) for _ in range(2))
    assert (one == other).all()
    assert (KeyedNumbers(SECRET, 10).integers(1000, size=20) != one).any()
