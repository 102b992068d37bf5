"""Finitely many candidates that stand for infinitely many: a cover of all blends of two scorers.

The policies of the family are π_t, the m highest of (1−t)·a + t·b, t in [0, 1]. For one context a set S of m actions is
shown at t where its summed score, an affine function of t, is the largest of all sets': so each set is shown on one
interval of t, and if π_l and π_r show the same set, so does every π_t in between (equal scores are ordered by one
permutation, the same for all t). Hence, over contexts, P(π_t ≠ π_r) ≤ P(π_l ≠ π_r) for all t between l and r: a few
pairs bound the whole family, and each is a binomial proportion of contexts, which cost no user anything.

Half of the contexts choose cells [l, h] with a representative r each, such that at most a given share of contexts
changes its set between l and r, and between r and h. The other half bounds these probabilities from above, all at once
with probability 1 − δ′ (Clopper & Pearson); η is the largest. No policy of the family is worth more than ρη above its
representative: a round collects at most ρ = min(s, m) where their sets differ, and the same where they agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, Problem, as_generator, check_fraction
from comband.policies.blended import BlendedPolicy, finite_scores, top_of_blends
from comband.policies.families import Cover
from comband.policies.policy_set import PolicySet
from comband.policies.scored import ScoredPolicy

Floats = NDArray[np.float64]


def cover_blends(
    first: Any,
    second: Any,
    contexts: Contexts,
    *,
    problem: Problem,
    disagreement: float = 0.1,
    delta: float = 0.01,
    seed: int | np.random.SeedSequence | np.random.Generator = 0,
) -> PolicySet:
    """Representatives of all blends (1−t)·first + t·second as a policy set, with what they promise in its `cover`.

    Parameters
    ----------
    first, second:
        Scorers, as for `ScoredPolicy`: a weight matrix, a callable X -> (n, K), or a fitted estimator. Finite scores.
    contexts:
        Contexts drawn as those of the rounds will be; no rewards are needed. One half chooses the representatives, the
        other says how well they stand for the rest.
    problem:
        K, m and s.
    disagreement:
        On how many of the contexts, as a share, a blend may show another set than its representative. `cover.eta`, the
        certified bound, comes out somewhat larger. Half of it doubles the number of representatives.
    delta:
        δ′, the probability with which that bound may be wrong.
    seed:
        For the order of equal scores, and for the halves.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(2, 5, 20))
    >>> policies = cover_blends(first, second, rng.normal(size=(4000, 5)), problem=Problem(20, 3, 1))
    >>> policies.cover.observed < policies.cover.eta < 0.16
    True
    """
    share = check_fraction("disagreement", disagreement)
    delta = check_fraction("delta", delta)
    n = n_contexts(contexts)
    if n < 4:
        raise InputError(f"a cover needs contexts to choose and to check it by: at least 4, got {n}.")
    rng = as_generator(seed)
    ties = int(rng.integers(2**31))
    scorers = ScoredPolicy(first, problem, seed=ties), ScoredPolicy(second, problem, seed=ties)
    order = rng.permutation(n)
    halves = [take_contexts(contexts, np.sort(part)) for part in (order[: n // 2], order[n // 2 :])]
    choose, check = (_Family([finite_scores(s, X) for s in scorers], scorers[0].rank, problem) for X in halves)
    cells = _cells(choose, int(share * choose.n))
    wrong = np.array([[check.changed(low, t), check.changed(t, high)] for low, t, high in cells])
    k, few = wrong.max(), check.n
    # The upper end of a binomial proportion at level 1 − δ′/(2J); it grows with the count, so the largest is enough.
    eta = 1.0 if k == few else float(betaincinv(k + 1, few - k, 1 - delta / wrong.size))
    names = [f"blend {number}: t = {t:.4g}" for number, (_, t, _) in enumerate(cells)]
    policies = PolicySet([BlendedPolicy(*scorers, t) for _, t, _ in cells], names)
    policies.cover = Cover(
        family="blend (1−t)·a + t·b",
        eta=eta,
        delta=delta,
        observed=float(k / few),
        n_contexts=few,
        shares=tuple(t for _, t, _ in cells),
        edges=tuple((low, high) for low, _, high in cells),
    )
    return policies


class _Family:
    """All blends on some contexts."""

    def __init__(self, scores: list[Floats], rank: NDArray[np.int32], problem: Problem) -> None:
        self._a, self._b = scores
        self._rank, self._m = rank, problem.list_size
        self.n = len(self._a)

    def sets(self, t: float, rows: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.int32]:
        """The sets shown at t, as sorted lists."""
        lists = top_of_blends(self._a[rows], self._b[rows], np.array([t]), self._rank, self._m)
        return np.sort(lists[:, 0], axis=1)

    def changed(self, low: float, high: float) -> int:
        """On how many contexts the sets at both ends differ: no blend in between differs from either on more."""
        return int((self.sets(low) != self.sets(high)).any(axis=1).sum())

    def reach(self, low: float, limit: int) -> float:
        """The largest t such that at most `limit` contexts have another set than at `low`, to the last bit.

        A context that has not changed by some t has not by a smaller one, and once changed stays so: most drop out.
        """
        start = self.sets(low)
        active = np.flatnonzero((self.sets(1.0) != start).any(axis=1))
        if len(active) <= limit:
            return 1.0
        below, above, changed = low, 1.0, 0
        while below < (middle := (below + above) / 2) < above:
            now = (self.sets(middle, active) != start[active]).any(axis=1)
            if changed + now.sum() <= limit:
                below, changed, active = middle, changed + int(now.sum()), active[~now]
            else:
                above, active = middle, active[now]
        return below


def _cells(family: _Family, limit: int) -> list[tuple[float, float, float]]:
    """(l, r, h) one after the other until the whole of [0, 1] is covered."""
    cells, low = [], 0.0
    while True:
        t = family.reach(low, limit)
        high = family.reach(t, limit)
        cells.append((low, t, high))
        if high >= 1.0:
            return cells
        low = float(np.nextafter(high, 2.0))
