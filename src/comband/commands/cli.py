"""The command line: thin, no algorithm in it."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from comband.commands.common import Commands, Later

COMMANDS = {
    "demo": "Find the best of 200 candidates in a simulated shop, and see what other methods need.",
    "plan": "Forecast the rounds and days until the best candidate is known, for each method.",
    "evaluate": "Estimate every candidate from logged rounds, and name the best.",
    "sql": "Print the statements by which a log in a database is evaluated.",
    "design": "Design what to show next, so that every candidate can be estimated well.",
    "simulate": "Let a learner find the best of simulated candidates, and keep the log.",
    "certificate": "Check a certificate that a learner wrote.",
    "serve": "Serve decisions over HTTP, with a page to watch.",
    "token": "Create, list or revoke tokens of the service.",
    "repair": "Let the service's clock go on after it was set forward.",
    "reproduce": "Run every claim of the paper as an experiment, and write a report with verdicts.",
    "bench": "Run the benchmarks, in a clone of the repository.",
}
"""Each is the function of this name in `comband.commands.NAME`; here is what a list of them says."""

app = typer.Typer(
    cls=Commands,
    help="Find the best of many list recommenders with as few user interactions as possible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"comband {version('comband')}")
        raise typer.Exit


@app.callback()
def comband(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Do not show how far a command is; may also stand after the command.")
    ] = False,
) -> None:
    """Find the best of many list recommenders with as few user interactions as possible."""


for name, summary in COMMANDS.items():
    app.command(name, cls=Later, short_help=summary)(lambda: None)


def main() -> None:
    """Entry point of the `comband` command."""
    for stream in (sys.stdout, sys.stderr):  # characters that a terminal's encoding lacks are spelt out, no error
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
