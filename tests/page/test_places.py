"""Places: three readings of a problem, and estimates that are unbiased under each, by enumeration of all lists."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

import comband as cb
from comband.page.places import (
    examined_events,
    fit_examination,
    fit_factors,
    item_lists,
    pair_lists,
    placed_rounds,
)
from comband.page.problem import InputError
from comband.page.storage import PROBLEM, check
from comband.policies.placed import PlacedPolicies
from comband.statistics.importance import round_values
from tests.statistics.place_laws import all_lists, inclusion, placements
from tests.strategies import random_policies

K, M = 5, 3
FACTORS = (1.0, 0.6, 0.3)
EVERY = np.array(list(permutations(range(K), M)), dtype=np.int32)  # all ordered lists


def test_problems_say_how_places_work() -> None:
    assert cb.Problem(5, 3).places is None
    assert cb.Problem(5, 3, places=np.array([2.0, 1.0, 1.0])).places == (1.0, 0.5, 0.5)
    assert cb.Problem(5, 3, places="pairs").places == "pairs"
    assert cb.Problem(5, 3, places=[1, 1, 1]) != cb.Problem(5, 3)
    assert len({cb.Problem(5, 3, places=[1, 1, 1]), cb.Problem(5, 3, places=(2, 2, 2))}) == 1


@pytest.mark.parametrize(
    "places",
    [
        *("items", "", 1.0, True, object(), {"a": 1}, ["a", "b", "c"], [[1.0, 1.0, 1.0]]),
        *([1.0, 0.5], [1.0, 0.5, 0.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], [1.0, 1e-4, 1.0]),
    ],
)
def test_other_places_are_refused(places: Any) -> None:
    with pytest.raises(InputError, match=r"places|factor"):
        cb.Problem(5, 3, places=places)


def test_places_do_not_go_with_totals_nor_with_too_many_pairs() -> None:
    with pytest.raises(InputError, match="totals"):
        cb.Problem(5, 3, feedback="total", places="pairs")
    with pytest.raises(InputError, match="2\\*\\*31"):
        cb.Problem(2**30, 3, places="pairs")


@pytest.mark.parametrize("places", [None, "pairs", FACTORS])
def test_problems_with_places_are_saved(places: Any) -> None:
    problem = cb.Problem(5, 3, 2, places=places)
    state: dict[str, Any] = {"n_actions": 5, "list_size": 3, "sparsity": 2.0, "feedback": "items"}
    state["places"] = list(places) if isinstance(places, tuple) else places
    check(state, PROBLEM)
    assert cb.Problem(**state) == problem


@pytest.mark.parametrize("places", ["item", 3, [1.0, "a"], {"a": 1.0}, [-1.0]])
def test_files_with_other_places_are_refused(places: Any) -> None:
    state = {"n_actions": 5, "list_size": 3, "sparsity": 2.0, "feedback": "items", "places": places}
    with pytest.raises(InputError, match="places"):
        check(state, PROBLEM)


def unready() -> dict[str, Any]:
    policies = cb.PolicySet.from_lists(EVERY[None, :1].repeat(2, axis=0), cb.Problem(K, M))
    placed = cb.Problem(K, M, 1, places="pairs")
    return {
        "Exp4": lambda: cb.regret.Exp4(placed, policies, horizon=100),
        "Exp4CombSparse": lambda: cb.Exp4CombSparse(placed, policies, horizon=100),
        "EpsilonGreedy": lambda: cb.regret.EpsilonGreedy(placed, policies, horizon=100),
        "theory": lambda: cb.theory.pac_comband(placed, n_policies=9, epsilon=0.1, delta=0.1),
        "the lower bound's instances": lambda: cb.worlds.LowerBoundInstance(placed, epsilon=0.01),
    }


@pytest.mark.parametrize("who", list(unready()))
def test_whoever_reads_a_list_as_a_set_refuses_places(who: str) -> None:
    with pytest.raises(InputError, match="places"):
        unready()[who]()


def test_pairs_have_numbers() -> None:
    lists = np.array([[3, 0, 4], [1, 2, 0]], dtype=np.int32)
    numbers = pair_lists(lists)
    assert numbers.tolist() == [[9, 1, 14], [3, 7, 2]]
    assert (item_lists(numbers) == lists).all()
    problem = cb.Problem(K, M)
    policies = random_policies(4, 6, problem, np.random.default_rng(0))
    placed = PlacedPolicies(policies, M)
    X = np.arange(6)
    assert (item_lists(placed.predict(X)) == policies.predict(X)).all()
    assert (placed.subset([2, 0]).predict(X) == placed.predict(X, [2, 0])).all()
    inside = placed.contains(X, np.array([0, 5]), np.array([3 * M + 1, 4 * M], dtype=np.int32))
    lists = policies.predict(X)
    assert (inside == np.stack([lists[0, :, 1] == 3, lists[5, :, 0] == 4])).all()
    with pytest.raises(InputError, match="items must be numbers"):
        pair_lists(np.array([[2**30, 1, 0]], dtype=np.int32))


def world(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], cb.PolicySet]:
    """Chances of all ordered lists, the mean reward of every item in every place (K, m), and six candidates."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(len(EVERY))), rng.random((K, M)), random_policies(6, 1, cb.Problem(K, M), rng)


