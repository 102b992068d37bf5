"""Reports are pages that stand alone: every number is in them as text, and nothing in a name is obeyed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation import LogEvaluation
from comband.show import Needed, charts, evaluation_page, selection_page
from comband.statistics.claims import Claim
from comband.statistics.results import Candidate, Selection
from tests.evaluation.logs.worlds import write_both

HOSTILE = "<script>alert(1)</script>"
PROBLEM = cb.Problem(12, 3, 1)
WORLD = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)


def drawn(page: str) -> dict[str, Any]:
    """The data that a page's charts draw."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def asked(page: str) -> list[tuple[str, str]]:
    """Which charts a page has, in order, and of what."""
    return re.findall(r'data-chart="(\w+)" data-from="(\w+)"', page)


def without_scripts(page: str) -> str:
    return re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)


def played(**options: Any) -> tuple[cb.AdaptiveComband, cb.worlds.running.Run]:
    policies = cb.PolicySet(list(WORLD.candidates(5, seed=1)), names=[HOSTILE, "b", "c", "d", "e"])
    learner = cb.AdaptiveComband(PROBLEM, policies, epsilon=0.1, seed=2, **options)
    return learner, cb.run(learner, WORLD, batch_size=200, seed=3)


def test_evaluation_report(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "parquet")
    report = tmp_path / "report.html"
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--html", str(report)])
    assert outcome.exit_code == 3, outcome.stderr
    assert "report written" in outcome.stderr
    text = report.read_text(encoding="utf-8")
    assert "ünïcode" in text
    assert not re.search(r"(src|href)=|https?://", without_scripts(text))
    assert asked(text) == [("differences", "comparison"), ("values", "comparison")]
    result = json.loads(CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--json"]).stdout)
    data = drawn(text)["comparison"]
    assert data["epsilon"] == result["epsilon"]
    by_name = {one["name"]: one for one in result["candidates"]}
    assert [one["name"] for one in data["candidates"]] == [one["name"] for one in result["candidates"]]
    for one in data["candidates"]:
        source = by_name[one["name"]]
        assert one["bound"] == source["gap_bound"]
        assert [one["low"], one["high"]] == source["interval"]
        assert one["difference"] == pytest.approx(source["value"] - result["candidates"][0]["value"])


def test_no_winner_is_named_where_there_is_none() -> None:
    policies = WORLD.candidates(3, seed=1)
    world = cb.SyntheticRecommender(PROBLEM, click_rate=0.4, n_users=30, seed=0)
    kept: list[cb.Rounds] = []
    uniform = cb.UniformLists(PROBLEM, policies, epsilon=0.1, seed=1)
    cb.run(uniform, world, batch_size=4000, max_rounds=4000, seed=2, keep=kept.append)
    rounds = kept[0]
    wrong = replace(rounds, decisions=replace(rounds.decisions, propensities=rounds.decisions.propensities / 3))
    without = replace(rounds, rewards=np.zeros_like(rounds.rewards))
    for log, target, kind, comparable in (
        (rounds, None, "decided", True),
        (rounds, 1e-9, "leading", True),
        (rounds[:150], None, "cannot tell", True),
        (without, None, "cannot tell", False),
        (wrong, None, "not valid", False),
    ):
        evaluation = replace(cb.evaluate(log, policies, max_reward=1.0), target=target)
        page = evaluation_page(LogEvaluation(evaluation, "", "", {}, ()), source="log")
        body, data = without_scripts(page), drawn(page)["comparison"]
        assert evaluation.verdict.kind == kind
        assert f'<span class="verdict {kind.replace(" ", "-")}">{kind.capitalize()}</span>' in body
        assert data["candidates"][0]["named"] is (kind == "decided")
        assert ("class=best" in body) is (kind == "decided")
        assert ("winner" in body) is (kind == "decided")
        assert (data["role"] == "the winner") is (kind == "decided")
        assert (("differences", "comparison") in asked(page)) is comparable
        assert ("better than the first" in body) is comparable


def test_selection_report_begins_with_differences_and_has_all_numbers() -> None:
    learner, outcome = played()
    comparison = learner.comparison()
    needed = [Needed("ours", 100, True, 0.1), Needed("theirs", 500, False, None)]
    page = selection_page(
        outcome.result,
        outcome.history,
        problem=PROBLEM,
        n_candidates=5,
        comparison=comparison,
        dropped=learner.status().dropped,
        needed=needed,
    )
    kinds = [kind for kind, _ in asked(page)]
    assert kinds[:4] == ["differences", "values", "field", "certificate"]
    assert kinds[-1] == "needed"
    assert set(kinds) <= set(re.findall(r"\w+", (charts.STATIC / "charts.js").read_text().split("const KINDS", 1)[1]))
    data = drawn(page)
    assert data["comparison"]["role"] == "the winner"
    assert data["comparison"]["candidates"][0].pop("named")
    data["comparison"].pop("role")
    assert data["comparison"] == charts.plain(comparison.as_dict())
    history = data["history"]
    assert history["rounds"] == [0, *outcome.history["rounds"].tolist()]
    assert history["survivors"] == [5, *outcome.history["survivors"].tolist()]
    assert history["certified"][0] is None
    assert history["certified"][-1] == outcome.history["certified"][-1]
    assert history["forecast"][-1] == 0
    assert history["target"] == 0.1
    body = without_scripts(page)
    assert body.index("Decided") < body.index("data-chart")
    assert "more than 500" in body
    assert "<script" not in body
    assert "&lt;script&gt;alert(1)" in body
    assert HOSTILE not in page
    for one in comparison.candidates:
        assert f"{one.value:.4g}" in body


def test_a_report_says_what_is_not_certified() -> None:
    learner, outcome = played(max_rounds=200)
    page = selection_page(
        outcome.result, outcome.history, problem=PROBLEM, n_candidates=5, comparison=learner.comparison(), stopped=True
    )
    body = without_scripts(page)
    assert "winner" not in body.lower()
    assert body.index("Stopped early") < body.index('<span class="verdict cannot-tell">')


def test_results_of_other_learners_are_drawn_too() -> None:
    best, other = Candidate(1, "b", 0.3, (0.2, 0.4)), Candidate(0, "a", 0.25, (0.1, 0.4))
    result = Selection(
        WORLD.candidates(1)[0],
        best,
        0.15,
        0.05,
        100,
        (other,),
        claims=(Claim("certificate", "", 0.05, "by a theorem", ()),),
    )
    data = drawn(selection_page(result, {"rounds": np.empty(0)}, problem=PROBLEM, n_candidates=2))
    (winner, second), epsilon = data["comparison"]["candidates"], data["comparison"]["epsilon"]
    assert (winner["name"], winner["difference"], winner["bound"], epsilon) == ("b", 0, 0, 0.15)
    assert (second["difference"], second["bound"]) == (pytest.approx(-0.05), 0.15)
    assert "history" not in data


def test_a_report_is_the_same_each_time_and_no_larger_than_said() -> None:
    _, outcome = played()
    one, two = (selection_page(outcome.result, outcome.history, problem=PROBLEM, n_candidates=5) for _ in range(2))
    assert one == two
    assert len(one) < 2.5e6


def test_without_plotly_the_tables_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, outcome = played()
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    page = selection_page(
        outcome.result, outcome.history, problem=PROBLEM, n_candidates=5, comparison=learner.comparison()
    )
    assert "<script" not in page
    assert "pip install &#x27;comband[reports]&#x27;" in page
    assert f"{outcome.result.value:.4g}" in page
    assert len(page) < 50_000


@pytest.mark.parametrize("learner", ["adaptive", "uniform", "pac"])
def test_simulate_writes_a_report(learner: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    sizes = ["--items", "20", "--candidates", "4", "--click-rate", "0.4", "--rounds", "2000", "--epsilon", "0.2"]
    outcome = CliRunner().invoke(app, ["simulate", "--learner", learner, *sizes, "--html", str(report)])
    assert outcome.exit_code == 0, outcome.stderr
    page = report.read_text(encoding="utf-8")
    kinds = [kind for kind, _ in asked(page)]
    assert kinds[:2] == ["differences", "values"]
    assert ("certificate" in kinds) is (learner == "adaptive")  # the others know nothing before their end
    assert drawn(page)["comparison"]["candidates"][0]["name"] in outcome.stdout
