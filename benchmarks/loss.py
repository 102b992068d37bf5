"""What an experiment costs its visitors: reward lost to exploration, until the certificate and at fixed horizons.

python -m benchmarks.loss [--data DIR] [--sets NAME …] [--candidates P] [--seeds N] [--first-seed S] [--most ROUNDS]
    [--quick] [--json FILE]

The worlds are those of `benchmarks.certify`, and "rare" and "rare equal", where about 3% of lists are clicked. Beside
AdaptiveComband with either objective: the uniform mixture with the same certificate, and what is done without one:
successive halving over candidates (told each horizon beforehand, so it has a run of its own for each), LUCB with radii
for rare clicks, and Thompson sampling, all over candidates, each shown list crediting its own candidate alone. Losses
are exact: the best candidate's value less what shown lists are worth, as a share of the best; after a certificate the
winner is shown.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.certify import World, made_world, real_world

HORIZONS = (4_000, 16_000, 64_000)
LEARNERS: dict[str, tuple[type[cb.certify.CertifyingLearner], dict[str, Any]]] = {
    "objective rounds": (cb.AdaptiveComband, {}),
    "objective reward": (cb.AdaptiveComband, {"objective": "reward"}),
    "uniform mixture": (cb.UniformMixture, {}),
}
BANDITS = ("successive halving", "LUCB", "Thompson sampling")


def make_world(folder: Path | None, name: str, n_candidates: int, seed: int) -> World:
    """A real set, a made one, or a rare one, of whose lists about 3% are clicked: candidates from good to bad, or such
    as are nearly equal, of whom any will do.
    """
    if name in ("rare", "rare equal"):
        world = made_world("graded" if name == "rare" else "nearly equal", n_candidates, seed)
        rare = 0.03 / float(world.values(world.policies).max())
        return World(name, world.problem, world.policies, rare * world.chances, 0.1 * 0.03)
    if folder is not None and (folder / f"{name}_X.npz").exists():
        return real_world(folder, name, n_candidates, seed)
    return made_world(name, n_candidates, seed)


def next_batch(so_far: int, most: int) -> int:
    """How many rounds until somebody looks: 3% of those before, and at every horizon."""
    stops = [horizon for horizon in (*HORIZONS, most) if horizon > so_far]
    return min(max(100, int(0.03 * so_far)), min(stops) - so_far)


def play(world: World, name: str, seed: int, most: int) -> dict[str, Any]:
    """A learner, until it is done or has had enough."""
    kind, options = LEARNERS[name]
    learner = kind(world.problem, world.policies, epsilon=world.epsilon, seed=seed, **options)
    rng, values = np.random.default_rng([seed, 1]), world.values(world.policies)
    best, lost, shares = float(values.max()), 0.0, {}
    while not learner.done and learner.rounds < most:
        batch = world.sample(next_batch(learner.rounds, most), rng)
        decisions = learner.ask(batch.contexts)
        worth = np.take_along_axis(world.chances[batch.contexts], decisions.lists.astype(np.int64), axis=1)
        lost += best * len(decisions) - float(worth.sum())
        learner.tell(decisions, batch.answer(decisions.lists))
        if learner.rounds in HORIZONS:
            shares[learner.rounds] = lost / (best * learner.rounds)
    regret = best - float(values[learner.result().index])
    for horizon in HORIZONS:
        if horizon not in shares and learner.done:
            shares[horizon] = (lost + regret * (horizon - learner.rounds)) / (best * horizon)
    wrong = learner.done and regret > world.epsilon + 1e-12
    return {"rounds": learner.rounds, "done": learner.done, "wrong": wrong, "lost": lost, "shares": shares}


def play_bandit(world: World, name: str, seed: int, horizon: int) -> dict[int, float]:
    """Shares lost at all horizons up to this one, by a bandit over candidates."""
    rng, values = np.random.default_rng([seed, 2]), world.values(world.policies)
    lists, P, best = world.policies.predict(np.arange(len(world.chances))), len(values), float(values.max())
    shown, clicks, left = np.zeros(P), np.zeros(P), np.arange(P)
    lost, shares, t = 0.0, {}, 0
    while t < horizon:
        n = next_batch(t, horizon)
        rows = rng.integers(len(world.chances), size=n)
        arms, left = choose_arms(name, clicks, shown, left, t, horizon, n, rng)
        worth = np.take_along_axis(world.chances[rows], lists[rows, arms].astype(np.int64), axis=1).sum(axis=1)
        lost += best * n - float(worth.sum())
        np.add.at(shown, arms, 1)
        np.add.at(clicks, arms, rng.random(n) < worth)
        t += n
        if t in HORIZONS:
            shares[t] = lost / (best * t)
    return shares


def choose_arms(
    name: str,
    clicks: NDArray[Any],
    shown: NDArray[Any],
    left: NDArray[np.int64],
    t: int,
    horizon: int,
    n: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The candidates to be shown in the next n rounds, and those that are left to successive halving."""
    P, means = len(shown), clicks / np.maximum(shown, 1)
    if name == "Thompson sampling":
        return rng.beta(clicks + 1, shown - clicks + 1, size=(n, P)).argmax(axis=1), left
    if name == "LUCB":
        return lucb_pair(means, shown, t)[(rng.random(n) < 0.5).astype(np.int64)], left
    phases = math.ceil(math.log2(P))
    keep = math.ceil(P / 2 ** min(int(t / horizon * phases), phases - 1))
    left = left[np.lexsort((rng.random(len(left)), -means[left]))[:keep]]  # ties are drawn
    return np.resize(rng.permutation(left), n), left


