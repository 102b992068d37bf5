"""Makes `clicks.csv` and `lists.csv`, the log and the candidates of the README: a shop of 20 items that shows 3.

Three rankers are mixed with random lists, and each row has the probability with which its item was shown. Run it from
the clone: `python examples/data/make.py`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

import comband as cb

HERE = Path(__file__).parent
SEGMENTS, ITEMS, SLOTS, REQUESTS = 24, 20, 3, 2500
NAMES = ("bestsellers", "new_ranker", "newest")


def main() -> None:
    """Write both files."""
    rng = np.random.default_rng(7)
    problem = cb.Problem(n_actions=ITEMS, list_size=SLOTS, sparsity=1)
    popular, taste = rng.normal(size=ITEMS), rng.normal(size=(SEGMENTS, ITEMS))
    rates = 0.3 / (1 + np.exp(-2 * (taste + 0.6 * popular - 0.4)))  # of a click on an item, by segment
    scores = (np.tile(popular, (SEGMENTS, 1)), taste + popular, rng.normal(size=(SEGMENTS, ITEMS)))
    lists = [np.argsort(-score, axis=1)[:, :SLOTS] for score in scores]
    policies = cb.PolicySet.from_lists(lists, problem, names=NAMES)
    mixture = cb.Mixture(policies, np.full(3, 1 / 3), problem=problem, floor=0.4)
    segments = rng.integers(SEGMENTS, size=REQUESTS)
    decisions = mixture.draw(segments, rng)
    clicked = rng.random((REQUESTS, SLOTS)) < rates[segments[:, None], decisions.lists]
    clicked &= np.arange(SLOTS) == rng.integers(SLOTS, size=(REQUESTS, 1))  # a visitor looks at one of them
    with (HERE / "clicks.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("request_id", "segment", "item_id", "click", "propensity"))
        for i in range(REQUESTS):
            for item, click, chance in zip(decisions.lists[i], clicked[i], decisions.propensities[i], strict=True):
                rows.writerow((f"r{i}", f"s{segments[i]}", f"sku-{item}", int(click), f"{chance:.6g}"))
    with (HERE / "lists.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("context", "candidate", *(f"item_{j}" for j in range(SLOTS))))
        for name, shown in zip(NAMES, lists, strict=True):
            for segment in range(SEGMENTS):
                rows.writerow((f"s{segment}", name, *(f"sku-{item}" for item in shown[segment])))
    print("least propensity:", decisions.propensities.min(), "clicks:", int(clicked.sum()))


if __name__ == "__main__":
    main()
