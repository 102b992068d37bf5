"""The peers that treat candidates as arms: constants, optimal shares, and promises that hold or visibly do not."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.loss import choose_arms
from benchmarks.peers import arms
from benchmarks.peers.arms import Field, kl, kl_bounds, optimal_shares, play_arms, transport, wang_tsiatis
from benchmarks.peers.results import best_of
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import norm


@pytest.mark.parametrize(("shape", "constant"), [(0.5, 2.413), (0.0, 2.040)])
def test_boundaries_are_those_of_the_tables(shape: float, constant: float) -> None:
    """Pocock's and O'Brien and Fleming's for five looks, two-sided 5%: the other side is never crossed as well."""
    assert wang_tsiatis(5, 0.025, shape) == pytest.approx(constant, abs=5e-3)


def test_bounds_by_relative_entropy_invert_it() -> None:
    means, shown = np.array([0.02, 0.3, 0.5]), np.array([50, 200, 1000])
    low, high = kl_bounds(means, shown, 3.0)
    assert (low < means).all()
    assert (means < high).all()
    np.testing.assert_allclose(shown * kl(means, high), 3.0, rtol=1e-3)
    np.testing.assert_allclose((shown * kl(means, low))[1:], 3.0, rtol=1e-3)


def test_transport_is_the_least_cost_of_a_better_rival() -> None:
    means, weights, epsilon = np.array([0.4, 0.3, 0.38]), np.array([0.5, 0.2, 0.3]), 0.05
    found = transport(means, 0, np.array([1, 2]), epsilon, weights)
    for cost, rival in zip(found, (1, 2), strict=True):

        def at(x: float, rival: int = rival) -> float:
            pair = kl(means[[0, rival]], np.array([x, x + epsilon]))
            return float(weights[[0, rival]] @ pair)

        assert cost == pytest.approx(minimize_scalar(at, bounds=(0.01, 0.9), method="bounded").fun, rel=1e-4)


def test_no_shares_are_better_than_the_optimal_ones() -> None:
    means, epsilon = np.array([0.25, 0.4, 0.33, 0.38]), 0.04
    rivals = np.array([0, 2, 3])

    def worst(shares: np.ndarray) -> float:
        return float(transport(means, 1, rivals, epsilon, shares).min())

    best = worst(optimal_shares(means, epsilon))
    rng = np.random.default_rng(0)
    near = optimal_shares(means, epsilon)[None] * np.exp(0.1 * rng.standard_normal((300, 4)))
    others = [*rng.dirichlet(np.ones(4), size=300), *(near / near.sum(axis=1, keepdims=True))]
    assert max(worst(shares) for shares in others) <= best * (1 + 1e-6)


