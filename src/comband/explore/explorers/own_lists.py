"""Candidates' own lists, compared by how they overlap: the pseudo-inverse, for totals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.base import Explorer, Standing, register
from comband.explore.explorers.blocks import CandidatesLists, shown_lists
from comband.page.bits import Rows
from comband.page.contexts import take_contexts
from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.policies.policy_set import PolicySet
from comband.statistics.pseudo_inverse import list_overlaps, own_list_weights

_CELLS = 1 << 22  # comparisons of actions at once


@register
class OwnListExplorer(CandidatesLists):
    """The list of a candidate drawn uniformly; its total counts for all by the pseudo-inverse of C = E[aaᵀ | x].

    X(π) = T·πᵀC⁺a, which is T·S·M[j, k] for candidate j when the list of k was shown, where M is the projection onto
    the range of the S × S matrix of overlaps (`comband.statistics.pseudo_inverse`). All candidates are shown, so all
    are in the span of what is shown: X is unbiased for every reward. A projection has M[j, k]² ≤ M[j, j]·(1 − M[j, j])
    for j ≠ k and Σ_k M[j, k]² = M[j, j] ≤ 1, so X lies in ρS·[−½, 1], and D = X(π) − X(ℓ) is at most

        ρS·max(M[j, j] + √(M[j, j]·(1 − M[j, j])), 1/√2)  ≤  ρS·(1 + √2)/2.

    Lists that are linearly independent give M = 1: then this is weighting whole lists. Nothing but candidates' own
    lists is ever shown.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are compared, and shown.
    problem:
        The setting.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import OwnListExplorer
    >>> explorer = OwnListExplorer(policies, np.arange(4), problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape
    (5, 3)
    """

    KIND: ClassVar[str] = "own lists"

    def __init__(self, policies: PolicySet, candidates: NDArray[np.int64], *, problem: Problem) -> None:
        super().__init__(policies, candidates, problem=problem)
        self.smallest_disputed = self.smallest * 2 / (1 + math.sqrt(2))

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """M[·, k] for the list that was shown; the first event of a round stands for all."""
        m, S = self._problem.list_size, len(self.candidates)
        first, shown = shown_lists(events, chosen, m)
        cells = np.zeros((len(chosen), S))
        rows, step = events.rows[chosen[first]], max(1, _CELLS // (S * m) ** 2)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            lists = self._predict(take_contexts(events.contexts, rows[part]))
            overlaps = list_overlaps(lists, lists)
            # A candidate whose list was shown: it has all m actions.
            who = list_overlaps(lists, shown[part][:, None])[:, :, 0].argmax(axis=1)
            projections = own_list_weights(overlaps, np.full(S, 1 / S)) / S
            cells[first[part]] = projections[np.arange(len(who)), who]
        return cells

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """1/S, an m-th of it: a total comes in m equal parts."""
        return np.full(len(chosen), self.smallest / self._problem.list_size)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """As for `divisors`."""
        return self.divisors(events, chosen)


@dataclass(frozen=True, slots=True)
class OwnListExploration:
    """Lists of the candidates that are left, weighted by the pseudo-inverse.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.OwnListExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        return OwnListExplorer(standing.policies, standing.candidates, problem=standing.problem)