def mean_estimates(
    chances: NDArray[np.float64],
    rewards: NDArray[np.float64],
    q: NDArray[np.float64],
    policies: cb.PolicySet,
    places: Any,
) -> NDArray[np.float64]:
    """Σ over all lists of their chance times X(π): one round with each list, its rewards the means."""
    shown = rewards[EVERY, np.arange(M)]
    log = cb.Rounds.from_log(
        np.zeros(len(EVERY), dtype=int), lists=EVERY, rewards=shown, propensities=q, problem=cb.Problem(K, M)
    )
    pairs = placed_rounds(log, places)
    candidates = policies if places is None else PlacedPolicies(policies, M)
    X = np.concatenate(list(round_values(pairs.events(), candidates)))
    assert len(X) == len(EVERY)
    return np.asarray(chances @ X)


@pytest.mark.parametrize("seed", range(5))
def test_estimates_from_pairs_are_unbiased(seed: int) -> None:
    chances, rewards, policies = world(seed)
    of_pair = np.zeros((K, M))
    np.add.at(of_pair, (EVERY, np.arange(M)), chances[:, None])
    lists = policies.predict(np.zeros(1, dtype=int))[0]
    truth = rewards[lists, np.arange(M)].sum(axis=1)
    found = mean_estimates(chances, rewards, of_pair[EVERY, np.arange(M)], policies, "pairs")
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-14)
    # Inclusion weights are not: an item is credited for rewards of places that a candidate does not give it.
    anywhere = of_pair.sum(axis=1)
    wrong = mean_estimates(chances, rewards, np.minimum(anywhere[EVERY], 1.0), policies, None)
    assert np.abs(wrong - truth).max() > 0.01


@pytest.mark.parametrize("seed", range(5))
def test_estimates_by_examination_are_unbiased(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    sets = {chosen: i for i, chosen in enumerate(combinations(range(K), M))}
    of_set = rng.dirichlet(np.ones(len(sets)))
    chances = of_set[[sets[tuple(sorted(row))] for row in EVERY.tolist()]] / 6  # all orders of a set alike
    relevance = rng.random(K)
    theta = np.array(FACTORS if seed % 2 else (1.0, 1.7, 0.2))
    rewards = relevance[:, None] * theta / theta.max()
    anywhere = np.bincount(EVERY.ravel(), np.repeat(chances, M), minlength=K)
    policies = random_policies(6, 1, cb.Problem(K, M), rng)
    lists = policies.predict(np.zeros(1, dtype=int))[0]
    truth = rewards[lists, np.arange(M)].sum(axis=1)
    found = mean_estimates(chances, rewards, np.minimum(anywhere[EVERY], 1.0), policies, tuple(theta))
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-14)
    wrong = mean_estimates(chances, rewards, np.minimum(anywhere[EVERY], 1.0), policies, None)
    assert np.abs(wrong - truth).max() > 0.01


