"""Own lists as a part of the law, in their own order: production's page, and those of all, with exact probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import comband as cb
from comband.explore.explorers import DisagreementExplorer, NaturalExamination, PairExplorer, explorer_from_state
from comband.page.places import examinations, pair_problem, unplaced
from comband.policies.placed import PlacedPolicies
from tests.strategies import random_policies

K, M, S, N = 9, 3, 5, 4
THETA = np.array([1.0, 0.6, 0.3])
KAPPA = np.array([0.1, 0.0, 0.35, 0.05, 0.0])
PAGE = 2
ALARM = 1e-6
Floats = NDArray[np.float64]


def made(reading: str, own: Floats | None, policies: cb.PolicySet) -> Any:
    """The explorer of a reading, with these own lists; the same design whatever they are."""
    readings: dict[str, dict[str, Any]] = {
        "items": {},
        "pairs": {"places": "pairs"},
        "factors": {"places": THETA, "order": "random"},
    }
    stated = readings[reading]
    problem = cb.Problem(K, M, 1, **stated)
    standing: dict[str, Any] = {"leader": 1, "attention": np.arange(1.0, S + 1), "smallest_disputed": 0.08, "own": own}
    if reading == "pairs":
        return PairExplorer(PlacedPolicies(policies, M), np.arange(S), problem=pair_problem(problem), **standing)
    if reading == "factors":
        return NaturalExamination(policies, np.arange(S), problem=problem, shuffled=1.0, **standing)
    page = None if own is None else PAGE
    return DisagreementExplorer(policies, np.arange(S), problem=problem, page=page, **standing)


def candidates(seed: int = 0) -> cb.PolicySet:
    return random_policies(S, N, cb.Problem(K, M, 1), np.random.default_rng(seed))


def law(reading: str, policies: cb.PolicySet, x: int) -> Floats:
    """Q (K, m) of a context, by what is said of it: of the design without own lists, and of these."""
    plain, lists = made(reading, None, policies), policies.predict([x])[0]
    rest = 1 - KAPPA.sum()
    if reading == "pairs":
        Q = rest * plain.propensities_of([x], np.arange(K * M, dtype=np.int32)[None])[0].reshape(K, M)
    else:
        Q = np.repeat(rest * plain.propensities_of([x])[0][:, None] / M, M, axis=1)
    for p in range(S):
        for k in range(M):
            if reading == "items" and p != PAGE:
                Q[lists[p, k]] += KAPPA[p] / M
            else:
                Q[lists[p, k], k] += KAPPA[p]
    return np.asarray(Q)


def drawn(explorer: Any, reading: str, x: int, n: int, seed: int = 3) -> cb.Decisions:
    decisions = explorer.draw(np.full(n, x), np.random.default_rng(seed)).decisions
    return unplaced(decisions) if reading == "pairs" else decisions


@pytest.mark.parametrize("reading", ["items", "pairs"])
@pytest.mark.parametrize("seed", range(4))
def test_probabilities_are_those_of_all_parts(reading: str, seed: int) -> None:
    policies = candidates(seed)
    explorer = made(reading, KAPPA, policies)
    for x in range(N):
        Q, decisions = law(reading, policies, x), drawn(explorer, reading, x, 400)
        np.testing.assert_allclose(Q.sum(axis=0), 1.0, atol=1e-12)
        if reading == "items":
            np.testing.assert_allclose(np.asarray(decisions.placements), Q[decisions.lists], atol=1e-12)
            np.testing.assert_allclose(decisions.propensities, Q.sum(axis=1)[decisions.lists], atol=1e-12)
            np.testing.assert_allclose(explorer.propensities_of([x])[0], Q.sum(axis=1), atol=1e-12)
        else:
            np.testing.assert_allclose(decisions.propensities, Q[decisions.lists, np.arange(M)], atol=1e-12)
            every = np.arange(K * M, dtype=np.int32)[None]
            np.testing.assert_allclose(explorer.propensities_of([x], every)[0], Q.reshape(-1), atol=1e-12)
        again = explorer_from_state(explorer.state(), explorer.policies, explorer.problem)
        np.testing.assert_array_equal(drawn(again, reading, x, 400).lists, decisions.lists)


@pytest.mark.parametrize("seed", range(4))
def test_factors_in_random_order_are_shuffled_but_for_own_lists(seed: int) -> None:
    """What is drawn beside own lists stands anywhere alike; all of it is examined Θ."""
    policies = candidates(seed)
    explorer = made("factors", KAPPA, policies)
    for x in range(N):
        lists, decisions = policies.predict([x])[0], drawn(explorer, "factors", x, 2000)
        own = np.zeros((K, M))
        for p in range(S):
            own[lists[p], np.arange(M)] += KAPPA[p]
        even = np.asarray(decisions.placements) - own[decisions.lists]
        np.testing.assert_allclose(even, even[:, :, :1] * np.ones(M), atol=1e-12)
        Q = np.zeros((K, M))
        Q[decisions.lists] = decisions.placements
        np.testing.assert_allclose((Q @ THETA).sum(), THETA.sum(), rtol=1e-9)
        np.testing.assert_allclose(examinations(decisions, THETA), Q[decisions.lists] @ THETA)


@pytest.mark.parametrize("reading", ["items", "pairs", "factors"])
def test_lists_come_as_often_as_their_places_say(reading: str) -> None:
    policies, n = candidates(7), 200_000
    explorer, often, Q = made(reading, KAPPA, policies), np.zeros((K, M)), np.zeros((K, M))
    decisions = drawn(explorer, reading, 1, n)
    for k in range(M):
        often[:, k] += np.bincount(decisions.lists[:, k], minlength=K)
    if reading == "factors":
        Q[decisions.lists] = decisions.placements
    else:
        Q = law(reading, policies, 1)
    low, high = binom.interval(1 - ALARM / Q.size, n, np.clip(Q, 0, 1))
    assert ((often >= low) & (often <= high)).all()
    # Production's own list is shown as it is, in its share of the rounds and by chance.
    same = int((decisions.lists == policies.predict([1])[0, PAGE]).all(axis=1).sum())
    assert same >= binom.ppf(ALARM, n, KAPPA[PAGE])


@pytest.mark.parametrize("reading", ["items", "pairs", "factors"])
def test_estimates_are_unbiased_by_enumeration(reading: str) -> None:
    """Σ over items and places of Q(y, k)·r(y, k)·weight is the value, if places do what the reading says."""
    policies, rng = candidates(5), np.random.default_rng(1)
    relevance = rng.uniform(0.1, 0.9, size=(K, M))
    if reading != "pairs":
        relevance = relevance[:, :1] * (THETA if reading == "factors" else np.ones(M))
    for x in range(N):
        lists = policies.predict([x])[0]
        if reading == "factors":
            decisions, Q = drawn(made(reading, KAPPA, policies), reading, x, 2000), np.zeros((K, M))
            Q[decisions.lists] = decisions.placements
        else:
            Q = law(reading, policies, x)
        for p in range(S):
            value = sum(relevance[y, k] for k, y in enumerate(lists[p]))
            if reading == "pairs":
                found = sum(Q[y, k] * relevance[y, k] / Q[y, k] for k, y in enumerate(lists[p]))
            elif reading == "items":
                found = sum((Q[y] * relevance[y]).sum() / Q[y].sum() for y in lists[p])
            else:
                e = Q @ THETA
                found = sum((Q[y] * relevance[y]).sum() * THETA[k] / e[y] for k, y in enumerate(lists[p]))
            assert found == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("stated", [{}, {"places": THETA, "order": "random"}, {"places": THETA}, {"places": "pairs"}])
def test_visitors_who_do_not_take_part_see_the_page_of_production(stated: dict[str, Any]) -> None:
    problem = cb.Problem(20, 3, sparsity=1, **stated)
    shop = cb.SyntheticRecommender(problem, n_users=12, seed=0)
    policies = shop.candidates(6, seed=1)
    for more in ({}, {"max_evaluated": 2}, {"objective": "reward"}):
        name = policies.names[2]
        learner = cb.AdaptiveComband(problem, policies, epsilon=0.05, production=name, exposure=0.2, seed=1, **more)
        X = shop.sample(2000, np.random.default_rng(0)).contexts
        decisions = learner.ask(X)
        assert (decisions.lists == policies.predict(X)[:, 2]).all(axis=1).mean() > 0.74  # 0.8 but for chance


def test_a_promise_with_a_page_as_it_is_says_what_is_believed() -> None:
    problem = cb.Problem(12, 3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, n_users=10, seed=1)
    policies = shop.candidates(3, seed=2)

    def basis(**options: Any) -> str:
        learner = cb.AdaptiveComband(problem, policies, epsilon=0.3, seed=3, **options)
        return cb.run(learner, shop, batch_size=500, max_rounds=20_000).result.claims[0].text

    words = "if places do not matter: lists were shown in orders of their own"
    assert words in basis(production=policies.names[0], exposure=0.5)
    assert words not in basis(production=policies.names[0])
    assert words not in basis(objective="reward")


@pytest.mark.parametrize("stated", [{}, {"places": THETA, "order": "random"}, {"places": THETA}, {"places": "pairs"}])
@pytest.mark.parametrize("options", [{"exposure": 0.4}, {"objective": "reward"}])
def test_a_log_says_what_the_learner_says(stated: dict[str, Any], options: dict[str, Any]) -> None:
    """From the rounds as they were shown, with what decisions state, `evaluate` finds the learner's own values."""
    problem = cb.Problem(14, 3, sparsity=1, **stated)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, place_effect=THETA, n_users=10, seed=3)
    policies = shop.candidates(4, seed=4)
    learner = cb.AdaptiveComband(
        problem, policies, epsilon=1e-3, first_epoch=400, seed=1, production=policies.names[1], **options
    )
    rng, made = np.random.default_rng(2), []
    for _ in range(6):
        batch = shop.sample(200, rng)
        decisions = learner.ask(batch.contexts)
        made.append(cb.Rounds(decisions, batch.answer(decisions.lists)))
        learner.tell(decisions, made[-1].rewards)
    assert len(learner.epochs) > 1
    left = np.flatnonzero(learner.verdict.alive)  # of others fewer rounds count
    assert len(left) > 1
    rounds = sum(made[1:], made[0])
    found = cb.evaluate(rounds, policies, max_reward=1, places=stated.get("places"))
    values = {one.index: one.value for one in found.candidates}
    mine: Any = learner.evidence.values.means
    np.testing.assert_allclose([values[int(i)] for i in left], mine[left], rtol=1e-9)
