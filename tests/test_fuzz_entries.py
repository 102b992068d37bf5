"""Public entries with arguments that nobody should give: a right answer or an InputError, nothing else.

A seeded sample runs in the fast suite, the rest in the slow one. Warnings are errors, and a case that does not end is a
fault. Exceptions of a user's own policy pass through as they are.
"""

from __future__ import annotations

import inspect
import math
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

import comband as cb
from comband.page.places import fit_examination
from comband.page.problem import InputError
from comband.page.totals import TotalRounds
from comband.statistics import PlaceGuard
from tests.evaluation.logs.worlds import write_both

Draw = Callable[[st.SearchStrategy[Any]], Any]

SAMPLE, ALL = 25, 450  # cases of each of 24 entries: 600 and 10,800
LIMIT = 60  # seconds after which a case counts as one that does not end; the slowest take well below one
N = 12  # contexts of the tables below

NUMBERS = [
    *(0, 1, -1, 2, 3, 0.5, 0.05, -0.0, 1.5, 10, 1000, 10**6, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**30, 10**150),
    *(10**151, 10**400, -(10**400), math.nan, math.inf, -math.inf, 1e-9, 1e-12, 1e-100, 1e-150, 1e-300, 1e-320, 5e-324),
    *(1e16, 1e150, 1e151, 1e300, 1.7e308, -1e300, 1 - 1e-16, 1 + 1e-12, np.float32(0.3), np.int8(3), np.uint64(2**63)),
    *(np.float64("nan"), np.longdouble(2), np.array(2), np.array(0.5), Fraction(1, 3), Decimal("0.5"), Decimal("NaN")),
]
OTHERS = [
    *(
        None,
        True,
        False,
        np.True_,
        "",
        "x",
        "1",
        "auto",
        "\x00",
        b"",
        b"1",
        bytearray(b"x"),
        1j,
        object(),
        Ellipsis,
        int,
    ),
    *([], [1], [0.5, 0.5], [[]], [[1], [1, 2]], (), {}, {"a": 1}, set(), {0, 1}, range(3), lambda x: x, slice(2)),
    *(np.empty(0), np.empty((0, 3)), np.zeros((2, 2)), np.full((3, 2), np.nan), np.array(["a", "b"]), np.array([None])),
    *(np.array([1 + 2j]), np.array([[True, False]]), np.array([10**30]), np.array([2**63], dtype=np.uint64)),
    *(np.datetime64("NaT", "D"), np.array(["2020-01-01"], dtype="M8[D]")),
    *(np.zeros(2, dtype=[("a", "f8")]), sp.eye_array(3)),
    *(
        sp.csr_array((2, 2)),
        pd.DataFrame({"a": [1, 2]}),
        pd.Series([1.0, 2.0]),
        np.ma.masked_array([1, 2], mask=True),
        iter([1]),
    ),
]
ANYTHING = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(OTHERS))

TABLE = cb.Problem(8, 2, 1)
TOTAL = cb.Problem(8, 2, 1, "total")
LISTS = np.stack([np.random.default_rng(p).permuted(np.tile(np.arange(8), (N, 1)), axis=1)[:, :2] for p in range(4)])
TABULATED = cb.PolicySet.from_lists(LISTS, TABLE)
LINEAR = cb.PolicySet.linear(np.random.default_rng(0).standard_normal((3, 2, 8)), TABLE)
CONSTANT = cb.PolicySet([cb.ConstantPolicy([0, 1], TABLE), cb.ConstantPolicy([2, 1], TABLE)], ["a", "[/]\x1b"])


class OwnError(Exception):
    """Of a user's policy."""


class Odd:
    """A policy that answers whatever it likes."""

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer = answer

    def predict(self, X: Any) -> Any:
        return self.answer(X.shape[0] if hasattr(X, "shape") else len(X))


def _raise(_n: int) -> Any:
    raise OwnError


ANSWERS: list[Callable[[int], Any]] = [
    lambda n: np.tile([3, 4], (n, 1)),
    lambda n: [[3, 4]] * n,
    lambda n: np.tile([3.0, 4.0], (n, 1)),
    lambda n: np.tile(np.array([3, 4], dtype=np.uint64), (n, 1)),
    lambda n: np.asfortranarray(np.tile(np.array([3, 4], dtype=np.int32), (n, 1))),
    lambda n: np.tile([3, 3], (n, 1)),
    lambda n: np.tile([3, 8], (n, 1)),
    lambda n: np.tile([-1, 3], (n, 1)),
    lambda n: np.tile([3, 2**40], (n, 1)),
    lambda n: np.tile([3.5, 4], (n, 1)),
    lambda n: np.full((n, 2), np.nan),
    lambda n: np.full((n, 2), np.inf),
    lambda n: np.tile([1, 2, 3], (n, 1)),
    lambda n: np.tile([1], (n, 1)),
    lambda n: np.tile([3, 4], (n + 1, 1)),
    lambda n: np.zeros((n, 2, 2), dtype=int),
    lambda n: [[1]] * max(n - 1, 0) + [[1, 2]],
    lambda n: np.full((n, 2), "a"),
    lambda n: np.full((n, 2), None),
    lambda n: None,
    lambda n: "lists",
    lambda n: {},
    lambda n: iter([[1, 2]] * n),
    lambda n: sp.csr_array(np.tile([3, 4], (n, 1))),
    lambda n: pd.DataFrame(np.tile([3, 4], (n, 1))),
    lambda n: np.ma.masked_array(np.zeros((n, 2), dtype=int), mask=True),
    lambda n: np.tile([True, False], (n, 1)),
    lambda n: np.tile([3 + 0j, 4], (n, 1)),
    lambda n: np.tile([10**30, 4], (n, 1)),
    _raise,
]


