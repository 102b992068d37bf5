"""A world of eight items and six visitors in which every candidate's value is known, for every reading of clicks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from comband.policies import RequestedLists, StochasticPolicies, cover_blends

K, M, N = 8, 2, 6
FIRST, LATER = 4, 3  # candidates at the start, and those that may come
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

READINGS: dict[str, dict[str, Any]] = {
    "items": {},
    "factors": {"places": (1.0, 0.5), "order": "random"},
    "pairs": {"places": "pairs"},
    "total": {"feedback": "total"},
    "natural": {"order": "natural"},
    "natural factors": {"places": (1.0, 0.5)},
    "fit": {"places": "fit"},
}
SLOW_ITEMS = np.arange(K) < K // 2  # whose clicks may come late, or never


class ByRow:
    """A candidate of one's own, which reads its list off the one feature that is set."""

    def __init__(self, lists: NDArray[np.int64]) -> None:
        self.lists = lists

    def predict(self, X: Any) -> NDArray[np.int64]:
        rows = X.toarray() if sp.issparse(X) else np.asarray(X)
        return np.asarray(self.lists[rows.argmax(axis=1)])


KEYS = cb.Catalogue([f"item {y}" for y in range(K)])


class InKeys:
    """A candidate of one's own, which answers in the keys of a catalogue."""

    def __init__(self, lists: NDArray[np.int64]) -> None:
        self.lists = lists

    def predict(self, X: Any) -> list[list[str | None]]:
        return [[None if y < 0 else f"item {y}" for y in row] for row in self.lists[np.asarray(X)].tolist()]


