"""Designs and mixtures where places matter: by definition, by frequency, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.explore.oracles import EnumerationOracle
from comband.page.places import pair_lists, placed_rounds
from comband.page.problem import InputError
from comband.policies.midzuno import MidzunoLists
from comband.policies.placed import PlacedPolicies
from comband.policies.reading import reading_of
from tests.strategies import random_policies

K, M, N = 6, 3, 5
THETA = (1.0, 0.6, 0.3)
PLAIN = cb.Problem(K, M, 1)
PAIRS, FACTORS = replace(PLAIN, places="pairs"), replace(PLAIN, places=THETA, order="random")
NATURAL = replace(PLAIN, places=THETA)


def logged(problem: cb.Problem, seed: int, n: int = 600) -> tuple[cb.Rounds, cb.PolicySet]:
    """Rounds of a mixture, one click at most in each; and the candidates."""
    rng = np.random.default_rng(seed)
    policies = random_policies(7, N, problem, rng)
    mixture = cb.Mixture(policies, rng.dirichlet(np.ones(7)), problem=problem, floor=0.4)
    decisions = mixture.draw(rng.integers(N, size=n), rng)
    clicked = np.eye(M)[rng.choice(M, n, p=np.array(THETA) / sum(THETA))] * (rng.random((n, 1)) < 0.5)
    return cb.Rounds(decisions, clicked), policies


def test_a_mixture_of_pairs_by_definition() -> None:
    rng = np.random.default_rng(1)
    policies, weights = random_policies(4, N, PAIRS, rng), rng.dirichlet(np.ones(4))
    mixture = cb.Mixture(policies, weights, problem=PAIRS, floor=0.3)
    lists = policies.predict(np.arange(N))
    Q = np.full((N, K, M), 0.3 / K)
    for x in range(N):
        for p in range(4):
            Q[x, lists[x, p], np.arange(M)] += 0.7 * weights[p]
    np.testing.assert_allclose(mixture.propensities(np.arange(N)), Q.reshape(N, K * M), atol=1e-15)
    np.testing.assert_allclose(mixture.sparse_propensities(np.arange(N)).dense(), Q.reshape(N, K * M), atol=1e-15)
    shown = mixture.draw(np.repeat(np.arange(N), 4000), 5)
    x, k = shown.contexts[:, None], np.arange(M)
    np.testing.assert_allclose(shown.propensities, Q[x, shown.lists, k], atol=1e-15)
    np.testing.assert_allclose(mixture.propensities(shown.contexts, shown.lists), shown.propensities, atol=1e-15)
    counts = np.zeros((N, K, M))
    np.add.at(counts, (x, shown.lists, k), 1)
    assert (binom.cdf(counts, 4000, Q) > 1e-9).all()
    assert (binom.sf(counts - 1, 4000, Q) > 1e-9).all()


def test_a_mixture_by_examination_is_shown_in_random_order() -> None:
    policies = random_policies(3, N, FACTORS, np.random.default_rng(2))
    sets, examined = (
        cb.Mixture(policies, np.ones(3) / 3, problem=problem, floor=0.01).draw(np.zeros(3000, dtype=int), 5)
        for problem in (PLAIN, FACTORS)
    )
    assert examined.lists.tolist() == sets.lists.tolist()
    assert examined.propensities.tolist() == sets.propensities.tolist()
    orders = np.unique(np.argsort(examined.lists, axis=1) @ [9, 3, 1], return_counts=True)[1]
    assert len(orders) == 6
    assert (np.abs(orders - 500) < 6 * np.sqrt(3000 * 5 / 36)).all()


@pytest.mark.parametrize("problem", [PAIRS, FACTORS], ids=["pairs", "factors"])
def test_mixtures_with_places_are_saved(problem: cb.Problem, tmp_path: Path) -> None:
    rounds, policies = logged(problem, 3)
    mixture = cb.design_exploration(rounds, policies, problem=problem).mixture
    mixture.save(tmp_path / "mixture.npz")
    again = cb.Mixture.load(tmp_path / "mixture.npz", policies)
    assert again.problem == problem
    X = np.arange(N)
    assert again.draw(X, 3).lists.tolist() == mixture.draw(X, 3).lists.tolist()
    assert again.draw(X, 3).propensities.tolist() == mixture.draw(X, 3).propensities.tolist()


def test_a_design_of_pairs_is_one_of_actions() -> None:
    """The same rounds with every pair under a number of its own, in a problem of K·m actions."""
    rounds, policies = logged(PAIRS, 4)
    design = cb.design_exploration(rounds, policies, problem=PAIRS, floor=0.4)
    numbered = cb.Problem(K * M, M, 1)
    lists = pair_lists(policies.predict(np.arange(N))).transpose(1, 0, 2)
    plain = cb.design_exploration(
        cb.Rounds.from_log(
            rounds.decisions.contexts,
            lists=pair_lists(rounds.decisions.lists),
            rewards=rounds.rewards,
            propensities=rounds.decisions.propensities,
            problem=numbered,
        ),
        cb.PolicySet.from_lists(lists, numbered),
        problem=numbered,
        floor=0.4,
    )
    np.testing.assert_allclose(design.mixture.weights, plain.mixture.weights, atol=1e-9)
    assert design.value == pytest.approx(plain.value, rel=1e-12)
    assert design.max_variance == pytest.approx(plain.max_variance, rel=1e-9)
    assert design.mixture.problem == PAIRS
    assert design.mixture.policies is policies
    # F̂ and the largest proxy by their definitions.
    x, y, k = rounds.decisions.contexts[:, None], rounds.decisions.lists, np.arange(M)
    Q = design.mixture.propensities(np.arange(N)).reshape(N, K, M)[x, y, k]
    w = rounds.rewards / rounds.decisions.propensities / len(rounds)
    assert design.value == pytest.approx(-(w * np.log(Q)).sum(), rel=1e-9)
    shows = policies.predict(rounds.decisions.contexts) == y[:, None]
    assert design.max_variance == pytest.approx((shows * (w / Q)[:, None]).sum(axis=(0, 2)).max(), rel=1e-9)
    assert design.meets_paper_bound is (design.gradient_norm <= 2 * M)


def test_a_design_by_examination_is_that_of_sets_in_random_order() -> None:
    rounds, policies = logged(FACTORS, 5)
    design = cb.design_exploration(rounds, policies, problem=FACTORS)
    plain = cb.design_exploration(rounds.events(), policies, problem=PLAIN)
    assert design.mixture.weights.tolist() == plain.mixture.weights.tolist()
    assert (design.value, design.max_variance) == (plain.value, plain.max_variance)
    assert design.mixture.problem == FACTORS


def second_moments(Q: NDArray[np.float64], relevance: NDArray[np.float64], theta: NDArray[np.float64]) -> Any:
    """E X(π)² of all ordered lists π for one click per round, over all sets, orders and clicks (lists with Q = uniform
    are the whole law here): X = r·θ_π(y)/e(y) when y is clicked in its place.
    """
    every = np.array(list(permutations(range(K), M)))
    e = Q * theta.mean()
    moments = np.zeros(len(every))
    for shown in every:  # each with the chance 1/len(every)
        for k, y in enumerate(shown):
            worth = np.where(every == y, theta, 0.0).sum(axis=1) / e[y]
            moments += relevance[y] * theta[k] * worth**2 / len(every)
    proxies = np.array([(relevance * theta.mean() / Q)[row].sum() for row in every])
    return moments, proxies


@pytest.mark.parametrize("seed", range(4))
def test_variances_by_examination_grow_by_the_square_of_the_stretch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = np.array([THETA, (1.0, 1.0, 1.0), (1.0, 2.0, 0.5), (1.0, 0.1, 0.1)][seed])
    relevance = rng.dirichlet(np.ones(K)) / theta.max()
    moments, proxies = second_moments(np.full(K, M / K), relevance, theta)
    c = reading_of(replace(PLAIN, places=tuple(theta))).stretch
    assert c == pytest.approx(theta.max() * M / theta.sum())
    assert (moments <= c**2 * proxies * (1 + 1e-12)).all()
    if seed == 1:
        np.testing.assert_allclose(moments, proxies, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_variances_in_natural_order_grow_by_the_square_of_the_spread(seed: int) -> None:
    """Of a mixture of candidates' lists as they are and uniform ones, by its whole law: E X² = Σ rel·θ²/e."""
    rng = np.random.default_rng(seed)
    theta = np.array([THETA, (1.0, 1.0, 1.0), (1.0, 2.0, 0.5), (1.0, 0.1, 0.1)][seed % 4])
    problem = replace(PLAIN, places=tuple(theta))
    policies, every = random_policies(7, 1, problem, rng), np.array(list(permutations(range(K), M)))
    mixture = cb.Mixture(policies, rng.dirichlet(np.full(7, 0.3)), problem=problem, floor=0.2 if seed % 2 else 1e-3)
    items = np.arange(K, dtype=np.int32)[None]
    e = mixture.placements_of([0], items)[0] @ np.array(problem.places)
    q, relevance = mixture.propensities([0])[0], rng.dirichlet(np.ones(K)) / theta.max()
    own, at = np.array(problem.places), np.arange(M)
    moments = np.array([(relevance[row] * own[at] ** 2 / e[row]).sum() for row in every])
    proxies = np.array([(relevance[row] * own.mean() / q[row]).sum() for row in every])
    c = reading_of(problem).spread
    assert (moments <= c**2 * proxies * (1 + 1e-12)).all()
    assert c >= reading_of(problem).stretch == reading_of(replace(problem, order="random")).spread


