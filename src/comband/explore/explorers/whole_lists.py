"""Whole lists of candidates, credited to every candidate with the same list: weighting of lists, for totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.explore.explorers.base import Explorer, Standing, register
from comband.explore.explorers.blocks import CandidatesLists
from comband.page.bits import Rows
from comband.page.rounds import Events
from comband.page.totals import first_of_rounds


@register
class WholeListExplorer(CandidatesLists):
    """The list of a candidate drawn uniformly; its total counts for all candidates with the same set of actions there.

    With P(a | x) the share of the S candidates that show the set a, X(π) = T·1[π(x) = a]/P(a | x) is unbiased, and at
    most ρS.

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
    >>> from comband.explore.explorers import WholeListExplorer
    >>> explorer = WholeListExplorer(policies, np.arange(4), problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape
    (5, 3)
    """

    KIND: ClassVar[str] = "whole lists"

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The first event of a round, for all of them, counts for the candidates that list every action."""
        return self._same(events, chosen) & first_of_rounds(events.rows[chosen])[:, None]

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(a | x)/m: a total comes in m equal parts."""
        return np.asarray(self._same(events, chosen).mean(axis=1) / self._problem.list_size)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """P(a | x)/m by who counted for these events; 1/(Sm) where none did."""
        shares = inside @ np.full(inside.n_columns, 1 / inside.n_columns)
        return np.maximum(shares, self.smallest) / self._problem.list_size

    def _same(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(E, S) who lists all actions of the event's round."""
        rows = events.rows[chosen]
        listed = self._policies.contains(events.contexts, rows, events.actions[chosen], self.candidates)
        _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
        shared = np.zeros((len(counts), listed.shape[1]), dtype=np.int64)
        np.add.at(shared, place, listed)
        return np.asarray((shared == counts[:, None])[place])


@dataclass(frozen=True, slots=True)
class WholeListExploration:
    """Lists of the candidates that are left, weighted as wholes.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, feedback="total")
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.WholeListExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        return WholeListExplorer(standing.policies, standing.candidates, problem=standing.problem)
