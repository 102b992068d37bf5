"""Curves with their bands, and the files of a report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import adversarial, learning
from benchmarks.peers.__main__ import main
from benchmarks.peers.figures import Curve, quartile_panels
from benchmarks.peers.results import Row


def test_quartiles_are_taken_where_all_runs_have_a_value() -> None:
    runs = [{"10": 1.0, "20": 4.0, "30": 0.0}, {"10": 3.0, "20": 4.0}, {"10": 2.0, "20": 4.0, "30": 1.0}]
    curve = Curve.of_quartiles(runs)
    assert curve.rounds.tolist() == [10, 20]
    assert (curve.low[0], curve.middle[0], curve.high[0]) == (1.5, 2, 2.5)
    assert curve.low[1] == curve.high[1] == 4


def test_figures_are_of_the_longest_runs_that_have_a_curve() -> None:
    def row(rounds: int, method: str, **more: object) -> Row:
        return {"world": "switching", "rounds": rounds, "method": method, **more}

    rows = [row(9, "a", curve={"9": 5.0}), row(20, "a", curve={"10": 1.0, "20": 2.0}), row(20, "older, without one")]
    found = quartile_panels(rows, "world", "curve")
    assert {world: list(curves) for world, curves in found.items()} == {"switching": ["a"]}
    assert found["switching"]["a"].middle.tolist() == [1, 2]


def test_shares_have_wilsons_band() -> None:
    curve = Curve.of_shares({20: [True, True, True, False], 10: [True] * 4})
    assert curve.rounds.tolist() == [10, 20]
    assert curve.middle.tolist() == [1, 0.75]
    assert curve.high[0] == pytest.approx(1)  # never beyond
    assert curve.low[0] == pytest.approx(0.8)  # n / (n + z²), z = 1
    for end in (curve.low[1], curve.high[1]):  # both ends are where the truth would be one standard error away
        assert (0.75 - end) ** 2 == pytest.approx(end * (1 - end) / 4)


def test_regret_curves_end_at_the_regret() -> None:
    row = adversarial.play("UCB1 over candidates", "switching", 200, seed=1)
    assert list(row["curve"]) == [str(t) for t in range(4, 201, 4)]
    assert row["curve"]["200"] == row["regret"]
    gains = np.diff([0, *row["curve"].values()])
    assert (np.abs(gains) <= 4).all()  # one click per round at most


def test_the_pages_tables_are_what_the_lines_say(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    root = Path(__file__).parents[2]
    jobs = [file.stem for file in (root / "benchmarks" / "peers" / "lines").glob("*.jsonl")]
    assert main([*jobs, "--out", str(root / "benchmarks" / "peers" / "lines"), "--report", str(tmp_path)]) == 0
    made = {file.name: file.read_text() for file in tmp_path.glob("*.inc")}
    assert made
    for name, text in made.items():
        assert (root / "docs" / "peers" / name).read_text() == text, f"{name}: run --report docs/peers again"


def lines_of(folder: Path, job: str, rows: list[Row]) -> None:
    (folder / f"{job}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_report_has_a_file_per_job_and_size_with_figures_and_bands(tmp_path: Path) -> None:
    picks: Row = {"epsilon": 0.1, "best": 1.0, "stop": 300, "wrong": False}
    picks |= {"regrets": {"250": 0.0, "4000": 0.2}, "world": "needle", "method": "comband: AdaptiveComband"}
    out, to = tmp_path / "out", tmp_path / "page"
    out.mkdir()
    lines_of(
        out,
        "choosing",
        [
            {**picks, "candidates": P, "rounds": T, "seed": seed, "lost": {"1000": 0.1 * seed, "4000": 0.2}}
            for P, T in ((8, 4000), (8, 64_000), (9, 4000))
            for seed in range(5)
        ],
    )
    numbers = {"milliseconds": 1.0, "memory": 100.0}
    lines_of(
        out,
        "learning",
        [
            {"set": "iris", "rounds": 1000, "method": method, "seed": seed, **numbers}
            | {name: {"500": seed / 10, "1000": seed / 5} for name in ("hits", "rewards", "judging")}
            for method in (*learning.METHODS,)[:2]
            for seed in range(5)
        ],
    )
    assert main(["--out", str(out), "--report", str(to)]) == 0
    found = {file.name for file in to.iterdir()}
    assert {"choosing-8-4000.inc", "choosing-8-64000.inc", "choosing-9-4000.inc", "learning.inc"} <= found
    pytest.importorskip("matplotlib")
    assert {"peers-8-4000.png", "peers-9-4000.png", "learning.png"} <= found
    text = (to / "choosing-8-4000.inc").read_text()
    assert "](peers/peers-8-4000.png)" in text
    assert "0.200 (0.100–0.300)" in text  # what is lost has a band
    assert "64,000" not in text  # nor a column that nobody reached
    assert "0.400 (0.200–0.600)" in (to / "learning.inc").read_text()
