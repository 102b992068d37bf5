"""`comband certificate`: check a certificate."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from comband.certify.verify import verify
from comband.commands.common import console, print_json
from comband.page.problem import InputError


def certificate(
    file: Annotated[
        str,
        typer.Argument(
            help="What learner.certificate or simulate --certificate wrote; or the address of an experiment of the "
            "service, http://127.0.0.1:8300/v1/experiments/NAME."
        ),
    ],
    head: Annotated[
        list[str] | None,
        typer.Option(help="A head of its chain that was published; may be given several times.", show_default=False),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="COMBAND_TOKEN", help="For a service that asks for one: its role is read."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Where to keep what the service sends.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Check a certificate: what is claimed, what was checked and what was not; ends with 1 if it is refused. The
    program that does it is in every certificate too, and needs nothing of comband.

    Example: comband certificate certificate.zip --head 5f0c…
    """
    with TemporaryDirectory() as folder:
        report = verify(str(_found(file, token, save or Path(folder) / "certificate.zip")), head)
    if as_json:
        names = ("verified", "reason", "claim", "checked", "not_checked", "warnings")
        print_json({name: getattr(report, name) for name in names})
    else:
        console().print("\n".join(report.lines()), soft_wrap=True, markup=False, highlight=False)
    if not report.verified:
        raise typer.Exit(1)


def _found(file: str, token: str | None, path: Path) -> Path:
    """Where the certificate is; one of the service is written to the path."""
    if not file.startswith(("http://", "https://")):
        if not Path(file).is_file():
            raise InputError(f"there is no file {file!r} to check.")
        return Path(file)
    try:
        from comband.serve.client import Client, ServiceError
    except ImportError:
        raise InputError(
            "addresses need comband with its service: pip install 'comband[serve]' "
            "(pip install -e '.[serve]' in a clone)."
        ) from None
    import httpx

    address, marked, name = file.removesuffix("/certificate").rpartition("/v1/experiments/")
    if not marked or not name:
        raise InputError(f"the address of an experiment ends with /v1/experiments/NAME, got {file!r}.")
    try:
        with Client(address, token=token, timeout=600.0) as client:
            path.write_bytes(client.certificate(name))
    except ServiceError as error:
        raise InputError(f"the service has no certificate of {name!r} now: {error}") from None
    except httpx.HTTPError as error:
        raise InputError(f"the service at {address} does not answer ({error}).") from None
    return path
