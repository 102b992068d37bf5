"""Logs as other systems write them: rounds of different lengths, usual names of columns, row numbers as ids."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import comband as cb
from comband.commands.cli import app
from comband.evaluation.logs.vw import _anywhere, _Outcome
from comband.policies.shortened import ShortenedPolicies

Slot = tuple[list[int], list[float], float]


def _ccb(number: int, slots: list[Slot], inclusions: list[list[int]] | None = None) -> dict[str, Any]:
    described: list[dict[str, Any]] = [{"_id": str(k)} for k in range(len(slots))]
    for one, included in zip(described, inclusions or [], strict=False):
        one["_inc"] = included
    outcomes = [{"_label_cost": cost, "_a": actions, "_p": chances} for actions, chances, cost in slots]
    return {"EventId": f"e{number}", "c": {"_multi": [{}] * 4, "_slots": described}, "_outcomes": outcomes}


def _cb(number: int, action: int, chance: float, cost: float, **more: Any) -> dict[str, Any]:
    record = {"_label_cost": cost, "_label_probability": chance, "_label_Action": action, "_labelIndex": action - 1}
    c = {"_multi": [{"_tag": name} for name in ("tea", "rice", "salt")]}
    return {**record, "EventId": f"e{number}", "a": [action], "p": [chance], "c": c, **more}


def _write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _lists(path: Path, lists: dict[str, dict[str, list[Any]]]) -> Path:
    return _write(path, [{"context": context, "lists": some} for context, some in lists.items()])


def _values(reading: Any) -> dict[str, float]:
    return {one.name: one.value for one in cb.evaluate_log(reading).evaluation.candidates}


# ---- Vowpal Wabbit ---------------------------------------------------------------------------------------------------


def test_rounds_with_different_numbers_of_slots(tmp_path: Path) -> None:
    events = [
        _ccb(0, [([3, 1, 2, 0], [0.25] * 4, -1.0), ([0, 1, 2], [1 / 3] * 3, -0.5)]),
        _ccb(1, [([1, 0], [0.8, 0.2], -0.4)]),
        _ccb(2, [([0, 1], [0.5, 0.5], 0.0)]),
    ]
    log = _write(tmp_path / "ccb.dsjson", events)
    every = {"a": [3, 0], "b": [1, 2]}
    longer = {f"e{i}": every for i in range(3)}  # cut where the round has one slot
    exact = {"e0": every, "e1": {"a": [3], "b": [1]}, "e2": {"a": [3], "b": [1]}}
    expected = {"a": ((1 / (2 * 0.25) + 0.5) + 0.5 / (2 / 3)) / 3, "b": 0.4 / 0.8 / 3}
    for lists in (longer, exact):
        candidates = _lists(tmp_path / "lists.jsonl", lists)
        reading = cb.read_log(log, candidates, rounds=True)
        assert _values(reading) == pytest.approx(expected, rel=1e-12)
        usual = cb.evaluate_log(reading).evaluation.usual
        assert usual is not None
        assert dict(zip(usual.names, usual.estimates["IPS"], strict=True)) == pytest.approx(expected, rel=1e-12)
        assert cb.evaluate_log(log, candidates).evaluation == cb.evaluate_log(reading).evaluation  # as a shard
    with pytest.raises(cb.LogError, match="rounds of different lengths; a design is for lists of one length"):
        cb.evaluation.design_log(log, candidates, n_actions=4)
    short = {context: {name: one[:1] for name, one in lists.items()} for context, lists in longer.items()}
    with pytest.raises(cb.LogError, match=r"list length \(1\): row 1: 2 slots, but candidates' lists have 1"):
        cb.read_log(log, _lists(tmp_path / "short.jsonl", short))
    uneven = longer | {"e0": {"a": [3], "b": [1]}}
    with pytest.raises(cb.LogError, match=r"list length \(1\): row 1: 2 items, but candidates have 1 for context e0"):
        cb.read_log(log, _lists(tmp_path / "uneven.jsonl", uneven))


def test_candidates_whose_lists_differ_within_a_context_are_faulty(tmp_path: Path) -> None:
    lists = {"e0": {"a": [3, 0], "b": [1, 2]}, "e1": {"a": [3], "b": [1, 2]}}
    with pytest.raises(cb.LogError, match=r"list length \(1\): row 2: 1 items, 2 expected"):
        cb.read_candidates(_lists(tmp_path / "lists.jsonl", lists))
    alike = cb.read_candidates(_lists(tmp_path / "alike.jsonl", lists | {"e1": {"a": [3], "b": [1]}}))
    assert alike.sizes is not None
    assert alike.sizes.tolist() == [2, 1]
    with pytest.raises(cb.LogError, match=r"lists of 1 to 2 items.*policies show lists of one length"):
        alike.policies()


def test_a_plain_contextual_bandit_shows_one_item(tmp_path: Path) -> None:
    skipped = _cb(9, 1, 0.5, -1.0, _skipLearn=True)
    only = {key: value for key, value in _cb(3, 3, 0.2, -0.5).items() if not key.startswith("_label_A")}
    del only["_label_probability"]
    events = [_cb(1, 2, 0.25, -0.5), _cb(2, 1, 0.5, -0.0), skipped, only]
    log = _write(tmp_path / "cb.json", events)
    lists = _lists(tmp_path / "lists.jsonl", {f"e{i}": {"a": ["rice"], "b": ["salt"]} for i in (1, 2, 3)})
    reading = cb.read_log(log, lists)
    assert reading.format.name == "vw"
    assert _values(reading) == pytest.approx({"a": 0.5 / 0.25 / 3, "b": 0.5 / 0.2 / 3})
    longer = _lists(
        tmp_path / "longer.jsonl", {f"e{i}": {"a": ["rice", "tea"], "b": ["salt", "tea"]} for i in (1, 2, 3)}
    )
    assert _values(cb.read_log(log, longer)) == _values(reading)  # the first of each list
    for change, words in (
        ({"_label_Action": 0}, "_label_Action counts from 1, got 0"),
        ({"_label_Action": 4}, "action 3 is not among the 3 of _multi"),
        ({"_label_Action": "x"}, "_label_Action must be the number"),
        ({"_label_probability": None}, "has no _label_probability"),
        ({"_label_probability": 0.0}, r"outside \(0, 1\]"),
        ({"_label_cost": None}, "must be numbers"),
    ):
        with pytest.raises(cb.LogError, match=words):
            cb.read_log(_write(tmp_path / "bad.json", [events[0], {**events[1], **change}]), lists)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    "inclusions",
    [
        None,
        [[0, 1], [2, 3], [4, 5]],  # each slot has items of its own
        [[0, 1, 2, 3], [2, 3, 4], [0, 4, 5, 3]],
    ],
)
def test_weights_of_slots_are_unbiased_by_enumeration(inclusions: list[list[int]] | None, told: bool) -> None:
    """E[1/Q · 1[shown]] is 1 for every item that its last slot can show, over all lists that could be drawn."""
    rng = np.random.default_rng(5)
    sets = inclusions or [list(range(6))] * 3
    chance = rng.uniform(0.1, 1, size=(3, 6))
    if told:
        chance[0, sets[0][0]] = 0.0  # a slot may leave an item out that it has
    expected = np.zeros(6)
    for actions in itertools.product(*sets):
        if len(set(actions)) < 3:
            continue
        outcomes, probability = [], 1.0
        for k, action in enumerate(actions):
            left = [a for a in sets[k] if a not in actions[:k]]
            p = {a: chance[k, a] / sum(chance[k, b] for b in left) for a in left}
            probability *= p[action]
            possible = frozenset(a for a in left if p[a] > 0) if told else None
            included = frozenset(sets[k]) if inclusions else None
            outcomes.append(_Outcome(action, 1.0, max(p[action], 1e-300), possible, included))
        if probability > 0:
            weights = [1 / _anywhere(outcomes, k) for k in range(3)]
            np.add.at(expected, list(actions), probability * np.array(weights))
    last = [max(k for k in range(3) if item in sets[k]) for item in range(6)]
    shown = [float(chance[k, item] > 0) for item, k in enumerate(last)]
    np.testing.assert_allclose(expected, shown, rtol=1e-12)


def test_shorter_rounds_are_unbiased_by_enumeration() -> None:
    """Value, weight and loss of candidates over all lists of 1 to 3 places: as if the candidate's list were cut."""
    K, m = 5, 3
    problem = cb.Problem(K, m)
    own = np.array([[[4, 0, 2]], [[1, 4, 3]]])
    policies = ShortenedPolicies(cb.PolicySet.from_lists(own, problem), n_contexts=1, n_actions=K)
    reward = np.array([0.2, 0.9, 0.4, 0.0, 0.7])
    for k in (1, 2, 3):
        lists = np.array(list(itertools.permutations(range(K), k)))
        padded = np.concatenate([lists, np.tile(K + np.arange(k, m), (len(lists), 1))], axis=1)
        contexts = np.full(len(lists), m - k)
        inside = policies.contains(contexts, np.repeat(np.arange(len(lists)), m), padded.ravel().astype(np.int32))
        inside = inside.reshape(len(lists), m, 2)
        gained, chance = np.zeros((len(lists), m)), np.ones((len(lists), m))
        gained[:, :k], chance[:, :k] = reward[lists], k / K
        values = (inside * (gained / chance)[:, :, None]).sum(axis=1).mean(axis=0)
        np.testing.assert_allclose(values, reward[own[:, 0, :k]].sum(axis=1), rtol=1e-12)
        weights = (inside / chance[:, :, None]).sum(axis=1).mean(axis=0)
        np.testing.assert_allclose(weights, m, rtol=1e-12)  # what the check of propensities expects


