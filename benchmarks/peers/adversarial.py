"""Job 4: sequences fixed by an adversary: regret against the best candidate in hindsight, and time per round.

Adversaries and candidates are those of `benchmarks.regret`. EXP4-COMB-SPARSE and SemiExp4 (Kale, Reyzin and Schapire)
are comband's; EXP4 on whole lists is that of `experts`. Three more know items only and no candidates: CombEXP, which
learns from the number of clicks alone; OSMD, the same mirror descent with the estimates that clicks on single items
allow; and CombUCB1. They have bounds against the best fixed set, and none can follow contexts. UCB1 plays candidates
as arms.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.peers import experts
from benchmarks.peers.choosing import Composed
from benchmarks.peers.results import Ledger, Row, grouped, markdown, spread
from benchmarks.regret import OneTable, random_table

Array = NDArray[np.float64]
P, K, M = 8, 64, 4
POINTS = 50  # of a curve


def capped(weights: Array, m: int) -> Array:
    """The projection by relative entropy onto {0 ≤ q ≤ 1, Σ q = m}: all scaled alike, those above 1 set to 1."""
    order = np.sort(weights)[::-1]
    tail = np.cumsum(order[::-1])[::-1]
    for k in range(m):  # k of them are 1; with k = m − 1 the next is below 1 by itself
        scale = (m - k) / tail[k]
        if scale * order[k] <= 1:
            return np.asarray(np.minimum(weights * scale, 1.0))
    raise AssertionError("m items at 1 leave nothing to scale")


def systematic(q: Array, rng: np.random.Generator) -> NDArray[np.int32]:
    """A set with inclusion probabilities q that sum to a whole number: systematic sampling in random order."""
    order = rng.permutation(len(q))
    edges = np.cumsum(q[order])
    points = rng.random() + np.arange(round(float(edges[-1])))
    return np.asarray(order[np.minimum(np.searchsorted(edges, points, side="right"), len(q) - 1)], dtype=np.int32)


class Osmd:
    """Mirror descent with entropy over sets of m items: q ← capped(q·exp(−η ℓ/q)), η = √(2m ln(K/m)/(KT))."""

    def __init__(self, horizon: int, rng: np.random.Generator) -> None:
        self.q, self.rng = np.full(K, M / K), rng
        self.step = math.sqrt(2 * math.log(K / M) / (horizon * K / M))

    def compose(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """One set per round; contexts are not looked at."""
        return np.array([systematic(self.q, self.rng) for _ in lists])

    def credit(self, lists: NDArray[np.int32], shown: NDArray[np.int32], clicks: Array) -> None:
        """Losses 1 − r are weighted for shown items only, which keeps steps bounded above."""
        for items, rewards in zip(shown, clicks, strict=True):
            loss = np.zeros(K)
            loss[items] = (1 - rewards) / self.q[items]
            self.q = capped(np.maximum(self.q * np.exp(-self.step * loss), 1e-9), M)


def decomposed(q: Array) -> tuple[NDArray[np.int64], Array]:
    """At most len(q) + 1 sets and their probabilities, in which items have inclusion probabilities q of whole sum."""
    edges = np.cumsum(q)
    m = round(float(edges[-1]))
    cuts = np.unique(np.concatenate([[0.0, 1.0], edges % 1.0]))
    weights = np.diff(cuts)
    points = (cuts[:-1] + weights / 2)[:, None] + np.arange(m)
    return np.minimum(np.searchsorted(edges, points, side="right"), len(q) - 1), weights


class CombExp:
    """CombEXP (Combes, Talebi, Proutière and Lelarge), with the parameters of its bound.

    Items' rewards are estimated from the list's sum Y alone, by Y Σ⁻¹ 1_S; Σ = E 1_S 1_Sᵀ, S a uniform set with
    probability γ.
    """

    def __init__(self, horizon: int, rng: np.random.Generator) -> None:
        self.q, self.rng = np.full(K, M / K), rng
        both = M * (M - 1) / (K * (K - 1))
        self.uniform = np.full((K, K), both) + (M / K - both) * np.eye(K)
        scale = (M / K - both) / M**1.5  # λ / m^(3/2)
        prior = math.sqrt(M * math.log(K))
        self.mix = prior / (prior + math.sqrt(scale * (scale * M**2 * K + M) * horizon))
        self.step = self.mix * scale

    def compose(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """One set per round; contexts are not looked at."""
        self.sets, self.weights = decomposed(self.q)
        picks = self.rng.choice(len(self.weights), size=len(lists), p=self.weights / self.weights.sum())
        uniform = np.argsort(self.rng.random((len(lists), K)), axis=1)[:, :M]
        return np.where(self.rng.random((len(lists), 1)) < self.mix, uniform, self.sets[picks]).astype(np.int32)

    def estimates(self, shown: NDArray[np.int32], total: float) -> Array:
        """Of all items' rewards (K,), without bias whatever was drawn."""
        rows = np.zeros((len(self.weights), K))
        np.put_along_axis(rows, self.sets, 1.0, axis=1)
        sigma = (1 - self.mix) * (rows.T * self.weights) @ rows + self.mix * self.uniform
        drawn = np.zeros(K)
        drawn[shown] = 1.0
        return np.asarray(total * np.linalg.solve(sigma, drawn))

    def credit(self, lists: NDArray[np.int32], shown: NDArray[np.int32], clicks: Array) -> None:
        """The sum of clicks, and no more."""
        for items, rewards in zip(shown, clicks, strict=True):
            self.q = capped(self.q * np.exp(self.step * self.estimates(items, float(rewards.sum()))), M)


