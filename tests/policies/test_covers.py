"""Covers of blends: every step of the argument by enumeration, and the bound's rate of error by simulation."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import comband as cb
from comband import InputError, PolicySet, Problem, ScoredPolicy
from comband.paper.catalogue.finite_world import FiniteWorld
from comband.policies.base import Policy
from comband.policies.blended import BlendedPolicy, top_of_blends
from comband.policies.covers import cover_blends

PROBLEM = Problem(12, 3, 2)


def table(scores: np.ndarray) -> Any:
    """A scorer of contexts that are row numbers."""
    return lambda X: scores[np.asarray(X)]


def test_a_set_is_shown_on_one_interval() -> None:
    """If two blends show the same set, so do all in between, also with ties: t = k/64 and whole scores are exact."""
    rng = np.random.default_rng(0)
    shares = np.arange(65) / 64
    rank = rng.permutation(6).astype(np.int32)
    for m in (1, 2, 4):
        a, b = rng.integers(-3, 4, size=(2, 300, 6)).astype(float)
        sets = np.sort(top_of_blends(a, b, shares, rank, m), axis=2)
        for low in range(0, 64, 3):
            differs = (sets[:, low:] != sets[:, [low]]).any(axis=2)
            assert (np.diff(differs.astype(int), axis=1) >= 0).all()  # once another, for ever another
        assert (sets[:, 0] != sets[:, -1]).any()


def test_blends_together_are_blends_one_by_one() -> None:
    rng = np.random.default_rng(1)
    first, second = (ScoredPolicy(rng.normal(size=(4, 12)), PROBLEM, seed=3) for _ in range(2))
    X = rng.normal(size=(50, 4))
    blends = [BlendedPolicy(first, second, t) for t in (0.0, 0.3, 1.0)]
    everyone: list[Policy] = [*blends, first]
    lists = PolicySet(everyone).predict(X)
    for k, policy in enumerate(everyone):
        np.testing.assert_array_equal(lists[:, k], policy.predict(X))
    np.testing.assert_array_equal(lists[:, 0], first.predict(X))
    np.testing.assert_array_equal(np.sort(lists[:, 2], axis=1), np.sort(second.predict(X), axis=1))
    np.testing.assert_array_equal(PolicySet(blends).predict(X, [2, 0]), lists[:, [2, 0]])


def test_cells_cover_everything() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 4, 12))
    policies = cover_blends(first, second, rng.normal(size=(600, 4)), problem=PROBLEM, delta=0.1)
    cover = policies.cover
    assert cover is not None
    assert len(policies) == len(cover.shares) == len(cover.edges)
    assert cover.edges[0][0] == 0
    assert cover.edges[-1][1] == 1
    for (low, high), t in zip(cover.edges, cover.shares, strict=True):
        assert low <= t <= high
    for (_, high), (low, _) in zip(cover.edges[:-1], cover.edges[1:], strict=True):
        assert low == np.nextafter(high, 2)  # no blend lies between two cells
    k = round(cover.observed * cover.n_contexts)
    upper = beta.ppf(1 - 0.1 / (2 * len(policies)), k + 1, cover.n_contexts - k)
    assert cover.eta == pytest.approx(upper)
    assert policies.subset([0]).cover is None  # some representatives do not stand for all
    assert [policy.share for policy in policies] == list(cover.shares)  # type: ignore[attr-defined]


def test_few_contexts_with_jumps() -> None:
    """Where many contexts change at once, a cell ends just before, and no blend is left out."""
    a, b = np.tile([3.0, 2, 1], (8, 1)), np.tile([0.0, 2, 4], (8, 1))
    policies = cover_blends(table(a), table(b), np.arange(8), problem=Problem(3, 1), disagreement=0.1, delta=0.5)
    cover = policies.cover
    assert cover is not None
    shown = [int(policy.predict(np.array([0]))[0, 0]) for policy in policies]
    assert set(shown) == {0, 1, 2} or set(shown) == {
        0,
        2,
    }  # 1 is on top for one t at most: all three meet at t = 1/3 + …
    assert cover.observed == 0
    for t in np.linspace(0, 1, 101):
        k = next(k for k, (low, high) in enumerate(cover.edges) if low <= t <= high)
        policy = BlendedPolicy(policies[k].first, policies[k].second, float(t))  # type: ignore[attr-defined]
        assert policy.predict(np.arange(8)).tolist() == policies[k].predict(np.arange(8)).tolist()


def test_the_promise_in_words() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 4, 12))
    cover = cover_blends(first, second, rng.normal(size=(300, 4)), problem=PROBLEM, delta=0.01).cover
    assert cover is not None
    assert f"{0.05 + 2 * cover.eta:.4g} of every blend" in cover.sentence(0.05, 2.0)
    assert cover.sentence(0.05, 0.04).startswith("within ε + ρη = 0.04 ")
    assert f"{cover.eta:.3g}" in cover.basis


def test_a_certifying_learner_says_what_it_means_for_every_blend() -> None:
    """End to end: the best of all blends, measured over the pool, is within ε + ρη of the certified representative."""
    rng = np.random.default_rng(6)
    problem, pool = Problem(10, 2, 1), 400
    a, b = rng.normal(size=(2, pool, 10))
    relevant = np.array([[row.argmax()] for row in 0.6 * a + 0.4 * b + 0.5 * rng.normal(size=(pool, 10))])
    policies = cover_blends(table(a), table(b), rng.integers(pool, size=2000), problem=problem, delta=1e-7)
    world = FiniteWorld(problem, relevant, np.zeros((1, pool, 2), dtype=np.int64))
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.2, delta=1e-7, seed=1)
    result = cb.run(learner, world, batch_size=500, max_rounds=60_000, seed=2).result
    cover = policies.cover
    assert cover is not None
    assert result.epsilon <= 0.2
    assert any(f"{result.epsilon + cover.eta:.4g}" in note for note in result.notes)
    in_two_phases = cb.PacComband(problem, policies, n_explore=500, n_estimate=5000, delta=1e-7, seed=1)
    other = cb.run(in_two_phases, world, batch_size=500, seed=2).result
    told = f"within ε + ρη = {min(other.epsilon + cover.eta, 1):.4g} of every blend"
    assert any(note.startswith(told) for note in other.notes)
    rank = policies[0].first.rank  # type: ignore[attr-defined]
    lists = top_of_blends(a, b, np.linspace(0, 1, 501), rank, 2)
    values = (lists == relevant[:, :, None]).any(axis=2).mean(axis=0)
    assert values.max() - world.values(policies)[result.index] <= result.epsilon + cover.eta
    assert values.max() - values.min() > 0.1


def test_refusals() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 4, 12))
    X = rng.normal(size=(100, 4))
    with pytest.raises(InputError, match="finite"):
        cover_blends(lambda X: np.full((len(X), 12), -np.inf), second, X, problem=PROBLEM)
    with pytest.raises(InputError, match="at least 4"):
        cover_blends(first, second, X[:3], problem=PROBLEM)
    with pytest.raises(InputError, match="disagreement"):
        cover_blends(first, second, X, problem=PROBLEM, disagreement=0.0)
    with pytest.raises(InputError, match="share"):
        BlendedPolicy(ScoredPolicy(first, PROBLEM), ScoredPolicy(second, PROBLEM), 1.5)
    with pytest.raises(InputError, match="one problem"):
        BlendedPolicy(ScoredPolicy(first, PROBLEM), ScoredPolicy(second, Problem(12, 4)), 0.5)


def largest_disagreement(seed: int, *, n: int, delta: float) -> tuple[float, float]:
    """η, and the true largest disagreement of a blend with its representative, over a pool of contexts."""
    rng = np.random.default_rng([9, seed])
    problem, pool = Problem(10, 2, 1), 2000
    a, b = rng.normal(size=(2, pool, 10))
    contexts = rng.integers(pool, size=n)
    policies = cover_blends(table(a), table(b), contexts, problem=problem, disagreement=0.15, delta=delta, seed=seed)
    cover = policies.cover
    assert cover is not None
    rank = policies[0].first.rank  # type: ignore[attr-defined]
    # By the interval argument, tested above, the ends of a cell are its worst.
    worst = 0.0
    for (low, high), t in zip(cover.edges, cover.shares, strict=True):
        sets = np.sort(top_of_blends(a, b, np.array([low, t, high]), rank, 2), axis=2)
        worst = max(worst, *((sets[:, k] != sets[:, 1]).any(axis=1).mean() for k in (0, 2)))
    return cover.eta, worst


def test_the_bound_holds() -> None:
    """δ′ = 1e-7 each: a right program fails here once in a million."""
    for seed in range(8):
        eta, worst = largest_disagreement(seed, n=2000, delta=1e-7)
        assert 0.15 * 0.7 < worst <= eta < 0.32


@pytest.mark.slow
def test_the_bound_is_wrong_no_more_often_than_it_may() -> None:
    """300 covers at δ′ = 0.3: more wrong ones than the binomial's 1 − 1e-6 quantile would be a fault."""
    wrong = sum(worst > eta for eta, worst in (largest_disagreement(seed, n=400, delta=0.3) for seed in range(300)))
    assert wrong <= binom.isf(1e-6, 300, 0.3)
