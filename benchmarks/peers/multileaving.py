"""Multileaving: one list made of many candidates' lists, and clicks credited to those who would have shown the item.

Written from the papers, for batches of contexts: team draft (Schuth et al., CIKM 2014), probabilistic (Schuth et al.,
SIGIR 2015) and optimised multileaving (Schuth et al., CIKM 2014). All of them compare; none of them stops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Lists = NDArray[np.int32]
Array = NDArray[np.float64]


class TeamDraft:
    """Candidates in random order each add the first item of theirs that is not there yet, and own it.

    A click is worth 1 to the owner. With more candidates than places most own nothing in a round; the score is credit
    per owned place.
    """

    def __init__(self, n_policies: int, rng: np.random.Generator) -> None:
        self.rng, self.credits, self.places = rng, np.zeros(n_policies), np.zeros(n_policies)
        self._owners = np.empty((0, 0), dtype=np.int64)

    def compose(self, lists: Lists) -> Lists:
        """Lists (n, m) to show, of the candidates' lists (n, P, m)."""
        n, P, m = lists.shape
        order = np.argsort(self.rng.random((n, P)), axis=1)[:, :m]
        if m > P:  # every candidate comes again when all have had their turn
            order = np.concatenate([np.argsort(self.rng.random((n, P)), axis=1) for _ in range(-(-m // P))], axis=1)
            order = order[:, :m]
        shown = np.full((n, m), -1, dtype=np.int32)
        for place in range(m):
            own = lists[np.arange(n), order[:, place]]
            fresh = ~(own[:, :, None] == shown[:, None, :place]).any(axis=2)
            shown[:, place] = own[np.arange(n), fresh.argmax(axis=1)]
        self._owners = order
        return shown

    def credit(self, lists: Lists, shown: Lists, clicks: Array) -> None:
        """To the owners, for the lists composed last."""
        np.add.at(self.credits, self._owners.ravel(), clicks.ravel())
        np.add.at(self.places, self._owners.ravel(), 1)

    def scores(self) -> Array:
        """Credit per place."""
        return np.asarray(self.credits / np.maximum(self.places, 1))


class Probabilistic:
    """Each place is filled by a random candidate, which draws from a softmax over ranks (weight rank^−τ, τ = 3).

    A click is credited to every candidate by the probability that it filled the place, given the list: with candidates
    drawn independently this marginal is P(item | candidate, items before) over its sum, and needs no sampling.
    """

    tau = 3.0

    def __init__(self, n_policies: int, rng: np.random.Generator) -> None:
        self.rng, self.credits, self.rounds = rng, np.zeros(n_policies), 0

    def compose(self, lists: Lists) -> Lists:
        """Lists (n, m) to show, of the candidates' lists (n, P, m)."""
        n, P, m = lists.shape
        weight = np.arange(1, m + 1) ** -self.tau
        shown = np.full((n, m), -1, dtype=np.int32)
        for place in range(m):
            open_rows = np.arange(n)
            while len(open_rows):  # a candidate all of whose items are there is drawn anew
                own = lists[open_rows, self.rng.integers(P, size=len(open_rows))]
                fresh = ~(own[:, :, None] == shown[open_rows][:, None, :place]).any(axis=2)
                chances = np.cumsum(weight * fresh, axis=1)
                pick = (self.rng.random((len(own), 1)) * chances[:, -1:] >= chances).sum(axis=1)
                some = chances[:, -1] > 0
                shown[open_rows[some], place] = own[np.flatnonzero(some), pick[some]]
                open_rows = open_rows[~some]
        return shown

    def credit(self, lists: Lists, shown: Lists, clicks: Array) -> None:
        """By the marginals."""
        self.rounds += len(shown)
        for row, place in zip(*np.nonzero(clicks), strict=True):
            self.credits += clicks[row, place] * self.marginals(lists[row], shown[row], place)

    def marginals(self, lists: Lists, shown: Lists, place: int) -> Array:
        """For each of the lists (P, m): the probability that it filled this place of the shown list."""
        weight = np.arange(1, lists.shape[1] + 1) ** -self.tau
        there = (lists[:, :, None] == shown[None, None, :place]).any(axis=2)
        left = ((~there) * weight).sum(axis=1)
        own = ((lists == shown[place]) * weight).sum(axis=1)
        chance = np.divide(own, left, out=np.zeros(len(lists)), where=left > 0)
        return np.asarray(chance / chance.sum())

    def scores(self) -> Array:
        """Credit per round."""
        return np.asarray(self.credits / max(self.rounds, 1))


class Optimised:
    """Lists by prefix-constraint sampling, with probabilities of least bias and then least variance; credit 1/rank.

    Each place takes the first missing item of a random candidate. A click is worth 1/rank of the item to every
    candidate (1/(m + 1) if it has none). Of ten lists sampled per context the linear programme finds probabilities for
    which random clicks favour nobody; with tens of candidates there are none, and what is minimised is the expected
    variance plus the largest bias of each length, as in the public package's roughly optimised variant. A context's
    lists and probabilities are kept.
    """

    n_sampled = 10

    def __init__(self, n_policies: int, rng: np.random.Generator) -> None:
        self.rng, self.credits, self.rounds = rng, np.zeros(n_policies), 0
        self._known: dict[bytes, tuple[Lists, Array]] = {}

    def compose(self, lists: Lists) -> Lists:
        """Lists (n, m) to show, of the candidates' lists (n, P, m)."""
        shown = np.empty((len(lists), lists.shape[2]), dtype=np.int32)
        for row, own in enumerate(lists):
            key = own.tobytes()
            if key not in self._known:
                sampled = self.sample(own)
                self._known[key] = sampled, optimised(own, sampled)
            sampled, chances = self._known[key]
            shown[row] = sampled[self.rng.choice(len(sampled), p=chances)]
        return shown

    def sample(self, lists: Lists) -> Lists:
        """Distinct lists under the prefix constraint."""
        P, m = lists.shape
        found = np.full((self.n_sampled, m), -1, dtype=np.int32)
        for place in range(m):
            own = lists[self.rng.integers(P, size=self.n_sampled)]
            fresh = ~(own[:, :, None] == found[:, None, :place]).any(axis=2)
            found[:, place] = own[np.arange(self.n_sampled), fresh.argmax(axis=1)]
        return np.unique(found, axis=0)

    def credit(self, lists: Lists, shown: Lists, clicks: Array) -> None:
        """1/rank to everybody."""
        self.rounds += len(shown)
        for row, place in zip(*np.nonzero(clicks), strict=True):
            self.credits += clicks[row, place] * rank_credits(lists[row], shown[row])[:, place]

    def scores(self) -> Array:
        """Credit per round."""
        return np.asarray(self.credits / max(self.rounds, 1))


def rank_credits(lists: Lists, shown: Lists) -> Array:
    """1/rank in each list (P, m) of each shown item: (P, m); 1/(m + 1) where it is missing."""
    found = lists[:, :, None] == shown[None, None, :]
    ranks = np.where(found.any(axis=1), found.argmax(axis=1) + 1, lists.shape[1] + 1)
    return np.asarray(1.0 / ranks)


def optimised(lists: Lists, sampled: Lists) -> Array:
    """Probabilities of the sampled lists: least expected variance plus, for each length, the spread of credits."""
    credits = np.array([rank_credits(lists, one) for one in sampled])  # (samples, P, m)
    n, _, m = credits.shape
    expected = credits @ (1.0 / np.arange(1, m + 1))  # of clicks with chance 1/place
    variance = ((expected - expected.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    sums = np.cumsum(credits, axis=2)
    # Variables: n probabilities, then for each length the highest and the lowest expected credit. Of the 2mP bounds on
    # these the solver is given only those that some solution has broken: few matter. One that is given already and
    # still broken is so within the solver's own tolerance.
    cost, whole = np.concatenate([variance, np.ones(m), -np.ones(m)]), np.concatenate([np.ones(n), np.zeros(2 * m)])
    solution = np.concatenate([np.full(n, 1 / n), np.full(m, -np.inf), np.full(m, np.inf)])
    bounds: dict[tuple[int, int, int], Array] = {}
    while new := {name: row for name, row in broken_bounds(sums, solution).items() if name not in bounds}:
        bounds |= new
        rows = np.array(list(bounds.values()))
        solved: Any = linprog(cost, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=whole[None], b_eq=[1.0])
        if solved.x is None:
            raise RuntimeError(f"the programme of optimised multileaving was not solved: {solved.message}")
        solution = solved.x
    chances = np.maximum(solution[:n], 0)
    return np.asarray(chances / chances.sum())


def broken_bounds(sums: Array, solution: Array) -> dict[tuple[int, int, int], Array]:
    """Rows of the programme that the solution breaks, by side, length and candidate: for each length, of the candidates
    with most and least credit.
    """
    n, _, m = sums.shape
    expected, found = np.tensordot(solution[:n], sums, axes=1), {}
    for sign, limits in ((1, solution[n : n + m]), (-1, solution[n + m :])):
        extreme = (sign * expected).argmax(axis=0)
        for k in np.flatnonzero(sign * expected[extreme, np.arange(m)] > sign * limits + 1e-9):
            row = np.zeros(n + 2 * m)
            row[:n], row[n + k + (0 if sign > 0 else m)] = sign * sums[:, extreme[k], k], -sign
            found[sign, int(k), int(extreme[k])] = row
    return found


KINDS: dict[str, Any] = {
    "team-draft multileaving": TeamDraft,
    "probabilistic multileaving": Probabilistic,
    "optimised multileaving": Optimised,
}
