"""What explorers that ask all candidates share: contexts in blocks, attention as shares, whole lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import inclusion
from comband._kernels.orders import shuffle_lists
from comband.explore.explorers.base import Drawn, Seed
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import InputError, Problem, as_generator
from comband.page.rounds import Decisions, Events, no_arms
from comband.page.storage import Array, State, Text, check, objects_of, require, state_of
from comband.page.totals import first_of_rounds
from comband.policies.placed import places_in
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.policies.scored import BLOCK
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.policies.stochastic import StochasticPolicies

Lists = NDArray[np.int32]
Floats = NDArray[np.float64]


def row_blocks(n: int, n_policies: int, list_size: int) -> list[slice]:
    """n contexts in slices for which the lists of all policies take up no more than a block."""
    step = max(1, BLOCK // (n_policies * list_size))
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def attention_shares(attention: Floats, leader: int) -> Floats:
    """Attention as shares that sum to one, none for the leader; equal ones where no rival has any.

    >>> attention_shares(np.array([5.0, 1.0, 3.0]), leader=0).tolist()
    [0.0, 0.25, 0.75]
    """
    weights = attention.copy()
    weights[leader] = 0.0
    total = weights.sum()
    shares = weights / total if total > 0 else np.full(len(weights), 1 / max(len(weights) - 1, 1))
    shares[leader] = 0.0
    return np.asarray(shares)


def shown_lists(events: Events, chosen: NDArray[np.int64], list_size: int) -> tuple[NDArray[np.int64], Lists]:
    """Which of the chosen events are the first of their round (C,), and the lists (C, m) that were shown there: all m
    actions of a round with a total have an event.
    """
    first = np.flatnonzero(first_of_rounds(events.rows[chosen]))
    starts = np.searchsorted(events.rows, events.rows[chosen[first]])
    return first, np.ascontiguousarray(events.actions[starts[:, None] + np.arange(list_size)])


def check_arms(arms: NDArray[np.int64], explorer: Any) -> NDArray[np.int64]:
    """Whose list each decision shows, if the explorer credits that policy alone, and −1 otherwise: without it no reward
    would count for any.
    """
    one_credited = isinstance(explorer, WholeLists) and explorer.ONE_CREDITED
    if not np.isin(arms, explorer.shown if one_credited else -1).all():
        raise InputError(
            f"decisions to adopt must have arms as {type(explorer).__name__} draws them, "
            f"{'the number of the policy whose list is shown' if one_credited else '-1 in all'}, got "
            f"{np.unique(arms)[:5].tolist()}: adopt decisions as they were drawn."
        )
    return arms


class StoredExplorer:
    """An explorer whose `SCHEMA` names what its constructor takes besides policies and problem: it is saved by that."""

    KIND: ClassVar[str]
    SCHEMA: ClassVar[Mapping[str, Any]] = {"candidates": Array("i8", ("S",), 0, "P-1", rising=True)}

    def state(self) -> State:
        """All but policies and problem, for a file or another process; see `comband.page.storage`."""
        return {"kind": self.KIND, **state_of(self, self.SCHEMA)}

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> Self:
        """The inverse of `state`, checked."""
        check(state, {"kind": Text((cls.KIND,)), **cls.SCHEMA}, P=len(policies))
        require(len(state["candidates"]) > 0, "an explorer must have candidates.")
        cls._agree(state)
        make: Callable[..., Self] = cls
        return make(policies, problem=problem, **objects_of(state, cls.SCHEMA))

    @classmethod
    def _agree(cls, state: State) -> None:
        """Refuse parts that do not go together."""


class WholeLists(StoredExplorer):
    """What explorers share that show the whole list of one policy, drawn uniformly from those that are `shown`."""

    ONE_CREDITED: ClassVar[bool]  # whether only that policy is credited

    def __init__(self, policies: PolicySet, shown: NDArray[np.int64], problem: Problem) -> None:
        self.shown = shown
        self._policies, self._problem = policies, problem
        self._states_places = reading_of(problem).natural
        self.smallest = self.smallest_disputed = 1 / len(shown)

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context; where one policy alone is credited `arms` say which. One number of `rng` each."""
        n, A, m = n_contexts(X), len(self.shown), self._problem.list_size
        if isinstance(self._policies, StochasticPolicies):
            return self._draw_by_chance(self._policies, X, as_generator(rng), first_id, epoch)
        who = np.minimum((as_generator(rng).random(n) * A).astype(np.int64), A - 1)
        lists, propensities = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        placements = np.empty((n, m, m)) if self._states_places else None
        for rows in row_blocks(n, A, m):
            predicted = self._predict(take_contexts(X, rows))
            lists[rows] = predicted[np.arange(len(predicted)), who[rows]]
            propensities[rows] = self._shares(predicted, lists[rows])
            if placements is not None:
                placements[rows] = np.minimum(
                    places_in(predicted, np.full(A, 1 / A), lists[rows], self._problem.n_actions), 1.0
                )
        decisions = Decisions(
            ids=np.arange(first_id, first_id + n),
            lists=lists,
            propensities=propensities,
            epochs=np.full(n, epoch),
            contexts=X,
            arms=self.shown[who] if self.ONE_CREDITED else no_arms(n),
            placements=placements,
        )
        return Drawn(decisions)

    def _draw_by_chance(
        self, policies: StochasticPolicies, X: Contexts, rng: np.random.Generator, first_id: int, epoch: int
    ) -> Drawn:
        """Lists that the candidates draw, in random order. Three numbers of `rng` each."""
        n, A = n_contexts(X), len(self.shown)
        u = rng.random((n, 3))
        who = self.shown[np.minimum((u[:, 0] * A).astype(np.int64), A - 1)]
        lists = policies.drawn(X, who, u[:, 1])
        propensities = self._mixed(policies, X, lists)
        shuffle_lists(lists, propensities, np.ascontiguousarray(u[:, 2]))
        arms = who if self.ONE_CREDITED else no_arms(n)
        ids, epochs = np.arange(first_id, first_id + n), np.full(n, epoch)
        return Drawn(Decisions(ids=ids, lists=lists, propensities=propensities, epochs=epochs, contexts=X, arms=arms))

    def _mixed(self, policies: StochasticPolicies, X: Contexts, items: Lists) -> Floats:
        A = len(self.shown)
        return np.minimum(policies.mixed(X, items, np.full(A, 1 / A), self.shown), 1.0)

    def propensities_of(self, X: Contexts, items: Lists) -> Floats:
        """Q of some items."""
        if isinstance(self._policies, StochasticPolicies):
            return self._mixed(self._policies, X, items)
        return self._shares(self._predict(X), items)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items."""
        if isinstance(self._policies, StochasticPolicies):
            listed = self._policies.support_of(X, self.shown)
            values = self._mixed(self._policies, X, listed)
        else:
            predicted = self._predict(X)
            listed = sorted_actions(predicted)
            values = self._shares(predicted, listed)
        return SparsePropensities.of_sorted(self._problem.n_actions, listed, values, np.zeros(len(listed)))

    def _predict(self, X: Contexts) -> Lists:
        return self._policies.predict(X, self.shown, problem=self._problem)

    def _shares(self, predicted: Lists, items: Lists) -> Floats:
        A = len(self.shown)
        shares = inclusion(predicted, np.full(A, 1 / A), np.ascontiguousarray(items), self._problem.n_actions)
        return np.minimum(shares, 1.0)


class CandidatesLists(WholeLists):
    """What explorers share that show the candidates' own lists and learn from totals, credited to all of them."""

    FROM_TOTALS: ClassVar[bool] = True
    ONE_CREDITED = False

    def __init__(self, policies: PolicySet, candidates: NDArray[np.int64], *, problem: Problem) -> None:
        super().__init__(policies, candidates, problem)
        self.candidates = candidates