# ---- usual click logs ------------------------------------------------------------------------------------------------

CLICKS = pd.DataFrame(
    {"position": [1, 2, 3, 1], "item_id": ["tea", "rice", "salt", "rice"], "click": [1, 0, 1, 0], "propensity": 0.25}
)
ROWS = pd.DataFrame(
    {
        "context": np.repeat(range(4), 2),
        "candidate": ["a", "b"] * 4,
        "items": [["tea", "salt", "rice"], ["rice", "tea", "salt"]] * 4,
    }
)


def test_a_click_log_is_known_by_all_its_columns() -> None:
    reading = cb.read_log(CLICKS, ROWS)
    assert reading.format.name == "one-slot"
    assert "item is item_id, reward is click" in reading.format.meaning
    assert _values(reading) == pytest.approx({"a": 1 / 0.25 / 4, "b": 1 / 0.25 / 4})
    named = CLICKS.rename(columns={"item_id": "SKU", "click": "is_click", "propensity": "pscore", "position": "rank"})
    assert _values(cb.read_log(named, ROWS)) == _values(reading)
    requests = CLICKS.assign(request_id=["r1", "r1", "r1", "r2"])
    with pytest.raises(cb.LogError, match=r"a column position does not tell .* --format impressions"):
        cb.read_log(requests, ROWS)
    with pytest.raises(cb.LogError, match=r"propensity must be numbers, got \['x'\]|pscore must be numbers"):
        cb.read_log(named.assign(pscore="x"), ROWS)
    both = CLICKS.assign(clicked=1)  # two columns may be the reward
    with pytest.raises(cb.LogError, match="is missing"):
        cb.read_log(both, ROWS)


