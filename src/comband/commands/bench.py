"""`comband bench`: the benchmarks of a clone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from comband.commands.common import print_json
from comband.page.problem import InputError


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; all by default.", show_default=False)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The lines they print, as JSON.")] = False,
) -> None:
    """Run the benchmarks, in a clone of the repository: they are not part of the installed package.

    Example: comband bench evaluate --quick
    """
    folder = Path.cwd() / "benchmarks"
    if not (folder / "__main__.py").is_file():
        raise InputError(f"there is no folder benchmarks in {Path.cwd()}; run this in a clone of comband's repository.")
    there = sorted(path.stem for path in folder.glob("[!_]*.py"))
    if name is not None and name not in there:
        raise InputError(f"there is no benchmark {name!r}; there are {', '.join(there)}.")
    module = "benchmarks" if name is None else f"benchmarks.{name}"
    command = [sys.executable, "-m", module, *(["--quick"] if quick else [])]
    if not as_json:
        raise typer.Exit(subprocess.call(command))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print_json({"benchmark": name, "exit_code": done.returncode, "lines": done.stdout.splitlines()})
    raise typer.Exit(done.returncode)
