"""Data frames in and out, of three libraries."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import comband as cb
from comband.certify.forecasts import by_theorem
from comband.page.contexts import concat_contexts, context_digests, n_contexts, private_contexts, take_contexts
from comband.page.frames import make_frame, pick_columns
from tests.evaluation.logs.worlds import PROBLEM, small_log

KINDS: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _log(rounds: cb.Rounds) -> dict[str, Any]:
    decisions = rounds.decisions
    return {
        "id": decisions.ids,
        "context": decisions.contexts,
        "items": decisions.lists.tolist(),
        "rewards": rounds.rewards.tolist(),
        "propensities": decisions.propensities.tolist(),
    }


def _lists(policies: cb.PolicySet) -> dict[str, Any]:
    shown = policies.predict(np.arange(30))
    return {"context": np.arange(30), **{name: shown[:, p].tolist() for p, name in enumerate(policies.names)}}


def test_a_log_in_a_frame_says_what_the_rounds_say(kind: str) -> None:
    rounds, policies = small_log()
    log, lists = KINDS[kind](_log(rounds)), KINDS[kind](_lists(policies))
    expected = cb.evaluate(rounds, policies, max_reward=1.0, min_propensity=0.06)
    assert cb.evaluate(log, lists, max_reward=1.0, min_propensity=0.06) == expected
    reading = cb.read_log(log, cb.read_candidates(lists), sparsity=1)
    assert cb.evaluate_log(reading, min_propensity=0.06).evaluation == expected


def test_policies_get_the_frames_own_kind(kind: str) -> None:
    rounds, policies = small_log()
    asked = []

    class Looker:
        def __init__(self, p: int) -> None:
            self.p = p

        def predict(self, X: Any) -> Any:
            asked.append(type(X))
            return policies[self.p].predict(np.asarray(X["user"]).astype(np.int64))

    columns = _log(rounds)
    columns["user"] = columns.pop("context")
    log = KINDS[kind](columns)
    mine = cb.PolicySet([Looker(p) for p in range(5)], names=policies.names)
    answer = cb.evaluate(log, mine, max_reward=1.0, min_propensity=0.06, features=["user"])
    expected = cb.evaluate(rounds, policies, max_reward=1.0, min_propensity=0.06)
    assert answer.candidates == expected.candidates
    assert set(asked) == {type(log)}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "features must name the columns"),
        ({"features": ["age"]}, "features names column 'age'; the data frame has: id, context"),
        ({"features": "user"}, "must be the names of columns"),
        ({"features": ["context"], "places": "pairs"}, "places and law are not for a data frame"),
        ({"features": ["context"], "format": "obd"}, "column click is missing"),
    ],
)
def test_frames_that_cannot_be_evaluated(settings: dict[str, Any], words: str) -> None:
    rounds, policies = small_log()
    with pytest.raises(cb.InputError, match=words):
        cb.evaluate(pd.DataFrame(_log(rounds)), policies, max_reward=1.0, **settings)
    with pytest.raises(cb.InputError, match="are for a log in a data frame"):
        cb.evaluate(rounds, policies, max_reward=1.0, features=["context"])
    with pytest.raises(cb.InputError, match="max_reward must say"):
        cb.evaluate(rounds, policies)


def test_a_column_of_mixed_things_is_refused_in_words() -> None:
    rounds, policies = small_log(20)
    columns = _log(rounds)
    columns["context"] = [{"a": 1}, *columns["context"][1:].tolist()]
    with pytest.raises(cb.InputError, match="columns of one type each"):
        cb.evaluate(pd.DataFrame(columns), policies, max_reward=1.0, features=["id"])


def test_candidates_come_from_any_frame_with_any_text() -> None:
    """Polars hands over views of text, and categories of them, which Arrow can neither take nor join."""
    rows: dict[str, Any] = {"context": [1, 1, 2, 2], "candidate": ["a", "b", "a", "b"]}
    columns = {**rows, "item_0": ["x", "y", "y", "z"], "item_1": ["y", "x", "z", "x"]}
    lists = {**rows, "items": [["x", "y"], ["y", "x"], ["y", "z"], ["z", "x"]]}
    expected = cb.read_candidates(pd.DataFrame(columns))
    categories = pl.DataFrame(columns).with_columns(pl.col("candidate", "item_0", "item_1").cast(pl.Categorical))
    nested = pl.DataFrame(lists).with_columns(pl.col("items").cast(pl.List(pl.Categorical)))
    for frame in (pl.DataFrame(columns), categories, pl.DataFrame(lists), nested, pa.table(lists)):
        found = cb.read_candidates(frame)
        assert found.names == expected.names
        assert found.lists.tolist() == expected.lists.tolist()


def test_contexts_are_taken_joined_and_printed_alike() -> None:
    for columns in ({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}, {"a": [1, 2, 3], "b": ["x", "y", "z"]}):
        frames = [make(columns) for make in KINDS.values()]
        digests = [context_digests(frame).tolist() for frame in frames]
        assert digests[0] == digests[1] == digests[2]
        for frame, own in zip(frames, digests, strict=True):
            assert n_contexts(frame) == 3
            for index, rows in (
                (np.array([2, 0]), [2, 0]),
                (np.array([True, False, True]), [0, 2]),
                (slice(1, 3), [1, 2]),
            ):
                taken = take_contexts(frame, index)
                assert type(taken) is type(frame)
                assert context_digests(taken).tolist() == [own[i] for i in rows]
            assert context_digests(concat_contexts([frame, frame])).tolist() == own * 2
            assert context_digests(private_contexts(frame)).tolist() == own


def test_single_columns_are_contexts_too() -> None:
    ids = [pd.Series([3, 1, 2]), pl.Series([3, 1, 2]), pa.chunked_array([[3, 1, 2]])]
    for column in ids:
        assert n_contexts(column) == 3
        assert context_digests(column).tolist() == context_digests(np.array([3, 1, 2])).tolist()
        assert np.asarray(take_contexts(column, np.array([1]))).tolist() == [1]
        assert n_contexts(concat_contexts([column, column])) == 6


def test_learners_take_frames(kind: str) -> None:
    problem = cb.Problem(n_actions=6, list_size=2, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)

    class OfFrame:
        def __init__(self, shift: int) -> None:
            self.shift = shift

        def predict(self, X: Any) -> Any:
            return (np.asarray(X["a"])[:, None].astype(int) + np.arange(2) + self.shift) % 6

    learner = cb.AdaptiveComband(problem, cb.PolicySet([OfFrame(0), OfFrame(3)]), epsilon=0.3, delta=0.1, seed=1)
    frame = KINDS[kind]({"a": np.arange(50) % 6, "b": ["x"] * 50})
    decisions = learner.ask(frame)
    learner.tell(decisions, world.sample(50, np.random.default_rng(1)).answer(decisions.lists))
    assert learner.rounds == 50


def test_rounds_may_be_made_of_frames(kind: str) -> None:
    rounds, _ = small_log()
    decisions = rounds.decisions
    made = [
        KINDS[kind]({f"{j}": values[:, j] for j in range(3)})
        for values in (decisions.lists, rounds.rewards, decisions.propensities)
    ]
    again = cb.Rounds.from_log(
        KINDS[kind]({"user": decisions.contexts}), lists=made[0], rewards=made[1], propensities=made[2], problem=PROBLEM
    )
    assert np.array_equal(again.decisions.lists, decisions.lists)
    assert np.array_equal(again.rewards, rounds.rewards)


def test_results_have_frames_and_tables(kind: str) -> None:
    rounds, policies = small_log()
    answer = cb.evaluate(rounds, policies, max_reward=1.0, min_propensity=0.06)
    design = cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=PROBLEM, floor=0.5)
    problem = cb.Problem(n_actions=6, list_size=2, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    learner = cb.AdaptiveComband(problem, world.candidates(4, seed=2), epsilon=0.3, delta=0.1, seed=1)
    outcome = cb.run(learner, world, batch_size=200, max_rounds=400)
    for result, first in (
        (answer, "candidate"),
        (design, "candidate"),
        (outcome, "rounds"),
        (outcome.result, "candidate"),
    ):
        frame = result.to_frame(kind)
        assert type(frame) is type(KINDS[kind]({"a": [1]}))
        table = pa.table(frame)
        assert table.column_names[0] == first
        assert table.num_rows == len(result.columns()[first])
        assert result._repr_html_().count("<tr>") == min(table.num_rows, 20) + 1
    assert pa.table(answer.to_frame(kind))["value"].to_pylist() == [c.value for c in answer.candidates]
    shown = pa.table(rounds.to_frame(kind))
    assert shown["reward"].to_pylist() == rounds.rewards.ravel().tolist()
    assert shown["position"].to_pylist()[:4] == [1, 2, 3, 1]
    with pytest.raises(cb.InputError, match="backend must be 'pandas', 'polars' or 'pyarrow'"):
        answer.to_frame("excel")


def test_names_are_escaped_in_notebooks() -> None:
    problem = cb.Problem(n_actions=3, list_size=1)
    evil = "<script>alert(1)</script>\x1b[31m"
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem, names=[evil, "b"])
    log = cb.Rounds.from_log(
        np.zeros(30, dtype=int), lists=[[i % 3] for i in range(30)], rewards=[[1.0]] * 30, problem=problem,
        propensities=[[1 / 3]] * 30,
    )  # fmt: skip
    page = cb.evaluate(log, policies, max_reward=1.0, min_propensity=1 / 3)._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_long_tables_say_what_they_leave_out() -> None:
    lists = np.arange(30)[:, None, None]
    policies = cb.PolicySet.from_lists(lists, cb.Problem(n_actions=30, list_size=1))
    log = cb.Rounds.from_log(
        np.zeros(3, dtype=int), lists=[[0]] * 3, rewards=[[1.0]] * 3, propensities=[[0.5]] * 3,
        problem=cb.Problem(n_actions=30, list_size=1),
    )  # fmt: skip
    assert "… and 10 more rows" in cb.evaluate(log, policies, max_reward=1.0)._repr_html_()


def test_the_first_library_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_frame({"a": [1]}), pd.DataFrame)
    monkeypatch.setattr("comband.page.frames.find_spec", lambda name: None if name == "pandas" else name)
    assert isinstance(make_frame({"a": [1]}), pl.DataFrame)
    monkeypatch.setattr("comband.page.frames.find_spec", lambda name: None)
    with pytest.raises(cb.InputError, match=r"'comband\[logs\]', or '\.\[logs\]' in a clone"):
        make_frame({"a": [1]})


def test_columns_are_picked_in_the_frames_own_kind(kind: str) -> None:
    frame = KINDS[kind]({"a": [1], "b": [2], "c": [3]})
    picked = pick_columns(frame, ["c", "a"], "features")
    assert type(picked) is type(frame)
    assert pa.table(picked).column_names == ["c", "a"]


def test_where_a_learner_stands_and_what_is_forecast_are_rows() -> None:
    problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    learner = cb.AdaptiveComband(problem, shop.candidates(4, seed=2), epsilon=0.1, seed=3)
    cb.run(learner, shop, batch_size=500, max_rounds=1000)
    status = learner.status()
    (row,) = status.to_frame("pandas").to_dict("records")
    assert row["rounds"] == status.rounds
    assert row["leader"] == status.leader
    assert row["dropped"] == len(status.dropped)
    assert "<table>" in status._repr_html_()
    told = by_theorem(problem, n_policies=5, click_rate=0.1, epsilon=0.1, delta=0.05)
    assert [one.to_frame("polars")["rounds"][0] for one in told] == [one.rounds for one in told]


@pytest.mark.parametrize("where", ["log", "lists", "contexts"])
def test_lazy_frames_are_to_be_collected(where: str) -> None:
    log, lists = pl.DataFrame(TEA).lazy(), pl.DataFrame(TEA_LISTS).lazy()
    calls: dict[str, Any] = {
        "log": lambda: cb.evaluate(log, lists.collect()),
        "lists": lambda: cb.evaluate(log.collect(), lists),
        "contexts": lambda: cb.PolicySet([cb.ConstantPolicy([0, 1, 2], PROBLEM)]).predict(log),
    }
    with pytest.raises(cb.InputError, match=r"LazyFrame has no rows yet: collect it first"):
        calls[where]()


TEA = {"round": ["r1", "r1"], "context": [1, 1], "item": ["tea", "salt"], "reward": [1, 0], "propensity": [0.5, 0.5]}
TEA_LISTS = {"context": [1, 1], "candidate": ["old", "new"], "item_0": ["tea", "rice"], "item_1": ["salt", "salt"]}


@pytest.mark.parametrize("column", ["round", "context"])
@pytest.mark.parametrize("when", [datetime.date(2024, 1, 1), pd.Timestamp("2024-01-01 10:00")])
def test_dates_and_times_are_keys(column: str, when: Any) -> None:
    log, lists = pd.DataFrame(TEA).assign(**{column: when}), pd.DataFrame(TEA_LISTS)
    if column == "context":
        lists["context"] = when
    assert cb.evaluate(log, lists).best.name == "old"
    assert cb.evaluate(pl.from_pandas(log), lists).best.name == "old"  # in other parts of a second
    other = pd.Timestamp("2024-01-01 10:00:01")
    if column == "context":
        with pytest.raises(cb.LogError, match="no candidate has a list for context 2024-01-01 10:00:01"):
            cb.evaluate(log.assign(context=other), lists)


def test_times_are_no_items() -> None:
    log, lists = pd.DataFrame(TEA).assign(item=datetime.time(10, 0)), pd.DataFrame(TEA_LISTS)
    with pytest.raises(cb.LogError, match=r"item must be whole numbers or text.*make text of dates and times"):
        cb.evaluate(log, lists)


def test_a_log_takes_whatever_its_candidates_are_in() -> None:
    log, lists = pd.DataFrame(TEA), pd.DataFrame(TEA_LISTS)
    assert cb.evaluate_log(cb.read_log(log, lists)).evaluation.best.name == "old"
    with pytest.raises(cb.InputError, match="candidates must be given too"):
        cb.read_log(log)


def test_a_column_of_another_name_is_asked_for() -> None:
    log, lists = pd.DataFrame(TEA), pd.DataFrame(TEA_LISTS)
    with pytest.raises(cb.LogError, match=r"column item is missing .*--column item=NAME, columns=\{'item': NAME\}"):
        cb.evaluate(log.rename(columns={"item": "thing"}), lists)
    with pytest.raises(cb.LogError, match=r"column context is missing.*--column candidates.context=NAME"):
        cb.evaluate(log, lists.rename(columns={"context": "user"}))


def test_keys_without_a_catalogue_are_told_of_it() -> None:
    class Tea:
        def predict(self, X: Any) -> Any:
            return np.full((len(X), 1), "tea")

    with pytest.raises(cb.InputError, match=r"Tea.predict: .*catalogue=Catalogue\(keys\)"):
        cb.PolicySet([Tea()]).predict(np.zeros((2, 1)))


def test_what_people_try_first_is_answered_in_words() -> None:
    log, lists = pd.DataFrame(TEA), pd.DataFrame(TEA_LISTS)

    class Tea:
        def predict(self, X: Any) -> Any:
            return [["tea", "salt"]] * len(X)

    for models in ([Tea()], {"tea": Tea()}, Tea()):
        with pytest.raises(cb.InputError, match=r"policies must be a PolicySet.*catalogue=Catalogue\(keys\)"):
            cb.evaluate(log, models, features=["context"])
    with pytest.raises(cb.InputError, match=r"got dict: give list"):
        cb.PolicySet({"tea": Tea()})  # type: ignore[arg-type]
    policies = cb.PolicySet([Tea()], catalogue=cb.Catalogue(["tea", "salt", "rice"]))
    with pytest.raises(cb.InputError, match=r"evaluate\(frame, policies, features="):
        cb.read_log(log, policies)
    with pytest.raises(cb.InputError, match=r"of a data frame: read_log\(frame, lists\).events"):
        cb.design_exploration(log, cb.EnumerationOracle(policies), problem=cb.Problem(3, 2))
    reading = cb.read_log(log, lists)
    assert cb.design_exploration(
        reading.events, cb.EnumerationOracle(reading.policies), problem=reading.problem
    ).mixture.weights.sum() == pytest.approx(1)
    told = str(cb.evaluate(log, lists))
    assert told.startswith("Cannot tell. The rewards so far weigh as much as")
    assert str(cb.evaluate_log(reading)) == told


def test_whole_numbers_beyond_64_bits_are_refused_with_what_to_do() -> None:
    shown = {"round": [0, 0], "context": [10**25] * 2, "item": [0, 1], "reward": [1.0, 0.0], "propensity": 0.5}
    lists = pd.DataFrame({"context": [0, 0], "candidate": ["a", "b"], "item_0": [0, 2], "item_1": [1, 3]})
    with pytest.raises(cb.InputError, match="fit into 64 bits, got larger ones; give them as text"):
        cb.evaluate(pd.DataFrame(shown), lists, max_reward=1)
    text = pd.DataFrame({**shown, "context": [str(10**25)] * 2})
    answer = cb.evaluate(text, lists.assign(context=str(10**25)), max_reward=1)
    assert answer.best.name == "a"
