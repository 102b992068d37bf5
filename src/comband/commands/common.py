"""What all commands share: data on standard output, everything else on standard error, errors in one sentence.

Names, ids and paths come from outside: everything shown goes through `console`, `remarks` and `table`, which take text
as text (nothing is markup) and spell out control characters.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from comband.page.text import visible

REFUSED = 1
UNDECIDED = 3  # `Verdict.exit_code`: leading, or cannot tell
INTERRUPTED = 130  # as shells have it
_QUIET = "--quiet"
_quiet = False
_NARROWEST = 8  # of a column with text
_options: dict[str, str] = {}  # of the command that runs, by the names of its arguments
# What the library calls some of them.
_OPTIONS = {
    "n_actions": "items",
    "list_size": "slots",
    "n_policies": "candidates",
    "max_reward": "sparsity",
    "n_rounds": "rounds",
}

# Typer has click's errors or its own, by version; what a user typed wrongly is the parent of this one in both.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """Turns what the library refuses into one sentence and exit code 1; usage errors keep exit code 2."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **kwargs: Any) -> Any:
        """Take the arguments apart; --quiet may stand before the command or after it."""
        global _quiet
        _quiet = _QUIET in args
        with _readable_usage_errors():
            return super().make_context(info_name, [part for part in args if part != _QUIET], *more, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from comband.page.problem import InputError  # here: help is shown without numpy

        try:
            with _readable_usage_errors():
                return super().invoke(ctx)
        except InputError as error:
            message = _with_options(str(error))
        except KeyboardInterrupt:
            typer.echo("comband: stopped.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader has enough, as in `comband … | head`
            raise
        except OSError as error:
            message = f"{error.filename or 'a file'}: {error.strerror or error}."
        except MemoryError as error:
            message = f"this does not fit into memory ({error or 'nothing is left'}); give smaller sizes."
        typer.echo(f"comband: {visible(message)}", err=True)
        raise typer.Exit(REFUSED)


class Later(TyperCommand):
    """The command of `comband.commands.NAME`, whose module is loaded when it is run or asked for its help."""

    def make_context(self, info_name: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the arguments apart, as the command itself does."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name)(getattr(import_module(f"comband.commands.{self.name}"), str(self.name)))
        command = typer.main.get_command(app)
        _options.clear()
        _options.update({str(option.name): option.opts[0] for option in command.params if option.opts})
        return command.make_context(info_name, *args, **kwargs)


def _with_options(message: str) -> str:
    """A refusal that names arguments, with the options in their place that a user typed.

    The first word may be any argument; further on only the library's own names (n_actions=3) are surely meant.
    """
    name, space, rest = message.partition(" ")
    own = "|".join(_OPTIONS)
    return _option(name) + space + re.sub(rf"(?<![-\w])(?:{own})(?!\w)", lambda found: _option(found[0]), rest)


def _option(name: str) -> str:
    option = _options.get(name) or _options.get(_OPTIONS.get(name, ""))
    return option if option is not None and option.startswith("--") else name


@contextmanager
def _readable_usage_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = visible(error.message)
        raise


class _PlainConsole(Console):
    """Shows strings as they are: no markup, no emoji codes, and nothing that a terminal would obey."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Every string that is printed comes by here, cells of tables too."""
        return super().render_str(visible(text, keep="\n"), **settings)


def console() -> Console:
    """Where tables go: standard output, as wide as COLUMNS says, or never too narrow where there is no terminal."""
    out = _PlainConsole()
    return out if out.is_terminal or os.environ.get("COLUMNS", "").isdecimal() else _PlainConsole(width=120)


def remarks() -> Console:
    """Where progress and remarks go."""
    return _PlainConsole(stderr=True)


def say(text: str) -> None:
    """A remark, on standard error."""
    if not is_quiet():
        remarks().print(text, soft_wrap=True)


def can_write(path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work is done that it is for."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def is_quiet() -> bool:
    """Whether progress is not to be shown."""
    return _quiet


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being done; call what is yielded with its text."""
    if is_quiet():
        yield lambda _text: None
        return
    with remarks().status(Text("")) as status:
        yield lambda text: status.update(Text(visible(text)))


@contextmanager
def stoppable(what: str) -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop after the work at hand instead of ending everything; a second one does end it.

    Call what is yielded to know whether it was asked; `what` says what will be kept.
    """
    asked = False

    def ask(_signal: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        remarks().print(f"\nStopping; {what}. Once more ends at once.")

    if threading.current_thread() is not threading.main_thread():  # signals reach only that one
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def print_table(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
    """A table whose first `texts` columns hold text and fold where it is long; the others hold numbers.

    No number is ever cut: where they do not fit beside each other, each row becomes a paragraph.
    """
    made = Table(header_style="bold", box=None, pad_edge=False)
    widths = [max(map(len, [*name.split(), *(row[i] for row in rows)])) for i, name in enumerate(columns)]
    for i, name in enumerate(columns):
        if i < texts:
            made.add_column(name, overflow="fold")
        else:
            made.add_column(name, justify="right", min_width=widths[i])
    for row in rows:
        made.add_row(*(visible(cell) for cell in row))
    if sum(widths[texts:]) + texts * _NARROWEST + 2 * len(columns) <= out.width:
        out.print(made)
        return
    for row in rows:
        out.print(visible(row[0]))
        for name, cell in list(zip(columns, row, strict=True))[1:]:
            out.print(f"  {name}: {visible(cell)}")


def print_json(value: dict[str, Any]) -> None:
    """One JSON document on standard output: strict, with null for what is no finite number; floats in full."""
    document = json.dumps(_strict(value), indent=2, ensure_ascii=False, allow_nan=False)
    # What json leaves as it is though a terminal would obey it can only stand in a string, where an escape is as good.
    typer.echo(re.sub(r"[^\n -~]", _json_escape, document))


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json_escape(found: re.Match[str]) -> str:
    character = found[0]
    return character if visible(character) == character else json.dumps(character)[1:-1]
