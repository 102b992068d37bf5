"""Midzuno's lists: the law of whole lists by enumeration of every draw, and by frequency."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import chi2

import comband as cb
from comband.page.totals import filled_shares
from comband.policies.midzuno import MidzunoLists
from tests.strategies import all_lists, hoeffding_radius, random_policies, random_weights
from tests.total_worlds import total_world


@pytest.mark.parametrize("seed", range(12))
def test_law_of_whole_lists_by_enumeration_of_draws(seed: int) -> None:
    world = total_world(seed, most_actions=10)
    problem, mixture = world.problem, world.mixture
    K, m = problem.n_actions, problem.list_size
    shares = world.shares()
    for x in range(len(world.rewards)):
        shown = [policy.predict([x])[0].tolist() for policy in world.policies]
        law: Counter[frozenset[int]] = Counter()
        for y in range(K):
            first = mixture.floor / K + (1 - mixture.floor) * sum(
                p * (y in mine) / m for p, mine in zip(mixture.weights, shown, strict=True)
            )
            others = [z for z in range(K) if z != y]
            for fill in combinations(others, m - 1):
                law[frozenset((y, *fill))] += first / comb(K - 1, m - 1)
        for a, share in zip(all_lists(problem), shares[x], strict=True):
            assert share / comb(K - 1, m - 1) == pytest.approx(law[frozenset(a)], rel=1e-12)
        assert shares[x].sum() / comb(K - 1, m - 1) == pytest.approx(1, abs=1e-13)
        included = np.zeros(K)
        for some, probability in law.items():
            included[list(some)] += probability
        said = MidzunoLists(mixture).propensities(np.full(len(world.lists), x), world.lists)
        np.testing.assert_allclose(said, included[world.lists], rtol=1e-12)


def test_a_million_lists_are_of_that_law_in_any_order() -> None:
    """Chi-square of all lists, Hoeffding for places; a right program fails with a probability below 1e-6."""
    problem, n = cb.Problem(6, 3, 2, "total"), 1_000_000
    rng = np.random.default_rng(5)
    policies = random_policies(4, 1, problem, rng)
    lists = MidzunoLists(cb.Mixture(policies, random_weights(4, rng), problem=problem, floor=0.3))
    drawn = lists.draw(np.zeros(n, dtype=np.int64), 7).lists
    every = all_lists(problem)
    code = {sum(1 << y for y in a): i for i, a in enumerate(every)}
    codes, counts = np.unique((1 << drawn.astype(np.int64)).sum(axis=1), return_counts=True)
    observed = np.zeros(len(every))
    observed[[code[int(c)] for c in codes]] = counts
    expected = n * lists.shares(np.zeros(len(every), dtype=np.int64), every) / comb(5, 2)
    assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(5e-7, len(every) - 1)
    for y in range(6):
        places = [(drawn[:, j] == y).mean() for j in range(3)]
        assert max(places) - min(places) < 2 * hoeffding_radius(n, 5e-7, tests=18)


def test_decisions_carry_the_probabilities_of_being_shown() -> None:
    world = total_world(3)
    lists = MidzunoLists(world.mixture)
    contexts = np.arange(len(world.rewards)).repeat(20)
    decisions = lists.draw(contexts, 1, first_id=40)
    assert decisions.ids.tolist() == list(range(40, 40 + len(contexts)))
    ordered = np.sort(decisions.lists, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert ordered.min() >= 0
    assert ordered.max() < world.problem.n_actions
    np.testing.assert_array_equal(decisions.propensities, lists.propensities(contexts, decisions.lists))
    first = lists.first_propensities(contexts, decisions.lists)
    np.testing.assert_allclose(
        first, world.mixture.propensities(contexts, decisions.lists) / world.problem.list_size, rtol=1e-15
    )
    np.testing.assert_allclose(filled_shares(decisions.propensities, world.problem), first.sum(axis=1), rtol=1e-12)
    again = lists.draw(contexts, 1, first_id=40)
    assert again.lists.tolist() == decisions.lists.tolist()


def test_lists_of_everything_are_refused() -> None:
    problem = cb.Problem(3, 3)
    policies = cb.PolicySet.from_lists([[[0, 1, 2]]], problem)
    with pytest.raises(cb.InputError, match="nothing can be told apart"):
        MidzunoLists(cb.Mixture(policies, [1.0], problem=problem, floor=0.5))
