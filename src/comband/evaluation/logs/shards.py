"""A log of many files, cut into shards: some groups of rows of one file, read apart from the others.

A log is a file, a folder, a pattern (`logs/2026-*/*.parquet`) or several of these. Folders are searched through; those
called `key=value` (hive partitions) give their files a column `key`. A shard is a path and numbers: its reader
opens the file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat
from comband.evaluation.logs.registry import find_format, metric_table, rename_columns
from comband.evaluation.logs.tables import Piece, TableFile, _parquet_file, _parquet_pieces, arrow, open_table
from comband.page.catalogue import spelt_numbers
from comband.page.frames import is_frame
from comband.page.metrics import Metric
from comband.page.problem import InputError

# Groups of rows are joined to shards of at least so many: less is not worth the telling of it.
SHARD_ROWS = 1 << 17
_ENDINGS = (".parquet", ".pq", ".csv", ".jsonl", ".tsv", ".tab", ".ndjson", ".json", ".dsjson")


@dataclass(frozen=True, slots=True)
class ShardTable(TableFile):
    """Some groups of rows of a Parquet file, from row `first_row` on; without `groups` all rows of a file of any kind.

    `hive` are columns that the names of its folders give, the same for all rows.
    """

    groups: tuple[int, ...] | None = None
    first_row: int = 1
    hive: tuple[tuple[str, str], ...] = ()

    def own_pieces(self, columns: list[str], faults: Faults) -> Iterator[Piece]:
        """The rows that can be read, in order, by the names that the file and its folders have."""
        hive = dict(self.hive)
        own = [name for name in columns if name not in hive]
        if self.groups is None:
            found = super(ShardTable, self).own_pieces(own, faults)
        else:
            found = _parquet_pieces(self.path, own, faults, groups=self.groups, first=self.first_row)
        for piece in found:
            fixed = {name: _constant(hive[name], len(piece), self.kind) for name in columns if name in hive}
            yield Piece(piece.rows, {**piece.columns, **fixed})


def _constant(value: str, n: int, kind: str) -> Any:
    return [value] * n if kind == "jsonl" else arrow().array([value] * n)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of a log; `rows` as the file says, None where it does not.

    `partition` is the key of the partition that it belongs to: a number or text, alike for all shards of a log.
    """

    number: int
    table: ShardTable
    format: LogFormat
    rows: int | None
    partition: int | str = 0

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return str(self.table.path)


def find_files(log: Any) -> list[Path]:
    """The files of a log: those named, and those in folders and patterns, sorted by their names."""
    given = [log] if isinstance(log, (str, os.PathLike)) else log
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable) or is_frame(given):
        hint = "; read a data frame by read_log(frame, candidates), or give it to evaluate" if is_frame(given) else ""
        raise InputError(f"a log must be a path, a pattern or several of them, got {type(log).__name__}{hint}.")
    files: list[Path] = []
    for part in given:
        if not isinstance(part, (str, os.PathLike)):
            raise InputError(
                f"a log must be a path, a pattern or several of them, got {type(part).__name__} among them."
            )
        path = Path(part)
        if path.is_dir():
            found = _files_in(path)
            if not found:
                raise LogError(f"{path} is a folder without {', '.join(_ENDINGS[:4])} files.")
        elif not path.exists() and glob.has_magic(str(part)):
            found = []
            for match in sorted(glob.glob(str(part), recursive=True)):
                found += _files_in(Path(match)) if Path(match).is_dir() else [Path(match)]
            if not found:
                raise LogError(f"no file is like {part}.")
        else:
            found = [path]
        files += found
    twice = {str(path) for path in files if files.count(path) > 1} if len(set(files)) < len(files) else set()
    if twice:
        raise LogError(f"{min(twice)} is named twice; each file counts once.")
    if not files:
        raise LogError("a log must have at least one file, got none.")
    return files


def _files_in(folder: Path) -> list[Path]:
    """What a folder holds, however deep; what begins with a dot or an underscore is left out."""
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in _ENDINGS
        and path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    return sorted(found)


def find_shards(
    log: Any,
    format: str | LogFormat = "auto",
    columns: Mapping[str, str] | None = None,
    partition: str | None = None,
) -> list[Shard]:
    """All shards of a log, in order; `columns` as for `read_log`, `partition` names folders (day=2026-01-01)."""
    shards: list[Shard] = []
    for path in find_files(log):
        plain = open_table(path)
        hive = tuple(
            (key, unquote(value)) for key, _, value in (part.partition("=") for part in path.parts[:-1]) if value
        )
        hive = tuple((key, value) for key, value in dict(hive).items() if key not in plain.names)
        fields = {name: getattr(plain, name) for name in TableFile.__dataclass_fields__}
        fields["names"] = (*plain.names, *(key for key, _ in hive))
        fields["scalars"] = plain.scalars | {key for key, _ in hive}
        kind, table = find_format(format, rename_columns(ShardTable(**fields, hive=hive), columns))
        for part, rows in _cut(table) if kind.row_by_row and table.kind == "parquet" else [(table, None)]:
            shards.append(Shard(len(shards), part, kind, rows))
    first = shards[0].format
    for shard in shards:
        if shard.format.name != first.name or shard.format.positional != first.positional:
            raise LogError(
                f"all files of a log must have one format, but {shards[0].name} is read as {first.name} and "
                f"{shard.name} as {shard.format.name}; name one (--format)."
            )
        if shard.format.rounds is not first.rounds:
            raise LogError(
                f"all files of a log must count positions alike, but {shards[0].name} and {shard.name} do not: one "
                "begins with 0, the other with 1."
            )
    return shards if partition is None else _partitioned(shards, partition)


def of_metric(shards: Sequence[Shard], metric: Metric) -> list[Shard]:
    """The same rounds with a metric's values for rewards."""
    return [
        replace(shard, table=metric_table(shard.table, metric), format=shard.format.in_units(metric.largest))
        for shard in shards
    ]


def _partitioned(shards: list[Shard], name: str) -> list[Shard]:
    """The shards with what their folders say of `name`."""
    found = [dict(shard.table.hive).get(name) for shard in shards]
    for shard, key in zip(shards, found, strict=True):
        if key is None:
            raise LogError(f"{shard.name} is in no folder {name}=…, which tells a file's partition; leave it out.")
    return [replace(shard, partition=key) for shard, key in zip(shards, partition_keys(found), strict=True)]


def partition_keys(values: Sequence[Any]) -> list[int | str]:
    """Keys of partitions in one form, so that they have an order: numbers if all are, otherwise text.

    >>> partition_keys(["10", "9"]), partition_keys(["2026-01-02", "x"])
    ([10, 9], ['2026-01-02', 'x'])
    """
    numbers, spelt = spelt_numbers(np.array([str(value) for value in values], dtype=object))
    return numbers.tolist() if spelt.all() else [str(value) for value in values]


def _cut(table: ShardTable) -> list[tuple[ShardTable, int | None]]:
    with _parquet_file(table.path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    parts: list[tuple[ShardTable, int | None]] = []
    start = 0
    for i in range(len(sizes)):
        rows = int(sum(sizes[start : i + 1]))
        if rows >= SHARD_ROWS or (i == len(sizes) - 1 and (rows or not parts)):
            first = int(ends[start] - sizes[start]) + 1
            parts.append((replace(table, groups=tuple(range(start, i + 1)), first_row=first), rows))
            start = i + 1
    return parts or [(table, 0)]