def slate_log(seed: int, n: int = 400) -> tuple[cb.Rounds, cb.PolicySet]:
    """Slates drawn with every order of its own chance in each of four contexts, with the propensity of each slot."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(len(EVERY)), size=4)
    of_pair = np.zeros((4, K, M))
    for x in range(4):
        np.add.at(of_pair[x], (EVERY, np.arange(M)), chances[x][:, None])
    X = rng.integers(4, size=n)
    lists = EVERY[[rng.choice(len(EVERY), p=chances[x]) for x in X]]
    rewards = rng.random((4, K, M))[X[:, None], lists, np.arange(M)] * (rng.random((n, M)) < 0.5)
    problem = cb.Problem(K, M)
    policies = random_policies(5, 4, problem, rng)
    propensities = of_pair[X[:, None], lists, np.arange(M)]
    return cb.Rounds.from_log(X, lists=lists, rewards=rewards, propensities=propensities, problem=problem), policies


def independent_ips(rounds: cb.Rounds, policies: cb.PolicySet, p: int) -> float:
    """obp's SlateIndependentIPS, slot by slot: the mean over slates of Σ_k r_k·π_e(a_k | x, k)/π_b(a_k | x, k)."""
    total = 0.0
    lists = policies.predict(rounds.decisions.contexts)
    for i in range(len(rounds)):
        for k in range(M):
            evaluated = 1.0 if lists[i, p, k] == rounds.decisions.lists[i, k] else 0.0
            total += float(rounds.rewards[i, k]) * evaluated / float(rounds.decisions.propensities[i, k])
    return total / len(rounds)


def test_evaluation_of_pairs_is_independent_ips() -> None:
    rounds, policies = slate_log(0)
    result = cb.evaluate(rounds, policies, max_reward=M, places="pairs")
    assert [c.value for c in result.candidates] == pytest.approx(
        [independent_ips(rounds, policies, c.index) for c in result.candidates], abs=1e-12
    )
    assert result.rewards == int((rounds.rewards > 0).sum())
    assert result.propensity_check is not None
    assert result.propensity_check.expected == M
    items = cb.evaluate(rounds, policies, max_reward=M)
    assert {c.index: c.value for c in items.candidates} != {c.index: c.value for c in result.candidates}


def test_evaluation_by_examination_by_hand() -> None:
    problem = cb.Problem(4, 2)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 0]], [[2, 3]]], problem)
    log = cb.Rounds.from_log(
        np.zeros(2, dtype=int),
        lists=[[0, 1], [3, 1]],
        rewards=[[1.0, 0.0], [0.0, 0.5]],
        propensities=[[0.5, 0.8], [0.4, 0.8]],
        problem=problem,
    )
    result = cb.evaluate(log, policies, max_reward=2, places=[1.0, 0.5])
    values = {c.index: c.value for c in result.candidates}
    # e = q·.75: item 0 brings 1/(.5·.75), item 1 brings .5/(.8·.75), times the factor of the candidate's own place.
    zero, one = 1 / 0.375, 0.5 / 0.6
    assert values[0] == pytest.approx(min((zero + 0.5 * one) / 2, 2))
    assert values[1] == pytest.approx((0.5 * zero + one) / 2)
    assert values[2] == 0
    assert result.propensity_check is not None
    assert result.propensity_check.expected == 2
    assert result.rewards == 2


def test_intervals_of_both_readings_hold_the_truth() -> None:
    """On long logs in random order: all intervals hold at once but with probability δ = 1e-6."""
    rng = np.random.default_rng(7)
    n, theta = 30_000, np.array(FACTORS)
    relevance = rng.uniform(0.1, 0.9, size=K)
    lists = np.argsort(rng.random((n, K)), axis=1)[:, :M].astype(np.int32)
    rewards = (rng.random((n, M)) < relevance[lists] * theta).astype(float)
    policies = random_policies(6, 1, cb.Problem(K, M), rng)
    truth = (relevance[policies.predict(np.zeros(1, dtype=int))[0]] * theta).sum(axis=1)
    for places, q in (("pairs", 1 / K), (FACTORS, M / K)):
        log = cb.Rounds.from_log(
            np.zeros(n, dtype=int),
            lists=lists,
            rewards=rewards,
            propensities=np.full((n, M), q),
            problem=cb.Problem(K, M),
        )
        for least in (None, q):
            result = cb.evaluate(log, policies, max_reward=M, min_propensity=least, places=places, delta=1e-6)
            assert result.trusted
            assert not result.unjudged
            assert all(c.interval[0] <= truth[c.index] <= c.interval[1] for c in result.candidates)
            assert truth.max() - truth[result.best.index] <= result.epsilon


