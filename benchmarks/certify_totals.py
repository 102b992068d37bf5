"""Rounds until a winner is certified where only the total of a list is seen, and the reward lost meanwhile.

python -m benchmarks.certify_totals --data DIR [--sets NAME ...] [--candidates P] [--seeds N] [--first-seed S]
    [--budget ROUNDS] [--factor F] [--json FILE]

With --json a run that was stopped goes on where it was: draws that are in the file are not made again.

Sets, candidates, clicks and epsilons are those of `benchmarks.certify`, and all methods have the same evidence and
stopping rule; but a round's answer is one number. Beside them stands AdaptiveComband with single rewards. All learners
plan for the same budget. A run is left when it has taken F times the rounds of AdaptiveComband: that it was not done by
then says that it needs more, which is all that a ratio of at least F asks. Its rounds and the reward that it lost until
then are lower bounds, and so marked.
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


def compare(folder: Path, name: str, n_candidates: int, seed: int, budget: int, factor: float) -> dict[str, Any]:
    """One draw of rows and candidates, all methods."""
    world = real_world(folder, name, n_candidates, seed)
    totals = replace(world, problem=replace(world.problem, feedback="total"))
    runs: dict[str, dict[str, Any]] = {}
    for method, kind in FROM_TOTALS.items():
        stop = factor * runs["adaptive"]["rounds"] if runs else np.inf
        runs[method] = certify(totals, kind, seed, budget, stop=stop)
    runs["adaptive, single rewards"] = certify(world, "adaptive", seed, budget)
    best = float(world.values(world.policies).max())
    return {"world": name, "seed": seed, "epsilon": world.epsilon, "best": best, "runs": runs}


def show(name: str, draws: list[dict[str, Any]]) -> None:
    print(f"\n{name}: {len(draws)} draws, epsilon {draws[0]['epsilon']:.4f}, best value {draws[0]['best']:.3f}")
    print(f"  {'':26} {'rounds':>10} {'reward lost':>12}   unfinished wrong  s/run   rounds over those of adaptive")
    for method in draws[0]["runs"]:
        runs = [draw["runs"][method] for draw in draws]
        ratios = [run["rounds"] / draw["runs"]["adaptive"]["rounds"] for draw, run in zip(draws, runs, strict=True)]
        open_ends = sum(not run["certified"] for run in runs)
        more = ">" if 2 * open_ends >= len(runs) else " "  # the median is a lower bound
        rounds, lost = (np.median([run[column] for run in runs]) for column in ("rounds", "reward_lost"))
        each = ", ".join(
            f"{'' if run['certified'] else '>'}{ratio:.2f}" for run, ratio in zip(runs, ratios, strict=True)
        )
        print(
            f"  {method:26} {more}{rounds:9,.0f} {more}{lost:11,.0f}   {open_ends:10} "
            f"{sum(run['wrong'] for run in runs):5}  {np.mean([run['seconds'] for run in runs]):5.1f}   {each}",
            flush=True,
        )


def main() -> None:
    """Print one table a set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True, help="folder of NAME_X.npz and NAME_Y.npz")
    parser.add_argument("--sets", nargs="*", default=["bibtex", "Corel5k", "enron"], help="names of the sets")
    parser.add_argument("--candidates", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=5, help="draws of rows, candidates and rounds")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=400_000, help="rounds")
    parser.add_argument("--factor", type=float, default=4.0, help="times the rounds of AdaptiveComband, for the others")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    unknown = set(FROM_TOTALS.values()) - METHODS.keys()
    if unknown or not set(given.sets) <= EPSILONS.keys():
        raise cb.InputError(f"sets must be among {', '.join(EPSILONS)}, got {given.sets}.")
    draws: list[dict[str, Any]] = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    size = {"candidates": given.candidates, "budget": given.budget, "factor": given.factor}
    for name in given.sets:
        found = []
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            key = {"world": name, "seed": seed, **size}
            known = [draw for draw in draws if key.items() <= draw.items()]
            if not known:
                known = [{**compare(given.data, name, given.candidates, seed, given.budget, given.factor), **key}]
                draws += known
                if given.json:
                    given.json.write_text(json.dumps(draws, indent=2))
            found += known
        show(name, found)


if __name__ == "__main__":
    main()
