"""The code and its pages keep to the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.documents import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
MADE = {ROOT / "docs" / "cli.md", ROOT / "docs" / "settings.md"}


def banned() -> dict[str, str]:
    """Words that are not used, with what to write instead."""
    table = GLOSSARY.read_text(encoding="utf-8").split("## Words that are not used", 1)[1]
    found: dict[str, str] = {}
    for left, right in re.findall(r"^\| (`.*) \| (.*) \|$", table, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`([^`]*)`", left), right)
    return found


def pages() -> Iterator[Path]:
    for folder, ending in (("src", "py"), ("docs", "md"), ("examples", "py")):
        yield from (path for path in (ROOT / folder).rglob(f"*.{ending}") if "_build" not in path.parts)
    yield ROOT / "README.md"


def uses(text: str, words: str) -> bool:
    """Whether they stand there as words, also across a line's end or as a name of the code."""
    return (
        re.search(r"(?<![^\W_])" + r"[\s\"'#f]+".join(words.split()) + r"(?![^\W_])", text, re.IGNORECASE) is not None
    )


def test_words_that_are_not_used_are_not_used() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {words!r}, write {instead}"
        for path in pages()
        if path != GLOSSARY and path not in MADE
        for text in [path.read_text(encoding="utf-8")]
        for words, instead in banned().items()
        if uses(text, words)
    }
    assert sorted(wrong) == []


def test_code_says_what_acts() -> None:
    """A candidate, a process, a caller; or in the passive: "is not read", not "nobody reads it"."""
    people = ("nobody", "whoever", "somebody", "everybody", "anybody", "someone", "everyone", "anyone")
    wrong = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in (ROOT / "src").rglob("*.py")
        for text in [path.read_text(encoding="utf-8")]
        for word in people
        if uses(text, word)
    }
    assert sorted(wrong) == []


def test_the_table_is_read_and_words_are_found() -> None:
    words = banned()
    assert words["chances"] == "propensities, or probabilities"
    assert words["row an action"] == words["one a line"]
    assert uses("self._chances = 1", "chances")
    assert uses('f"two clicks a "\n    f"round."', "clicks a round")
    assert not uses("by chance", "chances")
    assert not uses("a clicks around", "clicks a round")


def test_every_word_has_one_row() -> None:
    words = re.findall(r"^\| \*\*([\w ]+)\*\*", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(words) > 25
    assert len(words) == len(set(words))
