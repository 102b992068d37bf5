"""The log formats there are, by name, and which of them a file has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.impressions import BY_POSITION, IMPRESSIONS, UNEVEN
from comband.evaluation.logs.native import NATIVE
from comband.evaluation.logs.no_propensities import no_propensities
from comband.evaluation.logs.obd import ONE_SLOT, OPEN_BANDIT
from comband.evaluation.logs.obp import SLATES
from comband.evaluation.logs.tables import TableFile, closest
from comband.evaluation.logs.totals import TOTALS
from comband.evaluation.logs.ubi import UBI, UBI_CARTS, UBI_PURCHASES
from comband.evaluation.logs.usual_names import USUAL_NAMES, usual_lists, usual_names
from comband.evaluation.logs.vw import VOWPAL_WABBIT
from comband.page.metrics import Metric
from comband.page.problem import InputError

AUTO = "auto"
_PROBABILITY = re.compile("prop|prob|pscore", re.IGNORECASE)  # columns that may be meant for one
Table = TypeVar("Table", bound=TableFile)

# The first of those that fit a file alike is the one that is found.
_OWN = (
    NATIVE,
    IMPRESSIONS,
    BY_POSITION,
    UNEVEN,
    ONE_SLOT,
    OPEN_BANDIT,
    SLATES,
    VOWPAL_WABBIT,
    TOTALS,
    UBI,
    UBI_CARTS,
    UBI_PURCHASES,
)
# Click logs, whose columns are known by their usual names too.
_CLICK_LOGS = frozenset(kind.name for kind in (IMPRESSIONS, BY_POSITION, UNEVEN, ONE_SLOT))
# Columns that some formats can do without, or have in another form.
_LISTED = (
    *("id", "context", "candidate", "position", "item", "items", "reward", "rewards", "propensity", "propensities"),
    *("list_propensity", "first_propensity", "first_propensities", "prediction"),
)
FORMATS: dict[str, LogFormat] = {kind.name: kind for kind in _OWN}


def register(format: LogFormat) -> LogFormat:
    """Make a format known by its name, to `read_log` and to commands of this process, and return it.

    One that was registered before under that name is replaced.

    >>> from comband.evaluation.logs import LogFormat, register
    >>> _ = register(LogFormat("ads", lambda *_: iter(()), ("user", "ad"), "by the ad server"))
    >>> from comband.evaluation.logs.registry import FORMATS
    >>> FORMATS.pop("ads").meaning
    'by the ad server'
    """
    if not isinstance(format, LogFormat):
        raise InputError(f"a format must be a LogFormat, got {type(format).__name__}.")
    if format.name in (AUTO, *(kind.name for kind in _OWN)):
        raise InputError(f"a format must have a name of its own, got {format.name!r}, which is taken.")
    FORMATS[format.name] = format
    return format


def find_format(format: str | LogFormat, table: Table) -> tuple[LogFormat, Table]:
    """How a file is read: as the format that is given or named, or as the one that its columns fit best.

    And the table, in which the columns of a click log that go by a usual name have the format's.
    """
    if isinstance(format, LogFormat):
        return format.for_file(table), table
    if not isinstance(format, str) or format not in (AUTO, *FORMATS):
        raise InputError(f"format must be one of {', '.join((AUTO, *FORMATS))}, got {format!r}.")
    if format == AUTO:
        kind, names = _closest_format(table)
    else:
        kind, names = FORMATS[format], usual_names(table) if format in _CLICK_LOGS else {}
        names = usual_lists(table) if kind is NATIVE else names
    if kind is not NATIVE:
        names = {ours: theirs for ours, theirs in names.items() if ours in (*kind.needed(table.names), "context")}
    table = table.renamed(names) if names else table
    if format == AUTO and kind.doubt is not None and (why := kind.doubt(table)):
        raise LogError(f"{table.path}: {why}")
    kind = kind.for_file(table)
    if names:
        told = ", ".join(f"{ours} is {theirs}" for ours, theirs in names.items())
        kind = replace(kind, meaning=f"{kind.meaning} (read as {kind.name}: {told})")
    return kind, table


def _closest_format(table: TableFile) -> tuple[LogFormat, dict[str, str]]:
    """The format whose marker is there, or the one that lacks the smallest share of its columns.

    So one misspelt column does not make another format. Of those that lack nothing, the one that asks for all that the
    others ask for and more; if there is none, the user must say. Where all lack something, click logs are looked for by
    the names that are usual, which are given too.
    """
    names = frozenset(table.names)
    formats = [kind for kind in FORMATS.values() if not kind.asked_for]
    click_logs = [kind for kind in formats if kind.name in _CLICK_LOGS]
    for kind in formats:
        if kind.markers & names:
            return kind, {}

    def fit(kind: LogFormat) -> tuple[float, int]:
        needed = kind.needed(table.names)
        return len(needed & names) / max(len(needed), 1), len(needed & names)

    found = max(formats, key=fit)
    if fit(found)[0] < 1:
        usual = usual_names(table)
        there = names | set(usual)
        clicks = [kind for kind in click_logs if kind.needed(table.names) <= there]
        if clicks:
            return max(clicks, key=lambda kind: len(kind.needed(table.names))), usual
        lists = table.renamed(usual_lists(table))
        if NATIVE.needed(lists.names) - {"context"} <= set(lists.names):  # which --context may name
            return NATIVE, usual_lists(table)
        if "item" in there and "reward" in there and not any(_PROBABILITY.search(name) for name in names):
            missing = f"no column is called {', '.join(USUAL_NAMES['propensity'][:4])} or the like"
            raise no_propensities(str(table.path), usual.get("item", "item"), usual.get("reward", "reward"), missing)
        likely = max(click_logs, key=lambda kind: len(kind.needed(table.names) & there) / len(kind.needed(table.names)))
        share = len(likely.needed(table.names) & there) / len(likely.needed(table.names))
        return (likely, usual) if share > fit(found)[0] else (found, {})
    asked = found.needed(table.names)
    for other in formats:
        if other is not found and fit(other)[0] == 1 and not other.needed(table.names) < asked:
            raise LogError(
                f"{table.path} may be of the format {found.name} or {other.name}, by its columns: say which (--format)."
            )
    return found, {}


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


def metric_table(table: Table, metric: Metric) -> Table:
    """The table with a metric's values, columns by its name, in the place of rewards."""
    return table.renamed({"rewards" if "rewards" in table.names else "reward": metric.name})


def describe_formats() -> str:
    """All formats in a line, for help texts."""
    named = [f"{kind.name} ({kind.title})" if kind.title else kind.name for kind in FORMATS.values()]
    return f"{', '.join(named)} or {AUTO}"
