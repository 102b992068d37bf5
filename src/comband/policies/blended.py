"""One member of the family (1−t)·a + t·b of two scorers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import top_lists
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, check_number
from comband.policies.scored import BLOCK, ScoredPolicy


class BlendedPolicy:
    """Show the actions with the highest scores (1−t)·a(x, y) + t·b(x, y).

    Parameters
    ----------
    first, second:
        The two scorers as policies, for one problem. Their scores must be finite; how they compare in size decides
        what t means, not which lists the family has.
    share:
        t in [0, 1].

    >>> from comband.page.problem import Problem
    >>> problem = Problem(2, 1)
    >>> even = BlendedPolicy(ScoredPolicy(np.eye(2), problem), ScoredPolicy(np.array([[0, 3], [0, 0.]]), problem), 0.5)
    >>> even.predict(np.array([[1., 0], [0, 1]])).tolist()
    [[1], [1]]
    """

    def __init__(self, first: ScoredPolicy, second: ScoredPolicy, share: float) -> None:
        if first.problem != second.problem:
            raise InputError(f"both scorers must be for one problem, got {first.problem} and {second.problem}.")
        self.share = check_number("share", share)
        if not 0 <= self.share <= 1:
            raise InputError(f"share must lie in [0, 1], got {share!r}.")
        self.first, self.second, self.problem = first, second, first.problem

    def predict(self, X: Contexts) -> NDArray[np.int32]:
        """Lists (n, m)."""
        return blended_lists(self.first, self.second, np.array([self.share]), X)[:, 0]


def blended_lists(
    first: ScoredPolicy, second: ScoredPolicy, shares: NDArray[np.float64], X: Contexts
) -> NDArray[np.int32]:
    """Lists (n, len(shares), m) of several blends; each scorer is asked once."""
    n, problem = n_contexts(X), first.problem
    lists = np.empty((n, len(shares), problem.list_size), dtype=np.int32)
    step = max(1, BLOCK // (problem.n_actions * len(shares)))
    for start in range(0, n, step):
        some = take_contexts(X, slice(start, start + step))
        a, b = finite_scores(first, some), finite_scores(second, some)
        lists[start : start + step] = top_of_blends(a, b, shares, first.rank, problem.list_size)
    return lists


def top_of_blends(
    a: NDArray[np.float64], b: NDArray[np.float64], shares: NDArray[np.float64], rank: NDArray[np.int32], m: int
) -> NDArray[np.int32]:
    """The lists (n, len(shares), m) of blends of scores a and b, (n, K) each; `rank` orders equal scores."""
    t = shares[None, :, None]
    return np.asarray(
        top_lists((1 - t) * a[:, None, :] + t * b[:, None, :], np.broadcast_to(rank, (len(shares), len(rank))), m)
    )


def finite_scores(policy: ScoredPolicy, X: Contexts) -> NDArray[np.float64]:
    """Scores (n, K) that can be blended."""
    scores = policy.scores(X)
    if not np.isfinite(scores).all():
        raise InputError("scores to be blended must be finite; a scorer returned NaN or infinity.")
    return scores
