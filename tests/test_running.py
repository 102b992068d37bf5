"""The loop: budgets, mismatches, progress."""

from __future__ import annotations

import pytest

import comband as cb

PROBLEM = cb.Problem(12, 3, 1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)


def learner() -> cb.UniformExploration:
    return cb.UniformExploration(PROBLEM, WORLD.candidates(4, seed=1), n_rounds=1000)


def test_stops_at_max_rounds_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = cb.run(learner(), WORLD, batch_size=300, max_rounds=700, progress=True)
    assert outcome.history["rounds"].tolist() == [300, 600, 700]
    assert outcome.result.notes == ("only 700 of 1,000 planned rounds are in",)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rounds" in captured.err


def test_world_and_learner_must_match() -> None:
    other = cb.SyntheticRecommender(cb.Problem(12, 3, 2), click_rate=0.4)
    with pytest.raises(cb.InputError, match="the learner solves"):
        cb.run(learner(), other)
    with pytest.raises(cb.InputError, match="batch_size"):
        cb.run(learner(), WORLD, batch_size=0)
