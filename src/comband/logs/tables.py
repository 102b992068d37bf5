"""Parquet, CSV and JSON-lines files as streams of columns, a batch at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.logs.faults import Faults, LogError

BATCH_ROWS = 1 << 17
_CSV_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file: their numbers (from 1), and the asked columns as Arrow arrays or plain lists."""

    rows: NDArray[np.int64]
    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that can be read in batches; `names` are its columns (of its first record, for JSON lines)."""

    path: Path
    kind: str
    names: tuple[str, ...]

    def pieces(self, columns: Sequence[str], faults: Faults) -> Iterator[Piece]:
        """The rows that can be read, in order; those that cannot go into `faults`."""
        read = {"parquet": _parquet_pieces, "csv": _csv_pieces, "jsonl": _jsonl_pieces}[self.kind]
        yield from read(self.path, list(columns), faults)


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
    names = {"parquet": _parquet_names, "csv": _csv_names, "jsonl": _jsonl_names}[kind](path)
    return TableFile(path, kind, tuple(names))


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


def _parquet_names(path: Path) -> list[str]:
    with _parquet_file(path) as file:
        return list(file.schema_arrow.names)


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


def _csv_names(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return next(csv.reader(file), [])


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


def _jsonl_names(path: Path) -> list[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip():
                try:
                    record = json.loads(line)
                except ValueError:
                    return []
                return list(record) if isinstance(record, dict) else []
    return []


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