def lucb_pair(means: NDArray[np.float64], shown: NDArray[np.float64], t: int) -> NDArray[np.int64]:
    """The one of highest mean, and the other of highest upper bound; those never shown come first."""
    if shown.min() == 0:
        return np.argsort(shown, kind="stable")[:2]
    first = int(means.argmax())
    upper = means + np.sqrt(2 * np.maximum(means, 0.01) * np.log(len(means) * (t + 1) ** 1.1) / shown)
    upper[first] = -np.inf
    return np.array([first, int(upper.argmax())])


def main() -> None:
    """Print one table per world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz; without it, made worlds only")
    parser.add_argument("--sets", nargs="*", help="names of sets and worlds")
    parser.add_argument("--candidates", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--most", type=int, default=200_000, help="rounds after which nobody waits for a certificate")
    parser.add_argument("--quick", action="store_true", help="one made world, few draws, a small budget")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sets, arguments.seeds, arguments.most = ["needle"], 2, 20_000
    real = ["bibtex", "Corel5k", "enron", "msweb"] if arguments.data else []
    rows: list[dict[str, Any]] = []
    for name in arguments.sets or [*real, "needle", "rare"]:
        found: dict[str, list[dict[str, Any]]] = {}
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            world = make_world(arguments.data, name, arguments.candidates, seed)
            for method in LEARNERS:
                found.setdefault(method, []).append(play(world, method, seed, arguments.most))
            for method in BANDITS:
                shares = play_bandit(world, method, seed, HORIZONS[-1])
                if method == "successive halving":  # it is told its horizon
                    shares |= {until: play_bandit(world, method, seed, until)[until] for until in HORIZONS[:-1]}
                found.setdefault(method, []).append({"shares": shares})
        rows.append({"world": name, "runs": found})
        show(name, found)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=2))


def show(name: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """Medians over the draws."""
    n = len(found["objective rounds"])
    print(f"\n{name}: {n} draws; medians of reward lost, in rewards of the best candidate and as shares")
    print(f"  {'':19} {'rounds':>9} {'lost until then':>16}" + "".join(f"{horizon:>9,}" for horizon in HORIZONS))
    for method, runs in found.items():
        until = ""
        if "rounds" in runs[0]:
            more = "+" if sum(not run["done"] for run in runs) * 2 > n else ""
            rounds, lost = (np.median([run[what] for run in runs]) for what in ("rounds", "lost"))
            until = f"{rounds:8,.0f}{more or ' '} {lost:15,.0f}{more or ' '}"
        shares = [np.median([run["shares"].get(horizon, np.nan) for run in runs]) for horizon in HORIZONS]
        print(f"  {method:19} {until:>26}" + "".join(f"{share:9.3f}" for share in shares), flush=True)
    wrong = sum(run.get("wrong", False) for runs in found.values() for run in runs)
    print(f"  certificates that were wrong: {wrong}", flush=True)


if __name__ == "__main__":
    main()
