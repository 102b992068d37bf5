"""Rounds until a lift over production is confirmed in whole lists, and how often equal lists are confirmed by mistake.

python -m benchmarks.confirm [--quick] [--json FILE]

Two candidates with one item each; visitors click with production's rate, or with that times (1 + lift). `Confirmation`
is looked at after every batch. "Fixed" is the size of a classical test of one look at the same level, with 80% power.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

import comband as cb

ALPHA = 0.05
PROBLEM = cb.Problem(n_actions=2, list_size=1, sparsity=1)
POLICIES = cb.PolicySet.from_lists([[[0]], [[1]]], PROBLEM, names=["new", "live"])


def fixed_size(rate: float, lift: float, share: float) -> float:
    """Rounds of a test of one look."""
    other = rate * (1 + lift)
    spread = other * (1 - other) / share + rate * (1 - rate) / (1 - share)
    return float((norm.isf(ALPHA) + norm.isf(0.2)) ** 2 * spread / (rate * lift) ** 2)


def confirm(
    rate: float, lift: float, share: float, seed: int, *, at_least: float = 0.0, most: int = 0
) -> tuple[str, int]:
    """How a run ends, and after how many rounds."""
    learner = cb.Confirmation(
        PROBLEM, POLICIES, candidate="new", production="live", share=share, at_least=at_least, value=rate, seed=seed
    )
    rng = np.random.default_rng([seed, 1])
    size = most or int(12 * fixed_size(rate, lift, share))
    batch = max(50, size // 1200)
    while not learner.done and learner.rounds < size:
        decisions = learner.ask(np.zeros(batch, dtype=np.int64))
        rates = np.where(decisions.lists == 0, rate * (1 + lift), rate)
        learner.tell(decisions, (rng.random(rates.shape) < rates).astype(float))
    return learner.lift().verdict, learner.rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs")
    parser.add_argument("--runs", type=int, help="runs per row (100)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    runs = args.runs or (6 if args.quick else 100)
    rows: list[dict[str, Any]] = []
    print(f"{'rate':>5} {'lift':>5} {'share':>5} {'to confirm':>14} {'mean':>9} {'median':>9} {'90%':>9} {'fixed':>9}")
    for rate in (0.3, 0.05):
        for lift in (0.2, 0.1) if args.quick else (0.2, 0.1, 0.05):
            for share, at_least in ((0.5, 0.0), (0.5, -0.05 * rate), (0.1, 0.0)):
                ends = [confirm(rate, lift, share, seed, at_least=at_least) for seed in range(runs)]
                rounds = np.array([n for _, n in ends])
                row = {
                    "rate": rate,
                    "lift": lift,
                    "share": share,
                    "at_least": at_least,
                    "confirmed": sum(verdict == "confirmed" for verdict, _ in ends),
                    "mean": float(rounds.mean()),
                    "median": float(np.median(rounds)),
                    "ninety": float(np.quantile(rounds, 0.9)),
                    "fixed": fixed_size(rate, lift, share),
                }
                rows.append(row)
                goal = "> -5%" if at_least else "better"
                print(
                    f"{rate:5.2f} {lift:5.0%} {share:5.1f} {goal:>14} {row['mean']:9,.0f} "
                    f"{row['median']:9,.0f} {row['ninety']:9,.0f} {row['fixed'] if not at_least else np.nan:9,.0f}"
                    f"   {row['confirmed']} of {runs} confirmed",
                    flush=True,
                )
    wrong = [confirm(0.3, 0.0, 0.5, 10_000 + seed, most=30_000)[0] for seed in range(4 * runs)]
    print(
        f"equal lists, 30,000 rounds, looked at every 50: {wrong.count('confirmed')} of {len(wrong)} confirmed,",
        end=" ",
    )
    print(f"{wrong.count('refuted')} refuted")
    if args.json:
        args.json.write_text(json.dumps({"rows": rows, "equal": {w: wrong.count(w) for w in set(wrong)}}, indent=1))


if __name__ == "__main__":
    main()
