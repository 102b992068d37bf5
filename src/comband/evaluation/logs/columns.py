"""Columns of a file as checked numpy arrays: numbers, keys (whole numbers or text), and lists of either."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.tables import arrow, cast_where_possible
from comband.page.catalogue import spelt_number
from comband.page.text import quoted

Column = Any
"""An Arrow array (Parquet, CSV, JSON lines that are alike) or a plain list (JSON lines)."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Values with two masks: `missing` (null) and `wrong` (there, but not of the type that is needed)."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Missing or wrong."""
        return self.missing | self.wrong


Converter = Callable[[Column], Converted]


def as_floats(column: Column) -> Converted:
    """Numbers; missing ones become NaN. Text is read as numbers (CSV has nothing else)."""
    if isinstance(column, list):
        column = _as_arrow(column)
        if isinstance(column, list):
            return _each(column, np.float64, np.nan, _plain_float)
    pa = arrow()
    column = _without_dictionary(column)
    missing = _nulls(column)
    wrong = np.zeros(len(column), dtype=bool)
    if pa.types.is_null(column.type):
        return Converted(np.full(len(column), np.nan), missing, wrong)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # the closest number, whatever the scale: Arrow's own way is off by a digit
    try:
        values = column.cast(pa.float64())
    except pa.ArrowInvalid:
        values, wrong = cast_where_possible(column, pa.float64())
    except pa.ArrowException:  # a type that holds no numbers
        return Converted(np.full(len(column), np.nan), missing, ~missing)
    return Converted(values.to_numpy(zero_copy_only=False), missing, wrong)


# As programs and databases write truth values into text.
_TRUE, _FALSE = ("true", "t", "yes", "y"), ("false", "f", "no", "n")


def as_rewards(column: Column) -> Converted:
    """Numbers as by `as_floats`, or true and false for 1 and 0, also spelt as in CSV files (True, FALSE, t, yes)."""
    if isinstance(column, list):
        return as_floats([_said(value) for value in column])
    pa = arrow()
    column = _without_dictionary(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        import pyarrow.compute as pc

        said = pc.utf8_lower(column)
        for spelt, number in ((_TRUE, "1"), (_FALSE, "0")):
            column = pc.if_else(pc.is_in(said, value_set=pa.array(spelt, type=said.type)), number, column)
    return as_floats(column)


def _said(value: Any) -> Any:
    """1 and 0 for true and false, spelt or not; all else as it is."""
    if isinstance(value, str):
        return 1.0 if value.lower() in _TRUE else 0.0 if value.lower() in _FALSE else value
    return float(value) if isinstance(value, bool) else value


def as_keys(column: Column) -> Converted:
    """Whole numbers as int64 when all are, text otherwise; text that spells whole numbers counts as such, and dates and
    times are text.
    """
    column = _as_arrow(column) if isinstance(column, list) else column
    if not isinstance(column, list):
        pa = arrow()
        column = _without_dictionary(column)
        kind = column.type
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            column = _spelt_times(column)
            kind = column.type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        whole = pa.types.is_integer(kind)
        if not (text or whole or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            missing = _nulls(column)
            return Converted(np.zeros(len(column), dtype=np.int64), missing, ~missing)
        if (text or whole) and column.null_count == 0:
            try:
                numbers = column.cast(pa.int64())
            except pa.ArrowInvalid:
                numbers = None
            if numbers is not None and numbers.cast(kind).equals(column):  # not for "007"
                return _all_good(np.asarray(numbers))
        column = column.to_pylist()
    missing = np.fromiter((value is None for value in column), dtype=bool, count=len(column))
    texts = [_key(value) for value in column]
    wrong = np.fromiter((text is None for text in texts), dtype=bool, count=len(texts)) & ~missing
    numbers = [None if text is None else spelt_number(text) for text in texts]
    if all(number is not None or text is None for number, text in zip(numbers, texts, strict=True)):
        return Converted(np.array([0 if number is None else number for number in numbers], np.int64), missing, wrong)
    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return Converted(values, missing, wrong)


def _spelt_times(column: Column) -> Column:
    """Dates and times as text, the same whether they are stored in seconds or in parts of them."""
    import pyarrow.compute as pc

    spelt = pc.replace_substring_regex(column.cast(arrow().string()), r"(\.\d*?)0+(Z?)$", r"\1\2")
    return pc.replace_substring_regex(spelt, r"\.(Z?)$", r"\1")


def bad_keys(column: Column, found: Converted, what: str) -> list[tuple[int, str, str]]:
    """The entries that `as_keys` found to be no keys: (position, kind of fault, what is wrong)."""
    told = [(int(i), "missing value", f"no {what}") for i in np.flatnonzero(found.missing)]
    for i in np.flatnonzero(found.wrong):
        value = plain(column[int(i)])
        told.append(
            (int(i), "wrong type", f"{what} must be whole numbers or text, got {quoted(value)}{_dates([value])}")
        )
    return told


@dataclass(frozen=True, slots=True)
class Matrix:
    """Lists of one length as (n, m): only the `kept` rows of the piece; `dropped` says why the others are not here.

    `lengths` are those of lists that may be shorter than m; their values are then undetermined behind.
    """

    values: NDArray[Any]
    kept: NDArray[np.int64]
    dropped: list[tuple[int, str, str]]
    lengths: NDArray[np.int64] | None = None


def list_columns(names: Sequence[str], plural: str, singular: str) -> list[str] | None:
    """The columns that hold lists: [`plural`], or [`singular`_0, `singular`_1, …], counted from 0 or 1; or None."""
    if plural in names:
        return [plural]
    first = 0 if any(f"{one}_0" in names for one in ("item", "reward", "propensity")) else 1  # all lists alike
    numbered: list[str] = []
    while f"{singular}_{first + len(numbered)}" in names:
        numbered.append(f"{singular}_{first + len(numbered)}")
    return numbered or None


def as_matrix(
    columns: Sequence[Column], convert: Converter, *, list_size: int, what: str, ragged: bool = False
) -> Matrix:
    """One list column, or one column a position, as (n, list_size); `what` names the content in messages.

    Missing numbers stay as NaN: what a missing number means is for the reader to say. Lists in one column that are
    `ragged` may be shorter, but not empty.
    """
    dropped: list[tuple[int, str, str]] = []
    if ragged and len(columns) == 1 and _is_lists(columns[0], list_size):
        return _ragged(columns[0], convert, list_size, what)
    if len(columns) == 1 and _is_lists(columns[0], list_size):
        flat, kept = _flatten(columns[0], list_size, what, dropped)
    else:
        n = len(columns[0])
        kept = np.arange(n)
        if len(columns) != list_size:
            dropped += [(i, "list length", f"{len(columns)} {what}, {list_size} expected") for i in range(n)]
            return Matrix(np.empty((0, list_size)), np.empty(0, dtype=np.int64), dropped)
        flat = _interleave(columns)
    converted = convert(flat)
    values = converted.values.reshape(len(kept), list_size)
    wrong = _rows_with(converted.wrong, values)
    if values.dtype != np.float64:  # no NaN among keys: a missing one drops its row
        missing = _rows_with(converted.missing, values) & ~wrong
        dropped += [(int(kept[i]), "missing value", f"one of the {what} is missing") for i in np.flatnonzero(missing)]
        wrong_or_missing = wrong | missing
    else:
        wrong_or_missing = wrong
    for i in np.flatnonzero(wrong):
        raw = [plain(flat[int(i) * list_size + j]) for j in range(list_size)]
        got = quoted(raw[0] if list_size == 1 else raw)
        text = f"{what} must be {_needs(values)}, got {got}{_dates(raw)}{_commas(raw)}"
        dropped.append((int(kept[i]), "wrong type", text))
    if wrong_or_missing.any():
        good = ~wrong_or_missing
        values, kept = values[good], kept[good]
    return Matrix(values, kept, dropped)


def _ragged(column: Column, convert: Converter, list_size: int, what: str) -> Matrix:
    """Lists of up to `list_size`: what they end with is repeated, and `lengths` tell how much of them is theirs."""
    lengths = list_lengths(column)
    padded: list[Any] = [plain(entry) for entry in column]
    for i in np.flatnonzero((lengths > 0) & (lengths < list_size)):
        padded[i] = padded[i] + padded[i][-1:] * (list_size - int(lengths[i]))
    found = as_matrix([padded], convert, list_size=list_size, what=what)
    return Matrix(found.values, found.kept, found.dropped, lengths[found.kept])


def list_lengths(column: Column) -> NDArray[np.int64]:
    """How long each list of a column is; 0 for what is none."""
    return np.array([len(e) if isinstance(e := plain(entry), list) else 0 for entry in column], dtype=np.int64)


def _rows_with(mask: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[np.bool_]:
    """The rows of a matrix of values in which the mask has one; mostly it has none, which is seen at once."""
    if not mask.any():
        return np.zeros(len(values), dtype=bool)
    return np.asarray(mask.reshape(values.shape).any(axis=1))


def _needs(values: NDArray[Any]) -> str:
    return "numbers" if values.dtype == np.float64 else "whole numbers or text"


def _dates(values: list[Any]) -> str:
    """What to do with dates and times where keys are needed."""
    return "; make text of dates and times" if any(isinstance(value, (date, time)) for value in values) else ""


def _commas(values: list[Any]) -> str:
    """What to do with numbers as some countries write them."""
    comma = any(isinstance(value, str) and re.fullmatch(r"-?\d+,\d+", value) for value in values)
    return "; write numbers with a decimal point" if comma else ""


def _is_lists(column: Column, list_size: int) -> bool:
    if isinstance(column, list):
        return list_size != 1 or any(isinstance(entry, list) for entry in column)
    pa = arrow()
    return bool(
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    )


def _flatten(
    column: Column, list_size: int, what: str, dropped: list[tuple[int, str, str]]
) -> tuple[Column, NDArray[np.int64]]:
    if isinstance(column, list):
        kept_rows = []
        flat: list[Any] = []
        for i, entry in enumerate(column):
            if entry is None:
                dropped.append((i, f"missing {what}", f"no {what}"))
            elif not isinstance(entry, list):
                dropped.append((i, "wrong type", f"{what} must be a list, got {quoted(entry)}"))
            elif len(entry) != list_size:
                dropped.append((i, "list length", f"{len(entry)} {what}, {list_size} expected"))
            else:
                kept_rows.append(i)
                flat += entry
        return flat, np.asarray(kept_rows, dtype=np.int64)
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    good = lengths == list_size
    if not good.all():
        for row in np.flatnonzero(~good):
            if lengths[row] < 0:
                dropped.append((int(row), f"missing {what}", f"no {what}"))
            else:
                dropped.append((int(row), "list length", f"{lengths[row]} {what}, {list_size} expected"))
        column = column.filter(arrow().array(good))
    return column.flatten(), np.flatnonzero(good)


def _interleave(columns: Sequence[Column]) -> Column:
    """Columns, one a position, as one flat column in row order."""
    if isinstance(columns[0], list):
        return [value for row in zip(*columns, strict=True) for value in row]
    if len(columns) == 1:
        return columns[0]
    pa = arrow()
    n, m = len(columns[0]), len(columns)
    kinds = {str(column.type) for column in columns}
    if len(kinds) > 1:
        return [plain(value) for row in zip(*columns, strict=True) for value in row]
    order = (np.arange(n)[:, None] + n * np.arange(m)[None, :]).ravel()
    return pa.concat_arrays(columns).take(pa.array(order))


def _as_arrow(values: list[Any]) -> Column:
    """Plain values as an Arrow array if they are all numbers or all text: then the rest is fast."""
    pa = arrow()
    if bool in set(map(type, values)):  # among numbers Arrow would take true for 1
        return values
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        return values
    number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    return array if number or pa.types.is_string(array.type) else values


def _each(values: list[Any], dtype: Any, blank: Any, convert: Callable[[Any], Any]) -> Converted:
    n = len(values)
    result = np.full(n, blank, dtype=dtype)
    missing, wrong = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    for i, value in enumerate(values):
        if value is None:
            missing[i] = True
            continue
        number = convert(value)
        if number is None:
            wrong[i] = True
        else:
            result[i] = number
    return Converted(result, missing, wrong)


def _plain_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _key(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return None


def _nulls(column: Column) -> NDArray[np.bool_]:
    if column.null_count == 0:
        return np.zeros(len(column), dtype=bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _all_good(values: NDArray[Any]) -> Converted:
    none = np.zeros(len(values), dtype=bool)
    return Converted(values, none, none)


def _without_dictionary(column: Column) -> Column:
    return column.dictionary_decode() if arrow().types.is_dictionary(column.type) else column


def plain(value: Any) -> Any:
    """An entry of a column as a Python value; its type where Python has none for it, such as a far date."""
    if not hasattr(value, "as_py"):
        return value
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return value.type