@pytest.mark.parametrize("rounds_too", [False, True])
def test_a_design_from_a_log_in_natural_order_is_that_of_its_examination(rounds_too: bool) -> None:
    rounds, policies = logged(NATURAL, 5)
    seen = reading_of(NATURAL).seen(rounds)
    stated = rounds.decisions.placements
    assert stated is not None
    i, k = np.nonzero(rounds.rewards)
    np.testing.assert_allclose(seen.propensities, stated[i, k] @ np.array(THETA) / np.mean(THETA))
    design = cb.design_exploration(rounds if rounds_too else seen, policies, problem=NATURAL)
    plain = cb.design_exploration(seen, policies, problem=PLAIN)
    assert design.mixture.weights.tolist() == plain.mixture.weights.tolist()
    assert design.mixture.problem == NATURAL


def test_settings_of_designs() -> None:
    assert reading_of(PAIRS).design == cb.Problem(K * M, M, 1)
    assert reading_of(PAIRS).theory == cb.Problem(K * M, M, M)  # one wanted item is wanted in each of M places
    assert reading_of(FACTORS).design == reading_of(NATURAL).design == reading_of(FACTORS).theory == PLAIN
    assert reading_of(replace(PAIRS, sparsity=None)).theory.sparsity is None
    assert reading_of(PAIRS).stretch == reading_of(PLAIN).stretch == 1