def test_rows_of_one_request_go_together_by_usual_names() -> None:
    shown = {"request_id": [1, 1, 2, 2], "product_id": ["tea", "salt", "rice", "salt"], "clicked": [1, 0, 0, 1]}
    log = pd.DataFrame({**shown, "probability": 0.5, "context": [0, 0, 1, 1]})
    lists = pd.DataFrame({"context": [0, 1], "candidate": "a", "items": [["tea", "salt"], ["tea", "salt"]]})
    reading = cb.read_log(log, lists)
    assert (reading.format.name, reading.events.n_rounds) == ("impressions", 2)
    assert _values(reading) == pytest.approx({"a": 2.0})


def test_one_slot_at_position_three() -> None:
    one = pd.DataFrame({"context": range(4), "candidate": "a", "item_0": ["tea", "rice", "salt", "tea"]})
    assert _values(cb.read_log(CLICKS.assign(propensity=0.5), one)) == pytest.approx({"a": (1 + 1) / 0.5 / 4})
    third = pd.DataFrame({"round": range(4), "context": range(4), "item": CLICKS.item_id, "reward": CLICKS.click,
                          "propensity": 0.5, "position": 3})  # fmt: skip
    placed = cb.read_log(third, one, format="impressions-by-position")
    assert _values(placed) == pytest.approx({"a": (1 + 1) / 0.5 / 4})


