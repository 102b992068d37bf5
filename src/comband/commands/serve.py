"""`comband serve`: the decision service."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from comband.commands.common import remarks
from comband.page.problem import InputError
from comband.page.text import missing_extra

if TYPE_CHECKING:
    from comband.serve.settings import Settings


def serve(
    store: Annotated[
        str | None,
        typer.Option(help="sqlite:///FILE or postgresql://…; sqlite:///comband.db by default.", show_default=False),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; 127.0.0.1 by default.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="8300 by default; 0 takes a free one.", show_default=False)] = None,
    is_open: Annotated[
        bool | None,
        typer.Option("--open", help="Ask for no tokens: for 127.0.0.1 only, and without a proxy.", show_default=False),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings as a TOML file.", show_default=False)] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(help="NAME=module:function of policies that the service itself asks.", show_default=False),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="Whose experiments of the store are served; default by default.", show_default=False),
    ] = None,
    learn: Annotated[
        bool | None, typer.Option(help="Whether this process may learn, or only decides.", show_default=False)
    ] = None,
    log: Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default=False)] = None,
    demo: Annotated[bool, typer.Option("--demo", help="With simulated visitors, to see how it looks.")] = False,
) -> None:
    """Serve decisions over HTTP: lists in, the list to show out, rewards whenever they come, and a page to watch.

    Example: comband serve --store sqlite:///experiments.db

    At its first start on a store it makes a token that may do everything, and shows it this once.

    Settings may also stand in the environment (COMBAND_SERVE_STORE, …) or in a TOML file; options win.
    """
    try:
        from comband.serve.running import serve as run
        from comband.serve.settings import settings
    except ImportError as error:
        raise InputError(f"{missing_extra('the service', 'more packages', 'serve')} ({error}).") from None
    entries = dict(one.partition("=")[::2] for one in models or ()) or None
    found = settings(
        config,
        os.environ,
        store=store,
        host=host,
        port=port,
        open=is_open,
        models=entries,
        learn=learn,
        log=log,
        environment=environment,
    )
    if demo and store is None and found.is_loopback:  # it holds nothing of any user
        found = replace(found, open=True)

    def say(address: str) -> None:
        if found.open:
            remarks().print("OPEN: no token is asked for; every program and user of this machine may do everything.")
        remarks().print(f"The page is at {address} (Ctrl-C stops).")

    def show_token(token: str) -> None:
        remarks().print("The first token, which may do everything; keep it, it is not shown again:")
        typer.echo(token)

    from comband.serve.database import StoreError

    try:
        if not demo:
            run(found, ready=say, show_token=show_token)
        else:
            _demo(found, partial(run, ready=say, show_token=show_token), temporary=store is None)
    except StoreError as error:
        raise InputError(str(error)) from None


def _demo(found: Settings, run: Callable[..., None], *, temporary: bool) -> None:
    from comband.serve.demo import visitors

    if not temporary:
        run(found, beside=visitors)
        return
    with tempfile.TemporaryDirectory(prefix="comband-demo-") as folder:
        run(replace(found, store=f"sqlite:///{folder}/demo.db"), beside=visitors)
