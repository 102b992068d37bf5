"""What a selection says about answers that do not count yet."""

from __future__ import annotations

import numpy as np
import pytest

import comband as cb
from tests.learners.small_worlds import small_world

WORLD = small_world("clustered", 3)


def notes_after(answered: list[int], *, period: int, patience: int | None = None, n: int = 9) -> list[str]:
    """Of n decisions these are answered."""
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.1, period=period, patience=patience, seed=1)
    asked = [learner.ask(np.zeros(1, dtype=np.int64)) for _ in range(n)]
    for i in answered:
        learner.tell(asked[i], np.zeros((1, 2)))
    return [note for note in learner.result().notes if "answers" in note]


def test_answers_wait_for_the_end_of_their_period() -> None:
    assert notes_after([*range(9)], period=7) == ["2 answers count when their period of 7 decisions is over"]


def test_answers_wait_for_an_older_one() -> None:
    (note,) = notes_after([0, 2, 3], period=1)
    assert note == (
        "2 answers do not count yet, because decision 1 before them has none: tell it too (zeros if it stays without "
        "answer), or set a patience"
    )


def test_answers_wait_for_either() -> None:
    waits, counts = notes_after([*range(8), 10, 11], period=7, n=12)
    assert waits.startswith("2 answers do not count yet, because decision 8 before them has none")
    assert counts == "1 answers count when their period of 7 decisions is over"


@pytest.mark.parametrize("period", [1, 7])
def test_nobody_is_told_to_set_the_patience_that_is_set(period: int) -> None:
    *_, note = [one for one in notes_after([1, 3], period=period, patience=8) if "because" in one]
    assert note.endswith("or wait: when 8 decisions follow it, it counts as without reward")
    assert "decision 2 before them" in note
