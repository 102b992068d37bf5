"""Rounds until a winner is certified: AdaptiveComband against its baselines on real multi-label sets.

python -m benchmarks.certify [--data DIR] [--sets NAME ...] [--seeds N] [--first-seed S] [--workers W] [--quick]
    [--priors] [--json FILE]

DIR holds pairs NAME_X.npz (features) and NAME_Y.npz (0/1 labels), scipy sparse. Candidates are scorers of widely
varying quality trained on a third of the rows; rounds are drawn from the others. A round's reward is one click at most:
a random true label, clicked with probability ½ if it is shown. Lists have 5 places (3 with fewer than 20 labels).
Needle, all-nearly-equal and small-catalogue worlds are synthetic. All methods have the same evidence and stopping rule.
Every seed draws its own rows, candidates and rounds. The learner's constants were chosen with candidates of seed 0 and
rounds of seeds 0 … 14: the default first seed is far from them.

With --priors: AdaptiveComband with what offline scores might say, beside itself without any. Held-out scores are hit
rates over 500 visitors of whom all clicks are known; reversed ones are these the wrong way round, random ones have the
same spread and know nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import comband as cb
from comband.cluster.connecting import client_of

Array = NDArray[np.float64]
EPSILONS = {"bibtex": 0.10, "Corel5k": 0.15, "enron": 0.05, "yeast": 0.05}  # share of the best candidate's value
METHODS: dict[str, tuple[type[cb.certify.CertifyingLearner], dict[str, Any]]] = {
    "adaptive": (cb.AdaptiveComband, {}),
    "uniform lists": (cb.UniformLists, {}),
    "uniform mixture": (cb.UniformMixture, {}),
    "two phases": (cb.TwoPhaseComband, {}),
    "A/B/n": (cb.ABTest, {}),
    "A/B/n eliminating": (cb.ABTest, {"eliminate": True}),
}
SCORES = ("held-out", "random", "reversed")
NOT_ADAPTIVE = ("uniform lists", "uniform mixture", "A/B/n")


@dataclass
class World:
    """A world whose contexts are row numbers; `chances` (N, K) are the probabilities of the one click.

    `effect` (m,) is what places leave of them, if they do anything.
    """

    name: str
    problem: cb.Problem
    policies: cb.PolicySet
    chances: Array
    epsilon: float
    effect: Array | None = None

    def sample(self, n: int, rng: np.random.Generator) -> cb.Batch:
        """n rounds; the contexts are row numbers."""
        rows = rng.integers(len(self.chances), size=n)
        label = (rng.random(n)[:, None] >= self._cumulated[rows]).sum(axis=1)
        clicked = np.flatnonzero(label < self.problem.n_actions)
        rewards = sp.csr_array((np.ones(len(clicked)), (clicked, label[clicked])), shape=(n, self.problem.n_actions))
        luck = None if self.effect is None else rng.random((n, self.problem.list_size))
        return cb.Batch(rows, rewards, self.problem, self.effect, luck)

    def values(self, policies: cb.PolicySet) -> Array:
        """Exact values."""
        everyone = np.arange(len(self.chances))
        lists = policies.predict(everyone)
        shown = [np.take_along_axis(self.chances, lists[:, p], 1).mean(0) for p in range(len(policies))]
        return np.array([places.sum() if self.effect is None else places @ self.effect for places in shown])

    def __post_init__(self) -> None:
        self._cumulated = np.cumsum(self.chances, axis=1)


def ridge(A: Array, B: Array, C: Array, strength: float) -> Array:
    centre = B.mean(axis=0)
    if len(A) < A.shape[1]:
        return np.asarray(C @ (A.T @ np.linalg.solve(A @ A.T + strength * np.eye(len(A)), B - centre)) + centre)
    return np.asarray(C @ np.linalg.solve(A.T @ A + strength * np.eye(A.shape[1]), A.T @ (B - centre)) + centre)


def normed(A: Array) -> Array:
    return np.asarray(A / (np.linalg.norm(A, axis=1, keepdims=True) + 1e-9))


def neighbours(A: Array, B: Array, C: Array, k: int) -> Array:
    near = normed(C) @ normed(A).T
    k = min(k, len(A))
    best = np.argpartition(-near, k - 1, axis=1)[:, :k]
    scores = np.zeros((len(C), B.shape[1]))
    for j in range(k):
        scores += near[np.arange(len(C)), best[:, j], None] * B[best[:, j]]
    return np.asarray(scores / k + 1e-4 * B.mean(axis=0))


def bayes(A: Array, B: Array, C: Array, strength: float) -> Array:
    middle = A.mean(axis=0)
    a, c = (middle < A).astype(float), (middle < C).astype(float)
    n = B.sum(axis=0)[:, None]
    p = (B.T @ a + strength) / (n + 2 * strength)
    scores = c @ (np.log(p) - np.log(1 - p)).T + np.log(1 - p).sum(axis=1) + np.log(n[:, 0] + strength)
    return np.asarray(scores / A.shape[1] ** 0.5)


def real_world(folder: Path, name: str, n_candidates: int, seed: int = 0) -> World:
    """A multi-label set with candidates of widely varying quality."""
    rng = np.random.default_rng(seed)
    X = sp.load_npz(folder / f"{name}_X.npz").toarray().astype(np.float64)
    Y = sp.load_npz(folder / f"{name}_Y.npz").toarray().astype(np.float64)
    X /= np.sqrt((X**2).mean(axis=0)) + 1e-9
    N, K = Y.shape
    m = 5 if K >= 20 else 3
    order = rng.permutation(N)
    train, rest = order[: N // 3], order[N // 3 :]
    lists = np.empty((n_candidates, len(rest), m), dtype=np.int32)
    for p in range(n_candidates):
        columns = rng.choice(X.shape[1], max(5, int(rng.choice([0.03, 0.1, 0.3, 1.0]) * X.shape[1])), replace=False)
        rows = rng.choice(train, max(30, int(rng.choice([0.05, 0.2, 0.5, 1.0]) * len(train))), replace=False)
        A, B, C = X[np.ix_(rows, columns)], Y[rows], X[np.ix_(rest, columns)]
        if p % 4 < 2:
            scores = ridge(A, B, C, 10 ** rng.uniform(0, 4))
        elif p % 4 == 2:
            scores = neighbours(A, B, C, int(rng.choice([1, 3, 10, 30, 100])))
        else:
            scores = bayes(A, B, C, 10 ** rng.uniform(-2, 1))
        scores += rng.choice([1e-9, 1e-9, 0.1, 0.3, 1.0]) * scores.std() * rng.standard_normal(scores.shape)
        lists[p] = np.argsort(-scores, axis=1)[:, :m]
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    chances = 0.5 * Y[rest] / np.maximum(Y[rest].sum(axis=1, keepdims=True), 1)
    world = World(name, problem, cb.PolicySet.from_lists(lists, problem), chances, 0.0)
    world.epsilon = EPSILONS.get(name, 0.1) * float(world.values(world.policies).max())
    return world


def made_world(kind: str, n_candidates: int, seed: int = 0) -> World:
    """Needle: one good candidate among random ones. Nearly equal: all know the truth up to a little noise. Graded:
    candidates from good to bad. Small: the same with a catalogue of 14 to 24 items, lists of 2 to 5.
    """
    rng = np.random.default_rng(seed)
    N, K, m = (2000, int(rng.integers(14, 25)), int(rng.integers(2, 6))) if kind == "small" else (2000, 60, 4)
    problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
    taste = rng.standard_normal((N, K))
    ranked = np.argsort(-taste, axis=1)
    chances = np.zeros((N, K))
    np.put_along_axis(chances, ranked[:, :12], 0.3 * 0.8 ** np.arange(12) / (0.8 ** np.arange(4)).sum(), axis=1)
    lists = np.empty((n_candidates, N, m), dtype=np.int32)
    for p in range(n_candidates):
        good = p == n_candidates // 2 if kind == "needle" else True
        graded = 0.2 + 1.8 * p / n_candidates
        noise = {"nearly equal": 0.15, "small": graded, "graded": graded}.get(kind, 0.3)
        scores = (taste if good else 0) + (noise if good else 1.0) * rng.standard_normal((N, K))
        lists[p] = np.argsort(-scores, axis=1)[:, :m]
    lists = lists[np.random.default_rng([seed, 8]).permutation(n_candidates)]  # a tie that goes by numbers is no help
    world = World(kind, problem, cb.PolicySet.from_lists(lists, problem), chances, 0.0)
    share = {"nearly equal": 0.03, "small": 0.05}.get(kind, 0.15)
    world.epsilon = share * float(world.values(world.policies).max())
    return world


def oracle_rounds(world: World, delta: float, steps: int = 200) -> float:
    """What an observer who knows all variances would need with the best fixed mixture of candidates.

    max over rivals of 2·E D²·ln(1/δ)/(ε + gap)², minimised over mixtures by exponentiated gradient on the worst rival.
    """
    lists = world.policies.predict(np.arange(len(world.chances)))
    n, P, _ = lists.shape
    inside = np.zeros((P, *world.chances.shape), dtype=np.bool_)
    for p in range(P):
        np.put_along_axis(inside[p], lists[:, p], True, axis=1)
    values = world.values(world.policies)
    best = int(values.argmax())
    where = np.nonzero(world.chances)
    flat = inside[:, where[0], where[1]]
    chance = world.chances[where] / n
    disputed = (flat != flat[best]).astype(np.float64)
    scale = 2 * np.log(1 / delta) / (world.epsilon + values.max() - values) ** 2
    weights, lowest = np.full(P, 1 / P), np.inf
    dual = np.full(P, 1 / P)
    for _ in range(steps):
        q = weights @ flat + 1e-4
        needs = scale * (disputed @ (chance / q))
        lowest = min(lowest, float(needs.max()))
        dual *= np.exp(0.3 * needs / needs.max())
        dual /= dual.sum()
        pull = flat @ ((dual * scale) @ disputed * chance / q**2)
        weights *= np.sqrt(pull / max(float(weights @ pull), 1e-300)) + 1e-12
        weights = 0.98 * weights / weights.sum() + 0.02 / P
    return lowest


def offline_scores(world: World, kind: str, seed: int, n_visitors: int = 500) -> tuple[Array, float]:
    """What was known of the candidates beforehand, and the standard error that is stated of it."""
    rng = np.random.default_rng([seed, 9])
    held_out = world.sample(n_visitors, rng)
    lists = world.policies.predict(held_out.contexts)
    hits = np.array([held_out.answer(lists[:, p]).sum(axis=1) for p in range(len(world.policies))])
    scores, error = hits.mean(axis=1), float(hits.std(axis=1).mean()) / np.sqrt(n_visitors)
    if kind == "reversed":
        scores = -scores
    if kind == "random":
        scores = rng.permutation(scores)
    return scores, error


def certify(
    world: World,
    method: str,
    seed: int,
    max_rounds: int,
    delta: float = 0.05,
    stop: float = np.inf,
    scores: str | None = None,
) -> dict[str, Any]:
    """One run: looked at after every batch, which gets longer with the run (3%).

    `max_rounds` is what the learner plans for; it is not told that the run may be left unfinished at `stop`.
    """
    kind, options = METHODS[method]
    if scores is not None:
        known, error = offline_scores(world, scores, seed)
        options = {**options, "prior_scores": known, "prior_error": error}
    learner = kind(
        world.problem, world.policies, epsilon=world.epsilon, delta=delta, max_rounds=max_rounds, seed=seed, **options
    )
    rng = np.random.default_rng([seed, 1])
    start = time.perf_counter()
    while not learner.done and learner.rounds < stop:
        batch = world.sample(min(max(100, int(0.03 * learner.rounds)), max_rounds - learner.rounds), rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
    certified = learner.result().epsilon <= world.epsilon
    values = world.values(world.policies) if certified else np.zeros(1)
    wrong = certified and bool(values[learner.result().index] < values.max() - world.epsilon - 1e-12)
    return {
        "rounds": learner.rounds,
        "certified": certified,
        "wrong": wrong,
        "reward_lost": learner.status().reward_lost,
        "seconds": time.perf_counter() - start,
    }


@dataclass(frozen=True)
class Task:
    """A world (a set in a folder, or a made one), a seed, and what is to be run."""

    folder: Path | None
    name: str
    n_candidates: int
    seed: int
    methods: tuple[str, ...]
    max_rounds: int

    def world(self) -> World:
        """The world."""
        if self.folder:
            return real_world(self.folder, self.name, self.n_candidates, self.seed)
        return made_world(self.name, self.n_candidates, self.seed)

    def with_scores(self) -> dict[str, Any]:
        """AdaptiveComband without and with offline scores, on the same rounds."""
        world = self.world()
        return {
            str(scores): certify(world, "adaptive", self.seed, self.max_rounds, scores=scores)
            for scores in (None, *SCORES)
        }

    def run(self) -> dict[str, Any]:
        """All its methods on one draw of candidates."""
        world = self.world()
        runs: dict[str, dict[str, Any]] = {}
        for method in self.methods:
            budget = self.max_rounds
            if method.startswith("A/B/n"):  # enough to tell a factor of 30
                budget = max(budget, 32 * runs["adaptive"]["rounds"])
            runs[method] = certify(world, method, self.seed, budget)
        return {"seed": self.seed, "epsilon": world.epsilon, "oracle": oracle_rounds(world, 0.05), "runs": runs}


def compare(name: str, n_candidates: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Quartiles over the draws of one world."""
    row: dict[str, Any] = {
        "world": name,
        "candidates": n_candidates,
        "epsilon": float(np.median([result["epsilon"] for result in results])),
        "oracle": float(np.median([result["oracle"] for result in results])),
        "methods": {},
        "draws": results,
    }
    for method in METHODS:
        runs = [result["runs"][method] for result in results if method in result["runs"]]
        row["methods"][method] = {
            "quartiles": np.percentile([run["rounds"] for run in runs], [25, 50, 75]).tolist(),
            "unfinished": sum(not run["certified"] for run in runs),
            "wrong": sum(run["wrong"] for run in runs),
            "runs": len(runs),
            "seconds": float(np.mean([run["seconds"] for run in runs])),
        }
    middle = {method: figures["quartiles"][1] for method, figures in row["methods"].items()}
    row["gain"] = min(middle[method] for method in NOT_ADAPTIVE) / middle["adaptive"]
    tested = [result["runs"] for result in results if "A/B/n" in result["runs"]]
    row["gain_over_ab"] = float(np.median([runs["A/B/n"]["rounds"] / runs["adaptive"]["rounds"] for runs in tested]))
    return row


