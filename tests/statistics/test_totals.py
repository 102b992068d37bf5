"""Estimates from totals against enumeration of all lists: unbiased, and within the bounds of `theory.totals`."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

import comband as cb
from comband import theory
from comband.page.totals import TotalRounds
from comband.statistics.importance import ValueSums
from comband.statistics.pairs import PairSums
from comband.statistics.pseudo_inverse import (
    list_overlaps,
    mixed_list_weights,
    own_list_weights,
    pseudo_inverse_values,
)
from comband.statistics.totals import total_values
from tests.total_worlds import TotalWorld, total_world

SEEDS = range(40)


def law(world: TotalWorld) -> NDArray[np.float64]:
    """P(a | x) / n over (contexts, lists), by the shares."""
    K, m = world.problem.n_actions, world.problem.list_size
    return world.shares() / comb(K - 1, m - 1) / len(world.rewards)


def every_round(world: TotalWorld) -> tuple[TotalRounds, NDArray[np.float64]]:
    """All (context, list) pairs as rounds, and their probabilities."""
    n, L = len(world.rewards), len(world.lists)
    rounds = TotalRounds.from_log(
        np.repeat(np.arange(n), L),
        lists=np.tile(world.lists, (n, 1)),
        totals=world.totals.ravel(),
        list_propensities=(world.shares() / comb(world.problem.n_actions - 1, world.problem.list_size - 1)).ravel(),
        problem=world.problem,
    )
    return rounds, law(world).ravel()


def expectation(world: TotalWorld, of: str) -> NDArray[np.float64]:
    """E of the values or differences that the estimators give, one round at a time."""
    rounds, probabilities = every_round(world)
    result = np.zeros(len(world.policies))
    for i in np.flatnonzero(rounds.totals > 0):
        events = rounds[int(i)].events()
        if of == "values":
            result += probabilities[i] * total_values(events, world.policies, world.problem).sums
        else:
            result += probabilities[i] * PairSums.from_events(events, world.policies, 0).sums
    return result


@pytest.mark.parametrize("seed", SEEDS[:12])
def test_values_and_differences_are_unbiased(seed: int) -> None:
    world = total_world(seed, most_actions=7)
    np.testing.assert_allclose(expectation(world, "values"), world.values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(expectation(world, "differences"), world.values - world.values[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
def test_unbiased_up_to_ten_actions_by_the_formula(seed: int) -> None:
    """R = T·|π∩a|/q(a) in closed form over all lists, K up to 10."""
    world = total_world(seed, most_actions=10)
    f, m = world.problem.fill_share, world.problem.list_size
    R = world.totals[:, None] * world.overlaps / world.shares()[:, None]
    mean = np.einsum("xa,xpa->p", law(world), R)
    expected = (1 - f) * world.values + f * m * world.rewards.sum(axis=1).mean()
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-13)


def test_values_are_those_of_the_rounds_and_add() -> None:
    world = total_world(1)
    rounds, _ = every_round(world)
    m, f = world.problem.list_size, world.problem.fill_share
    X = world.totals[:, None] * (world.overlaps - f * m) / ((1 - f) * world.shares()[:, None])
    sums = total_values(rounds.events(), world.policies, world.problem)
    np.testing.assert_allclose(sums.sums, X.sum(axis=(0, 2)), rtol=1e-12)
    np.testing.assert_allclose(sums.squares, np.square(X).sum(axis=(0, 2)), rtol=1e-12)
    parts = [total_values(part.events(), world.policies, world.problem) for part in (rounds[:20], rounds[20:])]
    both = parts[0] + parts[1]
    assert both.n_rounds == sums.n_rounds == len(rounds)
    np.testing.assert_allclose(both.squares, sums.squares, rtol=1e-12)
    # Without the excess taken off, all values are too high by the same amount.
    plain = ValueSums.from_events(rounds.events(), world.policies)
    assert np.ptp(plain.sums - sums.sums) < 1e-9
    assert (plain.sums - sums.sums).min() > 0


@pytest.mark.parametrize("seed", range(100))
def test_second_moments_and_ranges_are_within_their_bounds(seed: int) -> None:
    world = total_world(seed, most_actions=9)
    problem, floor = world.problem, world.mixture.floor
    m, f = problem.list_size, problem.fill_share
    shares, overlaps, totals = world.shares(), world.overlaps, world.totals
    R = totals[:, None] * overlaps / shares[:, None] / (1 - f)
    second = np.einsum("xa,xpa->p", law(world), R**2)
    # The variance proxy of any mixture, E Σ_y r(y) E[(N/m)/q(a)], by all lists around every action.
    weights = totals / comb(problem.n_actions - 1, m - 1) / len(totals)
    proxy = float(np.einsum("xa,xpa->p", weights, overlaps / m / shares[:, None]).max())
    if proxy > 0:
        assert second.max() <= theory.total_variance(problem, floor=floor, proxy=proxy) * (1 + 1e-12)
    D = R - R[:, :1]
    squares = np.einsum("xa,xpa->p", law(world), D**2)
    assert (squares <= second + second[0] + 1e-12).all()
    most = theory.estimate_range(problem, floor=floor) * (1 + 1e-12)
    assert D.max() <= most
    X = totals[:, None] * (overlaps - f * m) / ((1 - f) * shares[:, None])
    rho, K = problem.max_reward, problem.n_actions
    assert X.max() <= rho * K / floor * (1 + 1e-12)
    assert X.min() >= -f * most
    assert rho * K / floor + f * most <= most * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_pseudo_inverse_against_dense_matrices_and_unbiased(seed: int) -> None:
    world = total_world(seed, most_actions=9, n_policies=4)
    K, gamma = world.problem.n_actions, world.mixture.floor
    p = np.random.default_rng(seed).dirichlet(np.ones(4)) * 0.9 + 0.025
    lists = world.policies.predict(np.arange(len(world.rewards)))
    overlaps = list_overlaps(lists, lists)
    own = own_list_weights(overlaps, p)
    every = np.broadcast_to(world.lists, (len(lists), *world.lists.shape))
    mixed = mixed_list_weights(overlaps, list_overlaps(lists, every), p, floor=gamma, problem=world.problem)
    np.testing.assert_array_equal(list_overlaps(lists, every), world.overlaps)
    A = np.array([[y in a for y in range(K)] for a in world.lists.tolist()], dtype=float)
    for x, r in enumerate(world.rewards):
        Pi = np.array([[y in mine for y in range(K)] for mine in lists[x].tolist()], dtype=float)
        C = (Pi.T * p) @ Pi
        np.testing.assert_allclose(own[x], Pi @ np.linalg.pinv(C, rcond=1e-9) @ Pi.T, atol=1e-8)
        # E T·Z over the candidates' own lists: all of V.
        np.testing.assert_allclose(own[x] @ (p * (Pi @ r)), Pi @ r, rtol=0, atol=1e-12)
        C = gamma * (A.T @ A) / len(A) + (1 - gamma) * C
        np.testing.assert_allclose(mixed[x], Pi @ np.linalg.solve(C, A.T), rtol=1e-8, atol=1e-8)
        q = np.full(len(A), gamma / len(A))
        for k in range(4):
            q[np.flatnonzero((Pi[k] == A).all(axis=1))] += (1 - gamma) * p[k]
        np.testing.assert_allclose(mixed[x] @ (q * (A @ r)), Pi @ r, rtol=0, atol=1e-11)


def test_pseudo_inverse_is_list_weighting_where_lists_are_independent() -> None:
    problem = cb.Problem(6, 2)
    lists = np.array([[[0, 1], [2, 3], [4, 5]]], dtype=np.int32)
    p = np.array([0.5, 0.3, 0.2])
    Z = own_list_weights(list_overlaps(lists, lists), p)
    np.testing.assert_allclose(Z[0], np.diag(1 / p), atol=1e-12)
    assert problem.list_size == 2


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_pseudo_inverse_values_of_a_mixtures_lists(seed: int) -> None:
    """Unbiased for every policy over all lists of the mixture, also for policies that it never shows."""
    world = total_world(seed, most_actions=8)
    mixture, K, m = world.mixture, world.problem.n_actions, world.problem.list_size
    mean, largest = np.zeros(len(world.policies)), 0.0
    for x in range(len(world.rewards)):
        law = {frozenset(a): mixture.floor / len(world.lists) for a in world.lists.tolist()}
        for weight, mine in zip(mixture.weights, world.policies.predict([x])[0].tolist(), strict=True):
            law[frozenset(mine)] += (1 - mixture.floor) * weight
        for a, total in zip(world.lists, world.totals[x], strict=True):
            decisions = mixture.draw([x], 0)
            shown = replace(decisions, lists=a[None], propensities=mixture.propensities([x], a[None]))
            sums = pseudo_inverse_values(shown, [total], world.policies, mixture)
            np.testing.assert_allclose(sums.squares, sums.sums**2, rtol=1e-12)
            mean += law[frozenset(a.tolist())] * sums.sums / len(world.rewards)
            largest = max(largest, float(np.abs(sums.sums).max()))
    np.testing.assert_allclose(mean, world.values, rtol=0, atol=1e-11)
    alpha = m * (K - m) / (K * (K - 1))
    assert largest <= world.problem.max_reward * m / (mixture.floor * alpha) * (1 + 1e-9)
