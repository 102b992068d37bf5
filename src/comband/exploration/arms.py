"""One candidate at a time, credited alone: a classical A/B/n test."""

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
from comband.problem import Problem, check_flag
from comband.rounds import Decisions, Events
from comband.storage import Array, State, Text, check, require
from comband.totals import first_of_rounds


@register
class ArmExplorer:
    """The whole list of one policy, drawn uniformly from those that are `shown`; only that policy is credited.

    Lists are shown in the policy's own order: values are those of its lists as they are, whatever places do.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are compared.
    shown:
        (A,) positions of those that are drawn from; the candidates are among them.
    """

    KIND: ClassVar[str] = "arms"
    FROM_TOTALS: ClassVar[bool] = True

    def __init__(
        self, policies: PolicySet, candidates: NDArray[np.int64], *, shown: NDArray[np.int64], problem: Problem
    ) -> None:
        self.candidates, self.shown = candidates, shown
        self._policies, self._problem = policies, problem
        self._total = problem.feedback == "total"
        self.smallest = self.smallest_disputed = 1 / len(shown)
        self.random_order = False

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context; `arms` say whose. Uses one number of `rng` per context."""
        arms, lists, propensities = draw_whole_lists(
            X,
            rng,
            n_policies=len(self.shown),
            list_size=self._problem.list_size,
            predict=self._predict,
            shares=self._shares,
        )
        decisions = Decisions(
            ids=np.arange(first_id, first_id + len(lists)),
            lists=lists,
            propensities=propensities,
            epochs=np.full(len(lists), epoch),
            contexts=X,
            arms=self.shown[arms],
        )
        return Drawn(decisions)

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """An event counts for the candidate whose list was shown."""
        mine = np.asarray(events.arms[events.rows[chosen], None] == self.candidates)
        # A total comes in m equal parts: the first one stands for all, so that a round is one event.
        return mine & first_of_rounds(events.rows[chosen])[:, None] if self._total else mine

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """1/A, not the propensity of the action: only the candidate's own rounds count for it."""
        parts = self._problem.list_size if self._total else 1
        return np.full(len(chosen), self.smallest / parts)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """1/A, as for `divisors`."""
        return self.divisors(events, chosen)

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
        return {"kind": self.KIND, "candidates": self.candidates, "shown": self.shown}

    SCHEMA: ClassVar = {
        "kind": Text((KIND,)),
        "candidates": Array("i8", ("S",), 0, "P-1", rising=True),
        "shown": Array("i8", ("A",), 0, "P-1", rising=True),
    }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> ArmExplorer:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, P=len(policies))
        candidates, shown = state["candidates"], state["shown"]
        require(len(candidates) > 0 and bool(np.isin(candidates, shown).all()), "all candidates must be shown.")
        return cls(policies, candidates, shown=shown, problem=problem)

    def _predict(self, X: Contexts) -> NDArray[np.int32]:
        return self._policies.predict(X, self.shown, problem=self._problem)

    def _shares(self, predicted: NDArray[np.int32], items: NDArray[np.int32]) -> NDArray[np.float64]:
        A = len(self.shown)
        shares = inclusion(predicted, np.full(A, 1 / A), np.ascontiguousarray(items), self._problem.n_actions)
        return np.minimum(shares, 1.0)


@dataclass(frozen=True, slots=True)
class ArmsExploration:
    """One list at a time; with `eliminate`, of those candidates only that are left."""

    eliminate: bool = False

    def __post_init__(self) -> None:
        check_flag("eliminate", self.eliminate)

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        policies, candidates = standing.policies, standing.candidates
        shown = candidates if self.eliminate else np.arange(len(policies))
        return ArmExplorer(policies, candidates, shown=shown, problem=standing.problem)
