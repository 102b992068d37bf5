"""How a page is read: one object, chosen once from the problem, that says what a list is and what a reward says.

| reading | a list is | a reward speaks of |
|---|---|---|
| `Items` | a set of items | its item |
| `Examined` | a set of items, in an order with known probabilities of places | all pairs of its item with a place |
| `Fitted` | the same | the same, by factors that are fitted epoch by epoch |
| `Pairs` | items, each in its place | its item in its place |
| `Totals` | a set of items of which one sum is told | the whole list |

No other module asks what places or feedback a problem has: it asks its reading. See `comband.page.places` for the
mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.page.places import (
    examinations,
    examined_events,
    factors_of,
    item_lists,
    pair_lists,
    pair_problem,
    placed_rounds,
    unplaced,
    without_placements,
)
from comband.page.problem import InputError, Problem
from comband.page.rounds import Decisions, Events, Rounds
from comband.page.totals import TotalRounds, list_weights
from comband.policies.placed import PlacedPolicies
from comband.policies.policy_set import PolicySet


class Reading:
    """Lists are sets of items, and a reward speaks of its item: places do not matter, or lists are shuffled.

    Parameters
    ----------
    problem:
        The setting, whose reading this is.

    >>> reading_of(Problem(n_actions=9, list_size=3, places=[1, 0.5, 0.2])).per_reward
    3
    >>> reading_of(Problem(n_actions=9, list_size=3, places="pairs")).lists
    Problem(n_actions=27, list_size=3)
    """

    KIND: ClassVar[str] = "items"
    PLACED: ClassVar[bool] = False
    """Whether a list is of items in their places."""
    TOTAL: ClassVar[bool] = False
    """Whether only the sum of a list's rewards is told."""
    OWN_LISTS: ClassVar[bool] = True
    """Whether a candidate's own list can be a part of how lists are drawn."""
    SETS: ClassVar[bool] = True
    """Whether values depend on the set of items alone."""
    GAPS: ClassVar[bool] = True
    """Whether candidates may leave places empty."""
    FITTED: ClassVar[bool] = False
    """Whether each epoch has factors of its own, fitted to the rounds before it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def natural(self) -> bool:
        """Whether lists are shown in an order of their own, with stated probabilities of places."""
        return self.problem.order == "natural"

    @property
    def options(self) -> frozenset[str]:
        """What a claim must know of."""
        return frozenset({self.KIND, *(("natural order",) if self.natural else ())} - {"items"})

    @property
    def lists(self) -> Problem:
        """The setting in which lists are drawn."""
        return self.problem

    @property
    def events(self) -> Problem:
        """The setting in which rewards count."""
        return self.problem

    @property
    def sets(self) -> Problem:
        """The setting of lists as sets, in the order in which they are shown."""
        return self.problem

    @property
    def design(self) -> Problem:
        """The setting in which lists are designed, whatever their order."""
        return replace(self.problem, order=None) if self.problem.order else self.problem

    @property
    def theory(self) -> Problem:
        """The same with the sparsity that theorems ask for."""
        return self.design

    @property
    def per_reward(self) -> int:
        """Of how many actions one reward speaks."""
        return 1

    @property
    def factors(self) -> tuple[float, ...] | None:
        """θ/θ_0 by which places are examined; None where nothing is said of them."""
        return None

    @property
    def stretch(self) -> float:
        """By how much a reward may count more for a candidate than it did where it was seen."""
        return 1.0

    @property
    def spread(self) -> float:
        """By how much, at most, the standard deviation of what a round says of a candidate's value exceeds that of the
        setting in which lists are designed.
        """
        return self.stretch

    def drawn(self, policies: PolicySet) -> PolicySet:
        """The candidates as what lists are drawn of."""
        return policies

    def plain(self, policies: PolicySet) -> PolicySet:
        """The candidates themselves: the inverse of `drawn`."""
        return policies

    def counted(self, policies: PolicySet) -> PolicySet:
        """The candidates as what rewards speak of."""
        return policies

    def as_drawn(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """Lists of items as what is drawn."""
        return lists

    def items(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """The inverse of `as_drawn`."""
        return lists

    def shown(self, decisions: Decisions) -> Decisions:
        """What was drawn, as lists of items."""
        return decisions

    def told(self, rounds: Rounds, epochs: Sequence[Any] = ()) -> tuple[Rounds, Rounds]:
        """Rounds of items as they were drawn, and as their rewards count; `epochs` are those of a learner."""
        return rounds, without_placements(rounds)

    def stated(self, factors: Sequence[float] | None) -> Problem:
        """The setting in which lists of an epoch are drawn, where it has factors of its own."""
        return self.lists

    def seen(self, rounds: Rounds) -> Events:
        """What rounds say of the actions that lists are designed of."""
        return rounds.events() if rounds.rewards.any() else Events.none(len(rounds))

    def estimating(self, events: Events, policies: PolicySet) -> tuple[Events, PolicySet]:
        """Of what was `seen`: events and candidates such that r/Q of shared actions estimates values."""
        return events, policies

    def weights(self, events: Events) -> NDArray[np.float64]:
        """r/q of each event that was `seen`, (E,)."""
        return np.asarray(events.rewards / events.propensities)

    def mean_weights(self, events: Events) -> NDArray[np.float64]:
        """The same, of an average over rounds."""
        return np.asarray(events.rewards / (events.n_rounds * events.propensities))

    @property
    def group(self) -> int:
        """How many events are one term of a design's potential."""
        return 1

    def check_explorer(self, explorer: object) -> None:
        """Refuse an explorer that does not read rewards so."""
        self._check_order(explorer)

    def _check_order(self, explorer: object) -> None:
        """In natural order an explorer must state where items can stand."""
        if self.natural and not getattr(explorer, "natural_order", False):
            raise InputError(
                f"{type(explorer).__name__} does not state the probability of each item in each place, which "
                'order="natural" needs: explore adaptively or by a mixture, or state order="random".'
            )


