"""Disagreement sampling in an order that a page can show, with the exact probability of each item in each place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import contains
from comband._kernels.natural import LEADERS, natural_lists, natural_needs
from comband._kernels.numbering import Numbered
from comband.explore.explorers.base import Standing, register
from comband.explore.explorers.disagreement import UNDISPUTED, DisagreementExplorer, nothing_asked
from comband.page.bits import Rows
from comband.page.places import factors_of, pair_lists
from comband.page.problem import Problem
from comband.page.rounds import Events
from comband.page.storage import Array, Flag, Real, Whole
from comband.policies.policy_set import PolicySet


@register
class NaturalExplorer(DisagreementExplorer):
    """Items in dispute in a natural order: what is designed is how much each item is examined, where it stands follows.

    With factors θ of places (all 1 where places do not matter) item y is examined e(x, y) = Σ_k Q(x, y, k)·θ_k, and a
    reward of it counts for candidate π by θ_{k_π(y)}/e(x, y), wherever it stood. Items are laid end to end on [0, m) in
    an order that depends on the context's lists and the past alone, and m points at distance 1 take one each: Q(x, y,
    k) is the length of the cell of y inside [k, k + 1), and Σ_y e(x, y) = Σ_k θ_k in every order. So e is designed:

        e(x, y) = max(t·w(y), low(y)),  w = .7·√v/Σ√v + .3·r̂²/Σr̂²,  v(y) = r̂(y)·Σ_π α_π (θ_{k_π(y)} − θ_{k_ℓ(y)})²,

    with r̂(y) = ½ Σ_π a_π θ_{k_π(y)} + .01, a = α + ½·1[leader] + ½/S, a guess of how often y is rewarded; θ = 0 where
    y is not shown. low(y) keeps e(x, y) ≥ φ·g(y), g(y) = max_π (θ_{k_π(y)} − θ_{k_ℓ(y)})⁺ and φ =
    `smallest_disputed`. Items come in falling order of e, so that those who need most stand where most is examined;
    where all places are alike, by where candidates show them. A keyed hash decides ties.

    Parts of the same distribution: with shares κ candidates' `own` lists, as they are; and of the lists that are drawn
    a `shuffled` share in random order, by which it can be seen what places do (all of them: random order with own lists
    as they are). All of it is in Q.

    The law of a decision is a function of the state and of the candidates' lists in its context, and its list one of
    these and of two uniform numbers: u_1 < Σκ takes an own list, else (u_1 − Σκ)/(1 − Σκ) is where the points begin;
    u_2 below `shuffled` puts the list into random order.

    Parameters
    ----------
    policies, candidates, leader, attention, problem, memory:
        As for `DisagreementExplorer`.
    smallest_disputed:
        φ, of all rounds together, those with own lists included.
    own:
        (S,) the share of rounds in which each candidate's own list is shown; none by default.
    shuffled:
        The share of drawn lists that are put into random order.
    key:
        Decides ties.

    >>> problem = Problem(n_actions=6, list_size=2, order="natural")
    >>> policies = PolicySet.from_lists([[[0, 1]], [[0, 2]], [[0, 3]]], problem)
    >>> explorer = NaturalExplorer(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=.3, problem=problem
    ... )
    >>> decisions = explorer.draw([0], 1).decisions
    >>> bool((abs(decisions.placements.sum(axis=2) - decisions.propensities) < 1e-12).all())
    True
    """

    KIND = "natural"
    natural_order = True

    def __init__(
        self,
        policies: PolicySet,
        candidates: ArrayLike,
        *,
        problem: Problem,
        smallest_disputed: float,
        shuffled: float = 0.0,
        key: int = 0,
        **standing: Any,
    ) -> None:
        super().__init__(policies, candidates, problem=problem, smallest_disputed=smallest_disputed, **standing)
        self.shuffled, self.key = float(shuffled), int(key)
        self.page = None  # all own lists are shown as they are
        self._theta = self.factors(problem)
        phi, drawn = smallest_disputed, 1 - float(self.own.sum())
        self._lowest = np.array([phi, LEADERS * phi, min(UNDISPUTED * drawn, phi)])
        self.smallest_disputed, self.smallest = phi, float(self._lowest.min())
        self.smallest_of_leader = float(self._lowest[1])
        self.random_order, self.own_orders = False, True

    @staticmethod
    def factors(problem: Problem) -> NDArray[np.float64]:
        """θ, all alike here."""
        return np.ones(problem.list_size)

    @classmethod
    def room(cls, standing: Standing) -> tuple[float, float]:
        """One, of Θ; and what is needed at most."""
        theta, K, S = cls.factors(standing.problem), standing.problem.n_actions, len(standing.candidates)
        top = float(theta.max() / theta.mean())
        return 1.0, max(min(S - 1, K * float(theta.max() / theta.sum())), top)

    @classmethod
    def needed_with(
        cls,
        lists: NDArray[np.int32],
        leader: int,
        problem: Problem,
        *,
        own: NDArray[np.float64],
        shuffled: float,
    ) -> NDArray[np.float64]:
        """How much each context of lists (n, S, m) needs, where own lists are shown so often."""
        few = Numbered(lists, nothing_asked(len(lists)), problem.n_actions)
        return np.asarray(natural_needs(few.lists, leader, cls.factors(problem), shuffled, own, few.n_actions))

    SCHEMA: ClassVar = {**DisagreementExplorer.SCHEMA, "shuffled": Real(0, 1), "key": Whole(0)}

    def _of_asked(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        return found[..., 0]

    def _piece(
        self, predicted: NDArray[np.int32], numbers: NDArray[np.float64], asked: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        few = Numbered(predicted, asked, self.problem.n_actions)
        lists, placements, covered, of_asked = natural_lists(
            few.lists,
            self.leader,
            self._shares,
            self._lowest,
            self._theta,
            self.shuffled,
            self.own,
            self.key,
            numbers,
            few.n_actions,
            few.asked,
            few.names,
        )
        return few.items_of(lists), placements, covered, of_asked


@register
class NaturalExamination(NaturalExplorer):
    """The same where places are examined by stated factors. Events are pairs of item and place; see
    `comband.page.places`.

    Parameters
    ----------
    policies, candidates, problem:
        As for `NaturalExplorer`, and so is all that follows by name.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=6, list_size=2, places=[1, 0.5], order="natural")
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 0]], [[0, 3]]], problem)
    >>> explorer = NaturalExamination(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=0.2, problem=problem
    ... )
    >>> explorer.draw([0, 0, 0], 1).decisions.placements.shape
    (3, 2, 2)
    """

    KIND = "natural examination"
    FROM_FACTORS = True

    def __init__(self, policies: PolicySet, candidates: ArrayLike, *, problem: Problem, **standing: Any) -> None:
        super().__init__(policies, candidates, problem=problem, **standing)
        self.smallest = self.smallest_of_leader = float(self._lowest[2])  # of e over the largest factor of an item

    @staticmethod
    def factors(problem: Problem) -> NDArray[np.float64]:
        """θ."""
        return factors_of(problem)

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A pair counts for the candidates that show the item in that place."""
        inside = np.empty((len(chosen), len(self.candidates)), dtype=np.bool_)
        for mine, places, predicted in self._lists_of(events, chosen, keep=True):
            inside[mine] = contains(pair_lists(predicted), places, events.actions[chosen[mine]])
        return inside

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """e(x, y)/θ_k, and an m-th of it for each of the m pairs that share a reward."""
        m, actions, e = self.problem.list_size, events.actions[chosen], np.empty(len(chosen))
        for mine, places, predicted in self._lists_of(events, chosen, keep=False):
            asked = np.ascontiguousarray(actions[mine, None] // m)
            e[mine] = self._kernel(predicted[places], None, asked)[3][:, 0, 1]
        return np.asarray(e / self._theta[actions % m] / m)


@register
class FittedExamination(NaturalExamination):
    """The same with factors that were fitted to earlier rounds, where the problem states none (`places="fit"`). While
    there are none all drawn lists are in random order, and nothing is bet.

    Parameters
    ----------
    policies, candidates:
        As for `NaturalExplorer`, and so is all that follows by name.
    problem:
        The setting, with factors or without.
    theta:
        (m,) the factors; those of the problem by default.
    fitting:
        Whether they are not fitted yet.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=6, list_size=2, places="fit")
    >>> policies = cb.PolicySet.from_lists([[[0, 1]], [[1, 0]], [[0, 3]]], problem)
    >>> explorer = FittedExamination(
    ...     policies, [0, 1, 2], leader=0, attention=[0, 1, 1], smallest_disputed=0.2, problem=problem, theta=[1, 0.5]
    ... )
    >>> explorer.fitting, explorer.theta.tolist()
    (False, [1.0, 0.5])
    """

    KIND = "fitted examination"
    FITTED = True

    def __init__(
        self,
        policies: PolicySet,
        candidates: ArrayLike,
        *,
        problem: Problem,
        theta: ArrayLike | None = None,
        fitting: bool = False,
        **standing: Any,
    ) -> None:
        if theta is not None:
            problem = replace(problem, places=theta)
        super().__init__(policies, candidates, problem=problem, **standing)
        self.fitting = fitting

    @property
    def theta(self) -> NDArray[np.float64]:
        """The factors (m,)."""
        return self._theta

    SCHEMA: ClassVar = {**NaturalExamination.SCHEMA, "theta": Array("f8", ("m",), 0), "fitting": Flag()}
