"""Parquet, CSV and JSON-lines files, and data frames, as streams of columns, a batch at a time."""

from __future__ import annotations

import codecs
import csv
import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.json_lines import BATCH_ROWS, json_columns, numbered_records
from comband.evaluation.logs.no_propensities import PAGE
from comband.evaluation.logs.raw_files import check_file, kind_ending, open_bytes
from comband.page.frames import as_table, is_frame
from comband.page.text import missing_extra, shorten
from comband.page.threads import may_share

_CSV_BLOCK = 1 << 24
_SEPARATORS = (",", ";", "\t", "|")
_PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z", ".tar")
_LISTED = 12  # columns named in a message
# What columns tell, for messages about one that is missing.
MEANINGS = {
    "round": "which rows were shown together",
    "item": "what was shown",
    "reward": "what an item brought",
    "propensity": "the probability of what was shown",
    "candidate": "whose list it is",
    "context": "what the list is for",
}
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
    """A file, or a data frame, that can be read in batches.

    `names` are its columns (of its first records, for JSON lines), `scalars` those that surely hold no lists. `path` is
    what messages call it, `frame` the Arrow table of a data frame, and `own` what the file itself calls columns that go
    by another name here (`renamed`).
    """

    path: Path
    kind: str
    names: tuple[str, ...]
    scalars: frozenset[str] = frozenset()
    frame: Any = None
    own: tuple[tuple[str, str], ...] = ()

    def pieces(self, columns: Sequence[str], faults: Faults) -> Iterator[Piece]:
        """The rows that can be read, in order; those that cannot go into `faults`."""
        self.check_once(columns)
        own = dict(self.own)
        wanted = {name: own.get(name, name) for name in columns}
        for piece in self.own_pieces(list(dict.fromkeys(wanted.values())), faults):
            found = {name: piece.columns[there] for name, there in wanted.items()}
            if self.kind == "csv":
                found |= {name: _spelt_lists(found[name]) for name in _LIST_COLUMNS if name in found}
            yield Piece(piece.rows, found)

    def own_pieces(self, columns: list[str], faults: Faults) -> Iterator[Piece]:
        """The same by the names that the file itself has."""
        if self.frame is not None:
            return _frame_pieces(self.frame, columns)
        read = {"parquet": _parquet_pieces, "csv": _csv_pieces, "jsonl": _jsonl_pieces}[self.kind]
        return read(self.path, columns, faults)

    def called(self, name: str) -> str:
        """What the file itself calls a column."""
        return dict(self.own).get(name, name)

    def check_once(self, columns: Sequence[str]) -> None:
        """Refuse a file that has one of the columns twice."""
        for name in columns:
            if self.names.count(name) > 1:
                raise LogError(
                    f"{self.path} has {self.names.count(name)} columns {name}; each name must be there once."
                )

    def renamed(self, columns: Mapping[str, str]) -> Self:
        """The same table with some columns under other names, {here: in the file}.

        A name that the file has with numbers behind it (sku_1, sku_2, …) stands for all of these. A column of the file
        that was called as one of the new names before is out of sight.
        """
        own: dict[str, str] = {}
        for here, there in columns.items():
            numbered = [re.fullmatch(rf"{re.escape(there)}_?(\d+)", name) for name in self.names]
            if there in self.names:
                own[here] = there
            elif any(numbered):
                own |= {f"{here}_{found[1]}": found[0] for found in numbered if found}
            else:
                raise self.lacks(there, why=f"it was named for {here}")
        taken, before = set(own.values()), dict(self.own)
        kept = [name for name in self.names if name not in taken and name not in own]
        scalars = {name for name in kept if name in self.scalars} | {h for h, t in own.items() if t in self.scalars}
        known = {name: before[name] for name in kept if name in before}
        known |= {name: before.get(theirs, theirs) for name, theirs in own.items()}
        return replace(self, names=(*kept, *own), scalars=frozenset(scalars), own=tuple(known.items()))

    def lacks(
        self,
        column: str,
        *,
        why: str = "",
        names: Sequence[str] | None = None,
        used: Sequence[str] = (),
        part: str | None = None,
    ) -> LogError:
        """The refusal of a file without a column, once for all rows.

        `names` are those there are; the one that may be meant is not among the `used`. Where the column may go by
        another name the message says how to tell it, with what `--column` puts in front for this file: `part`.
        """
        own = [self.called(name) for name in self.names] if names is None else names
        there = [shorten(name, 60) or "(unnamed)" for name in own]
        likely = closest(column, [name for name in there if name not in used])
        listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
        named, column = "", shorten(column)
        if part is not None and there:
            named = f" (--column {part}{column}=NAME, columns={{{column!r}: NAME}} tell another name)"
        meant = "." if likely is None else f"; did you mean {likely}?"
        if likely is None and column.startswith("propensit"):
            meant += f" For a log without propensities see {PAGE}."
        tells = f"; it tells {MEANINGS[column]}" if part is not None and column in MEANINGS else ""
        return LogError(
            f"{self.path}: column {column} is missing{f' ({why})' if why else ''}{tells}; the file has: "
            f"{listed or 'no columns'}{named}{meant}"
        )


