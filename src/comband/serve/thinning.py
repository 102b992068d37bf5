"""A history that does not grow: the older, the coarser, as in a round-robin database.

Points of the last minute or so stay as they are, about one per second; of those before, the last in every 4 seconds, of
those before that the last in every 16, and so on: a constant number on every scale, some 400 for a week.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FINEST = 1000  # milliseconds
COARSER = 4
KEPT = 64  # points on a scale


def superfluous(times: Sequence[int]) -> list[int]:
    """Which of the points at these times, in their order, another one stands for; never the first or the last.

    Scales are nested, so that it makes no difference whether points are thinned often or at once.
    """
    newest, dropped = (times[-1] if times else 0), []
    for i in range(1, len(times) - 1):
        width = FINEST
        while newest - times[i] >= KEPT * width:
            width *= COARSER
        if times[i] // width == times[i + 1] // width:
            dropped.append(i)
    return dropped


def thin_points(database: Any, experiment: int) -> None:
    """Leave out of an experiment's points what others stand for; inside a transaction."""
    rows = database.run("SELECT position, time FROM points WHERE experiment = ? ORDER BY position", [experiment])
    gone = [(experiment, rows[i][0]) for i in superfluous([row[1] for row in rows])]
    if gone:
        database.run_many("DELETE FROM points WHERE experiment = ? AND position = ?", gone)
