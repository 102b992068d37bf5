"""Our explorers keep every promise, and broken ones are caught."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.explore.explorers import ArmExplorer, DisagreementExplorer, MixtureExplorer
from comband.worlds.testing import ExplorerSuite, check

PROBLEM = cb.Problem(n_actions=9, list_size=3, sparsity=1)
LISTS = np.argsort(np.random.default_rng(1).random((5, 7, 9)), axis=2)[:, :, :3]
SOME = np.array([0, 2, 3])


class _Explorers(ExplorerSuite):
    problem = PROBLEM

    def policies(self) -> cb.PolicySet:
        return cb.PolicySet.from_lists(LISTS, PROBLEM)

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.integers(0, 7, n)


class TestMixture(_Explorers):
    def explorer(self, policies: cb.PolicySet) -> Any:
        weights = [0.5, 0.1, 0.2, 0.2, 0.0]
        return MixtureExplorer(policies, SOME, weights=weights, floor=0.3, problem=PROBLEM)


class TestUniformLists(_Explorers):
    def explorer(self, policies: cb.PolicySet) -> Any:
        return MixtureExplorer(policies, SOME, weights=[0.2] * 5, floor=1.0, problem=PROBLEM)


class TestDisagreement(_Explorers):
    def explorer(self, policies: cb.PolicySet) -> Any:
        return DisagreementExplorer(
            policies, SOME, leader=1, attention=[1.0, 0.0, 0.3], smallest_disputed=0.3, problem=PROBLEM
        )


class TestArms(_Explorers):
    def explorer(self, policies: cb.PolicySet) -> Any:
        return ArmExplorer(policies, SOME, shown=np.arange(5), problem=PROBLEM)


def altered(kept: Any = lambda lists: lists, **columns: Any) -> Any:
    """The disagreement explorer, whose decisions are altered column by column, and the lists it kept."""

    class Altered(_Explorers):
        def explorer(self, policies: cb.PolicySet) -> Any:
            right = TestDisagreement().explorer(policies)
            mine = copy.copy(right)

            def draw(X: Any, rng: Any, **how: Any) -> Any:
                drawn = right.draw(X, rng, **how)
                changed = {name: change(getattr(drawn.decisions, name)) for name, change in columns.items()}
                lists = None if drawn.lists is None else kept(drawn.lists)
                return type(drawn)(dataclasses.replace(drawn.decisions, **changed), lists)

            mine.draw = draw
            return mine

    return Altered


def replaced(make: Any = TestDisagreement, **attributes: Any) -> Any:
    """An explorer with other attributes or methods."""

    class Replaced(_Explorers):
        def explorer(self, policies: cb.PolicySet) -> Any:
            mine = make().explorer(policies)
            for name, value in attributes.items():
                setattr(mine, name, value)
            return mine

    return Replaced


class _Forgetful(DisagreementExplorer):
    def state(self) -> Any:
        return {**super().state(), "attention": np.ones(3)}


class _TestForgetful(_Explorers):
    def explorer(self, policies: cb.PolicySet) -> Any:
        return _Forgetful(policies, SOME, leader=1, attention=[1.0, 0.0, 0.3], smallest_disputed=0.3, problem=PROBLEM)


@pytest.mark.parametrize(
    ("promise", "suite"),
    [
        ("test_decisions_are_as_asked", altered(ids=lambda ids: ids + 1)),
        ("test_decisions_are_as_asked", altered(epochs=np.zeros_like)),
        ("test_propensities_can_be_computed_anew", altered(propensities=lambda q: q * 0.99)),
        ("test_items_are_shown_as_often_as_propensities_say", altered(lists=lambda lists: (lists + 1) % 9)),
        ("test_the_smallest_propensity_holds_where_it_is_said_to", replaced(smallest=0.29)),
        ("test_draws_the_same_lists_elsewhere", _TestForgetful),
        (
            "test_rewards_weigh_what_they_should",
            replaced(TestArms, divisors=lambda events, chosen: events.propensities[chosen]),
        ),
        ("test_what_is_kept_is_what_candidates_show", altered(kept=lambda lists: lists[::-1])),
    ],
)
def test_a_broken_explorer_is_caught(promise: str, suite: Any) -> None:
    getattr(TestDisagreement(), promise)()
    with pytest.raises(AssertionError):
        getattr(suite(), promise)()


def test_lists_that_depend_on_the_batch_are_caught() -> None:
    class Suite(_Explorers):
        def explorer(self, policies: cb.PolicySet) -> Any:
            right = TestMixture().explorer(policies)
            mine = copy.copy(right)
            mine.draw = lambda X, rng, **how: right.draw(X, len(X), **how)
            return mine

    with pytest.raises(AssertionError, match="cut into batches"):
        Suite().test_the_same_numbers_give_the_same_lists_however_contexts_are_cut()


def test_all_at_once() -> None:
    check(TestMixture)