class Examined(Reading):
    """Places are examined by factors θ: values are those of candidates' own orders, rel(x, y)·θ_k summed.

    A reward of y, wherever it was shown, speaks of all m pairs of y with a place; a candidate has one of them at most.
    """

    KIND = "factors"
    SETS = False
    GAPS = False

    @property
    def events(self) -> Problem:
        """Of pairs."""
        return pair_problem(self.problem)

    @property
    def sets(self) -> Problem:
        """Of sets, with what is stated of order."""
        return replace(self.problem, places=None)

    @property
    def design(self) -> Problem:
        """Of sets."""
        return replace(self.problem, places=None, order=None)

    @property
    def per_reward(self) -> int:
        """All places of its item."""
        return self.problem.list_size

    @property
    def factors(self) -> tuple[float, ...]:
        """θ/θ_0."""
        return tuple(factors_of(self.problem).tolist())

    @property
    def stretch(self) -> float:
        """θ_max·m/Θ.

        A reward of y in random order has the mean r̄(y) = rel(y)·Θ/m over orders, so that V(π) = Σ_y
        r̄(y)·(m/Θ)·θ_{k_π(y)}: the paper's setting with rewards r̄, where each of a candidate's actions counts by a
        number of at most this.
        """
        theta = factors_of(self.problem)
        return float(theta.max() / theta.mean())

    @property
    def spread(self) -> float:
        """In random order θ_max·m/Θ. In natural order θ_max/√(θ_min·Θ/m): what the lists of a mixture show with
        probability q is examined e ≥ q·θ_min, and uniform lists q·Θ/m, so that E (r·θ/e)² = rel·θ²/e is at most
        (r̄/q)·θ²/(θ_min·Θ/m), with r̄ = rel·Θ/m.
        """
        theta = factors_of(self.problem)
        least = float(theta.min() if self.natural else theta.mean())
        return float(theta.max() / np.sqrt(least * theta.mean()))

    def counted(self, policies: PolicySet) -> PolicySet:
        """Pairs of item and place."""
        return PlacedPolicies(policies, self.problem.list_size)

    def told(self, rounds: Rounds, epochs: Sequence[Any] = ()) -> tuple[Rounds, Rounds]:
        """Items, and the pairs of each with all places, which share its reward."""
        return rounds, placed_rounds(rounds, self.problem.places, share=True)

    def seen(self, rounds: Rounds) -> Events:
        """What rounds say of items, as if they had been in random order: y with the propensity e(x, y)·m/Θ."""
        events, theta = super().seen(rounds), factors_of(self.problem)
        if events.placements is None:
            return events
        return replace(events, propensities=examinations(events, theta) / theta.mean(), placements=None)

    def estimating(self, events: Events, policies: PolicySet) -> tuple[Events, PolicySet]:
        """Pairs, with weights by factors."""
        return examined_events(events, self.problem.places), self.counted(policies)

    def check_explorer(self, explorer: object) -> None:
        """It must say of pairs what rewards are divided by."""
        if not getattr(explorer, "FROM_FACTORS", False):
            raise InputError(
                f"{type(explorer).__name__} reads the rewards of items and cannot use factors of places: plan one that "
                "can (ExaminedMixture, say), or leave places out of the problem."
            )
        self._check_order(explorer)


