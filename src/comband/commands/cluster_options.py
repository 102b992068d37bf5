"""The options of every command that can work on a cluster, and what it tells meanwhile and at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from comband.cluster import InProcess, Work, connect
from comband.commands.common import is_quiet, print_table, remarks, working

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Work on a Dask cluster: the scheduler's address, or local:N for N workers here; or on Spark: spark://….",
        show_default=False,
    ),
]


@contextmanager
def working_on(cluster: str | None, *, threads: bool = False) -> Iterator[Work]:
    """Where to work, with a line that says how far it is; at the end, what each worker of a cluster did.

    `threads` as for `connect`.
    """
    with working() as step:
        progress = _forecast(step)
        if cluster is None:
            yield InProcess(progress)
            return
        step(f"connecting to {cluster}")
        with connect(cluster, progress, threads=threads) as work:
            yield work
    if work.tallies and not is_quiet():
        rows = [
            (worker, f"{tally.parts:,}", f"{tally.rows:,}", f"{tally.seconds:.1f}")
            for worker, tally in sorted(work.tallies.items())
        ]
        print_table(remarks(), ("worker", "parts", "rows", "seconds"), rows)


def _forecast(step: Callable[[str], None]) -> Callable[[str, int, int], None]:
    """Tells how many parts are done and, from the pace so far, how long the others will take."""
    began: dict[str, float] = {}

    def progress(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        start = began.setdefault(what, now) if done else began.update({what: now}) or now
        left = f", about {_duration((now - start) / done * (total - done))} left" if 0 < done < total else ""
        step(f"{what}: {done:,} of {total:,} parts{left}")

    return progress


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
