"""Two rankers beside an A/B test and interleaving: the runs, and the table of the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.certify import made_world
from benchmarks.two_rankers import PLACED, PLAIN, pair, placed, play, report

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["alike", "places"])
def test_every_method_decides_for_the_better_of_two(page: str) -> None:
    two = pair(made_world("graded", 8, 3), 0.4)
    assert len(two.policies) == 2
    for method in PLAIN if page == "alike" else PLACED:
        world = two if page == "alike" else placed(two, method)
        told = play(world, method, 5)
        assert told["certified"]
        assert told["rounds"] < 100_000
        assert set(told) == {"rounds", "certified", "wrong"}


def test_the_table_of_the_page_is_what_the_lines_say() -> None:
    lines = [json.loads(line) for line in (ROOT / "benchmarks" / "two_rankers.jsonl").read_text().splitlines()]
    assert (ROOT / "docs" / "peers" / "two_rankers.inc").read_text() == report(lines)


def test_times_fewer_are_geometric_means() -> None:
    one = {"set": "s", "gap": 0.2, "page": "alike", "certified": True, "wrong": False}
    rows = [("A/B", 1, 800), ("A/B", 2, 200), ("comband", 1, 100), ("comband", 2, 100)]
    lines = [{**one, "method": method, "seed": seed, "rounds": rounds} for method, seed, rounds in rows]
    told = report([*lines, {**lines[-1], "method": "team-draft interleaving", "wrong": True}])
    assert "| do not matter | 20% | s | 500 | 100, 1 wrong | 100 |  |" in told
    assert "| do not matter | 20% | all: times fewer | 1 | 2.0× | 4.0× |  |" in told
