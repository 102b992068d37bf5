"""The command line: thin, no algorithm in it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer

from comband.commands.bench import bench
from comband.commands.common import Commands
from comband.commands.demo import demo
from comband.commands.design import design
from comband.commands.evaluate import evaluate
from comband.commands.plan import plan
from comband.commands.reproduce import reproduce
from comband.commands.simulate import simulate

app = typer.Typer(
    cls=Commands,
    help="Find the best of many list recommenders with as few user interactions as possible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"comband {version('comband')}")
        raise typer.Exit


@app.callback()
def comband(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find the best of many list recommenders with as few user interactions as possible."""


for command in (demo, plan, evaluate, design, simulate, reproduce, bench):
    app.command()(command)


def main() -> None:
    """Entry point of the `comband` command."""
    for stream in (sys.stdout, sys.stderr):  # characters that a terminal's encoding lacks are spelt out, no error
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
