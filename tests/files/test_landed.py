"""What landed versions have saved can be loaded, says what it said, and goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.page.problem import as_generator
from tests.files.make import FOLDER, LEARNERS, RECORDS, known, load, play, policies

DAYS = sorted(path for path in FOLDER.iterdir() if path.is_dir() and (path / "known.json").is_file())
SAVED = [path for day in DAYS for path in sorted(day.glob("*.npz")) if path.stem in LEARNERS]


def said(day: Path) -> Any:
    return json.loads((day / "known.json").read_text(encoding="utf-8"))


def close(one: Any, other: Any) -> bool:
    """Whether plain values agree, numbers to nine digits."""
    if isinstance(one, float) or isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=1e-12))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[name], other[name]) for name in one)
    return bool(one == other)


def test_every_kind_of_file_is_there() -> None:
    assert {path.stem for path in SAVED} == {*LEARNERS}
    assert all((DAYS[-1] / f"{name}.npz").is_file() for name in (*LEARNERS, *RECORDS, "mixture"))


@pytest.mark.parametrize("path", SAVED, ids=[f"{path.parent.name}-{path.stem}" for path in SAVED])
def test_a_learner_says_what_it_said_and_goes_on(path: Path) -> None:
    made = LEARNERS[path.stem]()
    learner = load(path, type(made), made.problem)
    now, then = known(learner), said(path.parent)[path.stem]
    assert close({name: now[name] for name in then}, then)
    assert learner.rounds == 148
    play(learner, 30, as_generator(3))
    assert learner.rounds == (148 if isinstance(learner, cb.certify.CertifyingLearner) else 178)  # in order


@pytest.mark.parametrize("day", DAYS, ids=[path.name for path in DAYS])
def test_records_and_mixtures_are_what_they_were(day: Path) -> None:
    rounds, then = cb.Rounds.load(day / "rounds.npz"), said(day)["rounds"]
    assert rounds.rewards.tolist() == then["rewards"]
    decisions = cb.Decisions.load(day / "decisions.npz")
    assert decisions.lists.tolist() == rounds.decisions.lists.tolist() == then["lists"]
    assert decisions.makers.tolist() == rounds.decisions.makers.tolist()
    events = cb.Events.load(day / "events.npz")
    assert events.rewards.tolist() == rounds.events().rewards.tolist()
    mixture = cb.Mixture.load(day / "mixture.npz", policies())
    assert mixture.weights.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert mixture.floor == 0.2
