"""Forecasts of the rounds that a comparison takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.certify.forecasts import (
    _summary,
    ab_test_rounds,
    by_simulation,
    by_theorem,
    candidates_with_values,
    slack_remarks,
)
from comband.commands.cli import app
from comband.commands.known_scores import KnownScores, read_scores

PROBLEM = cb.Problem(n_actions=20, list_size=3, sparsity=1)


def test_theorems_are_the_theory_module() -> None:
    arms, uniform, online, paper = by_theorem(PROBLEM, n_policies=10, click_rate=0.3, epsilon=0.1, delta=0.05)
    promise = {"n_policies": 10, "epsilon": 0.1, "delta": 0.05}
    assert paper.rounds == cb.theory.pac_comband(PROBLEM, route="joint", **promise).n_rounds  # type: ignore[call-overload]
    learnt = cb.theory.online_comband(PROBLEM, exploration="learnt", **promise)  # type: ignore[arg-type]
    assert online.rounds == learnt.n_rounds
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
    rows = [line.split("  ")[0] for line in table.stdout.splitlines()[1:9]]
    simulated = ["adaptive", "mixture of candidates", "uniform lists", "A/B/n"]
    assert rows == [*simulated, "A/B/n", "uniform lists", "learnt online", "PAC-COMBAND (the paper)"]
    assert "rounds at most, uniform lists: the smaller of learnt exploration and uniform lists" in table.stdout
    assert "a worst-case guarantee, enough in every shop with that click rate, not a forecast" in table.stdout
    plain = CliRunner().invoke(app, ["plan", "--runs", "0", "--json"])
    answer = json.loads(plain.stdout)
    assert answer["epsilon"] == pytest.approx(0.02)
    assert answer["forecasts"][0]["days"] == answer["forecasts"][0]["rounds"] / 10_000
    assert answer["chosen_by_theorem"] == "learnt online"
    half = json.loads(CliRunner().invoke(app, ["plan", "--items", "10", "--runs", "0", "--json"]).stdout)
    assert half["chosen_by_theorem"] == "uniform lists"
    assert CliRunner().invoke(app, ["plan", "--epsilon", "-1"]).exit_code == 1


def test_plans_from_totals() -> None:
    """The same table where only totals are seen: it takes longer, and uniform lists have no theorem there."""
    sizes = ["plan", "--items", "12", "--slots", "2", "--candidates", "4", "--click-rate", "0.35", "--epsilon", "0.2"]
    shown = {}
    for feedback in ("items", "total"):
        told = CliRunner().invoke(app, [*sizes, "--feedback", feedback, "--runs", "2", "--json"])
        assert told.exit_code == 0, told.output
        shown[feedback] = {(f["method"], f["basis"]): f["rounds"] for f in json.loads(told.stdout)["forecasts"]}
    assert set(shown["items"]) - set(shown["total"]) == {("uniform lists", "theorem"), ("learnt online", "theorem")}
    paper = cb.theory.pac_comband(cb.Problem(12, 2, 1, "total"), n_policies=4, epsilon=0.2, delta=0.05).n_rounds
    assert shown["total"]["PAC-COMBAND (the paper)", "theorem"] == paper
    assert shown["total"]["adaptive", "simulation"] > shown["items"]["adaptive", "simulation"]
    wrong = CliRunner().invoke(app, [*sizes, "--feedback", "clicks"])
    assert wrong.exit_code != 0
    assert "--feedback must be" in wrong.output


def test_a_budget_is_forecast_to_certify_what_it_does() -> None:
    """More rounds certify less; each figure is that of a learner with this budget."""
    settings = {"n_policies": 5, "click_rate": 0.4, "epsilon": None, "runs": 3, "methods": ("adaptive",)}
    (few,), (many,) = (list(by_simulation(PROBLEM, max_rounds=n, **settings)) for n in (800, 6000))  # type: ignore[arg-type]
    assert few.rounds == few.cap == 800
    assert few.epsilons is not None
    assert few.epsilon is not None
    assert many.epsilon is not None
    assert few.epsilons[0] <= few.epsilon <= few.epsilons[1]
    assert many.epsilon < few.epsilon
    assert few.to_frame().columns.tolist()[-3:] == ["epsilon", "smallest", "largest"]


def test_simulated_candidates_have_the_values_that_are_known() -> None:
    world = cb.SyntheticRecommender(cb.Problem(60, 4, sparsity=1), click_rate=0.3, seed=5)
    wanted = np.array([0.1, 0.25, 0.2, 0.15, 0.22, 0.12])
    policies = candidates_with_values(world, wanted, np.random.SeedSequence(6))
    np.testing.assert_allclose(world.values(policies), wanted, atol=0.03)


def test_plans_for_a_budget_and_from_scores(tmp_path: Path) -> None:
    """A column of a file, or what was said of a log; and what cannot be."""
    (tmp_path / "scores.csv").write_text("name,score\na,.3\nb,.28\nc,-0.01\n")
    (tmp_path / "values.json").write_text(json.dumps({"candidates": [{"name": "a", "value": 0.3}, {"value": 0.2}]}))
    size = ["plan", "--items", "20", "--slots", "3", "--runs", "1"]

    def told(*more: str) -> Any:
        return CliRunner().invoke(app, [*size, *more])

    by_budget = told("--budget", "2000", "--scores", str(tmp_path / "scores.csv"))
    assert by_budget.exit_code == 0, by_budget.output
    assert "After 2,000 rounds no candidate is better than the one named by more than epsilon" in by_budget.stdout
    answer = json.loads(told("--budget", "2000", "--scores", str(tmp_path / "values.json"), "--json").stdout)
    assert answer["epsilon"] is None
    assert 0 <= answer["forecasts"][0]["epsilon"] < 1  # 0: but one is left
    assert read_scores(tmp_path / "scores.csv").values.tolist() == [0.3, 0.28, 0.0]
    (tmp_path / "empty.csv").write_text("name,points\na,1\n")
    for more, words in (
        (("--budget", "2000", "--epsilon", ".1"), "give one of them"),
        (("--budget", "2000", "--runs", "0"), "--budget needs --runs"),
        (("--scores", str(tmp_path / "empty.csv")), "a column score"),
        (("--scores", str(tmp_path / "none.csv")), "cannot be read"),
        (("--scores", str(tmp_path / "scores.csv"), "--candidates", "9"), "has scores of 3"),
    ):
        refused = told(*more)
        assert refused.exit_code != 0
        assert words in " ".join(refused.output.replace("│", " ").split())


def test_scores_carry_their_error_and_their_unit(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("candidate,score,standard_error\na,0.10,0.03\nb,0.20,0.03\nc,0.30,0.03\n")
    known = read_scores(path)
    assert known.error == pytest.approx(0.03)
    assert known.share == pytest.approx(1 - 0.0009 / 0.01)
    assert known.shrunk() == pytest.approx([0.2 - 0.091, 0.2, 0.2 + 0.091])
    assert "exceeds" not in " ".join(known.remarks(0.05))
    assert "exceeds epsilon = 0.02" in known.remarks(0.02)[1]
    assert "without an error" in KnownScores(known.values, None, per_slot=False).remarks(0.02)[0]
    told = {
        "format": "obd",
        "candidates": [{"value": 0.004, "standard_error": 0.002}, {"value": 0.006, "standard_error": 0.001}],
    }
    (tmp_path / "told.json").write_text(json.dumps(told))
    slots = read_scores(tmp_path / "told.json")
    assert slots.per_slot
    assert slots.per_round(3).values == pytest.approx([0.012, 0.018])
    assert slots.per_round(3).error == pytest.approx(3 * slots.error)  # type: ignore[operator]
    assert slots.share == 0.0  # two clicks tell nothing apart
    args = ["plan", "--items", "20", "--slots", "3", "--runs", "1", "--max-rounds", "1000", "--scores"]
    outcome = CliRunner().invoke(app, [*args, str(tmp_path / "told.json"), "--json"])
    answer = json.loads(outcome.stdout)
    assert answer["unit"] == "clicks per round"
    assert "per slot; a round has 3 slots" in answer["remarks"][0]
    assert "exceeds epsilon" in answer["remarks"][2]
    path.write_text("score,standard_error\n0.1,-1\n")
    with pytest.raises(cb.InputError, match="standard errors of scores must be numbers"):
        read_scores(path)


def test_metrics_and_segments_are_forecast_by_learners_that_declare_them() -> None:
    """The rows are what such a learner, made by hand, comes to in the same shop."""
    problem, sold = cb.Problem(20, 2, sparsity=1), cb.Metric(name="sold", margin=0.3, relative=True)
    asked: dict[str, Any] = {"n_policies": 5, "click_rate": 0.35, "epsilon": 0.15, "runs": 1, "seed": 3}
    plain, guarded, by_segment = by_simulation(
        problem, methods=("adaptive",), metrics={sold: 0.5}, shares=(0.75, 0.25), max_rounds=20_000, **asked
    )
    assert guarded.method == "adaptive, safe by sold"
    assert plain.lift_width is None
    assert guarded.lift_width is not None
    assert by_segment.method == "adaptive in each of 2 segments"
    root = np.random.SeedSequence(3).spawn(1)[0]
    children = [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, i)) for i in range(5)]
    world = cb.SyntheticRecommender(problem, click_rate=0.35, seed=children[0])
    policies = world.candidates(5, seed=children[1])
    half = cb.AdaptiveComband(problem, policies, epsilon=0.15, delta=0.025, max_rounds=5000, seed=children[2])
    cb.run(half, world, batch_size=500, max_rounds=5000, seed=children[3])
    assert by_segment.rounds == 4 * half.rounds  # a quarter of the visitors are of the smaller segment
    worth = np.random.default_rng(children[4]).random(20) < 0.5
    production = policies.names[int(np.argsort(-world.values(policies))[2])]
    learner = cb.AdaptiveComband(
        problem,
        policies,
        epsilon=0.15,
        max_rounds=20_000,
        production=production,
        metrics=[sold],
        seed=children[2],
    )
    cb.run(
        learner,
        world,
        batch_size=500,
        max_rounds=20_000,
        seed=children[3],
        metrics=lambda lists, clicks: {"sold": clicks * worth[lists]},
    )
    assert learner.verdict.certified is not None
    assert guarded.rounds == learner.rounds
    lift = learner.result().lift
    assert lift is not None
    assert guarded.lift_width == pytest.approx((lift.high - lift.low) / world.values(policies).max())


def test_a_small_margin_is_remarked_upon_and_no_budget_is_told_with_metrics() -> None:
    small, fine = (cb.Metric(name=name, margin=margin) for name, margin in (("sold", 0.001), ("read", 0.02)))
    none = cb.Metric(name="kept", margin=0.0)
    remarks = slack_remarks({small: 0.5, fine: 0.5, none: 1.0}, 0.2)  # of values of 0.1 and 0.2 per round
    assert len(remarks) == 2
    assert "sold: a margin of 1% of production's value is expensive" in remarks[0]
    assert remarks[1].startswith("kept: without a margin only candidates that are better")
    asked: dict[str, Any] = {"n_policies": 3, "click_rate": 0.35, "epsilon": None, "metrics": {small: 0.5}}
    with pytest.raises(cb.InputError, match="without metrics"):
        next(by_simulation(cb.Problem(9, 2, sparsity=1), **asked))
    with pytest.raises(cb.InputError, match="sum to 1"):
        next(by_simulation(cb.Problem(9, 2, sparsity=1), **asked | {"metrics": {}, "shares": (0.5, 0.2)}))
