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

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import InputError, Problem, check_count, check_places
from comband.page.rounds import Decisions, Events, Rounds, check_rounds

Places = Any  # what check_places gives
_NEWTON_STEPS = 100
_LEAST_CURVATURE = 1e-9  # per reward: with less, rewards do not tell places apart


def factors_of(problem: Problem) -> NDArray[np.float64]:
    """θ/θ_0 (m,) of a problem with factors."""
    if problem.places == "fit":
        check_places("fit", problem.list_size)  # refused
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
    if shown.placements.shape[-1] != len(theta):
        raise InputError(
            f"places must state {shown.placements.shape[-1]} factors, one for each place as the lists do, got "
            f"{len(theta)}."
        )
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


class Factors(tuple[float, ...]):
    """Fitted factors θ/θ_0 (m,), with `standard_errors` (m,), that of the first being 0.

    >>> Factors((1.0, 0.5), (0.0, 0.1)).standard_errors
    (0.0, 0.1)
    """

    standard_errors: tuple[float, ...]

    def __new__(cls, factors: Iterable[float], standard_errors: Iterable[float] = ()) -> Factors:
        """Both are kept as they are."""
        new = super().__new__(cls, factors)
        new.standard_errors = tuple(standard_errors)
        return new


def fit_examination(rounds: Rounds, *, least: int = 10) -> Factors:
    """Factors θ/θ_0 of places, with standard errors, from rounds in an order whose probabilities are known.

    Given its context and that it was rewarded, an item was in place k with probability Q(k)·θ_k/Σ_j Q(j)·θ_j, where
    Q(k) is the chance of that place for it. The factors maximise Σ r·log of that over all rewards r, which is concave
    in log θ. Where the order is random given the set (placements left out), θ_k/θ_0 is the reward in place k over that
    in the first. Only items that may stand in several places say anything.

    Standard errors are those of the score, by rounds (a *sandwich*): rewards of one round may depend on each other.
    No promise that is made with the factors covers their errors: fit them on rounds of their own, many of them, and let
    the place guard watch.

    Parameters
    ----------
    rounds:
        In random order, or with the placements of their decisions.
    least:
        How many rewards every place must have.

    >>> from comband import Problem
    >>> log = Rounds.from_log(np.zeros(90, dtype=int), lists=[[0, 1], [1, 0]] * 45, propensities=np.ones((90, 2)),
    ...     rewards=[[1, 0]] * 60 + [[0, 1]] * 30, problem=Problem(2, 2))
    >>> fitted = fit_examination(log)
    >>> fitted, [round(error, 3) for error in fitted.standard_errors]
    ((1.0, 0.5), [0.0, 0.112])
    """
    least = check_count("least", least)
    rewards = check_rounds(rounds).rewards
    counts = (rewards > 0).sum(axis=0)
    if counts.size == 0 or counts.min() < least:
        raise InputError(
            f"every place must have at least {least} rewards to fit its factor, got {counts.tolist()}: log more "
            "rounds, or make lists shorter."
        )
    return fit_factors(rewards, rounds.decisions.placements)


def fit_factors(rewards: NDArray[np.float64], placements: NDArray[np.float64] | None) -> Factors:
    """As `fit_examination`, of rewards (n, m) by place, each place with some, and placements (n, m, m).

    >>> [round(factor, 6) for factor in fit_factors(np.eye(2)[[0, 0, 1]], np.full((3, 2, 2), 0.5))]
    [1.0, 0.5]
    """
    i, j = np.nonzero(rewards)
    return fit_rewards(i, j, rewards[i, j], None if placements is None else placements[i, j], m=rewards.shape[1])


def fit_rewards(
    i: NDArray[np.int64],
    j: NDArray[np.int64],
    r: NDArray[np.float64],
    rows: NDArray[np.float64] | None,
    *,
    m: int | None = None,
) -> Factors:
    """The same of single rewards r (E,), each of round i in place j, with the probabilities of places (E, m) of its
    item; left out: all alike, of m places.
    """
    Q = np.full((len(r), m or 0), 1 / (m or 1)) if rows is None else rows
    m = Q.shape[1]
    sums: NDArray[np.float64] = np.bincount(j, r, m).astype(np.float64)
    theta = np.asarray(sums / sums[0]) if rows is None else _most_likely(r, j, Q, sums)
    p = _of_places(Q, theta)
    per_round = np.zeros((int(i.max(initial=-1)) + 1, m))
    np.add.at(per_round, i, r[:, None] * (np.eye(m)[j] - p))
    inverse = np.zeros((m, m))
    inverse[1:, 1:] = np.linalg.pinv(_curvature(r, p)[1:, 1:])
    errors = theta * np.sqrt(np.maximum(np.diag(inverse @ (per_round.T @ per_round) @ inverse), 0.0))
    return Factors(theta.tolist(), errors.tolist())


def _of_places(Q: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a reward comes from, (E, m), given its item."""
    p = Q * theta
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _curvature(r: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minus the second derivative by log θ of Σ r·log p, (m, m)."""
    return np.asarray(np.diag(r @ p) - (r[:, None] * p).T @ p)


def _most_likely(
    r: NDArray[np.float64], places: NDArray[np.int64], Q: NDArray[np.float64], sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The factors that maximise Σ r·log p(place), by Newton's steps in log θ, halved where they would lose."""

    def likelihood(theta: NDArray[np.float64]) -> float:
        return float(r @ (np.log(theta)[places] - np.log(Q @ theta)))

    m, theta = Q.shape[1], np.ones(Q.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = _of_places(Q, theta)
        H, score = _curvature(r, p)[1:, 1:], (sums - r @ p)[1:]
        if np.linalg.eigvalsh(H)[0] <= _LEAST_CURVATURE * r.sum():
            break
        step = np.concatenate([[0.0], np.linalg.solve(H, score)])
        if np.abs(step).max() < 1e-6:  # the next one would be of the order of its square
            return np.asarray(theta * np.exp(step))
        now, size = likelihood(theta), min(1.0, 2.0 / np.abs(step).max())
        while likelihood(theta * np.exp(size * step)) < now and size > 1e-9:
            size /= 2
        theta = theta * np.exp(size * step)
    raise InputError(
        f"the rewards do not tell the factors of {m} places apart: too few are of items that may stand in several "
        "places. Show a share of lists in random order, or log more rounds."
    )
