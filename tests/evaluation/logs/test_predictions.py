"""Doubly robust estimates of a log in files, with a reward model's predictions in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation import usual_estimates
from comband.evaluation.logs import read_predictions
from tests.evaluation.logs.worlds import PROBLEM, small_log, write_both

SCORES = np.random.default_rng(5).random((30, PROBLEM.n_actions)) / 5


def predictions() -> pd.DataFrame:
    contexts, items = np.divmod(np.arange(SCORES.size), PROBLEM.n_actions)
    return pd.DataFrame({"context": contexts, "item": items, "prediction": SCORES.ravel()})


def test_all_rounds_of_a_file_are_those_in_memory(tmp_path: Path) -> None:
    rounds, policies = small_log(400)
    log, lists = write_both(tmp_path, "parquet", n=400)
    candidates = cb.read_candidates(lists)
    reading = cb.read_log(log, candidates, sparsity=1, rounds=True)
    assert reading.rounds is not None
    np.testing.assert_array_equal(reading.rounds.decisions.lists, rounds.decisions.lists)
    np.testing.assert_array_equal(reading.rounds.rewards, rounds.rewards)
    assert cb.read_log(log, candidates).rounds is None

    def model(X: Any, shown: Any) -> Any:
        return SCORES[np.asarray(X)[:, None], shown]

    expected = usual_estimates(rounds, policies, reward_model=model)
    found = cb.evaluate_log(reading, reward_model=read_predictions(predictions(), candidates)).evaluation.usual
    assert found is not None
    for method in ("IPS", "SNIPS", "DM", "DR"):
        np.testing.assert_allclose(found.estimates[method], expected.estimates[method])
        np.testing.assert_allclose(found.standard_errors[method], expected.standard_errors[method])


def test_the_command_has_them_beside_its_own(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "csv", n=400)
    said = tmp_path / "said.csv"
    predictions().rename(columns={"prediction": "p_click"}).to_csv(said, index=False)
    report = tmp_path / "report.html"
    command = ["evaluate", str(log), "-c", str(lists), "--sparsity", "1", "--html", str(report)]
    model = ["--predictions", str(said), "--column", "predictions.prediction=p_click"]
    rounds, policies = small_log(400)
    expected = usual_estimates(rounds, policies)
    shown = CliRunner().invoke(app, [*command, *model])
    assert shown.exit_code in (0, 3), shown.stderr
    page = report.read_text(encoding="utf-8")
    for p in range(len(policies)):
        snips = f"{expected.estimates['SNIPS'][p]:.5g} ± {expected.standard_errors['SNIPS'][p]:.2g}"
        assert snips in shown.stdout
        assert snips in page
    assert "not valid under peeking" in page
    told = json.loads(CliRunner().invoke(app, [*command, *model, "--json"]).stdout)["usual"]
    assert set(told["method"]) == {"IPS", "SNIPS", "DM", "DR"}
    told = json.loads(CliRunner().invoke(app, [*command, "--usual", "--json"]).stdout)
    assert set(told["usual"]["method"]) == {"IPS", "SNIPS"}
    plain = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert plain["usual"] is None
    assert {**told, "usual": None} == plain  # nothing promised has moved
    refused = CliRunner().invoke(app, [*command[:2], str(log), *command[2:], "--usual"])
    assert refused.exit_code == 1
    assert "--usual, --predictions and --segments are for one log file" in refused.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said[said["item"] != 3], "item 3 of context .* is missing"),
        (lambda said: said.drop(columns="item"), "column item is missing"),
        (lambda said: pd.concat([said, said[:2]]), "predicts 2 pairs of context and item again"),
        (lambda said: said.assign(prediction=np.nan), "the prediction must be a number"),
        (lambda said: said.assign(context="nobody"), "holds no prediction for a context"),
    ],
)
def test_predictions_that_cannot_be_used_are_refused(change: Any, words: str) -> None:
    rounds, policies = small_log(400)
    shown = policies.predict(np.arange(30))
    lists = {"context": np.arange(30), **{name: shown[:, p].tolist() for p, name in enumerate(policies.names)}}
    candidates = cb.read_candidates(pd.DataFrame(lists))
    frame = rounds.to_frame("pandas").rename(columns={"id": "round"})
    frame["context"] = np.repeat(rounds.decisions.contexts, PROBLEM.list_size)
    reading = cb.read_log(frame, candidates, format="impressions", rounds=True)
    with pytest.raises(cb.InputError, match=words):
        cb.evaluate_log(reading, reward_model=read_predictions(change(predictions()), candidates))


def test_what_keeps_no_rounds_has_no_doubly_robust_estimate(tmp_path: Path) -> None:
    log, lists = write_both(tmp_path, "jsonl", n=40)
    candidates = cb.read_candidates(lists)
    model = read_predictions(predictions(), candidates)
    with pytest.raises(cb.InputError, match="rounds=True"):
        cb.evaluate_log(cb.read_log(log, candidates), reward_model=model)
    with pytest.raises(cb.InputError, match="rounds=True"):
        cb.evaluate_log(log, lists, reward_model=model)
    factors = cb.read_log(log, candidates, places=[1, 0.5, 0.25], rounds=True)
    with pytest.raises(cb.InputError, match="no factors of places"):
        cb.evaluate_log(factors)
    with pytest.raises(cb.InputError, match="must be what read_candidates gave"):
        read_predictions(predictions(), lists)  # type: ignore[arg-type]
