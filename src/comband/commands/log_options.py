"""The options of every command that reads a log and its candidates."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from comband.commands.common import remarks, working
from comband.evaluation.joining import is_factory
from comband.evaluation.logs import (
    CandidateLists,
    LogError,
    LogFormat,
    LogReading,
    read_candidates,
    read_log,
    read_predictions,
)
from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.keys import read_catalogue
from comband.evaluation.logs.listed import with_context
from comband.evaluation.logs.predictions import Predictions
from comband.evaluation.logs.raw_files import check_file
from comband.evaluation.logs.registry import describe_formats
from comband.evaluation.logs.runs import is_run
from comband.page.metrics import Metric
from comband.page.problem import InputError
from comband.page.segments import Segments
from comband.page.text import visible

LogArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Logged rounds: .parquet, .csv, .tsv, .jsonl or .dsjson files, folders or patterns.", show_default=False
    ),
]
OptionalLogArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Logged rounds: .parquet, .csv, .tsv, .jsonl or .dsjson files, folders or patterns; or --sql and --table.",
        show_default=False,
    ),
]
SqlOption = Annotated[
    str | None,
    typer.Option(
        "--sql",
        help="The database that the log is in: duckdb:, duckdb:///FILE, postgresql://…, spark:local[2] or spark://….",
        show_default=False,
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", help="Its table there, or a query in parentheses.", show_default=False),
]
CandidatesTableOption = Annotated[
    str | None,
    typer.Option(
        "--candidates-table",
        help="A table of that database with the candidates' lists: context, candidate, rank, item.",
        show_default=False,
    ),
]
PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition",
        help="What tells the day of a round: a column of the table, or folders of files (day=2026-01-01).",
        show_default=False,
    ),
]
OptionalCandidatesOption = Annotated[
    Path | None,
    typer.Option(
        "--candidates",
        "-c",
        help="File or folder with each candidate's list for each context; or module:factory, which makes policies.",
        show_default=False,
    ),
]
CandidatesOption = Annotated[
    Path,
    typer.Option(
        "--candidates",
        "-c",
        help="File or folder with each candidate's list for each context; or module:factory, which makes policies.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option("--format", help=f"{describe_formats()}; or module:NAME, a LogFormat to import."),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        help="Column (or several, repeated) with the context id; of candidates without a column context too.",
        show_default=False,
    ),
]
ActionsOption = Annotated[
    int | None,
    typer.Option("--n-actions", help="Items are the whole numbers 0 … N−1; others are faults.", show_default=False),
]
ItemsOption = Annotated[
    Path | None,
    typer.Option("--items", help="File with all items, one per line; others are faults.", show_default=False),
]
SparsityOption = Annotated[
    float | None,
    typer.Option(
        "--sparsity", help="At most this much reward in one round, if known (1: one click).", show_default=False
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="What the log calls its columns: item=sku,reward=clicked; candidates.context=user for the other file.",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    Path | None,
    typer.Option(
        "--columns",
        help="The same in a TOML file, in tables \\[log] and \\[candidates]; --column adds.",
        show_default=False,
    ),
]
FeaturesOption = Annotated[
    list[str] | None,
    typer.Option("--features", help="Column (or several) that policies are given as numbers.", show_default=False),
]
PlacesOption = Annotated[
    str | None,
    typer.Option(
        "--places",
        help='How places bear on rewards: "pairs" (in any way), or factors 1,0.6,0.3 of all; not at all otherwise.',
        show_default=False,
    ),
]
LawOption = Annotated[
    Path | None,
    typer.Option(
        "--law",
        help="For a log of totals: the mixture (from comband design) that drew its lists, instead of propensities.",
        show_default=False,
    ),
]
ListSizeOption = Annotated[
    int | None,
    typer.Option(
        "--list-size",
        help="For candidates given as TREC runs (.run, .res, a folder of them): how many documents are shown.",
        show_default=False,
    ),
]
OnErrorOption = Annotated[str, typer.Option("--on-error", help="refuse a log with faulty rows, or skip them.")]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What these options say together: how a command reads its files."""

    format: str
    context: list[str] | None
    column: list[str] | None
    columns: Path | None
    n_actions: int | None
    items: Path | None
    sparsity: float | None
    places: str | None
    on_error: str
    features: list[str] | None
    list_size: int | None = None

    def load(
        self,
        log: Path,
        candidates: Path,
        *,
        law: Path | None = None,
        rounds: bool = False,
        said: Path | None = None,
        metrics: Sequence[Metric] = (),
        segments: Segments | None = None,
    ) -> tuple[LogReading, Predictions | None]:
        """Read one file of each, telling on standard error how far it is; and the predictions, if there are any."""
        names = column_names(self.column or (), self.columns)
        with working() as step:
            step(f"reading {candidates.name}")
            lists = self.lists(candidates)
            reading = read_log(
                log,
                lists,
                format=imported(self.format),
                sparsity=self.sparsity,
                context=self.context or (),
                columns=names["log"],
                places=as_places(self.places),
                law=law,
                rounds=rounds,
                metrics=metrics,
                segments=segments,
                on_error=self.on_error,
                progress=lambda rows: step(f"reading {log.name}: {rows:,} rows"),
            )
            model = None if said is None else read_predictions(said, lists, columns=names["predictions"])
        for source in (lists.faults, reading.faults):
            print_faults(source)
        return reading, model

    def lists(self, candidates: Path) -> CandidateLists:
        """Read the candidates' lists."""
        return read_candidates(
            candidates,
            n_actions=self.n_actions,
            catalogue=None if self.items is None else read_catalogue(self.items),
            columns=with_context(
                candidates, column_names(self.column or (), self.columns)["candidates"], self.context or ()
            ),
            list_size=self.list_size,
            on_error=self.on_error,
        )

    def candidates(self, given: Path) -> str | CandidateLists:
        """What `evaluate_log` and `design_log` are given: a path or a factory; runs are read here."""
        if is_factory(str(given)) or not (given.exists() and is_run(given)):
            return str(given)
        return self.lists(given)

    def of_shards(self) -> dict[str, Any]:
        """The same for `evaluate_log` and `design_log`, but for places."""
        names = column_names(self.column or (), self.columns)
        return {
            "format": imported(self.format),
            "sparsity": self.sparsity,
            "context": self.context or (),
            "columns": names["log"],
            "list_columns": names["candidates"],
            "features": self.features or (),
            "n_actions": self.n_actions,
            "items": self.items,
            "on_error": self.on_error,
        }