def test_a_log_without_propensities_is_told_where_to_read() -> None:
    with pytest.raises(cb.LogError, match=r"shown \(item_id\) and what it brought \(click\).*howto_no_propensities"):
        cb.read_log(CLICKS.drop(columns="propensity"), ROWS)
    own = pd.DataFrame({"context": [0], "items": [["tea"]], "rewards": [[1.0]]})
    with pytest.raises(cb.LogError, match=r"propensities is missing.*For a log without propensities see docs/howto_no"):
        cb.read_log(own, pd.DataFrame({"context": [0], "candidate": "a", "items": [["tea"]]}))
    assert (Path(__file__).parents[3] / "docs/howto_no_propensities.md").exists()


# ---- shards ----------------------------------------------------------------------------------------------------------


def _shard(path: Path, seed: int, first: int, n: int = 40) -> None:
    rng = np.random.default_rng(seed)
    pd.DataFrame(
        {
            "id": first + np.arange(n),
            "context": rng.integers(0, 4, size=n),
            "items": [rng.permutation(4)[:2].tolist() for _ in range(n)],
            "rewards": rng.integers(0, 2, size=(n, 2)).astype(float).tolist(),
            "propensities": [[0.5, 0.5]] * n,
        }
    ).to_parquet(path)


@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_begin_anew_in_each_file_are_row_numbers(tmp_path: Path, first: int) -> None:
    lists = pd.DataFrame({"context": range(4), "candidate": "a", "items": [[0, 1]] * 4})
    for k in range(3):
        _shard(tmp_path / f"{k}.parquet", k, first)
    answer = cb.evaluate_log(tmp_path, cb.read_candidates(lists))
    assert answer.evaluation.rounds == 120
    assert "ids begin anew in each file" in answer.meaning
    apart = tmp_path.parent / f"{tmp_path.name} apart"  # not in the folder that is read
    apart.mkdir()
    for k in range(3):
        _shard(apart / f"{k}.parquet", k, 1000 * k + first)
    told = cb.evaluate_log(apart, cb.read_candidates(lists))
    assert "anew" not in told.meaning
    assert [one.value for one in told.evaluation.candidates] == [one.value for one in answer.evaluation.candidates]
    shutil.copy(tmp_path / "1.parquet", tmp_path / "4.parquet")  # the same file twice is no row numbers
    with pytest.raises(cb.LogError, match="duplicate id"):
        cb.evaluate_log(tmp_path, cb.read_candidates(lists))
    (tmp_path / "4.parquet").unlink()
    _shard(tmp_path / "4.parquet", 7, 20 + first)  # begins elsewhere, so ids are ids
    with pytest.raises(cb.LogError, match="duplicate id"):
        cb.evaluate_log(tmp_path, cb.read_candidates(lists))


# ---- OpenSearch User Behavior Insights -------------------------------------------------------------------------------


