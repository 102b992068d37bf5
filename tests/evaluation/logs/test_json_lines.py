"""JSON lines read as a whole are those read one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comband.evaluation.logs import json_lines
from comband.evaluation.logs.columns import as_rewards
from comband.evaluation.logs.faults import Faults

NAMES = ("a", "b")
NUMBERS = [0, 1, -3, 2**53, -(2**63), 2**63, 2**70, 1.5, 1.0, -0.0, 1e308, float("nan"), float("inf")]
TEXTS = ["", "x", "7", "007", "é", "2020-01-01", "2020-01-01T00:00:00Z", "\U0001f600", "\ud83d"]
OTHERS = [None, True, [], [1, 2], [3, 4], [1, 2.5], [1, None], [1], ["p", "q"], [[1], [2]], {"x": 1}]
VALUES: list[Any] = [*NUMBERS, *TEXTS, *OTHERS]
DAMAGE = [
    '{"a": 1, "b": 2, "c": Inf}',
    '{"a": 1, "b": 2, "c": -NaN}',
    '{"a": 1, "b": 2, "c": {"d": 1}}',
    "{}",
    "[1]",
    "",
    " ",
    "nonsense",
    '{"a": 1, "a": 2}',
    '{"a": 1} {"a": 2}',
    '{"a":',
    '{"b": 1}}',
]


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Mostly lines that are alike, now and then something else."""
    usual = {name: draw(st.sampled_from(VALUES)) for name in NAMES}
    lines = []
    for _ in range(draw(st.integers(1, 5))):
        record = dict(usual)
        if draw(st.integers(0, 4)) == 0:
            record[draw(st.sampled_from(NAMES))] = draw(st.sampled_from(VALUES))
        line = json.dumps(record, ensure_ascii=draw(st.booleans()))
        lines.append(draw(st.sampled_from(DAMAGE)) if draw(st.integers(0, 9)) == 0 else line)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return start + (end.join(lines) + draw(st.sampled_from(["", end]))).encode(errors="surrogatepass")


def read(path: Path) -> tuple[list[int], dict[str, list[Any]], dict[str, int]]:
    rows: list[int] = []
    columns: dict[str, list[Any]] = {name: [] for name in NAMES}
    faults = Faults("a file")
    for numbers, found in json_lines.json_columns(path, NAMES, faults):
        rows += numbers.tolist()
        for name, column in found.items():
            columns[name] += column if isinstance(column, list) else column.to_pylist()
    return rows, columns, dict(faults.counts)


def as_number(value: Any) -> Any:
    """Among numbers with a fraction Arrow has 1 as 1.0, whoever gave it the numbers."""
    if isinstance(value, list):
        return [as_number(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value


def seen(path: Path) -> str:
    rows, columns, faults = read(path)
    return repr((rows, {name: [as_number(value) for value in column] for name, column in columns.items()}, faults))


@given(content=files(), size=st.sampled_from([1, 30, 1 << 23]))
@settings(deadline=None, max_examples=300)
def test_as_a_whole_or_line_by_line(content: bytes, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("lines") / "file.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "_regular", lambda block, columns: None)
        expected = seen(path)
        patch.undo()
        patch.setattr(json_lines, "_BLOCK", size)
        assert seen(path) == expected


def test_what_is_alike_is_read_as_a_whole() -> None:
    lines = [{"a": i, "b": [i, i + 1], "c": [0.5, 1], "d": "x"} for i in range(3)]
    block = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    found = json_lines._regular(block, ["a", "b", "c", "d"])
    assert found is not None
    assert found["b"].to_pylist() == [[0, 1], [1, 2], [2, 3]]
    np.testing.assert_array_equal(found["c"].flatten().to_numpy(), [0.5, 1] * 3)
    assert json_lines._regular(block, ["a", "e"]) is None
    assert json_lines._regular(block + b'{"a": 2.5}\n', ["b"]) is None


DEEP = ["[" * 50_000 + "]" * 50_000, '{"y":' * 12_000 + "1" + "}" * 12_000]


@pytest.mark.parametrize("value", [*DEEP, "7" * 5000, "-Inf"], ids=["lists", "objects", "digits", "infinity"])
def test_what_nobody_asked_for_is_looked_at_all_the_same(value: str, tmp_path: Path) -> None:
    path, faults = tmp_path / "file.jsonl", Faults("a file")
    path.write_text(f'{{"a": 1, "x": {value}}}\n' * 2)
    assert list(json_lines.json_columns(path, ["a"], faults)) == []
    assert dict(faults.counts) == {"unreadable row": 2}


def test_maps_that_nobody_asked_for_make_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text("".join(f'{{"a": {i}, "x": {{"user {i}": 1}}}}\n' for i in range(2000)))
    [(rows, found)] = json_lines.json_columns(path, ["a"], Faults("a file"))
    assert found == {"a": list(range(2000))}
    assert rows.tolist() == list(range(1, 2001))


@pytest.mark.parametrize("more", [[], [1, 0.5], [True], [None]])
def test_rewards_in_words_do_not_depend_on_others(more: list[Any]) -> None:
    found = as_rewards(["True", "FALSE", "true", *more])
    assert found.values[:3].tolist() == [1, 0, 1]
    assert not found.wrong.any()
    np.testing.assert_array_equal(as_rewards(pyarrow.array(["True", "FALSE"])).values, [1, 0])
