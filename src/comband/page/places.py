"""Places that matter: what a round says under each reading of `Problem.places`.

All readings come down to the paper's setting with pairs (item y, place k) as actions, where a candidate's list is the
set of its pairs:

- *pairs*: a reward of y in place k speaks of the pair (y, k), with the probability of that item in that place.
- *examination*: the reward of y in place k has the mean rel(x, y)·θ_k, so V(π) = Σ_y rel(x, y)·θ_{k_π(y)}. With e(x, y)
  = Σ_k Q(x, y, k)·θ_k a reward r of y, wherever it was shown, estimates rel(x, y) by r/e(x, y), hence speaks of *all*
  pairs (y, k) of the item, with weights r·θ_k/e(x, y), as if (y, k) had been shown with "propensity" e(x, y)/θ_k. Of
  these pairs a candidate has one at most. Q(x, y, k) are the decisions' `placements`; where these are left out lists
  were in random order, and e(x, y) = q(x, y)·Θ/m, where q is the probability that y is anywhere in the list and
  Θ = Σ_k θ_k.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import InputError, Problem, check_count, check_places
from comband.page.rounds import Decisions, Events, Rounds, check_rounds

Places = Any  # what check_places gives


def factors_of(problem: Problem) -> NDArray[np.float64]:
    """θ/θ_0 (m,) of a problem with factors."""
    if problem.places is None or problem.places == "pairs":
        raise InputError(f"the problem must state factors of places, got places={problem.places!r}.")
    return np.array(problem.places, dtype=np.float64)


def pair_problem(problem: Problem) -> Problem:
    """The setting with pairs of item and place for actions."""
    return Problem(problem.n_actions * problem.list_size, problem.list_size, problem.sparsity)


def unplaced(decisions: Decisions) -> Decisions:
    """Decisions about pairs as decisions about items, each in its place."""
    columns = {name: getattr(decisions, name) for name in Decisions.SCHEMA}
    return Decisions._of_checked(**{**columns, "lists": item_lists(decisions.lists)})


def without_placements(rounds: Rounds) -> Rounds:
    """The same rounds, of which places say nothing more."""
    decisions = rounds.decisions
    if decisions.placements is None:
        return rounds
    columns = {name: getattr(decisions, name) for name in Decisions.SCHEMA if name != "placements"}
    return Rounds._of_checked(Decisions._of_checked(**columns), rounds.rewards)


def pair_lists(lists: NDArray[np.int32]) -> NDArray[np.int32]:
    """Lists (…, m) of items as numbers of pairs."""
    m = lists.shape[-1]
    if lists.size and int(lists.max()) >= 2**31 // m:
        raise InputError(f"with places items must be numbers below {2**31 // m}, got {int(lists.max())}.")
    return np.asarray(lists * np.int32(m) + np.arange(m, dtype=np.int32))


def item_lists(lists: NDArray[np.int32]) -> NDArray[np.int32]:
    """The inverse of `pair_lists`."""
    return np.asarray(lists // np.int32(lists.shape[-1]), dtype=np.int32)


def examinations(shown: Decisions | Events, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """e(x, y) = Σ_k Q(x, y, k)·θ_k of each shown item; in random order that is q(x, y)·Θ/m."""
    if shown.placements is None:
        return np.asarray(shown.propensities * theta.mean())
    return np.asarray(shown.placements @ theta)


def _of_pairs(shown: Decisions | Events, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """e(x, y)/θ_k (…, m) of the pairs of each shown item."""
    if shown.placements is None:
        return np.asarray(shown.propensities[..., None] * (theta.mean() / theta))
    return np.asarray(examinations(shown, theta)[..., None] / theta)


def placed_rounds(rounds: Rounds, places: Places, *, share: bool = False) -> Rounds:
    """The rounds as they speak of pairs: (n, m) of them for "pairs", (n, m²) for factors.

    Propensities of the latter are e(x, y)/θ_k and may exceed 1. Rewards stand there m times; if the pairs of an item
    `share` its reward, rewards and "propensities" are divided by m, which leaves weights alone and sums as they were.
    """
    m = check_rounds(rounds).decisions.lists.shape[1]
    reading = check_places(places, m)
    if reading is None:
        return rounds
    decisions, rewards = rounds.decisions, rounds.rewards
    if reading == "pairs":
        lists, propensities = pair_lists(decisions.lists), decisions.propensities
        if decisions.placements is not None:
            propensities = np.diagonal(decisions.placements, axis1=1, axis2=2).copy()
    else:
        theta = np.array(reading)
        k = np.arange(m, dtype=np.int32)
        lists = np.repeat(pair_lists(decisions.lists) - k, m, axis=1) + np.tile(k, m)
        propensities = _of_pairs(decisions, theta).reshape(lists.shape)
        rewards = np.repeat(rewards, m, axis=1)
        if share:
            rewards, propensities = rewards / m, propensities / m
    columns = {name: getattr(decisions, name) for name in Decisions.SCHEMA}
    columns.update(lists=lists, propensities=propensities, placements=None)
    return Rounds._of_checked(Decisions._of_checked(**columns), rewards)


def examined_events(events: Events, places: Places) -> Events:
    """Events of items as they speak of pairs under factors: m for each, as in `placed_rounds`.

    Where an item was shown does not matter to them: weights are those of the item.
    """
    theta = np.array(places, dtype=np.float64)
    m = len(theta)
    k = np.arange(m, dtype=np.int32)
    n = len(events)
    return replace(
        events,
        rows=np.repeat(events.rows, m),
        actions=np.asarray(np.repeat(events.actions * np.int32(m), m) + np.tile(k, n), dtype=np.int32),
        rewards=np.repeat(events.rewards, m),
        propensities=_of_pairs(events, theta).reshape(-1),
        placements=None,
    )


def item_events(events: Events, places: Places) -> Events:
    """The events of items whose pairs under factors, each with its share of the reward, these are."""
    theta = np.array(places, dtype=np.float64)
    m = len(theta)
    items = events.actions // np.int32(m)
    first = np.ones(len(events), dtype=np.bool_)  # of the pairs of an item, which stand together
    first[1:] = (events.rows[1:] != events.rows[:-1]) | (items[1:] != items[:-1])
    chosen = np.flatnonzero(first)
    k = events.actions[chosen] % m
    return replace(
        events,
        rows=events.rows[chosen],
        actions=np.asarray(items[chosen], dtype=np.int32),
        rewards=np.minimum(events.rewards[chosen] * m, 1.0),
        propensities=np.minimum(events.propensities[chosen] * m * theta[k] / theta.mean(), 1.0),
    )


def least_of_pairs(least: float, places: Places) -> float:
    """The smallest "propensity" of a pair where no item's propensity is below `least`."""
    if places is None or places == "pairs":
        return least
    theta = np.array(places)
    return float(least * theta.mean() / theta.max())


