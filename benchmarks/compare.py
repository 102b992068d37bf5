"""Learners in this tree against an earlier commit: the same answers, and at what price.

python -m benchmarks.compare [--before REV] [--quick] [--learners NAME …] [--json FILE]

Each learner plays fixed streams of rounds in both trees: lists, propensities, result and intervals are compared bit for
bit; where they differ, the largest difference is printed. Then both trees take turns, in processes of their own, at
asking and telling batches of 1 and of 1000: processor time, and how often candidates were evaluated per round. A
learner that is done makes room for a new one.
`--before` is HEAD by default: what the uncommitted change does. `--learners` are beginnings of names.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb

PROBLEM = cb.Problem(n_actions=40, list_size=4, sparsity=1)
N_CONTEXTS, N_POLICIES = 60, 12


class Counted:
    """A table of lists that counts on how many contexts it was asked."""

    asked = 0

    def __init__(self, table: NDArray[np.int32]) -> None:
        self._table = table

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.int32]:
        """The lists of contexts that are numbers."""
        Counted.asked += len(X)
        return self._table[X]


class World:
    """Clicks on single items, by context; candidates that follow the clicks more or less closely."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        K, m = PROBLEM.n_actions, PROBLEM.list_size
        self.chances = rng.dirichlet(np.full(K, 0.2), size=N_CONTEXTS) * 0.6
        noise = rng.normal(size=(N_POLICIES, N_CONTEXTS, K)) * np.linspace(0.02, 0.3, N_POLICIES)[:, None, None]
        order = np.argsort(-(self.chances + noise), axis=2)[:, :, :m]
        self.lists: NDArray[np.int32] = order.astype(np.int32)
        self.policies = cb.PolicySet([Counted(table) for table in self.lists])

    def rounds(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Contexts, and the one item that each would click (−1: none)."""
        X = rng.integers(N_CONTEXTS, size=n)
        edges = np.cumsum(self.chances[X], axis=1)
        liked = (edges < rng.random((n, 1))).sum(axis=1)
        return X, np.where(liked < PROBLEM.n_actions, liked, -1)


def _makers(world: World) -> dict[str, Callable[[], Any]]:
    policies = world.policies
    single = cb.Problem(n_actions=PROBLEM.n_actions, list_size=1, sparsity=1)
    tops = cb.PolicySet([Counted(np.ascontiguousarray(table[:, :1])) for table in world.lists])
    return {
        "AdaptiveComband": lambda: cb.AdaptiveComband(PROBLEM, policies, epsilon=0.03, seed=1),
        "AdaptiveComband, few evaluated": lambda: cb.AdaptiveComband(
            PROBLEM, policies, epsilon=0.03, max_evaluated=8, patience=2000, seed=2
        ),
        "UniformLists": lambda: cb.UniformLists(PROBLEM, policies, epsilon=0.05, seed=3),
        "UniformMixture": lambda: cb.UniformMixture(PROBLEM, policies, epsilon=0.05, seed=4),
        "ABTest": lambda: cb.ABTest(PROBLEM, policies, epsilon=0.05, eliminate=True, seed=5),
        "TwoPhaseComband": lambda: cb.TwoPhaseComband(PROBLEM, policies, epsilon=0.05, seed=6),
        "PacComband": lambda: cb.PacComband(PROBLEM, policies, n_explore=3000, n_estimate=6000, seed=7),
        "SingleLabelComband": lambda: cb.SingleLabelComband(single, tops, n_explore=3000, n_estimate=6000, seed=8),
        "UniformExploration": lambda: cb.UniformExploration(PROBLEM, policies, n_rounds=9000, seed=9),
        "Exp4CombSparse": lambda: cb.Exp4CombSparse(PROBLEM, policies, horizon=9000, seed=10),
        "Exp4CombSparse, later": lambda: cb.Exp4CombSparse(
            PROBLEM, policies, horizon=9000, propensities="when rewarded", seed=11
        ),
        "Exp4": lambda: cb.Exp4(PROBLEM, policies, horizon=9000, seed=12),
        "EpsilonGreedy": lambda: cb.EpsilonGreedy(PROBLEM, policies, horizon=9000, seed=13),
        "ExploreThenCommit": lambda: cb.ExploreThenCommit(PROBLEM, policies, horizon=9000, seed=14),
        "SparseMSets": lambda: cb.SparseMSets(PROBLEM, horizon=9000, seed=15),
    }


def _answers(n_rounds: int, learners: tuple[str, ...]) -> dict[str, list[str]]:
    """Everything that each learner says in a fixed run, as exact text."""
    world, said = World(), {}
    for name, make in _makers(world).items():
        if not name.startswith(learners):
            continue
        learner, rng, texts = make(), np.random.default_rng(77), []
        late: list[tuple[Any, NDArray[np.float64]]] = []
        for i, n in enumerate([1] * 20 + [37] * 20 + [500] * (n_rounds // 500)):
            if learner.done:
                break
            X, liked = world.rounds(n, rng)
            decisions = learner.ask(X)
            rewards = 1.0 * (decisions.lists == liked[:, None])
            late.append((decisions, rewards))
            if i % 3 == 2:  # answers come in threes, the newest first
                for told in reversed(late):
                    learner.tell(*told)
                late.clear()
                texts.append(_exact(learner, decisions))
        for told in late:
            learner.tell(*told)
        result = learner.result()
        numbers = [result.index, result.epsilon, result.value, *result.interval, result.rounds]
        others = [number for other in result.runners_up for number in (other.index, other.value, *other.interval)]
        said[name] = [*texts, _hex([*numbers, *others])]
    return said


def _exact(learner: Any, decisions: Any) -> str:
    parts = [decisions.lists.ravel(), decisions.propensities.ravel()]
    if hasattr(learner, "intervals"):
        parts += list(learner.intervals())
    return _hex(np.concatenate(parts).tolist())


def _hex(numbers: list[float]) -> str:
    return " ".join(float(number).hex() for number in numbers)


def _price(n_rounds: int, learners: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Microseconds of the processor per ask and per tell, and evaluations per round, for each learner and batch."""
    world, found = World(1), {}
    for name, make in _makers(world).items():
        for size in (1, 1000) if name.startswith(learners) else ():
            learner, rng = make(), np.random.default_rng(78)
            ask = tell = 0.0
            Counted.asked, calls = 0, max(n_rounds // size, 4)
            for _ in range(calls):
                if learner.done:
                    learner = make()
                X, liked = world.rounds(size, rng)
                start = time.process_time()
                decisions = learner.ask(X)
                middle = time.process_time()
                rewards = 1.0 * (decisions.lists == liked[:, None])
                before = time.process_time()
                learner.tell(decisions, rewards)
                ask, tell = ask + middle - start, tell + time.process_time() - before
            found[f"{name}, {size}"] = {
                "ask": 1e6 * ask / calls,
                "tell": 1e6 * tell / calls,
                "evaluations": Counted.asked / (calls * size),
            }
    return found


def _in_tree(source: Path, job: str, n_rounds: int, learners: tuple[str, ...]) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--job", job, "--rounds", str(n_rounds), "--learners", *learners]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def _difference(before: list[str], after: list[str]) -> str:
    """Where two runs differ first, and by how much at most."""
    if len(before) != len(after):
        return f"{len(before)} and {len(after)} things said"
    first, largest = -1, 0.0
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        a, b = (np.array([float.fromhex(text) for text in said.split()]) for said in (old, new))
        if a.shape != b.shape:
            return f"at {i}: {a.size} and {b.size} numbers"
        if old != new:
            first, largest = i if first < 0 else first, max(largest, float(np.nanmax(np.abs(a - b))))
    return "identical" if first < 0 else f"from {first} of {len(before)}: off by {largest:.3g} at most"


def main() -> int:
    """Print the comparison; the exit code is 1 if any answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default="HEAD", help="the commit to compare with")
    parser.add_argument("--quick", action="store_true", help="answers only, shorter runs")
    parser.add_argument("--learners", nargs="+", default=[""], help="only those whose names begin so")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--job", choices=["answers", "price"], help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=9000, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    learners = tuple(arguments.learners)
    if arguments.job:
        job = _answers if arguments.job == "answers" else _price
        print(json.dumps(job(arguments.rounds, learners)))
        return 0
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", arguments.before, "src"], cwd=here, check=True, stdout=subprocess.PIPE
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        trees = {"before": Path(folder) / "src", "after": here / "src"}
        n_rounds = 3000 if arguments.quick else 9000
        said = {name: _in_tree(source, "answers", n_rounds, learners) for name, source in trees.items()}
        same = {name: _difference(said["before"][name], said["after"][name]) for name in said["before"]}
        print(f"Answers, {arguments.before} against this tree, {n_rounds:,} rounds each:")
        for name, verdict in same.items():
            print(f"  {name:32} {verdict}")
        prices: list[dict[str, Any]] = []
        if not arguments.quick:
            turns = [
                {name: _in_tree(source, "price", 6000, learners) for name, source in trees.items()} for _ in range(5)
            ]
            print("\nPrice, after / before (median of 5 turns; ask, tell) and evaluations per round:")
            for row in turns[0]["before"]:
                ratio = {
                    what: float(np.median([turn["after"][row][what] / turn["before"][row][what] for turn in turns]))
                    for what in ("ask", "tell")
                }
                old, new = (turns[0][tree][row]["evaluations"] for tree in ("before", "after"))
                prices.append({"run": row, **ratio, "evaluations": [old, new]})
                print(f"  {row:38} ask {ratio['ask']:5.2f}  tell {ratio['tell']:5.2f}  {old:7.2f} → {new:7.2f}")
        if arguments.json:
            arguments.json.write_text(json.dumps({"answers": same, "prices": prices}, indent=1, allow_nan=False))
    return 0 if all(verdict == "identical" for verdict in same.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
