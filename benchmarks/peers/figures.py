"""Curves with bands over seeds, a panel per world."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.results import Row, band, grouped

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """Something after so many rounds, all (n,): its middle, and a band around it."""

    rounds: Array
    low: Array
    middle: Array
    high: Array

    @classmethod
    def of_quartiles(cls, runs: list[dict[str, float]]) -> Curve:
        """Median and quartiles of runs (rounds → value), where all of them have a value."""
        rounds = sorted(int(n) for n in runs[0] if all(n in run for run in runs))
        low, middle, high = np.array([band(run[str(n)] for run in runs) for n in rounds]).reshape(-1, 3).T
        return cls(np.array(rounds, dtype=np.float64), low, middle, high)

    @classmethod
    def of_shares(cls, hits: Mapping[int, list[bool]]) -> Curve:
        """Shares of runs (rounds → whether it was so in each), with one standard error by Wilson's score."""
        rounds = sorted(hits)
        n = np.array([len(hits[t]) for t in rounds], dtype=np.float64)
        share = np.array([np.mean(hits[t]) for t in rounds])
        centre, width = (share + 0.5 / n) / (1 + 1 / n), np.sqrt(share * (1 - share) / n + 0.25 / n**2) / (1 + 1 / n)
        return cls(np.array(rounds, dtype=np.float64), centre - width, share, centre + width)


Panels = dict[str, dict[str, Curve]]


def quartile_panels(rows: list[Row], by: str, what: str) -> Panels:
    """Medians and quartiles of `what` (rounds → value) by world and method, of the longest runs that have it."""
    longest = max(row["rounds"] for row in rows)
    there = (row for row in rows if row["rounds"] == longest and what in row)
    return {
        world: {
            method: Curve.of_quartiles([row[what] for row in runs])
            for (method,), runs in grouped(some, "method").items()
        }
        for (world,), some in grouped(there, by).items()
    }


def draw(panels: Panels, file: Path, *, what: str, log: bool = False, banded: tuple[str, ...] | None = None) -> bool:
    """A panel for each world and a curve for each method, comband's thicker; False where matplotlib is missing.

    `banded`: the methods whose bands are shown; None: all.
    """
    try:
        figure_of: Any = importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        print("matplotlib is not installed: no figures")
        return False
    methods = list(dict.fromkeys(method for curves in panels.values() for method in curves))
    across = 2 if len(panels) == 4 else min(3, len(panels))
    down = -(-len(panels) // across)
    figure = figure_of(figsize=(11, 0.8 + 2.7 * down), layout="constrained")
    places = figure.subplots(down, across, squeeze=False, sharey=log).ravel()
    for axes, (world, curves) in zip(places, panels.items(), strict=False):
        for method, curve in curves.items():
            colour, width = f"C{methods.index(method) % 10}", 2.6 if method.startswith("comband") else 1.3
            style = "-" if methods.index(method) < 10 else "--"
            axes.plot(curve.rounds, curve.middle, colour, ls=style, label=method, lw=width)
            if banded is None or method in banded:
                axes.fill_between(curve.rounds, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
        axes.set(xlabel="rounds", **({"xscale": "log", "ylim": (0, 1.03)} if log else {}))
        axes.set_title(world, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.supylabel(what, fontsize="medium")
    labels = {label: line for axes in places for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    figure.savefig(file, dpi=120)
    return True