class Fitted(Examined):
    """The same by factors that are not known: each epoch has its own, fitted to the rounds before it."""

    KIND = "fitted factors"
    FITTED = True

    @property
    def factors(self) -> None:  # type: ignore[override]  # there are none beforehand
        """They are those of epochs."""
        return None

    def stated(self, factors: Sequence[float] | None) -> Problem:
        """With the factors of an epoch; all alike while none are fitted."""
        return replace(self.problem, places=[1.0] * self.problem.list_size if factors is None else factors)

    def told(self, rounds: Rounds, epochs: Sequence[Any] = ()) -> tuple[Rounds, Rounds]:
        """Items, and pairs by the factors of the epoch of each decision."""
        numbers = np.unique(rounds.decisions.epochs)
        if len(numbers) == 0:
            return rounds, placed_rounds(rounds, self.stated(None).places, share=True)
        rows = [np.flatnonzero(rounds.decisions.epochs == k) for k in numbers]
        parts = [
            placed_rounds(rounds if len(numbers) == 1 else rounds[mine], epochs[k].explorer.theta, share=True)
            for k, mine in zip(numbers.tolist(), rows, strict=True)
        ]
        if len(parts) == 1:
            return rounds, parts[0]
        joined = parts[0]
        for part in parts[1:]:
            joined = joined + part
        return rounds, joined[np.argsort(np.concatenate(rows))]

    def check_explorer(self, explorer: object) -> None:
        """It must be of factors that are fitted."""
        if not getattr(explorer, "FITTED", False):
            raise InputError(
                f'{type(explorer).__name__} cannot be given factors that are fitted as rounds come (places="fit"): '
                "explore adaptively, asking all candidates (max_evaluated), or state factors."
            )


class Pairs(Reading):
    """The reward of an item depends on its place in any way: pairs of item and place are the paper's actions."""

    KIND = "pairs"
    PLACED = True
    SETS = False
    GAPS = False

    @property
    def lists(self) -> Problem:
        """Of pairs."""
        return pair_problem(self.problem)

    events = lists
    design = lists

    @property
    def theory(self) -> Problem:
        """Over all pairs a round may hold m times as much reward as over items, since an item may be worth as much in
        each of its m places.
        """
        setting, s = self.design, self.problem.sparsity
        return setting if s is None else replace(setting, sparsity=min(s * self.problem.list_size, setting.n_actions))

    def drawn(self, policies: PolicySet) -> PolicySet:
        """Pairs of item and place."""
        return PlacedPolicies(policies, self.problem.list_size)

    counted = drawn

    def plain(self, policies: PolicySet) -> PolicySet:
        """Their items."""
        return policies.items if isinstance(policies, PlacedPolicies) else policies

    def as_drawn(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """Numbers of pairs."""
        return pair_lists(lists)

    def items(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """The items of pairs."""
        return item_lists(lists)

    def shown(self, decisions: Decisions) -> Decisions:
        """Each item in its place."""
        return unplaced(decisions)

    def told(self, rounds: Rounds, epochs: Sequence[Any] = ()) -> tuple[Rounds, Rounds]:
        """Pairs, in both."""
        placed = placed_rounds(rounds, "pairs")
        return placed, placed

    def seen(self, rounds: Rounds) -> Events:
        """Pairs."""
        return placed_rounds(rounds, "pairs").events() if rounds.rewards.any() else Events.none(len(rounds))

    def estimating(self, events: Events, policies: PolicySet) -> tuple[Events, PolicySet]:
        """The events are of pairs already."""
        return events, self.counted(policies)


class Totals(Reading):
    """Only the sum of a list's rewards is told; see `comband.page.totals`."""

    KIND = "totals"
    TOTAL = True
    OWN_LISTS = False
    GAPS = False

    def seen(self, rounds: Rounds) -> Events:
        """What single actions are credited with."""
        return TotalRounds.of(rounds.decisions, rounds.rewards.sum(axis=1), self.problem).events()

    def weights(self, events: Events) -> NDArray[np.float64]:
        """T/q(a), in equal parts."""
        return list_weights(events, self.problem)

    def mean_weights(self, events: Events) -> NDArray[np.float64]:
        """The same, of an average over rounds."""
        return np.asarray(self.weights(events) / events.n_rounds)

    @property
    def group(self) -> int:
        """The items of a list stand together."""
        return self.problem.list_size

    def check_explorer(self, explorer: object) -> None:
        """It must draw lists whose totals can be weighed."""
        if not getattr(explorer, "FROM_TOTALS", False):
            raise InputError(
                f"{type(explorer).__name__} needs the rewards of single actions and cannot use totals; it needs a "
                'problem with feedback="items".'
            )


@lru_cache(maxsize=256)
def reading_of(problem: Problem) -> Reading:
    """The reading of a problem."""
    if problem.feedback == "total":
        return Totals(problem)
    if problem.places is None:
        return Reading(problem)
    if problem.places == "fit":
        return Fitted(problem)
    return Pairs(problem) if problem.places == "pairs" else Examined(problem)
