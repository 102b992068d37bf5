"""How far something is, for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

BAR = 10  # characters


def progress_bar(unit: str = "rounds", *, forecast: bool = False) -> Progress:
    """A bar on standard error.

    Parameters
    ----------
    unit:
        What is counted.
    forecast:
        Whether to show the time that is left.

    >>> from comband.page.progress import progress_bar
    >>> with progress_bar() as bar:
    ...     task = bar.add_task("rounds", total=2)
    ...     bar.update(task, advance=2)
    ...
    >>> bar.finished
    True
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn(f"{{task.completed:,.0f}} {unit}:"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR),
        *([TimeRemainingColumn()] if forecast else []),
        console=Console(stderr=True),
    )
