"""Rounds until a winner is certified where places matter: AdaptiveComband against the uniform mixture and A/B/n.

python -m benchmarks.places --data DIR [--sets NAME ...] [--candidates P ...] [--readings NAME ...] [--methods NAME ...]
    [--seeds N] [--first-seed S] [--max-rounds N] [--quick] [--out FILE] [--speed] [--errors]
    [--orders [NAME ...]]

Worlds and candidates are those of benchmarks.certify, lists ordered by score; a click in place k = 0, 1, … of a list is
given with the chance θ_k = 1/log₂(k + 2) of what it is in the first. Under "examination" the learners are told θ, under
"pairs" nothing. ε is a share of the best value of lists in the candidates' own orders (as in benchmarks.certify).
With --out every run is a line of that file, and what stands there is not run again. With --speed it is measured instead
what drawing lists takes under each reading, interleaved, once the candidates' lists are there.

With --orders lists in random order are compared with lists in a page's own order, under "examination" with 120
candidates: rounds, reward lost (the best candidate's value less what shown lists are worth, as a share of the best),
how many shown lists are some candidate's own list, and how far the others are from the nearest one (Kendall's distance
of lists with different items, of m² pairs at most). In "exposure 0.2" a fifth of the visitors takes part, and the
others see the page of production: the candidate at the upper quartile of values. "fit" is not told the factors. Ratios
are geometric means of the same draws.

With --errors it is measured how far wrong factors shift the differences between the leader and its 25 best rivals, as
shares of ε, with the lists that a learner in natural order shows after 2,500 rounds: at the worst of all factors within
so many per cent of the true ones, for each reward by itself (what a certificate for a whole band of factors would have
to allow for), and with factors whose errors are normal.
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

import comband as cb
from benchmarks.certify import EPSILONS, World, certify, made_world, real_world
from comband._kernels.disagreement import disagreement_lists, disputed_counts
from comband._kernels.places import examination_lists, examination_needs, pair_lists, pair_needs
from comband.explore.explorers.adaptive import smallest_disputed

READINGS = ("examination", "pairs")
METHODS = ("adaptive", "uniform mixture", "A/B/n")
Run = dict[str, Any]
_KEY = ("set", "candidates", "reading", "method", "seed", "max_rounds")
ORDERS: dict[str, dict[str, Any]] = {
    "random": {"order": "random"},
    "natural": {"order": "natural"},
    "exposure 0.2": {"order": "natural", "exposure": 0.2},
    "fit": {"places": "fit", "order": None},
}
_ORDER_KEY = ("set", "candidates", "order", "seed", "max_rounds")
_LOOKED_AT = 40  # lists per batch that are compared with the candidates' own


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


def play_order(world: World, order: str, seed: int, max_rounds: int) -> Run:
    """One run with lists in this order: what it took, what it cost, and what visitors saw."""
    options = dict(ORDERS[order])
    page = {name: options.pop(name, getattr(world.problem, name)) for name in ("places", "order")}
    world = replace(world, problem=replace(world.problem, **page))
    theta, values = world.effect, world.values(world.policies)
    assert theta is not None
    best, m = float(values.max()), world.problem.list_size
    production = int(np.argsort(values)[3 * len(values) // 4])
    if "exposure" in options:
        options["production"] = world.policies.names[production]
    learner = cb.AdaptiveComband(
        world.problem, world.policies, epsilon=world.epsilon, max_rounds=max_rounds, seed=seed, **options
    )
    rng, earned, own, distance, looked = np.random.default_rng([seed, 1]), 0.0, 0, 0.0, 0
    began = time.perf_counter()
    while not learner.done:
        batch = world.sample(min(max(100, int(0.03 * learner.rounds)), max_rounds - learner.rounds), rng)
        decisions = learner.ask(batch.contexts)
        earned += float((np.take_along_axis(world.chances[batch.contexts], decisions.lists, 1) @ theta).sum())
        learner.tell(decisions, batch.answer(decisions.lists))
        some = slice(0, _LOOKED_AT)
        candidates = world.policies.predict(np.asarray(batch.contexts)[some])
        nearest = kendall(decisions.lists[some], candidates).min(axis=1)
        own, distance, looked = own + int((nearest == 0).sum()), distance + float(nearest.sum()), looked + len(nearest)
    seconds, result = time.perf_counter() - began, learner.result()
    certified = bool(result.epsilon <= world.epsilon)
    lost = best * learner.rounds - earned
    return {
        "rounds": learner.rounds,
        "certified": certified,
        "wrong": certified and bool(values[result.index] < best - world.epsilon - 1e-12),
        "lost": lost,
        "share": lost / learner.rounds / best,
        "beside_production": (float(values[production]) * learner.rounds - earned) / learner.rounds / best,
        "own_lists": own / looked,
        "kendall": distance / looked / m**2,
        "seconds": seconds,
    }


def kendall(shown: NDArray[Any], candidates: NDArray[Any]) -> NDArray[np.int64]:
    """Kendall's distance of lists (n, m) to each of (n, P, m): pairs of items that the two order differently. An item
    that a list does not show stands behind those that it shows; two that it does not show are in no order there.

    >>> kendall(np.array([[0, 1, 2]]), np.array([[[0, 1, 2], [1, 0, 2], [0, 1, 3], [3, 4, 5]]])).tolist()
    [[0, 1, 1, 9]]
    """
    m = shown.shape[1]
    same = shown[:, None, :, None] == candidates[:, :, None, :]  # (n, P, place shown, place of the candidate)
    theirs = np.where(same.any(axis=3), same.argmax(axis=3), m)  # where the candidate has the shown items
    new = ~same.any(axis=2)  # (n, P, m): the candidate's items that are not shown
    later = np.triu(np.ones((m, m), dtype=np.bool_), 1)
    turned = ((theirs[..., :, None] > theirs[..., None, :]) & later).sum(axis=(2, 3))
    ahead = new[:, :, None, :] & (
        np.arange(m) < theirs[..., None]
    )  # of a shown item, where the candidate has it or not
    return np.asarray(turned + ahead.sum(axis=(2, 3)))


def show_orders(done: list[Run]) -> None:
    """By set and pooled: medians, and ratios to random order."""
    by_run = {(run["set"], run["seed"], run["order"]): run for run in done}
    print(
        f"\n{'set':10} {'order':14} {'rounds':>7} {'lost/round':>10} {'/production':>11} {'own lists':>9} Kendall"
        "  beside random order: rounds, lost per round, lost in all              wrong"
    )
    for name in [*sorted({run["set"] for run in done}), "pooled"]:
        for order in dict.fromkeys(run["order"] for run in done):
            mine = [run for run in done if run["order"] == order and name in (run["set"], "pooled")]
            if not mine:
                continue
            logs = [
                [np.log(run[figure] / other[figure]) for figure in ("rounds", "share", "lost")]
                for run in mine
                if (other := by_run.get((run["set"], run["seed"], "random"))) is not None
            ]
            means = {
                figure: float((np.median if figure == "rounds" else np.mean)([run[figure] for run in mine]))
                for figure in ("rounds", "share", "beside_production", "own_lists", "kendall")
            }
            ratios = (
                ""
                if order == "random" or not logs
                else "   ".join(
                    f"{np.exp(column.mean()):.2f} ± {column.std() / max(len(column) - 1, 1) ** 0.5:.2f}"
                    for column in np.array(logs).T
                )
            )
            wrong, open_ = sum(run["wrong"] for run in mine), sum(not run["certified"] for run in mine)
            print(
                f"{name:10} {order:14} {means['rounds']:7,.0f} {means['share']:9.3f} {means['beside_production']:11.3f}"
                f" {means['own_lists']:9.1%} {means['kendall']:8.3f}  {ratios:66} {wrong} of {len(mine)}"
                + (f", {open_} not certified" if open_ else "")
            )


def compare_orders(arguments: argparse.Namespace, done: list[Run]) -> None:
    """All draws of all sets in all orders, less those that are done, and the table."""
    known = {tuple(run[key] for key in _ORDER_KEY) for run in done}
    for name, i in product(arguments.sets, range(arguments.seeds)):
        seed, P, made = arguments.first_seed + i, arguments.candidates[-1], arguments.data is None
        todo = [one for one in arguments.orders if (name, P, one, seed, arguments.max_rounds) not in known]
        if not todo:
            continue
        plain = made_world(name, P, seed) if made else real_world(arguments.data, name, P, seed)
        world = placed_world(plain, "examination", EPSILONS.get(name, 0.15))
        for order in todo:
            figures = play_order(world, order, seed, arguments.max_rounds)
            key = zip(_ORDER_KEY, (name, P, order, seed, arguments.max_rounds), strict=True)
            done.append({**dict(key), **figures})
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
            print(
                f"{name}, {order}, seed {seed}: {figures['rounds']:,} rounds in {figures['seconds']:.0f} s", flush=True
            )
    show_orders(done)


def worst_difference(
    Q: NDArray[np.float64],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The largest (θ_a − θ_b)/Σ_k Q_k·θ_k with low ≤ θ ≤ high (E,); place m has θ = 0. It rises in θ_a, falls in θ_b,
    and in all others it is monotone by the sign of the numerator.

    >>> one = np.array([[0.5, 0.5]])
    >>> worst_difference(one, np.array([1]), np.array([2]), np.array([1, 0.4]), np.array([1, 0.6])).round(3).tolist()
    [0.75]
    """
    rows, m = np.arange(len(a)), Q.shape[1]
    H, L, wide = np.append(high, 0.0), np.append(low, 0.0), np.column_stack([Q, np.zeros(len(Q))])
    difference = H[a] - L[b]
    rest = np.where((difference > 0)[:, None], low, high) * Q
    others = rest.sum(axis=1) - sum(np.where(k < m, rest[rows, np.minimum(k, m - 1)], 0.0) for k in (a, b))
    due = wide[rows, a] * H[a] + wide[rows, b] * L[b] + others
    return np.where(a == b, 0.0, difference / due)


