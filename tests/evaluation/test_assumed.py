"""A log without propensities: an assumption, and how wrong it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import comband as cb
from comband.evaluation import evaluate_assuming


def _log(n: int = 300, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        device = "phone" if rng.uniform() < 0.5 else "desk"
        likely = [0.6, 0.2, 0.1, 0.1] if device == "phone" else [0.1, 0.2, 0.3, 0.4]
        for item in rng.choice(4, size=2, replace=False, p=likely):
            rows.append((f"r{i}", "all", f"i{item}", int(rng.uniform() < 0.1 + 0.2 * item), device))
    return pd.DataFrame(rows, columns=["request_id", "context", "item_id", "click", "device"])


LISTS = pd.DataFrame(
    {"context": "all", "candidate": ["low", "high", "mixed"], "items": [["i0", "i1"], ["i2", "i3"], ["i0", "i3"]]}
)


@pytest.mark.parametrize("by", [(), ("device",)])
def test_values_and_sensitivity_by_hand(by: tuple[str, ...]) -> None:
    log = _log()
    told = evaluate_assuming(log, LISTS, by=by)
    groups = log.groupby(list(by)) if by else [((), log)]
    parts = []
    for _, group in groups:
        rounds = group.request_id.nunique()
        parts.append(group.assign(q=group.item_id.map(group.item_id.value_counts() / rounds)))
    known = pd.concat(parts)
    worth = (known.click / known.q).groupby(known.item_id).sum()
    items = dict(zip(LISTS.candidate, LISTS["items"], strict=True))
    n = log.request_id.nunique()
    expected = {name: worth[shown].sum() / n for name, shown in items.items()}
    assert dict(zip(told.names, told.values, strict=True)) == pytest.approx(expected, rel=1e-12)
    assert told.leader == "high"
    assert told.covered == pytest.approx(1.0)
    by_name = dict(zip(told.names, told.factors, strict=True))
    assert by_name["low"] == pytest.approx(np.sqrt(worth[["i2", "i3"]].sum() / worth[["i0", "i1"]].sum()))
    assert by_name["mixed"] == pytest.approx(np.sqrt(worth["i2"] / worth["i0"]))  # i3 counts for both
    assert told.sensitivity == min(by_name["low"], by_name["mixed"])
    # The worst propensities within the factor: just below it the leader stays, just above it does not.
    for slack, stays in ((0.999, True), (1.001, False)):
        gamma = told.sensitivity * slack
        worst = {"i2": worth["i2"] / gamma, "i0": worth["i0"] * gamma, "i3": worth["i3"], "i1": worth["i1"]}
        if by_name["mixed"] == told.sensitivity:
            assert (worst["i2"] + worst["i3"] > worst["i0"] + worst["i3"]) is stays
    assert told.headline().startswith("No promise: the log has no propensities.")
    assert told.to_frame("pandas").candidate[0] == "high"


def test_what_was_never_shown_is_not_covered() -> None:
    lists = pd.concat([LISTS, pd.DataFrame({"context": ["all"], "candidate": ["new"], "items": [["i3", "never"]]})])
    told = evaluate_assuming(_log(), lists)
    assert dict(zip(told.names, told.covered, strict=True))["new"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda log: log.drop(columns="click"), {}, "column reward is missing"),
        (lambda log: log, {"by": ("browser",)}, "column browser is missing"),
        (lambda log: log, {"by": "device"}, "by must be the names of columns"),
        (lambda log: log.head(0), {}, "holds no row"),
    ],
)
def test_what_is_needed_is_said(change: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(cb.InputError, match=words):
        evaluate_assuming(change(_log()), LISTS, **options)


def test_without_a_reward_nothing_leads() -> None:
    told = evaluate_assuming(_log().assign(click=0), LISTS)
    assert told.headline().startswith("No promise, and no guess")
