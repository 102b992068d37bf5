from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import comband as cb
from comband._kernels.disagreement import clipped
from comband.explore.explorers.disagreement import DisagreementExplorer
from tests.strategies import hoeffding_radius, random_policies


def plain_propensities(
    lists: NDArray[np.int32], leader: int, attention: NDArray[np.float64], floor: float, n_actions: int
) -> NDArray[np.float64]:
    """The definition, for one context's lists (S, m), with plain bisection."""
    S, m = lists.shape
    inside = np.zeros((S, n_actions), dtype=bool)
    for p in range(S):
        inside[p, lists[p]] = True
    votes = inside.sum(axis=0)
    care = attention @ inside
    leads = inside[leader]
    weight = np.sqrt(np.maximum(np.where(leads, 1 - care, care), 1e-9) * (votes / S + 0.01))
    lower = np.where(leads, 0.6 * floor, floor)
    agreed = votes == S
    weight, lower = np.where(agreed, 1e-9, weight), np.where(agreed, min(0.05, floor), lower)
    weight, lower = np.where(votes > 0, weight, 0), np.where(votes > 0, lower, 0.0)
    if lower.sum() > m:
        lower *= m / lower.sum()
    top = (votes > 0).astype(float)
    low, high = -40.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        if np.minimum(np.maximum(np.exp(middle) * weight, lower), top).sum() > m:
            high = middle
        else:
            low = middle
    return np.asarray(np.minimum(np.maximum(np.exp(low) * weight, lower), top))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 10**6), st.floats(0.001, 1.0))
