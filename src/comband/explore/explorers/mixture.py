"""Whole lists of candidates, mixed over a share of uniform lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comband._kernels.lists import inclusion
from comband.explore.explorers.base import Drawn, Explorer, Seed, Standing, register
from comband.page.bits import Rows
from comband.page.contexts import Contexts, take_contexts
from comband.page.places import factors_of
from comband.page.problem import SMALLEST_PROPENSITY, Problem
from comband.page.rounds import Events
from comband.page.storage import Array, Default, Flag, Part, Real, State, Text, check, require
from comband.policies.mixture import Mixture
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.policies.scored import BLOCK
from comband.policies.sparse import SparsePropensities
from comband.policies.stochastic import StochasticPolicies


@register
class MixtureExplorer:
    """The lists of a `Mixture`: a candidate's, or with probability γ a uniform one.

    Parameters
    ----------
    policies, candidates:
        The class and the positions of those that are compared.
    weights:
        p, one weight per policy, also for those that are no candidates any more.
    floor:
        γ, the share of uniform lists.
    problem:
        The setting.
    as_they_are:
        Whether candidates' lists are shown so where the setting says random order; uniform ones never are.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import MixtureExplorer
    >>> explorer = MixtureExplorer(policies, np.arange(4), weights=np.full(4, 1 / 4), floor=0.5, problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape, explorer.smallest
    ((5, 3), 0.25)
    """

    KIND: ClassVar[str] = "mixture"

    def __init__(
        self,
        policies: PolicySet,
        candidates: NDArray[np.int64],
        *,
        weights: ArrayLike,
        floor: float,
        problem: Problem,
        as_they_are: bool = False,
    ) -> None:
        self._given, self._as_they_are = np.asarray(weights, dtype=np.float64), as_they_are
        if as_they_are:
            problem = replace(problem, order="natural")
        self.mixture = mixture = Mixture(policies, self._given, problem=problem, floor=floor)
        self.candidates = candidates
        self.random_order = not (isinstance(policies, PlacedPolicies) or reading_of(problem).natural)
        self.natural_order = self.own_orders = reading_of(problem).natural
        self._own = bool(np.isin(mixture.support, candidates).all())
        self._weights = mixture.weights[candidates]
        share = (1 - mixture.floor) * float(self._weights.min())
        self.smallest = self.smallest_disputed = share + mixture.floor * problem.uniform_propensity

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context; only the mixture's support is asked, so no candidates' lists are kept."""
        return Drawn(self.mixture.draw(X, rng, first_id=first_id, epoch=epoch))

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_] | NDArray[np.float64]:
        """Every list counts for all candidates that share actions with it, or by how likely they would show them."""
        rows, actions = events.rows[chosen], events.actions[chosen]
        if isinstance(self.mixture.policies, StochasticPolicies):
            return self.mixture.policies.inclusion(events.contexts, rows, actions)[:, self.candidates]
        return self.mixture.policies.contains(events.contexts, rows, actions, self.candidates)

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """The propensities of the actions."""
        return events.propensities[chosen]

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """Q of single actions."""
        mixture, problem = self.mixture, self.mixture.problem
        if self._own or mixture.floor == 1:
            followed = inside @ self._weights
        elif mixture.policies.by_chance:
            X, actions = take_contexts(events.contexts, events.rows[chosen]), events.actions[chosen, None]
            return mixture.inclusion(X, actions)[:, 0]
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

    def propensities_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of some items."""
        return self.mixture.propensities(X, items)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items."""
        return self.mixture.sparse_propensities(X)

    def state(self) -> State:
        """All but policies and problem, for a file or another process; see `comband.page.storage`."""
        support = np.flatnonzero(self._given)
        return {
            "kind": self.KIND,
            "candidates": self.candidates,
            "support": support,
            "weights": self._given[support],
            "floor": self.mixture.floor,
            "as_they_are": self._as_they_are,
        }

    SCHEMA: ClassVar = {
        "kind": Text((KIND,)),
        "candidates": Array("i8", ("S",), 0, "P-1", rising=True),
        "support": Array("i8", ("W",), 0, "P-1", rising=True),
        "weights": Array("f8", ("W",), 0, 1),
        "floor": Real(0, 1),
        "as_they_are": Default(Flag(), lambda sizes: False),
    }

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> MixtureExplorer:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA, P=len(policies))
        require(len(state["candidates"]) > 0, "an explorer must have candidates.")
        weights = np.zeros(len(policies))
        weights[state["support"]] = state["weights"]
        given = {"floor": float(state["floor"]), "as_they_are": state["as_they_are"]}
        return cls(policies, state["candidates"], weights=weights, problem=problem, **given)


