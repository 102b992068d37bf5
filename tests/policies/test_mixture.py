"""Lists with exact propensities: against enumeration of every draw, and by frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb
from comband.page.problem import as_generator
from comband.policies import mixture as mixture_module
from tests.strategies import all_lists, hoeffding_radius, problems, random_policies, random_weights

N_CONTEXTS = 3


def random_mixture(problem: cb.Problem, seed: int, n_policies: int = 4) -> cb.Mixture:
    rng = as_generator(seed)
    policies = random_policies(n_policies, N_CONTEXTS, problem, rng)
    floor = float(rng.choice([0.01, 0.3, 0.5, 1.0]))
    return cb.Mixture(policies, random_weights(n_policies, rng), problem=problem, floor=floor)


def list_distribution(mixture: cb.Mixture, context: int) -> dict[frozenset[int], float]:
    """The probability of every list, from the definition."""
    lists = all_lists(mixture.problem)
    probability = {frozenset(y): mixture.floor / len(lists) for y in lists}
    for weight, policy in zip(mixture.weights, mixture.policies, strict=True):
        probability[frozenset(policy.predict([context])[0].tolist())] += (1 - mixture.floor) * weight
    return probability


@given(problems(max_actions=7), st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_propensities_equal_enumeration_and_sum_to_m(problem: cb.Problem, seed: int) -> None:
    mixture = random_mixture(problem, seed)
    contexts = np.arange(N_CONTEXTS)
    q = mixture.propensities(contexts)
    assert q.shape == (N_CONTEXTS, problem.n_actions)
    np.testing.assert_allclose(q.sum(axis=1), problem.list_size, rtol=1e-12)
    for x in contexts:
        exact = np.zeros(problem.n_actions)
        for shown, probability in list_distribution(mixture, int(x)).items():
            exact[list(shown)] += probability
        np.testing.assert_allclose(q[x], exact, rtol=1e-12)


@given(problems(), st.integers(0, 2**32), st.integers(0, 40))
@settings(deadline=None, max_examples=150)
def test_drawn_lists_are_valid_and_carry_their_propensities(problem: cb.Problem, seed: int, n: int) -> None:
    mixture = random_mixture(problem, seed)
    rng = as_generator(seed + 1)
    contexts = rng.integers(0, N_CONTEXTS, n)
    decisions = mixture.draw(contexts, rng, first_id=7, epoch=3)
    ordered = np.sort(decisions.lists, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert ((ordered >= 0) & (ordered < problem.n_actions)).all()
    assert decisions.ids.tolist() == list(range(7, 7 + n))
    assert (decisions.epochs == 3).all()
    if n:
        q = mixture.propensities(contexts)
        np.testing.assert_array_equal(
            decisions.propensities, np.take_along_axis(q, decisions.lists.astype(int), axis=1)
        )
        np.testing.assert_array_equal(decisions.propensities, mixture.propensities(contexts, decisions.lists))


@pytest.mark.parametrize("seed", range(6))
def test_observed_frequencies_match_propensities(seed: int) -> None:
    problem = cb.Problem(*[(6, 2), (9, 4), (5, 5), (30, 1), (12, 3), (8, 6)][seed])
    mixture = random_mixture(problem, seed)
    n = 40_000
    shown = mixture.draw(np.ones(n, dtype=int), as_generator(seed)).lists
    frequency = np.bincount(shown.ravel(), minlength=problem.n_actions) / n
    # 6 problems of at most 30 actions: a right program fails less than once in a million runs.
    radius = hoeffding_radius(n, 1e-6, tests=180)
    assert np.abs(frequency - mixture.propensities([1])[0]).max() < radius


@given(problems(max_actions=6), st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_importance_weighted_value_is_unbiased(problem: cb.Problem, seed: int) -> None:
    """Sum over every possible draw: the mean of Σ r/Q over shown actions of π is exactly r·π(x)."""
    mixture = random_mixture(problem, seed)
    rewards = np.random.default_rng(seed).random(problem.n_actions)
    q = mixture.propensities([1])[0]
    target = mixture.policies[0].predict([1])[0].tolist()
    mean = sum(
        probability * sum(rewards[y] / q[y] for y in shown & set(target))
        for shown, probability in list_distribution(mixture, 1).items()
    )
    assert mean == pytest.approx(rewards[target].sum(), rel=1e-12)


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = random_mixture(cb.Problem(10, 3), 1)
    contexts = np.arange(100) % N_CONTEXTS
    whole = mixture.draw(contexts, as_generator(4))
    rng = as_generator(4)
    parts = [mixture.draw(part, rng).lists for part in np.split(contexts, [1, 17, 60])]
    assert np.concatenate(parts).tolist() == whole.lists.tolist()
    monkeypatch.setattr(mixture_module, "BLOCK", 50)
    blocked = mixture.draw(contexts, as_generator(4))
    assert blocked.lists.tolist() == whole.lists.tolist()
    assert blocked.propensities.tolist() == whole.propensities.tolist()


class Forbidden:
    def predict(self, X: Any) -> NDArray[np.int32]:
        raise AssertionError("a policy outside the support was asked")


def test_policies_outside_the_support_are_never_evaluated() -> None:
    problem = cb.Problem(5, 2)
    good = cb.TabulatedPolicy([[0, 1]], problem)
    mixture = cb.Mixture(cb.PolicySet([Forbidden(), good, Forbidden()]), [0, 1, 0], problem=problem, floor=0.2)
    assert mixture.draw([0, 0], as_generator(0)).lists.shape == (2, 2)
    assert mixture.propensities([0])[0].tolist() == pytest.approx([0.88, 0.88, 0.08, 0.08, 0.08])
    uniform = cb.Mixture(cb.PolicySet([Forbidden()]), [1], problem=problem, floor=1)
    assert uniform.draw(["anything"], as_generator(0)).propensities.tolist() == [[0.4, 0.4]]


def test_a_seed_in_place_of_a_generator_draws_what_its_generator_draws() -> None:
    problem = cb.Problem(6, 2)
    policies = cb.PolicySet.from_lists([[[0, 1]], [[2, 3]]], problem)
    mixture = cb.Mixture(policies, [0.5, 0.5], problem=problem, floor=0.5)
    X = np.zeros(30, dtype=int)
    assert mixture.draw(X, 0).lists.tolist() == mixture.draw(X, np.random.default_rng(0)).lists.tolist()
