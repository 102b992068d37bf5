"""The mutants can be made, and the tests that must catch them exist; `make mutants` runs them."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import ROOT, main, place_of
from tests.mutants.catalogue import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.why)
def test_the_line_is_there_and_can_be_changed(mutant: Mutant) -> None:
    source = place_of(mutant).read_text()
    changed = source.replace(mutant.old, mutant.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        assert not name or f"def {name.partition('[')[0]}(" in text


def test_a_text_that_is_gone_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mutant("problem.py", "no such line", "", "a line that nobody wrote", ())
    with pytest.raises(LookupError, match=r"must be found once in .* but is found nowhere"):
        place_of(gone)
    many = Mutant("problem.py", "import", "", "a text of many places", ())
    with pytest.raises(LookupError, match="times in "):
        place_of(many)
    monkeypatch.setattr("tests.mutants.__main__.MUTANTS", (gone,))
    assert main([]) == 1
    assert "0 of 1 texts were found" in capsys.readouterr().out
