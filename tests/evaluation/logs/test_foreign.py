"""Logs of other packages: small files as those packages write them, and values computed by hand."""

from __future__ import annotations

import csv
import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import interchange

import comband as cb
from tests.documents import ROOT

LISTS = "context,candidate,item_0,item_1\n"


def _values(reading: cb.evaluation.logs.LogReading) -> dict[str, float]:
    return dict(
        zip(
            reading.policies.names,
            cb.statistics.ValueSums.from_events(reading.events, reading.policies).means,
            strict=True,
        )
    )


# ---- Open Bandit dataset ---------------------------------------------------------------------------------------------

OBD = """,timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0
0,2019-11-24 00:00:04.800539+00:00,14,2,1,0.0125,cef3390ed299c09874189c387777674a,0.0
1,2019-11-24 00:00:05.798198+00:00,27,1,0,0.0125,81ce123cbb5bd8ce818f60fb3586bba5,0.0
2,2019-11-24 00:00:10.052345+00:00,27,1,1,0.02,cef3390ed299c09874189c387777674a,0.0
"""


def test_open_bandit_rows_are_rounds_of_one_slot(tmp_path: Path) -> None:
    log, lists = tmp_path / "all.csv", tmp_path / "lists.csv"
    log.write_text(OBD)
    # "right" has item 14 in slot 2 of context 0 and 27 in slot 1 of context 2; "swapped" has them in the wrong slots.
    lists.write_text(LISTS + "".join(f"{c},right,27,14\n{c},swapped,14,27\n" for c in range(3)))
    reading = cb.read_log(log, cb.read_candidates(lists, n_actions=80))
    assert reading.format.name == "obd"
    assert _values(reading) == {"right": pytest.approx((1 / 0.0125 + 1 / 0.02) / 3), "swapped": 0.0}
    assert reading.max_reward == 1.0


def test_open_bandit_contexts_from_columns(tmp_path: Path) -> None:
    log, lists = tmp_path / "all.csv", tmp_path / "lists.csv"
    log.write_text(OBD)
    users = ("cef3390ed299c09874189c387777674a", "81ce123cbb5bd8ce818f60fb3586bba5")
    lists.write_text(LISTS + f"{users[0]},a,27,14\n{users[1]},a,1,2\n")
    reading = cb.read_log(log, cb.read_candidates(lists), context=["user_feature_0"])
    assert _values(reading)["a"] == pytest.approx((1 / 0.0125 + 1 / 0.02) / 3)


@pytest.mark.parametrize("other", ["39", "2147483646", "tea"])
def test_rewards_of_items_that_no_candidate_shows_are_nobodys(tmp_path: Path, other: str) -> None:
    items = ("coffee", "milk") if other == "tea" else ("0", "1")
    lists = tmp_path / "lists.csv"
    lists.write_text(LISTS + "".join(f"{c},a,{items[0]},{items[1]}\n{c},b,{items[1]},{items[0]}\n" for c in range(3)))
    obd = tmp_path / "obd.csv"
    rows = [(other, 1, 1), (items[0], 1, 1), (other, 2, 0)]
    obd.write_text("item_id,position,click,propensity_score\n" + "".join(f"{i},{k},{r},0.5\n" for i, k, r in rows))
    own = tmp_path / "own.csv"
    head = "context,item_0,item_1,reward_0,reward_1,propensity_0,propensity_1\n"
    shown = [f"0,{other},{items[0]},1,1", f"1,{items[1]},{other},0,1", f"2,{other},{items[0]},1,0"]
    own.write_text(head + "".join(f"{row},0.5,0.5\n" for row in shown))
    candidates = cb.read_candidates(lists)  # read once: no log changes them for the next
    for log, expected in ((own, {"a": 2 / 3, "b": 2 / 3}), (obd, {"a": 2 / 3, "b": 0.0})):
        reading = cb.read_log(log, candidates)
        assert _values(reading) == pytest.approx(expected)
        assert {c.name: c.value for c in cb.evaluate_log(reading).evaluation.candidates} == pytest.approx(expected)


def test_open_bandit_position_outside_the_lists(tmp_path: Path) -> None:
    log, lists = tmp_path / "all.csv", tmp_path / "lists.csv"
    log.write_text(OBD.replace("14,2,1,0.0125", "14,3,1,0.0125"))
    lists.write_text(LISTS + "".join(f"{c},a,27,14\n" for c in range(3)))
    with pytest.raises(cb.LogError, match=r"row 1: position 3 is not among 1 … 2"):
        cb.read_log(log, cb.read_candidates(lists))


