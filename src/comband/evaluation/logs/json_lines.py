"""JSON lines: an object on each line, whatever else may stand there."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.faults import Faults
from comband.evaluation.logs.raw_files import open_bytes
from comband.page.threads import may_share

BATCH_ROWS = 1 << 17
_BLOCK = 1 << 23
_PIECE = 1 << 19  # that Arrow reads at a time: so much stays at hand
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_NUMBER = re.compile(rb"[-:,\[\s](?:Inf|NaN)")
_MOST_LISTS = 64
_WHOLE = 2.0**53  # whole numbers from here on are not all there among doubles

Rows = NDArray[np.int64]


def json_columns(path: Path, columns: Sequence[str], faults: Faults) -> Iterator[tuple[Rows, dict[str, Any]]]:
    """Batches of (row numbers, columns by name) as Arrow arrays or plain lists; lines that are not objects go into
    `faults`.
    """
    first = 1
    for block in _blocks(path):
        found = _regular(block, columns)
        if found is None:
            records = list(_numbered(block, first))
            yield from (
                (rows, {name: [record.get(name) for record in some] for name in columns})
                for rows, some in _batches(records, faults)
            )
            n = records[-1][0] - first + 1 if records else 0
        else:
            n = len(next(iter(found.values())))
            yield np.arange(first, first + n, dtype=np.int64), found
        first += n


def json_records(path: Path, faults: Faults) -> Iterator[tuple[Rows, list[dict[str, Any]]]]:
    """Batches of (row numbers, objects) of a JSON-lines file; lines that are not objects go into `faults`."""
    return _batches(numbered_records(path), faults)


def numbered_records(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Number and object of each line that is not blank; in place of the object a text that says what is wrong."""
    first = 1
    for block in _blocks(path):
        for number, record in _numbered(block, first):
            yield number, record
            first = number + 1


def _blocks(path: Path) -> Iterator[bytes]:
    """Whole lines, some megabytes of them at a time."""
    with open_bytes(path) as file:
        mark = file.read(len(_BOM))
        start = b"" if mark == _BOM else mark
        while block := start + file.read(_BLOCK):
            yield block if block.endswith(b"\n") else block + file.readline()
            start = b""


def _batches(
    numbered: Iterator[tuple[int, dict[str, Any] | str]] | Sequence[tuple[int, dict[str, Any] | str]], faults: Faults
) -> Iterator[tuple[Rows, list[dict[str, Any]]]]:
    rows: list[int] = []
    records: list[dict[str, Any]] = []
    for number, record in numbered:
        if isinstance(record, str):
            faults.add("unreadable row", [(number, record)])
            continue
        rows.append(number)
        records.append(record)
        if len(rows) == BATCH_ROWS:
            yield np.asarray(rows, dtype=np.int64), records
            rows, records = [], []
    if rows:
        yield np.asarray(rows, dtype=np.int64), records


def _numbered(block: bytes, first: int) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Lines of a block that are not blank, the first of which is line `first`."""
    with io.TextIOWrapper(io.BytesIO(block), encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if not line.isspace():
                yield first, _object(line)
                first += 1


def _object(line: str) -> dict[str, Any] | str:
    if not line.isascii() and _SURROGATE.search(line):
        return "it is not UTF-8"
    try:
        record = json.loads(line)
        if "\\ud" in line or "\\uD" in line:  # escapes of surrogates, which are text only in pairs
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair, which is no text"
    except json.JSONDecodeError as error:
        return f"not JSON ({error})"
    except ValueError:
        return "a whole number has too many digits"
    except RecursionError:
        return "it is nested too deeply"
    return record if isinstance(record, dict) else f"a JSON object is needed, got {type(record).__name__}"


def _regular(block: bytes, columns: Sequence[str]) -> dict[str, Any] | None:
    """The columns by Arrow's own reader, which is many times as fast, if there is nothing that it might see otherwise:
    one object on each line, of numbers, texts and lists of these, and of each column all values of one type, none
    missing, lists of one length.
    """
    block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    block = block if block.endswith(b"\n") else block + b"\n"
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    n = len(ends)
    # With a brace at both ends of all lines and no others, there is one object on each, and none in it: of those, Arrow
    # would make a column for each name that occurs anywhere.
    opened, closed = data[np.append(0, ends[:-1] + 1)] == ord("{"), data[ends - 1] == ord("}")
    if not (opened.all() and closed.all()) or np.count_nonzero(data == ord("{")) != n:
        return None
    if not columns or b"\r" in block or _holds(block, b"\\ud", b"\\uD"):
        return None
    if _holds(block, b"Inf", b"NaN") and _NO_NUMBER.search(block):
        return None
    if not _few_lists(data, ends) or _has_long_number(data):
        return None
    try:
        import pyarrow as pa
        from pyarrow import json as arrow_json
    except ImportError:
        return None
    try:
        block.decode()
        longest = int(np.diff(ends, prepend=-1).max())
        reading = arrow_json.ReadOptions(use_threads=may_share(), block_size=max(_PIECE, longest + 1))
        table = arrow_json.read_json(pa.BufferReader(block), read_options=reading).combine_chunks()
        table.validate(full=True)
    except (UnicodeDecodeError, OverflowError, pa.ArrowException):
        return None
    if table.num_rows != n or any(table.column_names.count(name) != 1 for name in columns):
        return None
    if any(table.column(name).num_chunks != 1 for name in columns):
        return None
    found = {name: table.column(name).chunk(0) for name in columns}
    return found if all(map(_is_plain, found.values())) else None


def _holds(block: bytes, *words: bytes) -> bool:
    """Whether a block has one of these words; its first letter alone is found, or not, many times as fast."""
    return any(word[:1] in block and word in block for word in words)


def _few_lists(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> bool:
    """Whether lines begin as many lists as the first one, and not many: Arrow has no limit to how deep they may be."""
    before = np.searchsorted(np.flatnonzero(data == ord("[")), ends)
    here = np.diff(before, prepend=0)
    return bool(here[0] <= _MOST_LISTS and (here == here[0]).all())


def _has_long_number(data: NDArray[np.uint8]) -> bool:
    """Whether there may be one of more digits (4,300) than Python takes: then every hundredth byte is a digit."""
    others = np.flatnonzero(data[::100] - ord("0") > 9)  # without a sign: all other bytes are larger
    return bool(np.diff(others, prepend=-1, append=len(data[::100])).max() > 40)


def _is_plain(array: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.null_count:
        return False
    if pa.types.is_list(array.type):
        lengths, inside = pc.min_max(pc.list_value_length(array)).as_py(), array.flatten()
        return lengths["min"] == lengths["max"] and not pa.types.is_list(inside.type) and _is_plain(inside)
    if pa.types.is_float64(array.type):
        return bool(pc.all(pc.less(pc.abs(array), _WHOLE)).as_py())  # nor NaN
    return bool(pa.types.is_int64(array.type) or pa.types.is_string(array.type))
