"""Learning a list classifier when only shown labels are confirmed: hits@m on held-out rows after N rounds.

    python -m benchmarks.list_classification --data DIR [--sets bibtex,Corel5k,enron] [--rounds 50000] [--repeats 3]
    python -m benchmarks.list_classification --scale

DIR holds pairs NAME_X.npz and NAME_Y.npz (scipy sparse; see `MultilabelData.from_npz`). Rows are scaled to unit length
and divided 80/20 at random, anew in every repeat; contexts are drawn with replacement from the larger part. All methods
see the same contexts in turns of one loop, and learn with the same `BanditListClassifier`:

- comband: `OnlineListClassifier` with its defaults;
- uniform: uniform lists;
- epsilon-greedy: the greedy list, or with probability ε a uniform one, refitted as often as comband;
- vw: Vowpal Wabbit's conditional contextual bandit, a learner of its own (skipped where it is not installed);
- popular: the m labels that are most frequent in the learning part;
- skyline: the same learner, told all labels of all rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from comband import (
    BanditListClassifier,
    Decisions,
    Mixture,
    MultilabelData,
    MultilabelWorld,
    OnlineListClassifier,
    PolicySet,
    Problem,
    RegressionOracle,
    Rounds,
    ScoredPolicy,
)

BATCH = 250
GRID = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
TARGET_FROM = 5000
SKYLINE = ("bibtex", 50_000, 0.85)


class Method(Protocol):
    """Shows lists, takes answers, and can be asked for its best lists at any time."""

    def ask(self, X: Any) -> Decisions:
        """Lists to show."""
        ...

    def tell(self, decisions: Decisions, rewards: NDArray[np.float64], /) -> Any:
        """Answers to the shown labels."""
        ...

    def predict(self, X: Any) -> NDArray[np.integer[Any]]:
        """The best lists so far, without exploration."""
        ...


class Baseline:
    """Uniform lists (ε = 1) or ε-greedy ones, with comband's learner and epochs."""

    def __init__(self, problem: Problem, epsilon: float, seed: int) -> None:
        self._problem, self._epsilon = problem, epsilon
        self._rng = np.random.default_rng(seed)
        self._log: list[Rounds] = []
        self._rounds = 0
        reference = OnlineListClassifier(problem)
        self._next, self._growth = reference.first_epoch, reference.growth
        blank = ScoredPolicy(lambda X: np.zeros((X.shape[0], problem.n_actions)), problem)
        self._mixture = Mixture(PolicySet([blank]), [1.0], problem=problem, floor=1.0)

    def ask(self, X: Any) -> Decisions:
        """Lists from the current mixture."""
        return self._mixture.draw(X, self._rng, first_id=self._rounds)

    def tell(self, decisions: Decisions, rewards: NDArray[np.float64]) -> None:
        """Learn when an epoch ends."""
        self._log.append(Rounds(decisions, rewards))
        self._rounds += len(decisions)
        if self._epsilon < 1 and self._rounds >= self._next:
            greedy = PolicySet([self._model().policy_])
            self._mixture = Mixture(greedy, [1.0], problem=self._problem, floor=self._epsilon)
        while self._next <= self._rounds:
            self._next = int(np.ceil(self._next * self._growth))

    def predict(self, X: Any) -> NDArray[np.integer[Any]]:
        """Lists of a model fitted on everything so far."""
        return self._model().predict(X)

    def _model(self) -> BanditListClassifier:
        decisions = [rounds.decisions for rounds in self._log]
        return BanditListClassifier(list_size=self._problem.list_size, n_actions=self._problem.n_actions).fit(
            sp.vstack([part.contexts for part in decisions], format="csr"),
            lists=np.concatenate([part.lists for part in decisions]),
            rewards=np.concatenate([rounds.rewards for rounds in self._log]),
            propensities=np.concatenate([part.propensities for part in decisions]),
        )


