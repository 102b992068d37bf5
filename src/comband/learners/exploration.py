"""Ways to explore: how lists are drawn in an epoch, and how large an importance weight can become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from comband._kernels.lists import inclusion
from comband.bits import PackedRows
from comband.contexts import Contexts, n_contexts, take_contexts
from comband.policies.disagreement import DisagreementSampling
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.policies.scored import BLOCK
from comband.policies.sparse import SparsePropensities, sorted_actions
from comband.problem import Problem
from comband.rounds import Decisions, Events


class Explorer(Protocol):
    """Draws an epoch's lists."""

    least: float  # no action that can speak for a rival has a smaller propensity in a covered round
    least_any: float  # no action of any candidate has

    def draw(self, X: Contexts, rng: np.random.Generator, *, first_id: int, epoch: int) -> Decisions:
        """A list for each context."""
        ...

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """Q of the actions of the `chosen` events, given for which candidates each of them counts."""
        ...

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions, computed anew."""
        ...

    def shown_propensities(self, X: Contexts, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of the listed actions, computed anew."""
        ...


class MixtureExplorer:
    """A mixture of policies over a floor γ of uniform lists."""

    def __init__(self, mixture: Mixture, candidates: NDArray[np.int64]) -> None:
        self._mixture = mixture
        self._own = bool(np.isin(mixture.support, candidates).all())
        self._weights = mixture.weights[candidates]
        share = (1 - mixture.floor) * float(self._weights.min())
        self.least = share + mixture.floor * mixture.problem.uniform_propensity
        self.least_any = self.least

    def draw(self, X: Contexts, rng: np.random.Generator, *, first_id: int, epoch: int) -> Decisions:
        """A list for each context."""
        return self._mixture.draw(X, rng, first_id=first_id, epoch=epoch)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """Q of single actions."""
        mixture, problem = self._mixture, self._mixture.problem
        if self._own or mixture.floor == 1:
            followed = inside @ self._weights
        else:
            followed = np.empty(len(chosen))
            step = max(1, BLOCK // (len(mixture.support) * problem.list_size))
            for start in range(0, len(chosen), step):
                part = slice(start, start + step)
                lists = mixture.policies.predict(
                    take_contexts(events.contexts, events.rows[chosen[part]]), mixture.support
                )
                wanted = np.ascontiguousarray(events.actions[chosen[part], None])
                weights = mixture.weights[mixture.support]
                followed[part] = inclusion(lists, weights, wanted, problem.n_actions)[:, 0]
        return np.asarray((1 - mixture.floor) * followed + mixture.floor * problem.uniform_propensity)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions."""
        return self._mixture.sparse_propensities(X)

    def shown_propensities(self, X: Contexts, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of the listed actions."""
        return self._mixture.propensities(X, lists)


class ActionExplorer:
    """Disagreement sampling."""

    def __init__(self, sampling: DisagreementSampling) -> None:
        self._sampling = sampling
        self.least = sampling.floor
        self.least_any = sampling.least_propensity

    def draw(self, X: Contexts, rng: np.random.Generator, *, first_id: int, epoch: int) -> Decisions:
        """A list for each context."""
        return self._sampling.draw(X, rng, first_id=first_id, epoch=epoch)

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """Q of single actions."""
        contexts = take_contexts(events.contexts, events.rows[chosen])
        return self._sampling.propensities(contexts, events.actions[chosen, None])[:, 0]

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions."""
        return self._sampling.sparse_propensities(X)

    def shown_propensities(self, X: Contexts, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of the listed actions."""
        return self._sampling.propensities(X, lists)


class ArmExplorer:
    """One candidate at a time, drawn uniformly, and credited alone: a classical A/B/n test."""

    def __init__(self, policies: PolicySet, candidates: NDArray[np.int64], problem: Problem) -> None:
        self._policies, self._candidates, self._problem = policies, candidates, problem
        self.least = self.least_any = 1 / len(candidates)

    def draw(self, X: Contexts, rng: np.random.Generator, *, first_id: int, epoch: int) -> Decisions:
        """A candidate's list for each context. Uses one number of `rng` a context."""
        n, m, S = n_contexts(X), self._problem.list_size, len(self._candidates)
        arms = np.minimum((rng.random(n) * S).astype(np.int64), S - 1)
        lists, propensities = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        step = max(1, BLOCK // (S * m))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            predicted = self._policies.predict(take_contexts(X, rows), self._candidates, problem=self._problem)
            lists[rows] = predicted[np.arange(len(predicted)), arms[rows]]
            shares = inclusion(predicted, np.full(S, 1 / S), lists[rows], self._problem.n_actions)
            propensities[rows] = np.minimum(shares, 1.0)
        return Decisions(
            ids=np.arange(first_id, first_id + n),
            lists=lists,
            propensities=propensities,
            epochs=np.full(n, epoch),
            contexts=X,
            arms=self._candidates[arms],
        )

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: PackedRows) -> NDArray[np.float64]:
        """1/S: only the candidate's own rounds count for it."""
        return np.full(len(chosen), self.least)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all actions."""
        lists = self._policies.predict(X, self._candidates, problem=self._problem)
        K, S = self._problem.n_actions, len(self._candidates)
        listed = sorted_actions(lists)
        values = np.minimum(inclusion(lists, np.full(S, 1 / S), listed, K), 1.0)
        return SparsePropensities.of_sorted(K, listed, values, np.zeros(len(lists)))

    def shown_propensities(self, X: Contexts, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of the listed actions."""
        predicted, S = self._policies.predict(X, self._candidates, problem=self._problem), len(self._candidates)
        return np.minimum(inclusion(predicted, np.full(S, 1 / S), lists, self._problem.n_actions), 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """How an epoch explores.

    kind: "mixture" of policies with `weights` over `floor` uniform lists; "actions", drawn singly with `weights` as
    attention and `floor` as the promised propensity; or "arms", one policy at a time, each with probability `floor`.
    `weights` go with the candidates, or with all policies if there are as many of them.
    """

    kind: Literal["mixture", "actions", "arms"]
    weights: NDArray[np.float64]
    floor: float

    def explorer(self, policies: PolicySet, candidates: NDArray[np.int64], leader: int, problem: Problem) -> Explorer:
        """The explorer for these candidates; `leader` is a position among them."""
        shown = np.arange(len(policies)) if len(self.weights) == len(policies) else candidates
        if self.kind == "arms":
            return ArmExplorer(policies, shown, problem)
        if self.kind == "mixture":
            weights = np.zeros(len(policies))
            weights[shown] = self.weights
            return MixtureExplorer(Mixture(policies, weights, problem=problem, floor=self.floor), candidates)
        return ActionExplorer(
            DisagreementSampling(
                policies, candidates, leader=leader, attention=self.weights, floor=self.floor, problem=problem
            )
        )