@pytest.mark.parametrize("problem", [PAIRS, FACTORS], ids=["pairs", "factors"])
def test_designs_with_places_are_certified_on_held_out_rounds(problem: cb.Problem) -> None:
    rounds, policies = logged(problem, 6)
    design = cb.design_exploration(rounds, policies, problem=problem, floor=0.4)
    uniform = cb.Mixture(policies, np.ones(7) / 7, problem=problem, floor=1.0).draw(np.arange(400) % N, 8)
    rewards = np.eye(M)[np.arange(400) % M] * (np.arange(400) % 2)[:, None]
    certificate = design.certify(cb.Rounds(uniform, rewards), 0.05)
    Q = design.mixture.propensities(uniform.contexts, uniform.lists)
    lists = policies.predict(uniform.contexts)
    shows = (
        lists == uniform.lists[:, None]
        if problem is PAIRS
        else (lists[:, :, :, None] == uniform.lists[:, None, None]).any(axis=2)
    )
    means = (shows * (rewards / (Q * uniform.propensities))[:, None]).sum(axis=(0, 2)) / 400
    assert certificate.estimate == pytest.approx(means.max(), rel=1e-9)
    assert certificate.max_variance > certificate.estimate


class _Oracle:
    exact = True

    def fit(self, X: Any, rewards: Any) -> Any:
        raise AssertionError("nobody should be asked")


def test_what_a_design_with_places_refuses() -> None:
    rounds, policies = logged(PAIRS, 7)
    with pytest.raises(InputError, match="give a PolicySet"):
        cb.design_exploration(rounds, _Oracle(), problem=PAIRS)
    with pytest.raises(InputError, match="in which place"):
        cb.design_exploration(rounds.events(), policies, problem=PAIRS)
    with pytest.raises(InputError, match="lists of 2 items"):
        cb.design_exploration(rounds, policies, problem=cb.Problem(K, 2, 1, places="pairs"))
    with pytest.raises(InputError, match="places"):
        MidzunoLists(cb.Mixture(policies, np.ones(7) / 7, problem=PAIRS, floor=0.5))
    # Events of pairs are told by the class that goes with them.
    events = placed_rounds(rounds, "pairs").events()
    design = cb.design_exploration(events, EnumerationOracle(PlacedPolicies(policies, M)), problem=PAIRS)
    expected = cb.design_exploration(rounds, policies, problem=PAIRS)
    assert design.mixture.weights.tolist() == expected.mixture.weights.tolist()
    assert cb.design_exploration(rounds[:0], policies, problem=PAIRS).mixture.problem == PAIRS