class VowpalWabbit:
    """Conditional contextual bandits of Vowpal Wabbit: K actions, m slots, squarecb exploration, quadratic features."""

    def __init__(self, problem: Problem, seed: int) -> None:
        from vowpalwabbit import Workspace

        self._problem = problem
        self._vw = Workspace(
            f"--ccb_explore_adf --squarecb --cb_type mtr -q UA --ignore_linear U -b 22 --quiet --random_seed {seed + 1}"
        )
        self._rounds = 0

    def ask(self, X: Any) -> Decisions:
        """One choice per slot, each with its probability given the slots before it."""
        n, m = X.shape[0], self._problem.list_size
        lists, q = np.empty((n, m), dtype=np.int32), np.empty((n, m))
        for row in range(n):
            # The reduction samples by itself: the first (action, probability) of a slot is the one it chose.
            for slot, scores in enumerate(self._vw.predict(self._example(X, row))):
                lists[row, slot], q[row, slot] = scores[0]
        ids = np.arange(self._rounds, self._rounds + n)
        self._rounds += n
        return Decisions(ids=ids, lists=lists, propensities=q, epochs=np.zeros(n), contexts=X)

    def tell(self, decisions: Decisions, rewards: NDArray[np.float64]) -> None:
        """Learn from each round."""
        for row in range(len(decisions)):
            outcomes = [
                f"ccb slot {action}:{-reward}:{p} |"
                for action, reward, p in zip(
                    decisions.lists[row], rewards[row], decisions.propensities[row], strict=True
                )
            ]
            self._vw.learn(self._example(decisions.contexts, row, outcomes))

    def predict(self, X: Any) -> NDArray[np.integer[Any]]:
        """The most likely action of each slot."""
        lists = np.empty((X.shape[0], self._problem.list_size), dtype=np.int32)
        for row in range(X.shape[0]):
            taken: list[int] = []
            for slot in self._vw.predict(self._example(X, row)):
                taken.append(max((p, action) for action, p in slot if action not in taken)[1])
            lists[row] = taken
        return lists

    def _example(self, X: Any, row: int, outcomes: list[str] | None = None) -> list[str]:
        part = slice(X.indptr[row], X.indptr[row + 1])
        features = " ".join(f"{j}:{v:.5g}" for j, v in zip(X.indices[part], X.data[part], strict=True))
        slots = ["ccb slot |"] * self._problem.list_size if outcomes is None else outcomes
        return [f"ccb shared |U c {features}", *(f"ccb action |A a{y}" for y in range(self._problem.n_actions)), *slots]


def methods(problem: Problem, *, epsilon: float, seed: int, with_vw: bool) -> dict[str, Method]:
    found: dict[str, Method] = {
        "comband": OnlineListClassifier(problem, seed=seed),
        "uniform": Baseline(problem, 1.0, seed),
        "epsilon-greedy": Baseline(problem, epsilon, seed),
    }
    if with_vw:
        found["vw"] = VowpalWabbit(problem, seed)
    return found


def curves(data: MultilabelData, *, list_size: int, rounds: int, epsilon: float, seed: int, with_vw: bool) -> Any:
    """hits@m on the held-out rows by method and N, the online reward per round, and seconds."""
    learn, held_out = data.split(seed=seed)
    world = MultilabelWorld(learn, list_size=list_size)
    running = methods(world.problem, epsilon=epsilon, seed=seed, with_vw=with_vw)
    hits: dict[str, dict[int, float]] = {name: {} for name in running}
    reward, seconds = dict.fromkeys(running, 0.0), dict.fromkeys(running, 0.0)
    rng = np.random.default_rng([seed, 1])
    done = 0
    while done < rounds:
        stop = min([n for n in (*GRID, rounds) if n > done])
        batch = world.sample(min(BATCH, stop - done), rng)
        done += len(batch)
        for name, method in running.items():
            began = time.perf_counter()
            decisions = method.ask(batch.contexts)
            answers = batch.answer(decisions.lists)
            method.tell(decisions, answers)
            reward[name] += float(answers.sum())
            if done in GRID or done == rounds:
                hits[name][done] = held_out.hits(method.predict(held_out.features))
            seconds[name] += time.perf_counter() - began
    skyline = BanditListClassifier(list_size=list_size).fit(learn.features, learn.labels)
    popular = np.argsort(-np.asarray(learn.labels.sum(axis=0)).ravel(), kind="stable")[:list_size]
    return {
        "hits": hits,
        "skyline": held_out.hits(skyline.predict(held_out.features)),
        "popular": held_out.hits(np.tile(popular, (len(held_out), 1))),
        "reward": {name: total / rounds for name, total in reward.items()},
        "seconds": seconds,
    }