def _event(query: str, action: str, item: str, place: int, **more: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {"object": {"object_id": item}, "position": {"ordinal": place}}
    if "propensity" in more:
        attributes["propensity"] = more.pop("propensity")
        attributes["position"]["propensity"] = attributes["propensity"] / 2
    return {"query_id": query, "action_name": action, "event_attributes": attributes, **more}


def _ubi(propensity: float | None = 0.5) -> list[dict[str, Any]]:
    known = {} if propensity is None else {"propensity": propensity}
    index = {"index": {"_index": "ubi_events", "_id": "1"}}
    return [
        {"index": {"_index": "ubi_queries", "_id": "0"}},
        {"query_id": "q1", "user_query": "green tea", "client_id": "c1", "query_attributes": {}},
        {"query_id": "q2", "user_query": "salt", "client_id": "c2", "query_attributes": {}},
        {"query_id": "q3", "user_query": "nothing found", "client_id": "c2", "query_attributes": {}},
        index,
        _event("q1", "impression", "sencha", 0, **known),
        _event("q1", "click", "matcha", 1),
        index,
        _event("q1", "impression", "matcha", 1, **known),
        _event("q2", "impression", "sea salt", 0, **known),
        _event("q1", "impression", "matcha", 1, **known),  # drawn again
        _event("q2", "purchase", "sea salt", 0),
        {"query_id": "q2", "action_name": "scroll", "event_attributes": None},
    ]


UBI_LISTS = {
    "green tea": {"a": ["matcha", "hojicha"], "b": ["sencha", "hojicha"]},
    "salt": {"a": ["sea salt", "x"], "b": ["x", "y"]},
}


def test_user_behavior_insights(tmp_path: Path) -> None:
    log, lists = _write(tmp_path / "ubi.ndjson", _ubi()), _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    reading = cb.read_log(log, lists)
    assert (reading.format.name, reading.events.n_rounds) == ("ubi", 2)
    assert _values(reading) == pytest.approx({"a": 1 / 0.5 / 2, "b": 0.0})
    bought = cb.read_log(log, lists, format="ubi-purchase")
    assert _values(bought) == pytest.approx({"a": 1 / 0.5 / 2, "b": 0.0})
    both = cb.read_log(log, lists, format=cb.evaluation.logs.ubi_format({"click": 0.25, "purchase": 1.0}))
    assert _values(both) == pytest.approx({"a": 1.25 / 0.5 / 2, "b": 0.0})
    by_client = {"c1": UBI_LISTS["green tea"], "c2": UBI_LISTS["salt"]}
    keyed = cb.read_log(log, _lists(tmp_path / "clients.jsonl", by_client), context=["client_id"])
    assert _values(keyed) == _values(reading)
    outcome = CliRunner().invoke(app, ["evaluate", str(log), "-c", str(lists), "--json"])
    assert json.loads(outcome.stdout)["format"] == "ubi", outcome.stderr


@pytest.mark.parametrize("variant", ["search hits", "capitals", "other name"])
def test_user_behavior_insights_however_they_are_exported(variant: str, tmp_path: Path) -> None:
    records = [record for record in _ubi() if "index" not in record]
    for record in records if variant != "search hits" else ():
        attributes = record.get("event_attributes") or {}
        if variant == "capitals" and "action_name" in record:
            record["action_name"] = record["action_name"].upper()
        if variant == "other name" and "propensity" in attributes:
            attributes["propensity_score"] = attributes.pop("propensity")
    if variant == "search hits":
        records = [{"_index": "ubi", "_id": str(i), "_source": record} for i, record in enumerate(records)]
    log, lists = _write(tmp_path / "ubi.ndjson", records), _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    assert _values(cb.read_log(log, lists)) == pytest.approx({"a": 1 / 0.5 / 2, "b": 0.0})
    view = [{**one, "action_name": "view"} if one.get("action_name") == "impression" else one for one in _ubi()]
    with pytest.raises(
        cb.LogError, match=r'no event has the action_name "impression".* the action_names are view, click'
    ):
        cb.read_log(_write(tmp_path / "views.ndjson", view), lists)


def test_whole_numbers_with_a_decimal_point_are_whole_numbers(tmp_path: Path) -> None:
    """As pandas writes a column of numbers once one of them was missing."""
    rows = [(1, 7, 0), (2, 4, 1), (1, 4, 1), (2, 7, 0)]
    for name, point in (("whole", ""), ("point", ".0")):
        lines = [f"{y}{point},{k}{point},{r}{point},0.25" for k, y, r in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item_id,position,click,propensity_score", *lines]))
    (tmp_path / "lists.csv").write_text("candidate,item_1,item_2\na,4,7\nb,7,4\n")
    values = [_values(cb.read_log(tmp_path / f"{name}.csv", tmp_path / "lists.csv")) for name in ("whole", "point")]
    assert values[0] == values[1] == {"a": 1.0, "b": 1.0}


def test_user_behavior_insights_in_parquet(tmp_path: Path) -> None:
    events = [event for event in _ubi() if "action_name" in event]
    names = {"q1": "green tea", "q2": "salt"}
    frame = pd.DataFrame([{**event, "user_query": names[event["query_id"]]} for event in events])
    frame.to_parquet(tmp_path / "events.parquet")
    lists = _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    for log in (tmp_path / "events.parquet", frame):
        assert _values(cb.read_log(log, lists)) == pytest.approx({"a": 1.0, "b": 0.0})
    keyed = _lists(tmp_path / "keyed.jsonl", {key: UBI_LISTS[name] for key, name in names.items()})
    assert _values(cb.read_log(frame.drop(columns="user_query"), keyed)) == pytest.approx({"a": 1.0, "b": 0.0})


def test_user_behavior_insights_in_places(tmp_path: Path) -> None:
    events = [*_ubi(), _event("q2", "impression", "x", 1, propensity=0.5)]
    lists = _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    reading = cb.read_log(_write(tmp_path / "ubi.ndjson", events), lists, places="pairs")
    assert _values(reading) == pytest.approx({"a": 0.0, "b": 0.0})  # matcha was clicked in the second place
    swapped = {**UBI_LISTS, "green tea": {"a": ["hojicha", "matcha"], "b": ["sencha", "hojicha"]}}
    placed = cb.read_log(tmp_path / "ubi.ndjson", _lists(tmp_path / "swapped.jsonl", swapped), places="pairs")
    assert _values(placed) == pytest.approx({"a": 1 / 0.25 / 2, "b": 0.0})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.append(_event("q2", "click", "sugar", 3)), "query q2 has a reward of sugar, but no impression"),
        (lambda e: e.append(_event("q2", "impression", "x", 1)), "item x has no propensity"),
        (lambda e: e.append(_event("q2", "impression", "x", 1, propensity="y")), None),
        (lambda e: e.append({"query_id": "q2", "action_name": "click", "event_attributes": {}}), "no event_attributes"),
        (lambda e: e.extend(_event("q2", "impression", f"x{i}", i, propensity=0.5) for i in (1, 2)), "1 to 2 expected"),
        (lambda e: e.append(_event("q4", "impression", "x", 1, propensity=0.5)), "query q4 has no context"),
    ],
)
def test_faults_of_user_behavior_insights(tmp_path: Path, change: Any, words: str | None) -> None:
    events = _ubi()
    if words is None:
        events[5]["event_attributes"]["propensity"] = "half"
        words = "propensities must be numbers, got 'half'"
    else:
        change(events)
    lists = _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    with pytest.raises(cb.LogError, match=words):
        cb.read_log(_write(tmp_path / "ubi.ndjson", events), lists)


def test_user_behavior_insights_without_propensities(tmp_path: Path) -> None:
    lists = _lists(tmp_path / "lists.jsonl", UBI_LISTS)
    with pytest.raises(cb.LogError, match=r"no impression has event_attributes\.propensity\. Nothing can be promised"):
        cb.read_log(_write(tmp_path / "ubi.ndjson", _ubi(None)), lists)
    quiet = [event for event in _ubi() if event.get("action_name") != "impression"]
    with pytest.raises(cb.LogError, match="no event has the action_name"):
        cb.read_log(_write(tmp_path / "quiet.ndjson", quiet), lists)
    with pytest.raises(cb.InputError, match="rewards must map actions"):
        cb.evaluation.logs.ubi_format({"click": 2.0})