def is_simple(log: list[Path], candidates: Path) -> bool:
    """Whether there is one file of each, to be read as they are."""
    return len(log) == 1 and log[0].is_file() and candidates.is_file()


def print_faults(source: Faults) -> None:
    """Remark on the rows that were left out of a file."""
    for line in source.describe():
        remarks().print(f"skipped in {visible(source.source)}: {line}", soft_wrap=True)


def column_names(given: Sequence[str], path: Path | None) -> dict[str, dict[str, str]]:
    """What --columns and --column say, {"log": {"item": "sku"}, "candidates": {…}}; the latter where both do."""
    names: dict[str, dict[str, str]] = {"log": {}, "candidates": {}, "predictions": {}}
    if path is not None:
        try:
            document = tomllib.loads(check_file(path).read_text(encoding="utf-8-sig"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise LogError(f"--columns {path} is no TOML file ({error}).") from None
        for part, table in document.items():
            if part not in names or not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
                raise LogError(f'--columns {path} must hold tables [log] and [candidates] of lines like item = "sku".')
            names[part] |= table
    for pair in (pair for text in given for pair in text.split(",")):
        ours, equals, theirs = (piece.strip() for piece in pair.partition("="))
        if not (ours and equals and theirs):
            raise LogError(f"--column takes pairs like item=sku,reward=clicked, got {pair!r}.")
        part, dot, name = ours.partition(".")
        if dot and part not in names:
            raise LogError(
                f"--column takes names of the log, or of the candidates as in candidates.item, got {ours!r}."
            )
        names[part if dot else "log"][name if dot else ours] = theirs
    return names


def as_places(text: str | None, option: str = "--places") -> str | list[float] | None:
    """What the option says: a word, or numbers with commas between them."""
    if text is None or text.replace("-", "").isalpha():
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must be a word, or one number for each place such as 1,0.6,0.3, got {text!r}."
        ) from None


def imported(format: str) -> str | LogFormat:
    """What `module:NAME` names; any other text as it is."""
    module, colon, name = format.partition(":")
    if not colon:
        return format
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise LogError(f"--format {format} names nothing that can be imported ({error}).") from None
    if not isinstance(found, LogFormat):
        raise LogError(f"--format {format} must name a LogFormat, got {type(found).__name__}.")
    return found
