"""`comband reproduce`: the paper's claims as experiments, with a report."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from comband.cluster.connecting import client_of
from comband.commands.cluster_options import ClusterOption
from comband.commands.common import console, is_quiet, print_json, say
from comband.page.problem import InputError
from comband.page.text import visible
from comband.paper import all_claims
from comband.paper import reproduce as run_claims

QUICK_SECONDS = 280.0  # of processor time: with figures and report, five minutes of one core


def reproduce(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Small runs, for up to five minutes of processor time; what does not fit is named, and the same "
            "command goes on with it.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Where results, figures and report.html go.")] = Path("reproduction"),
    data: Annotated[Path | None, typer.Option(help="A folder of multi-label data, NAME_X.npz and NAME_Y.npz.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run this claim only; may be given several times.")] = None,
    workers: Annotated[int, typer.Option(help="How many processes.")] = 2,
    cluster: ClusterOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The verdicts as JSON.")] = False,
) -> None:
    """Run every claim of the paper as an experiment, with a verdict and a figure each, and write a report.

    May be stopped at any time; the same command goes on where it stopped.

    Example: comband reproduce --quick
    """
    claims = all_claims(data)
    unknown = sorted(set(only or ()) - {claim.name for claim in claims})
    if unknown:
        names = ", ".join(claim.name for claim in claims)
        raise InputError(f"only must name claims, got {unknown[0]!r}; there are: {names}.")
    chosen = [claim for claim in claims if not only or claim.name in only]
    shown = console()
    try:
        with nullcontext() if cluster is None else client_of(cluster) as client:
            findings = run_claims(
                chosen,
                out,
                quick=quick,
                workers=workers,
                client=client,
                progress=not is_quiet(),
                seconds=QUICK_SECONDS if quick else None,
            )
    except KeyboardInterrupt:
        say(f"What is done by now is kept in {visible(out / 'results')}; the same command goes on from there.")
        raise
    found = {finding.claim.name for finding in findings}
    left_out = [claim.name for claim in chosen if claim.name not in found]
    if as_json:
        verdicts = {finding.claim.name: str(finding.verdict) for finding in findings}
        print_json({"verdicts": verdicts, "left_out": left_out, "report": str(out / "report.html")})
        return
    for finding in findings:
        shown.print(f"{finding.verdict:<14} {visible(finding.claim.title)}", soft_wrap=True)
    if left_out:
        minutes = QUICK_SECONDS / 60
        shown.print(
            f"Left out after {minutes:.2g} minutes of processor time: {', '.join(left_out)}. The same command goes on "
            "with them.",
            soft_wrap=True,
        )
    shown.print(f"The report is {visible(out / 'report.html')}.", soft_wrap=True)