# ---- obp slates ------------------------------------------------------------------------------------------------------


def _slates(pscore: str, values: list[float]) -> str:
    header = f"slate_id,position,action,reward,pscore,{pscore}\n"
    rows = [(0, 0, 5, 1, 0.1), (0, 1, 6, 0, 0.1), (1, 0, 6, 1, 0.1), (1, 1, 5, 1, 0.1)]
    return header + "".join(f"{s},{k},{a},{r},{p},{q}\n" for (s, k, a, r, p), q in zip(rows, values, strict=True))


def test_obp_slates_by_position_equal_its_independent_estimator(tmp_path: Path) -> None:
    log, lists = tmp_path / "slates.csv", tmp_path / "lists.csv"
    log.write_text(_slates("pscore_item_position", [0.5, 0.25, 0.2, 0.4]))
    lists.write_text(LISTS + "0,a,5,6\n1,a,5,6\n0,b,6,5\n1,b,6,5\n")
    reading = cb.read_log(log, cb.read_candidates(lists))
    assert reading.format.positional
    # a: item 5 in slot 0 of slate 0; b: item 6 in slot 0 and item 5 in slot 1 of slate 1
    assert _values(reading) == {"a": pytest.approx(1 / 0.5 / 2), "b": pytest.approx((1 / 0.2 + 1 / 0.4) / 2)}


def test_obp_slates_by_cascade_count_an_item_anywhere(tmp_path: Path) -> None:
    log, lists = tmp_path / "slates.csv", tmp_path / "lists.csv"
    log.write_text(_slates("pscore_cascade", [0.5, 0.1, 0.2, 0.1]))
    lists.write_text(LISTS + "0,a,6,5\n1,a,6,5\n")
    reading = cb.read_log(log, cb.read_candidates(lists))
    weights = 1 / cb.sequential_propensities([[0.5, 0.2], [0.2, 0.5]])
    assert _values(reading)["a"] == pytest.approx((weights[0, 0] + weights[1, 0] + weights[1, 1]) / 2)


def test_obp_needs_more_than_the_probability_of_the_slate(tmp_path: Path) -> None:
    log, lists = tmp_path / "slates.csv", tmp_path / "lists.csv"
    log.write_text("slate_id,position,action,reward,pscore\n0,0,5,1,0.1\n")
    lists.write_text(LISTS + "0,a,5,6\n")
    with pytest.raises(cb.LogError, match="does not tell the probability of its items"):
        cb.read_log(log, cb.read_candidates(lists))


def test_obp_slates_over_batch_borders_and_incomplete_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, m = 50, 3
    rng = np.random.default_rng(1)
    columns = {
        "slate_id": np.repeat(np.arange(n), m),
        "position": np.tile(np.arange(m), n),
        "action": rng.integers(0, 4, size=n * m),
        "reward": rng.integers(0, 2, size=n * m),
        "pscore_item_position": rng.uniform(0.2, 1, size=n * m),
    }
    lists = tmp_path / "lists.csv"
    lists.write_text(
        "context,candidate,item_0,item_1,item_2\n" + "".join(f"{c},a,0,1,2\n{c},b,3,2,1\n" for c in range(n))
    )
    candidates = cb.read_candidates(lists)
    pq.write_table(pa.table(columns), tmp_path / "slates.parquet")
    whole = _values(cb.read_log(tmp_path / "slates.parquet", candidates))
    hit = columns["action"].reshape(n, m) == [0, 1, 2]
    expected = (hit * (columns["reward"] / columns["pscore_item_position"]).reshape(n, m)).sum() / n
    assert whole["a"] == pytest.approx(expected)
    monkeypatch.setattr("comband.evaluation.logs.tables.BATCH_ROWS", 7)
    assert _values(cb.read_log(tmp_path / "slates.parquet", candidates)) == whole
    short = {name: np.delete(column, [10, 80]) for name, column in columns.items()}
    pq.write_table(pa.table(short), tmp_path / "short.parquet")
    reading = cb.read_log(tmp_path / "short.parquet", candidates, on_error="skip")
    assert reading.faults.counts == {"incomplete slate": 2}
    assert reading.events.n_rounds == n - 2


# ---- Vowpal Wabbit ---------------------------------------------------------------------------------------------------


