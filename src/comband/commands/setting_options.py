"""An option of a command for every setting that is declared."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import typer

from comband.commands.log_options import as_places
from comband.page.declaring import Declared, declared
from comband.page.problem import InputError

Command = Callable[..., None]


def with_settings(*specs: type, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Gives a command an option for each setting of these classes, but for some. The command is called with those that
    were said, by name, as its argument `settings`.
    """
    every = {name: one for spec in specs for name, one in declared(spec).items() if one.plain and name not in without}

    def wrap(command: Command) -> Command:
        def run(**given: Any) -> None:
            said = {name: _value(one, given.pop(name)) for name, one in every.items()}
            command(**given, settings={name: value for name, value in said.items() if value is not None})

        own = inspect.signature(command, eval_str=True).parameters
        options = {
            name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(one))
            for name, one in every.items()
        }
        mine = [one.replace(kind=one.KEYWORD_ONLY) for one in own.values() if one.name != "settings"]
        run.__signature__ = inspect.Signature([*mine, *options.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in (*mine, *options.values())}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return wrap


def _option(one: Declared) -> Any:
    kind: Any = str if one.setting.takes.kind in (list, dict) else one.setting.takes.kind
    said = f"{one.setting.says} ({'as JSON: ' if one.setting.takes.of is not None else ''}{one.words})"
    return Annotated[kind | None, typer.Option(help=said, show_default=False)]


def _value(one: Declared, given: Any) -> Any:
    if one.setting.takes.of is not None and given is not None:
        try:
            return one.check(json.loads(given))
        except json.JSONDecodeError as error:
            raise InputError(f"--{one.name.replace('_', '-')} must be JSON, {one.words}: {error}.") from None
    return as_places(given, f"--{one.name.replace('_', '-')}") if one.setting.takes.kind is list else given


def said_by(settings: Mapping[str, Any], spec: type) -> dict[str, Any]:
    """Those of the settings that this class declares."""
    return {name: value for name, value in settings.items() if name in declared(spec)}
