"""Columns: slicing, joining, saving; events keep exactly the positive rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import comband as cb
from comband.page.contexts import concat_contexts, n_contexts, take_contexts
from comband.page.problem import as_generator
from comband.page.rounds import EventParts
from comband.page.storage import save
from tests.strategies import problems, random_lists

KINDS: dict[str, Any] = {
    "dense": np.arange(12.0).reshape(4, 3),
    "ids": np.array([3, 1, 2, 0]),
    "sparse": sp.csr_array(np.diag([1.0, 2, 3, 4])),
    "coo": sp.coo_matrix(np.diag([1.0, 2, 3, 4])),
    "strings": ["a", "b", "c", "d"],
    "frame": pd.DataFrame({"age": [1, 2, 3, 4], "home": ["x", "y", "x", "y"]}),
    "objects": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}],
}


def plain(X: Any) -> list[Any]:
    if sp.issparse(X):
        X = X.toarray()
    if isinstance(X, pd.DataFrame):
        X = X.to_numpy()
    return X.tolist() if isinstance(X, np.ndarray) else list(X)


def same(a: Any, b: Any) -> bool:
    return np.array_equal(a, b)


def make_rounds(contexts: Any, seed: int = 0) -> cb.Rounds:
    rng = as_generator(seed)
    n = n_contexts(contexts)
    problem = cb.Problem(9, 3)
    rewards = rng.random((n, 3)) * (rng.random((n, 3)) < 0.4)
    return cb.Rounds.from_log(
        contexts,
        lists=random_lists(n, problem, rng),
        rewards=rewards,
        propensities=rng.uniform(0.1, 1, (n, 3)),
        problem=problem,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_contexts_of_every_kind_can_be_counted_taken_and_joined(kind: str) -> None:
    X = KINDS[kind]
    assert n_contexts(X) == 4
    for index in (np.array([2, 0]), np.array([True, False, True, False]), slice(1, 3), np.array([], dtype=int)):
        expected = [plain(X)[i] for i in np.arange(4)[index]]
        assert plain(take_contexts(X, index)) == expected
    parts = [take_contexts(X, slice(0, 1)), take_contexts(X, slice(1, 4))]
    assert plain(concat_contexts(parts)) == plain(X)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("objects", "frame")])
def test_save_and_load_give_the_same_columns(kind: str, tmp_path: Path) -> None:
    rounds = make_rounds(KINDS[kind])
    rounds.save(tmp_path / "rounds.npz")
    rounds.decisions.save(tmp_path / "decisions.npz")
    rounds.events().save(tmp_path / "events")
    again = cb.Rounds.load(tmp_path / "rounds.npz")
    assert_same_rounds(again, rounds)
    assert_same_decisions(cb.Decisions.load(tmp_path / "decisions.npz"), rounds.decisions)
    assert_same_events(cb.Events.load(tmp_path / "events"), rounds.events())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["decisions.npz", "events", "rounds.npz"]


def test_objects_cannot_be_saved_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "rounds.npz"
    make_rounds(KINDS["ids"]).save(path)
    with pytest.raises(cb.InputError, match="cannot be saved without pickle"):
        make_rounds(KINDS["objects"]).save(path)
    assert len(cb.Rounds.load(path)) == 4


def test_other_files_are_refused(tmp_path: Path) -> None:
    rounds = make_rounds(KINDS["ids"])
    rounds.save(tmp_path / "rounds.npz")
    with pytest.raises(cb.InputError, match="should hold decisions, but it holds rounds"):
        cb.Decisions.load(tmp_path / "rounds.npz")
    whole = (tmp_path / "rounds.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(cb.InputError, match="not a complete comband file"):
        cb.Rounds.load(tmp_path / "cut.npz")
    np.savez(tmp_path / "foreign.npz", a=np.arange(3))
    with pytest.raises(cb.InputError, match="should hold rounds, but it holds something else"):
        cb.Rounds.load(tmp_path / "foreign.npz")
    evil = np.empty(1, dtype=object)
    evil[0] = {"a": 1}
    np.savez(tmp_path / "pickle.npz", allow_pickle=True, ids=evil)
    with pytest.raises(cb.InputError, match="not a complete comband file"):
        cb.Rounds.load(tmp_path / "pickle.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_slices_join_to_the_whole(kind: str) -> None:
    rounds = make_rounds(KINDS[kind])
    assert_same_rounds(rounds[:1] + rounds[1:], rounds)
    assert_same_rounds(rounds[np.array([3, 0])], rounds[3] + rounds[0])
    events = rounds.events()
    assert_same_events(rounds[:2].events() + rounds[2:].events(), events)
    assert_same_events(cb.Events.none() + events, events)
    assert_same_events(events + cb.Events.none(), events)


def test_columns_cannot_be_written_through() -> None:
    ids = np.arange(4)
    rounds = make_rounds(KINDS["ids"])
    decisions = cb.Decisions(
        ids, rounds.decisions.lists, rounds.decisions.propensities, np.zeros(4, dtype=np.int64), KINDS["ids"]
    )
    ids[0] = 99
    assert decisions.ids[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        decisions.lists[0, 0] = 1
    with pytest.raises(AttributeError):
        decisions.ids = ids  # type: ignore[misc]
    with pytest.raises(IndexError):
        decisions[4]


@given(problems(), st.integers(0, 30), st.integers(0, 2**32))
@settings(deadline=None)
def test_events_are_exactly_the_positive_rewards(problem: cb.Problem, n: int, seed: int) -> None:
    rng = as_generator(seed)
    problem = cb.Problem(problem.n_actions, problem.list_size)
    shape = (n, problem.list_size)
    rewards = rng.random(shape) * (rng.random(shape) < 0.3)
    rounds = cb.Rounds.from_log(
        np.arange(n) * 10,
        lists=random_lists(n, problem, rng),
        rewards=rewards,
        propensities=rng.uniform(0.01, 1, shape),
        problem=problem,
    )
    events = rounds.events()
    expected = {
        (10 * i, int(rounds.decisions.lists[i, j]), rewards[i, j], rounds.decisions.propensities[i, j])
        for i in range(n)
        for j in range(problem.list_size)
        if rewards[i, j] > 0
    }
    found = set(
        zip(
            events.contexts[events.rows].tolist(),
            events.actions.tolist(),
            events.rewards.tolist(),
            events.propensities.tolist(),
            strict=True,
        )
    )
    assert found == expected
    assert len(events) == len(expected)
    assert events.n_rounds == n
    assert events.n_rewarded == int((rewards > 0).any(axis=1).sum())


def assert_same_decisions(a: cb.Decisions, b: cb.Decisions) -> None:
    for name in ("ids", "lists", "propensities", "epochs", "covered", "arms"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist(), name
    assert plain(a.contexts) == plain(b.contexts)


def assert_same_rounds(a: cb.Rounds, b: cb.Rounds) -> None:
    assert_same_decisions(a.decisions, b.decisions)
    assert a.rewards.tolist() == b.rewards.tolist()


def assert_same_events(a: cb.Events, b: cb.Events) -> None:
    assert a.n_rounds == b.n_rounds
    for name in ("ids", "epochs", "covered", "arms", "rows", "actions", "rewards", "propensities"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist(), name
    assert plain(a.contexts) == plain(b.contexts)


WRONG_NUMBERS: dict[str, tuple[str, float, str]] = {
    "propensity of 5e-324": ("propensities", 5e-324, "too small to be one"),
    "propensity of 1e-310": ("propensities", 1e-310, "too small to be one"),
    "propensity of a whole list": ("propensities", 1e-17, "not that of the whole list"),
    "propensity of 0": ("propensities", 0.0, r"must lie in \(0, 1\], got 0.0 in row 1, position 2"),
    "one propensity of NaN": ("propensities", np.nan, r"must lie in \(0, 1\], got nan in row 1"),
    "negative propensity": ("propensities", -1.0, "got -1.0"),
    "propensity of 2": ("propensities", 2.0, "got 2.0"),
    "infinite propensity": ("propensities", np.inf, "got inf"),
    "reward of NaN": ("rewards", np.nan, r"rewards must lie in \[0, 1\], got nan in row 1, position 2"),
    "infinite reward": ("rewards", np.inf, "got inf"),
    "reward of 1e308": ("rewards", 1e308, r"rewards must lie in \[0, 1\]"),
    "reward of 2": ("rewards", 2.0, "got 2.0"),
    "negative reward": ("rewards", -0.5, "got -0.5"),
    "reward of 5e-324": ("rewards", 5e-324, "0 or at least 1e-100"),
    "negative item": ("lists", -2, "got -2 in row 1"),
    "item twice": ("lists", None, "must not repeat an action"),  # type: ignore[dict-item]
}


def with_number(column: str, value: Any) -> dict[str, np.ndarray]:
    rounds = make_rounds(np.arange(4))
    columns = {
        name: getattr(rounds.decisions, name).copy()
        for name in ("ids", "lists", "propensities", "epochs", "covered", "arms")
    }
    columns["rewards"] = rounds.rewards.copy()
    columns[column][1, 2] = columns[column][1, 0] if value is None else value
    return columns


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_no_wrong_number_becomes_a_record(case: str) -> None:
    column, value, message = WRONG_NUMBERS[case]
    columns = with_number(column, value)
    rewards = columns.pop("rewards")
    with pytest.raises(cb.InputError, match=message):
        cb.Rounds(cb.Decisions(contexts=np.arange(4), **columns), rewards)


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_no_wrong_number_comes_out_of_a_file(case: str, tmp_path: Path) -> None:
    column, value, _ = WRONG_NUMBERS[case]
    columns: dict[str, Any] = with_number(column, value)
    rewards = columns.pop("rewards")
    state = {"decisions": {**columns, "contexts": {"array": np.arange(4)}}, "rewards": rewards}
    save(tmp_path / "log.npz", "rounds", state)
    with pytest.raises(cb.InputError):
        cb.Rounds.load(tmp_path / "log.npz")


def test_the_smallest_propensity_and_reward_are_taken() -> None:
    q, r = np.full((4, 3), 2.0**-53), np.full((4, 3), 1e-100)
    rounds = make_rounds(np.arange(4))
    d = rounds.decisions
    tiny = cb.Rounds(cb.Decisions(d.ids, d.lists, q, d.epochs, d.contexts), r).events()
    assert np.isfinite(tiny.rewards / tiny.propensities).all()


def test_propensities_that_are_not_computed_yet_are_whole_rows_and_cannot_be_weighed() -> None:
    rounds = make_rounds(np.arange(4))
    d, q = rounds.decisions, rounds.decisions.propensities.copy()
    q[2] = np.nan
    later = cb.Rounds(cb.Decisions(d.ids, d.lists, q, d.epochs, d.contexts), np.zeros((4, 3)))
    with pytest.raises(cb.InputError, match="not computed"):
        later.events()
    assert len(later[:2].events()) == 0


WRONG_EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "row beyond the rounds": ({"rows": [0, 1, 2]}, "ascend within 0 … 1"),
    "negative row": ({"rows": [-1, 0, 1]}, "ascend within 0 … 1"),
    "rows out of order": ({"rows": [1, 0, 1]}, "ascend within 0 … 1"),
    "a row missing": ({"rows": [0, 1]}, "one row, action, reward and propensity each"),
    "negative action": ({"actions": [0, -1, 2]}, "must not be negative, got -1"),
    "reward of 0": ({"rewards": [1.0, 0.0, 1.0]}, "positive rewards"),
    "reward of NaN": ({"rewards": [1.0, np.nan, 1.0]}, r"\[0, 1\], got nan at 1"),
    "propensity of 1e-310": ({"propensities": [1.0, 1e-310, 1.0]}, "too small"),
    "propensity of NaN": ({"propensities": [1.0, np.nan, 1.0]}, "got nan at 1"),
    "a context missing": ({"contexts": np.arange(1)}, "one context for each of the 2"),
    "an id too many": ({"ids": [0, 1, 2]}, "ids and epochs per round"),
    "half a round": ({"n_rounds": 2.5}, "n_rounds must be a whole number"),
    "negative rounds": ({"n_rounds": -1}, "n_rounds must be a whole number of at least 0"),
    "an action of text": ({"actions": ["a", "b", "c"]}, "actions must be a rectangular array of whole numbers"),
    "half an action": ({"actions": [0.5, 1, 2]}, "whole numbers"),
    "an action beyond 32 bits": ({"actions": [2**31, 1, 2]}, "whole numbers"),
}


@pytest.mark.parametrize("case", WRONG_EVENTS)
def test_no_wrong_number_becomes_an_event(case: str) -> None:
    columns: dict[str, Any] = {
        "n_rounds": 5,
        "ids": [0, 1],
        "epochs": [0, 0],
        "contexts": np.arange(2),
        "rows": [0, 1, 1],
        "actions": [0, 1, 2],
        "rewards": [1.0, 0.5, 0.5],
        "propensities": [0.5, 0.5, 0.5],
    }
    assert len(cb.Events(**columns)) == 3
    change, message = WRONG_EVENTS[case]
    with pytest.raises(cb.InputError, match=message):
        cb.Events(**{**columns, **change})


def test_actions_that_nobody_knows_are_refused_where_the_problem_is_known() -> None:
    problem = cb.Problem(6, 2, 1)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)
    shown = np.array([[0, 1], [2, 10**6], [4, 5]], dtype=np.int32)
    d = cb.Decisions(np.arange(3), shown, np.full((3, 2), 0.5), np.zeros(3, dtype=np.int64), np.zeros(3, dtype=int))
    rounds = cb.Rounds(d, np.array([[1.0, 0], [0, 1], [0, 0]]))
    with pytest.raises(cb.InputError, match="show action 1000000"):
        cb.evaluate(rounds, policies, max_reward=1.0)
    with pytest.raises(cb.InputError, match="show action 1000000"):
        cb.design_exploration(rounds, cb.EnumerationOracle(policies), problem=problem)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_events_are_the_whole_however_they_are_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = make_rounds(KINDS[kind])
    whole = rounds.events()
    for size in (1, 2, 3, len(rounds)):
        parts = EventParts()
        for start in range(0, len(rounds), size):
            before, parts = parts, parts + rounds[start : start + size].events()
            assert before.n_rounds == start
            assert before.joined().n_rounds == start
        assert parts.n_rounds == len(rounds)
        assert_same_events(parts.joined(), whole)
        assert_same_events(parts.joined(), whole)


def test_adding_a_part_of_events_does_not_copy_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    events, parts, copied = make_rounds(np.arange(12)).events(), EventParts(), []
    join = cb.Events.join

    def counted(some: Any) -> cb.Events:
        copied.append(sum(part.n_rewarded for part in some))
        return join(some)

    monkeypatch.setattr(cb.Events, "join", counted)
    n = 256
    for _ in range(n):
        parts = parts + events
    assert sum(copied) <= n * events.n_rewarded * 9  # each is copied once for each doubling
    silent = len(copied)
    for _ in range(n):
        parts = parts + cb.Events.none(7)
    assert len(copied) == silent
    assert parts.n_rounds == n * (events.n_rounds + 7)


def make_placed(seed: int = 0, n: int = 12) -> cb.Rounds:
    """Rounds whose lists come in one of two orders, with the probabilities of places that follow."""
    rng = as_generator(seed)
    rows = np.arange(n)[:, None]
    q = rng.uniform(0.2, 1, (n, 3))
    stays = rng.uniform(0.1, 0.9, (n, 3))
    placements = np.zeros((n, 3, 3))
    placements[rows, np.arange(3), np.arange(3)] = q * stays
    placements[rows, np.arange(3), (np.arange(3) + 1) % 3] = q * (1 - stays)
    return cb.Rounds.from_log(
        np.arange(n),
        lists=random_lists(n, cb.Problem(9, 3), rng),
        rewards=1.0 * (rng.random((n, 3)) < 0.4),
        propensities=q,
        problem=cb.Problem(9, 3),
        placements=placements,
    )


def test_probabilities_of_places_travel_with_their_items(tmp_path: Path) -> None:
    rounds = make_placed()
    placements: Any = rounds.decisions.placements
    assert not placements.flags.writeable
    where, place = np.nonzero(rounds.rewards)
    events = rounds.events()
    assert same(events.placements, placements[where, place])
    again = rounds[:5] + rounds[5:]
    assert same(again.decisions.placements, placements)
    assert same((rounds[:5].events() + rounds[5:].events()).placements, events.placements)
    assert same(rounds[[3, 1]].decisions.placements, placements[[3, 1]])
    rounds.save(tmp_path / "rounds.npz")
    events.save(tmp_path / "events.npz")
    assert same(cb.Rounds.load(tmp_path / "rounds.npz").decisions.placements, placements)
    assert same(cb.Events.load(tmp_path / "events.npz").placements, events.placements)
    frame = rounds.to_frame("pandas")
    assert same(frame[[f"placement_{k}" for k in (1, 2, 3)]].to_numpy(), placements.reshape(-1, 3))


def test_lists_in_random_order_join_those_with_stated_places() -> None:
    random, stated = make_rounds(KINDS["ids"]), make_placed()
    joined: Any = random + stated
    assert np.allclose(joined.decisions.placements[:4], random.decisions.propensities[:, :, None] / 3)
    assert same(joined.decisions.placements[4:], stated.decisions.placements)
    assert same((random.events() + stated.events()).placements, joined.events().placements)
    assert (random + random).decisions.placements is None


def test_places_that_cannot_be_are_refused() -> None:
    decisions: Any = make_placed().decisions
    columns = {name: getattr(decisions, name) for name in cb.Decisions.SCHEMA}
    for wrong, words in (
        (decisions.placements[:, :, :2], "of each shown item, the probability of each place"),
        (-decisions.placements, "must not be negative"),
        (np.full((12, 3, 3), 0.5), "sum to its propensity"),
        (decisions.placements / 2, "sum to its propensity"),
        (np.roll(decisions.placements, 1, axis=2), "possible in the place where it was shown"),
        (np.full((12, 3, 3), np.nan), "sum to its propensity"),
    ):
        with pytest.raises(cb.InputError, match=words):
            cb.Decisions(**{**columns, "placements": wrong})