def fit_examination(rounds: Rounds, *, least: int = 10) -> tuple[float, ...]:
    """Factors θ/θ_0 of places from rounds whose lists were shown in an order that was random given the set.

    Then every item is in every place equally often, and θ_k/θ_0 is the reward in place k over that in the first. The
    factors have errors of their own, about θ_k·√(1/n_k + 1/n_0) with n_k rewards in place k, which no promise that is
    made with them covers: fit them on rounds of their own, many of them, and let the place guard watch.

    Parameters
    ----------
    rounds:
        Rounds in random order: those of a learner or mixture under `places=None`, say.
    least:
        How many rewards every place must have.

    >>> from comband import Problem
    >>> log = Rounds.from_log(np.zeros(90, dtype=int), lists=[[0, 1], [1, 0]] * 45, propensities=np.ones((90, 2)),
    ...     rewards=[[1, 0]] * 60 + [[0, 1]] * 30, problem=Problem(2, 2))
    >>> fit_examination(log)
    (1.0, 0.5)
    """
    least = check_count("least", least)
    rewards = check_rounds(rounds).rewards
    counts = (rewards > 0).sum(axis=0)
    if counts.size == 0 or counts.min() < least:
        raise InputError(
            f"every place must have at least {least} rewards to fit its factor, got {counts.tolist()}: log more "
            "rounds, or make lists shorter."
        )
    sums = rewards.sum(axis=0)
    return tuple(float(share) for share in sums / sums[0])