def show(row: dict[str, Any]) -> None:
    print(
        f"\n{row['world']}: {len(row['draws'])} draws of {row['candidates']} candidates, epsilon {row['epsilon']:.4f}"
    )
    print(f"  {'':18} {'25%':>9} {'median':>9} {'75%':>9}   runs unfinished wrong  s/run")
    for method, figures in row["methods"].items():
        low, middle, high = figures["quartiles"]
        print(
            f"  {method:18} {low:9,.0f} {middle:9,.0f} {high:9,.0f}   {figures['runs']:4} {figures['unfinished']:10} "
            f"{figures['wrong']:5}  {figures['seconds']:5.1f}"
        )
    adaptive = row["methods"]["adaptive"]["quartiles"][1]
    print(
        f"  adaptive needs {row['gain']:.2f}x fewer rounds than the best that does not adapt, "
        f"{row['gain_over_ab']:.1f}x fewer than A/B/n (or more, if unfinished), "
        f"{adaptive / row['oracle']:.2f}x the oracle's {row['oracle']:,.0f}",
        flush=True,
    )


def show_scores(name: str, draws: list[dict[str, Any]]) -> dict[str, Any]:
    """By what factor scores save rounds: geometric means over draws, with their standard errors."""
    rounds = {scores: np.array([draw[scores]["rounds"] for draw in draws]) for scores in draws[0]}
    print(f"\n{name}: {len(draws)} draws, median {np.median(rounds['None']):,.0f} rounds without scores")
    for scores in SCORES:
        logs = np.log(rounds["None"] / rounds[scores])
        error = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
        wrong = sum(draw[scores]["wrong"] for draw in draws)
        print(
            f"  {scores + ' scores':16} {np.median(rounds[scores]):9,.0f} rounds, {np.exp(logs.mean()):.2f}x fewer "
            f"(± {np.exp(logs.mean()) * error:.2f}), {wrong} wrong",
            flush=True,
        )
    return {"world": name, "rounds": {scores: counts.tolist() for scores, counts in rounds.items()}}