def open_table(source: Any) -> TableFile:
    """Look at a file or a data frame and learn its kind and columns."""
    if isinstance(source, TableFile):
        return source
    if is_frame(source):
        table = as_table(source)
        return TableFile(Path("the data frame"), "frame", tuple(table.column_names), _scalars(table.schema), table)
    path = check_file(source)
    suffix = kind_ending(path)
    kinds = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    kinds |= {".json": "jsonl", ".dsjson": "jsonl", ".tsv": "csv", ".tab": "csv", ".txt": "csv"}
    kind = kinds.get(suffix)
    if kind is None or (kind == "parquet" and path.suffix.lower() != suffix):
        raise LogError(
            f"{path} should end in .parquet, .csv, .tsv, .jsonl, .csv.gz or .jsonl.gz, so that its kind is known"
            f"{'; unpack it first' if suffix in _PACKED else ''}."
        )
    names, scalars = {"parquet": _parquet_names, "csv": _csv_names, "jsonl": _jsonl_names}[kind](path)
    if kind == "jsonl" and not names and _first_byte(path) == b"[":
        raise LogError(
            f"{path} is one JSON array; write one object per line (jq -c '.[]' {path.name} > log.jsonl, or "
            "to_json(…, orient='records', lines=True) in pandas)."
        )
    return TableFile(path, kind, tuple(names), frozenset(scalars))


def _first_byte(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


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
        raise LogError(missing_extra("reading and writing Parquet or CSV", "pyarrow", "logs")) from None
    return pyarrow


def _parquet_file(path: Path) -> Any:
    arrow()
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
    except Exception as error:  # for damaged files it raises whatever its parts raise
        raise LogError(f"{path} is not a complete Parquet file ({_first_line(error)}).") from None


def _parquet_names(path: Path) -> tuple[list[str], list[str]]:
    with _parquet_file(path) as file:
        try:
            schema = file.schema_arrow
            return list(schema.names), list(_scalars(schema))
        except Exception as error:
            raise LogError(f"{path} is not a complete Parquet file ({_first_line(error)}).") from None


def _scalars(schema: Any) -> frozenset[str]:
    return frozenset(field.name for field in schema if field.type.num_fields == 0)


def _frame_pieces(table: Any, columns: list[str]) -> Iterator[Piece]:
    first = 1
    for batch in table.select(columns).combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
        rows = np.arange(first, first + batch.num_rows, dtype=np.int64)
        yield Piece(rows, {name: batch.column(name) for name in columns})
        first += batch.num_rows


def _parquet_pieces(
    path: Path, columns: list[str], faults: Faults, *, groups: Sequence[int] | None = None, first: int = 1
) -> Iterator[Piece]:
    """All rows, or those of some groups of them, of which the first is row `first`."""
    with _parquet_file(path) as file:
        chosen = range(file.num_row_groups) if groups is None else groups
        promised = first - 1 + sum(file.metadata.row_group(group).num_rows for group in chosen)
        batches = None
        while True:
            try:
                if batches is None:
                    batches = file.iter_batches(
                        batch_size=BATCH_ROWS, row_groups=list(chosen), columns=columns, use_threads=may_share()
                    )
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)  # offsets and UTF-8: nothing later reads beyond what is there
            except Exception as error:
                raise LogError(f"{path} breaks off after row {first - 1:,} ({_first_line(error)}).") from None
            if batch is None:
                break
            rows = np.arange(first, first + batch.num_rows, dtype=np.int64)
            yield Piece(rows, {name: batch.column(name) for name in columns})
            first += batch.num_rows
    if first - 1 != promised:
        raise LogError(f"{path} breaks off after row {first - 1:,}; it should have {promised:,}.")


