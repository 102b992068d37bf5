"""What all commands share: data on standard output, everything else on standard error, errors in one sentence."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from comband.problem import InputError

REFUSED = 1


class Commands(TyperGroup):
    """Turns what the library refuses into one sentence and exit code 1; usage errors keep exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            message = str(error)
        except BrokenPipeError:  # somebody read enough, as in `comband … | head`
            raise
        except OSError as error:
            message = f"{error.filename or 'a file'}: {error.strerror or error}."
        typer.echo(f"comband: {message}", err=True)
        raise typer.Exit(REFUSED)


def console() -> Console:
    """Where tables go: standard output, never narrower than a table needs when nobody is looking."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=120)


def said() -> Console:
    """Where progress and remarks go."""
    return Console(stderr=True, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON document on standard output; floats in full, so that nothing is lost."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
