"""The setting and the border: every refusal, its message, and that nothing changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

import comband as cb
from comband.page.lists import check_lists, check_rewards
from comband.page.problem import as_generator
from tests.states import plain

PROBLEM = cb.Problem(n_actions=6, list_size=2, sparsity=1)
LISTS = np.array([[[0, 1], [2, 3]], [[4, 5], [1, 0]]])


def policies() -> cb.PolicySet:
    return cb.PolicySet.from_lists(LISTS, PROBLEM)


def learner() -> cb.UniformExploration:
    return cb.UniformExploration(PROBLEM, policies(), n_rounds=10)


def log(**changes: Any) -> cb.Rounds:
    columns: dict[str, Any] = {
        "lists": [[0, 1], [2, 3]],
        "rewards": [[0, 1], [0, 0]],
        "propensities": [[0.5, 0.5], [0.2, 0.9]],
    }
    return cb.Rounds.from_log(np.array([0, 1]), problem=PROBLEM, **{**columns, **changes})


def tell(rewards: Any, *, spoil: Callable[[cb.Decisions], cb.Decisions] = lambda d: d) -> None:
    one = learner()
    decisions = one.ask(np.array([0, 1, 1]))
    before = one.status(), one.rounds, plain(one._state())
    try:
        one.tell(spoil(decisions), rewards)
    finally:
        assert (one.status(), one.rounds, plain(one._state())) == before


def certifying(**options: Any) -> cb.AdaptiveComband:
    return cb.AdaptiveComband(PROBLEM, policies(), **options)


def altered(decisions: cb.Decisions, **columns: Any) -> cb.Decisions:
    return replace(decisions, **columns)


class Stutters:
    def predict(self, X: Any) -> Any:
        return np.zeros((len(X), 2), dtype=int)


class Overshoots:
    def predict(self, X: Any) -> Any:
        return np.tile([3, 77], (len(X), 1))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "list_size above n_actions": (lambda: cb.Problem(3, 4), "list_size must not exceed n_actions"),
    "no actions": (lambda: cb.Problem(0, 1), "n_actions must be a whole number of at least 1, got 0"),
    "half an action": (lambda: cb.Problem(2.5, 1), "n_actions must be a whole number"),  # type: ignore[arg-type]
    "sparsity of zero": (lambda: cb.Problem(3, 1, 0), r"sparsity must lie in \(0, n_actions\]"),
    "sparsity above K": (lambda: cb.Problem(3, 1, 4), "sparsity must lie in"),
    "sparsity of NaN": (lambda: cb.Problem(3, 1, float("nan")), "sparsity must be finite"),
    "sparsity of nothing": (lambda: cb.Problem(3, 1, 1e-300), "divide the rewards by it"),
    "sparsity of truth": (lambda: cb.Problem(3, 1, True), "sparsity must be a number, got True"),
    "epsilon of rho": (lambda: certifying(epsilon=1.0), "epsilon must lie below 1, the most"),
    "epsilon of 5 rho": (lambda: certifying(epsilon=5), "any one of them would do"),
    "epsilon of nothing": (lambda: certifying(epsilon=1e-100), "cannot be told apart"),
    "epsilon of truth": (lambda: certifying(epsilon=True), "epsilon must be a number, got True"),
    "epsilon of text": (lambda: certifying(epsilon="0.1"), "epsilon must be a number, got '0.1'"),
    "PAC: epsilon of nothing": (lambda: cb.PacComband(PROBLEM, policies(), epsilon=1e-300), "cannot be told apart"),
    "PAC: epsilon above rho": (lambda: cb.PacComband(PROBLEM, policies(), epsilon=4), "epsilon must lie below 1"),
    "an oracle to a learner that lists": (
        lambda: cb.AdaptiveComband(PROBLEM, cb.EnumerationOracle(policies()), epsilon=0.1),  # type: ignore[arg-type]
        "got EnumerationOracle; give its .policies",
    ),
    "an approximate oracle to a learner that lists": (
        lambda: cb.AdaptiveComband(PROBLEM, cb.RegressionOracle(Ridge(), PROBLEM), epsilon=0.1),  # type: ignore[arg-type]
        "only PacComband and SingleLabelComband",
    ),
    "a list of policies": (
        lambda: cb.Exp4(PROBLEM, list(policies()), horizon=9),  # type: ignore[arg-type]
        "policies must be a PolicySet, got list; make one",
    ),
    "problem and policies swapped": (
        lambda: cb.AdaptiveComband(policies(), PROBLEM, epsilon=0.1),  # type: ignore[arg-type]
        "policies must be a PolicySet, got Problem",
    ),
    "no problem": (
        lambda: cb.UniformExploration(None, policies(), n_rounds=1),  # type: ignore[arg-type]
        "problem must be a Problem",
    ),
    "a policy's number out of range": (lambda: policies().predict([0], [2]), "indices must lie in 0 … 1, got 2"),
    "a negative policy's number": (lambda: policies().predict([0], [-1]), "indices must lie in 0 … 1, got -1"),
    "a seed of text to a mixture": (
        lambda: cb.Mixture(policies(), [0.5, 0.5], problem=PROBLEM, floor=0.5).draw([0], "x"),  # type: ignore[arg-type]
        "seed must be",
    ),
    "floor of nothing": (
        lambda: cb.Mixture(policies(), [0.5, 0.5], problem=PROBLEM, floor=1e-300),
        "floor .* at least 1e-12",
    ),
    "theory: epsilon whose square vanishes": (
        lambda: cb.theory.pac_comband(PROBLEM, n_policies=9, epsilon=1e-300, delta=0.05),
        "where squares are numbers",
    ),
    "plan: click rate beyond all numbers": (
        lambda: cb.theory.uniform_exploration(PROBLEM, n_policies=9, epsilon=1e300, delta=0.05),
        "where squares are numbers",
    ),
    "theory: more policies than any number": (
        lambda: cb.theory.uniform_exploration(PROBLEM, n_policies=10**400, epsilon=0.1, delta=0.05),
        "n_policies must be at most 1e150",
    ),
    "repeated action": (lambda: log(lists=[[0, 0], [2, 3]]), r"must not repeat an action, got \[0, 0\] in row 0"),
    "action out of range": (lambda: log(lists=[[0, 1], [2, 6]]), "actions must lie in 0 … 5, got 6 in row 1"),
    "negative action": (lambda: log(lists=[[0, -1], [2, 3]]), "got -1 in row 0"),
    "fractional action": (lambda: log(lists=[[0, 0.5], [2, 3]]), "whole numbers"),
    "list of wrong length": (lambda: log(lists=[[0, 1, 2], [2, 3, 4]]), r"shape \(n, 2\), got shape \(2, 3\)"),
    "ragged lists": (lambda: log(lists=[[0, 1, 2], [2, 3]]), "lists of different lengths"),
    "too few lists": (lambda: log(lists=[[0, 1]]), "one row per context, 2 of them, got 1"),
    "NaN reward": (lambda: tell([[0, 0], [np.nan, 0], [0, 0]]), r"\[0, 1\], got nan in row 1, position 0"),
    "infinite reward": (lambda: tell([[0, 0], [np.inf, 0], [0, 0]]), r"\[0, 1\], got inf"),
    "reward above 1": (lambda: tell([[0, 0], [0, 1.5], [0, 0]]), "got 1.5 in row 1, position 1"),
    "reward below 0": (lambda: tell([[0, 0], [0, -0.1], [0, 0]]), "got -0.1"),
    "rewards above s": (lambda: tell([[0, 0], [0.8, 0.4], [0, 0]]), "must not sum above sparsity=1, got 1.2 in row 1"),
    "rewards of wrong shape": (lambda: tell([[0, 0], [0, 0]]), r"\(3, 2\), one number for each shown action"),
    "rewards that are words": (lambda: tell([["a", "b"]] * 3), "rectangular array of numbers"),
    "propensity of zero": (lambda: log(propensities=[[0, 0.5], [0.2, 0.9]]), r"\(0, 1\], got 0.0 in row 0"),
    "propensity above 1": (lambda: log(propensities=[[0.5, 0.5], [0.2, 1.1]]), "got 1.1 in row 1, position 1"),
    "propensities of wrong shape": (lambda: log(propensities=[0.5, 0.5]), "shape of the lists"),
    "weights off the simplex": (
        lambda: cb.Mixture(policies(), [0.5, 0.6], problem=PROBLEM, floor=0.5),
        "weights must sum to 1, got 1.1",
    ),
    "negative weight": (
        lambda: cb.Mixture(policies(), [1.5, -0.5], problem=PROBLEM, floor=0.5),
        "weights must not be negative, got -0.5 at index 1",
    ),
    "NaN weight": (lambda: cb.Mixture(policies(), [np.nan, 1], problem=PROBLEM, floor=0.5), "weights must be finite"),
    "a weight too many": (
        lambda: cb.Mixture(policies(), [0.2, 0.3, 0.5], problem=PROBLEM, floor=0.5),
        r"shape \(2,\), got shape \(3,\)",
    ),
    "floor of zero": (
        lambda: cb.Mixture(policies(), [0.5, 0.5], problem=PROBLEM, floor=0),
        r"floor .* \(0, 1\], got 0",
    ),
    "floor above 1": (lambda: cb.Mixture(policies(), [0.5, 0.5], problem=PROBLEM, floor=1.01), "floor"),
    "empty policy set": (lambda: cb.PolicySet([]), "at least one policy, got none"),
    "not a policy": (lambda: cb.PolicySet([3]), "number 0 is int"),
    "names repeated": (lambda: cb.PolicySet(list(policies()), ["a", "a"]), "'a' is used more than once"),
    "a name missing": (lambda: cb.PolicySet(list(policies()), ["a"]), "each of the 2 policies, got 1"),
    "policies for another problem": (
        lambda: cb.UniformExploration(cb.Problem(7, 2), policies(), n_rounds=1),
        "shows 2 of 6 actions, but the problem asks for 2 of 7",
    ),
    "a policy that repeats": (
        lambda: cb.PolicySet([Stutters()]).predict(np.arange(3)),
        r"Stutters.predict: a list must not repeat",
    ),
    "a policy out of range": (
        lambda: cb.Mixture(cb.PolicySet([Overshoots()]), [1], problem=PROBLEM, floor=0.5).draw([0], as_generator(0)),
        "showed action 77",
    ),
    "unknown context": (lambda: policies().predict(np.array([0, 2])), "context 2 is not in the table"),
    "contexts of no kind": (lambda: learner().ask(7), "contexts must be an array"),
    "unknown decision": (
        lambda: tell(np.zeros((3, 2)), spoil=lambda d: altered(d, ids=d.ids + 5)),
        "decision 5 was not made by this learner",
    ),
    "altered decision": (
        lambda: tell(np.zeros((3, 2)), spoil=lambda d: altered(d, propensities=d.propensities * 0.9)),
        "its list or propensities differ",
    ),
    "columns of unequal length": (lambda: altered(learner().ask([0, 1]), ids=[0]), "1 rows, one for each id"),
    "rewards and lists of unequal shape": (
        lambda: cb.Rounds(learner().ask([0, 1]), np.zeros((2, 3))),
        "shape of the lists",
    ),
    "delta of zero": (
        lambda: cb.UniformExploration(PROBLEM, policies(), n_rounds=1, delta=0),
        "strictly between 0 and 1",
    ),
    "no rounds": (lambda: cb.UniformExploration(PROBLEM, policies(), n_rounds=0), "n_rounds must be a whole number"),
    "result before any round": (lambda: learner().result(), "no decision has been answered yet"),
    "seed of text": (lambda: cb.UniformExploration(PROBLEM, policies(), n_rounds=1, seed="x"), "seed must be"),  # type: ignore[arg-type]
    "oracle: negative reward": (
        lambda: cb.EnumerationOracle(policies()).fit([0], sp.csr_array([[0, -1.0, 0, 0, 0, 0]])),
        "must not be negative, got -1.0",
    ),
    "oracle: NaN reward": (
        lambda: cb.EnumerationOracle(policies()).fit([0], sp.csr_array([[0, np.nan, 0, 0, 0, 0]])),
        "must be finite",
    ),
    "oracle: rows that do not match": (
        lambda: cb.EnumerationOracle(policies()).fit([0, 1], sp.csr_array((1, 6))),
        r"with 2 rows, got shape \(1, 6\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_a_message_and_changes_nothing(case: str) -> None:
    action, message = REFUSED[case]
    with pytest.raises(cb.InputError, match=message):
        action()


def test_unknown_decision_has_its_own_name() -> None:
    with pytest.raises(cb.UnknownDecisionError):
        REFUSED["unknown decision"][0]()
    assert issubclass(cb.UnknownDecisionError, cb.InputError)
    assert issubclass(cb.InputError, ValueError)


def test_one_bad_decision_keeps_the_good_ones_out_too() -> None:
    one = learner()
    decisions = one.ask(np.array([0, 1, 1]))
    ids = decisions.ids.copy()
    ids[2] = 99
    with pytest.raises(cb.UnknownDecisionError, match="1 of 3 are unknown"):
        one.tell(altered(decisions, ids=ids), np.zeros((3, 2)))
    assert one.rounds == 0
    assert one.tell(decisions, np.zeros((3, 2))).accepted == 3


def test_max_reward_is_the_smaller_of_s_and_m() -> None:
    assert cb.Problem(10, 3, 2).max_reward == 2
    assert cb.Problem(10, 3, 7).max_reward == 3
    assert cb.Problem(10, 3).max_reward == 3
    assert cb.Problem(10, 4).uniform_propensity == 0.4


def test_valid_input_comes_back_as_arrays() -> None:
    lists = check_lists([[0.0, 5.0]], PROBLEM)
    assert lists.dtype == np.int32
    assert lists.tolist() == [[0, 5]]
    assert check_rewards([[0.3, 0.7]], PROBLEM, n=1).tolist() == [[0.3, 0.7]]


def test_seed_kinds() -> None:
    a, b = as_generator(3).random(), as_generator(np.random.SeedSequence(3)).random()
    assert a == b
    generator = np.random.default_rng(1)
    assert as_generator(generator) is generator


def test_the_setting_loads_no_compiler() -> None:
    program = (
        "import sys, comband.page.problem\n"
        "assert comband.page.problem.Problem(3, 1).max_reward == 1\n"
        "assert not {'numba', 'llvmlite'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_problem_is_shown_as_it_would_be_written() -> None:
    for problem in (
        cb.Problem(5, 2),
        cb.Problem(5, 2, 1.5),
        cb.Problem(5, 2, places="pairs"),
        cb.Problem(5, 2, places=[1, 0.5]),
    ):
        assert eval(repr(problem), {"Problem": cb.Problem}) == problem
    assert repr(cb.Problem(5, 2)) == "Problem(n_actions=5, list_size=2)"
