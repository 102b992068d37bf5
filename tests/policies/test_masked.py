"""Numbers under a mask are never counted: they are refused, or, where lists may have empty places, are such places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import comband as cb
from comband.policies import RequestedLists
from comband.statistics import ExposureGuard

PROBLEM = cb.Problem(n_actions=6, list_size=2, sparsity=1)
LISTS = np.array([[[0, 1], [2, 3]], [[2, 3], [4, 5]]])
X, SHOWN = np.zeros(2, dtype=int), np.array([[0, 1], [2, 3]])
REWARDS, HALVES = np.array([[1.0, 0.0], [0.0, 0.0]]), np.full((2, 2), 0.5)


def policies() -> cb.PolicySet:
    return cb.PolicySet.from_lists(LISTS, PROBLEM)


def learner(**options: Any) -> cb.AdaptiveComband:
    return cb.AdaptiveComband(PROBLEM, policies(), epsilon=0.1, **options)


def masked(values: Any) -> Any:
    """The first entry hidden."""
    values = np.asarray(values)
    return np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) == 0)


def log(**given: Any) -> cb.Rounds:
    columns: dict[str, Any] = {"lists": SHOWN, "rewards": REWARDS, "propensities": HALVES, **given}
    return cb.Rounds.from_log(columns.pop("contexts", X), problem=PROBLEM, **columns)


def classifier() -> cb.BanditListClassifier:
    return cb.BanditListClassifier(list_size=1)


FEATURES, CLASSES = np.eye(6), np.arange(6) % 3

ENTRIES: dict[str, Callable[[], Any]] = {
    "contexts": lambda: learner().ask(masked(X)),
    "contexts, rows": lambda: learner().ask([masked([0, 0]), np.zeros(2)]),
    "contexts, features": lambda: learner().ask(masked(np.ones((3, 2)))),
    "contexts of a log": lambda: log(contexts=masked(X)),
    "contexts of policies": lambda: policies().predict(masked(X)),
    "contexts of a mixture": lambda: cb.Mixture(policies(), [0.5, 0.5], problem=PROBLEM, floor=0.5).draw(masked(X), 1),
    "contexts, tables": lambda: RequestedLists(["a", "b"], PROBLEM).predict(masked(LISTS.transpose(1, 0, 2))),
    "rewards": lambda: (one := learner()).tell(one.ask(X), masked(REWARDS)),
    "rewards, rows": lambda: (one := learner()).tell(one.ask(X), list(masked(REWARDS))),
    "rewards of a log": lambda: log(rewards=masked(REWARDS)),
    "rewards of an oracle": lambda: cb.EnumerationOracle(policies()).fit([0], masked(np.ones((1, 6)))),
    "totals": lambda: (
        one := cb.AdaptiveComband(cb.Problem(6, 2, sparsity=1, feedback="total"), policies(), epsilon=0.1)
    ).tell(one.ask(X), masked([1.0, 0.0])),
    "lists of a log": lambda: log(lists=masked(SHOWN)),
    "lists of a guard": lambda: ExposureGuard(6).update(masked(SHOWN), np.full((2, 6), 1 / 3)),
    "propensities of a log": lambda: log(propensities=masked(HALVES)),
    "propensities of a guard": lambda: ExposureGuard(6).update(SHOWN, masked(np.full((2, 6), 1 / 3))),
    "propensities of a mixture's lists": lambda: cb.Mixture(
        policies(), [0.5, 0.5], problem=PROBLEM, floor=0.5
    ).propensities(X, masked(SHOWN)),
    "weights": lambda: cb.Mixture(policies(), masked([0.5, 0.5]), problem=PROBLEM, floor=0.5),
    "prior_scores": lambda: learner(prior_scores=masked([1.0, 2.0])),
    "places": lambda: cb.Problem(6, 2, places=masked([1.0, 0.5])),
    "actions": lambda: cb.ConstantPolicy(masked([0, 1]), PROBLEM),
    "classes": lambda: classifier().fit(FEATURES, masked(CLASSES)),
    "features": lambda: classifier().fit(masked(FEATURES), CLASSES),
    "ids of decisions": lambda: cb.Decisions(masked([0, 1]), SHOWN, HALVES, np.zeros(2, dtype=int), X),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_masked_is_refused_wherever_arrays_come_in(entry: str) -> None:
    with pytest.raises(cb.InputError, match=r"must not be masked, got 1 of \d+ entries that are: say"):
        ENTRIES[entry]()


def test_an_array_of_which_nothing_is_masked_is_one_like_others() -> None:
    plain, other = learner(), learner()
    given, whole = plain.ask(X), other.ask(np.ma.masked_array(X))
    assert given.lists.tolist() == whole.lists.tolist()
    other.tell(whole, np.ma.masked_array(REWARDS))
    assert log(rewards=np.ma.masked_array(REWARDS)).rewards.tolist() == REWARDS.tolist()


def test_a_masked_place_in_a_table_of_lists_is_empty() -> None:
    filled = cb.PolicySet.from_lists(masked(LISTS), PROBLEM, fallback="nothing").predict([0])
    assert filled.tolist() == [[[-1, 1], [2, 3]]]
    with pytest.raises(cb.InputError, match="left places"):
        cb.PolicySet.from_lists(masked(LISTS), PROBLEM).predict([0])


def test_contexts_that_no_file_could_give_back_are_refused_when_they_are_asked_about() -> None:
    class First:
        problem = PROBLEM

        def predict(self, contexts: Any) -> Any:
            return np.tile([0, 1], (contexts.shape[0], 1))

    one = cb.AdaptiveComband(PROBLEM, cb.PolicySet([First(), First()]), epsilon=0.1)
    with pytest.raises(cb.InputError, match="whose entries have no size"):
        one.ask(np.zeros(3, dtype="V0"))
    with pytest.raises(cb.InputError, match=r"must be its rows, shape \(n, d\), got shape \(3,\)"):
        one.ask(sp.coo_array(np.ones(3)))
    assert one.ask(sp.coo_array(np.ones((3, 1)))).lists.shape == (3, 2)
