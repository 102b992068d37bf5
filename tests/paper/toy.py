"""A claim small enough for tests: y = x² with a little noise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from comband.paper.checks import Slope
from comband.paper.claim import Claim, Plan, grid
from comband.paper.figures import guide, panel, trend
from comband.paper.records import Record, Setting, Values


def measure(setting: Setting, seed: int) -> Values:
    time.sleep(setting.get("sleep", 0.0))
    if setting["x"] == setting.get("fails"):
        raise RuntimeError("this one cannot be measured")
    noise = np.random.default_rng([seed, int(setting["x"])]).normal()
    y = np.float64(setting["x"] ** 2 * np.exp(0.02 * noise))
    return {"y": y, "cube": y * setting["x"], "path": np.arange(2), "note": "fine"}


def draw(records: Sequence[Record], figure: Any) -> None:
    axes = panel(figure.subplots(), "y against x", "x (units)", "y (square units)")
    trend(axes, records, "x", "y", label="measured", number=0)
    guide(axes, [1, 8], 1.0, 2.0, "slope 2")
    axes.legend()


def toy(**extra: Any) -> Claim:
    settings = [{**setting, **extra} for setting in grid(x=[1.0, 2.0, 4.0, 8.0])]
    return Claim(
        name="toy",
        title="y grows like x² & <no> faster",
        source="no theorem",
        statement="y = x².",
        method="Computed.",
        checks=(Slope("Slope of y in x", "x", "y", (1.9, 2.1)),),
        quick=Plan(settings[:3], 3),
        full=Plan(settings, 4),
        measure=measure,
        draw=draw,
    )
