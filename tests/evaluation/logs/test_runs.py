"""Runs of retrieval systems as candidates, and judgements as their scores."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation.logs import judged_scores, read_candidates

RUNS = {
    "bm25": {"q1": {"d1": 3.0, "d2": 2.0, "d3": 1.0}, "q2": {"d4": 1.5, "d1": 1.0, "d2": 0.5}},
    "dense": {"q1": {"d3": 0.9, "d1": 0.8, "d5": 0.7}, "q2": {"d5": 0.4, "d4": 0.3, "d3": 0.2}},
}
SHOWN = {
    ("bm25", "q1"): ["d1", "d2"],
    ("bm25", "q2"): ["d4", "d1"],
    ("dense", "q1"): ["d3", "d1"],
    ("dense", "q2"): ["d5", "d4"],
}


def _lines(name: str) -> str:
    lines = []
    for query, documents in RUNS[name].items():
        ranked = sorted(documents, key=lambda one: -documents[one])
        # not in the order of ranks: the score decides
        lines += [f"{query} Q0 {d} {k + 1} {documents[d]} {name}\n" for k, d in reversed(list(enumerate(ranked)))]
    return "".join(lines)


class _Ranx:
    """What a `ranx.Run` has."""

    def __init__(self, name: str) -> None:
        self.name, self.run = name, RUNS[name]

    def to_dict(self) -> dict[str, dict[str, float]]:
        return self.run


def _told(candidates: Any) -> dict[tuple[str, str], list[str]]:
    keys, names = candidates.contexts.keys, candidates.items.catalogue.keys
    return {
        (who, str(keys[n])): [str(names[code]) for code in candidates.lists[p, n]]
        for p, who in enumerate(candidates.names)
        for n in range(len(keys))
    }


def _frame(name: str) -> pd.DataFrame:
    rows = [(query, d, s) for query, documents in RUNS[name].items() for d, s in documents.items()]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    return frame.assign(rank=frame.groupby("qid").score.rank(ascending=False).astype(int) - 1)


def test_every_way_to_hand_over_runs(tmp_path: Path) -> None:
    (tmp_path / "both.run").write_text("".join(map(_lines, RUNS)))
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "bm25.res").write_text(_lines("bm25"))
    (folder / "dense.res.gz").write_bytes(gzip.compress(_lines("dense").encode()))
    frames = {name: _frame(name) for name in RUNS}
    together = pd.concat([frame.assign(name=name) for name, frame in frames.items()])
    by_rank = together.drop(columns="score")
    ranx = together.rename(columns={"qid": "q_id", "docno": "doc_id"}).drop(columns="rank")
    sources = [tmp_path / "both.run", str(folder), RUNS, frames, together, by_rank, ranx, pl.from_pandas(together)]
    for source in (*sources, [_Ranx(name) for name in RUNS], {name: _Ranx(name) for name in RUNS}):
        assert _told(read_candidates(source, list_size=2)) == SHOWN
    assert read_candidates(_Ranx("bm25"), list_size=3).names == ("bm25",)


def test_runs_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.run"
    for text, words in (
        ("q1 Q0 d1 1 2.0\n", "line 1: a run has query, Q0, document, rank, score and tag, got 5"),
        ("q1 Q0 d1 1 high me\n", "rank and score must be numbers, got '1' and 'high'"),
        ("\n", "ranks no document"),
    ):
        path.write_text(text)
        with pytest.raises(cb.LogError, match=words):
            read_candidates(path, list_size=1)
    path.write_text(_lines("bm25"))
    with pytest.raises(cb.InputError, match="say how many of them a list has, list_size=10"):
        read_candidates(path)
    with pytest.raises(cb.LogError, match=r"list length|incomplete"):
        read_candidates({"a": {"q": {"d": 1.0, "e": 0.5}}, "b": {"q": {"d": 1.0}}}, list_size=2)
    with pytest.raises(cb.InputError, match="name the candidate first"):
        read_candidates({"q1": {"d1": 2.0}}, list_size=1)
    lists = pd.DataFrame({"context": [1], "candidate": ["a"], "item_0": [1]})
    with pytest.raises(cb.InputError, match="list_size is for runs"):
        read_candidates(lists, list_size=1)


def test_a_log_is_evaluated_for_runs_at_the_shell(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for name in RUNS:
        (folder / f"{name}.run").write_text(_lines(name))
    log = tmp_path / "log.csv"
    rows = [("r1", "q1", "d1", 1), ("r1", "q1", "d3", 0), ("r2", "q2", "d5", 1), ("r2", "q2", "d1", 0)]
    head = "request_id,context,doc_id,click,propensity\n"
    log.write_text(head + "".join(f"{r},{q},{d},{c},0.5\n" for r, q, d, c in rows))
    both = tmp_path / "both.run"
    both.write_text("".join(map(_lines, RUNS)))
    for candidates in (folder, both):
        args = ["evaluate", str(log), "-c", str(candidates), "--list-size", "2", "--json"]
        outcome = CliRunner().invoke(app, args)
        answer = json.loads(outcome.stdout)
        values = {one["name"]: one["value"] for one in answer["candidates"]}
        assert values == pytest.approx({"bm25": 1 / 0.5 / 2, "dense": 2 / 0.5 / 2}), outcome.stderr


def test_judgements_are_scores_with_their_error(tmp_path: Path) -> None:
    candidates = read_candidates(RUNS, list_size=2)
    qrels = {"q1": {"d1": 2, "d3": 1}, "q2": {"d5": 2, "d4": 0}, "q9": {"d1": 2}}
    told = judged_scores(candidates, qrels)
    assert told.names == ("bm25", "dense")
    table = np.array([[1.0, 1.5], [0.0, 1.0]])  # queries by candidates, a grade of 2 being worth 1
    np.testing.assert_allclose(told.scores, table.mean(axis=0))
    apart = table - table.mean(axis=1, keepdims=True)
    errors = apart.std(axis=0, ddof=1) / np.sqrt(2)
    np.testing.assert_allclose(told.standard_errors, errors)
    assert told.error == pytest.approx(float(np.sqrt((errors**2).mean())))
    assert told.queries == 2
    path = tmp_path / "qrels.txt"
    path.write_text("".join(f"{q} 0 {d} {g}\n" for q, ds in qrels.items() for d, g in ds.items()))
    rows = [(q, d, g) for q, ds in qrels.items() for d, g in ds.items()]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "label"])
    for source in (path, frame):
        np.testing.assert_array_equal(judged_scores(candidates, source).scores, told.scores)
    worth = judged_scores(candidates, qrels, worth={0: 0.0, 1: 0.1, 2: 0.3})
    np.testing.assert_allclose(worth.scores, [0.15, (0.1 + 0.3 + 0.3) / 2])
    with pytest.raises(cb.InputError, match="what grade 1 is worth"):
        judged_scores(candidates, qrels, worth={2: 1.0, 0: 0.0})
    with pytest.raises(cb.LogError, match="at least 2 judged queries"):
        judged_scores(candidates, {"q1": {"d1": 1}})
    problem, policies = candidates.problem(sparsity=1), candidates.policies()
    cb.AdaptiveComband(problem, policies, epsilon=0.1, prior_scores=told.scores, prior_error=told.error, seed=1)
