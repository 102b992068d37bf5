"""Growth functions and dimensions of infinite classes against enumeration of all their members on small cases."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from comband import theory
from comband.page.problem import InputError, Problem
from comband.policies.blended import top_of_blends


def directions(phi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every cell of the arrangement of comparisons in the plane, every boundary, and the origin: all of R²."""
    K = phi.shape[1]
    i, j = np.triu_indices(K, 1)
    v = (phi[:, i] - phi[:, j]).reshape(-1, 2)
    v = v[(v != 0).any(axis=1)]
    critical = np.concatenate([np.c_[v[:, 1], -v[:, 0]], np.c_[-v[:, 1], v[:, 0]]])
    angles = np.unique(np.arctan2(critical[:, 1], critical[:, 0]))
    middles = angles + np.diff(np.append(angles, angles[0] + 2 * np.pi)) / 2
    return np.concatenate([np.c_[np.cos(middles), np.sin(middles)], critical, np.zeros((1, 2))])


@pytest.mark.parametrize(("n", "K", "m"), [(3, 4, 2), (5, 5, 2), (8, 6, 3), (4, 9, 1)])
@pytest.mark.parametrize("general", [True, False], ids=["general position", "whole numbers with ties"])
def test_linear_scorers_in_the_plane(n: int, K: int, m: int, general: bool) -> None:
    rng = np.random.default_rng([n, K])
    problem = Problem(K, m)
    for _ in range(10):
        phi = rng.normal(size=(n, K, 2)) if general else rng.integers(-2, 3, size=(n, K, 2)).astype(float)
        actions = rng.integers(K, size=n)
        chosen = [np.sort(np.argsort(-(phi @ w), axis=1, kind="stable")[:, :m], axis=1) for w in directions(phi)]
        lists = {c.tobytes() for c in chosen}
        bits = {(c == actions[:, None]).any(axis=1).tobytes() for c in chosen}
        assert len(lists) <= theory.linear_list_growth(problem, n_features=2, n_contexts=n)
        assert len(bits) <= theory.linear_event_growth(problem, n_features=2, n_events=n)
        assert len(lists) >= n  # there is something to bound


def test_dimension() -> None:
    """No more events are shattered than the growth function allows; the closed form is above it for K ≥ 3."""
    for K in (3, 5, 20, 300):
        for d in (1, 2, 5, 12):
            found = theory.linear_dimension(Problem(K, 1), n_features=d)
            assert theory.linear_event_growth(Problem(K, 1), n_features=d, n_events=found) == 2**found
            assert theory.linear_event_growth(Problem(K, 1), n_features=d, n_events=found + 1) < 2 ** (found + 1)
            assert d <= found <= 2 * d * math.log2(math.e * (K - 1))
    assert theory.linear_dimension(Problem(2, 1), n_features=4) == 4  # half-spaces themselves
    with pytest.raises(InputError, match="n_features"):
        theory.linear_dimension(Problem(5, 1), n_features=0)


@pytest.mark.parametrize(("K", "m"), [(4, 1), (5, 2), (6, 3), (7, 6)])
@pytest.mark.parametrize("ties", [False, True])
def test_blends(K: int, m: int, ties: bool) -> None:
    """All t that matter: sets change where two scores are equal, and nowhere else."""
    rng = np.random.default_rng([K, m])
    rank = np.arange(K, dtype=np.int32)
    most = 0
    for _ in range(30):
        n = 3
        a, b = rng.integers(-3 if ties else -50, 4 if ties else 51, size=(2, n, K)).astype(float)
        rise = b - a
        i, j = np.triu_indices(K, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            equal = (a[:, i] - a[:, j]) / (rise[:, j] - rise[:, i])
        critical = np.unique(equal[np.isfinite(equal) & (equal >= 0) & (equal <= 1)])
        middles = np.concatenate([[0.0], critical, [1.0]])
        middles = (middles[1:] + middles[:-1]) / 2
        sets = np.sort(top_of_blends(a, b, np.unique(np.concatenate([middles, critical])), rank, m), axis=2)
        patterns = {sets[:, k].tobytes() for k in range(sets.shape[1])}
        assert len(patterns) <= theory.blend_list_growth(Problem(K, m), n_contexts=n)
        between = np.sort(top_of_blends(a, b, middles, rank, m), axis=2)
        changes = (between[:, 1:] != between[:, :-1]).any(axis=2).sum(axis=1)
        most = max(most, int(changes.max()))
        assert most <= m * (K - m)
    assert most >= 2


def test_bounds_are_the_sums_and_the_dimension_is_the_last_that_is_shattered() -> None:
    def sauer(points: int, d: int) -> int:
        return sum(math.comb(points, i) for i in range(d + 1))

    for K in (1, 2, 3, 7, 20):
        problem = Problem(K, 1)
        for d in (1, 2, 5, 9):
            for n in (1, 2, 6, 30):
                growth = theory.linear_list_growth(problem, n_features=d, n_contexts=n)
                assert growth == sauer(n * K * (K - 1) // 2, d)
                events = theory.linear_event_growth(problem, n_features=d, n_events=n)
                assert events == min(2**n, sauer(n * (K - 1), d))
            shattered = [E for E in range(1, 40 * d) if sauer(E * (K - 1), d) >= 2**E]
            assert theory.linear_dimension(problem, n_features=d) == max(shattered, default=0)


def test_numbers_that_cannot_be_written_out_are_refused() -> None:
    """They took hours, or all memory."""
    problem = Problem(50, 5)
    with pytest.raises(InputError, match="too large to be written out"):
        theory.linear_event_growth(problem, n_features=10**9, n_events=10**150)
    with pytest.raises(InputError, match="too large to be written out"):
        theory.linear_list_growth(problem, n_features=10**6, n_contexts=10**150)
    with pytest.raises(InputError, match="n_features must be smaller"):
        theory.linear_dimension(problem, n_features=10**9)
    assert theory.linear_event_growth(problem, n_features=3, n_events=10**150) > 10**400
