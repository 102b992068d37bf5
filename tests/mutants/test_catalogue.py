"""The mutants can be made, and the tests that must catch them exist; `make mutants` runs them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, main
from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.mutating import PACKAGE, mutate

SOURCE = '''
def area(width, height):
    """Of a rectangle."""
    if width < 0: raise ValueError("negative")
    return width * height  # both in metres


class Shape:
    def scaled(self, by):
        def one(side):
            return side*by
        return Shape(one(self.width), height=one(self.height))

    def other(self, by):
        return (by
                * 2)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "shapes.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def changed(package: Path, place: str, old: str, new: str) -> str:
    """The mutated source, in plain formatting."""
    return mutate(Mutant(place, old, new, "a shape is wrong", ()), package)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.why)
def test_the_place_is_there_and_can_be_changed(mutant: Mutant) -> None:
    source = (PACKAGE / mutant.place.partition("::")[0]).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(mutate(mutant))) != ast.dump(ast.parse(source))
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name.partition('[')[0]}(" in text


def test_no_mutant_is_listed_twice() -> None:
    changes = [(mutant.place, mutant.old, mutant.new) for mutant in MUTANTS]
    assert [change for change in changes if changes.count(change) > 1] == []
    assert len({mutant.why for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("place", "old", "new", "before", "after"),
    [
        ("area", "width*height", "width + height", "width * height", "width + height"),
        ("area", "width < 0", "False", "if width < 0:", "if False:"),
        ("area", "if width < 0:\n    raise ValueError('negative')", "pass", "if width < 0:", None),
        ("Shape.scaled.one", "side * by", "side", "return side * by", "return side"),
        ("Shape.scaled", "(height=one(self.height))", "()", ", height=one(self.height)", ""),
        ("Shape.scaled", "(height=one(self.height))", "(height=0)", "height=one(self.height)", "height=0"),
        ("Shape.other", "by * 2", "by", "return by * 2", "return by"),
    ],
)
def test_a_pattern_is_found_however_it_is_written(
    package: Path, place: str, old: str, new: str, before: str, after: str | None
) -> None:
    plain = ast.unparse(ast.parse(SOURCE))
    assert before in plain
    expected = ast.parse(plain.replace(before, after)) if after is not None else None
    found = ast.parse(changed(package, f"shapes.py::{place}", old, new))
    if expected is not None:
        assert ast.dump(found) == ast.dump(expected)
    else:
        assert "negative" not in ast.unparse(found)


def test_a_pattern_that_is_not_there_once_is_named_with_where_it_is(package: Path) -> None:
    with pytest.raises(LookupError, match=r"must stand once in shapes.py::area, but stands there 0 times.*: nowhere"):
        changed(package, "shapes.py::area", "no_such_name", "1")
    with pytest.raises(LookupError, match=r"stands there 0 times; in the package: shapes.py::Shape.scaled.one\."):
        changed(package, "shapes.py::Shape.scaled", "side * by", "1")
    with pytest.raises(LookupError, match=r"stands there 0 times; in the package: shapes.py::area, shapes.py::area"):
        changed(package, "gone.py", "width", "1")
    with pytest.raises(LookupError, match="stands there 2 times"):
        changed(package, "shapes.py::area", "width", "1")
    with pytest.raises(LookupError, match="must both be an expression, arguments by name in parentheses, or whole"):
        changed(package, "shapes.py::area", "if width < 0:", "if False:")


def test_what_is_not_found_is_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mutant("page/problem.py", "no_such_name", "1", "a name that the source does not have", ())
    monkeypatch.setattr("tests.mutants.__main__.MUTANTS", (gone,))
    assert main([]) == 1
    assert "0 of 1 patterns were found" in capsys.readouterr().out
