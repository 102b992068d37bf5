"""How far values are off where rewards depend on the other items of the list, in natural and in random order.

python -m benchmarks.company [--worlds N] [--clicks C ...] [--readers NAME ...] [--quick] [--json FILE]

Every reading takes an item's reward for its own, and for that of its place. Here it is not: a *cascade* is read from
the top until the first click, and *rivals* take each other's clicks (one at most; each item draws by its odds, and
leaving the page by its own). *Rivals by place* draw 1, .6, .3 times as much.

Worlds of 40 contexts, 30 items, 8 candidates, lists of 3; `clicks` is the mean chance of a click in the best
candidate's lists. Sets of items are drawn with the inclusion probabilities of a mixture of the candidates (all alike;
or half of it the best one, as at the end of a run) by systematic sampling along the candidates' mean order, and shown
in that order (natural) or in any other (random). Everything is computed by enumeration of all lists: no noise. A table
has, under each reading, the mean over candidates of the error of values and of differences to the best candidate, in
per cent of the best value, and how many times too large differences are; in how many worlds another candidate than the
best would be certified with enough rounds, and how much worse those are on average. Factors are those that fit the
rewards best (`fit_factors` with all lists). Pairs are left out where some candidate's items cannot be in its places.
"""

from __future__ import annotations

import argparse
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._natural import natural_law
from comband.page.places import fit_factors

Array = NDArray[np.float64]
Lists = NDArray[np.int64]
N, K, M, P = 40, 30, 3, 8
PLACES = np.array([1.0, 0.6, 0.3])
ORDERS = np.array(list(permutations(range(M))))
MIXTURES = {"all alike": 0.0, "half the best": 0.5}


def click_chances(reader: str, relevance: Array, lists: Lists) -> Array:
    """Of each item in its place (n, m), one context's lists."""
    r = relevance[lists]
    if reader == "cascade":
        passed = np.cumprod(1 - r, axis=1)
        return np.asarray(r * np.concatenate([np.ones((len(r), 1)), passed[:, :-1]], axis=1))
    odds = r / (1 - r) * (PLACES if reader == "rivals by place" else 1.0)
    return np.asarray(odds / (1 + odds.sum(axis=1, keepdims=True)))


READERS = ("cascade", "rivals", "rivals by place")


class World:
    """Chances that an item is clicked alone at the top (N, K), and the candidates' lists (P, N, m)."""

    def __init__(self, seed: int, clicks: float, reader: str) -> None:
        rng = np.random.default_rng([seed, 44])
        gamma = rng.gamma(0.5, size=(N, K))
        noise = rng.standard_normal((P, N, K)) * np.linspace(0.3, 1.2, P)[:, None, None]
        self.lists = np.argsort(-(np.log(gamma + 0.02) + noise), axis=2)[:, :, :M]
        self.reader = reader
        low, high = 0.0, 1.0
        for _ in range(40):  # so that the best candidate has so many clicks
            scale = (low + high) / 2
            self.relevance = np.minimum(scale * gamma / (1 + scale * gamma), 0.95)
            low, high = (scale, high) if self.values().max() < clicks else (low, scale)
            high = 2 * high if low > 0.99 * high else high

    def values(self) -> Array:
        """Of all candidates' own lists."""
        each = [click_chances(self.reader, self.relevance[x], self.lists[:, x]).sum(axis=1) for x in range(N)]
        return np.asarray(np.mean(each, axis=0))

    def law(self, x: int, best: int, share: float) -> tuple[Array, Lists, Array]:
        """All lists in natural order with their probabilities, and Q(y, k) (K, m)."""
        weight = np.full(P, (1 - share) / P)
        weight[best] += share
        return natural_law(self.lists[:, x], weight, K)