def _event(number: int, slots: list[tuple[list[int], list[float], float]], tags: bool = True) -> dict[str, Any]:
    drinks = ["Mocha", "Latte", "Cappuccino", "Americano"]
    return {
        "Timestamp": "2021-04-26T17:23:28.1726275",
        "Version": "1",
        "EventId": f"event {number}",
        "c": {
            "FromUrl": [{"weather": "sunny"}],
            "User": {"id": number % 2},
            "_multi": [{**({"_tag": name} if tags else {}), "i": {"id": name}} for name in drinks],
            "_slots": [{"_id": "Main"}, {"_id": "Side"}],
        },
        "_outcomes": [
            {"_label_cost": cost, "_id": f"slot {k}", "_a": actions, "_p": probabilities, "_o": []}
            for k, (actions, probabilities, cost) in enumerate(slots)
        ],
        "VWState": {"m": "N/A"},
    }


def _write_events(path: Path, events: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_vowpal_wabbit_ccb(tmp_path: Path) -> None:
    log, lists = tmp_path / "ccb.dsjson", tmp_path / "lists.csv"
    third = 0.33333334
    events = [
        _event(1, [([3, 1, 2, 0], [0.25] * 4, -0.0), ([0, 1, 2], [third] * 3, -0.4)]),
        _event(2, [([1, 0, 2, 3], [0.25] * 4, -0.6), ([3, 2, 0], [third] * 3, 0.0)]),
    ]
    _write_events(log, events)
    lists.write_text(LISTS + "event 1,a,Mocha,Latte\nevent 2,a,Mocha,Latte\n")
    reading = cb.read_log(log, cb.read_candidates(lists))
    assert reading.format.name == "vw"
    # Mocha in the second slot of event 1: 1/(2p); Latte in the first slot of event 2: 1/(2p) + 1/2
    expected = (0.4 / (2 * third) + 0.6 * (1 / (2 * 0.25) + 0.5)) / 2
    assert _values(reading)["a"] == pytest.approx(expected)


def test_vowpal_wabbit_by_number_and_by_field(tmp_path: Path) -> None:
    log, lists = tmp_path / "ccb.dsjson", tmp_path / "lists.csv"
    slots: list[tuple[list[int], list[float], float]] = [([3], [0.25], -1.0), ([0], [0.5], 0.0)]
    _write_events(log, [_event(i, slots, tags=False) for i in range(4)])
    lists.write_text(LISTS + "0,a,3,2\n1,a,1,2\n")
    reading = cb.read_log(log, cb.read_candidates(lists, n_actions=4), context=["c.User.id"])
    assert _values(reading)["a"] == pytest.approx((1 / (2 * 0.25) + 0.5) / 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.pop("_outcomes"), "missing value (1): row 2: no _outcomes and no _label_Action"),
        (lambda e: e["_outcomes"].extend([{}]), "list length (1): row 2: 3 slots, but candidates' lists have 2"),
        (lambda e: e["_outcomes"][0].pop("_p"), "missing propensity (1): row 2: action 3 has no _p"),
        (lambda e: e["_outcomes"][0].update(_p=[0.0]), "wrong propensity (1): row 2: probability 0.0 of action 3"),
        (lambda e: e["_outcomes"][0].update(_p=[1.5]), "wrong propensity (1): row 2: probability 1.5 of action 3"),
        (lambda e: e["_outcomes"][0].update(_label_cost="x"), "wrong type (1): row 2: _p and _label_cost"),
        (lambda e: e["_outcomes"][0].update(_a=["x"]), "wrong type (1): row 2: _a must start with"),
        (lambda e: e["_outcomes"][0].update(_a=[9]), "unknown item (1): row 2: action 9 is not among the 4"),
        (lambda e: e["_outcomes"][0].update(_label_cost=0.5), "wrong reward (1): row 2: reward -0.5 of item"),
        (lambda e: e["_outcomes"][1].update(_a=[3]), "repeated item (1): row 2: the list"),
        (lambda e: e.update(pdrop=0.5), "thinned log (1): row 2: pdrop is 0.5"),
        (lambda e: e.update(EventId="event 0"), "duplicate id (1): row 2: id event 0 came before"),
    ],
)
def test_vowpal_wabbit_faults(tmp_path: Path, change: Any, message: str) -> None:
    log, lists = tmp_path / "ccb.json", tmp_path / "lists.csv"
    slots: list[tuple[list[int], list[float], float]] = [([3], [0.25], -1.0), ([0], [0.5], 0.0)]
    events = [_event(i, slots) for i in range(3)]
    change(events[1])
    _write_events(log, events)
    lists.write_text(LISTS + "".join(f"event {i},a,Mocha,Latte\n" for i in range(3)))
    with pytest.raises(cb.LogError) as refusal:
        cb.read_log(log, cb.read_candidates(lists), format="vw")
    assert message in str(refusal.value)
    assert cb.read_log(log, cb.read_candidates(lists), format="vw", on_error="skip").events.n_rounds == 2


