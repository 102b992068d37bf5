"""`comband repair`: what an operator can put right in a store."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from comband.commands.common import console, print_json, print_table, remarks
from comband.problem import InputError, check_choice
from comband.text import missing_extra


def repair(
    what: Annotated[str, typer.Argument(help="clock: let a clock that was set forward go on from now.")],
    store: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://…; sqlite:///comband.db by default.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Let the clock of the decision service go on after it was set forward, once it is right again.

    Example: comband repair clock --store sqlite:///experiments.db
    """
    try:
        from comband.serve.database import StoreError
        from comband.serve.journal import Journal
        from comband.serve.repairing import repair_clock
        from comband.serve.settings import settings
        from comband.serve.stores import open_database
    except ImportError as error:
        raise InputError(f"{missing_extra('the service', 'more packages', 'serve')} ({error}).") from None
    check_choice("what", what, ("clock",))
    journal = Journal(open_database(settings(None, os.environ, store=store).store))
    try:
        journal.database.migrate()
        with journal.database.transaction():
            done = repair_clock(journal)
    except StoreError as error:
        raise InputError(str(error)) from None
    finally:
        journal.database.close()
    if as_json:
        names = ("experiment", "seconds", "decisions")
        print_json({"repaired": [{name: getattr(one, name) for name in names} for one in done]})
    elif done:
        rows = [(one.experiment, f"{one.seconds:,.1f}", f"{one.decisions:,}") for one in done]
        print_table(console(), ("experiment", "seconds ahead", "decisions with such times"), rows, texts=1)
    else:
        remarks().print("No clock is ahead: there is nothing to repair.")
