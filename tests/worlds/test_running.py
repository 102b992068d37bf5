"""The loop: budgets, mismatches, progress."""

from __future__ import annotations

import pytest

import comband as cb
from comband.page.progress import BAR, progress_bar
from comband.statistics.results import TOO_EARLY, UNWATCHED
from comband.worlds.running import _describe

PROBLEM = cb.Problem(12, 3, 1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)


def learner() -> cb.UniformExploration:
    return cb.UniformExploration(PROBLEM, WORLD.candidates(4, seed=1), n_rounds=1000)


def test_stops_at_max_rounds_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    one = learner()
    outcome = cb.run(one, WORLD, batch_size=300, max_rounds=700, progress=True)
    assert outcome.history["rounds"].tolist() == [300, 600, 700]
    assert outcome.result.notes == ("only 700 of 1,000 planned rounds are in", UNWATCHED)
    assert outcome.result.claims[0].failures == (TOO_EARLY,)  # its intervals are for one look, at the end
    assert (outcome.result.epsilon, outcome.result.interval) == (1.0, (0.0, 1.0))
    assert one.status().certified is None
    later = cb.run(learner(), WORLD, batch_size=300).result
    assert "empirical Bernstein" in later.guarantee
    assert later.interval != (0.0, 1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "rounds" in captured.err


def test_the_last_batch_is_as_large_as_the_budget_of_the_learner_allows() -> None:
    learner = cb.AdaptiveComband(PROBLEM, WORLD.candidates(4, seed=1), epsilon=None, max_rounds=700)
    outcome = cb.run(learner, WORLD, batch_size=300)
    assert outcome.history["rounds"].tolist() == [300, 600, 700]
    assert (outcome.result.rounds, learner.rounds, learner.decisions_left) == (700, 700, 0)


@pytest.mark.parametrize("name", ["now", "candidate 123", "a candidate with a name that does not fit anywhere"])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_progress_line_fits_the_terminal(width: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    bar = progress_bar()
    status = cb.Status(123_456, name, 200, certified=0.01234, forecast=123_456)
    words = _describe(status, bar.console.width - len("123,456 rounds: ") - BAR - 1)
    task = bar.add_task(words, total=200_000, completed=123_456)
    with bar.console.capture() as capture:
        bar.console.print(bar.make_tasks_table([bar.tasks[task]]))
    (line,) = capture.get().splitlines()
    assert words in line  # not cut by rich, and on one line
    assert len(line.rstrip()) <= width
    if width >= 80 and name != "now":
        assert name[:30] in line
    if width == 120 and len(name) < 20:
        assert words == f"{name} leads, 200 candidates left, epsilon 0.0123, ~120,000 to go"


def test_what_is_hoped_for_is_not_shown_as_known() -> None:
    hoped = _describe(cb.Status(100, "now", 3, expected=0.02), 100)
    assert hoped == "now leads, 3 candidates left, expected epsilon 0.02"
    assert _describe(cb.Status(100, "now", 3), 100) == "now leads, 3 candidates left, no epsilon yet"


def test_world_and_learner_must_match() -> None:
    other = cb.SyntheticRecommender(cb.Problem(12, 3, 2), click_rate=0.4)
    with pytest.raises(cb.InputError, match="the learner solves"):
        cb.run(learner(), other)
    with pytest.raises(cb.InputError, match="batch_size"):
        cb.run(learner(), WORLD, batch_size=0)
