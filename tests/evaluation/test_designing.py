"""A design from shards: that of the events for one shard, and one and the same for any workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import comband as cb
from comband.evaluation import design_log
from comband.evaluation import designing as module
from comband.evaluation.logs import shards
from comband.explore.design import Design
from comband.explore.solvers.sharded import EventColumns
from tests.evaluation.worlds import Scrambled, write_log


def figures(design: Design) -> list[Any]:
    names = ("value", "gap", "max_variance", "oracle_calls", "steps", "n_events", "certified", "message")
    return [design.mixture.weights.tolist(), *(getattr(design, name) for name in names)]


def test_one_shard_is_as_before(tmp_path: Path) -> None:
    whole, _, lists = write_log(tmp_path)
    reading = cb.read_log(whole, cb.read_candidates(lists, n_actions=20), sparsity=1)
    problem = cb.Problem(20, 3, sparsity=1)
    expected = cb.design_exploration(reading.events, reading.policies, problem=problem, floor=0.3)
    found, faults = design_log(whole, lists, n_actions=20, sparsity=1, floor=0.3)
    assert figures(found) == figures(expected)
    assert [fault.total for fault in faults] == [0, 0]


@pytest.mark.parametrize("most", [64, 4])
def test_many_shards_give_one_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    whole, folder, lists = write_log(tmp_path, n=6000)
    reading = cb.read_log(whole, cb.read_candidates(lists, n_actions=20))
    exact = cb.design_exploration(reading.events, reading.policies, problem=cb.Problem(20, 3))
    monkeypatch.setattr(shards, "SHARD_ROWS", 500)
    monkeypatch.setattr(module, "_MOST", most)
    monkeypatch.setattr("comband.explore.design.WARM_START_FROM", 500)  # by way of a tenth of the events, too
    first = design_log(folder, lists, n_actions=20)[0]
    for seed in range(3):
        assert figures(design_log(folder, lists, n_actions=20, client=Scrambled(seed))[0]) == figures(first)
    assert figures(design_log(folder, "tests.evaluation.worlds:make_policies")[0]) == figures(first)
    assert first.certified
    assert first.value - exact.value == pytest.approx(0, abs=2e-6)
    assert first.n_events == exact.n_events
    np.testing.assert_allclose(first.mixture.weights, exact.mixture.weights, atol=0.02)


def test_what_a_design_cannot_use_is_refused(tmp_path: Path) -> None:
    _, folder, lists = write_log(tmp_path)
    with pytest.raises(cb.InputError, match="must know all items"):
        design_log(folder, lists)
    columns = EventColumns(None, np.zeros(64), 3)  # type: ignore[arg-type]
    oracle = cb.RegressionOracle(Ridge(), cb.Problem(20, 3))
    with pytest.raises(cb.InputError, match="of an enumerated class"):
        cb.design_exploration(columns, oracle, problem=cb.Problem(20, 3))
    policies = cb.read_candidates(lists, n_actions=20).policies()
    with pytest.raises(cb.InputError, match="leave indices out"):
        cb.design_exploration(columns, policies, problem=cb.Problem(20, 3), indices=[0])
