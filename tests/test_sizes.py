"""Files and classes stay small, or CONTRIBUTING.md says why not."""

from __future__ import annotations

import ast
import re

from tests.documents import ROOT

LARGEST_FILE, LARGEST_CLASS = 550, 220


def excused() -> set[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Sizes", 1)[1].split("\n## ", 1)[0]
    return {name for names in re.findall(r"^- ((?:`[^`]+`(?:, )?)+):", text, re.MULTILINE) for name in _names(names)}


def _names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def large() -> dict[str, int]:
    """Lines of each file (by its path below comband) and class that are too many."""
    found = {}
    for path in (ROOT / "src" / "comband").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if (n := text.count("\n")) > LARGEST_FILE:
            found[path.relative_to(ROOT / "src" / "comband").as_posix()] = n
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and (n := (node.end_lineno or 0) - node.lineno + 1) > LARGEST_CLASS:
                found[node.name] = n
    return found


def test_what_is_large_is_excused() -> None:
    sizes, reasons = large(), excused()
    assert {name: n for name, n in sizes.items() if name not in reasons} == {}, "make it smaller, or say why not"
    assert reasons - set(sizes) == set(), "these have shrunk: they need no excuse any more"
