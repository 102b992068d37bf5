"""The same log as others estimate it: DuckDB's SQL, and obp where it is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from comband.evaluation import evaluate_log
from tests.evaluation.worlds import N_CONTEXTS, make_policies, write_log

NAMES = ["plain", "with space", "7"]


def _ours(folder: Path, lists: Path) -> list[float]:
    answer = evaluate_log(folder, lists, n_actions=20, sparsity=1)
    values = {candidate.name: candidate.value for candidate in answer.evaluation.candidates}
    return [values[name] for name in NAMES]


def test_values_are_those_of_sql(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    _, folder, lists = write_log(tmp_path)
    policies = make_policies()
    found = []
    for name in NAMES:
        own = policies[policies.names.index(name)].predict(np.arange(N_CONTEXTS))
        connection = duckdb.connect()
        connection.register("shown", pa.table({"context": np.arange(N_CONTEXTS), "own": own.tolist()}))
        ((value,),) = connection.sql(
            "SELECT sum(CASE WHEN list_contains(own, item) THEN reward / propensity ELSE 0 END) / count(DISTINCT id) "
            "FROM (SELECT id, context, unnest(items) AS item, unnest(rewards) AS reward, unnest(propensities) AS "
            f"propensity FROM read_parquet('{folder}/*/*.parquet')) JOIN shown USING (context)"
        ).fetchall()
        found.append(value)
    assert min(found) > 0
    np.testing.assert_allclose(_ours(folder, lists), found, rtol=1e-12)


def test_values_are_those_of_obp(tmp_path: Path) -> None:
    slates = pytest.importorskip("obp.ope.estimators_slate")
    whole, folder, lists = write_log(tmp_path)
    table, policies = pq.read_table(whole), make_policies()
    contexts = table["context"].to_numpy()
    items, rewards, chances = (np.array(table[name].to_pylist()) for name in ("items", "rewards", "propensities"))
    n, m = items.shape
    found = []
    for name in NAMES:
        own = policies[policies.names.index(name)].predict(contexts)
        shared = (items[:, :, None] == own[:, None, :]).any(axis=2)
        value = slates.SlateIndependentIPS(len_list=m).estimate_policy_value(
            slate_id=np.repeat(np.arange(n), m),
            reward=rewards.ravel(),
            position=np.tile(np.arange(m), n),
            pscore_item_position=chances.ravel(),
            evaluation_policy_pscore_item_position=shared.ravel().astype(float),
        )
        found.append(value)
    np.testing.assert_allclose(_ours(folder, lists), found, rtol=1e-12)
