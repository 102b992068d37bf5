"""What lists by pivotal sampling would gain: pairs are never together more often than by chance, so E R² ≤ V + ρ·r(π).

By exact enumeration; nothing in comband draws such lists (docs/optimal_rate.md says why).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pivotal(q: Floats, open_one: int = 0, following: int = 1) -> Iterator[tuple[float, Floats]]:
    """All outcomes of the pivotal method with their probabilities: two open actions fight until one is settled."""
    if following == len(q):
        yield 1.0, q.round()
        return
    a, b = q[open_one], q[following]
    total = a + b
    if total <= 0 or total >= 2:
        yield from pivotal(q, following, following + 1)
        return
    chance = a / total if total < 1 else (1 - b) / (2 - total)
    for first, share in ((True, chance), (False, 1 - chance)):
        if share <= 0:
            continue
        after = q.copy()
        rest = total if total < 1 else total - 1
        winner, loser = (open_one, following) if first else (following, open_one)
        after[winner], after[loser] = (rest, 0.0) if total < 1 else (1.0, rest)
        still_open = winner if total < 1 else loser
        for more, outcome in pivotal(after, still_open, following + 1):
            yield share * more, outcome


def test_pairs_are_negatively_correlated_and_second_moments_are_small() -> None:
    rng, tight = np.random.default_rng(1), 0.0
    for _ in range(300):
        K = int(rng.integers(3, 8))
        m = int(rng.integers(1, K))
        floor = rng.uniform(0.05, 0.9)
        lists = np.stack([rng.permutation(K)[:m] for _ in range(4)])
        listed = np.zeros((4, K))
        np.put_along_axis(listed, lists, 1, axis=1)
        q = (1 - floor) * rng.dirichlet(np.full(4, 0.4)) @ listed + floor * m / K
        chances, shown = (np.array(part) for part in zip(*pivotal(q), strict=True))
        np.testing.assert_allclose(chances.sum(), 1)
        np.testing.assert_allclose(shown.sum(axis=1), m)
        np.testing.assert_allclose(chances @ shown, q, atol=1e-12)
        together = (shown * chances[:, None]).T @ shown
        off = ~np.eye(K, dtype=bool)
        assert (together - np.outer(q, q))[off].max() <= 1e-12
        r = rng.random(K) * (rng.random(K) < 0.7)
        s = rng.uniform(0.5, K)
        r *= min(1.0, s / max(r.sum(), 1e-12))
        rho = min(s, m)
        second = chances @ (shown @ (listed * r / q).T) ** 2
        proxy, value = listed @ (r / q), listed @ r
        assert (second <= proxy + rho * value + 1e-12).all()
        tight = max(tight, float((second / np.maximum(proxy + rho * value, 1e-12)).max()))
    assert tight > 0.7