@contextmanager
def _limited() -> Iterator[None]:
    def ended(_signal: int, _frame: Any) -> None:
        raise AssertionError(f"a case has not ended within {LIMIT} seconds")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Fuzz:
    """Draws arguments, and makes calls whose only outcomes are an answer or a refusal."""

    def __init__(self, draw: Draw, folder: Path) -> None:
        self.draw, self.folder = draw, folder

    def one(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def sometimes(self, odds: int = 5) -> bool:
        return bool(self.draw(st.integers(0, odds - 1)) == odds - 1)

    def arg(self, *good: Any, odds: int = 6) -> Any:
        """One of the good values, or, one time in so many, anything."""
        return self.draw(ANYTHING) if self.sometimes(odds) else self.one(*good)

    def some(self, **good: tuple[Any, ...]) -> dict[str, Any]:
        """Keyword arguments, of which those whose choices begin with ... may be left out."""
        result = {}
        for name, choices in good.items():
            if choices[0] is ...:
                if not self.sometimes(2):
                    continue
                choices = choices[1:]
            result[name] = self.arg(*choices, odds=2 * len(good) + 2)
        return result

    def array(self, shape: tuple[int, ...], good: Callable[[np.random.Generator], Any]) -> Any:
        """A good array, one with a few places spoilt, one of another shape or kind, or anything."""
        kind = self.one("good", "good", "good", "spoilt", "shape", "kind", "anything")
        value = np.asarray(good(np.random.default_rng(self.draw(st.integers(0, 99)))))
        if kind == "anything":
            return self.draw(ANYTHING)
        if kind == "spoilt" and value.size:
            value = value.astype(np.float64)
            value.flat[self.draw(st.integers(0, value.size - 1))] = self.one(
                math.nan, math.inf, -math.inf, -1.0, 0.0, 2.0, 1e-310, 5e-324, 1e-17, 1e308, 0.5, 8.0, 2.0**31, 1e19
            )
        if kind == "shape":
            return self.one(value[:-1], value[None], value.ravel(), value.T, value[..., :0], value[:0], value[0:1])
        if kind == "kind":
            return self.one(
                value.tolist(),
                value.astype(object),
                value.astype(str),
                value.astype(np.complex128),
                value.astype(np.float16),
                value.astype(bool),
                value.astype(np.uint64) if value.min(initial=0) >= 0 else value,
                np.asfortranarray(value),
                pd.DataFrame(value) if value.ndim == 2 else pd.Series(value.ravel()),
                np.ma.masked_invalid(value),
            )
        return value

    def contexts(self, n: int) -> Any:
        ids = np.arange(n) % N
        features = np.linspace(-1, 1, 2 * n).reshape(n, 2)
        if not self.sometimes(2):
            return self.one(ids, ids, features)
        return self.one(
            *(
                ids.tolist(),
                ids.astype(np.int8),
                ids.astype(np.uint64),
                ids.astype(float),
                ids + N,
                ids - N,
                ids[:, None],
            ),
            *(ids.astype(object), ids.astype(str), list(map(str, ids)), [None] * n, [{"age": 1}] * n, range(n)),
            *(
                features.tolist(),
                features.astype(np.float32),
                sp.csr_array(features),
                sp.coo_array(features),
                features.T,
            ),
            *(pd.DataFrame(features), pd.Series(ids), features * math.inf, features + math.nan, features * 1e308),
            *(
                np.asfortranarray(features),
                np.ma.masked_array(ids),
                np.zeros((n, 0)),
                np.zeros((n, 2, 2)),
                [[1, 2]] * n,
            ),
            *([[1], [1, 2]] * (n // 2), [object()] * n, [b"x"] * n, [10**400] * n, [1j] * n, [math.nan] * n, "x" * n),
            *(np.zeros(n, dtype="M8[s]"), np.zeros(n, dtype=[("a", "f8")]), np.full(n, None), np.zeros(n, bool)),
            *(None, 3, n, {}, set(), iter(ids), np.array(3), np.empty(0), np.empty((0, 2)), [], (), b"x" * n, object()),
        )

    def try_(self, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """What the call gives; None if it refuses, or a policy of the user's own has failed."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="X .* feature names")  # scikit-learn's word on data frames
            try:
                return call(*args, **more)
            except InputError as error:
                said = str(error)
                assert said
                assert len(said) < 20_000
                return None
            except OwnError:
                return None

    def problem(self) -> cb.Problem | None:
        K = self.arg(8, 8, 3, 50, 10**6, 2**31 - 1)
        problem: cb.Problem | None = self.try_(
            cb.Problem, K, self.arg(2, 2, 1, 3, 40), self.arg(None, 1, 1, 2, 0.5, 1e-9)
        )
        return problem

    def policies(self) -> Any:
        kind = self.one("tabulated", "linear", "constant", "odd")
        if kind == "odd":
            odd = [Odd(self.one(ANSWERS[0], *ANSWERS)) for _ in range(self.one(1, 2, 3))]
            more = list(self.one((), (), (TABULATED[0],), (CONSTANT[0],)))
            return cb.PolicySet([*odd, *more])
        return {"tabulated": TABULATED, "linear": LINEAR, "constant": CONSTANT}[kind]


# ---- what right answers look like ------------------------------------------------------------------------------------


def are_lists(lists: Any, n: int, problem: cb.Problem) -> None:
    assert lists.dtype == np.int32
    assert lists.shape == (n, problem.list_size)
    assert ((lists >= 0) & (lists < problem.n_actions)).all()
    assert all(len(set(row)) == len(row) for row in lists.tolist())


def are_decisions(decisions: cb.Decisions, problem: cb.Problem, *, open_allowed: bool = False) -> None:
    are_lists(decisions.lists, len(decisions), problem)
    q = decisions.propensities
    fine = (q > 0) & (q <= 1)
    assert (fine | (np.isnan(q) if open_allowed else False)).all()


def is_interval(value: float, interval: tuple[float, float], most: float) -> None:
    low, high = interval
    assert 0 <= low <= value <= high <= most * (1 + 1e-9)


def is_selection(result: cb.Selection, problem: cb.Problem) -> None:
    assert 0 <= result.epsilon <= problem.max_reward
    assert 0 <= result.delta < 1
    assert result.rounds >= 0
    for candidate in (result.best, *result.runners_up):
        is_interval(candidate.value, candidate.interval, problem.max_reward)
    assert str(result)


# ---- the entries -----------------------------------------------------------------------------------------------------


def problems(f: Fuzz) -> None:
    problem = f.try_(cb.Problem, f.arg(5, 2**31 - 1, odds=2), f.arg(2, 5, 6, odds=2), f.arg(None, 1, odds=2))
    if problem is not None:
        assert 1 <= problem.list_size <= problem.n_actions < 2**31
        assert 0 < problem.max_reward <= problem.list_size
        assert 0 < problem.uniform_propensity <= 1


def _columns(f: Fuzz, n: int) -> dict[str, Any]:
    return {
        "ids": f.array((n,), lambda _: np.arange(n)),
        "lists": f.array((n, 2), lambda rng: rng.permuted(np.tile(np.arange(8), (n, 1)), axis=1)[:, :2]),
        "propensities": f.array((n, 2), lambda rng: rng.uniform(0.1, 1, (n, 2))),
        "epochs": f.array((n,), lambda _: np.zeros(n, dtype=int)),
        "contexts": f.contexts(n),
    }


def records(f: Fuzz) -> None:
    n = f.one(0, 1, 2, 5)
    decisions = f.try_(cb.Decisions, **_columns(f, n), **f.some(makers=(..., np.zeros(n, dtype=int))))
    if decisions is None:
        return
    assert decisions.lists.dtype == np.int32
    assert np.nanmin(decisions.propensities, initial=1) > 0
    assert np.nanmax(decisions.propensities, initial=0) <= 1 + 1e-9
    assert len(decisions + decisions) == 2 * len(decisions)
    _pick(f, decisions)
    rounds = f.try_(cb.Rounds, decisions, f.array(decisions.lists.shape, lambda _: np.eye(2)[np.arange(n) % 2]))
    f.try_(cb.Rounds, f.draw(ANYTHING), np.zeros((n, 2)))
    if rounds is not None:
        assert ((rounds.rewards >= 0) & (rounds.rewards <= 1)).all()
        events = f.try_(rounds.events)
        assert events is None or len(events) == np.count_nonzero(rounds.rewards)
        f.try_(rounds.save, f.folder / "rounds.npz")


def _pick(f: Fuzz, decisions: cb.Decisions) -> None:
    index = f.arg(0, [0], slice(1), -1, [True] * len(decisions), 99, [[0]], "ids", odds=3)
    try:
        some = f.try_(lambda: decisions[index])
    except IndexError:
        return  # what Python expects of sequences
    assert some is None or isinstance(some, cb.Decisions)


def events(f: Fuzz) -> None:
    n = f.one(0, 1, 3)
    made = f.try_(
        cb.Events,
        n_rounds=f.arg(n, 10, 0),
        ids=f.array((n,), lambda _: np.arange(n)),
        epochs=f.array((n,), lambda _: np.zeros(n, dtype=int)),
        contexts=f.contexts(n),
        rows=f.array((n,), lambda _: np.arange(n)),
        actions=f.array((n,), lambda rng: rng.integers(0, 8, n)),
        rewards=f.array((n,), lambda rng: rng.uniform(0.1, 1, n)),
        propensities=f.array((n,), lambda rng: rng.uniform(0.1, 1, n)),
    )
    if made is not None:
        assert ((made.rewards > 0) & (made.rewards <= 1)).all()
        assert (made.propensities > 0).all()
        assert (np.diff(made.rows) >= 0).all()
        assert len(made + made) == 2 * len(made)
        _judge(f, made)


def _log(f: Fuzz, problem: Any) -> Any:
    n = f.one(0, 1, 5, 30)
    columns = _columns(f, n)
    del columns["epochs"]
    rewards = f.array((n, 2), lambda rng: np.eye(3)[rng.integers(0, 3, n)][:, :2])
    if f.sometimes(2):
        del columns["ids"]
    return f.try_(cb.Rounds.from_log, **columns, rewards=rewards, problem=problem)


def logs(f: Fuzz) -> None:
    rounds = _log(f, f.arg(TABLE, cb.Problem(8, 2), cb.Problem(8, 3, 1), cb.Problem(4, 2, 1)))
    if rounds is not None:
        are_decisions(rounds.decisions, TABLE)
        _judge(f, rounds)


def totals(f: Fuzz) -> None:
    """Logs of totals, their evaluation and design, and a learner that is told them."""
    n = f.one(0, 1, 5, 30)
    columns = _columns(f, n)
    for name in ("epochs", "propensities", "ids"):
        del columns[name]
    problem = f.arg(TOTAL, TOTAL, cb.Problem(8, 2, None, "total"), TABLE, cb.Problem(8, 8, 1), odds=10)
    law = f.one("list_propensities", "first_propensities")
    columns[law] = f.array(
        (n,) if law[0] == "l" else (n, 2),
        lambda rng: rng.uniform(0.01, 0.5, (n, 2))[:, 0 if law[0] == "l" else slice(2)],
    )
    values = f.array((n,), lambda rng: rng.uniform(0, 1, n) * (rng.random(n) < 0.5))
    rounds = f.try_(TotalRounds.from_log, **columns, totals=values, problem=problem)
    policies = f.arg(f.policies(), odds=8)
    if rounds is not None:
        assert ((rounds.shares > 0) & (rounds.totals >= 0)).all()
        assert len(rounds + rounds) == 2 * n
        least = float(rounds.shares.min(initial=1.0))
        answer = f.try_(
            cb.evaluate,
            rounds,
            policies,
            **f.some(max_reward=(1, 2), min_propensity=(..., least, 1e-3), delta=(..., 0.05)),
        )
        if answer is not None:
            assert 0 <= answer.epsilon <= answer.max_reward
            for candidate in answer.candidates:
                is_interval(candidate.value, candidate.interval, answer.max_reward)
        design = f.try_(cb.design_exploration, rounds, policies, problem=problem, **f.some(floor=(..., 0.5, 0.01)))
        if design is not None:
            assert math.isfinite(design.value)
            f.try_(design.certify, rounds, 0.1, **f.some(least_propensity=(..., least)))
    kind = f.one(cb.AdaptiveComband, cb.ABTest, cb.UniformMixture, cb.UniformLists)
    learner = f.try_(kind, TOTAL, policies, **f.some(epsilon=(0.1, 0.5), first_epoch=(..., 5)))
    for _ in range(3 if learner is not None else 0):
        decisions = f.try_(learner.ask, np.arange(6) % 3)
        if decisions is None:
            break
        are_decisions(decisions, TOTAL)
        f.try_(learner.tell, decisions, f.array((6,), lambda rng: rng.integers(0, 2, 6).astype(float)))
        if learner.rounds:
            is_selection(learner.result(), TOTAL)


def _judge(f: Fuzz, rounds: Any) -> None:
    """Evaluation and design."""
    if f.sometimes(8):
        rounds = f.draw(ANYTHING)
    policies = f.arg(f.policies(), odds=8)
    evaluation = f.try_(
        cb.evaluate,
        rounds,
        policies,
        **f.some(max_reward=(1, 1.0, 2), min_propensity=(..., 0.1, 0.01, None), delta=(..., 0.05)),
    )
    if evaluation is not None:
        assert 0 <= evaluation.epsilon <= evaluation.max_reward
        for candidate in evaluation.candidates:
            is_interval(candidate.value, candidate.interval, evaluation.max_reward)
            assert candidate.gap_bound >= 0
        assert str(evaluation)
    found = f.try_(cb.check_logged_propensities, rounds, policies, **f.some(min_propensity=(0.1, 0.01, 1.0)))
    if found is not None:
        assert found.interval[0] <= found.interval[1]
    design = f.try_(
        cb.design_exploration,
        rounds,
        f.arg(policies, policies, cb.EnumerationOracle(TABULATED), odds=8),
        **f.some(
            problem=(TABLE,),
            floor=(..., 0.5, 1.0, 0.01),
            solver=(..., "corrective", "frank-wolfe"),
            stopping=(..., None, cb.explore.solvers.Stopping(max_steps=20)),
            indices=(..., None, [0], [0, 0], [1, 9]),
            start=(..., None, 0, 1, 99),
            n_columns=(..., None, 1, 5),
            trim=(..., 1e-9, 0.0, 0.5),
        ),
    )
    if design is not None:
        assert design.gap >= 0
        assert design.max_variance >= 0
        assert math.isfinite(design.value)
        assert abs(design.mixture.weights.sum() - 1) < 1e-9


def mixtures(f: Fuzz) -> None:
    policies = f.policies()
    uniform = np.full(len(policies), 1 / len(policies))
    mixture = f.try_(
        cb.Mixture,
        f.arg(policies, odds=10),
        f.array((len(policies),), lambda _: uniform),
        **f.some(
            problem=(TABLE, TABLE, cb.Problem(8, 3), cb.Problem(9, 2)),
            floor=(0.5, 1.0, 0.01, 1e-12),
            items=(..., None, list("abcdefgh"), np.arange(8), list("ab")),
        ),
    )
    if mixture is None:
        return
    X, problem = f.contexts(f.one(0, 1, 4)), mixture.problem
    decisions = f.try_(
        mixture.draw, X, f.arg(0, np.random.default_rng(1)), **f.some(first_id=(..., 0, 5), epoch=(..., 0, 1))
    )
    if decisions is not None:
        are_decisions(decisions, problem)
        again = f.try_(mixture.propensities, X, decisions.lists)
        np.testing.assert_allclose(again, decisions.propensities, rtol=1e-12)
    lists = f.array((4, 2), lambda rng: rng.permuted(np.tile(np.arange(8), (4, 1)), axis=1)[:, :2])
    q = f.try_(mixture.propensities, X, f.one(None, lists))
    if q is not None:
        assert ((q > 0) & (q <= 1)).all()


def policy_sets(f: Fuzz) -> None:
    made = f.one(
        lambda: cb.PolicySet(
            f.arg([*TABULATED], [Odd(ANSWERS[0])], [1, 2], TABULATED), f.arg(None, ["a"], "a", [1, 2])
        ),
        lambda: cb.PolicySet.from_lists(
            f.array((4, N, 2), lambda _: LISTS), f.arg(TABLE), names=f.arg(None, list("abcd"))
        ),
        lambda: cb.PolicySet.linear(
            f.array((3, 2, 8), lambda rng: rng.standard_normal((3, 2, 8))), f.arg(TABLE), seed=f.arg(0)
        ),
        lambda: cb.PolicySet([cb.ConstantPolicy(f.array((2,), lambda _: np.arange(2)), f.arg(TABLE))]),
        lambda: cb.PolicySet([cb.TabulatedPolicy(f.array((N, 2), lambda _: LISTS[0]), f.arg(TABLE))]),
        lambda: cb.PolicySet([cb.ScoredPolicy(f.arg(LINEAR[0].weights, len), f.arg(TABLE), seed=f.arg(0))]),  # type: ignore[attr-defined]
        f.policies,
    )
    policies = f.try_(made)
    if policies is None:
        return
    n = f.one(0, 1, 4)
    X = f.contexts(n)
    lists = f.try_(policies.predict, X, **f.some(indices=(..., None, [0], [0, 0], [1]), problem=(..., TABLE, None)))
    if lists is not None:
        assert lists.dtype == np.int32
        assert lists.ndim == 3
        assert (lists >= 0).all()
    f.try_(policies.contains, X, *f.one((np.arange(n), np.arange(n)), (f.draw(ANYTHING), f.draw(ANYTHING))))
    f.try_(policies.subset, f.arg([0], [0, 1], odds=2))


EPOCHS: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.1, 0.1, 1e-9, 0.9),
    "delta": (..., 0.05, 0.5, 1e-150),
    "max_rounds": (..., None, 5, 10**150),
    "patience": (..., None, 3, 100, 10**150),
    "first_epoch": (..., 1, 5, 300, 10**150),
    "epoch_growth": (..., 1.2, 1.0 + 1e-15, 3.0, 1e150),
    "seed": (..., 0, 2**70),
}
TWO_PHASES: dict[str, tuple[Any, ...]] = {
    "epsilon": (..., 0.1, None, 1e-9),
    "delta": (..., 0.05, 1e-150),
    "n_explore": (5, 3, 1, None),
    "n_estimate": (5, 1, "measured", None),
    "n_steps": (..., None, 1, 10),
    "floor": (..., 0.5, 1e-12, 1.0),
    "solver": (..., "corrective", "frank-wolfe"),
    "n_policies": (..., None, 4),
    "n_verify": (..., None, 5),
    "route": (..., "gradient", "joint", "refined", "printed", "held-out", "online"),
    "seed": (..., 0),
}
HORIZON: dict[str, tuple[Any, ...]] = {"horizon": (5, 100, 10**6, 10**150), "seed": (..., 0)}
WHEN: dict[str, tuple[Any, ...]] = {"propensities": (..., "always", "when rewarded")}
LEARNERS: dict[str, dict[str, tuple[Any, ...]]] = {
    "AdaptiveComband": {**EPOCHS, "max_evaluated": (..., 1000, 2, 1)},
    "UniformLists": EPOCHS,
    "UniformMixture": EPOCHS,
    "TwoPhaseComband": EPOCHS,
    "ABTest": {**EPOCHS, "eliminate": (..., True, False)},
    "Confirmation": {
        "candidate": ("policy 0",),
        "production": ("policy 1",),
        "share": (..., 0.5, 0.01),
        "at_least": (..., 0.0, -0.1, 0.1),
        "delta": (..., 0.05, 1e-150),
        "expected": (..., None, 0.2),
        "value": (..., None, 0.1),
        "max_rounds": (..., None, 5, 10**150),
        "patience": (..., None, 3, 10**150),
        "seed": (..., 0),
    },
    "PacComband": TWO_PHASES,
    "SingleLabelComband": TWO_PHASES,
    "UniformExploration": {"n_rounds": (5, 100, 10**150), "delta": (..., 0.05, 1e-150), "seed": (..., 0)},
    "OnlineComband": {
        **WHEN,
        "epsilon": (0.1, 0.1, 1e-9, 0.9),
        "delta": (..., 0.05, 1e-150),
        "batch_size": (..., 1, 5, 1000, 10**150),
        "early_stop": (..., True, False),
        "exploration": (..., "fewest rounds", "learnt", "uniform lists"),
        "seed": (..., 0),
    },
    "Exp4": {**HORIZON, **WHEN, "step_size": (..., None, 0.1, 1e9), "floor": (..., None, 0.5, 0.0, 1e-12)},
    "Exp4CombSparse": {**HORIZON, **WHEN, "barrier": (..., "safe", "sharp", "printed", 0.5, 1e-150)},
    "EpsilonGreedy": {**HORIZON, **WHEN, "epsilon": (..., None, 0.1, 1.0, 1e-12)},
    "ExploreThenCommit": {**HORIZON, "n_explore": (..., None, 5, 1)},
    "SparseMSets": {**HORIZON, "barrier": (..., 0.5, 1e-150, 0.999)},
}


def learners(f: Fuzz, name: str) -> None:
    kind = getattr(cb, name)
    problem = f.arg(TABLE, TABLE, cb.Problem(8, 2), cb.Problem(8, 2, 1e-9), cb.Problem(8, 2, 8), odds=12)
    if name == "SingleLabelComband" and f.sometimes(2):
        problem, policies = cb.Problem(8, 1, 1), cb.PolicySet.from_lists(LISTS[:, :, :1], cb.Problem(8, 1, 1))
    else:
        policies = f.policies()
    policies = f.arg(policies, policies, policies, cb.EnumerationOracle(TABULATED), odds=12)
    learner = f.try_(kind, problem, *(() if name == "SparseMSets" else (policies,)), **f.some(**LEARNERS[name]))
    if learner is None:
        return
    _converse(f, learner, problem)


def _converse(f: Fuzz, learner: Any, problem: cb.Problem) -> None:
    asked = []
    for _ in range(f.one(1, 2, 5)):
        before = learner.rounds
        decisions = f.try_(learner.ask, f.contexts(f.one(0, 1, 4, 20)))
        if decisions is not None:
            are_decisions(decisions, problem, open_allowed=True)
            asked.append(decisions)
        assert learner.rounds == before
        if asked:
            told = f.one(*asked)
            if f.sometimes(6):
                told = f.one(told[:1], told + told, told[::-1], told[:0], replace(told, epochs=told.epochs + 1))
            n = len(told)
            rewards = f.array(told.lists.shape, partial(_clicks, told))
            receipt = f.try_(learner.tell, f.arg(told, odds=12), rewards)
            if receipt is not None:
                assert 0 <= receipt.accepted <= n
                assert learner.rounds == before + receipt.accepted
            else:
                assert learner.rounds == before
        status, result = f.try_(learner.status), f.try_(learner.result)
        if status is not None:
            assert status.certified is None or 0 <= status.certified < problem.max_reward
            assert status.expected is None or 0 <= status.expected < problem.max_reward
            assert status.forecast >= 0
            assert str(status)
        if result is not None:
            is_selection(result, problem)
        assert learner.done in (True, False)


def _clicks(decisions: cb.Decisions, rng: np.random.Generator) -> Any:
    """Rewards of the first place only, so that they sum to one at most."""
    first = np.arange(decisions.lists.shape[1]) == 0
    return (decisions.lists < rng.integers(0, 8)) & first


def online_lists(f: Fuzz) -> None:
    problem = f.arg(TABLE, TABLE, cb.Problem(8, 2), odds=12)
    model = f.arg(
        None, None, cb.BanditListClassifier(Ridge()), cb.BanditListClassifier(repeat_correlation=0.0), odds=12
    )
    learner = f.try_(
        cb.OnlineListClassifier,
        problem,
        model,
        **f.some(
            objective=(..., "rounds", "reward"),
            first_epoch=(..., None, 1, 5, 10**150),
            growth=(..., None, 1.5, 1.0 + 1e-15, 1e150),
            exploit=(..., 0.2, 1e-300, 1 - 1e-16),
            least_floor=(..., None, 0.05, 1e-300, 1 - 1e-16),
            n_rounds=(..., None, 5),
            seed=(..., 0),
        ),
    )
    if learner is not None:
        _converse(f, learner, problem)
        f.try_(learner.predict, f.contexts(3))


THEORY: dict[str, tuple[Any, ...]] = {
    "n_policies": (1, 2, 100, 10**6, 10**150),
    "epsilon": (0.1, 1e-9, 1e-12),
    "delta": (0.05, 1e-150, 0.999),
    "floor": (..., 0.5, 1.0, 1e-12),
    "route": (..., "gradient", "joint", "refined", "printed", "held-out", "online"),
    "accuracy": (..., None, 0.1, 1e-9),
    "contraction_constant": (..., 1.0, 1e-9, 1e9),
    "second_moment": (..., None, 1.0, 1e-9, 1e9),
    "proxy": (..., None, 1.0, 1e9),
    "n_estimate": (1, 100, 10**9, 10**150),
    "horizon": (1, 100, 10**9, 10**150),
    "step_size": (..., None, 0.1, 1e-9, 1e9),
    "barrier": (..., "safe", "sharp", "printed", 0.5, 1e-9),
    "curvature": (1.0, 1e-9, 1e9, 1e150),
    "start_gap": (1.0, 1e-9, 1e9, 1e150),
    "gap": (1.0, 0.1, 1e-9, 1e-150),
    "n_features": (1, 3, 10, 1000, 10**9),
    "n_contexts": (1, 10, 1000, 10**9, 10**150),
    "n_events": (1, 10, 1000, 10**9, 10**150),
}


def _finite_or_more(value: Any) -> None:
    if isinstance(value, (int, float)):
        assert value >= 0
        return
    for name in ("n_rounds", "n_explore", "n_estimate", "n_steps", "regret", "step_size"):
        assert getattr(value, name, 0) >= 0
    assert str(value)


def theory(f: Fuzz) -> None:
    function = getattr(cb.theory, f.one(*(name for name in cb.theory.__all__ if name[0].islower())))
    args, more = [], {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            args.append(f.problem() if name == "problem" and not f.sometimes(10) else f.arg(8, 2, 1000))
        else:
            needed = parameter.default is parameter.empty
            more[name] = tuple(choice for choice in THEORY[name] if choice is not ... or not needed)
    answer = f.try_(function, *args, **f.some(**more))
    if answer is not None:
        _finite_or_more(answer)


def schedules(f: Fuzz) -> None:
    problem = f.problem()
    more: dict[str, tuple[Any, ...]] = {name: THEORY[name] for name in ("n_policies", "delta", "floor")}
    plan = f.try_(
        cb.plan_budget,
        problem,
        f.arg(100, 2, 10**9, 10**150),
        **f.some(**more, explore=(..., 0.25, 1e-300), proxy=THEORY["proxy"], reward_rate=(..., None, 0.1, 1e-9)),
    )
    if plan is not None:
        assert 0 <= plan.epsilon <= problem.max_reward  # type: ignore[union-attr]
        assert plan.n_explore >= 1
        assert plan.n_estimate >= 1
        assert str(plan)
    epsilon = f.try_(
        cb.certify.fixed_time.schedule.forecast_epsilon,
        problem,
        **f.some(**more, n_estimate=THEORY["n_estimate"], second_moment=(1.0, 1e-9)),
    )
    if epsilon is not None:
        assert 0 <= epsilon <= problem.max_reward  # type: ignore[union-attr]


def classifiers(f: Fuzz) -> None:
    n = f.one(1, 6, 20)
    model = f.try_(
        cb.BanditListClassifier,
        f.arg(None, Ridge(), Ridge(positive=True), LogisticRegression(), odds=12),
        **f.some(
            list_size=(1, 2, 3),
            n_actions=(..., None, 8, 4),
            importance=(..., 0.0, 1.0, 0.5, 1e150),
            clip=(..., None, 10.0, 1e-150, 1e150),
            self_normalize=(..., True, False),
            repeat_correlation=(..., 0.0, 1.0, 0.5),
            smoothing=(..., 0.0, 2.0, 1e150),
            random_state=(..., 0, 5),
        ),
    )
    features = f.array((n, 3), lambda rng: rng.standard_normal((n, 3)))
    columns = _columns(f, n)
    rewards = f.array((n, 2), lambda rng: rng.integers(0, 2, (n, 2)))
    given_lists = f.one(
        {"lists": columns["lists"], "rewards": rewards, "propensities": columns["propensities"]},
        {"lists": columns["lists"], "rewards": rewards},
        {"y": f.array((n,), lambda rng: rng.integers(0, 3, n))},
        {"y": f.array((n, 4), lambda rng: rng.integers(0, 2, (n, 4)))},
        {},
    )
    weights = f.some(round_weights=(..., None, np.ones(n), np.zeros(n), np.full(n, 1e300)))
    fitted = f.try_(model.fit, features, **given_lists, **weights)
    X = f.array((4, 3), lambda rng: rng.standard_normal((4, 3)))
    if fitted is None:
        return
    lists = f.try_(model.predict, X)
    if lists is not None:
        assert lists.shape == (len(lists), model.problem_.list_size)
        assert np.isin(lists, model.classes_).all()
        assert np.isfinite(f.try_(model.predict_scores, X)).all()


def files(f: Fuzz) -> None:
    log, lists = f.folder / "log.csv", f.folder / "lists.csv"
    if not log.exists():
        write_both(f.folder, "csv", n=20)
    candidates = f.try_(
        cb.read_candidates,
        f.arg(lists, str(lists), log, f.folder, odds=3),
        **f.some(n_actions=(..., None, 20, 12), catalogue=(..., None), on_error=(..., "refuse", "skip")),
    )
    reading = f.try_(
        cb.read_log,
        f.arg(log, str(log), lists, f.folder, odds=4),
        f.arg(candidates, odds=6),
        **f.some(
            format=(..., "auto", "csv", "native"),
            sparsity=(..., None, 1, 2),
            context=(..., (), ("context",), "context"),
            on_error=(..., "refuse", "skip"),
            progress=(..., None, lambda _: None),
        ),
    )
    if reading is not None:
        judged = f.try_(cb.evaluate_log, reading, **f.some(min_propensity=(..., None, 0.1), delta=(..., 0.05)))
        assert judged is None or judged.evaluation.epsilon >= 0
    f.try_(cb.evaluate_log, f.draw(ANYTHING))
    f.try_(cb.sequential_propensities, f.array((4, 2), lambda rng: rng.uniform(0.1, 1, (4, 2))))
    load = f.one(cb.Decisions.load, cb.Rounds.load, cb.Events.load, cb.load_model)
    with suppress(OSError):  # of the system: what there is cannot be opened as a file
        assert f.try_(load, f.arg(log, f.folder, f.folder / "absent", odds=2)) is None


def _places(f: Fuzz) -> Any:
    """Factors of two places, good or spoilt, a word, or anything."""
    words = ("pairs", None, "pair", "PAIRS", b"pairs", ["pairs", "pairs"], np.array("pairs"), ("pairs",))
    factors = f.array((2,), lambda rng: np.r_[1.0, rng.uniform(0.1, 3.0)])
    odd = ([1, Fraction(1, 2)], (Decimal(1), Decimal("0.5")), [1, 0.5, 0.2], [1], [1, 1e-4], [0, 0], [1, -1], [True, 1])
    return f.one(factors, factors, f.one(*words), "pairs", f.one(*odd))


def placed(f: Fuzz) -> None:
    """A problem with places, and all that takes one: rounds of a mixture, their evaluation, a design, learners."""
    places = _places(f)
    problem = f.try_(cb.Problem, 8, 2, 1, places=places)
    if problem is None:
        return
    assert problem.places in (None, "pairs") or (problem.places[0] == 1 and min(problem.places) > 0)
    mixture = cb.Mixture(TABULATED, [0.4, 0.3, 0.2, 0.1], problem=problem, floor=0.3)
    drawn = mixture.draw(np.arange(N), 3)
    are_decisions(drawn, problem)
    lists = f.array((N, 2), lambda _: drawn.lists)
    q = f.try_(mixture.propensities, np.arange(N), lists)
    assert q is None or ((q > 0) & (q <= 1)).all()
    rounds = f.try_(cb.Rounds, drawn, f.array((N, 2), lambda rng: np.eye(2)[rng.integers(2, size=N)]))
    if rounds is None:
        return
    source = f.one(rounds, rounds.events(), rounds[:0])
    answer = f.try_(
        cb.evaluate,
        source,
        TABULATED,
        max_reward=f.arg(1, 2),
        places=f.one(places, places, _places(f)),
        **f.some(min_propensity=(..., 0.3 / 8, 0.3 / 4)),
    )
    if answer is not None:
        assert all(math.isfinite(c.value) and c.interval[0] <= c.interval[1] for c in answer.candidates)
    design = f.try_(cb.design_exploration, source, TABULATED, problem=problem, floor=f.arg(0.5))
    if design is not None:
        assert design.mixture.problem == problem
        are_decisions(design.mixture.draw(np.arange(3), 1), problem)
    f.try_(fit_examination, source, least=f.arg(1, 10))
    guard = f.try_(PlaceGuard, places, list_size=f.arg(2), max_reward=f.arg(None, 1, 2))
    if guard is not None:
        f.try_(guard.update, f.array((5, 2), lambda rng: np.eye(2)[rng.integers(2, size=5)]))
        assert math.isfinite(guard.log_evidence)
        assert 0 <= guard.noticeable <= 1
    kind = f.one(cb.AdaptiveComband, cb.UniformMixture, cb.TwoPhaseComband, cb.ABTest, cb.PacComband)
    more = {"n_explore": 5, "n_estimate": 5} if kind is cb.PacComband else {"epsilon": 0.1, "first_epoch": 4}
    learner = f.try_(kind, problem, TABULATED, **more)
    if learner is not None:
        for _ in range(3):
            decisions = learner.ask(np.arange(N))
            are_decisions(decisions, problem)
            f.try_(learner.tell, decisions, f.array((N, 2), lambda rng: np.eye(2)[rng.integers(2, size=N)]))
        if learner.rounds:
            is_selection(learner.result(), problem)


ENTRIES: dict[str, Callable[[Fuzz], None]] = {
    "places": placed,
    "Problem": problems,
    "Decisions, Rounds": records,
    "Events": events,
    "Rounds.from_log, evaluate, design_exploration": logs,
    "TotalRounds": totals,
    "Mixture": mixtures,
    "PolicySet": policy_sets,
    "theory": theory,
    "plan_budget, forecast_epsilon": schedules,
    "BanditListClassifier": classifiers,
    "OnlineListClassifier": online_lists,
    "read_log, read_candidates": files,
    **{name: lambda f, name=name: learners(f, name) for name in LEARNERS},  # type: ignore[misc]
}
every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())


def _run(entry: Callable[[Fuzz], None], folder: Path, *, cases: int) -> None:
    @settings(
        max_examples=cases,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        with _limited():
            entry(Fuzz(data.draw, folder))

    check()


@every_entry
def test_whatever_is_given_there_is_an_answer_or_a_refusal(entry: Callable[[Fuzz], None], tmp_path: Path) -> None:
    _run(entry, tmp_path, cases=SAMPLE)


@pytest.mark.slow
@every_entry
def test_so_it_is_in_many_cases(entry: Callable[[Fuzz], None], tmp_path: Path) -> None:
    _run(entry, tmp_path, cases=ALL)


def test_every_learner_is_tried() -> None:
    offered = [getattr(cb, name) for name in cb.__all__]
    kinds = {one.__name__ for one in offered if isinstance(one, type) and issubclass(one, cb.Learner)}
    assert kinds - {"Learner", "Selector"} == {*LEARNERS, "OnlineListClassifier"} <= set(ENTRIES)


def test_an_exception_of_a_policy_passes_through() -> None:
    learner = cb.AdaptiveComband(TABLE, cb.PolicySet([Odd(_raise), Odd(ANSWERS[0])]), epsilon=0.1)
    with pytest.raises(OwnError):
        learner.ask(np.arange(3))
