"""Data frames in and out: pandas, polars, pyarrow and whatever else speaks Arrow; none of them is needed otherwise.

A frame comes in through the Arrow PyCapsule interface (`__arrow_c_stream__`) as an Arrow table, rows of it are taken by
narwhals (the extra `frames`) in the frame's own kind, and results go out through `to_frame`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.page.problem import InputError, check_choice
from comband.page.text import missing_extra, visible

BACKENDS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
_SHOWN = 20  # rows of a table in a notebook


def is_frame(value: Any) -> bool:
    """Whether this is a data frame of some library (or a column of one, or an Arrow table); a lazy one is refused."""
    if any(hasattr(value, name) for name in ("__arrow_c_stream__", "__dataframe__")):
        return True
    if hasattr(value, "collect_schema") and hasattr(value, "collect"):
        raise InputError(f"a {type(value).__name__} has no rows yet: collect it first, frame.collect().")
    return False


def as_table(frame: Any) -> Any:
    """A frame as a `pyarrow.Table`, copied only where the frame is not held as Arrow columns."""
    try:
        import pyarrow as pa
    except ImportError:
        raise InputError(missing_extra("reading a data frame", "pyarrow", "logs")) from None
    try:
        table = pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else narwhal(frame).to_arrow()
        plain = pa.schema([pa.field(field.name, _plain_type(field.type)) for field in table.schema])
        return table if plain.types == table.schema.types else table.cast(plain)
    except OverflowError:
        raise InputError(
            "a data frame must have whole numbers that fit into 64 bits, got larger ones; give them as text."
        ) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = visible((str(error).splitlines() or [type(error).__name__])[0])
        raise InputError(
            f"a data frame must have columns of one type each, such as numbers, text or lists; Arrow says: {reason}"
        ) from None


def _plain_type(kind: Any) -> Any:
    """Text and lists as Arrow can sort and join them: the views that polars hands over have no such functions yet."""
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain_type(kind.value_type), kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _plain_type(kind.value_type)
        return kind if inner == kind.value_type else pa.large_list(inner)
    return kind


def narwhal(frame: Any) -> Any:
    """The frame, or column, behind narwhals' one interface to all kinds."""
    try:
        import narwhals as nw
    except ImportError:
        raise InputError(missing_extra("data frames as contexts", "narwhals", "frames")) from None
    try:
        return nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError:
        raise InputError(
            f"a data frame must be one of pandas, polars or pyarrow (or whatever narwhals knows), got "
            f"{type(frame).__name__}; a lazy one must be collected first."
        ) from None


def take_rows(frame: Any, index: NDArray[Any] | slice) -> Any:
    """The rows at `index` (integers, a mask or a slice), as a frame of the same kind."""
    if isinstance(index, slice):
        index = np.arange(row_count(frame))[index]
    index = np.asarray(index)
    return narwhal(frame)[np.flatnonzero(index) if index.dtype == bool else index].to_native()


def join_rows(frames: Sequence[Any]) -> Any:
    """Frames of one kind below one another."""
    import narwhals as nw

    parts = [narwhal(frame) for frame in frames]
    if isinstance(parts[0], nw.DataFrame):
        return nw.concat(parts).to_native()
    return nw.concat([part.to_frame() for part in parts])[parts[0].name].to_native()


def row_count(frame: Any) -> int:
    """How many rows there are."""
    return int(frame.num_rows) if hasattr(frame, "num_rows") else len(frame)


def pick_columns(frame: Any, names: Sequence[str], what: str) -> Any:
    """Some columns, as a frame of the same kind; `what` names the argument that asked for them."""
    if isinstance(names, str) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be the names of columns, such as ['age', 'country'], got {names!r}.")
    given = narwhal(frame)
    for name in names:
        if name not in given.columns:
            raise InputError(f"{what} names column {name!r}; the data frame has: {', '.join(given.columns[:12])}.")
    return given.select(list(names)).to_native()


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """A frame of these columns: of the library that is named, or of the first that is installed."""
    if backend is None:
        backend = next((name for name in BACKENDS if find_spec(name) is not None), None)
        if backend is None:
            raise InputError(missing_extra("a data frame", "pandas, polars or pyarrow", "logs"))
    backend = check_choice("backend", backend, tuple(BACKENDS))
    try:
        make = getattr(import_module(backend), BACKENDS[backend])
    except ImportError:
        raise InputError(f"{backend} is not installed: pip install {backend}.") from None
    return make(dict(columns))


class Tabular:
    """A result that has rows: `to_frame` for analysts, a table for notebooks."""

    __slots__ = ()

    def columns(self) -> dict[str, list[Any]]:
        """The rows, column by column, as plain values."""
        raise NotImplementedError

    def headline(self) -> str:
        """What stands above the table in a notebook."""
        return ""

    def __str__(self) -> str:
        return "\n".join(map(visible, self.headline().splitlines())) or repr(self)

    def to_frame(self, backend: str | None = None) -> Any:
        """The rows as a data frame: of "pandas", "polars" or "pyarrow"; of the first that is installed by default."""
        return make_frame(self.columns(), backend)

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = list(zip(*columns.values(), strict=True))
        head = "".join(f"<th>{_text(name)}</th>" for name in columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{_text(_cell(value))}</td>' for value in row)}</tr>" for row in rows[:_SHOWN]
        )
        more = f"<p>… and {len(rows) - _SHOWN:,} more rows</p>" if len(rows) > _SHOWN else ""
        above = "".join(f"<p>{_text(line)}</p>" for line in self.headline().splitlines())
        return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _text(value: object) -> str:
    return html.escape(visible(value))