class Peeking(arms.Rule):
    """What must be found out: a z-test at 10%, looked at all the time."""

    def batch(self, field: Field) -> int:
        """Impatient."""
        return max(20, field.rounds // 100)

    def look(self, field: Field) -> bool:
        """As if it were the only time."""
        rivals = field.rivals()
        gaps = field.means[field.leader] - field.means[rivals] + self.epsilon
        return bool((gaps / field.errors()[rivals] > 1.2816).all())


def wrong(rule: type[arms.Rule], runs: int = 300) -> int:
    """How often the worse of two candidates is named, that is worse by a little more than ε."""
    values, epsilon = np.array([0.30, 0.352]), 0.05
    rng, found = np.random.default_rng(1), 0
    for _ in range(runs):
        one = play_arms(lambda h: rule(epsilon, 0.1, 2, h, 0.352), values, (1000,), 200_000, rng)
        found += one["stop"] is not None and one["final_regret"] > epsilon
    return found


@pytest.mark.parametrize(
    "name", ["A/B/n, fixed horizon, Bonferroni", "A/B/n, group-sequential, eliminating", "A/B/n, mSPRT, eliminating"]
)
def test_tests_keep_their_level(name: str) -> None:
    assert wrong(arms.RULES[name]) <= 62  # δ = 0.1: 30 expected at most, 62 with probability 1e-8


RIVALS, LEVEL, MARGIN = 19, 0.05, 0.01


def ends(kind: type[arms.FixedHorizon], z: NDArray[np.float64]) -> bool:
    """Whether the test ends with a winner whose rivals are so many standard errors from being better by the margin."""
    n, P = 2000, RIVALS + 1
    field = Field(np.full(P, n), np.full(P, 600), np.ones(P, np.bool_), MARGIN, LEVEL)
    for _ in range(50):  # errors depend on clicks a little
        gaps = z * field.errors()[1:] - MARGIN
        field.clicks[1:] = np.round((field.means[0] - gaps) * (n + 1) - 0.5)
    rule = kind(MARGIN, LEVEL, P, 1000, 0.3)
    rule.planned = field.rounds
    return rule.look(field)


def test_fixed_horizons_share_their_level_among_rivals() -> None:
    """What is enough against one rival is not against nineteen; Holm's steps need less than Bonferroni."""
    alone = np.full(RIVALS, norm.isf(LEVEL))
    together = np.full(RIVALS, norm.isf(LEVEL / RIVALS))
    steps = norm.isf(LEVEL / np.arange(RIVALS, 0, -1))  # the clearest is held to δ/19, the least clear to δ
    assert not ends(arms.FixedHorizon, alone + 0.1)
    assert not ends(arms.FixedHorizon, steps + 0.1)
    assert ends(arms.FixedHorizon, together + 0.1)
    assert ends(arms.Holm, steps + 0.1)
    assert not ends(arms.Holm, steps - 0.1)


def test_sequential_tests_share_their_level_among_rivals() -> None:
    looks = arms.GroupSequential.looks
    many = arms.GroupSequential(MARGIN, LEVEL, RIVALS + 1, 1000, 0.3)
    assert many.constant == wang_tsiatis(looks, round(LEVEL / RIVALS, 10), 0.25)
    assert many.constant > wang_tsiatis(looks, LEVEL, 0.25) + 0.5
    error, tau = 0.02, arms.MixtureSprt.scale * MARGIN
    for n_arms in (2, RIVALS + 1):  # the mixture likelihood ratio at the edge is (P − 1)/δ
        rule = arms.MixtureSprt(MARGIN, LEVEL, n_arms, 1000, 0.3)
        edge = max(z for z in np.arange(0, 8, 0.01) if not rule.rejects(np.array([z * error]), np.array([error]))[0])
        ratio = norm.pdf(edge * error, 0, np.hypot(error, tau)) / norm.pdf(edge * error, 0, error)
        assert ratio == pytest.approx((n_arms - 1) / LEVEL, rel=0.1)


def test_peeking_does_not() -> None:
    assert wrong(Peeking, runs=1000) > 160  # what keeps the level exceeds 160 of 1000 with probability 1e-9


def test_bandits_find_the_best_and_stop_rightly() -> None:
    values, rng = np.array([0.1, 0.1, 0.5, 0.2]), np.random.default_rng(2)
    for name in (
        "KL-LUCB",
        "track-and-stop",
        "track-and-stop, practical rate",
        "Thompson sampling",
        "successive halving",
    ):
        one = play_arms(lambda h, n=name: arms.RULES[n](0.1, 0.05, 4, h, 0.5), values, (4000,), 4000, rng)  # type: ignore[misc]
        assert one["regrets"][4000] == 0.0, name
        assert (one["stop"] is None) == (arms.RULES[name].look is arms.Rule.look), name


def test_ties_are_drawn() -> None:
    rng = np.random.default_rng(3)
    found = np.bincount([best_of(np.array([0.5, 1.0, 0.2, 1.0]), rng) for _ in range(400)], minlength=4)
    assert found[[0, 2]].sum() == 0
    assert found[[1, 3]].min() > 140  # six standard deviations below a half


def test_successive_halving_draws_ties_and_shows_everybody_alike() -> None:
    rng, P = np.random.default_rng(4), 8
    kept = np.zeros(P)
    for _ in range(400):
        nothing = np.zeros(P)
        shown, left = choose_arms("successive halving", nothing, nothing, np.arange(P), 40, 90, 30, rng)
        counts = np.bincount(shown, minlength=P)[left]
        assert len(left) == P // 2
        assert counts.max() - counts.min() <= 1
        kept[left] += 1
    assert (np.abs(kept - 200) <= 60).all()


def test_forced_exploration_gives_the_starved_their_due_and_no_more() -> None:
    rule = arms.TrackAndStop(0.05, 0.05, 4, 10_000, 0.3)
    rule.shares, rule.renewed = np.array([0.5, 0.5, 0.0, 0.0]), 10_000
    shown = np.array([5000, 4900, 90, 10])
    field = Field(shown, shown // 4, np.ones(4, np.bool_), 0.05, 0.05)
    split = rule.split(field, 100, np.random.default_rng(5))
    due = int(np.ceil(np.sqrt(10_100) - 2))
    assert split.sum() == 100
    assert split[2:].tolist() == [due - 90, due - 10]
    split = rule.split(Field(0 * shown, 0 * shown, field.alive, 0.05, 0.05), 4, np.random.default_rng(6))
    assert split.sum() == 4


def test_guesses_believe_nobody_who_was_never_shown() -> None:
    shown, clicks = np.array([1000, 0, 500]), np.array([200, 0, 90])
    field = Field(shown, clicks, np.ones(3, np.bool_), 0.05, 0.05)
    assert field.means.argmax() == 1
    assert field.guesses().argmax() == 0
    assert field.guesses(np.array([0.0, 150.0, 0.0]), 300).argmax() == 1  # unless old visitors say so
