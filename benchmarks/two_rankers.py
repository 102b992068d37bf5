"""Two rankers: rounds until it is sure which one is better, by an A/B test, by team-draft interleaving and by comband.

python -m benchmarks.two_rankers --data DIR [--sets NAME ...] [--seeds N] [--first-seed S] [--out FILE] [--report]

Worlds are those of benchmarks.certify: real multi-label sets, one click at most. Of 24 candidates two are taken whose
values differ by 20, 10 or 5% of the better one's, as nearly as there are such. All methods run until the sign of the
difference is sure with probability .95, looked at all the time. The A/B test and comband are learners with the same
evidence (AdaptiveComband and ABTest, ε a thousandth of the difference). Interleaving tests the credit of one ranker
minus that of the other by the same kind of bets, both sides at δ/2. "places" are worlds where a click in place
k = 0, 1, … has the chance 1/log₂(k + 2) of what it has in the first; there comband is told these factors
("examination"), or nothing ("pairs").

Every run is a line of the file, and what stands there is not run again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.certify import World, certify, real_world
from benchmarks.peers.multileaving import TeamDraft

GAPS = (0.20, 0.10, 0.05)
DELTA = 0.05
CAP = 400_000
PLAIN = ("A/B", "team-draft interleaving", "comband")
PLACED = ("A/B", "team-draft interleaving", "comband, examination", "comband, pairs")
_BETS = 0.98 * 2.0 ** -np.arange(16)


def pair(world: World, gap: float) -> World:
    """The world with the two candidates whose values differ most nearly by this share of the better one's."""
    values = world.values(world.policies)
    share = (values[:, None] - values) / np.maximum(values[:, None], 1e-12)
    off = np.where((share > 0) & (values >= np.median(values))[:, None], np.abs(share - gap), np.inf)
    best, other = np.unravel_index(np.argmin(off), off.shape)
    chosen = world.policies.subset(sorted([int(best), int(other)]))
    return replace(world, policies=chosen, epsilon=1e-3 * float(values[best] - values[other]))


def interleaved(world: World, seed: int) -> dict[str, Any]:
    """Team draft until one side's bets reach 2/δ: rounds, and whether the worse ranker was named."""
    draft, rng = TeamDraft(2, np.random.default_rng([seed, 5])), np.random.default_rng([seed, 1])
    wealth, rounds = np.zeros((2, len(_BETS))), 0
    while rounds < CAP:
        batch = world.sample(min(max(100, int(0.03 * rounds)), CAP - rounds), rng)
        lists = world.policies.predict(batch.contexts)
        shown = draft.compose(lists)
        clicks = batch.answer(shown)
        ahead = ((draft._owners == 0) * clicks).sum(axis=1) - ((draft._owners == 1) * clicks).sum(axis=1)
        rounds += len(ahead)
        for side, sign in enumerate((1, -1)):
            wealth[side] += np.log1p(sign * ahead[:, None] * _BETS).sum(axis=0)
        told = np.log(np.exp(np.minimum(wealth, 500)).mean(axis=1)) >= np.log(2 / DELTA)
        if told.any():
            named = int(np.argmax(told))
            values = world.values(world.policies)
            return {"rounds": rounds, "certified": True, "wrong": bool(values[named] < values.max())}
    return {"rounds": rounds, "certified": False, "wrong": False}


def play(world: World, method: str, seed: int) -> dict[str, Any]:
    """One run."""
    if method == "team-draft interleaving":
        return interleaved(world, seed)
    told = certify(world, "A/B/n" if method == "A/B" else "adaptive", seed, CAP, DELTA)
    return {name: told[name] for name in ("rounds", "certified", "wrong")}


def placed(world: World, method: str) -> World:
    """The same on a page where the first place is clicked most; A/B and interleaving need not know."""
    theta = 1 / np.log2(np.arange(world.problem.list_size) + 2)
    reading: Any = {"comband, examination": theta, "A/B": "pairs"}.get(method, "pairs")
    order = None if isinstance(reading, str) else "random"
    problem = (
        world.problem if method == "team-draft interleaving" else replace(world.problem, places=reading, order=order)
    )
    return replace(world, problem=problem, effect=theta)


def main() -> None:
    """Run what is missing; with --report print the table of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["bibtex", "Corel5k", "enron"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=31_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/two_rankers.jsonl"))
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    if arguments.report:
        print(report(lines), end="")
        return
    done = {(one["set"], one["gap"], one["page"], one["method"], one["seed"]) for one in lines}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for name in arguments.sets:
            whole = real_world(arguments.data, name, 24, seed)
            for gap in GAPS:
                two = pair(whole, gap)
                for page, methods in (("alike", PLAIN), ("places", PLACED)):
                    for method in methods:
                        if (name, gap, page, method, seed) in done:
                            continue
                        world = two if page == "alike" else placed(two, method)
                        values = world.values(world.policies)
                        found = {"set": name, "gap": gap, "page": page, "method": method, "seed": seed}
                        found |= {"share": float(1 - values.min() / values.max()), **play(world, method, seed)}
                        with arguments.out.open("a") as file:
                            file.write(json.dumps(found) + "\n")


def report(lines: list[dict[str, Any]]) -> str:
    """Rows of a table: the median of rounds, and over all sets how many times fewer than the A/B test took.

    That is the geometric mean over sets and seeds; a run that was not decided counts with the rounds it had.
    """
    head = ("places", "gap", "set", "A/B test", "team-draft interleaving", "comband", "comband, told nothing of places")
    rows = ["| " + " | ".join(head) + " |", "|---|---|---|---:|---:|---:|---:|"]
    names: dict[str, tuple[str, ...]] = {"alike": PLAIN, "places": PLACED}
    sets = list(dict.fromkeys(one["set"] for one in lines))
    for page, methods in names.items():
        called = "do not matter" if page == "alike" else "matter"
        for gap in GAPS:
            some = [one for one in lines if (one["page"], one["gap"]) == (page, gap)]
            by = {(one["set"], one["method"], one["seed"]): one for one in some}
            for name in sets:
                cells = [_cell([by[key] for key in by if key[:2] == (name, method)]) for method in methods]
                rows.append(f"| {called} | {gap:.0%} | {name} | " + " | ".join([*cells, ""][:4]) + " |")
            times = []
            for method in methods[1:]:
                pairs = [(by[s, "A/B", n]["rounds"], one["rounds"]) for (s, m, n), one in by.items() if m == method]
                times.append(f"{np.exp(np.mean([np.log(ab / own) for ab, own in pairs])):.1f}×" if pairs else "")
            rows.append(f"| {called} | {gap:.0%} | all: times fewer | 1 | " + " | ".join([*times, ""][:3]) + " |")
    return "\n".join(rows) + "\n"


def _cell(runs: list[dict[str, Any]]) -> str:
    if not runs:
        return ""
    undecided, wrong = sum(not one["certified"] for one in runs), sum(one["wrong"] for one in runs)
    told = [f"{undecided} undecided"] * (undecided > 0) + [f"{wrong} wrong"] * (wrong > 0)
    return ", ".join([f"{np.median([one['rounds'] for one in runs]):,.0f}", *told])


if __name__ == "__main__":
    main()
