"""Keys and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import comband as cb

KEYS = st.one_of(st.integers(-5, 2**61), st.text(max_size=4), st.tuples(st.integers(0, 3), st.text(max_size=2)))


def _same(one: Any, other: Any) -> bool:
    return one == other or (str(one) == str(other) and {type(one), type(other)} == {int, str})


@given(st.lists(KEYS, max_size=12), st.lists(KEYS, max_size=8))
@settings(max_examples=150, deadline=None)
def test_every_key_is_found_where_it_stands(known: list[Any], asked: list[Any]) -> None:
    distinct: list[Any] = []
    for key in known:
        if not any(_same(key, other) for other in distinct):
            distinct.append(key)
    catalogue = cb.Catalogue(distinct)
    expected = [next((i for i, other in enumerate(distinct) if _same(key, other)), -1) for key in asked]
    assert catalogue.find(asked).tolist() == expected
    assert catalogue.find(distinct).tolist() == list(range(len(distinct)))
    assert [key in catalogue for key in asked] == [number >= 0 for number in expected]
    if len(distinct) < len(known):
        with pytest.raises(cb.InputError, match="must differ"):
            cb.Catalogue(known)


def test_numbers_and_the_text_that_spells_them_are_one_key() -> None:
    for keys in ([7, "tea"], ["7", "tea"], [7, ("a", 1)], ["7", ("a", 1)]):
        catalogue = cb.Catalogue(keys)
        assert catalogue.find([7, "7", "007", 7.0 if keys[1] != "tea" else 7]).tolist() == [0, 0, -1, 0]


def test_lists_of_keys_keep_their_shape() -> None:
    ids = [UUID(int=i) for i in range(4)]
    catalogue = cb.Catalogue(ids)
    shown = catalogue.numbers([[ids[3], ids[0]], [ids[1], ids[2]]])
    assert shown.tolist() == [[3, 0], [1, 2]]
    assert catalogue[shown].tolist() == [[ids[3], ids[0]], [ids[1], ids[2]]]
    assert catalogue[2] == ids[2]
    assert list(catalogue) == ids
    assert catalogue == cb.Catalogue(ids)
    assert catalogue != cb.Catalogue(ids[:3])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([1, 1], "1 is there 2 times"),
        (["a", "b", "a"], "'a' is there twice"),
        ([1, None], "got None"),
        ([True, "x"], "got True"),
        ([float("nan"), "x"], "got nan"),
        ([{}, 1], "other hashables, got {}"),
        ("abc", "must be a list"),
        ([[1, 2], [3, 4]], "one key per item"),
    ],
)
def test_what_is_no_catalogue_is_refused(keys: Any, words: str) -> None:
    with pytest.raises(cb.InputError, match=words):
        cb.Catalogue(keys)


def test_unknown_keys_are_named() -> None:
    catalogue = cb.Catalogue(["tea", "rice"])
    with pytest.raises(cb.InputError, match="item 'salt' is not in the catalogue of 2 items"):
        catalogue.numbers([["tea", "salt"]])
    with pytest.raises(cb.InputError, match="numbers must lie in 0 … 1"):
        catalogue[5]
    assert repr(cb.Catalogue(range(5))) == "Catalogue of 5: 0, 1, 2, …"


class Shop:
    """Answers in keys: three of the five for each context."""

    def __init__(self, keys: list[Any], start: int) -> None:
        self._keys, self._start = keys, start

    def predict(self, X: Any) -> list[list[Any]]:
        return [[self._keys[(int(x) + self._start + j) % len(self._keys)] for j in range(3)] for x in X]


@pytest.mark.parametrize("keys", [["a", "b", "c", "d", "e"], [10, 20, 30, 40, 50], [("x", i) for i in range(5)]])
def test_policies_may_answer_in_keys(keys: list[Any], tmp_path: Any) -> None:
    catalogue = cb.Catalogue(keys)
    problem = cb.Problem(n_actions=5, list_size=3, sparsity=1)
    policies = cb.PolicySet([Shop(keys, 0), Shop(keys, 1)], catalogue=catalogue)
    assert policies.predict(np.arange(2)).tolist() == [[[0, 1, 2], [1, 2, 3]], [[1, 2, 3], [2, 3, 4]]]
    assert policies.n_actions == 5
    mixture = cb.Mixture(policies, [0.5, 0.5], problem=problem, floor=0.5)
    decisions = mixture.draw(np.arange(200) % 5, 1)
    frame = decisions.to_frame("pandas", catalogue=catalogue)
    assert set(frame["item"]) == set(keys)
    rewards = (decisions.lists == 2).astype(float)
    named = [list(row) for row in catalogue[decisions.lists]]
    rounds = cb.Rounds.from_log(
        decisions.contexts,
        lists=named,
        rewards=rewards,
        propensities=decisions.propensities,
        problem=problem,
        catalogue=catalogue,
    )
    assert np.array_equal(rounds.decisions.lists, decisions.lists)
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, delta=0.1, seed=1)
    asked = learner.ask(np.arange(5))
    assert set(catalogue[asked.lists].ravel().tolist()) <= set(keys)
    with pytest.raises(cb.InputError, match=r"Shop.predict: item .* is not in the catalogue"):
        cb.PolicySet([Shop(["other"] * 5, 0)], catalogue=catalogue).predict(np.arange(2))
    with pytest.raises(cb.InputError, match="catalogue has 5 items, but the problem asks for 6"):
        policies.check(cb.Problem(n_actions=6, list_size=3))
    with pytest.raises(cb.InputError, match="must be a Catalogue"):
        cb.PolicySet([Shop(keys, 0)], catalogue=keys)  # type: ignore[arg-type]


def test_a_further_candidate_answers_in_keys_too() -> None:
    keys = ["a", "b", "c", "d", "e"]
    problem = cb.Problem(n_actions=5, list_size=3, sparsity=1)
    policies = cb.PolicySet([Shop(keys, 0), Shop(keys, 1)], catalogue=cb.Catalogue(keys), fallback="policy 0")
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, seed=1)
    third: Any = Shop(keys, 2)
    learner.add(third, name="third", planned=True)
    assert learner.policies.predict(np.arange(1)).tolist() == [[[0, 1, 2], [1, 2, 3], [2, 3, 4]]]
    assert learner.policies.catalogue == policies.catalogue
    assert len(learner.ask(np.arange(5))) == 5


def test_empty_places_and_the_fallback_are_keys_too() -> None:
    catalogue = cb.Catalogue(["a", "b", "c", "d"])

    class Short:
        def predict(self, X: Any) -> list[list[Any]]:
            return [["d", None] for _ in X]

    class Spare:
        def predict(self, X: Any) -> Any:
            return [["d", "b"] for _ in X]

    class Twice:
        def predict(self, X: Any) -> list[list[Any]]:
            return [["d", "d"] for _ in X]

    own = cb.ConstantPolicy([0, 1], cb.Problem(n_actions=4, list_size=2))  # of comband: in numbers
    policies = cb.PolicySet([Short(), own], catalogue=catalogue, fallback=Spare())
    assert policies.predict(np.arange(2)).tolist() == [[[3, 1], [0, 1]]] * 2
    with pytest.raises(cb.InputError, match=r"Twice.predict: a list must not repeat"):
        cb.PolicySet([Twice()], catalogue=catalogue).predict(np.arange(2))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_logs_and_lists_are_written_by_key(ending: str, tmp_path: Path) -> None:
    goods = cb.Catalogue(["tea", "=rice", "salt", "7"])
    problem = cb.Problem(n_actions=4, list_size=2, sparsity=1)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem, names=["old", "new"])
    rounds = cb.Rounds.from_log(
        np.zeros(4, dtype=int),
        lists=[[0, 2], [1, 3], [0, 1], [3, 2]],
        rewards=[[1, 0], [0, 1], [0, 0], [1, 0]],
        propensities=np.full((4, 2), 0.5),
        problem=problem,
    )
    log, lists = tmp_path / f"log.{ending}", tmp_path / f"lists.{ending}"
    cb.write_rounds(rounds, log, catalogue=goods)
    cb.write_candidates(policies, np.array([0]), lists, catalogue=goods)
    reading = cb.read_log(log, cb.read_candidates(lists, catalogue=goods), sparsity=1)
    assert reading.catalogue == goods
    assert reading.events.actions.tolist() == [0, 3, 3]
    by_number = cb.evaluate(rounds, policies, max_reward=1, min_propensity=0.5)
    assert cb.evaluate_log(reading, min_propensity=0.5).evaluation == by_number


def test_what_cannot_be_written_by_key_is_refused(tmp_path: Path) -> None:
    problem = cb.Problem(n_actions=2, list_size=1)
    policies = cb.PolicySet.from_lists([[[0]], [[1]]], problem)
    with pytest.raises(cb.InputError, match="whole numbers and text"):
        cb.write_candidates(policies, np.array([0]), tmp_path / "lists.csv", catalogue=cb.Catalogue([(1, 2), (3, 4)]))
    gaps = cb.PolicySet.from_lists([[[0]], [[-1]]], problem, fallback="nothing")
    with pytest.raises(cb.InputError, match="empty places"):
        cb.write_candidates(gaps, np.array([0]), tmp_path / "lists.csv", catalogue=cb.Catalogue(["a", "b"]))
    with pytest.raises(cb.InputError, match="must be a Catalogue"):
        cb.write_candidates(policies, np.array([0]), tmp_path / "lists.csv", catalogue=["a", "b"])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
