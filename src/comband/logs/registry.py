"""The log formats there are, by name, and which of them a file has."""

from __future__ import annotations

from comband.logs.formats import LogFormat
from comband.logs.native import NATIVE
from comband.logs.obd import OPEN_BANDIT
from comband.logs.obp import SLATES
from comband.logs.tables import TableFile
from comband.logs.vw import VOWPAL_WABBIT
from comband.problem import InputError

AUTO = "auto"

# The first of those that fit a file alike is the one that is found.
_OWN = (NATIVE, OPEN_BANDIT, SLATES, VOWPAL_WABBIT)
FORMATS: dict[str, LogFormat] = {kind.name: kind for kind in _OWN}


def register(format: LogFormat) -> LogFormat:
    """Make a format known by its name, to `read_log` and to commands of this process, and return it.

    One that was registered before under that name is replaced.
    """
    if not isinstance(format, LogFormat):
        raise InputError(f"a format must be a LogFormat, got {type(format).__name__}.")
    if format.name in (AUTO, *(kind.name for kind in _OWN)):
        raise InputError(f"a format must have a name of its own, got {format.name!r}, which is taken.")
    FORMATS[format.name] = format
    return format


def find_format(format: str | LogFormat, table: TableFile) -> LogFormat:
    """How a file is read: as the format that is given or named, or as the one that its columns fit best."""
    if isinstance(format, LogFormat):
        return format.for_file(table)
    if not isinstance(format, str) or format not in (AUTO, *FORMATS):
        raise InputError(f"format must be one of {', '.join((AUTO, *FORMATS))}, got {format!r}.")
    return (_closest_format(table) if format == AUTO else FORMATS[format]).for_file(table)


def _closest_format(table: TableFile) -> LogFormat:
    """The format whose marker is there, or the one that lacks the smallest share of its columns.

    So one misspelt column does not make another format. Of those that lack nothing, the one that asks for most.
    """
    names = frozenset(table.names)
    for kind in FORMATS.values():
        if kind.marker in names:
            return kind

    def fit(kind: LogFormat) -> tuple[float, int]:
        needed = kind.needed(table.names)
        return len(needed & names) / max(len(needed), 1), len(needed & names)

    return max(FORMATS.values(), key=fit)


def describe_formats() -> str:
    """All formats in a line, for help texts."""
    named = [f"{kind.name} ({kind.title})" if kind.title else kind.name for kind in FORMATS.values()]
    return f"{', '.join(named)} or {AUTO}"