def _csv_names(path: Path) -> tuple[list[str], list[str]]:
    names = _csv_header(path)[0]
    return names, names


def _csv_header(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what separates them: a comma, or where there is none a semicolon, tab or bar."""
    with (
        open_bytes(path) as file,
        io.TextIOWrapper(file, newline="", encoding="utf-8-sig", errors="replace") as lines,
    ):
        try:
            header = next(csv.reader(lines, delimiter="\0", quoting=csv.QUOTE_NONE), [""])[0]
            for separator in _SEPARATORS:
                names = next(csv.reader([header], delimiter=separator), [])
                if len(names) > 1:
                    return names, separator
        except csv.Error as error:
            raise LogError(f"{path}: the header cannot be read as CSV ({error}).") from None
    return names, _SEPARATORS[0]


def _csv_pieces(path: Path, columns: list[str], faults: Faults) -> Iterator[Piece]:
    """Everything as text: types are checked later, row by row, where a message can name the row."""
    pa = arrow()
    import pyarrow.csv

    skipped: list[int] = []

    def refuse(row: Any) -> str:
        skipped.append(row.number - 1)  # the header is line 1
        text = f"{row.actual_columns} values where the header has {row.expected_columns}"
        faults.add("unreadable row", [(row.number - 1, "it is not UTF-8" if row.text == _NOT_UTF8 else text)])
        return "skip"

    looked, separator = _look(path), _csv_header(path)[1]
    first = 0
    with open_bytes(path) if looked.utf8 else _mended(path) as source:
        reader = None
        while True:
            try:
                if reader is None:
                    reader = pyarrow.csv.open_csv(
                        source,
                        # Only a reader of one thread knows the numbers of bad rows.
                        read_options=pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
                        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, invalid_row_handler=refuse),
                        convert_options=pyarrow.csv.ConvertOptions(
                            include_columns=columns,
                            column_types={name: pa.string() for name in columns},
                            strings_can_be_null=True,
                            null_values=[""],
                        ),
                    )
                batch = next(reader, None)
            except (pa.ArrowException, OSError) as error:
                raise LogError(f"{path} cannot be read as CSV ({_first_line(error)}).") from None
            if batch is None:
                break
            index = np.arange(first, first + batch.num_rows, dtype=np.int64)
            # The i-th good record comes after the j-th bad one when i reaches the number of good ones before it.
            bad = np.asarray(skipped, dtype=np.int64)
            rows = index + 1 + np.searchsorted(bad - 1 - np.arange(len(bad)), index, side="right")
            yield Piece(rows, {name: unmarked(batch.column(name)) for name in columns})
            first += batch.num_rows
    rows_read = first + len(skipped) + 1  # with the header
    # An open quotation mark takes in the lines that follow, until the next one: rows that would be gone unnoticed.
    if looked.quoted and (lines := _count_lines(path)) != rows_read:
        raise LogError(
            f"{path} has {lines:,} lines but {rows_read:,} rows: a quotation mark is never closed, or a value holds a "
            "line break; mend it, or write values with line breaks as .parquet or .jsonl."
        )


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one look at the bytes of a file tells."""

    quoted: bool
    utf8: bool


def _look(path: Path) -> _Looked:
    decoder = codecs.getincrementaldecoder("utf-8")()
    quoted, utf8 = False, True
    with open_bytes(path) as file:
        for block in iter(lambda: file.read(_CSV_BLOCK), b""):
            quoted = quoted or b'"' in block
            try:
                if utf8 and not (block.isascii() and decoder.getstate()[0] == b""):
                    decoder.decode(block)
            except UnicodeDecodeError:
                utf8 = False
    return _Looked(quoted, utf8 and decoder.getstate()[0] == b"")


_NOT_UTF8 = "\ufffd"


@contextmanager
def _mended(path: Path) -> Iterator[Any]:
    """A copy of a file where each row that is not UTF-8 has become one of a single value, `_NOT_UTF8`.

    Such a row has too few values. Arrow would stop at the first that is not UTF-8, or skip it without a word.
    """
    with open_bytes(path) as file, tempfile.TemporaryFile() as copy:
        header = True
        for line in file:
            for row in re.split(rb"([\r\n]+)", line):
                try:
                    row.decode()
                except UnicodeDecodeError:
                    row = row.decode(errors="replace").encode() if header else _NOT_UTF8.encode()
                copy.write(row)
                header = header and b"\n" not in row and b"\r" not in row
        copy.seek(0)
        yield copy


def _count_lines(path: Path) -> int:
    """How many lines of a file are not empty."""
    lines, ended = 0, True
    with open_bytes(path) as file:
        for block in iter(lambda: file.read(_CSV_BLOCK), b""):
            data = np.frombuffer(block, dtype=np.uint8)
            ends = (data == ord("\n")) | (data == ord("\r"))
            lines += int((~ends[1:] & ends[:-1]).sum()) + int(ended and not ends[0])  # something after an end
            ended = bool(ends[-1])
    return lines


def cast_where_possible(column: Any, kind: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The column as another type, null where that cannot be, and which entries those are.

    A cast fails as a whole, so halves are tried: every entry is judged as it would be alone.
    """
    pa = arrow()
    wrong = np.zeros(len(column), dtype=bool)
    parts = []
    pending = [(0, len(column))]
    while pending:
        start, end = pending.pop()
        try:
            parts.append(column.slice(start, end - start).cast(kind))
        except pa.ArrowInvalid:
            if end - start == 1:
                wrong[start] = True
                parts.append(pa.nulls(1, kind))
            else:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
    return pa.concat_arrays(parts) if parts else column.cast(kind), wrong


# What a spreadsheet takes for a formula when it stands first in a cell of a CSV file.
_FORMULA = "=+-@\t"
# Columns of lists, which a CSV file has as text: [1, 2, 3] or 1|2|3.
_LIST_COLUMNS = ("items", "rewards", "propensities", "positions", "first_propensities")


def _spelt_lists(column: Any) -> Any:
    """A column of text as lists of text; what is missing stays so.

    >>> _spelt_lists(["[3, 1]", "['tea', 'iced mocha']", "[0.5 0.25]", "a|b", "a"])
    [['3', '1'], ['tea', 'iced mocha'], ['0.5', '0.25'], ['a', 'b'], ['a']]
    """
    plain = column.to_pylist() if hasattr(column, "to_pylist") else column
    lists = [None if text is None else _spelt_list(text.strip()) for text in plain]
    return arrow().array(lists, type=arrow().list_(arrow().string())) if plain is not column else lists


def _spelt_list(text: str) -> list[str | None]:
    inside = text[1:-1].strip() if text[:1] + text[-1:] in ("[]", "()", "{}") else None
    if inside == "":
        return []
    if inside is None:
        parts = text.split("|" if "|" in text else ";")
    elif "," in inside:
        parts = next(csv.reader([inside.replace("'", '"')], skipinitialspace=True))
    else:
        parts = inside.split()
    bare = [part.strip().strip("'\"") for part in parts]
    return [None if part in ("", "None", "null", "nan") else part for part in bare]


_MARKED = re.compile(f"'+[{re.escape(_FORMULA)}]")


def marked(text: str) -> str:
    """Text as CSV files have it: with an apostrophe in front where a spreadsheet would take it for a formula.

    So that `unmarked` gives back what was there, text that begins like a marked one is marked once more; whole
    numbers, which are no danger, are left alone.

    >>> [marked(text) for text in ("=1+1", "'=1+1", "-5", "plain", "it's")]
    ["'=1+1", "''=1+1", '-5', 'plain', "it's"]
    """
    return f"'{text}" if _MARKED.match(f"'{text}") and not re.fullmatch(r"-\d+", text) else text


def unmarked(column: Any) -> Any:
    """A column of text from a CSV file without the marks of `marked`."""
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    return pc.replace_substring_regex(column, pattern=f"^'('*[{re.escape(_FORMULA)}])", replacement=r"\1")


def _jsonl_names(path: Path) -> tuple[list[str], list[str]]:
    names: dict[str, None] = {}
    for number, record in numbered_records(path):
        if isinstance(record, dict):
            names.update(dict.fromkeys(record))
        if number == _LOOKED_AT:
            break
    return list(names), []


def _jsonl_pieces(path: Path, columns: list[str], faults: Faults) -> Iterator[Piece]:
    for rows, found in json_columns(path, columns, faults):
        yield Piece(rows, found)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return shorten(lines[0].rstrip(".")) if lines else type(error).__name__
