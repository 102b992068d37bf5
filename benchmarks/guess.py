"""The best guess before a certificate: how often it is ε-optimal, beside the plain way of guessing.

python -m benchmarks.guess [--data DIR] [--sets NAME ...] [--candidates P] [--draws N] [--runs N] [--first-seed S]
    [--quick] [--json FILE]

The worlds are those of `benchmarks.certify`; each draw of rows and candidates is played by several streams of visitors.
After 1,000, 4,000 and 16,000 rounds AdaptiveComband (with either objective) names its best guess. The plain way shows a
candidate's list drawn uniformly in each round and names the candidate of highest importance-weighted (IPS) value.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb
from benchmarks.certify import World
from benchmarks.loss import make_world

AFTER = (1_000, 4_000, 16_000)
LEARNERS: dict[str, dict[str, Any]] = {"best guess": {}, 'best guess, objective="reward"': {"objective": "reward"}}
MIXTURE = "mixture of lists, IPS"


def guesses(world: World, seed: int, options: dict[str, Any]) -> list[int]:
    """Whom AdaptiveComband names after so many rounds; once it is sure, it names the same ever after."""
    learner = cb.AdaptiveComband(world.problem, world.policies, epsilon=world.epsilon, seed=seed, **options)
    rng, named = np.random.default_rng([seed, 1]), []
    for until in AFTER:
        while learner.rounds < until and not learner.done:
            batch = world.sample(min(max(100, int(0.03 * learner.rounds)), until - learner.rounds), rng)
            decisions = learner.ask(batch.contexts)
            learner.tell(decisions, batch.answer(decisions.lists))
        result = learner.result()
        named.append(result.index if learner.done or result.guess is None else result.guess.index)
    return named


def mixture_picks(world: World, seed: int) -> list[int]:
    """The candidate of highest estimate by importance weighting, from rounds that each show one candidate's list."""
    rng, P = np.random.default_rng([seed, 2]), len(world.policies)
    batch = world.sample(AFTER[-1], rng)
    lists = world.policies.predict(batch.contexts)
    shown = lists[np.arange(len(lists)), rng.integers(P, size=len(lists))]
    rows, places = np.nonzero(batch.answer(shown))
    shows: NDArray[np.bool_] = (lists[rows] == shown[rows, places][:, None, None]).any(axis=2)
    earned = np.zeros((len(AFTER), P))
    weights = shows / shows.mean(axis=1, keepdims=True)
    for k, until in enumerate(AFTER):
        earned[k] = weights[rows < until].sum(axis=0)
    return [int(rng.choice(np.flatnonzero(row == row.max()))) for row in earned]


def main() -> None:
    """Print one table per world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="folder of NAME_X.npz and NAME_Y.npz; without it, made worlds only")
    parser.add_argument("--sets", nargs="*", help="names of sets and worlds")
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--draws", type=int, default=10, help="of rows and candidates")
    parser.add_argument("--runs", type=int, default=10, help="streams of visitors for each draw")
    parser.add_argument("--first-seed", type=int, default=8000)
    parser.add_argument("--quick", action="store_true", help="one made world, two draws")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sets, arguments.draws, arguments.runs = ["needle"], 2, 3
    real = ["bibtex", "Corel5k", "enron", "msweb", "yeast", "medical"] if arguments.data else []
    rows: list[dict[str, Any]] = []
    for name in arguments.sets or [*real, "needle", "rare"]:
        fine: dict[str, list[list[bool]]] = {}
        for draw in range(arguments.first_seed, arguments.first_seed + arguments.draws):
            world = make_world(arguments.data, name, arguments.candidates, draw)
            values = world.values(world.policies)
            good = values >= values.max() - world.epsilon
            for seed in range(100 * draw, 100 * draw + arguments.runs):
                for method, options in LEARNERS.items():
                    fine.setdefault(method, []).append(good[guesses(world, seed, options)].tolist())
                fine.setdefault(MIXTURE, []).append(good[mixture_picks(world, seed)].tolist())
        rows.append({"world": name, "fine": fine})
        show(name, fine)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=2))


def show(name: str, fine: dict[str, list[list[bool]]]) -> None:
    """Shares of runs in which the one named was ε-optimal, with standard errors."""
    print(f"\n{name}: {len(fine[MIXTURE])} runs; how often the one named is within ε of the best")
    print(f"  {'after':32}" + "".join(f"{until:>15,}" for until in AFTER))
    for method, runs in fine.items():
        shares = np.mean(runs, axis=0)
        errors = np.sqrt(shares * (1 - shares) / len(runs))
        print(
            f"  {method:32}" + "".join(f"{s:9.2f} ± {e:.2f}" for s, e in zip(shares, errors, strict=True)), flush=True
        )


if __name__ == "__main__":
    main()
