"""Logs where places matter: read from files as rounds are read in memory, and refused where they cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation import evaluate_log
from comband.evaluation.logs import LogError, read_candidates, read_log, write_candidates, write_rounds
from comband.page.places import placed_rounds
from comband.page.problem import InputError
from comband.policies.placed import PlacedPolicies
from tests.strategies import random_policies

K, M, N = 7, 3, 6
THETA = (1.0, 0.6, 0.3)


def logged(places: Any, n: int = 400) -> tuple[cb.Rounds, cb.PolicySet]:
    rng = np.random.default_rng(3)
    problem = cb.Problem(K, M, 1, places=places)
    policies = random_policies(4, N, problem, rng)
    mixture = cb.Mixture(policies, rng.dirichlet(np.ones(4)), problem=problem, floor=0.4)
    decisions = mixture.draw(rng.integers(N, size=n), rng)
    return cb.Rounds(decisions, np.eye(M)[rng.integers(M, size=n)] * (rng.random((n, 1)) < 0.5)), policies


def written(folder: Path, places: Any, kind: str = "parquet") -> tuple[cb.Rounds, cb.PolicySet, Path, Path]:
    rounds, policies = logged(places)
    log, lists = folder / f"log.{kind}", folder / f"lists.{kind}"
    write_rounds(rounds, log, context_ids=rounds.decisions.contexts)
    write_candidates(policies, np.arange(N), lists)
    return rounds, policies, log, lists


def same(found: Any, expected: Any) -> None:
    by_name = {candidate.name: candidate for candidate in expected.candidates}
    for candidate in found.candidates:
        other = by_name[candidate.name]
        assert candidate.value == pytest.approx(other.value, abs=1e-12)
        assert candidate.interval == pytest.approx(other.interval, abs=1e-9)
    assert found.epsilon == pytest.approx(expected.epsilon, abs=1e-9)
    assert (found.rewards, found.rounds) == (expected.rewards, expected.rounds)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("places", ["pairs", THETA], ids=["pairs", "factors"])
def test_files_say_what_rounds_say(places: Any, kind: str, tmp_path: Path) -> None:
    rounds, policies, log, lists = written(tmp_path, places, kind)
    least = 0.4 / K if places == "pairs" else 0.4 * M / K
    for min_propensity in (None, least):
        reading = read_log(log, read_candidates(lists), sparsity=1, places=places)
        found = evaluate_log(reading, min_propensity=min_propensity).evaluation
        same(found, cb.evaluate(rounds, policies, max_reward=1, places=places, min_propensity=min_propensity))
    if places == "pairs":  # read in shards
        same(evaluate_log(log, lists, sparsity=1, places="pairs", min_propensity=least).evaluation, found)
    else:
        with pytest.raises(InputError, match="read_log"):
            evaluate_log(log, lists, sparsity=1, places=places)


def test_a_column_says_in_which_place_an_item_was(tmp_path: Path) -> None:
    """Items in any order in the file, counted from 0 or from 1."""
    rounds, policies, log, lists = written(tmp_path, "pairs", "jsonl")
    expected = cb.evaluate(rounds, policies, max_reward=1, places="pairs")
    rng = np.random.default_rng(4)
    lines = []
    for i, line in enumerate(log.read_text().splitlines()):
        row, order = json.loads(line), rng.permutation(M)
        for column in ("items", "rewards", "propensities"):
            row[column] = [row[column][k] for k in order]
        row["positions"] = [int(k) + i % 2 for k in order]
        lines.append(row)
    log.write_text("\n".join(map(json.dumps, lines)))
    candidates = read_candidates(lists)
    same(evaluate_log(read_log(log, candidates, sparsity=1, places="pairs")).evaluation, expected)
    for wrong in ([0, 1, 1], [2, 3, 4], [0, 1, 5], ["a", 1, 2], [0, 1], [None, 1, 2], [0.5, 1, 2]):
        log.write_text("\n".join(map(json.dumps, [{**lines[0], "positions": wrong}, *lines[1:]])))
        with pytest.raises(LogError, match=r"position"):
            read_log(log, candidates, places="pairs")
        assert read_log(log, candidates, places="pairs", on_error="skip").events.n_rounds == len(rounds) - 1
        assert read_log(log, candidates).events.n_rounds == len(rounds)  # nobody asks for places


def test_events_are_evaluated_under_factors_and_as_pairs() -> None:
    rounds, policies = logged(THETA)
    least = 0.4 * M / K
    expected = cb.evaluate(rounds, policies, max_reward=1, places=THETA, min_propensity=least)
    parts = rounds[:150].events() + rounds[150:].events()
    found = cb.evaluate(parts, policies, max_reward=1, places=THETA, min_propensity=least)
    assert [c.value for c in found.candidates] == pytest.approx([c.value for c in expected.candidates], abs=1e-12)
    assert found.rewards == expected.rewards
    with pytest.raises(InputError, match="min_propensity"):
        cb.evaluate(parts, policies, max_reward=1, places=THETA)
    with pytest.raises(InputError, match="as the lists do"):
        cb.evaluate(parts, policies, max_reward=1, places=THETA[:2], min_propensity=least)
    rounds, policies = logged("pairs")
    expected = cb.evaluate(rounds, policies, max_reward=1, places="pairs", min_propensity=0.4 / K)
    pairs = placed_rounds(rounds, "pairs").events()
    found = cb.evaluate(pairs, PlacedPolicies(policies, M), max_reward=1, min_propensity=0.4 / K)
    assert [c.value for c in found.candidates] == pytest.approx([c.value for c in expected.candidates], abs=1e-12)
    with pytest.raises(InputError, match="placed_rounds"):
        cb.evaluate(rounds.events(), policies, max_reward=1, places="pairs", min_propensity=0.4 / K)


def slates(path: Path, *, column: str) -> None:
    rounds, _ = logged("pairs")
    lines = [f"slate_id,position,action,reward,{column},user"]
    for i in range(len(rounds)):
        shown = rounds.decisions
        p = shown.propensities[i] if column == "pscore_item_position" else np.cumprod(shown.propensities[i])
        for k in range(M):
            lines.append(f"{i},{k},{shown.lists[i, k]},{rounds.rewards[i, k]},{p[k]},{shown.contexts[i]}")
    path.write_text("\n".join(lines))


def test_slates_keep_their_meaning(tmp_path: Path) -> None:
    """obp's propensities of slots are those of pairs, whether that is said or not; the others do not tell them."""
    rounds, policies, _, lists = written(tmp_path, "pairs")
    candidates, log = read_candidates(lists), tmp_path / "slates.csv"
    slates(log, column="pscore_item_position")
    expected = cb.evaluate(rounds, policies, max_reward=1, places="pairs")
    for places in (None, "pairs"):
        same(evaluate_log(read_log(log, candidates, context=["user"], sparsity=1, places=places)).evaluation, expected)
    with pytest.raises(LogError, match="random order"):
        read_log(log, candidates, context=["user"], places=THETA)
    slates(log, column="pscore_cascade")
    assert read_log(log, candidates, context=["user"]).events.n_rounds == len(rounds)
    with pytest.raises(LogError, match="in its place"):
        read_log(log, candidates, context=["user"], places="pairs")
    with pytest.raises(LogError, match="random order"):
        read_log(log, candidates, context=["user"], places=THETA)


