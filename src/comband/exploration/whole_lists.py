"""Whole lists of candidates, credited to whoever would have shown the same one: weighting of lists, for totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import inclusion
from comband.bits import PackedRows
from comband.contexts import Contexts
from comband.exploration.base import Drawn, Explorer, Seed, Standing, register
from comband.exploration.blocks import draw_whole_lists
from comband.policies.policy_set import PolicySet
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.problem import Problem
from comband.rounds import Decisions, Events
from comband.storage import Array, State, Text, check, require
from comband.totals import first_of_rounds


@register
class WholeListExplorer:
    """The list of a candidate drawn uniformly; its total counts for all candidates with the same set of actions there.

    With P(a | x) the share of the S candidates that show the set a, X(π) = T·1[π(x) = a]/P(a | x) is unbiased, and at
    most ρS.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are compared, and shown.
    """

    KIND: ClassVar[str] = "whole lists"
    FROM_TOTALS: ClassVar[bool] = True

    def __init__(self, policies: PolicySet, candidates: NDArray[np.int64], *, problem: Problem) -> None:
        self.candidates = candidates
        self._policies, self._problem = policies, problem
        self.smallest = self.smallest_disputed = 1 / len(candidates)

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context. Uses one number of `rng` per context."""
        _, lists, propensities = draw_whole_lists(
            X,
            rng,
            n_policies=len(self.candidates),
            list_size=self._problem.list_size,
            predict=self._predict,
            shares=self._shares,
        )
        return Drawn(
            Decisions(
                ids=np.arange(first_id, first_id + len(lists)),
                lists=lists,
                propensities=propensities,
                epochs=np.full(len(lists), epoch),
                contexts=X,
            )
        )

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The first event of a round, for all of them, counts for the candidates that list every action."""
        return self._same(events, chosen) & first_of_rounds(events.rows[chosen])[:, None]

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(a | x)/m: a total comes in m equal parts."""
        return np.asarray(self._same(events, chosen).mean(axis=1) / self._problem.list_size)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """P(a | x)/m by who counted for these events; 1/(Sm) where nobody did."""
        shares = inside @ np.full(inside.n_columns, 1 / inside.n_columns)
        return np.maximum(shares, self.smallest) / self._problem.list_size

    def propensities_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of some items."""
        return self._shares(self._predict(X), items)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items."""
        predicted = self._predict(X)
        listed = sorted_actions(predicted)
        values = self._shares(predicted, listed)
        return SparsePropensities.of_sorted(self._problem.n_actions, listed, values, np.zeros(len(predicted)))

    def state(self) -> State:
        """All but policies and problem, for a file or another process; see `comband.storage`."""
        return {"kind": self.KIND, "candidates": self.candidates}

    SCHEMA: ClassVar = {"kind": Text((KIND,)), "candidates": Array("i8", ("S",), 0, "P-1", rising=True)}

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> WholeListExplorer:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, P=len(policies))
        require(len(state["candidates"]) > 0, "an explorer must have candidates.")
        return cls(policies, state["candidates"], problem=problem)

    def _same(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(E, S) who lists all actions of the event's round."""
        rows = events.rows[chosen]
        listed = self._policies.contains(events.contexts, rows, events.actions[chosen], self.candidates)
        _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
        shared = np.zeros((len(counts), listed.shape[1]), dtype=np.int64)
        np.add.at(shared, place, listed)
        return np.asarray((shared == counts[:, None])[place])

    def _predict(self, X: Contexts) -> NDArray[np.int32]:
        return self._policies.predict(X, self.candidates, problem=self._problem)

    def _shares(self, predicted: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float64]:
        S = len(self.candidates)
        shares = inclusion(predicted, np.full(S, 1 / S), np.ascontiguousarray(items), self._problem.n_actions)
        return np.minimum(shares, 1.0)


@dataclass(frozen=True, slots=True)
class WholeListExploration:
    """Lists of the candidates that are left, weighted as wholes."""

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        return WholeListExplorer(standing.policies, standing.candidates, problem=standing.problem)
