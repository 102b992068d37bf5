"""Drawing lists with exact propensities: a sparse mixture of policies over a floor of uniform lists."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import inclusion, uniform_lists
from comband._kernels.orders import shuffle_lists
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.lists import check_lists
from comband.page.places import pair_lists
from comband.page.problem import (
    SMALLEST_PROPENSITY,
    InputError,
    Problem,
    as_generator,
    check_count,
    check_floor,
    check_problem,
    check_weights,
    saved_problem,
)
from comband.page.rounds import Decisions
from comband.page.storage import PROBLEM, Array, Key, Many, Maybe, Real, State, Text, check, load, require, save
from comband.policies.available import check_shown
from comband.policies.placed import PlacedPolicies, places_in
from comband.policies.policy_set import PolicySet, check_policies
from comband.policies.reading import reading_of
from comband.policies.scored import BLOCK
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.policies.stochastic import StochasticPolicies, check_drawable


class Mixture:
    """With probability γ a uniform list, otherwise the list of a policy drawn from p.

    An action y is shown for context x with probability Q^γ(x, y) = (1−γ) Σ_π p(π) 1[y ∈ π(x)] + γ m/K.
    Policies of weight zero are never asked.

    Parameters
    ----------
    policies:
        The class Π.
    weights:
        p, one weight per policy, on the simplex.
    problem:
        K and m. Candidates may be given by probabilities π(y|x) (`StochasticPolicies`), which then take the place of
        1[y ∈ π(x)], where places do not matter. Where places matter ("pairs") each list is shown in its own order,
        uniform ones in random order, and propensities are those of an item in its place, (1−γ) Σ_π p(π) 1[y in place k
        of π(x)] + γ/K.
    floor:
        γ in (0, 1], the share of uniform lists.
    items:
        What the actions 0 … K−1 are called, where files name items otherwise (text, other numbers):
        `mixture.items[decisions.lists]` are then the shown items. By default the keys of the policies' catalogue.

    >>> import numpy as np
    >>> problem = Problem(n_actions=4, list_size=2)
    >>> policies = PolicySet.from_lists([[[0, 1]], [[1, 2]]], problem)
    >>> Mixture(policies, [0.75, 0.25], problem=problem, floor=0.5).propensities([0]).tolist()
    [[0.625, 0.75, 0.375, 0.25]]
    """

    def __init__(
        self,
        policies: PolicySet,
        weights: ArrayLike,
        *,
        problem: Problem,
        floor: float,
        items: ArrayLike | None = None,
    ) -> None:
        self.policies = check_policies(policies, gaps=True, by_chance=True)
        if policies.by_chance:
            check_drawable(check_problem(problem, places=True), policies)
        self.weights = check_weights(weights, len(policies))
        self.problem = check_problem(problem, places=True)
        self.floor = check_floor(floor)
        check_shown(policies, self.floor)
        policies.check(problem)
        # What is drawn: lists of items, or of pairs of item and place.
        self._reading = reading_of(problem)
        self._drawn, self._of_lists = self._reading.drawn(policies), self._reading.lists
        self._uniform = self._of_lists.uniform_propensity
        if self.floor * self._uniform < SMALLEST_PROPENSITY:
            raise InputError(
                f"floor must be at least {SMALLEST_PROPENSITY / self._uniform:.3g} for "
                f"{problem.n_actions:,} actions, got {self.floor:g}: propensities would be too small to be drawn."
            )
        named = policies.catalogue
        if items is None and named is not None and not named.numeric:
            items = named.keys
        self.items = None if items is None else _check_items(items, problem)
        self.support: NDArray[np.int64] = np.flatnonzero(self.weights)
        self._cumulative = np.cumsum(self.weights[self.support])
        self._cumulative[-1] = 1.0

    def __repr__(self) -> str:
        return (
            f"Mixture({len(self.support)} of {len(self.policies)} policies, floor={self.floor:g}, "
            f"K={self.problem.n_actions}, m={self.problem.list_size})"
        )

    def propensities(self, X: Contexts, lists: ArrayLike | None = None) -> NDArray[np.float64]:
        """Q^γ of the listed actions, (n, m), or of all actions, (n, K), when no lists are given.

        Where places matter ("pairs") it is that of each item in its place, and of all pairs, (n, K·m), with item y in
        place k at y·m + k.
        """
        n, K = n_contexts(X), self._of_lists.n_actions
        if lists is None:
            shown = np.broadcast_to(np.arange(K, dtype=np.int32), (n, K))
        else:
            shown = self._reading.as_drawn(check_lists(lists, self.problem, n=n, gaps=self.policies.has_gaps))
        result = np.empty(shown.shape)
        for rows in self._row_blocks(n):
            result[rows] = self._propensities(self._predict(take_contexts(X, rows)), shown[rows])
        return result

    def inclusion(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q^γ of some items (n, k) of each context; pairs of item and place, if lists are drawn of them."""
        result = np.empty(items.shape)
        for rows in self._row_blocks(n_contexts(X)):
            result[rows] = self._propensities(self._predict(take_contexts(X, rows)), items[rows])
        return result

    def sparse_propensities(self, X: Contexts) -> SparsePropensities:
        """Q^γ of all actions (or pairs), without an (n, K) array."""
        parts = []
        for rows in self._row_blocks(n_contexts(X)) or [slice(0, 0)]:
            predicted = self._predict(take_contexts(X, rows))
            listed = sorted_actions(predicted) if isinstance(predicted, np.ndarray) else predicted.items()
            rest = np.full(len(listed), self.floor * self._uniform)
            values = self._propensities(predicted, listed)
            parts.append(SparsePropensities.of_sorted(self._of_lists.n_actions, listed, values, rest))
        return SparsePropensities.concat(parts)

    def draw(
        self,
        X: Contexts,
        rng: int | np.random.SeedSequence | np.random.Generator,
        *,
        first_id: int = 0,
        epoch: int = 0,
    ) -> Decisions:
        """Draw a list for each context.

        They are shown in random order: given the set, all orders are alike; but where pairs of item and place matter,
        and in natural order, a policy's list is shown as it is. Uses exactly 2 + m numbers of `rng` per context, in
        order: other batches of the same contexts change nothing. A seed in its place gives the same lists at every
        call.
        """
        rng = as_generator(rng)
        check_count("first_id", first_id, least=0)
        check_count("epoch", epoch, least=0)
        blocks = self._row_blocks(n_contexts(X))
        if len(blocks) == 1:
            lists, propensities, placements = self._draw_block(X, blocks[0].stop, rng)
        else:
            lists = np.empty((n_contexts(X), self.problem.list_size), dtype=np.int32)
            propensities = np.empty(lists.shape)
            placements = np.empty((*lists.shape, lists.shape[1])) if self._reading.natural else None
            for rows in blocks:
                drawn = self._draw_block(take_contexts(X, rows), rows.stop - rows.start, rng)
                lists[rows], propensities[rows] = drawn[:2]
                if placements is not None:
                    placements[rows] = drawn[2]
        decisions = Decisions.unsigned(first_id, lists, propensities, epoch=epoch, contexts=X, placements=placements)
        return self._reading.shown(decisions)

    def _draw_block(
        self, X: Contexts, n: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64] | None]:
        K, m = self._of_lists.n_actions, self.problem.list_size
        predicted: Any = None if self.floor == 1 else self._predict(X)
        u = rng.random((n, 2 + m))
        placed = isinstance(self._drawn, PlacedPolicies)
        numbers, order = np.ascontiguousarray(u[:, 1 : 1 + m]), np.ascontiguousarray(u[:, 1 + m])
        shown = uniform_lists(numbers, K // m if placed else K)
        propensities = np.full(shown.shape, self._uniform)
        as_they_are = placed or self._reading.natural
        if as_they_are:
            shuffle_lists(shown, propensities, order)
            shown = pair_lists(shown) if placed else shown
        if predicted is not None:
            followers = np.flatnonzero(u[:, 0] >= self.floor)
            v = (u[followers, 0] - self.floor) / (1 - self.floor)
            component = np.searchsorted(self._cumulative, v, side="right").clip(max=len(self.support) - 1)
            if isinstance(predicted, np.ndarray):
                shown[followers] = predicted[followers, component]
            else:
                shown[followers] = predicted.lists(followers, component, u[followers, 1])
            propensities = self._propensities(predicted, shown)
        if not as_they_are:
            shuffle_lists(shown, propensities, order)
        return shown, propensities, self._placements(predicted, shown) if self._reading.natural else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights, by the policies' names, with K, m, s, the floor and the items' names to one npz file; not
        the policies.
        """
        save(path, "mixture", self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: PolicySet) -> Self:
        """The mixture that `save` wrote, over policies found by name: those of positive weight must all be there."""
        return load(path, "mixture", lambda state: cls.from_state(state, policies))

    def state(self) -> State:
        """All but the policies, for a file; see `comband.page.storage`."""
        return {
            "problem": asdict(self.problem),
            "floor": self.floor,
            "policies": list(self.policies.names),
            "items": None if self.items is None else self.items.tolist(),
            "weights": self.weights,
        }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet) -> Self:
        """The inverse of `state`, checked; policies are found by name."""
        check(
            state,
            {
                "problem": PROBLEM,
                "floor": Real(0, 1),
                "policies": Many(Text(), "P"),
                "items": Maybe(Many(Key())),
                "weights": Array("f8", ("P",), 0, 1),
            },
        )
        names = state["policies"]
        require(len(set(names)) == len(names), "its policies must have different names.")
        place = {name: i for i, name in enumerate(policies.names)}
        weights = np.zeros(len(policies))
        for name, weight in zip(names, state["weights"], strict=True):
            if name in place:
                weights[place[name]] = weight
            elif weight > 0:
                raise InputError(f"it needs a policy named {name!r} (weight {weight:.4g}), which is not in the set.")
        problem = saved_problem(state["problem"])
        return cls(policies, weights, problem=problem, floor=state["floor"], items=state["items"])

    def _row_blocks(self, n: int) -> list[slice]:
        step = max(1, BLOCK // max(len(self.support) * self.problem.list_size, 1))
        return [slice(start, min(n, start + step)) for start in range(0, n, step)]

    def _predict(self, X: Contexts) -> Any:
        """Lists of the support, (n, S, m), or its `_Probabilities`; none is asked when only uniform lists are drawn."""
        if self.floor == 1:
            return np.empty((n_contexts(X), 0, self.problem.list_size), dtype=np.int32)
        if isinstance(self._drawn, StochasticPolicies):
            return _Probabilities(self._drawn, X, self.weights[self.support], self.support)
        return self._drawn.predict(X, self.support, problem=self._of_lists)

    def _propensities(self, predicted: Any, shown: NDArray[np.int32]) -> NDArray[np.float64]:
        if isinstance(predicted, _Probabilities):
            followed = predicted.policies.mixed(predicted.contexts, shown, predicted.weights, predicted.which)
        else:
            weights = self.weights[self.support[: predicted.shape[1]]]
            followed = inclusion(predicted, weights, np.ascontiguousarray(shown), self._of_lists.n_actions)
        mixed: NDArray[np.float64] = (1 - self.floor) * followed + self.floor * self._uniform
        if self.policies.has_gaps:
            mixed[shown < 0] = 1.0
        return np.minimum(mixed, 1.0)  # rounding may pass 1 by an ulp when all policies agree

    def placements_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q^γ of some items (n, k) of each context in each place, (n, k, m), in natural order."""
        m = self.problem.list_size
        result = np.empty((*items.shape, m))
        for rows in self._row_blocks(n_contexts(X)):
            predicted = None if self.floor == 1 else self._predict(take_contexts(X, rows))
            result[rows] = self._placements(predicted, items[rows])
        return result

    def _placements(self, predicted: NDArray[np.int32] | None, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """A policy's list is shown as it is, and a uniform one in random order."""
        (n, k), m, K = items.shape, self.problem.list_size, self.problem.n_actions
        even = np.full((n, k, m), self.floor / K)
        if predicted is not None:
            weights = self.weights[self.support[: predicted.shape[1]]]
            even += (1 - self.floor) * places_in(predicted, weights, items, K)
        if k == m:
            even[items < 0] = 0.0
            even += (items < 0)[:, :, None] * np.eye(m)  # a place that is empty
        return np.asarray(np.minimum(even, 1.0))


@dataclass(frozen=True, eq=False, slots=True)
class _Probabilities:
    """What candidates that are given by probabilities show to some contexts, instead of lists: those at `which`."""

    policies: StochasticPolicies
    contexts: Contexts
    weights: NDArray[np.float64]
    which: NDArray[np.int64]

    def items(self) -> NDArray[np.int32]:
        """All items that may be shown (n, k), rising, the last repeated."""
        return self.policies.support_of(self.contexts, self.which)

    def lists(self, rows: NDArray[np.int64], component: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int32]:
        """For some of the contexts a list of the component, by one number each."""
        return self.policies.drawn(take_contexts(self.contexts, rows), self.which[component], u)


def _check_items(items: ArrayLike, problem: Problem) -> NDArray[Any]:
    names = np.asarray(items)
    if names.dtype.kind not in "iu":
        names = np.array([str(name) for name in names.ravel()], dtype=object).reshape(names.shape)
    if names.shape != (problem.n_actions,):
        raise InputError(f"items must hold one name for each of the {problem.n_actions} actions, got {names.shape}.")
    return names
