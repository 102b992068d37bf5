"""Rounds until a winner is certified where places matter: AdaptiveComband against the uniform mixture and A/B/n.

python -m benchmarks.places --data DIR [--sets NAME ...] [--candidates P ...] [--readings NAME ...] [--methods NAME ...]
    [--seeds N] [--first-seed S] [--max-rounds N] [--quick] [--out FILE] [--speed]

Worlds and candidates are those of benchmarks.certify, lists ordered by score; a click in place k = 0, 1, … of a list is
given with the chance θ_k = 1/log₂(k + 2) of what it is in the first. Under "examination" the learners are told θ, under
"pairs" nothing. ε is a share of the best value of lists in the candidates' own orders (as in benchmarks.certify).
With --out every run is a line of that file, and what stands there is not run again. With --speed it is measured instead
what drawing lists takes under each reading, interleaved, once the candidates' lists are there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.certify import EPSILONS, World, certify, made_world, real_world
from comband._kernels.disagreement import disagreement_lists, disputed_counts
from comband._kernels.places import examination_lists, examination_needs, pair_lists, pair_needs
from comband.explore.explorers.adaptive import smallest_disputed

READINGS = ("examination", "pairs")
METHODS = ("adaptive", "uniform mixture", "A/B/n")
Run = dict[str, Any]
_KEY = ("set", "candidates", "reading", "method", "seed", "max_rounds")


def placed_world(world: World, reading: str, share: float) -> World:
    """The same rows and candidates on a page where the first place is clicked most."""
    m = world.problem.list_size
    theta = 1 / np.log2(np.arange(m) + 2)
    stated: Any = {"places": theta, "order": "random"} if reading == "examination" else {"places": "pairs"}
    problem = replace(world.problem, **stated)
    placed = replace(world, problem=problem, effect=theta)
    return replace(placed, epsilon=share * float(placed.values(placed.policies).max()))


def runs(arguments: argparse.Namespace) -> Iterator[Run]:
    """All runs of the table, cheapest first within a set."""
    for P in arguments.candidates:
        for i in range(arguments.seeds):
            for name in arguments.sets:
                for reading in arguments.readings:
                    for method in arguments.methods:
                        yield dict(
                            zip(
                                _KEY,
                                (name, P, reading, method, arguments.first_seed + i, arguments.max_rounds),
                                strict=True,
                            )
                        )


def play(run: Run, folder: Path | None, worlds: dict[Any, World]) -> Run:
    """One run, with its figures."""
    name, P, seed = run["set"], run["candidates"], run["seed"]
    if (name, P, seed) not in worlds:
        worlds.clear()
        made = folder is None or not (folder / f"{name}_X.npz").exists()
        worlds[name, P, seed] = (
            made_world(name, P, seed) if made or folder is None else real_world(folder, name, P, seed)
        )
    world = placed_world(worlds[name, P, seed], run["reading"], EPSILONS.get(name, 0.15))
    began = time.perf_counter()
    figures = certify(world, run["method"], seed, run["max_rounds"])
    return {**run, **figures, "epsilon": world.epsilon, "seconds": time.perf_counter() - began}


def show_speed(world: World, n_contexts: int = 1000, repeats: int = 15) -> None:
    """Processor time of a list under each reading, the smallest propensities as an epoch would set them."""
    K, m, P = world.problem.n_actions, world.problem.list_size, len(world.policies)
    rng, theta = np.random.default_rng(0), 1 / np.log2(np.arange(m) + 2)
    lists = np.ascontiguousarray(world.policies.predict(np.arange(len(world.chances)))[:n_contexts])
    n, none, u = len(lists), np.empty((len(lists), 0), dtype=np.int32), rng.random((len(lists), 2))
    attention = rng.random(P)
    attention[0] = 0.0
    attention /= attention.sum()

    def smallest(room: float, needs: NDArray[Any]) -> NDArray[np.float64]:
        lowest = smallest_disputed(room, max(float(np.quantile(needs, 0.99)), room))
        return np.array([lowest, 0.3 * lowest, min(0.05, lowest)])

    sets = smallest(m, disputed_counts(lists, 0, K))
    examined = smallest(1.0, examination_needs(lists, 0, theta, K))
    paired = smallest(1.0, pair_needs(lists, 0, K))
    kernels: dict[str, Callable[[], Any]] = {
        "no places": lambda: disagreement_lists(lists, 0, attention, sets, u, K, none, np.zeros(len(attention))),
        "examination": lambda: examination_lists(lists, 0, attention, examined, theta, u, K, none),
        "pairs": lambda: pair_lists(lists, 0, attention, paired, u, K, none),
    }
    times = np.empty((repeats + 1, len(kernels)))
    for repeat in range(repeats + 1):  # the first compiles
        for j, kernel in enumerate(kernels.values()):
            began = time.thread_time()
            kernel()
            times[repeat, j] = time.thread_time() - began
    micros, ratios = np.median(times[1:], axis=0) / n * 1e6, np.median(times[1:] / times[1:, :1], axis=0)
    told = ", ".join(f"{name} {micros[j]:.2f} µs ({ratios[j]:.2f}x)" for j, name in enumerate(kernels))
    print(f"{world.name}, {P} candidates: {told}", flush=True)


def show(done: list[Run]) -> None:
    """Medians, and the median ratio of the same draws, by set and reading."""
    print(
        f"\n{'set':10} {'P':>4} {'reading':12} {'adaptive':>9} {'mixture':>9} {'A/B/n':>9}  ratio (worst)  draws wrong"
    )
    for name, P, reading in sorted({(r["set"], r["candidates"], r["reading"]) for r in done}, key=str):
        mine = [r for r in done if (r["set"], r["candidates"], r["reading"]) == (name, P, reading)]
        by_method = {m: {r["seed"]: r for r in mine if r["method"] == m} for m in METHODS}
        cells = []
        for by_seed in by_method.values():
            middle = np.median([r["rounds"] for r in by_seed.values()]) if by_seed else np.nan
            open_ = ">" if any(not r["certified"] for r in by_seed.values()) else ""
            cells.append(f"{open_}{middle:,.0f}" if by_seed else "–")
        both = sorted(by_method["adaptive"].keys() & by_method["uniform mixture"].keys())
        ratios = [by_method["adaptive"][s]["rounds"] / by_method["uniform mixture"][s]["rounds"] for s in both]
        told = f"{np.median(ratios):5.2f} ({max(ratios):.2f})" if ratios else "–"
        wrong = sum(r["wrong"] for r in mine)
        medians = " ".join(f"{cell:>9}" for cell in cells)
        print(f"{name:10} {P:4} {reading:12} {medians}  {told:>13}  {len(both):5} {wrong:5}")


def main() -> None:
    """Run what is not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz; without it, a made world only")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--candidates", type=int, nargs="*", default=[3, 8, 120])
    parser.add_argument("--readings", nargs="*", default=READINGS, choices=READINGS)
    parser.add_argument("--methods", nargs="*", default=METHODS[:2], choices=METHODS)
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--max-rounds", type=int, default=400_000)
    parser.add_argument("--quick", action="store_true", help="few seeds, few candidates, a small budget")
    parser.add_argument("--out", type=Path, help="a line of JSON for each run; runs that stand there are not repeated")
    parser.add_argument("--speed", action="store_true", help="measure what drawing takes instead")
    arguments = parser.parse_args()
    if not arguments.sets:
        arguments.sets = ["bibtex", "Corel5k", "enron"] if arguments.data else ["needle"]
    if arguments.quick:
        arguments.candidates, arguments.seeds, arguments.max_rounds = [3, 20], 2, 20_000
    if arguments.speed:
        for name, P in product(arguments.sets, arguments.candidates):
            show_speed(
                real_world(arguments.data, name, P, arguments.first_seed)
                if arguments.data
                else made_world(name, P, arguments.first_seed)
            )
        return
    done: list[Run] = []
    if arguments.out and arguments.out.exists():
        done = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    known = {tuple(run[key] for key in _KEY) for run in done}
    worlds: dict[Any, World] = {}
    for run in runs(arguments):
        if tuple(run[key] for key in _KEY) in known:
            continue
        done.append(play(run, arguments.data, worlds))
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
        figures = done[-1]
        print(
            f"{run['set']}, {run['candidates']} candidates, {run['reading']}, {run['method']}, seed {run['seed']}: "
            f"{figures['rounds']:,} rounds in {figures['seconds']:.0f} s"
            + ("" if figures["certified"] else ", not certified")
            + (", WRONG" if figures["wrong"] else ""),
            flush=True,
        )
    show(done)


if __name__ == "__main__":
    main()
