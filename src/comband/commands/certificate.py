"""`comband certificate`: check a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from comband.certify.verify import verify
from comband.commands.common import console, print_json
from comband.page.problem import InputError


def certificate(
    file: Annotated[Path, typer.Argument(help="What learner.certificate or simulate --certificate wrote.")],
    head: Annotated[
        list[str] | None,
        typer.Option(help="A head of its chain that was published; may be given several times.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Check a certificate: what is claimed, what was checked and what was not; ends with 1 if it is refused. The
    program that does it is in every certificate too, and needs nothing of comband.

    Example: comband certificate certificate.zip --head 5f0c…
    """
    if not file.is_file():
        raise InputError(f"there is no file {str(file)!r} to check.")
    report = verify(str(file), head)
    if as_json:
        names = ("verified", "reason", "claim", "checked", "not_checked", "warnings")
        print_json({name: getattr(report, name) for name in names})
    else:
        console().print("\n".join(report.lines()), soft_wrap=True, markup=False, highlight=False)
    if not report.verified:
        raise typer.Exit(1)
