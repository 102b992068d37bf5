"""Clipped weights: never too small on average, by enumeration; right under peeking, where items could not be shown."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.evaluation.clipped import _BETS, LEVELS, _add, _reach, clipped_gaps
from comband.statistics.histograms import ValueHistograms


def test_clipped_differences_are_never_too_small_on_average() -> None:
    """All contexts and lists, each with its probability: E Z^τ(π) ≥ V(π) − V(b), and equal where nothing is clipped."""
    rng = np.random.default_rng(2)
    problem = cb.Problem(n_actions=5, list_size=2, sparsity=1)
    lists = rng.permuted(np.tile(np.arange(5), (3, 4, 1)), axis=2)[:, :, :2]
    policies = cb.PolicySet.from_lists(lists, problem)
    rewards = rng.dirichlet(np.ones(5), size=4)  # of each context's items, 1 in all
    mixture = cb.Mixture(policies, [0.9, 0.08, 0.02], problem=problem, floor=0.05)
    values = np.array([rewards[np.arange(4)[:, None], lists[p]].sum(axis=1).mean() for p in range(3)])
    for best in range(3):
        means = np.zeros((len(LEVELS), 3))
        total = 0.0
        for x in range(4):
            for shown in combinations(range(5), 2):
                chance = 0.05 / 10 + 0.95 * sum(
                    weight * (set(lists[p, x]) == set(shown)) for p, weight in enumerate((0.9, 0.08, 0.02))
                )
                total += chance / 4
                decisions = cb.Rounds.from_log(
                    np.array([x]),
                    lists=[shown],
                    rewards=[rewards[x, list(shown)]],
                    propensities=mixture.propensities(np.array([x]), [shown]),
                    problem=problem,
                )
                found = [ValueHistograms.zero(3, bound=1 / tau + 1, n_rounds=1) for tau in LEVELS]
                _add(found, decisions, policies, best, mixture, 1.0)
                means += chance / 4 * np.stack([h.counts @ h.grid for h in found])
        assert total == pytest.approx(1)
        gaps = values - values[best]
        assert (means >= gaps - 1e-6).all()
        assert means[-1] == pytest.approx(gaps, abs=1e-6)  # below every propensity
        assert (means[0] > gaps + 1e-3).any()


def test_a_difference_ends_where_the_average_wealth_reaches_the_threshold() -> None:
    """Of a variable that nothing is known of, at the largest possible; of two that always were one value, by hand."""
    largest, n, value = 0.7, 500, {0.5: 2, -0.25: 1}
    found = [ValueHistograms.zero(3, bound=bound, n_rounds=n) for bound in (1.0, 8.0)]
    for histograms in found:
        on_grid = np.zeros((n, 3))
        for z, variable in value.items():
            on_grid[:, variable] = z  # powers of two: points of the grid
        histograms.add(on_grid)
    nothing = [ValueHistograms.zero(3, bound=bound, n_rounds=2) for bound in (1.0, 8.0)]
    assert _reach(nothing, np.log(200), largest).tolist() == [largest] * 3
    ends = _reach(found, np.log(200), largest)

    def wealth(mean: float, z: float) -> float:
        logs = [n * np.log1p(bet / bound * (mean - z)) for bound in (1.0, 8.0) for bet in _BETS]
        return float(np.logaddexp.reduce(logs) - np.log(len(logs)))

    assert ends[1] == 0  # the mean is negative, for sure
    for variable, z in ((0, 0.0), (2, 0.5)):
        assert wealth(ends[variable], z) >= np.log(200) - 1e-9
        assert wealth(ends[variable] - 1e-8, z) < np.log(200)


class Uniform:
    """Lists of two, uniform among the items that a context allows."""

    def __init__(self, allowed: Any) -> None:
        self.allowed, self.propensity = allowed, 2 / allowed.sum(axis=1)

    def inclusion(self, X: Any, items: Any) -> Any:
        return np.where(self.allowed[X[:, None], items], self.propensity[X][:, None], 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [0.0, 0.5, 1.0])
def test_the_bound_holds_under_peeking_whatever_could_be_shown(hidden: float) -> None:
    """Each run is wrong with probability at most .1; more than 24 of 80 happen once in 10^6."""
    rng = np.random.default_rng(3)
    problem = cb.Problem(n_actions=6, list_size=2, sparsity=1)
    lists = rng.permuted(np.tile(np.arange(6), (4, 12, 1)), axis=2)[:, :, :2]
    policies = cb.PolicySet.from_lists(lists, problem)
    liked = lists[3, :, 0]
    truth = (lists == liked[None, :, None]).any(axis=2).mean(axis=1) * 0.8
    allowed = np.ones((12, 6), dtype=bool)
    gone = np.flatnonzero(np.arange(12) < 12 * hidden)
    allowed[gone, liked[gone]] = False
    logging = Uniform(allowed)
    wrong, least = 0, 1.0
    for _ in range(80):
        x = rng.integers(12, size=400)
        shown = np.argsort(np.where(allowed[x], rng.random((400, 6)), 2.0), axis=1)[:, :2]
        rewards = (shown == liked[x][:, None]) & (rng.random((400, 1)) < 0.8)
        q = np.repeat(logging.propensity[x][:, None], 2, axis=1)
        log = cb.Rounds.from_log(x, lists=shown, rewards=rewards, propensities=q, problem=problem)
        failed = False
        for n in (100, 400):
            best = cb.evaluate(log[:n], policies, max_reward=1).candidates[0].index
            gaps = clipped_gaps(log[:n], policies, best, logging=logging, max_reward=1, delta=0.1)
            failed |= truth.max() - truth[best] > gaps.max()
            least = min(least, float(gaps.max()))
        wrong += failed
    assert wrong <= 24
    assert least < (0.35 if hidden == 0 else 1.0)  # it does say something


def test_a_small_floor_costs_little_where_propensities_are_known() -> None:
    """The stated bound pays for the rarest item there may be; clipped weights pay for those that candidates show."""
    rng = np.random.default_rng(4)
    problem = cb.Problem(n_actions=50, list_size=3, sparsity=1)
    lists = rng.permuted(np.tile(np.arange(12), (6, 20, 1)), axis=2)[:, :, :3]
    policies = cb.PolicySet.from_lists(lists, problem)
    mixture = cb.Mixture(policies, np.full(6, 1 / 6), problem=problem, floor=0.02)
    contexts = rng.integers(20, size=4000)
    decisions = mixture.draw(contexts, rng)
    rounds = cb.Rounds(decisions, ((decisions.lists == 5) & (rng.random((4000, 1)) < 0.3)).astype(float))
    least = 0.02 * problem.uniform_propensity
    stated = cb.evaluate(rounds, policies, max_reward=1, min_propensity=least)
    gaps = clipped_gaps(rounds, policies, stated.best.index, logging=mixture, max_reward=1)
    assert gaps[stated.best.index] == 0
    assert gaps.max() < stated.epsilon / 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"best": 4}, "best must lie in 0 … 3"),
        ({"logging": 3}, r"logging must have inclusion\(X, items\)"),
        ({"logging": type("Odd", (), {"inclusion": lambda self, X, items: items + 2.0})()}, "probabilities in"),
        ({"delta": 2.0}, "delta"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    problem = cb.Problem(n_actions=6, list_size=2)
    policies = cb.PolicySet.from_lists(np.array([[[0, 1]], [[1, 2]], [[2, 3]], [[3, 4]]]), problem)
    log = cb.Rounds.from_log(
        np.zeros(2, dtype=int),
        lists=[[0, 1], [1, 2]],
        rewards=np.zeros((2, 2)),
        propensities=np.full((2, 2), 1 / 3),
        problem=problem,
    )
    settings: dict[str, Any] = {"best": 0, "logging": Uniform(np.ones((1, 6), dtype=bool)), "max_reward": 1.0} | changes
    best = settings.pop("best")
    with pytest.raises(cb.InputError, match=words):
        clipped_gaps(log, policies, best, **settings)
    with pytest.raises(cb.InputError, match="there must be rounds"):
        clipped_gaps(log[:0], policies, 0, logging=Uniform(np.ones((1, 6), dtype=bool)), max_reward=1.0)


def _log() -> tuple[cb.Rounds, cb.PolicySet, cb.Mixture]:
    problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies = shop.candidates(4, seed=2)
    mixture = cb.Mixture(policies, np.full(4, 1 / 4), problem=problem, floor=0.05)
    visitors = shop.sample(1500, np.random.default_rng(3))
    decisions = mixture.draw(visitors.contexts, 4)
    return cb.Rounds(decisions, visitors.answer(decisions.lists)), policies, mixture


def test_evaluate_takes_the_rule_that_drew_the_lists() -> None:
    rounds, policies, mixture = _log()
    plain = cb.evaluate(rounds, policies, max_reward=1)
    answer = cb.evaluate(rounds, policies, max_reward=1, logging=mixture)
    gaps = clipped_gaps(rounds, policies, answer.best.index, logging=mixture, max_reward=1)
    assert {one.index: one.gap_bound for one in answer.candidates} == dict(enumerate(gaps.tolist()))
    assert answer.epsilon == answer.covered_epsilon == gaps.max() < plain.epsilon
    assert [one.interval for one in answer.candidates] == [one.interval for one in plain.candidates]
    assert "clipped" in answer.guarantee
    assert all(hint.epsilon < answer.epsilon for hint in answer.hints)


def test_a_rule_that_did_not_draw_the_lists_is_refused() -> None:
    """With other probabilities of what was not shown the bound would be wrong, and the log cannot tell."""
    rounds, policies, mixture = _log()
    other = cb.Mixture(policies, [0.4, 0.2, 0.2, 0.2], problem=mixture.problem, floor=0.05)
    with pytest.raises(cb.InputError, match=r"it gives item \d+ a probability of 0\.\d+ where the log has 0\.\d+"):
        cb.evaluate(rounds, policies, max_reward=1, logging=other)


def test_evaluate_refuses_a_rule_where_it_cannot_help() -> None:
    rounds, policies, mixture = _log()
    with pytest.raises(cb.InputError, match="leave min_propensity out"):
        cb.evaluate(rounds, policies, max_reward=1, logging=mixture, min_propensity=0.01)
    for wrong in (rounds.events(), cb.evaluation.usual_estimates(rounds, policies).to_frame("pandas")):
        with pytest.raises(cb.InputError, match="logging and reward_model are for Rounds"):
            cb.evaluate(wrong, policies, max_reward=1, logging=mixture)
