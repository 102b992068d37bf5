"""All claims, run and written up."""

from __future__ import annotations

import json
import math
import platform
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from comband.page.problem import InputError
from comband.page.storage import write_text
from comband.paper.checks import judge
from comband.paper.claim import Claim, Task
from comband.paper.figures import check_can_draw, render
from comband.paper.report import Finding, write_report
from comband.paper.runner import run_tasks
from comband.paper.statistics import Estimate


def reproduce(
    claims: Sequence[Claim],
    out: Path,
    *,
    quick: bool = False,
    workers: int = 2,
    client: Any = None,
    progress: bool = False,
    seconds: float | None = None,
) -> list[Finding]:
    """Run the claims, or what is still missing of them, and write report.html, verdicts.json and the figures to `out`.

    With a `dask.distributed.Client` its cluster runs them, with the same results in the same order.
    Results lie in out/results, one file of JSON lines for each claim; a run that was interrupted goes on from there.

    Parameters
    ----------
    claims:
        What to run, such as `all_claims()`.
    out:
        The folder to write to.
    quick:
        Whether small plans are run, in minutes.
    workers:
        How many processes there are.
    client:
        A cluster, in place of processes of this machine.
    progress:
        Whether a bar is shown, on standard error; where that is no terminal, a line per minute.
    seconds:
        After so much processor time of its runs, no further run begins. Claims of which runs are then missing are left
        out; the next call goes on with them.

    >>> import pathlib, tempfile
    >>> from comband.paper import reproduce
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> reproduce([], folder, quick=True)  # all_claims() in place of [] takes some minutes
    []
    >>> sorted(path.name for path in folder.iterdir() if path.is_file())
    ['report.html', 'verdicts.json']
    """
    if len({claim.name for claim in claims}) != len(claims):
        raise InputError("claims must have distinct names.")
    check_can_draw()
    tasks = [task for claim in claims for task in claim.tasks(quick=quick)]
    bar: Progress | LinePerMinute | None = None
    if progress:
        bar = _progress_bar() if sys.stderr.isatty() else LinePerMinute(len(tasks))
    with bar if bar is not None else nullcontext():
        shown = bar.add_task("", total=len(tasks)) if isinstance(bar, Progress) else None

        def on_done(task: Task, fresh: bool) -> None:
            if isinstance(bar, LinePerMinute):
                bar.done(task.claim.name)
            elif bar is not None and shown is not None:
                bar.update(shown, advance=1, description=task.claim.name)

        records = run_tasks(tasks, out / "results", workers=workers, client=client, seconds=seconds, on_done=on_done)
    findings = []
    for claim in (claim for claim in claims if claim.name in records):
        verdict, answers = judge(claim.checks, records[claim.name])
        figure = out / "figures" / claim.name
        render(claim.draw, records[claim.name], figure)
        plan = claim.quick if quick else claim.full
        findings.append(Finding(claim, plan, verdict, answers, figure.with_suffix(".svg")))
    summaries = json.dumps([_summary(f) for f in findings], indent=2, allow_nan=False)
    write_text(out / "verdicts.json", summaries + "\n")
    write_report(findings, out / "report.html", how=_circumstances(quick))
    return findings


class LinePerMinute:
    """How far runs are, as a line on standard error every `every` seconds, whether or not one ended since."""

    def __init__(self, total: int, *, every: float = 60.0) -> None:
        self._total, self._every, self._done, self._what = total, every, 0, "starting"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._began = time.monotonic()

    def done(self, what: str) -> None:
        """One more run ended."""
        self._done, self._what = self._done + 1, what

    def line(self) -> str:
        """What is told."""
        minutes = (time.monotonic() - self._began) / 60
        return f"{self._done:,} of {self._total:,} runs done after {minutes:.1f} minutes ({self._what})"

    def _tell(self) -> None:
        while not self._stop.wait(self._every):
            print(self.line(), file=sys.stderr, flush=True)

    def __enter__(self) -> LinePerMinute:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        print(self.line(), file=sys.stderr, flush=True)


def _summary(finding: Finding) -> dict[str, object]:
    """Plain values; null for an open end of a range and for what could not be estimated."""
    checks = [
        {
            "check": a.check.text,
            "accepted": [_finite(end) for end in a.check.accepted],
            **_plain(a.estimate),
            "contrast": None if a.contrast is None else _plain(a.contrast),
            "verdict": a.verdict,
        }
        for a in finding.answers
    ]
    return {"claim": finding.claim.name, "verdict": finding.verdict, "checks": checks}


def _plain(estimate: Estimate) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in asdict(estimate).items()}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _circumstances(quick: bool) -> str:
    size = "The quick form of every experiment" if quick else "The full form of every experiment"
    return (
        f"{size}, by comband {version('comband')} with Python {platform.python_version()}, numpy {np.__version__} and "
        f"scipy {scipy.__version__}. The same settings and seeds give the same page."
    )


def _progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