def test_propensities_follow_the_definition(n_actions: int, S: int, seed: int, floor: float) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, n_actions + 1))
    problem = cb.Problem(n_actions, m)
    policies = random_policies(S, 4, problem, rng)
    leader = int(rng.integers(S))
    explorer = DisagreementExplorer(
        policies, np.arange(S), leader=leader, attention=rng.random(S), smallest_disputed=floor, problem=problem
    )
    Q = explorer.propensities_of(np.arange(4))
    lists = policies.predict(np.arange(4))
    for x in range(4):
        expected = plain_propensities(lists[x], leader, explorer._shares, floor, n_actions)
        np.testing.assert_allclose(Q[x], expected, atol=1e-12)
        listed = np.isin(np.arange(n_actions), lists[x, leader])
        disputed = (lists[x][..., None] == np.arange(n_actions)).any(axis=1).sum(axis=0) < S
        if explorer.draw([x], 0).decisions.covered[0]:
            assert (Q[x][listed & disputed] >= explorer.smallest_of_leader * (1 - 1e-9)).all()
    np.testing.assert_allclose(Q.sum(axis=1), m, atol=1e-9)
    assert Q.max() <= 1 + 1e-12
    shown = explorer.draw(np.arange(4), rng).decisions
    np.testing.assert_allclose(shown.propensities, np.take_along_axis(Q, shown.lists.astype(np.int64), 1), atol=1e-12)
    assert all(len(set(row)) == m for row in shown.lists.tolist())
    covered = shown.covered
    outside = np.zeros((4, n_actions), dtype=bool)
    for p in range(S):
        np.put_along_axis(outside, lists[:, p].astype(np.int64), True, axis=1)
    np.put_along_axis(outside, lists[:, leader].astype(np.int64), False, axis=1)
    assert (Q[covered][outside[covered]] >= floor - 1e-9).all()
    assert (Q[outside] > 0).all()


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 400), st.integers(0, 10**6), st.floats(0.0, 12.0), st.sampled_from([0.0, 0.5, 0.999, 1.0]))
def test_limits_are_kept_and_the_rest_is_in_proportion(size: int, seed: int, spread: float, full: float) -> None:
    """q = clip(t·weight, lower, 1) for one t, whatever the numbers; limits that leave no room are all there is."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, size + 1))
    weight = 10.0 ** -rng.uniform(0, spread, size)
    lower = rng.random(size) ** 4
    lower = np.minimum(lower * full * m / max(lower.sum(), 1e-300), 1.0)
    q = np.empty(size)
    clipped(weight, lower, size, m, q)
    assert abs(q.sum() - m) <= 1e-12 * m
    assert (q >= lower - 1e-12 * m).all()  # what the sum of m loses to rounding comes off one of them
    assert (q <= 1.0).all()
    low, high = -80.0, 80.0
    for _ in range(100):
        middle = (low + high) / 2
        enough = np.minimum(np.maximum(np.exp(middle) * weight, lower), 1.0).sum() > m
        low, high = (low, middle) if enough else (middle, high)
    np.testing.assert_allclose(q, np.minimum(np.maximum(np.exp(low) * weight, lower), 1.0), atol=1e-12)


@pytest.mark.parametrize("own", [None, np.array([0.1, 0, 0.3, 0, 0.2, 0, 0.3]), np.where(np.arange(7) == 5, 0.8, 0)])
def test_no_rivals_action_is_rarer_than_promised(own: np.ndarray | None) -> None:
    """Where it is covered; and with all attention on one rival the actions of others are as rare as that."""
    problem = cb.Problem(n_actions=20, list_size=3)
    policies = random_policies(7, 40, problem, np.random.default_rng(8))
    attention = np.where(np.arange(7) == 3, 1.0, 1e-9)
    explorer = DisagreementExplorer(
        policies, np.arange(7), leader=2, attention=attention, smallest_disputed=0.12, own=own, problem=problem
    )
    X = np.arange(40)
    covered = explorer.draw(X, np.random.default_rng(0)).decisions.covered
    Q, lists = explorer.propensities_of(X), policies.predict(X)
    rarest = min(Q[x, y] for x in np.flatnonzero(covered) for y in np.setdiff1d(lists[x].ravel(), lists[x, 2]).tolist())
    assert covered.sum() >= 10
    least = explorer.smallest_disputed
    assert least * (1 - 1e-12) <= rarest
    disputed = [np.flatnonzero(np.bincount(lists[x].ravel(), minlength=20) < 7) for x in range(40)]
    of_leader = min(Q[x, y] for x in np.flatnonzero(covered) for y in np.intersect1d(lists[x, 2], disputed[x]).tolist())
    assert explorer.smallest_of_leader * (1 - 1e-12) <= of_leader
    if own is None:
        assert rarest == pytest.approx(least)


def test_own_lists_are_shown_in_their_share_of_rounds() -> None:
    """All probabilities are (1 − Σκ)·Q + Σ κ·1[listed], and so is the smallest."""
    problem = cb.Problem(n_actions=12, list_size=3)
    rng = np.random.default_rng(3)
    policies = random_policies(7, 5, problem, rng)
    own = np.array([0.3, 0, 0.25, 0, 0, 0.05, 0.2])
    plain, mixed = (
        DisagreementExplorer(
            policies, np.arange(7), leader=2, attention=np.ones(7), smallest_disputed=0.1, problem=problem, own=shares
        )
        for shares in (None, own)
    )
    X = np.arange(5)
    listed = np.zeros((5, 7, 12))
    np.put_along_axis(listed, policies.predict(X).astype(np.int64), 1.0, axis=2)
    expected = 0.2 * plain.propensities_of(X) + np.einsum("p,xpy->xy", own, listed)
    np.testing.assert_allclose(mixed.propensities_of(X), expected, atol=1e-14)
    assert mixed.smallest_disputed == pytest.approx(0.02)
    with pytest.raises(cb.InputError, match="own lists must sum to less than 1"):
        DisagreementExplorer.from_state({**plain.state(), "own": np.full(7, 0.2)}, policies, problem)


def test_nobody_sees_an_empty_list_because_a_ranker_failed() -> None:
    """Own lists with a gap are not shown; in their share of the rounds lists are drawn as in the others. What is
    promised of the smallest propensity holds, and propensities are those of the lists.
    """
    problem = cb.Problem(n_actions=12, list_size=3)
    rng = np.random.default_rng(3)
    lists = random_policies(4, 3, problem, rng).predict(np.arange(3)).transpose(1, 0, 2).copy()
    lists[1, 0], lists[1, 1, 2], lists[2, 0] = -1, -1, -1
    policies = cb.PolicySet.from_lists(lists, problem, fallback="nothing")
    own = np.array([0.0, 0.6, 0.3, 0.0])
    plain, mixed = (
        DisagreementExplorer(
            policies, np.arange(4), leader=3, attention=np.ones(4), smallest_disputed=0.1, problem=problem, own=shares
        )
        for shares in (None, own)
    )
    whole = np.where((lists >= 0).all(axis=2).T, own, 0)  # (context, candidate)
    listed = np.zeros((3, 4, 13))
    np.put_along_axis(listed, np.where(lists < 0, 12, lists).transpose(1, 0, 2).astype(np.int64), 1.0, axis=2)
    X, n = np.arange(3), 40_000
    expected = (1 - whole.sum(axis=1))[:, None] * plain.propensities_of(X) + np.einsum("xp,xpy->xy", whole, listed)[
        :, :12
    ]
    np.testing.assert_allclose(mixed.propensities_of(X), expected, atol=1e-14)
    drawn = mixed.draw(np.repeat(X, n), rng).decisions
    assert (drawn.lists >= 0).all()
    shown = np.zeros((3, 12))
    np.add.at(shown, (np.repeat(X, n)[:, None], drawn.lists), 1 / n)
    assert (np.abs(shown - expected) < 6 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()
    at = np.take_along_axis(expected[np.repeat(X, n)], drawn.lists.astype(np.int64), axis=1)
    np.testing.assert_allclose(drawn.propensities, at, atol=1e-12)


@pytest.mark.parametrize("own", [None, [0.1, 0, 0.3, 0, 0.2, 0, 0.3]])
def test_lists_come_with_their_propensities(own: list[float] | None) -> None:
    problem = cb.Problem(n_actions=12, list_size=3)
    rng = np.random.default_rng(0)
    policies = random_policies(7, 3, problem, rng)
    explorer = DisagreementExplorer(
        policies, np.arange(7), leader=2, attention=rng.random(7), smallest_disputed=0.12, own=own, problem=problem
    )
    n = 40_000
    shown = explorer.draw(np.repeat(np.arange(3), n), rng).decisions
    Q = explorer.propensities_of(np.arange(3))
    radius = hoeffding_radius(n, 1e-7, tests=72)
    for x in range(3):
        frequency = np.bincount(shown.lists[x * n : (x + 1) * n].ravel(), minlength=12) / n
        assert np.abs(frequency - Q[x]).max() < radius


def test_batches_do_not_matter() -> None:
    problem = cb.Problem(n_actions=9, list_size=2)
    rng = np.random.default_rng(1)
    policies = random_policies(4, 5, problem, rng)
    explorer = DisagreementExplorer(
        policies, [0, 2, 3], leader=1, attention=[1, 0, 2], smallest_disputed=0.1, problem=problem
    )
    X = rng.integers(5, size=30)
    whole = explorer.draw(X, np.random.default_rng(5)).decisions
    generator = np.random.default_rng(5)
    parts = explorer.draw(X[:7], generator).decisions + explorer.draw(X[7:], generator).decisions
    assert whole.lists.tolist() == parts.lists.tolist()
    assert len(explorer.draw(X[:0], generator).decisions) == 0


def test_contexts_with_too_much_dispute_are_marked() -> None:
    problem = cb.Problem(n_actions=9, list_size=1)
    # Context 0: two actions; context 1: four.
    policies = cb.PolicySet.from_lists([[[0], [0]], [[1], [1]], [[1], [2]], [[1], [3]]], problem)
    explorer = DisagreementExplorer(
        policies, np.arange(4), leader=0, attention=np.ones(4), smallest_disputed=0.6, problem=problem
    )
    decisions = explorer.draw(np.array([0, 1]), np.random.default_rng(0), epoch=3).decisions
    assert (decisions.epochs.tolist(), decisions.covered.tolist()) == ([3, 3], [True, False])
    assert DisagreementExplorer.needed(policies.predict(np.array([0, 1])), 0, problem).tolist() == [1, 3]


def test_a_single_candidate_shows_its_list() -> None:
    problem = cb.Problem(n_actions=5, list_size=2)
    policies = cb.PolicySet.from_lists([[[3, 1]]], problem)
    explorer = DisagreementExplorer(policies, [0], leader=0, attention=[1.0], smallest_disputed=0.5, problem=problem)
    assert sorted(explorer.draw(np.array([0]), np.random.default_rng(0)).decisions.lists[0].tolist()) == [1, 3]
    assert explorer.propensities_of(np.array([0]))[0].tolist() == pytest.approx([0, 1, 0, 1, 0])
