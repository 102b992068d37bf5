"""`comband repair`: what an operator can put right in a store."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from comband.commands.common import console, print_json, print_table, remarks
from comband.page.problem import InputError, check_choice
from comband.page.text import missing_extra


def repair(
    what: Annotated[str, typer.Argument(help="clock (it was set forward), or restored (from a back-up).")],
    store: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://…; sqlite:///comband.db by default.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Let the clock of the decision service go on after it was set forward, once it is right again; or pause all
    experiments of a store that was restored from a back-up, so that no lost decision's number is given out again while
    its rewards may come.

    Example: comband repair clock --store sqlite:///experiments.db
    """
    try:
        from comband.serve.audit import COMMAND, record
        from comband.serve.database import StoreError
        from comband.serve.journal import Journal
        from comband.serve.repairing import pause_all, repair_clock
        from comband.serve.settings import settings
        from comband.serve.stores import open_database
    except ImportError as error:
        raise InputError(f"{missing_extra('the service', 'more packages', 'serve')} ({error}).") from None
    check_choice("what", what, ("clock", "restored"))
    found = settings(None, os.environ, store=store)
    journal = Journal(open_database(found.store), found.environment)
    try:
        journal.database.migrate()
        if what == "restored":
            with journal.database.transaction():
                paused = pause_all(journal)
            _say_paused(paused, as_json)
            return
        with journal.database.transaction():
            done = repair_clock(journal)
            if done:
                record(journal, COMMAND, "clock repaired", detail={"experiments": [one.experiment for one in done]})
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


def _say_paused(names: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"paused": names})
    else:
        remarks().print(f"Paused: {', '.join(names) or 'none was running'}. Resume each when its window is over.")
