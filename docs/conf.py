"""Sphinx settings."""

from pathlib import Path

from typer.testing import CliRunner

import comband
from comband.cli import COMMANDS, app

project = "comband"
author = "The comband maintainers"
copyright = "2026, The comband maintainers"
version = release = comband.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 2
autodoc_typehints = "description"
autodoc_member_order = "bysource"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "comband"
nitpicky = False


def command_reference() -> str:
    """Every command's own --help, so that the page cannot drift from the program."""
    page = [
        "# Commands",
        "Data go to standard output, progress and remarks to standard error. Exit codes: 0 done, 1 the input was "
        "refused (one sentence says why), 2 the command was not understood.",
    ]
    for name, summary in sorted(COMMANDS.items()):
        text = CliRunner().invoke(app, [name, "--help"], prog_name="comband", env={"TERMINAL_WIDTH": "100"}).stdout
        page += [f"## comband {name}", summary, f"```text\n{text.strip()}\n```"]
    return "\n\n".join(page) + "\n"


Path(__file__).with_name("cli.md").write_text(command_reference(), encoding="utf-8")


def prepare(app, what, name, obj, options, lines):
    """An example is a section of its own; and |a|, the size of a set in our docstrings, would be a substitution."""
    first = next((i for i, line in enumerate(lines) if line.startswith(">>>")), None)
    if first is not None:
        lines[first:first] = ["Examples", "--------"]
    lines[:] = [line if "`" in line or ">>>" in line else line.replace("|", r"\|") for line in lines]


def setup(app):
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", prepare, priority=400)  # before numpy's sections are read