def test_evaluation_refuses_what_has_no_places() -> None:
    rounds, policies = slate_log(1, n=20)
    with pytest.raises(InputError, match="in which place"):
        cb.evaluate(rounds.events(), policies, max_reward=M, min_propensity=0.01, places="pairs")
    with pytest.raises(InputError, match="one factor for each of 3"):
        cb.evaluate(rounds, policies, max_reward=M, places=[1.0, 0.5])
    with pytest.raises(InputError, match="raise max_reward"):
        cb.evaluate(rounds, policies, max_reward=0.5, places="pairs")


def test_factors_are_fitted_on_random_orders() -> None:
    rng = np.random.default_rng(3)
    n, theta = 40_000, np.array(FACTORS)
    relevance = rng.uniform(0.1, 0.5, size=K)
    lists = np.argsort(rng.random((n, K)), axis=1)[:, :M].astype(np.int32)
    rewards = (rng.random((n, M)) < relevance[lists] * theta).astype(float)
    log = cb.Rounds.from_log(
        np.zeros(n, dtype=int),
        lists=lists,
        rewards=rewards,
        propensities=np.full((n, M), M / K),
        problem=cb.Problem(K, M),
    )
    fitted = np.array(fit_examination(log))
    counts = rewards.sum(axis=0)
    spread = theta * np.sqrt(1 / counts + 1 / counts[0])
    assert fitted[0] == 1
    assert (np.abs(fitted - theta)[1:] < 5.5 * spread[1:]).all()
    assert cb.Problem(K, M, places=fitted).places == tuple(fitted)
    with pytest.raises(InputError, match="at least 10 rewards"):
        fit_examination(log[:3])
    with pytest.raises(InputError, match="Rounds"):
        fit_examination(log.events())  # type: ignore[arg-type]


def natural_log(factors: Any, n: int, seed: int, share: float = 0.1) -> cb.Rounds:
    """n rounds in natural order, some in random order, with independent clicks: several in some rounds."""
    rng = np.random.default_rng([seed, 5])
    q = inclusion(np.array([0.9, 0.7, 0.5, 0.4, 0.3]), M)
    known, cuts = placements(q, M, share), all_lists(q, M)
    lists = np.array([one for _, one in cuts], dtype=np.int32)[rng.choice(len(cuts), size=n, p=[p for p, _ in cuts])]
    shuffled = rng.random(n) < share
    lists[shuffled] = rng.permuted(lists[shuffled], axis=1)
    relevance = np.linspace(0.8, 0.2, K)
    return cb.Rounds.from_log(
        np.zeros(n, dtype=int),
        lists=lists,
        rewards=(rng.random((n, M)) < relevance[lists] * np.array(factors)).astype(float),
        propensities=known.sum(axis=1)[lists],
        problem=cb.Problem(K, M),
        placements=known[lists],
    )


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_factors_are_fitted_in_any_known_order(share: float) -> None:
    """The mean square of 300 errors over their standard errors is near 1: within what 300 normal ones exceed with
    probability 1e-7, and somewhat more, since errors of factors are skewed.
    """
    fits = [fit_examination(natural_log(FACTORS, 1500, seed, share)) for seed in range(300)]
    z = (np.array(fits)[:, 1:] - FACTORS[1:]) / np.array([fit.standard_errors[1:] for fit in fits])
    assert ((z**2).sum(axis=0) > 0.9 * chi2.ppf(1e-7, 300)).all()
    assert ((z**2).sum(axis=0) < 1.1 * chi2.isf(1e-7, 300)).all()
    assert (np.abs(z.mean(axis=0)) < 6 / np.sqrt(300)).all()
    assert all(fit[0] == 1 and fit.standard_errors[0] == 0 for fit in fits)