def test_logs_of_conditional_probabilities_do_not_tell_pairs(tmp_path: Path) -> None:
    _, _, _, lists = written(tmp_path, "pairs")
    event = {
        "EventId": "0",
        "_outcomes": [{"_a": [k], "_p": [0.5], "_label_cost": -float(k == 0)} for k in range(M)],
        "c": {"user": 0},
    }
    log = tmp_path / "log.dsjson"
    log.write_text(json.dumps(event))
    assert read_log(log, read_candidates(lists), context=["c.user"]).events.n_rounds == 1
    with pytest.raises(LogError, match="in its place"):
        read_log(log, read_candidates(lists), context=["c.user"], places="pairs")


@pytest.mark.parametrize("places", ["pair", "1,2", "1,0.6,x", "1,0.6,nan", "1,0.6,0", "1;2;3", "", "pairs,1"])
def test_other_places_are_refused_by_commands(places: str, tmp_path: Path) -> None:
    *_, log, lists = written(tmp_path, "pairs")
    answer = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--places", places])
    assert answer.exit_code == 1
    assert "places" in answer.output


@pytest.mark.parametrize("places", ["pairs", "1,0.6,0.3"])
def test_commands(places: str, tmp_path: Path) -> None:
    """A learner in a shop leaves a log, which is evaluated and designed from under the same places."""
    log, lists, out = (str(tmp_path / name) for name in ("log.parquet", "lists.parquet", "mixture.npz"))
    call, run = CliRunner(), ["--places", places]
    shop = ["--items", "12", "--slots", "3", "--candidates", "4", "--rounds", "1500", "--click-rate", "0.4"]
    answer = call.invoke(
        app, ["simulate", *shop, *run, "--place-effect", "1,0.6,0.3", "--log", log, "--lists", lists, "--json"]
    )
    assert answer.exit_code in (0, 3), answer.output
    simulated = json.loads(answer.stdout)
    assert 0 < simulated["true_value"] <= simulated["true_best_value"]
    answer = call.invoke(app, ["evaluate", log, "-c", lists, "--sparsity", "1", "--json", *run])
    assert answer.exit_code in (0, 3), answer.output
    assert len(json.loads(answer.stdout)["candidates"]) == 4
    answer = call.invoke(app, ["design", log, "-c", lists, "--n-actions", "12", "--sparsity", "1", "-o", out, *run])
    assert answer.exit_code in (0, 3), answer.output
    policies = random_policies(4, 5, cb.Problem(12, 3), np.random.default_rng(0))
    names = list(read_candidates(lists).names)
    mixture = cb.Mixture.load(out, cb.PolicySet(list(policies), names))
    assert mixture.problem == cb.Problem(12, 3, 1, places="pairs" if places == "pairs" else [1, 0.6, 0.3])
    assert mixture.draw(np.arange(5), 1).lists.max() < 12


def test_logs_by_slot_are_designed_from_as_pairs(tmp_path: Path) -> None:
    rounds, policies, _, lists = written(tmp_path, "pairs")
    log, out = tmp_path / "slates.csv", tmp_path / "mixture.npz"
    slates(log, column="pscore_item_position")
    options = ["design", str(log), "-c", str(lists), "--n-actions", str(K), "--context", "user", "-o", str(out)]
    answer = CliRunner().invoke(app, options)
    assert answer.exit_code == 1
    assert "--places pairs" in answer.output
    assert CliRunner().invoke(app, [*options, "--places", "pairs"]).exit_code in (0, 3)
    expected = cb.design_exploration(rounds, policies, problem=cb.Problem(K, M, places="pairs"))
    found = cb.Mixture.load(out, policies)
    np.testing.assert_allclose(found.weights, expected.mixture.weights, atol=1e-6)
