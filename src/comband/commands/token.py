"""`comband token`: who may use the service."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from comband.commands.common import console, print_json, print_table, remarks
from comband.page.problem import InputError, check_choice
from comband.page.text import missing_extra


def token(
    action: Annotated[str, typer.Argument(help="create, list or revoke.")],
    number: Annotated[str | None, typer.Argument(help="The id of the token to revoke.", show_default=False)] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(help="decide, reward, read or admin (which may do all); may be repeated.", show_default=False),
    ] = None,
    name: Annotated[str, typer.Option(help="What the token is for.")] = "unnamed",
    environment: Annotated[
        str | None,
        typer.Option(help="For which environment of the store; * for all; default by default.", show_default=False),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://…; sqlite:///comband.db by default.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Create, list or revoke tokens of the decision service; a new one is shown once, and only its hash is kept.

    Example: comband token create --role decide --role reward --name website --store sqlite:///experiments.db
    """
    try:
        from comband.serve.database import StoreError
        from comband.serve.journal import Journal
        from comband.serve.settings import settings
        from comband.serve.stores import open_database
        from comband.serve.tokens import all_tokens, create_token, revoke_token
    except ImportError as error:
        raise InputError(f"{missing_extra('the service', 'more packages', 'serve')} ({error}).") from None
    check_choice("action", action, ("create", "list", "revoke"))
    found = settings(None, os.environ, store=store)
    journal = Journal(open_database(found.store), found.environment)
    try:
        journal.database.migrate()
        if action == "create":
            with journal.database.transaction():
                made = create_token(journal, name, role or [], environment=environment)
            remarks().print("Keep it; it is not shown again:")
            if as_json:
                print_json({"token": made})
            else:
                typer.echo(made)
        elif action == "revoke":
            if number is None:
                raise InputError("say which token: comband token revoke ID (comband token list shows the ids).")
            with journal.database.transaction():
                revoke_token(journal, number)
            remarks().print(f"{number} is revoked.")
            if as_json:
                print_json({"revoked": number})
        else:
            rows = [
                (one.id, one.name, one.environment, " ".join(sorted(one.roles)), "revoked" if one.revoked else "")
                for one in all_tokens(journal).values()
            ]
            if as_json:
                names = ("id", "name", "environment", "roles", "state")
                print_json({"tokens": [dict(zip(names, row, strict=True)) for row in rows]})
            else:
                print_table(console(), ("id", "name", "environment", "roles", ""), rows, texts=5)
    except StoreError as error:
        raise InputError(str(error)) from None
    finally:
        journal.database.close()
