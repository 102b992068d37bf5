"""Forecasts of the rounds that a comparison takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.cli import app
from comband.planning import _summary, ab_test_rounds, by_simulation, by_theorem

PROBLEM = cb.Problem(n_actions=20, list_size=3, sparsity=1)


def test_theorems_are_the_theory_module() -> None:
    arms, uniform, paper = by_theorem(PROBLEM, n_policies=10, click_rate=0.3, epsilon=0.1, delta=0.05)
    assert paper.rounds == cb.theory.pac_comband(PROBLEM, n_policies=10, epsilon=0.1, delta=0.05).n_rounds
    assert uniform.rounds == cb.theory.uniform_exploration(PROBLEM, n_policies=10, epsilon=0.1, delta=0.05)
    assert arms.rounds == ab_test_rounds(PROBLEM, click_rate=0.3, n_policies=10, epsilon=0.1, delta=0.05)


def test_an_ab_test_of_that_size_is_right() -> None:
    """400 tests of 4 arms whose gap is epsilon, at delta = .1: more than 100 failures have probability below 1e-12."""
    epsilon, delta, arms = 0.1, 0.1, np.array([0.3, 0.2, 0.2, 0.2])
    n = ab_test_rounds(PROBLEM, n_policies=4, click_rate=0.3, epsilon=epsilon, delta=delta) // 4
    clicks = np.random.default_rng(1).binomial(n, arms, size=(400, 4))
    assert (clicks.argmax(axis=1) != 0).sum() <= 100


def test_simulation_is_reproducible_and_counts_rounds() -> None:
    settings = {"n_policies": 5, "click_rate": 0.4, "epsilon": 0.2, "runs": 2, "max_rounds": 6000}
    first = list(by_simulation(PROBLEM, methods=("adaptive", "uniform lists"), **settings))  # type: ignore[arg-type]
    again = list(by_simulation(PROBLEM, methods=("adaptive", "uniform lists"), **settings))  # type: ignore[arg-type]
    assert first == again
    for forecast in first:
        assert forecast.rounds is not None
        assert forecast.interval is not None
        assert 0 < (forecast.interval[0] or 0) <= forecast.rounds <= 6000


def test_runs_that_hit_the_cap_are_not_averaged_away() -> None:
    assert _summary("x", [300, None, 100], 500).rounds == 300
    assert _summary("x", [None, None, 100], 500).rounds is None
    assert _summary("x", [300, None, 100], 500).interval == (100, None)


def test_plan_prints_a_table_and_json() -> None:
    small = ["plan", "--items", "20", "--slots", "3", "--candidates", "4", "--click-rate", "0.4", "--runs", "1"]
    table = CliRunner().invoke(app, [*small, "--epsilon", "0.3", "--max-rounds", "2000"])
    assert table.exit_code == 0, table.stderr
    rows = [line.split("  ")[0] for line in table.stdout.splitlines()[1:8]]
    simulated = ["adaptive", "mixture of candidates", "uniform lists", "A/B/n"]
    assert rows == [*simulated, "A/B/n", "uniform lists", "PAC-COMBAND (the paper)"]
    assert "a worst-case guarantee, enough in every shop with that click rate, not a forecast" in table.stdout
    plain = CliRunner().invoke(app, ["plan", "--runs", "0", "--json"])
    answer = json.loads(plain.stdout)
    assert answer["epsilon"] == pytest.approx(0.02)
    assert answer["forecasts"][0]["days"] == answer["forecasts"][0]["rounds"] / 10_000
    assert CliRunner().invoke(app, ["plan", "--epsilon", "-1"]).exit_code == 1


def test_plans_from_totals() -> None:
    """The same table where only totals are seen: it takes longer, and uniform lists have no theorem there."""
    sizes = ["plan", "--items", "12", "--slots", "2", "--candidates", "4", "--click-rate", "0.35", "--epsilon", "0.2"]
    shown = {}
    for feedback in ("items", "total"):
        told = CliRunner().invoke(app, [*sizes, "--feedback", feedback, "--runs", "2", "--json"])
        assert told.exit_code == 0, told.output
        shown[feedback] = {(f["method"], f["basis"]): f["rounds"] for f in json.loads(told.stdout)["forecasts"]}
    assert set(shown["items"]) - set(shown["total"]) == {("uniform lists", "theorem")}
    paper = cb.theory.pac_comband(cb.Problem(12, 2, 1, "total"), n_policies=4, epsilon=0.2, delta=0.05).n_rounds
    assert shown["total"]["PAC-COMBAND (the paper)", "theorem"] == paper
    assert shown["total"]["adaptive", "simulation"] > shown["items"]["adaptive", "simulation"]
    wrong = CliRunner().invoke(app, [*sizes, "--feedback", "clicks"])
    assert wrong.exit_code != 0
    assert "--feedback must be" in wrong.output
