"""Parquet, CSV and JSON-lines files as streams of columns, a batch at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.logs.faults import Faults, LogError

BATCH_ROWS = 1 << 17
_CSV_BLOCK = 1 << 24
_LISTED = 12  # columns named in a message
_LOOKED_AT = 100  # records of a JSON-lines file that tell its columns


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file: their numbers (from 1), and the asked columns as Arrow arrays or plain lists."""

    rows: NDArray[np.int64]
    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that can be read in batches.

    `names` are its columns (of its first records, for JSON lines), `scalars` those that surely hold no lists.
    """

    path: Path
    kind: str
    names: tuple[str, ...]
    scalars: frozenset[str] = frozenset()

    def pieces(self, columns: Sequence[str], faults: Faults) -> Iterator[Piece]:
        """The rows that can be read, in order; those that cannot go into `faults`."""
        read = {"parquet": _parquet_pieces, "csv": _csv_pieces, "jsonl": _jsonl_pieces}[self.kind]
        yield from read(self.path, list(columns), faults)

    def lacks(
        self, column: str, *, why: str = "", names: Sequence[str] | None = None, used: Sequence[str] = ()
    ) -> LogError:
        """The refusal of a file without a column, once for all rows.

        `names` are those there are; the one that may be meant is not among the `used`.
        """
        there = [name or "(unnamed)" for name in (self.names if names is None else names)]
        likely = closest(column, [name for name in there if name not in used])
        listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
        return LogError(
            f"{self.path}: column {column} is missing{f' ({why})' if why else ''}; "
            f"the file has: {listed or 'no columns'}{'.' if likely is None else f'; did you mean {likely}?'}"
        )


def open_table(path: str | Path) -> TableFile:
    """Look at a file and learn its kind and columns."""
    path = Path(path)
    if not path.is_file():
        raise LogError(f"there is no file {path}.")
    suffix = path.suffix.lower()
    kinds = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    kinds |= {".json": "jsonl", ".dsjson": "jsonl"}
    if suffix not in kinds:
        raise LogError(f"{path} should end in .parquet, .csv or .jsonl, so that its format is known.")
    if path.stat().st_size == 0:
        raise LogError(f"{path} is empty.")
    kind = kinds[suffix]
    names, scalars = {"parquet": _parquet_names, "csv": _csv_names, "jsonl": _jsonl_names}[kind](path)
    return TableFile(path, kind, tuple(names), frozenset(scalars))


def closest(name: str, names: Sequence[str], *, cutoff: float = 0.6) -> str | None:
    """The one that is spelt most like `name`, if any is.

    >>> closest("propensity_1", ["id", "Propensty_1"])
    'Propensty_1'
    """
    lower = {other.lower(): other for other in names}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=cutoff)
    return lower[found[0]] if found else None


def arrow() -> Any:
    """The pyarrow package, which only reading and writing files needs."""
    try:
        import pyarrow
    except ImportError:
        raise LogError(
            "reading and writing Parquet or CSV needs pyarrow, which is not installed; "
            "install it with: pip install 'comband[logs]'"
        ) from None
    return pyarrow


def _parquet_file(path: Path) -> Any:
    pa = arrow()
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise LogError(f"{path} is not a complete Parquet file ({_first_line(error)}).") from None


def _parquet_names(path: Path) -> tuple[list[str], list[str]]:
    with _parquet_file(path) as file:
        schema = file.schema_arrow
    return list(schema.names), [field.name for field in schema if field.type.num_fields == 0]


def _parquet_pieces(path: Path, columns: list[str], faults: Faults) -> Iterator[Piece]:
    pa = arrow()
    first = 1
    with _parquet_file(path) as file:
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowInvalid, OSError) as error:
                raise LogError(f"{path} breaks off after row {first - 1:,} ({_first_line(error)}).") from None
            if batch is None:
                return
            rows = np.arange(first, first + batch.num_rows, dtype=np.int64)
            yield Piece(rows, {name: batch.column(name) for name in columns})
            first += batch.num_rows


def _csv_names(path: Path) -> tuple[list[str], list[str]]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        names = next(csv.reader(file), [])
    return names, names


def _csv_pieces(path: Path, columns: list[str], faults: Faults) -> Iterator[Piece]:
    """Everything as text: types are checked later, row by row, where a message can name the row."""
    pa = arrow()
    import pyarrow.csv

    skipped: list[int] = []

    def refuse(row: Any) -> str:
        skipped.append(row.number - 1)  # the header is line 1
        text = f"{row.actual_columns} values where the header has {row.expected_columns}"
        faults.add("unreadable row", [(row.number - 1, text)])
        return "skip"

    try:
        reader = pyarrow.csv.open_csv(
            path,
            # Only a reader of one thread knows the numbers of bad rows.
            read_options=pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=refuse),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=columns,
                column_types={name: pa.string() for name in columns},
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        first = 0
        for batch in reader:
            index = np.arange(first, first + batch.num_rows, dtype=np.int64)
            # The i-th good record comes after the j-th bad one when i reaches the number of good ones before it.
            bad = np.asarray(skipped, dtype=np.int64)
            rows = index + 1 + np.searchsorted(bad - 1 - np.arange(len(bad)), index, side="right")
            yield Piece(rows, {name: batch.column(name) for name in columns})
            first += batch.num_rows
    except pa.ArrowInvalid as error:
        raise LogError(f"{path} cannot be read as CSV ({_first_line(error)}).") from None


def _jsonl_names(path: Path) -> tuple[list[str], list[str]]:
    names: dict[str, None] = {}
    looked_at = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                names.update(dict.fromkeys(record))
            looked_at += 1
            if looked_at == _LOOKED_AT:
                break
    return list(names), []


def _jsonl_pieces(path: Path, columns: list[str], faults: Faults) -> Iterator[Piece]:
    for rows, records in json_records(path, faults):
        yield Piece(rows, {name: [record.get(name) for record in records] for name in columns})


def json_records(path: Path, faults: Faults) -> Iterator[tuple[NDArray[np.int64], list[dict[str, Any]]]]:
    """Batches of (row numbers, objects) of a JSON-lines file; lines that are not objects go into `faults`."""
    rows: list[int] = []
    records: list[dict[str, Any]] = []
    number = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            number += 1
            try:
                record = json.loads(line)
            except ValueError as error:
                faults.add("unreadable row", [(number, f"not JSON ({error})")])
                continue
            if not isinstance(record, dict):
                faults.add("unreadable row", [(number, f"a JSON object is needed, got {type(record).__name__}")])
                continue
            rows.append(number)
            records.append(record)
            if len(rows) == BATCH_ROWS:
                yield np.asarray(rows, dtype=np.int64), records
                rows, records = [], []
    if rows:
        yield np.asarray(rows, dtype=np.int64), records


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