class World:
    """Visitors 0 … N−1, each of whom wants one item in a round, or none.

    Parameters
    ----------
    reading:
        How a click depends on places, and what is told of it: a key of `READINGS`.
    lists, contexts:
        "full", "nothing" (places may be empty) or "another" (a candidate fills them); "numbers", "keys" (the same, and
        candidates answer in keys), "dense", "sparse", "requested" (lists come with the visitor), "cover" (dense ones,
        and candidates that stand for all blends) or "probabilities" (numbers, and candidates draw their lists).
    sparsity:
        The bound on a round's rewards that the problem states.
    """

    def __init__(
        self,
        seed: int,
        reading: str,
        lists: str = "full",
        contexts: str = "numbers",
        sparsity: float | None = 1.0,
    ) -> None:
        rng = np.random.default_rng([seed, 71])
        self.seed, self.lists, self.contexts = seed, lists, contexts
        self.problem = cb.Problem(K, M, sparsity=sparsity, **READINGS[reading])
        self.chances: Floats = rng.dirichlet(np.full(K, 0.6), size=N) * 0.8  # (N, K) of being wanted
        # (K, M): how likely an item that is wanted is clicked in a place.
        factors = np.tile([1.0, 0.5], (K, 1))
        by_reading = {"factors": factors, "pairs": rng.random((K, M)), "fit": factors}
        self.seen: Floats = by_reading.get(reading.removeprefix("natural "), np.ones((K, M)))
        noise = np.geomspace(0.05, 2, FIRST + LATER)[rng.permutation(FIRST + LATER)]
        scores = self.chances + noise[:, None, None] * rng.random((FIRST + LATER, N, K))
        self._raw: Ints = np.argsort(-scores, axis=2)[:, :, :M]
        if lists != "full":
            self._raw[1:][rng.random((FIRST + LATER - 1, N, M)) < 0.15] = -1
        # (candidates ever, N, K): how likely each shows an item, where candidates draw their lists.
        self.shares: Floats = np.zeros((FIRST + LATER, N, K))
        for given in (self._raw, np.roll(self._raw, 1, axis=0)):
            np.put_along_axis(self.shares, given, np.take_along_axis(self.shares, given, 2) + 0.5, 2)
        self.policies = self._first(scores)
        filled = cb.PolicySet.from_lists(self._raw, self.problem, fallback=self._fallback).predict(np.arange(N))
        if contexts == "cover":
            filled = np.hstack([self.policies.predict(self.visitors(np.arange(N))), filled[:, FIRST:]])
        # (candidates ever, N, M): what is shown; or (candidates ever, N, K) with what probabilities.
        self.table: Any = np.moveaxis(filled, 1, 0).astype(np.int64) if contexts != "probabilities" else self.shares

    @property
    def _fallback(self) -> str | None:
        return {"full": None, "nothing": "nothing", "another": "policy 0"}[self.lists]

    def _first(self, scores: Floats) -> cb.PolicySet:
        names = [f"policy {i}" for i in range(FIRST)]
        if self.contexts == "requested":
            return RequestedLists(names, self.problem, fallback=self._fallback)
        if self.contexts == "cover":
            contexts = np.eye(N)[np.arange(600) % N]
            problem = cb.Problem(K, M, sparsity=self.problem.sparsity)
            return cover_blends(scores[0], -scores[1], contexts, problem=problem, disagreement=0.17, seed=self.seed)
        if self.contexts == "probabilities":
            return StochasticPolicies(list(self.shares[:FIRST]), cb.Problem(K, M), names=names)
        made: list[Any] = [self._policy(i) for i in range(FIRST)]
        return cb.PolicySet(made, names, fallback=self._fallback, catalogue=KEYS if self.contexts == "keys" else None)

    def _policy(self, i: int) -> Any:
        if self.contexts == "numbers":
            return cb.TabulatedPolicy(self._raw[i], self.problem)
        if self.contexts == "sparse" and self.lists == "full":
            weights = np.zeros((N, K))
            np.put_along_axis(weights, self._raw[i], np.arange(M, 0, -1.0)[None], axis=1)
            return cb.ScoredPolicy(weights, self.problem)
        return InKeys(self._raw[i]) if self.contexts == "keys" else ByRow(self._raw[i])

    def newcomer(self, j: int) -> Any:
        """The policy that comes as the j-th of those that come later; None where lists come with the visitor."""
        if self.contexts == "probabilities":
            return self.shares[FIRST + j]
        return None if self.contexts == "requested" else self._policy(FIRST + j)

    def visitors(self, numbers: Ints) -> Any:
        """Contexts of these visitors."""
        if self.contexts in ("numbers", "keys", "probabilities"):
            return numbers
        if self.contexts == "requested":
            return np.moveaxis(self._raw, 0, 1)[numbers]
        rows = np.eye(N)[numbers]
        return sp.csr_array(rows) if self.contexts == "sparse" else rows

    def clicks(self, numbers: Ints, shown: NDArray[Any], rng: np.random.Generator) -> Floats:
        """(n, M): at most one click in a round."""
        wanted = (rng.random(len(numbers))[:, None] >= np.cumsum(self.chances, axis=1)[numbers]).sum(axis=1)
        seen = rng.random(len(numbers))[:, None] < np.vstack([self.seen, np.zeros(M)])[wanted]
        return np.asarray((shown == wanted[:, None]) & seen, dtype=np.float64)

    def values(self, kept: Floats) -> Floats:
        """Of all candidates ever: clicks per round, of which those of an item count with probability `kept` (K,)."""
        if self.contexts == "probabilities":
            return np.asarray((self.shares * self.chances * kept).sum(axis=2).mean(axis=1))
        total: Floats = np.zeros(len(self.table))
        for k in range(M):
            item = self.table[:, :, k]
            worth = self.chances[np.arange(N)[None], item] * (self.seen[:, k] * kept)[item]
            total = total + np.where(item >= 0, worth, 0.0).mean(axis=1)
        return total


@lru_cache(maxsize=256)
def world_of(seed: int, reading: str, lists: str, contexts: str, sparsity: float | None) -> World:
    """A world, made once."""
    return World(seed, reading, lists, contexts, sparsity)
