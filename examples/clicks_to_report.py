"""From a click log in pandas to a report to look at; run it with `python examples/clicks_to_report.py`."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import comband as cb
from comband.show import evaluation_page

rng, goods, n = np.random.default_rng(1), np.array([f"sku-{i}" for i in range(20)]), 4000  # instead of your own log:
shown, ages = rng.permuted(np.tile(np.arange(20), (n, 1)), axis=1)[:, :3], rng.integers(18, 80, size=n)
clicks = pd.DataFrame({"request": np.repeat(np.arange(n), 3), "age": np.repeat(ages, 3), "sku": goods[shown].ravel()})
clicks["clicked"] = rng.random(3 * n) < np.where(shown == ages[:, None] % 20, 0.5, 0.02).ravel()
clicks["p"] = 3 / 20  # lists of 3 were drawn from 20 items at random


class ByAge:
    """Shows three items by the visitor's age."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def predict(self, X: pd.DataFrame) -> list[list[str]]:
        """Keys of the catalogue, (n, 3)."""
        return [[goods[(age + self.shift + j) % 20] for j in range(3)] for age in X["age"]]


candidates = cb.PolicySet([ByAge(s) for s in (0, -2, 5)], names=["now", "next", "bold"], catalogue=cb.Catalogue(goods))
names = {"round": "request", "item": "sku", "reward": "clicked", "propensity": "p"}
answer = cb.evaluate(clicks, candidates, features=["age"], columns=names, min_propensity=3 / 20)
report = Path(tempfile.mkdtemp()) / "report.html"
report.write_text(evaluation_page(answer, source="clicks"), encoding="utf-8")
print(f"{answer.best}. {answer.promise} The report is {report}.")