# ---- columns that are not there --------------------------------------------------------------------------------------

SLATES = "slate_id,position,action,reward,pscore_item_position\n0,0,5,1,0.5\n0,1,6,0,0.5\n"
CCB = json.dumps(_event(0, [([3], [0.25], -1.0), ([0], [0.5], 0.0)])) + "\n"
COLUMNS = [
    (
        "obd",
        "auto",
        "log.csv",
        OBD.replace("propensity", "propensty"),
        [],
        "propensity_score",
        "propensty_score",
    ),
    ("obd context", "auto", "log.csv", OBD, ["user_featur_0"], "user_featur_0", "user_feature_0"),
    ("obp", "auto", "log.csv", SLATES.replace("slate_id", "slate"), [], "slate_id", "slate"),
    ("obp pscore", "auto", "log.csv", SLATES.replace("pscore_item_", "pscore_"), [], "pscore_item_position", None),
    ("vw outcomes", "vw", "log.dsjson", CCB.replace("_outcomes", "_outcome"), [], "_outcomes", "_outcome"),
    ("vw probability", "auto", "log.dsjson", CCB.replace("_p", "_chance"), [], "_p", None),
    ("vw cost", "auto", "log.dsjson", CCB.replace("_label_cost", "_labelcost"), [], "_label_cost", "_labelcost"),
    ("vw context", "auto", "log.dsjson", CCB, ["c.Usr.id"], "c.Usr.id", "c.User.id"),
]


@pytest.mark.parametrize("on_error", ["refuse", "skip"])
@pytest.mark.parametrize(
    ("format", "name", "text", "context", "absent", "likely"), [c[1:] for c in COLUMNS], ids=[c[0] for c in COLUMNS]
)
def test_a_misspelt_column_is_told_once(
    tmp_path: Path,
    format: str,
    name: str,
    text: str,
    context: list[str],
    absent: str,
    likely: str | None,
    on_error: str,
) -> None:
    log, lists = tmp_path / name, tmp_path / "lists.csv"
    log.write_text(text)
    lists.write_text(LISTS + "0,a,27,14\n")
    with pytest.raises(cb.LogError) as refusal:
        cb.read_log(log, cb.read_candidates(lists), format=format, context=context, on_error=on_error)
    assert f"{name}: column {absent} is missing" in str(refusal.value)
    assert likely is None or str(refusal.value).endswith(f"did you mean {likely}?")


def test_slates_and_open_bandit_rows_may_be_json_lines(tmp_path: Path) -> None:
    lists = tmp_path / "lists.csv"
    lists.write_text(LISTS + "".join(f"{c},a,27,14\n{c},b,5,6\n" for c in range(3)))
    for number, text in enumerate((OBD, SLATES)):
        plain, same = tmp_path / f"{number}.csv", tmp_path / f"{number}.jsonl"
        plain.write_text(text)
        rows = list(csv.DictReader(text.splitlines()))
        numbers = [{k: float(v) if k in {"click", "reward"} else v for k, v in row.items()} for row in rows]
        _write_events(same, numbers)
        candidates = cb.read_candidates(lists)
        assert _values(cb.read_log(same, candidates)) == _values(cb.read_log(plain, candidates))


# ---- against the packages themselves ---------------------------------------------------------------------------------


def test_the_comparison_says_which_packages_are_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("obp", "obp.dataset", "vowpalwabbit"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys, "argv", ["interchange", "--quick"])
    assert interchange.main() == 0
    said = capsys.readouterr().out
    assert "left out, obp is not there" in said
    assert "left out, vowpalwabbit is not there" in said


def test_every_benchmark_is_on_the_page_that_lists_them() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for path in (ROOT / "benchmarks").glob("[!_]*.py"):
        assert f"`{path.stem}`" in page


# ---- lists drawn slot by slot ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3])
def test_sequential_weights_are_unbiased_for_every_item(m: int) -> None:
    """All lists of 4 items with their exact probabilities: each item's weight is 1 on average."""
    strengths = np.array([5.0, 1.0, 0.3, 2.0])
    expected = np.zeros(4)
    for shown in permutations(range(4), m):
        left, conditional = strengths.sum(), []
        for item in shown:
            conditional.append(strengths[item] / left)
            left -= strengths[item]
        weights = 1 / cb.sequential_propensities([conditional])[0]
        np.add.at(expected, list(shown), np.prod(conditional) * weights)
    np.testing.assert_allclose(expected, 1.0, rtol=1e-12)
