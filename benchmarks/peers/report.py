"""Tables as Markdown, and figures, from the lines of results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.peers.arms import UNPROVEN
from benchmarks.peers.results import Row, band, grouped, markdown, versions

SHOWN = (60, 250, 1000, 4000, 16_000, 64_000)
LIKELY = 0.9
CURVES = (
    "comband: AdaptiveComband",
    "comband: AdaptiveComband, old visitors",
    "Thompson sampling",
    "KL-LUCB",
    "successive halving",
    "A/B/n, mSPRT, eliminating",
    "probabilistic multileaving",
    "optimised multileaving",
    "random candidates + obp IIPS",
    "VCEE",
)


def report(found: dict[str, list[Row]], folder: Path | None) -> str:
    """All tables; with a folder they are written there as well, one file per job, and the figures."""
    parts = {}
    for job, rows in found.items():
        tables = (
            choosing(rows) if job == "choosing" else importlib.import_module(f"benchmarks.peers.{job}").tables(rows)
        )
        parts[job] = f"## {job.capitalize()}\n\n{tables}\n"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        drawn = pictures(found.get("choosing", []), folder)
        links = [f"![Share of good picks against rounds]({folder.name}/{picture.name})\n\n" for picture in drawn]
        if links:  # before the tables of single worlds
            before, mark, after = parts["choosing"].partition("### ")
            parts["choosing"] = before + "".join(links) + mark + after
        for job, text in parts.items():
            (folder / f"{job}.inc").write_text(text, encoding="utf-8")
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return "\n".join([*parts.values(), f"Versions: {packages}."])


def good(rows: Iterable[Row]) -> dict[int, float]:
    """Horizon → share of the runs whose pick was within ε of the best."""
    found: dict[int, list[bool]] = {}
    for row in rows:
        for horizon, regret in row["regrets"].items():
            found.setdefault(int(horizon), []).append(regret <= row["epsilon"] + 1e-12)
    return {horizon: float(np.mean(hits)) for horizon, hits in sorted(found.items())}


def likely_from(rows: Iterable[Row]) -> float:
    """The first horizon from which on the pick was good in nine of ten runs; inf if there is none."""
    first = np.inf
    for horizon, share in reversed(good(rows).items()):
        if share < LIKELY:
            break
        first = horizon
    return float(first)


def stops(rows: list[Row]) -> tuple[float, float, float]:
    """Quartiles of the rounds to stop; inf for runs that did not. The higher of two middle runs: inf has no middle."""
    rounds = [np.inf if row["stop"] is None else float(row["stop"]) for row in rows]
    low, middle, high = np.percentile(rounds, [25, 50, 75], method="higher")
    return float(low), float(middle), float(high)


def number(value: float) -> str:
    """Rounds for people."""
    return f"{value:,.0f}" if np.isfinite(value) else ""


def choosing(rows: list[Row]) -> str:
    """The summary; then per world: how good picks are, when tests stop, whether they are right, and what is lost."""
    text = [
        "AdaptiveComband beside the best peer: rounds from which on the pick is ε-optimal in nine of ten runs, and "
        "median rounds until it stops by itself (peers whose wrong claims refute their δ of 5% are left out):\n",
        summary(rows) + "\n",
    ]
    for (world, P, T), some in grouped(rows, "world", "candidates", "rounds").items():
        seeds = len({row["seed"] for row in some})
        epsilon = np.median([row["epsilon"] / row["best"] for row in some])
        text.append(
            f"### {world}, {P} candidates, {T:,} rounds ({seeds} seeds, ε = {epsilon:.0%} of the best, δ = 0.05)\n"
        )
        picks, ends = [], []
        methods = grouped(some, "method")
        for (method,), runs in methods.items():
            shares, likely = good(runs), likely_from(runs)
            regrets = [row["regrets"].get("4000") for row in runs]
            middle = (
                "{:.3f} ({:.3f}–{:.3f})".format(
                    *[band(r / row["best"] for r, row in zip(regrets, runs, strict=True))[i] for i in (1, 0, 2)]
                )
                if all(regret is not None for regret in regrets)
                else ""
            )
            cells = [f"{shares[horizon]:.2f}" if horizon in shares else "" for horizon in SHOWN]
            picks.append([method, *cells, number(likely), middle])
            finished = [row for row in runs if row["stop"] is not None]
            low, half, high = stops(runs)
            wrong = f"{sum(row['wrong'] for row in finished)} of {len(finished)}" if finished else ""
            lost = [
                f"{np.median([row['lost'][str(h)] for row in runs]):.3f}"
                if all(str(h) in row["lost"] for row in runs)
                else ""
                for h in (1000, 4000, 16_000, 64_000)
            ]
            span = f"{number(half)} ({number(low)}–{number(high)})" if np.isfinite(half) else ""
            ends.append([method, span, wrong, *lost])
        header = [f"{horizon:,}" for horizon in SHOWN]
        text.append(
            "Share of runs whose pick is ε-optimal after so many rounds; the first rounds from which on it is "
            "so in nine of ten; regret of the pick at 4,000 as a share of the best (quartiles):\n"
        )
        text.append(markdown(["method", *header, "9 of 10 from", "regret at 4,000"], picks) + "\n")
        text.append(
            "Rounds until it stops by itself (quartiles), wrong claims, and the share of reward lost (medians):\n"
        )
        text.append(
            markdown(
                ["method", "stops after", "wrong", *(f"lost at {h}" for h in ("1,000", "4,000", "16,000", "64,000"))],
                ends,
            )
            + "\n"
        )
    return "\n".join(text)


def first_peer(methods: dict[str, list[Row]], rounds: Callable[[list[Row]], float]) -> tuple[str, float]:
    """The peer with the fewest rounds, and how many; none and inf if nobody gets there.

    Whoever is told of old visitors knows more than AdaptiveComband, and is not among them.
    """
    peers = {
        name: rounds(runs) for name, runs in methods.items() if "comband" not in name and "old visitors" not in name
    }
    best = min(peers, key=lambda name: peers[name], default="")
    return (best, peers[best]) if peers and np.isfinite(peers[best]) else ("none", np.inf)


def kept_stop(runs: list[Row]) -> float:
    """Median rounds to stop; inf for those whose wrong claims refute δ = 5% (at the level of 5%)."""
    wrong = sum(row["wrong"] for row in runs)
    return stops(runs)[1] if binom.sf(wrong - 1, len(runs), 0.05) >= 0.05 else np.inf


def summary(rows: list[Row]) -> str:
    """A line per world: AdaptiveComband beside the best peer, by rounds to a good pick and by rounds to stop."""
    lines = []
    for (world, P, _), some in grouped(rows, "world", "candidates", "rounds").items():
        methods = {method: runs for (method,), runs in grouped(some, "method").items()}
        own = methods.pop("comband: AdaptiveComband", None)
        if own is None:
            continue
        proven = {name: runs for name, runs in methods.items() if name not in UNPROVEN}
        cells = [f"{world}, {P}"]
        for mine, (name, theirs) in (
            (likely_from(own), first_peer(methods, likely_from)),
            (kept_stop(own), first_peer(methods, kept_stop)),
            (kept_stop(own), first_peer(proven, kept_stop)),
        ):
            factor = f"{theirs / mine:.1f}" if np.isfinite(theirs) and np.isfinite(mine) else ""
            cells += [number(mine), f"{name} {number(theirs)}".strip(), factor]
        lines.append([*cells[:7], *cells[8:]])
    header = ["world, candidates", "good pick from", "best peer", "factor", "stops after", "first peer", "factor"]
    return markdown([*header, "first peer with a proof", "factor"], lines)


def pictures(rows: list[Row], folder: Path) -> list[Path]:
    """Share of good picks against rounds: a figure per number of candidates, a panel per world, a curve per method."""
    drawn: list[Path] = []
    try:
        figure_of: Any = importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        print("matplotlib is not installed: no figures")
        return drawn
    for (P, T), some in grouped(rows, "candidates", "rounds").items():
        worlds = grouped(some, "world")
        high = -(-len(worlds) // 3)
        figure = figure_of(figsize=(11, 0.8 + 2.7 * high), layout="constrained")
        panels = figure.subplots(high, min(3, len(worlds)), sharey=True, squeeze=False).ravel()
        for axes, ((world,), lines) in zip(panels, worlds.items(), strict=False):
            methods = grouped(lines, "method")
            for colour, method in enumerate(CURVES):
                shares = good(methods.get((method,), []))
                width = 2.6 if method.startswith("comband") else 1.3
                axes.plot(list(shares), list(shares.values()), f"C{colour}", label=method, lw=width)
            axes.set(xscale="log", ylim=(0, 1.03), xlabel="rounds")
            axes.set_title(world, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
        for axes in panels[len(worlds) :]:
            axes.set_axis_off()
        figure.supylabel("share of runs, pick within ε of the best", fontsize="medium")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
        drawn.append(folder / f"peers-{P}-{T}.png")
        figure.savefig(drawn[-1], dpi=120)
    return drawn
