"""Running the code of a document: its python blocks in one namespace, its comband commands in between.

A command may end with 3, where a log decides nothing.

A block of output must be what the python block before it prints.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner

from comband.commands.cli import app

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(python|console|output)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """(language, code, line) of every block that is meant to run."""
    text = path.read_text(encoding="utf-8")
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in _BLOCK.finditer(text)]


def run_document(path: Path) -> int:
    """Run all blocks in the current folder, with no names but those the document makes; returns how many there were."""
    found = blocks(path)
    module = ModuleType("document")  # its classes can be pickled, as those of a script can
    namespace: dict[str, Any] = sys.modules.setdefault(module.__name__, module).__dict__
    try:
        _run_blocks(path, found, namespace)
    finally:
        del sys.modules[module.__name__]
    return len(found)


def _run_blocks(path: Path, found: list[tuple[str, str, int]], namespace: dict[str, Any]) -> None:
    printed = ""
    for language, code, line in found:
        if language == "output":
            assert code == printed, f"{path.name}, line {line}: this was printed instead:\n{printed}"
            continue
        if language == "python":
            with redirect_stdout(io.StringIO()) as stdout:
                # Padded with empty lines, so that an error points into the document.
                exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
            printed = stdout.getvalue()
            continue
        for command in code.splitlines():
            if not command.startswith("$ comband "):
                continue
            outcome = CliRunner().invoke(app, shlex.split(command)[2:])
            assert outcome.exit_code in (0, 3), f"{path.name}: {command}: {outcome.stderr}"