@register
class ExaminedMixture:
    """The lists of a `Mixture`, where places are examined by factors θ.

    Rewards speak of pairs of item and place, see `comband.page.places`: (y, k) has the "propensity" e(x, y)/θ_k, which
    is Q(x, y)·(Θ/m)/θ_k in random order, and an m-th of it for each of the m pairs that share a reward.

    Parameters
    ----------
    mixture:
        The explorer of sets.
    problem:
        The setting, with factors.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1, places=[1, 0.6, 0.3])
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> from comband.explore.explorers import ExaminedMixture, MixtureExplorer
    >>> sets = MixtureExplorer(policies, np.arange(4), weights=np.full(4, 1 / 4), floor=0.5, problem=problem)
    >>> explorer = ExaminedMixture(sets, problem=problem)
    >>> drawn = explorer.draw(shop.sample(5, np.random.default_rng(3)).contexts, 4)
    >>> drawn.decisions.lists.shape
    (5, 3)
    """

    KIND: ClassVar[str] = "examined mixture"
    FROM_FACTORS: ClassVar[bool] = True

    def __init__(self, mixture: MixtureExplorer, *, problem: Problem) -> None:
        self._sets = mixture
        self.candidates = mixture.candidates
        self._m = problem.list_size
        theta = factors_of(problem)
        self._theta, self._per_place = theta, theta.mean() / theta
        self._pairs = PlacedPolicies(mixture.mixture.policies, self._m)
        self.random_order, self.natural_order = mixture.random_order, mixture.natural_order
        # Of a list in random order; one that is shown as it is has every item where its candidate has it.
        even = mixture.smallest if self.random_order else mixture.mixture.floor * problem.uniform_propensity
        least = mixture.smallest - even + even * float(self._per_place.min())
        self.smallest = self.smallest_disputed = least

    def draw(self, X: Contexts, rng: Seed, *, first_id: int = 0, epoch: int = 0, keep: int = 0) -> Drawn:
        """A list for each context."""
        return self._sets.draw(X, rng, first_id=first_id, epoch=epoch)

    def inside(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A pair counts for the candidates that show the item in that place."""
        return self._pairs.contains(events.contexts, events.rows[chosen], events.actions[chosen], self.candidates)

    def divisors(self, events: Events, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """The "propensities" of the pairs."""
        return events.propensities[chosen]

    def propensities(self, events: Events, chosen: NDArray[np.int64], inside: Rows) -> NDArray[np.float64]:
        """As for `divisors`, computed anew."""
        X, actions = take_contexts(events.contexts, events.rows[chosen]), events.actions[chosen]
        listed = np.ascontiguousarray(actions[:, None] // self._m)
        if not self.random_order:
            e = self._sets.mixture.placements_of(X, listed)[:, 0] @ self._theta
            return np.asarray(e / self._theta[actions % self._m] / self._m)
        q = self._sets.mixture.inclusion(X, listed)[:, 0]
        return np.asarray(q * self._per_place[actions % self._m] / self._m)

    def propensities_of(self, X: Contexts, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """Q of some items."""
        return self._sets.propensities_of(X, items)

    def all_propensities(self, X: Contexts) -> SparsePropensities:
        """Q of all items."""
        return self._sets.all_propensities(X)

    def state(self) -> State:
        """All but policies and problem, for a file or another process; see `comband.page.storage`."""
        return {"kind": self.KIND, "mixture": self._sets.state()}

    SCHEMA: ClassVar = {"kind": Text((KIND,)), "mixture": Part()}

    @classmethod
    def from_state(cls, state: State, policies: PolicySet, problem: Problem) -> ExaminedMixture:
        """The inverse of `state`, checked."""
        check(state, cls.SCHEMA)
        sets = MixtureExplorer.from_state(state["mixture"], policies, reading_of(problem).sets)
        return cls(sets, problem=problem)


def mixture_explorer(
    policies: PolicySet,
    candidates: NDArray[np.int64],
    *,
    weights: ArrayLike,
    floor: float,
    problem: Problem,
    as_they_are: bool = False,
) -> Explorer:
    """A `MixtureExplorer`, for whichever reading of places the problem has."""
    reading = reading_of(problem)
    own = as_they_are and not reading.natural  # where they are shown so in any case
    explorer = MixtureExplorer(
        policies, candidates, weights=weights, floor=floor, problem=reading.sets, as_they_are=own
    )
    return explorer if reading.factors is None else ExaminedMixture(explorer, problem=problem)


def least_floor(problem: Problem) -> float:
    """A mixture has a floor; this one is too small to matter, and large enough for any number of items."""
    return max(1e-9, 2 * SMALLEST_PROPENSITY / problem.uniform_propensity)


@dataclass(frozen=True, slots=True)
class UniformListsExploration:
    """Uniform lists: importance weights are K/m, whatever the candidates are and however few of them are left.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.UniformListsExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        policies, candidates = standing.policies, standing.candidates
        weights = np.zeros(len(policies))
        weights[candidates] = 1 / len(candidates)
        return mixture_explorer(policies, candidates, weights=weights, floor=1.0, problem=standing.problem)


@dataclass(frozen=True, slots=True)
class UniformMixtureExploration:
    """The list of a candidate drawn uniformly from all P of the field, dropped or not: importance weights are at most
    P.

    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> exploration = cb.explore.explorers.UniformMixtureExploration()
    >>> learner = cb.certify.CertifyingLearner(problem, policies, exploration=exploration, epsilon=0.2, seed=3)
    >>> cb.run(learner, shop, batch_size=500, max_rounds=50_000).result.epsilon <= 0.2
    True
    """

    def plan(self, standing: Standing) -> Explorer:
        """The explorer of the next epoch."""
        policies, problem = standing.policies, standing.problem
        weights = np.zeros(len(policies))
        weights[standing.field] = 1 / len(standing.field)
        floor = least_floor(problem)
        return mixture_explorer(policies, standing.candidates, weights=weights, floor=floor, problem=problem)