def show_errors(world: World, seed: int, n: int = 40_000) -> None:
    """How far wrong factors shift differences."""
    world = replace(world, problem=replace(world.problem, order="natural"))
    theta, values = world.effect, world.values(world.policies)
    assert theta is not None
    m, rng = len(theta), np.random.default_rng([seed, 2])
    learner = cb.AdaptiveComband(world.problem, world.policies, epsilon=world.epsilon, seed=seed)
    while not learner.done and learner.rounds < 2500:
        batch = world.sample(250, rng)
        decisions = learner.ask(batch.contexts)
        learner.tell(decisions, batch.answer(decisions.lists))
    epoch, batch = learner.epochs.current, world.sample(n, rng)
    shown = epoch.explorer.draw(batch.contexts, rng).decisions
    i, k = np.nonzero(batch.answer(shown.lists))
    assert shown.placements is not None
    Q, items = shown.placements[i, k], shown.lists[i, k]
    same = world.policies.predict(np.asarray(batch.contexts)[i]) == items[:, None, None]
    places = np.where(same.any(axis=2), same.argmax(axis=2), m)
    rivals = [int(p) for p in np.argsort(-values) if p != epoch.leader][:25]

    def differences(factors: NDArray[np.float64]) -> NDArray[np.float64]:
        worth = np.append(factors, 0.0)[places] / (Q @ factors)[:, None]
        return np.asarray((worth[:, rivals] - worth[:, [epoch.leader]]).sum(axis=0) / n / world.epsilon)

    true, told = differences(theta), []
    for width in (0.02, 0.05, 0.09, 0.17):
        low, high = theta * (1 - width), theta * (1 + width)
        low[0] = high[0] = theta[0]
        worst = [worst_difference(Q, places[:, p], places[:, epoch.leader], low, high).sum() for p in rivals]
        told.append(f"±{width:.0%} {np.median(np.array(worst) / n / world.epsilon - true):.2f}")
    wrong = []
    for error in (0.05, 0.1, 0.2):
        shifts = np.array([differences(theta * np.exp(error * rng.standard_normal(m))) - true for _ in range(30)])
        wrong.append(f"{error:.0%} {np.sqrt((shifts**2).mean()):.2f}, {np.abs(shifts).max():.2f}")
    print(
        f"{world.name}: worst case, median of rivals: {'; '.join(told)}. Errors, root mean square and largest: "
        f"{'; '.join(wrong)}",
        flush=True,
    )


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
    parser.add_argument("--errors", action="store_true", help="measure what wrong factors do instead")
    parser.add_argument("--orders", nargs="*", choices=ORDERS, help="compare random order with a page's own instead")
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
    if arguments.errors:
        for name in arguments.sets:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                P, made = arguments.candidates[-1], arguments.data is None
                plain = made_world(name, P, seed) if made else real_world(arguments.data, name, P, seed)
                show_errors(placed_world(plain, "examination", EPSILONS.get(name, 0.15)), seed)
        return
    done: list[Run] = []
    if arguments.out and arguments.out.exists():
        done = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    if arguments.orders is not None:
        arguments.orders = arguments.orders or list(ORDERS)
        compare_orders(arguments, done)
        return
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
