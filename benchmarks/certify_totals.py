"""Rounds until a winner is certified where only the total of a list is seen, and the reward lost meanwhile.

python -m benchmarks.certify_totals --data DIR [--sets NAME ...] [--candidates P] [--seeds N] [--first-seed S]
    [--budget ROUNDS] [--json FILE]

With --json a run that was stopped goes on where it was: draws that are in the file are not made again.

Sets, candidates, clicks and epsilons are those of `benchmarks.certify`, and all methods have the same evidence and
stopping rule; but a round's answer is one number. Beside them stands AdaptiveComband with single rewards. An A/B/n test
that is not done within the budget counts as the budget.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import comband as cb
from benchmarks.certify import EPSILONS, METHODS, certify, real_world

METHODS["pseudo-inverse"] = (cb.UniformMixture, {"weighting": "pseudo-inverse"})

FROM_TOTALS = {
    "adaptive": "adaptive",
    "uniform lists": "uniform lists",
    "whole lists, weighted": "uniform mixture",
    "pseudo-inverse": "pseudo-inverse",
    "A/B/n": "A/B/n",
    "A/B/n eliminating": "A/B/n eliminating",
}


def compare(folder: Path, name: str, n_candidates: int, seed: int, budget: int) -> dict[str, Any]:
    """One draw of rows and candidates, all methods."""
    world = real_world(folder, name, n_candidates, seed)
    totals = replace(world, problem=replace(world.problem, feedback="total"))
    runs = {method: certify(totals, kind, seed, budget) for method, kind in FROM_TOTALS.items()}
    runs["adaptive, single rewards"] = certify(world, "adaptive", seed, budget)
    best = float(world.values(world.policies).max())
    return {"world": name, "seed": seed, "epsilon": world.epsilon, "best": best, "runs": runs}


def show(name: str, draws: list[dict[str, Any]]) -> None:
    print(f"\n{name}: {len(draws)} draws, epsilon {draws[0]['epsilon']:.4f}, best value {draws[0]['best']:.3f}")
    print(f"  {'':26} {'rounds':>9} {'reward lost':>12}   unfinished wrong  s/run")
    for method in draws[0]["runs"]:
        runs = [draw["runs"][method] for draw in draws]
        rounds, lost = (np.median([run[column] for run in runs]) for column in ("rounds", "reward_lost"))
        print(
            f"  {method:26} {rounds:9,.0f} {lost:12,.0f}   {sum(not run['certified'] for run in runs):10} "
            f"{sum(run['wrong'] for run in runs):5}  {np.mean([run['seconds'] for run in runs]):5.1f}"
        )
    for other in ("A/B/n", "A/B/n eliminating"):
        fewer = np.median([draw["runs"][other]["rounds"] / draw["runs"]["adaptive"]["rounds"] for draw in draws])
        print(f"  adaptive needs {fewer:.1f}x fewer rounds than {other} (or more, if unfinished)", flush=True)


def main() -> None:
    """Print one table a set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME_X.npz and NAME_Y.npz")
    parser.add_argument("--sets", nargs="*", default=["bibtex", "Corel5k", "enron"], help="names of the sets")
    parser.add_argument("--candidates", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=5, help="draws of rows, candidates and rounds")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=400_000, help="rounds")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    unknown = set(FROM_TOTALS.values()) - METHODS.keys()
    if unknown or not set(given.sets) <= EPSILONS.keys():
        raise cb.InputError(f"sets must be among {', '.join(EPSILONS)}, got {given.sets}.")
    draws: list[dict[str, Any]] = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    for name in given.sets:
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            size = {"world": name, "seed": seed, "candidates": given.candidates, "budget": given.budget}
            if not any(size.items() <= draw.items() for draw in draws):
                draws.append({**compare(given.data, name, given.candidates, seed, given.budget), **size})
                if given.json:
                    given.json.write_text(json.dumps(draws, indent=2))
        show(name, [draw for draw in draws if draw["world"] == name])


if __name__ == "__main__":
    main()