class CombUcb:
    """CombUCB1 (Kveton et al.): the m items of highest mean + √(1.5 ln t / n)."""

    def __init__(self, horizon: int, rng: np.random.Generator) -> None:
        self.n, self.sums, self.t, self.rng = np.zeros(K), np.zeros(K), 0, rng

    def compose(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """The same set for all contexts of a batch."""
        bonus = np.sqrt(1.5 * math.log(self.t + 2) / np.maximum(self.n, 1))
        upper = np.where(self.n > 0, self.sums / np.maximum(self.n, 1) + bonus, 1e9) + 1e-9 * self.rng.random(K)
        return np.tile(np.argsort(-upper)[:M].astype(np.int32), (len(lists), 1))

    def credit(self, lists: NDArray[np.int32], shown: NDArray[np.int32], clicks: Array) -> None:
        """Means of items."""
        self.t += len(shown)
        np.add.at(self.n, shown.ravel(), 1)
        np.add.at(self.sums, shown.ravel(), clicks.ravel())


class Ucb1:
    """UCB1 over candidates."""

    def __init__(self, horizon: int, rng: np.random.Generator) -> None:
        self.n, self.sums, self.arm = np.zeros(P), np.zeros(P), 0

    def compose(self, lists: NDArray[np.int32]) -> NDArray[np.int32]:
        """The list of one candidate."""
        bonus = np.sqrt(2 * math.log(self.n.sum() + 2) / np.maximum(self.n, 1))
        self.arm = int(np.where(self.n > 0, self.sums / np.maximum(self.n, 1) + bonus, np.inf).argmax())
        return np.asarray(lists[:, self.arm])

    def credit(self, lists: NDArray[np.int32], shown: NDArray[np.int32], clicks: Array) -> None:
        """To that candidate."""
        self.n[self.arm] += len(shown)
        self.sums[self.arm] += clicks.sum()


def _composed(kind: Callable[[int, np.random.Generator], Any]) -> Callable[..., Any]:
    return lambda problem, policies, T, seed: Composed(policies, kind(T, np.random.default_rng([seed, 12])))


METHODS: dict[str, Callable[..., Any]] = {
    "comband: EXP4-COMB-SPARSE": lambda problem, policies, T, seed: cb.Exp4CombSparse(
        problem, policies, horizon=T, seed=seed
    ),
    "comband: EXP4-COMB-SPARSE, sharp barrier": lambda problem, policies, T, seed: cb.Exp4CombSparse(
        problem, policies, horizon=T, barrier="sharp", seed=seed
    ),
    "SemiExp4": lambda problem, policies, T, seed: cb.Exp4(problem, policies, horizon=T, seed=seed),
    "EXP4 on whole lists": _composed(lambda T, rng: experts.Exp4Lists(P, T, rng)),
    "CombEXP over items, sums of clicks": _composed(CombExp),
    "OSMD over items": _composed(Osmd),
    "CombUCB1 over items": _composed(CombUcb),
    "UCB1 over candidates": _composed(Ucb1),
}


def play(method: str, adversary: str, T: int, seed: int) -> Row:
    """One sequence, one round at a time."""
    problem = cb.Problem(n_actions=K, list_size=M, sparsity=1)
    policies = OneTable(random_table(50, P, problem, np.random.default_rng(0)))
    sequence = cb.worlds.ADVERSARIES[adversary](policies, problem, horizon=T, seed=seed)
    learner, collected, spent = METHODS[method](problem, policies, T, seed), np.zeros(T), 0.0
    for t in range(T):
        start = time.process_time()
        decisions = learner.ask(sequence.contexts[t : t + 1])
        spent += time.process_time() - start
        rewards = sequence.answer(t, decisions.lists)
        start = time.process_time()
        learner.tell(decisions, rewards)
        spent += time.process_time() - start
        collected[t] = rewards.sum()
    target = np.cumsum(sequence.gains(policies, int(sequence.totals(policies).argmax())))
    regret = target - np.cumsum(collected)
    curve = {str(t): float(regret[t - 1]) for t in range(T // POINTS, T + 1, T // POINTS)}
    return {"regret": float(regret[-1]), "best": float(target[-1]), "curve": curve, "microseconds": 1e6 * spent / T}


def run(ledger: Ledger, options: argparse.Namespace) -> None:
    """All adversaries, methods and seeds."""
    T = 2000 if options.quick else 10_000
    wanted = [name for name in METHODS if not options.methods or any(part in name for part in options.methods)]
    for adversary in cb.worlds.ADVERSARIES:
        for method in wanted:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                key = {"world": adversary, "rounds": T, "method": method, "seed": seed}
                ledger.run(key, lambda key=key: play(key["method"], key["world"], key["rounds"], key["seed"]))  # type: ignore[misc]
        print(f"adversarial: {adversary}", flush=True)


def tables(rows: list[Row]) -> str:
    """Regret against the best candidate, what that one collects, and time per round."""
    text = []
    for (T,), some in grouped(rows, "rounds").items():
        worlds, lines = grouped(some, "world"), []
        for (method,), runs in grouped(some, "method").items():
            cells = [spread((row["regret"] for row in runs if row["world"] == world), ",.0f") for (world,) in worlds]
            lines.append([method, *cells, spread((row["microseconds"] for row in runs), ",.0f")])
        best = [f"{np.median([row['best'] for row in played]):,.0f}" for played in worlds.values()]
        lines.append(["the best candidate collects", *best, ""])
        seeds = len({row["seed"] for row in some})
        text.append(f"Regret after {T:,} rounds, P = {P}, K = {K}, m = {M}; median and quartiles of {seeds} seeds:\n")
        text.append(markdown(["method", *(world for (world,) in worlds), "µs per round"], lines) + "\n")
    return "\n".join(text)
