"""The log formats there are, by name, and which of them a file has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from comband.logs.faults import LogError
from comband.logs.formats import LogFormat
from comband.logs.impressions import BY_POSITION, IMPRESSIONS
from comband.logs.native import NATIVE
from comband.logs.obd import OPEN_BANDIT
from comband.logs.obp import SLATES
from comband.logs.tables import TableFile, closest
from comband.logs.totals import TOTALS
from comband.logs.vw import VOWPAL_WABBIT
from comband.problem import InputError

AUTO = "auto"
Table = TypeVar("Table", bound=TableFile)

# The first of those that fit a file alike is the one that is found.
_OWN = (NATIVE, IMPRESSIONS, BY_POSITION, OPEN_BANDIT, SLATES, VOWPAL_WABBIT, TOTALS)
# Columns that some formats can do without, or have in another form.
_LISTED = (
    *("id", "context", "candidate", "position", "item", "items", "reward", "rewards", "propensity", "propensities"),
    *("list_propensity", "first_propensity", "first_propensities", "prediction"),
)
FORMATS: dict[str, LogFormat] = {kind.name: kind for kind in _OWN}


def register(format: LogFormat) -> LogFormat:
    """Make a format known by its name, to `read_log` and to commands of this process, and return it.

    One that was registered before under that name is replaced.

    >>> from comband.logs import LogFormat, register
    >>> _ = register(LogFormat("ads", lambda *_: iter(()), ("user", "ad"), "by the ad server"))
    >>> from comband.logs.registry import FORMATS
    >>> FORMATS.pop("ads").meaning
    'by the ad server'
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
    kind = _closest_format(table) if format == AUTO else FORMATS[format]
    if format == AUTO and kind.doubt is not None and (why := kind.doubt(table)):
        raise LogError(f"{table.path}: {why}")
    return kind.for_file(table)


def _closest_format(table: TableFile) -> LogFormat:
    """The format whose marker is there, or the one that lacks the smallest share of its columns.

    So one misspelt column does not make another format. Of those that lack nothing, the one that asks for all that the
    others ask for and more; if there is none, the user must say.
    """
    names = frozenset(table.names)
    for kind in FORMATS.values():
        if kind.marker in names:
            return kind

    def fit(kind: LogFormat) -> tuple[float, int]:
        needed = kind.needed(table.names)
        return len(needed & names) / max(len(needed), 1), len(needed & names)

    found = max(FORMATS.values(), key=fit)
    asked = found.needed(table.names)
    for other in FORMATS.values() if fit(found)[0] == 1 else ():
        if other is not found and fit(other)[0] == 1 and not other.needed(table.names) < asked:
            raise LogError(
                f"{table.path} may be of the format {found.name} or {other.name}, by its columns: say which (--format)."
            )
    return found


def rename_columns(table: Table, columns: Mapping[str, str] | None) -> Table:
    """The table with its columns under the names that the formats know, {name of the format: name of the source}."""
    if not columns:
        return table
    whole = isinstance(columns, Mapping) and all(isinstance(part, str) for pair in columns.items() for part in pair)
    if not whole:
        raise InputError(f"columns must map names to names, such as {{'item': 'sku'}}, got {columns!r}.")
    known = {*_LISTED, *(name for kind in FORMATS.values() for name in kind.needed(table.names))}
    for name in columns:
        if name not in known:
            likely = closest(name, sorted(known))
            meant = "" if likely is None else f"; did you mean {likely}?"
            raise InputError(f"no format has a column {name!r}: give the format's name first, as in item=sku{meant}")
    return table.renamed(columns)


def describe_formats() -> str:
    """All formats in a line, for help texts."""
    named = [f"{kind.name} ({kind.title})" if kind.title else kind.name for kind in FORMATS.values()]
    return f"{', '.join(named)} or {AUTO}"
