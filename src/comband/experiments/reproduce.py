"""All claims, run and written up."""

from __future__ import annotations

import json
import math
import platform
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

from comband.experiments.checks import judge
from comband.experiments.claim import Claim, Task
from comband.experiments.figures import check_can_draw, render
from comband.experiments.report import Finding, write_report
from comband.experiments.runner import run_tasks
from comband.experiments.statistics import Estimate
from comband.problem import InputError
from comband.storage import write_text


def reproduce(
    claims: Sequence[Claim],
    out: Path,
    *,
    quick: bool = False,
    workers: int = 2,
    client: Any = None,
    progress: bool = False,
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
        Whether a bar is shown, on standard error.

    >>> import pathlib, tempfile
    >>> from comband.experiments import reproduce
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
    bar = _progress_bar() if progress else None
    with bar if bar is not None else nullcontext():
        shown = None if bar is None else bar.add_task("", total=len(tasks))

        def on_done(task: Task, fresh: bool) -> None:
            if bar is not None and shown is not None:
                bar.update(shown, advance=1, description=task.claim.name)

        records = run_tasks(tasks, out / "results", workers=workers, client=client, on_done=on_done)
    findings = []
    for claim in claims:
        verdict, answers = judge(claim.checks, records[claim.name])
        figure = out / "figures" / claim.name
        render(claim.draw, records[claim.name], figure)
        plan = claim.quick if quick else claim.full
        findings.append(Finding(claim, plan, verdict, answers, figure.with_suffix(".svg")))
    summaries = json.dumps([_summary(f) for f in findings], indent=2, allow_nan=False)
    write_text(out / "verdicts.json", summaries + "\n")
    write_report(findings, out / "report.html", how=_circumstances(quick))
    return findings


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
