"""How figures look: colour-blind safe, bands over seeds, legible at half size. Needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from comband.page.problem import InputError
from comband.page.storage import whole_file
from comband.page.text import missing_extra
from comband.paper.records import Record, group_by

# Okabe & Ito's palette without yellow, which is too light for lines; markers and dashes repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_STYLE: dict[Any, Any] = {
    "font.size": 13,
    "axes.labelsize": 13,
    "axes.titlesize": 13,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 7,
    "svg.fonttype": "path",
    "svg.hashsalt": "comband",
    "axes.formatter.useoffset": False,
}


def check_can_draw() -> None:
    """Refuse before anything is computed what could not be drawn in the end."""
    if find_spec("matplotlib") is None:
        raise InputError(missing_extra("a report with figures", "matplotlib", "plots"))


def render(draw: Callable[[Sequence[Record], Any], None], records: Sequence[Record], stem: Path) -> None:
    """Draw to `stem`.svg and `stem`.png."""
    check_can_draw()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        draw(records, figure)
        for axes in figure.axes:
            _readable_ticks(axes)
        stem.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(stem.with_suffix(".svg")) as part:
            figure.savefig(part, format="svg", metadata={"Date": None})
        with whole_file(stem.with_suffix(".png")) as part:
            figure.savefig(part, format="png", dpi=110)


def panel(axes: Any, title: str, x: str, y: str, *, log: str = "xy") -> Any:
    """Title, labels with units, and logarithmic axes for the letters in `log`."""
    axes.set(title=title, xlabel=x, ylabel=y)
    for letter in log:
        getattr(axes, f"set_{letter}scale")("log")
    return axes


def _readable_ticks(axes: Any) -> None:
    """Plain numbers on logarithmic axes, as many as have room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, scale in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
        if scale == "log":
            low, high = axis.get_view_interval()
            decades = np.log10(high / low)
            several = (1.0, 2.0, 5.0) if decades <= 3.5 else (1.0,)
            axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 0.9 else several))
            axis.set_major_formatter(FuncFormatter(lambda value, place: plain_number(value)))
            axis.set_minor_formatter(NullFormatter())


def plain_number(value: float) -> str:
    """A tick's number as people write it.

    >>> [plain_number(v) for v in (0.002, 0.5, 20, 50_000, 2e6, 1e-7)]
    ['0.002', '0.5', '20', '50k', '2M', '1e-07']
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 10_000 and value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def trend(axes: Any, records: Sequence[Record], x: str, y: str, *, label: str, number: int) -> None:
    """The mean of y over seeds at each x, and a band from the lowest to the highest seed."""
    groups = sorted(group_by(records, x).items())
    level = [key for key, _ in groups]
    values = [[record[y] for record in group] for _, group in groups]
    curve(axes, level, values, label=label, number=number)


def curve(
    axes: Any, x: ArrayLike, values: Sequence[Sequence[float]], *, label: str, number: int, marked: bool = True
) -> None:
    """The mean of values[i] at x[i], and a band from the lowest to the highest."""
    style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": ("-", "--", "-.", ":")[number % 4]}
    if marked:
        style["marker"] = MARKERS[number % len(MARKERS)]
    axes.plot(x, [np.mean(v) for v in values], label=label, **style)
    axes.fill_between(
        x, [np.min(v) for v in values], [np.max(v) for v in values], color=style["color"], alpha=0.18, linewidth=0
    )


def guide(axes: Any, x: ArrayLike, start: float, slope: float, label: str) -> None:
    """A thin grey line of a given slope through (x[0], start), to compare with."""
    levels = np.asarray(x, dtype=np.float64)
    axes.plot(
        levels, start * (levels / levels[0]) ** slope, color="0.45", linewidth=1.2, linestyle=(0, (1, 1.5)), label=label
    )


def limit(axes: Any, y: float, label: str) -> None:
    """A horizontal line that is not to be passed."""
    axes.axhline(y, color="0.15", linewidth=1.4, linestyle=(0, (6, 2)), label=label)
