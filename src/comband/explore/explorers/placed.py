"""Disagreement sampling where places matter: by examination, and by pairs of item and place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import contains, inclusion
from comband._kernels.numbering import Numbered
from comband._kernels.places import examination_lists, examination_needs, pair_needs
from comband._kernels.places import pair_lists as draw_pairs
from comband.explore.explorers.base import Standing, register
from comband.explore.explorers.disagreement import _NO_NUMBERS, DisagreementExplorer, nothing_asked
from comband.page.bits import Rows
from comband.page.places import factors_of, item_lists, pair_lists
from comband.page.problem import InputError, Problem
from comband.page.rounds import Events
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet
from comband.policies.sparse import sorted_actions


@register
class ExaminationExplorer(DisagreementExplorer):
    """Disagreement sampling where a place k is examined with a factor θ_k, in random order.

    A reward r of item y speaks for candidate π with the weight θ_{k_π(y)}/e(x, y), e(x, y) = Σ_k Q(x, y, k)·θ_k,
    whatever place it was in. In random order e = q·Θ/m, where q is the probability that y is in the list and Θ = Σ_k
    θ_k. So lists are drawn by systematic sampling with

        q(x, y) = clip(t·√(Σ_π α_π (θ_{k_π(y)} − θ_{k_ℓ(y)})²·(share(y) + .01)), low(y), 1),    Σ_y q(x, y) = m,

    and θ = 0 where y is not shown. What a rival can gain over the leader by a reward of y is in proportion to g(y) =
    max_π (θ_{k_π(y)} − θ_{k_ℓ(y)})⁺, also for items of the leader's own list that a rival shows higher: low(y) keeps
    e(x, y) ≥ φ·g(y), with φ = `smallest_disputed`.

    Events are pairs of item and place; see `comband.page.places`.

    Parameters
    ----------
    policies:
        The class.
    candidates:
        The positions of those that are compared.
    problem:
        The setting, with factors; what else there is to say is said as for `DisagreementExplorer`.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=6, list_size=2, places=[1, 0.5])  # the second place is looked at half as often
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 0]], [[0, 3]]], problem)
    >>> explorer = cb.explore.explorers.ExaminationExplorer(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=0.2, problem=problem
    ... )
    >>> explorer.draw([0, 0, 0], 1).decisions.lists.shape
    (3, 2)
    """

    KIND = "examination"
    FROM_FACTORS = True

    def __init__(self, policies: PolicySet, candidates: ArrayLike, *, problem: Problem, **standing: Any) -> None:
        super().__init__(policies, candidates, problem=problem, **standing)
        self._theta = factors_of(problem)
        self.smallest = float(self._lowest[2])  # of e(x, y) over the largest factor that any candidate gives y
        self.smallest_of_leader = self.smallest

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A pair counts for the candidates that show the item in that place."""
        inside = np.empty((len(chosen), len(self.candidates)), dtype=np.bool_)
        for mine, places, predicted in self._lists_of(events, chosen, keep=True):
            inside[mine] = contains(pair_lists(predicted), places, events.actions[chosen[mine]])
        return inside

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """e(x, y)/θ_k, and an m-th of it for each of the m pairs that share a reward."""
        m, actions, q = self.problem.list_size, events.actions[chosen], np.empty(len(chosen))
        for mine, places, predicted in self._lists_of(events, chosen, keep=False):
            asked = np.ascontiguousarray(actions[mine, None] // m)
            q[mine] = self._kernel(predicted[places], None, asked)[3][:, 0]
        return np.asarray(q * self._theta.mean() / self._theta[actions % m] / m)

    @classmethod
    def room(cls, standing: Standing) -> tuple[float, float]:
        """One, of Θ; and Σ_y g(y)/Θ ≤ S − 1 at most, or what one item that a rival shows on top needs."""
        theta, K, S = factors_of(standing.problem), standing.problem.n_actions, len(standing.candidates)
        top = float(theta.max() / theta.mean())
        return 1.0, max(min(S - 1, K * float(theta.max() / theta.sum())), top)

    @classmethod
    def needed(cls, lists: NDArray[np.int32], leader: int, problem: Problem) -> NDArray[np.float64]:
        """How much each context of lists (n, S, m) needs."""
        few = Numbered(lists, nothing_asked(len(lists)), problem.n_actions)
        return np.asarray(examination_needs(few.lists, leader, factors_of(problem), few.n_actions))

    def _piece(
        self, predicted: NDArray[np.int32], numbers: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        given = (self.leader, self._shares, self._lowest, self._theta)
        few = Numbered(predicted, asked, self.problem.n_actions)
        lists, propensities, covered, of_asked = examination_lists(few.lists, *given, numbers, few.n_actions, few.asked)
        return few.items_of(lists), propensities, covered, of_asked


@register
class PairExplorer(DisagreementExplorer):
    """Disagreement sampling over pairs of item and place: the policies are `PlacedPolicies`, the problem that of pairs.

    Every place k has one item, Σ_y Q(x, y, k) = 1; every item one place at most, Σ_k Q(x, y, k) ≤ 1. Within these
    bounds Q(x, y, k) is in proportion to √(u(y, k)·(share(y) + .01)), where u(y, k) = Σ_π α_π 1[(y, k) ∈ π(x) △ ℓ(x)]
    and the share is that of the candidates that show the *item*; with floors as for items. Lists are drawn by dependent
    rounding. With shares κ of candidates' `own` lists, as they are, all of that is (1 − Σκ)·Q(x, y, k) + Σ_π κ_π 1[π
    has y in place k].

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.policies.placed import PlacedPolicies
    >>> from comband.page.places import pair_problem
    >>> problem = cb.Problem(n_actions=6, list_size=2, places="pairs")
    >>> policies = PlacedPolicies(cb.PolicySet.from_lists([[[0, 1]], [[1, 0]], [[0, 3]]], problem), 2)
    >>> explorer = cb.explore.explorers.PairExplorer(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=0.2, problem=pair_problem(problem)
    ... )
    >>> explorer.draw([0, 0, 0], 1).decisions.lists.shape
    (3, 2)
    """

    KIND = "pairs"

    def __init__(self, policies: PolicySet, candidates: ArrayLike, *, problem: Problem, **standing: Any) -> None:
        if not isinstance(policies, PlacedPolicies):
            raise InputError("pairs are drawn of PlacedPolicies, got policies of items.")
        super().__init__(policies, candidates, problem=problem, **standing)
        self.random_order = False

    @classmethod
    def room(cls, standing: Standing) -> tuple[float, float]:
        """One per place; and as many as there are rivals, or items."""
        return 1.0, min(standing.problem.n_actions / standing.problem.list_size, len(standing.candidates) - 1)

    @classmethod
    def needed(cls, lists: NDArray[np.int32], leader: int, problem: Problem) -> NDArray[np.float64]:
        """How much each context of lists of pairs (n, S, m) needs."""
        items = np.ascontiguousarray(item_lists(lists))
        few = Numbered(items, nothing_asked(len(items)), problem.n_actions // problem.list_size)
        return np.asarray(pair_needs(few.lists, leader, few.n_actions), dtype=np.float64)

    def _listed(self, predicted: NDArray[np.int32]) -> NDArray[np.int32]:
        """All places of all items: a place that lacks something may take any item that has room."""
        m = self.problem.list_size
        items = sorted_actions(item_lists(predicted))
        pairs = items[:, :, None] * np.int32(m) + np.arange(m, dtype=np.int32)
        return np.sort(pairs.reshape(len(items), -1), axis=1)

    def _piece(
        self, predicted: NDArray[np.int32], numbers: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        few, (lists, propensities, covered, of_asked) = self._of_pairs(predicted, numbers, asked)
        pairs, here = pair_lists(few.items_of(lists)), float(self.own.sum())
        if here == 0.0:
            return pairs, propensities, covered, of_asked
        if len(numbers):  # the second number says whose own list is shown, if any
            mine = np.flatnonzero(numbers[:, 1] < here)
            who = np.searchsorted(np.cumsum(self.own), numbers[mine, 1], side="right")
            pairs[mine] = predicted[mine, np.minimum(who, len(self.own) - 1)]
            if len(mine):
                propensities[mine] = self._of_pairs(predicted[mine], _NO_NUMBERS, pairs[mine])[1][3]
            propensities = self._with_own(predicted, pairs, propensities)
        return pairs, propensities, covered, self._with_own(predicted, asked, of_asked)

    def _of_pairs(
        self, predicted: NDArray[np.int32], numbers: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[Numbered, Any]:
        """What is drawn beside own lists, in numbers of few items."""
        m = self.problem.list_size
        few = Numbered(np.ascontiguousarray(item_lists(predicted)), asked, self.problem.n_actions // m, places=m)
        given = (self.leader, self._shares, self._lowest, numbers)
        return few, draw_pairs(few.lists, *given, few.n_actions, few.asked)

    def _with_own(
        self, predicted: NDArray[np.int32], pairs: NDArray[np.int32], q: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Probabilities of pairs (n, k) with those of own lists."""
        shares = inclusion(predicted, self.own, np.ascontiguousarray(pairs), self.problem.n_actions)
        return np.minimum((1 - float(self.own.sum())) * q + shares, 1.0)