def summary(name: str, runs: list[Any], list_size: int) -> dict[str, Any]:
    """Print means over repeats, and say which targets hold."""
    names = list(runs[0]["hits"])
    grid = sorted(runs[0]["hits"][names[0]])
    mean = {m: {n: float(np.mean([run["hits"][m][n] for run in runs])) for n in grid} for m in names}
    skyline = float(np.mean([run["skyline"] for run in runs]))
    popular = float(np.mean([run["popular"] for run in runs]))
    print(f"\n{name}: hits@{list_size} on held-out rows, mean of {len(runs)} repeats")
    print(f"  {'rounds':>8}" + "".join(f"{m:>16}" for m in names) + f"{'popular':>10}{'skyline':>10}")
    for n in grid:
        print(f"  {n:>8,}" + "".join(f"{mean[m][n]:>16.3f}" for m in names) + f"{popular:>10.3f}{skyline:>10.3f}")
    for column, label in (("reward", "online reward"), ("seconds", "seconds")):
        values = [np.mean([run[column][m] for run in runs]) for m in names]
        print(f"  {label:>8}" + "".join(f"{v:>{16 - 5 * (i == 0)}.3g}" for i, v in enumerate(values)))
    missed = []
    for n in (n for n in grid if n >= TARGET_FROM):
        for rival in names[1:]:
            gaps = np.array([run["hits"]["comband"][n] - run["hits"][rival][n] for run in runs])
            if gaps.mean() <= 0:
                error = f" (standard error {gaps.std(ddof=1) / np.sqrt(len(gaps)):.4f})" if len(gaps) > 1 else ""
                lead = f"ahead by {-gaps.mean():.4f}" if gaps.mean() < 0 else "level"
                missed.append(f"N={n:,}: {rival} is {lead}{error}")
    share = {n: mean["comband"][n] / skyline for n in grid}
    print(f"  share of the skyline: {', '.join(f'{n:,}: {v:.1%}' for n, v in share.items())}")
    if name == SKYLINE[0] and SKYLINE[1] in share:
        verdict = "met" if share[SKYLINE[1]] >= SKYLINE[2] else "MISSED"
        print(f"  target {SKYLINE[2]:.0%} of the skyline at N={SKYLINE[1]:,}: {verdict} ({share[SKYLINE[1]]:.1%})")
    if max(grid) >= TARGET_FROM:
        print(f"  target above every bandit baseline from N={TARGET_FROM:,} on: {'MISSED' if missed else 'met'}")
    for line in missed:
        print(f"    {line}")
    return {"mean": mean, "skyline": skyline, "popular": popular, "missed": missed, "runs": runs}


def scale(quick: bool) -> dict[str, float]:
    """The regression oracle at K = 1000 labels, 50,000 rounds and 5,000 sparse features: time and peak memory."""
    n, d, K, m = (5000, 500, 100, 5) if quick else (50_000, 5000, 1000, 5)
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=50 / d, format="csr", rng=rng)
    lists = rng.integers(K, size=(n, m))
    clicks = rng.random((n, m)) < 0.05
    rows = np.repeat(np.arange(n), m)[clicks.ravel()]
    rewards = sp.csr_array((np.full(len(rows), K / m), (rows, lists.ravel()[clicks.ravel()])), shape=(n, K))
    problem = Problem(n_actions=K, list_size=m)
    began = time.perf_counter()
    policy = RegressionOracle(Ridge(alpha=3.0), problem).fit(X, rewards)
    fitted = time.perf_counter()
    policy.predict(X)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 ** (2 if sys.platform == "darwin" else 1)
    print(
        f"RegressionOracle(Ridge), {n:,} rounds, K={K}, {d:,} sparse features, {rewards.nnz:,} rewards: "
        f"fit {fitted - began:.1f} s, lists for all rounds {ended - fitted:.1f} s, peak memory {peak:,.0f} MB"
    )
    return {"fit_seconds": fitted - began, "predict_seconds": ended - fitted, "peak_megabytes": peak}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz")
    parser.add_argument("--sets", help="comma-separated names; all pairs in the folder by default")
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--list-size", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=0.1, help="of epsilon-greedy")
    parser.add_argument("--scale", action="store_true", help="time and memory of the regression oracle instead")
    parser.add_argument("--quick", action="store_true", help="2,000 rounds, one repeat; digits if there is no --data")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    report: dict[str, Any] = {}
    if options.scale:
        report["scale"] = scale(options.quick)
    else:
        rounds, repeats = (2000, 1) if options.quick else (options.rounds, options.repeats)
        with_vw = _has_vw()
        for name, load in _sets(options).items():
            data = load()
            data = MultilabelData(normalize(sp.csr_array(data.features, dtype=np.float64)), data.labels)
            list_size = min(options.list_size, max(1, data.n_actions // 4))
            runs = []
            for seed in range(options.first_seed, options.first_seed + repeats):
                runs.append(
                    curves(
                        data,
                        list_size=list_size,
                        rounds=rounds,
                        epsilon=options.epsilon,
                        seed=seed,
                        with_vw=with_vw,
                    )
                )
                print(f"{name}, repeat {len(runs)}: {json.dumps(runs[-1]['hits'])}", file=sys.stderr, flush=True)
            report[name] = summary(name, runs, list_size)
            sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _sets(options: argparse.Namespace) -> dict[str, Callable[[], MultilabelData]]:
    if options.data is None:
        return {"digits": lambda: MultilabelData.from_sklearn("digits")}
    found = sorted(path.name.removesuffix("_X.npz") for path in options.data.glob("*_X.npz"))
    names = found if options.sets is None else options.sets.split(",")
    if not names:
        raise SystemExit(f"{options.data} holds no NAME_X.npz; give --data a folder of pairs NAME_X.npz, NAME_Y.npz.")

    def loader(name: str) -> Callable[[], MultilabelData]:
        return lambda: MultilabelData.from_npz(options.data, name)

    return {name: loader(name) for name in names}


def _has_vw() -> bool:
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        print("Vowpal Wabbit is not installed and is left out (pip install vowpalwabbit).", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    main()
