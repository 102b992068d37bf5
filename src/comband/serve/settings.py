"""Settings: defaults, then one TOML file, then the environment, then options; the later one wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from comband.page.problem import InputError
from comband.page.text import quoted
from comband.policies.policy_set import PolicySet
from comband.serve.access import LOOPBACK, Access
from comband.serve.bounds import Bounds
from comband.serve.journal import ENVIRONMENT
from comband.serve.learners import Timing
from comband.serve.tokens import check_environment
from comband.serve.wire import Spec

PREFIX = "COMBAND_SERVE_"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service runs.

    store: `sqlite:///file` or `postgresql://…`. host, port: where it listens. open: whether no tokens are asked for,
    which is possible on loopback only. hosts: names by which it is reached ("*": any; without any, loopback's if it
    listens there, else all). proxies: addresses whose word on who asks is taken. learn: whether this process may learn.
    bounds: what is waited for at most, and how much is taken on; its fields are settings of their own, by their names.
    models: policies that the service itself asks, name → `module:function`. log: debug, info, warning or error.
    lease, poll, snapshot: seconds; see `Timing`. keep_alive: how long a connection stays open without a request, in
    seconds; longer than a proxy keeps it. environment: whose experiments of the store are served; those of others are
    not seen. retention_days: after how many days decisions that brought nothing are removed (0: never). experiments:
    those to be made at the start, unless they are there.
    """

    store: str = "sqlite:///comband.db"
    host: str = "127.0.0.1"
    port: int = 8300
    open: bool = False
    hosts: Sequence[str] = field(default_factory=list)
    proxies: Sequence[str] = field(default_factory=list)
    learn: bool = True
    log: str = "info"
    lease: float = 3.0
    poll: float = 0.5
    snapshot: float = 20.0
    bounds: Bounds = field(default_factory=Bounds)
    keep_alive: int = 75
    environment: str = ENVIRONMENT
    retention_days: float = 0.0
    models: Mapping[str, str] = field(default_factory=dict)
    experiments: Sequence[Spec] = field(default_factory=list)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    @property
    def access(self) -> Access:
        """Who may ask."""
        hosts: Sequence[str] | None = [*LOOPBACK, *(name.lower() for name in self.hosts)]
        if "*" in self.hosts or not (self.hosts or self.is_loopback):
            hosts = None
        return Access(is_open=self.open, hosts=hosts)

    @property
    def timing(self) -> Timing:
        """How often things are looked at."""
        return Timing(lease=self.lease, poll=self.poll, snapshot=self.snapshot)


def settings(file: str | os.PathLike[str] | None, variables: Mapping[str, str], **options: Any) -> Settings:
    """Settings from everywhere; `options` that are None were not given."""
    made = Settings()
    if file is not None:
        path = Path(file)
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not TOML: {error}.") from None
        if "experiments" in found:
            found["experiments"] = _specs(found["experiments"], str(path))
        made = _with(made, found, str(path))
    names = {f"{PREFIX}{name.upper()}": name for name in _defaults() if name not in _TABLES}
    unknown = [name for name in variables if name.startswith(PREFIX) and name not in names]
    if unknown:
        raise InputError(
            f"the environment has {unknown[0]}, which is no setting; there are {', '.join(sorted(names))}."
        )
    found = {names[name]: _parsed(names[name], text) for name, text in variables.items() if name in names}
    made = _with(made, found, "the environment")
    return _with(made, {name: value for name, value in options.items() if value is not None}, "the options")


def load_models(entries: Mapping[str, str]) -> dict[str, Any]:
    """Functions that make policies, by name, from `module:function`."""
    made: dict[str, Any] = {}
    for name, entry in entries.items():
        module, colon, function = entry.partition(":")
        try:
            call = getattr(import_module(module), function) if colon else None
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"the models {quoted(name)} cannot be imported from {quoted(entry)} ({error}).") from None
        policies = call() if callable(call) else None
        if not isinstance(policies, PolicySet):
            raise InputError(
                f"the models {quoted(name)} must be module:function of a function that returns a PolicySet."
            )
        made[name] = lambda policies=policies: policies
    return made


def _with(made: Settings, given: Mapping[str, Any], source: str) -> Settings:
    kinds = {name: type(value) for name, value in _defaults().items()}
    for name, value in given.items():
        if name not in kinds:
            raise InputError(f"{source} sets {quoted(name)}, which is no setting; there are {', '.join(kinds)}.")
        fits = isinstance(value, kinds[name]) and (kinds[name] is bool or not isinstance(value, bool))
        if not fits and not (kinds[name] is float and isinstance(value, int) and not isinstance(value, bool)):
            raise InputError(f"{source}: {name} must be {_WORDS[kinds[name]]}, got {quoted(value)}.")
    bounds = {name: value for name, value in given.items() if name in _BOUNDS}
    if any(value < 0 or (value == 0 and name != "commit_delay") for name, value in bounds.items()):
        raise InputError(f"{source}: {', '.join(bounds)} must be above 0.")
    own = {name: value for name, value in given.items() if name not in _BOUNDS}
    made = replace(made, **own, bounds=replace(made.bounds, **bounds))
    if not 0 <= made.port < 65536:
        raise InputError(f"{source}: port must lie in 0 … 65535, got {made.port}.")
    if made.log not in ("debug", "info", "warning", "error"):
        raise InputError(f"{source}: log must be debug, info, warning or error, got {quoted(made.log)}.")
    if min(made.lease, made.poll, made.snapshot) <= 0:
        raise InputError(f"{source}: lease, poll and snapshot must be above 0.")
    if not all(isinstance(entry, str) for entry in (*made.hosts, *made.proxies)):
        raise InputError(f"{source}: hosts and proxies must be lists of text.")
    if not 1 <= made.keep_alive <= 86400:
        raise InputError(f"{source}: keep_alive must lie in 1 … 86400 seconds, got {made.keep_alive}.")
    check_environment(made.environment)
    if not 0 <= made.retention_days <= 36_500:
        raise InputError(f"{source}: retention_days must lie in 0 … 36500, got {made.retention_days:g}.")
    if not all(isinstance(entry, str) for entry in made.models.values()):
        raise InputError(f"{source}: models must be text, module:function for each name.")
    return made


_BOUNDS = tuple(one.name for one in fields(Bounds))


def _defaults() -> dict[str, Any]:
    """All settings by name, those of `Bounds` among them."""
    made = Settings()
    own = {one.name: getattr(made, one.name) for one in fields(Settings) if one.name != "bounds"}
    return own | {name: getattr(made.bounds, name) for name in _BOUNDS}


_TABLES = ("models", "experiments")  # which only a file can hold


def _specs(given: Any, source: str) -> list[Spec]:
    """Experiments as a file states them: `[[experiments]]`, with the fields that a request to make one has."""
    try:
        return msgspec.convert(given, list[Spec])
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: experiments are not as they should be: {error}.") from None


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list"}


def _parsed(name: str, text: str) -> Any:
    kind = type(_defaults()[name])
    if kind is list:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    try:
        return text if kind is str else kind(text) if kind in (int, float) else text
    except ValueError:
        return text
