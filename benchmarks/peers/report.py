"""Tables as Markdown, and figures, from the lines of results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from scipy.stats import binom

from benchmarks.peers.arms import UNPROVEN
from benchmarks.peers.figures import Curve, Panels, draw, quartile_panels
from benchmarks.peers.results import Row, grouped, markdown, spread, versions

SHOWN = (60, 250, 1000, 4000, 16_000, 64_000)
LOST = (1000, 4000, 64_000)
LIKELY = 0.9
BANDS = "The band is one standard error of AdaptiveComband's share.\n\n"
FIGURES = {  # by what panels are made, what is drawn, and its name
    "learning": ("set", "rewards", "reward per round so far"),
    "adversarial": ("world", "curve", "regret"),
}
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
    """All tables; with a folder they are written there as well, a file per job and size, and the figures."""
    parts: dict[str, str] = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for job, rows in found.items():
        if job == "choosing":
            for (P, T), some in grouped(rows, "candidates", "rounds").items():
                parts[f"choosing-{P}-{T}"] = choosing_part(some, P, T, folder)
            continue
        module = importlib.import_module(f"benchmarks.peers.{job}")
        text = f"## {job.capitalize()}\n\n{module.tables(rows)}\n"
        if folder is not None and job in FIGURES:
            by, curve, what = FIGURES[job]
            panels = quartile_panels(rows, by, curve)
            if panels and draw(panels, folder / f"{job}.png", what=what):
                caption = f"{what.capitalize()} against rounds (medians and quartiles over seeds)"
                text += f"![{caption}](peers/{job}.png)\n\n{caption}.\n"
        parts[job] = text
    if folder is not None:
        for name, text in parts.items():
            (folder / f"{name}.inc").write_text(text, encoding="utf-8")
    packages = ", ".join(f"{name} {version}" for name, version in versions().items())
    return "\n".join([*parts.values(), f"Versions: {packages}."])


def choosing_part(rows: list[Row], P: int, T: int, folder: Path | None) -> str:
    """The tables of one size; with a folder, also its figure, before the tables of single worlds."""
    text = f"## Choosing among {P:,} candidates, up to {T:,} rounds\n\n{choosing(rows)}"
    picture = f"peers-{P}-{T}.png"
    if folder is None or not draw(
        pick_panels(rows),
        folder / picture,
        what="share of runs, pick within ε of the best",
        log=True,
        banded=("comband: AdaptiveComband",),
    ):
        return text
    before, mark, after = text.partition("### ")
    return f"{before}{BANDS}![Share of good picks against rounds](peers/{picture})\n\n{mark}{after}"


def picks(rows: Iterable[Row]) -> dict[int, list[bool]]:
    """Horizon → for each run, whether its pick was within ε of the best."""
    found: dict[int, list[bool]] = {}
    for row in rows:
        for horizon, regret in row["regrets"].items():
            found.setdefault(int(horizon), []).append(regret <= row["epsilon"] + 1e-12)
    return found


def pick_panels(rows: list[Row]) -> Panels:
    """Shares of good picks against rounds, by world, of the methods that are drawn."""
    return {
        world: {method: Curve.of_shares(picks(methods[(method,)])) for method in CURVES if (method,) in methods}
        for (world,), some in grouped(rows, "world").items()
        for methods in [grouped(some, "method")]
    }


def good(rows: Iterable[Row]) -> dict[int, float]:
    """Horizon → share of the runs whose pick was within ε of the best."""
    return {horizon: float(np.mean(hits)) for horizon, hits in sorted(picks(rows).items())}


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
        shown, after = (tuple(h for h in some_horizons if h <= T) for some_horizons in (SHOWN, LOST))
        table, ends = [], []
        methods = grouped(some, "method")
        for (method,), runs in methods.items():
            shares, likely = good(runs), likely_from(runs)
            regrets = [row["regrets"].get("4000") for row in runs]
            shared = [r / row["best"] for r, row in zip(regrets, runs, strict=True) if r is not None]
            middle = spread(shared, ".3f") if len(shared) == len(runs) else ""
            cells = [f"{shares[horizon]:.2f}" if horizon in shares else "" for horizon in shown]
            table.append([method, *cells, number(likely), middle])
            finished = [row for row in runs if row["stop"] is not None]
            low, half, high = stops(runs)
            wrong = f"{sum(row['wrong'] for row in finished)} of {len(finished)}" if finished else ""
            lost = [
                spread((row["lost"][str(h)] for row in runs), ".3f")
                if all(str(h) in row["lost"] for row in runs)
                else ""
                for h in after
            ]
            span = f"{number(half)} ({number(low)}–{number(high)})" if np.isfinite(half) else ""
            ends.append([method, span, wrong, *lost])
        header = [f"{horizon:,}" for horizon in shown]
        text.append(
            "Share of runs whose pick is ε-optimal after so many rounds; the first rounds from which on it is "
            "so in nine of ten; regret of the pick at 4,000 as a share of the best (quartiles):\n"
        )
        text.append(markdown(["method", *header, "9 of 10 from", "regret at 4,000"], table) + "\n")
        text.append("Rounds until it stops by itself, wrong claims, and the share of reward lost (quartiles):\n")
        text.append(markdown(["method", "stops after", "wrong", *(f"lost at {h:,}" for h in after)], ends) + "\n")
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
