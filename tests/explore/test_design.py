from __future__ import annotations

import dataclasses
import doctest
from typing import Any

import numpy as np
import pytest

import comband.explore.design
from comband import (
    EnumerationOracle,
    Events,
    InputError,
    Mixture,
    PolicySet,
    Problem,
    Rounds,
    SyntheticRecommender,
    design_exploration,
)
from comband.explore.design import SOLVERS, Design
from comband.explore.solvers import Stopping
from comband.explore.solvers.stopping import Outcome, State

PROBLEM = Problem(n_actions=20, list_size=3, sparsity=2)
WORLD = SyntheticRecommender(PROBLEM, click_rate=0.8, n_users=200, seed=1)
POLICIES = WORLD.candidates(12, seed=2)


def rounds_from(mixture: Mixture, n: int, seed: int) -> Rounds:
    rng = np.random.default_rng(seed)
    batch = WORLD.sample(n, rng)
    decisions = mixture.draw(batch.contexts, rng)
    return Rounds(decisions, batch.answer(decisions.lists))


def uniform(floor: float = 1.0) -> Mixture:
    return Mixture(POLICIES, np.full(len(POLICIES), 1 / len(POLICIES)), problem=PROBLEM, floor=floor)


def potential(mixture: Mixture, rounds: Rounds) -> tuple[float, float]:
    """F̂ and the largest variance proxy, written down from the paper, round by round."""
    value, proxies = 0.0, np.zeros(len(POLICIES))
    lists = POLICIES.predict(rounds.decisions.contexts)
    Q = mixture.propensities(rounds.decisions.contexts, rounds.decisions.lists)
    for i in range(len(rounds)):
        for k, y in enumerate(rounds.decisions.lists[i]):
            r = rounds.rewards[i, k] / (len(rounds) * rounds.decisions.propensities[i, k])
            if r > 0:
                value -= r * np.log(Q[i, k])
                proxies += r / Q[i, k] * (lists[i] == y).any(axis=1)
    return value, float(proxies.max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("logged_by", [1.0, 0.3])
def test_reports_what_its_mixture_does_on_the_rounds(solver: str, logged_by: float) -> None:
    rounds = rounds_from(uniform(logged_by), 800, seed=3)
    design = design_exploration(
        rounds,
        EnumerationOracle(POLICIES),
        problem=PROBLEM,
        solver=solver,
        stopping=Stopping(relative_gap=1e-3, max_calls=4000),
    )
    value, largest = potential(design.mixture, rounds)
    assert design.status is Outcome.GAP, design.message
    assert design.certified
    assert design.value == pytest.approx(value, rel=1e-9)
    assert design.max_variance == pytest.approx(largest, rel=1e-9)
    assert design.gradient_norm == pytest.approx(0.5 * largest, rel=1e-9)
    assert design.meets_paper_bound is (design.gradient_norm <= 2 * 2)
    assert design.support.tolist() == np.flatnonzero(design.mixture.weights).tolist()
    assert design.n_events == np.count_nonzero(rounds.rewards)


def test_beats_every_nearby_mixture_and_the_uniform_one() -> None:
    rounds = rounds_from(uniform(), 1500, seed=4)
    design = design_exploration(rounds.events(), EnumerationOracle(POLICIES), problem=PROBLEM, floor=0.2)
    rng = np.random.default_rng(0)
    for step in (1.0, 0.3, 0.01):
        p = (1 - step) * design.mixture.weights + step * rng.dirichlet(np.ones(len(POLICIES)))
        other = Mixture(POLICIES, p, problem=PROBLEM, floor=0.2)
        assert potential(other, rounds)[0] >= design.value - design.gap


def test_a_round_shown_more_often_counts_no_more() -> None:
    """A log that holds round i k_i times, because it was k_i times as likely, gives the same design."""
    rounds = rounds_from(uniform(), 600, seed=5)
    times = np.random.default_rng(0).integers(1, 4, size=600)
    again = rounds[np.repeat(np.arange(600), times)]
    share = (600 / len(again)) * np.repeat(times, times)[:, None]
    decisions = dataclasses.replace(again.decisions, propensities=again.decisions.propensities * share)
    skewed = Rounds(decisions, again.rewards)
    first, second = (
        design_exploration(log, EnumerationOracle(POLICIES), problem=PROBLEM, stopping=Stopping(relative_gap=1e-10))
        for log in (rounds, skewed)
    )
    assert second.value == pytest.approx(first.value, rel=1e-9)
    np.testing.assert_allclose(second.mixture.weights, first.mixture.weights, atol=1e-4)
    assert second.max_variance == pytest.approx(first.max_variance, rel=1e-6)


class Wrapped:
    """The same class, reached one policy at a time; optionally an answer that is not the best."""

    def __init__(self, policies: PolicySet, *, exact: bool = True) -> None:
        self.inner, self.exact, self.calls = EnumerationOracle(policies), exact, 0

    def fit(self, X: Any, rewards: Any) -> Any:
        self.calls += 1
        if self.exact:
            return self.inner.fit(X, rewards)
        totals = self.inner.values(X, rewards)
        totals[::2] = -1.0  # half of the class is out of its sight
        return self.inner.policies[int(np.argmax(totals))]


def test_a_class_reached_through_its_oracle_gives_the_same_design() -> None:
    rounds = rounds_from(uniform(), 1500, seed=9)
    listed = design_exploration(rounds, EnumerationOracle(POLICIES), problem=PROBLEM)
    oracle = Wrapped(POLICIES)
    reached = design_exploration(rounds, oracle, problem=PROBLEM)
    assert reached.certified
    assert reached.oracle_calls == oracle.calls
    assert reached.value == pytest.approx(listed.value, abs=2e-6)
    assert potential(reached.mixture, rounds)[0] == pytest.approx(reached.value, rel=1e-9)


@pytest.mark.parametrize("solver", ["corrective", "line-search", "away", "pairwise"])
def test_an_approximate_oracle_gets_no_certificate(solver: str) -> None:
    rounds = rounds_from(uniform(), 1500, seed=10)
    design = design_exploration(rounds, Wrapped(POLICIES, exact=False), problem=PROBLEM, solver=solver)
    assert not design.certified
    assert design.meets_paper_bound is False
    assert "approximate" in design.message
    loose = design_exploration(
        rounds, Wrapped(POLICIES, exact=False), problem=PROBLEM, solver=solver, stopping=Stopping(certificate=100.0)
    )
    assert loose.status is Outcome.CERTIFICATE  # the rule asked for was met, as far as the oracle can see
    assert not loose.certified
    assert loose.meets_paper_bound is False
    assert "certificate" not in loose.message
    assert design.oracle_calls <= 1000


def test_printed_steps_from_a_given_policy() -> None:
    rounds = rounds_from(uniform(), 400, seed=11)
    T, gamma = 25, 0.5
    design = design_exploration(
        rounds,
        EnumerationOracle(POLICIES),
        problem=PROBLEM,
        solver="frank-wolfe",
        start=4,
        stopping=Stopping(max_steps=T),
        trim=0.0,
    )
    events = rounds.events()
    A = POLICIES.contains(events.contexts, events.rows, events.actions)
    w = events.rewards / (events.n_rounds * events.propensities)
    p = np.eye(len(POLICIES))[4]
    for t in range(1, T + 1):
        Q = (1 - gamma) * A @ p + gamma * 3 / 20
        p = p + 2 / (2 + t) * (np.eye(len(p))[np.argmax((w / Q) @ A)] - p)
    np.testing.assert_allclose(design.mixture.weights, p, atol=1e-12)
    assert (design.steps, design.oracle_calls, design.status) == (T, T + 1, Outcome.STEPS)


def test_trimming_keeps_the_certificate_true() -> None:
    rounds = rounds_from(uniform(), 800, seed=12)
    design = design_exploration(
        rounds,
        EnumerationOracle(POLICIES),
        problem=PROBLEM,
        solver="frank-wolfe",
        start=0,
        stopping=Stopping(max_steps=60),
        trim=0.02,
    )
    assert design.mixture.weights[design.support].min() > 0.02
    assert potential(design.mixture, rounds) == pytest.approx((design.value, design.max_variance), rel=1e-9)


def test_survivors_only() -> None:
    rounds = rounds_from(uniform(), 800, seed=13)
    survivors = [1, 5, 8]
    design = design_exploration(rounds, EnumerationOracle(POLICIES), problem=PROBLEM, indices=survivors)
    alone = design_exploration(rounds, EnumerationOracle(POLICIES.subset(survivors)), problem=PROBLEM)
    assert set(design.support.tolist()) <= set(survivors)
    np.testing.assert_allclose(design.mixture.weights[survivors], alone.mixture.weights, atol=1e-9)
    with pytest.raises(InputError, match="in the design"):
        design_exploration(rounds, EnumerationOracle(POLICIES), problem=PROBLEM, indices=survivors, start=0)


@pytest.mark.parametrize("log", [Events.none(50), rounds_from(uniform(), 30, seed=0)[:0]])
@pytest.mark.parametrize("survivors", [None, [2, 3]])
def test_no_events_gives_a_uniform_design_that_says_so(log: Rounds | Events, survivors: list[int] | None) -> None:
    design = design_exploration(log, EnumerationOracle(POLICIES), problem=PROBLEM, indices=survivors)
    members = list(range(len(POLICIES))) if survivors is None else survivors
    assert design.support.tolist() == members
    np.testing.assert_allclose(design.mixture.weights[members], 1 / len(members))
    check_empty(design)


def test_all_rewards_zero_and_an_unlistable_class() -> None:
    rounds = rounds_from(uniform(), 40, seed=14)
    silent = Rounds(rounds.decisions, np.zeros_like(rounds.rewards))
    check_empty(design_exploration(silent, EnumerationOracle(POLICIES), problem=PROBLEM))
    design = design_exploration(silent, Wrapped(POLICIES), problem=PROBLEM)
    check_empty(design)
    assert design.mixture.floor == 1.0
    np.testing.assert_allclose(design.mixture.propensities(rounds.decisions.contexts), 3 / 20)


def check_empty(design: Design) -> None:
    assert design.status is Outcome.NO_EVENTS
    assert "uniform" in design.message
    numbers = (design.value, design.gap, design.max_variance, design.gradient_norm)
    assert np.isfinite(numbers).all()
    assert not design.certified
    assert design.oracle_calls == 0


def test_callback_sees_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comband.explore.design, "WARM_START_FROM", 100)
    rounds, states = rounds_from(uniform(), 4000, seed=15), list[State]()
    design = design_exploration(rounds, EnumerationOracle(POLICIES), problem=PROBLEM, callback=states.append)
    assert states[-1].value == pytest.approx(design.value)
    assert design.relative_gap <= 1e-6
    assert design.oracle_calls > len(states)  # the warm start's calls are counted too


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solver": "newton"}, "solver must be one of 'corrective'"),
        ({"floor": 0.0}, "floor"),
        ({"indices": []}, "at least one policy"),
        ({"indices": [12]}, "0 … 11"),
        ({"indices": [True, False]}, "mask"),
        ({"n_columns": 0}, "n_columns"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    rounds = rounds_from(uniform(), 200, seed=16)
    with pytest.raises(InputError, match=message):
        design_exploration(rounds, EnumerationOracle(POLICIES), problem=PROBLEM, **arguments)
    with pytest.raises(InputError, match="enumerated class"):
        design_exploration(rounds, Wrapped(POLICIES), problem=PROBLEM, indices=[0])


def test_doctest() -> None:
    results = doctest.testmod(comband.explore.design)
    assert results.attempted > 0
    assert results.failed == 0


def test_a_policy_set_is_its_own_oracle() -> None:
    problem = Problem(n_actions=4, list_size=1, sparsity=1)
    policies = PolicySet.from_lists([[[0], [1]], [[2], [1]], [[0], [3]]], problem)
    rounds = Rounds.from_log(
        [0, 1, 0], lists=[[0], [1], [2]], rewards=[[1], [1], [1]], propensities=[[0.25]] * 3, problem=problem
    )
    direct = design_exploration(rounds, policies, problem=problem)
    assert direct.mixture.weights.tolist() == (
        design_exploration(rounds, EnumerationOracle(policies), problem=problem).mixture.weights.tolist()
    )
    with pytest.raises(InputError, match="oracle must be a PolicySet or have fit"):
        design_exploration(rounds, list(policies), problem=problem)  # type: ignore[arg-type]
