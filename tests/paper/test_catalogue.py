"""The catalogue: every claim is well-formed and measurable, and its helpers are exact."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.explore.design import design_exploration
from comband.paper import Claim, all_claims
from comband.paper.catalogue.finite_world import graded_world, gradient_norm, potential, random_world, variances
from comband.paper.catalogue.list_play import STRATEGIES, play
from comband.paper.catalogue.lower_bound import crossing
from comband.paper.runner import as_plain
from tests.strategies import hoeffding_radius

CLAIMS = all_claims()
SMALLER = {"runs": 4, "T": 60, "most": 600, "rounds": 400}


def test_claims_have_names_texts_and_checks() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) >= 9
    for claim in CLAIMS:
        assert claim.name.replace("-", "").isalpha()
        assert claim.statement.endswith(".")
        assert claim.method.endswith(".")
        assert claim.checks
        assert len({check.text for check in claim.checks}) == len(claim.checks)
        for quick in (True, False):
            tasks = claim.tasks(quick=quick)
            assert len({task.key for task in tasks}) == len(tasks)
        assert all(low < high for low, high in (check.accepted for check in claim.checks))


_LONG = {"total-certification"}  # seconds each


@pytest.mark.parametrize(
    "claim",
    [pytest.param(one, id=one.name, marks=[pytest.mark.slow] * (one.name in _LONG)) for one in CLAIMS],
)
def test_measures_are_json_and_depend_on_setting_and_seed_only(claim: Claim) -> None:
    first = claim.quick.settings[0]
    setting = {name: min(value, SMALLER[name]) if name in SMALLER else value for name, value in first.items()}
    values = [json.dumps({k: as_plain(v) for k, v in claim.measure(setting, 0).items()}) for _ in range(2)]
    assert values[0] == values[1]


def test_finite_worlds_know_their_potential_gradient_and_variances() -> None:
    problem = cb.Problem(8, 3, 2)
    rng = np.random.default_rng(0)
    world = random_world(problem, 40, 6, rng)
    inside, policies = world.incidence(), world.policies
    np.testing.assert_allclose(inside.sum(axis=1).mean(axis=0), world.values(policies))
    design = design_exploration(world.population(), cb.EnumerationOracle(policies), problem=problem)
    p = design.mixture.weights
    assert potential(inside, p, problem, 0.5) == pytest.approx(design.value)
    assert gradient_norm(inside, p, problem, 0.5) == pytest.approx(design.gradient_norm)
    p = rng.dirichlet(np.ones(6))
    n = 200_000
    batch = world.sample(n, rng)
    decisions = cb.Mixture(policies, p, problem=problem, floor=0.5).draw(batch.contexts, rng)
    sums = cb.statistics.ValueSums.from_events(cb.Rounds(decisions, batch.answer(decisions.lists)).events(), policies)
    # R ≤ 2·K/(γm) = 10.7; R² is within Hoeffding's radius of its mean, and the squared mean moves less than that.
    radius = (2 * 8 / 1.5) ** 2 * hoeffding_radius(n, 1e-7, tests=24)
    assert np.abs(sums.variances - variances(inside, p, problem, 0.5)).max() < 2 * radius


def test_graded_worlds_have_exact_values() -> None:
    world = graded_world(cb.Problem(12, 2, 2), 100, np.array([0.4, 0.25, 0.0]), np.random.default_rng(1))
    np.testing.assert_allclose(world.values(world.policies), [0.8, 0.5, 0.0])


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_list_strategies_find_an_obvious_set(name: str) -> None:
    world = cb.worlds.LowerBoundInstance(cb.Problem(12, 2, 6), epsilon=1.2, good=[3, 8])
    answers = list(play(world, STRATEGIES[name], [10, 1000], 20, np.random.default_rng(0)))
    assert answers[0].shape == (20, 2)
    assert (np.sort(answers[1], axis=1) == [3, 8]).mean() > 0.9


def test_crossings_are_interpolated() -> None:
    assert crossing([1, 10, 100], [0.0, 0.5, 1.0], 0.75) == pytest.approx(10**1.5)
    assert crossing([1, 10, 100], [0.8, 0.9, 1.0], 0.75) == 1
    assert np.isnan(crossing([1, 10], [0.0, 0.5], 0.75))


@pytest.mark.slow
def test_command_writes_the_report_and_names_what_there_is(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        app,
        ["reproduce", "--quick", "--only", "frank-wolfe", "--workers", "1", "--out", str(tmp_path)],
        catch_exceptions=False,
    )
    assert outcome.exit_code == 0
    assert "Frank-Wolfe" in outcome.stdout
    assert (tmp_path / "report.html").is_file()
    wrong = CliRunner().invoke(app, ["reproduce", "--only", "haystack", "--out", str(tmp_path)])
    assert wrong.exit_code == 1
    assert "there are: leading-term" in wrong.stderr


def test_list_classification_takes_a_folder(tmp_path: Path) -> None:
    with pytest.raises(cb.InputError, match="holds no data set"):
        all_claims(tmp_path)
    rng = np.random.default_rng(0)
    sp.save_npz(tmp_path / "tags_X.npz", sp.csr_array(rng.random((60, 4))))
    sp.save_npz(tmp_path / "tags_Y.npz", sp.csr_array((rng.random((60, 5)) < 0.3).astype(float)))
    claim = next(c for c in all_claims(tmp_path) if c.name == "list-classification")
    values = claim.measure(claim.quick.settings[0], 0)
    assert 0 <= values["bandit"] <= 3