def main() -> None:
    """Print one table a world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz; without it, made worlds only")
    parser.add_argument("--sets", nargs="*", help="names of the sets (default: those with a known epsilon, or all)")
    parser.add_argument("--seeds", type=int, default=15, help="draws of rows, candidates and rounds")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--cluster", help="a Dask cluster instead: a scheduler's address, or local:N")
    parser.add_argument("--quick", action="store_true", help="few seeds, few candidates, a small budget")
    parser.add_argument("--priors", action="store_true", help="what offline scores are worth instead")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    seeds, P, budget = (3, 40, 20_000) if arguments.quick else (arguments.seeds, 120, 400_000)
    worlds: list[tuple[Path | None, str]] = []
    if arguments.data:
        found = sorted(path.name.removesuffix("_X.npz") for path in arguments.data.glob("*_X.npz"))
        names = arguments.sets or [name for name in found if name in EPSILONS] or found
        worlds += [(arguments.data if name in found else None, name) for name in names]
    else:
        worlds += [(None, name) for name in arguments.sets or ()]
    if not arguments.sets:
        worlds += [(None, "needle"), (None, "nearly equal"), (None, "small")]
    rows = []
    with ExitStack() as stack:
        pool: Any = (
            stack.enter_context(client_of(arguments.cluster)).get_executor(pure=False)
            if arguments.cluster
            else stack.enter_context(ProcessPoolExecutor(arguments.workers))
        )
        for folder, name in worlds:
            tasks = []
            for i in range(seeds):
                few = i >= max(2, seeds // 5)  # A/B/n runs take longest and vary least
                methods = tuple(method for method in METHODS if not (few and method.startswith("A/B/n")))
                tasks.append(Task(folder, name, P, arguments.first_seed + i, methods, budget))
            if arguments.priors:
                rows.append(show_scores(name, list(pool.map(Task.with_scores, tasks))))
            else:
                rows.append(compare(name, P, list(pool.map(Task.run, tasks))))
                show(rows[-1])
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
