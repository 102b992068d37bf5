"""What a caller waits for: p50, p99 and the worst call of ask and tell, beside what the candidates' own lists take.

python -m benchmarks.latency [--quick] [--learner NAME]… [--kind KIND] [--size K,M,P] [--batch N]… [--rounds N]
                             [--seconds S] [--processor] [--no-flat] [--items] [--json FILE]

Each row is one learner that asks and tells batches of one size until 200,000 rounds are played or the time for the row
is up. Before every ask the candidates are asked for their lists on the same batch: that is the floor, in the same run.
Targets: p50 of ask at most 1.5 × the floor + 60 µs; the worst tell at most 20 × the median batch (ask and tell) or
50 ms, whichever is larger, changes of epoch included. Vowpal Wabbit's CCB decides and learns beside it, one round at a
time, where it is installed (`pip install vowpalwabbit`); elsewhere its place stays blank. At the end, what a round
costs and what memory is held after 10,000, 100,000 and 1,000,000 rounds. With `--items` nothing but this: what a single
round takes, and the most memory ever held, where there are 10³ … 2³¹ − 1 items, of which a request names 15.

Times are those on the wall. On a machine that does other things too, `--processor` counts the calling thread's own
processor time instead; what other threads do is then not in it.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from comband.policies import RequestedLists

SIZES = [(100, 5, 30), (1000, 10, 120), (10_000, 10, 1000)]  # K, m, P
BATCHES = [1, 100, 1000]
KINDS = ["tabulated", "linear"]
N_TABULATED = 1000  # contexts of the tables
FEATURES = {100: 16, 1000: 16, 10_000: 4}  # at K = 10,000 and P = 1,000 four features are weights of 320 MB already
WARM_UP = 3  # calls of a row before the first that counts
MARKS = (10_000, 100_000, 1_000_000)
ITEMS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 2**31 - 1)

LEARNERS: dict[str, Callable[[cb.Problem, cb.PolicySet], Any]] = {
    "AdaptiveComband": lambda problem, policies: cb.AdaptiveComband(problem, policies, epsilon=1e-4),
    "UniformMixture": lambda problem, policies: cb.UniformMixture(problem, policies, epsilon=1e-4),
    "PacComband": lambda problem, policies: cb.PacComband(problem, policies, n_explore=20_000, n_estimate=10**9),
    "Exp4CombSparse": lambda problem, policies: cb.Exp4CombSparse(problem, policies, horizon=10**6),
}


class World:
    """Items that are clicked now and then, whoever asks; about one round in ten has a click, and at most one."""

    def __init__(self, size: tuple[int, int, int], kind: str) -> None:
        K, m, P = size
        self.problem = cb.Problem(n_actions=K, list_size=m, sparsity=1)
        self.rng = np.random.default_rng(0)
        self.chances = self.rng.random(K) * 0.2 / m
        self.d = FEATURES[K]
        if kind == "linear":
            weights = self.rng.standard_normal((P, self.d, K))
            self.policies = cb.PolicySet.linear(weights, self.problem)
        else:
            width = K // m
            lists = self.rng.integers(width, size=(P, N_TABULATED, m), dtype=np.int32)
            lists += (np.arange(m) * width).astype(np.int32)
            self.policies = cb.PolicySet.from_lists(lists, self.problem)
        self.kind = kind

    def contexts(self, n: int) -> NDArray[Any]:
        """The next batch."""
        return (
            self.rng.standard_normal((n, self.d)) if self.kind == "linear" else self.rng.integers(N_TABULATED, size=n)
        )

    def answer(self, lists: NDArray[np.int32]) -> NDArray[np.float64]:
        """Clicks on the shown items."""
        clicked = self.rng.random(lists.shape) < self.chances[lists]
        return np.where(clicked & (clicked.cumsum(axis=1) == 1), 1.0, 0.0)


def percentiles(taken: list[float]) -> dict[str, float]:
    """p50, p99 and the largest, in microseconds."""
    p50, p99 = np.percentile(taken, [50, 99])
    return {"p50": 1e6 * float(p50), "p99": 1e6 * float(p99), "worst": 1e6 * max(taken)}


def warm_up(name: str, kind: str) -> None:
    """Have everything compiled that a learner comes to, by a short life of one like it."""
    world = World(SIZES[0], kind)
    if name == "PacComband":
        learner: Any = cb.PacComband(world.problem, world.policies, n_explore=2000, n_estimate=10**9)
    else:
        learner = LEARNERS[name](world.problem, world.policies)
    for batch in [1] * 20 + [500] * 8:
        decisions = learner.ask(world.contexts(batch))
        learner.tell(decisions, world.answer(decisions.lists))


def measure(
    world: World, name: str, batch: int, n_rounds: int, seconds: float, clock: Callable[[], float]
) -> dict[str, Any]:
    """One row."""
    learner = LEARNERS[name](world.problem, world.policies)
    floor, ask, tell, both = [], [], [], []
    began = time.perf_counter()
    calls = max(n_rounds // batch, 5)
    gc.collect()
    for call in range(calls + WARM_UP):
        X = world.contexts(batch)
        start = clock()
        world.policies.predict(X)
        asked = clock()
        decisions = learner.ask(X)
        shown = clock()
        rewards = world.answer(decisions.lists)
        answered = clock()
        learner.tell(decisions, rewards)
        end = clock()
        if call >= WARM_UP:
            floor.append(asked - start)
            ask.append(shown - asked)
            tell.append(end - answered)
            both.append(shown - asked + end - answered)
            if call >= WARM_UP + 5 and time.perf_counter() - began > seconds:
                break
    row: dict[str, Any] = {"learner": name, "batch": batch, "rounds": len(ask) * batch}
    row |= {"floor": percentiles(floor), "ask": percentiles(ask), "tell": percentiles(tell)}
    row["batch_p50"] = 1e6 * float(np.median(both))
    row["ask_met"] = row["ask"]["p50"] <= 1.5 * row["floor"]["p50"] + 60
    row["tell_met"] = row["tell"]["worst"] <= max(20 * row["batch_p50"], 50_000)
    return row


def vowpal_wabbit(K: int, m: int, seconds: float, clock: Callable[[], float]) -> dict[str, Any] | None:
    """CCB on rounds of the same size, one at a time: JSON in, slots out, JSON in; None where it is not installed."""
    try:
        vw: Any = importlib.import_module("vowpalwabbit")
    except ImportError:
        return None
    ccb, scores = vw.LabelType.CONDITIONAL_CONTEXTUAL_BANDIT, vw.PredictionType.DECISION_SCORES
    learner = vw.Workspace("--ccb_explore_adf --dsjson --quiet -q UA --epsilon 0.4")
    decider = vw.Workspace("--ccb_explore_adf --json --quiet -q UA --epsilon 0.4")
    rng = np.random.default_rng(0)
    items = [{"_tag": f"item {y}", "A": {"id": f"item {y}"}} for y in range(K)]
    ask, tell = [], []
    began = time.perf_counter()
    for i in range(1000):
        user = {f"f{k}": float(x) for k, x in enumerate(rng.standard_normal(FEATURES[K]))}
        context = {"User": user, "_multi": items, "_slots": [{"_id": f"slot {j}"} for j in range(m)]}
        text = json.dumps(context)
        start = clock()
        asked = decider.parse(text, ccb)
        shown = decider.predict(asked, prediction_type=scores)
        decider.finish_example(asked)
        ask.append(clock() - start)
        outcomes = [
            {
                "_label_cost": -float(rng.random() < 0.1 / m),
                "_id": f"slot {j}",
                "_a": [action for action, _ in slot],
                "_p": [chance for _, chance in slot],
            }
            for j, slot in enumerate(shown)
        ]
        text = json.dumps({"EventId": f"event {i}", "c": context, "_outcomes": outcomes})
        start = clock()
        told = learner.parse(text, ccb)
        learner.learn(told)
        learner.finish_example(told)
        tell.append(clock() - start)
        if i >= 5 and time.perf_counter() - began > seconds:
            break
    learner.finish()
    decider.finish()
    return {"rounds": len(ask), "ask": percentiles(ask), "tell": percentiles(tell)}


def flat(name: str, n_rounds: int, clock: Callable[[], float]) -> list[dict[str, float]]:
    """What a round costs, and what memory the process holds at most, as rounds go by; batches of 1000."""
    world = World(SIZES[0], "tabulated")
    learner = LEARNERS[name](world.problem, world.policies)
    rows, taken, played = [], [], 0
    for _ in range(n_rounds // 1000):
        X = world.contexts(1000)
        start = clock()
        decisions = learner.ask(X)
        shown = clock()
        rewards = world.answer(decisions.lists)
        answered = clock()
        learner.tell(decisions, rewards)
        taken.append(shown - start + clock() - answered)
        played += 1000
        if played in MARKS:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            last = taken[len(taken) // 2 :]
            rows.append({"rounds": played, "us_per_round": 1e3 * float(np.mean(last)), "peak_mb": peak})
    return rows


def many_items(name: str, n_actions: int, seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """One round at a time with three candidates, whose lists come with the request: µs of ask and tell, peak in MB."""
    problem = cb.Problem(n_actions, 5, sparsity=1)
    learner = LEARNERS[name](problem, RequestedLists(["a", "b", "c"], problem))
    rng = np.random.default_rng(0)
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < 20 or (len(taken) < 5000 and time.perf_counter() - began < seconds):
        tables = rng.integers(n_actions // 15, size=(1, 3, 5)) + np.arange(5) * (n_actions // 5)
        start = clock()
        decisions = learner.ask(tables)
        learner.tell(decisions, np.zeros((1, 5)))
        taken.append(clock() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"items": n_actions, "us": 1e6 * float(np.median(taken[10:])), "peak_mb": peak}


def _table(rows: list[dict[str, Any]], vw: dict[str, Any] | None) -> None:
    """Print rows of one size and kind, and Vowpal Wabbit below them."""
    head = ["floor p50", "ask p50", "p99", "worst", "tell p50", "p99", "worst"]
    print(f"  {'µs':28}" + "".join(f"{title:>11}" for title in head) + f"{'rounds':>10}  targets")
    for row in rows:
        numbers = [row["floor"]["p50"], *row["ask"].values(), *row["tell"].values()]
        verdicts = f"ask {'met' if row['ask_met'] else 'missed'}, tell {'met' if row['tell_met'] else 'missed'}"
        label = f"{row['learner']}, {row['batch']:,}"
        print(f"  {label:28}" + "".join(f"{x:11,.0f}" for x in numbers) + f"{row['rounds']:10,}  {verdicts}")
    label = "Vowpal Wabbit CCB, 1"
    if vw is None:
        print(f"  {label:28}{'not installed':>22}")
    else:
        numbers = [*vw["ask"].values(), *vw["tell"].values()]
        print(f"  {label:28}{'':11}" + "".join(f"{x:11,.0f}" for x in numbers) + f"{vw['rounds']:10,}", flush=True)


def _size(text: str) -> tuple[int, int, int]:
    size = tuple(int(part) for part in text.split(","))
    if size not in SIZES:
        raise argparse.ArgumentTypeError(f"one of {', '.join(','.join(map(str, s)) for s in SIZES)}")
    return size[0], size[1], size[2]


def main() -> None:
    """Print one table per size and kind of candidates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a second per row, without the largest size")
    parser.add_argument("--learner", action="append", choices=list(LEARNERS), help="only these")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only these candidates")
    parser.add_argument("--size", action="append", type=_size, help="only these K,m,P")
    parser.add_argument("--batch", action="append", type=int, help="only these batches")
    parser.add_argument("--rounds", type=int, default=200_000, help="rounds per row (200,000)")
    parser.add_argument("--seconds", type=float, help="time per row, if its rounds take longer (60)")
    parser.add_argument("--processor", action="store_true", help="the calling thread's processor time")
    parser.add_argument("--no-flat", action="store_true", help="leave the long run out")
    parser.add_argument("--items", action="store_true", help="what numbers of items cost, and nothing else")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    clock = time.thread_time if arguments.processor else time.perf_counter
    seconds = arguments.seconds or (1.0 if arguments.quick else 60.0)
    figures: dict[str, Any] = {"clock": "processor" if arguments.processor else "wall", "tables": [], "flat": {}}
    if arguments.items:
        for name in arguments.learner or LEARNERS:
            many_items(name, ITEMS[0], 0.0, clock)
            many_items(name, ITEMS[-1], 0.0, clock)
            rows = [many_items(name, n_actions, min(seconds, 5.0), clock) for n_actions in ITEMS]
            figures.setdefault("items", {})[name] = rows
            parts = (f"{row['items']:,}: {row['us']:.0f} µs, {row['peak_mb']:,.0f} MB" for row in rows)
            print(f"  {name:18}" + "; ".join(parts), flush=True)
    for size in [] if arguments.items else arguments.size or (SIZES[:2] if arguments.quick else SIZES):
        vw = vowpal_wabbit(size[0], size[1], min(seconds, 10.0), clock)
        for kind in arguments.kind or KINDS:
            world = World(size, kind)
            print(f"\nK = {size[0]:,}, m = {size[1]}, P = {size[2]:,}, {kind} candidates", flush=True)
            rows = []
            for name in arguments.learner or LEARNERS:
                warm_up(name, kind)
                for batch in arguments.batch or BATCHES:
                    print(f"{name}, batches of {batch} …", file=sys.stderr, flush=True)
                    rows.append(measure(world, name, batch, arguments.rounds, seconds, clock))
            _table(rows, vw)
            figures["tables"].append({"size": size, "kind": kind, "rows": rows, "vowpal_wabbit": vw})
    if not (arguments.no_flat or arguments.items):
        n_rounds = MARKS[0] if arguments.quick else MARKS[-1]
        print(f"\nAs rounds go by (K, m, P = {SIZES[0]}, tabulated, batches of 1000)")
        for name in arguments.learner or LEARNERS:
            print(f"{name}, {n_rounds:,} rounds …", file=sys.stderr, flush=True)
            marks = flat(name, n_rounds, clock)
            figures["flat"][name] = marks
            parts = (f"{x['rounds']:,}: {x['us_per_round']:.2f} µs, {x['peak_mb']:,.0f} MB" for x in marks)
            print(f"  {name:18}" + "; ".join(parts), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