def expected(world: World, best: int, share: float, order: str) -> dict[str, Array]:
    """The mean estimate of every candidate (P,) under each reading."""
    parts = []
    for x in range(N):
        chances, lists, Q = world.law(x, best, share)
        if order == "random":
            chances = np.repeat(chances / len(ORDERS), len(ORDERS))
            lists = np.concatenate([row[ORDERS] for row in lists])
            Q = np.repeat(Q.mean(axis=1, keepdims=True), M, axis=1)
        brought = np.zeros((K, M))  # the mean reward of an item in a place, times the chance that it is there
        np.add.at(
            brought, (lists, np.arange(M)), chances[:, None] * click_chances(world.reader, world.relevance[x], lists)
        )
        parts.append((brought, Q))
    brought, Q = np.stack([b for b, _ in parts]), np.stack([q for _, q in parts])
    found = brought > 0
    rewards = np.zeros((int(found.sum()), M))
    rewards[np.arange(len(rewards)), np.nonzero(found)[2]] = brought[found]
    rows = np.zeros((len(rewards), M, M))
    contexts, items, places = np.nonzero(found)
    rows[np.arange(len(rewards)), places] = Q[contexts, items]
    theta = np.array(fit_factors(rewards, rows))
    item = world.lists  # (P, N, m)
    where = np.arange(N)[None, :, None]
    q = np.maximum(Q.sum(axis=2), 1e-12)
    by_item = (brought.sum(axis=2) / q)[where, item]
    relevance = (brought.sum(axis=2) / np.maximum(Q @ theta, 1e-12))[where, item]
    answer = {"none": by_item.sum(axis=2).mean(axis=1), "factors": (relevance * theta).sum(axis=2).mean(axis=1)}
    of_pairs = (brought / np.maximum(Q, 1e-12))[where, item, np.arange(M)]
    possible = (Q[where, item, np.arange(M)] > 1e-9).all()
    answer["pairs"] = of_pairs.sum(axis=2).mean(axis=1) if possible else np.full(P, np.nan)
    return answer


def measure(reader: str, clicks: float, worlds: int) -> list[dict[str, Any]]:
    """One row for each mixture, order and reading."""
    rows: dict[tuple[str, str, str], list[tuple[float, float, float, bool, float]]] = {}
    for seed in range(worlds):
        world = World(seed, clicks, reader)
        values = world.values()
        best = int(values.argmax())
        for mixture, share in MIXTURES.items():
            for order in ("natural", "random"):
                for reading, found in expected(world, best, share, order).items():
                    if np.isnan(found).any():
                        continue
                    off = np.abs(found - values).mean() / values[best]
                    gap = np.abs((found - found[best]) - (values - values[best])).sum() / (P - 1) / values[best]
                    ratio = (found[best] - found).sum() / (values[best] - values).sum()
                    chosen = int(found.argmax())
                    lost = (values[best] - values[chosen]) / values[best]
                    rows.setdefault((mixture, order, reading), []).append((off, gap, ratio, chosen != best, lost))
    table = []
    for (mixture, order, reading), seen in rows.items():
        off, gap, ratio, wrong, lost = (np.array(column, dtype=float) for column in zip(*seen, strict=True))
        row: dict[str, Any] = {"reader": reader, "clicks": clicks, "mixture": mixture, "order": order}
        row |= {"reading": reading, "worlds": len(seen), "value_off": off.mean(), "gap_off": gap.mean()}
        row |= {"value_off_se": off.std() / np.sqrt(len(off)), "gap_off_se": gap.std() / np.sqrt(len(gap))}
        row |= {"gap_ratio": ratio.mean(), "gap_ratio_se": ratio.std() / np.sqrt(len(ratio))}
        row |= {"other_best": int(wrong.sum()), "lost_then": float(lost[wrong > 0].mean()) if wrong.any() else 0.0}
        table.append(row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--clicks", type=float, nargs="+", default=[0.1, 0.3, 0.6])
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--quick", action="store_true", help="3 worlds")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.quick:
        args.worlds = 3
    results = []
    for reader in args.readers:
        for clicks in args.clicks:
            for row in measure(reader, clicks, args.worlds):
                results.append(row)
                print(
                    f"{reader:16} clicks {clicks:.1f} {row['mixture']:14} {row['order']:8} {row['reading']:8} "
                    f"values off {row['value_off']:6.1%} ± {row['value_off_se']:.1%}  "
                    f"differences off {row['gap_off']:6.1%} ± {row['gap_off_se']:.1%}, {row['gap_ratio']:.2f} ± "
                    f"{row['gap_ratio_se']:.2f} times the true ones  "
                    f"another best in {row['other_best']:3} of {row['worlds']}, worse by {row['lost_then']:.1%}",
                    flush=True,
                )
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