def test_the_fit_is_the_most_likely_one() -> None:
    rounds = natural_log(FACTORS, 2000, 1)
    known: Any = rounds.decisions.placements
    i, j = np.nonzero(rounds.rewards)

    def likelihood(theta: NDArray[np.float64]) -> float:
        return float(np.log(theta[j] * known[i, j, j] / (known[i, j] @ theta)).sum())

    fitted = np.array(fit_examination(rounds))
    for k, factor in product((1, 2), (0.99, 1.01)):
        other = fitted.copy()
        other[k] *= factor
        assert likelihood(other) < likelihood(fitted)


def test_in_random_order_the_fit_is_that_of_sums() -> None:
    """With one click per round the errors are θ_k·√(1/n_k + 1/n_0), and equal placements say the same."""
    rng = np.random.default_rng(8)
    rewards = np.eye(3)[rng.choice(3, size=700, p=[0.5, 0.3, 0.2])]
    counts = rewards.sum(axis=0)
    for known in (None, np.full((700, 3, 3), 0.2)):
        fitted = fit_factors(rewards, known)
        assert fitted == pytest.approx(tuple(counts / counts[0]))
        errors = counts / counts[0] * np.sqrt(1 / counts + 1 / counts[0])
        assert fitted.standard_errors[1:] == pytest.approx(tuple(errors[1:]))


def test_errors_of_a_fit_count_rounds_not_rewards() -> None:
    """Where all three items are always answered together the places are known to be alike, without any error."""
    rewards = np.repeat([[1.0, 1.0, 1.0]], 50, axis=0)
    fitted = fit_factors(rewards, None)
    assert tuple(fitted) == (1, 1, 1)
    assert fitted.standard_errors == pytest.approx((0, 0, 0), abs=1e-9)


def test_fitted_factors_are_passed_on() -> None:
    fitted = fit_examination(natural_log(FACTORS, 2000, 2))
    assert pickle.loads(pickle.dumps(fitted)).standard_errors == fitted.standard_errors
    assert cb.Problem(K, M, places=fitted).places == tuple(fitted)


def test_orders_that_tell_nothing_of_places_are_refused() -> None:
    """Each item is always in one place; or the places of some items have nothing to do with those of the others."""
    rewards = np.eye(3)[np.arange(90) % 3]
    apart = np.tile([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.9]], (90, 1, 1))
    for known in (np.tile(np.eye(3), (90, 1, 1)), apart):
        with pytest.raises(InputError, match="do not tell the factors of 3 places apart"):
            fit_factors(rewards, known)


def test_a_problem_without_places_is_as_before() -> None:
    rounds, policies = slate_log(2, n=50)
    assert placed_rounds(rounds, None) is rounds
    assert replace(cb.Problem(K, M, places="pairs"), places=None) == cb.Problem(K, M)
    assert cb.evaluate(rounds, policies, max_reward=M, places=None) == cb.evaluate(rounds, policies, max_reward=M)


@pytest.mark.parametrize("least", [None, 0, -1, 1.5, "ten", np.nan])
def test_factors_need_some_rewards_of_every_place(least: Any) -> None:
    rounds, _ = slate_log(1)
    with pytest.raises(InputError, match="least"):
        fit_examination(rounds, least=least)


def test_stated_places_give_examinations_and_pairs() -> None:
    """By hand: an item with Q = .3 in the first place and .2 in the second, θ = (1, ½), has e = .4."""
    problem = cb.Problem(4, 2)
    rounds = cb.Rounds.from_log(
        [0],
        lists=[[2, 1]],
        rewards=[[1, 0]],
        propensities=[[0.5, 0.6]],
        problem=problem,
        placements=[[[0.3, 0.2], [0.2, 0.4]]],
    )
    read = placed_rounds(rounds, (1.0, 0.5)).events()
    assert read.actions.tolist() == [4, 5]
    assert np.allclose(read.propensities, [0.4, 0.8])
    assert np.allclose(examined_events(rounds.events(), (1.0, 0.5)).propensities, [0.4, 0.8])
    assert np.allclose(placed_rounds(rounds, "pairs").decisions.propensities, [[0.3, 0.4]])
    assert read.placements is None
    assert placed_rounds(rounds, "pairs").decisions.placements is None
